//! The figures of the benchmark: each value beside its aim and beside the values of other libraries. `xtask` includes this file.

use std::{collections::BTreeMap, fmt, fs, io, ops::Not, path::Path};

use serde::{Deserialize, Serialize};

/// The library whose values some aims refer to.
pub(crate) const RMCP: &str = "rmcp";
/// The names of the programs that each measurement has: ours, and the bare peer.
pub(crate) const OURS: &str = "ours";
pub(crate) const BARE: &str = "bare";

/// A measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// The name of the case.
    pub(crate) id: String,
    pub(crate) title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<String>,
    /// The unit of the value. It is empty for a ratio to the bare limit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) unit: String,
    pub(crate) value: f64,
    #[serde(default, skip_serializing_if = "Aim::is_none")]
    pub(crate) aim: Aim,
    /// The same value of other libraries, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers: BTreeMap<String, f64>,
    /// The calls in a second, by library.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) rates: BTreeMap<String, f64>,
    /// The CPU time of a call of the bare peer, by that of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cpu: Option<f64>,
    /// The least and the largest ratio of the rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spread: Option<(f64, f64)>,
    /// The nanoseconds until the core of the load has a value that the core of the servers wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) handover: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) doubts: Vec<Doubt>,
    /// Whether the run measured the figure twice, because the cores had no cache in common at first.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub(crate) repeated: bool,
}

/// A reason why a figure is not reliable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Doubt {
    /// Beside the bare peer, the load or the server of a client used its whole core. The ratio is then too high.
    Limited,
    /// Other processes used the cores during the rounds.
    Disturbed,
    /// The cores had no cache in common during the rounds, so each byte between them needs more time.
    Distant,
    /// The late work of a program did not end before its round.
    Late,
    /// A library that the run should compare has no value.
    Incomplete,
}

impl Doubt {
    /// The mark behind a value.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Limited => " (limited)",
            Self::Disturbed => " (disturbed)",
            Self::Distant => " (distant)",
            Self::Late => " (late)",
            Self::Incomplete => " (incomplete)",
        }
    }
}

/// A measured value at several sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) id: String,
    pub(crate) title: String,
    /// The name of the size.
    pub(crate) axis: String,
    pub(crate) unit: String,
    pub(crate) points: Vec<Point>,
    /// The cost at each size, in seconds.
    pub(crate) cost: Vec<Point>,
    /// The same value of a server to compare with, measured in turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) beside: Option<Curve>,
}

/// A named second curve of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Curve {
    /// The name of the first curve.
    pub(crate) first: String,
    /// The name of this curve.
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
    /// The cost at each size, in seconds. It is empty if the growth of the curve is not of interest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) cost: Vec<Point>,
}

/// A value at a size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// The wanted bound of a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Aim {
    AtMost(f64),
    AtLeast(f64),
    /// A multiple of the value of rmcp. Without that value, the figure is information only.
    AtMostRmcp(f64),
    AtLeastRmcp(f64),
    /// Information only.
    #[default]
    None,
}

impl Aim {
    fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Whether the bound is a multiple of the value of rmcp.
    fn is_multiple(self) -> bool {
        matches!(self, Self::AtMostRmcp(_) | Self::AtLeastRmcp(_))
    }

    /// Compares a value with the bound.
    pub(crate) fn is_met(self, value: f64, rmcp: Option<f64>) -> bool {
        match (self, rmcp) {
            (Self::AtMost(most), _) => value <= most,
            (Self::AtLeast(least), _) => value >= least,
            (Self::AtMostRmcp(factor), Some(rmcp)) => value <= rmcp * factor,
            (Self::AtLeastRmcp(factor), Some(rmcp)) => value >= rmcp * factor,
            (Self::AtMostRmcp(_) | Self::AtLeastRmcp(_), None) | (Self::None, _) => true,
        }
    }

    /// The bound as text.
    pub(crate) fn text(self, unit: &str) -> String {
        match self {
            Self::AtMost(most) => format!("<= {most}{}", spaced(unit)),
            Self::AtLeast(least) => format!(">= {least}{}", spaced(unit)),
            Self::AtMostRmcp(1.0) => "<= rmcp".to_owned(),
            Self::AtMostRmcp(factor) => format!("<= {factor} x rmcp"),
            Self::AtLeastRmcp(1.0) => ">= rmcp".to_owned(),
            Self::AtLeastRmcp(factor) => format!(">= {factor} x rmcp"),
            Self::None => "-".to_owned(),
        }
    }
}

impl Figure {
    /// The value with about three digits, or with more if they show the verdict about the aim.
    pub(crate) fn shown(&self) -> String {
        self.with_verdict(self.value, |value| Self { value, ..self.clone() })
    }

    /// Rounds a value as far as the verdict about the aim permits.
    fn with_verdict(&self, value: f64, replaced: impl Fn(f64) -> Self) -> String {
        let is_right = |text: &String| text.parse().is_ok_and(|rounded| replaced(rounded).is_met() == self.is_met());
        let precise = (3..=6).map(|digits| format!("{value:.digits$}"));
        std::iter::once(number(value)).chain(precise).find(is_right).unwrap_or_else(|| value.to_string())
    }

    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>, value: f64, unit: &str, aim: Aim) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            revision: None,
            unit: unit.to_owned(),
            value,
            aim,
            peers: BTreeMap::new(),
            rates: BTreeMap::new(),
            cpu: None,
            spread: None,
            handover: None,
            doubts: Vec::new(),
            repeated: false,
        }
    }

    /// The case and the revision.
    fn name(&self) -> String {
        [Some(&*self.id), self.revision.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Compares the value with its aim. A figure misses its aim if the run could not measure rmcp for it. A ratio that is too high does
    /// not count: the ratio of the CPU times counts instead, and without it the figure misses its aim.
    pub(crate) fn is_met(&self) -> bool {
        let rmcp = self.peers.get(RMCP).copied();
        let is_unknown = self.aim.is_multiple() && rmcp.is_none() && self.doubts.contains(&Doubt::Incomplete);
        let value = if self.is_too_high() { self.cpu } else { Some(self.value) };
        !is_unknown && value.is_some_and(|value| self.aim.is_met(value, rmcp))
    }

    /// Whether the value is a lower bound's ratio to a peer that the load limited.
    fn is_too_high(&self) -> bool {
        matches!(self.aim, Aim::AtLeast(_)) && self.doubts.contains(&Doubt::Limited)
    }

    /// The marks of its doubts. That of a limited load contains the ratio of the CPU times, which counts instead of the value.
    pub(crate) fn marks(&self) -> String {
        let mark = |doubt: &Doubt| match self.cpu.filter(|_| *doubt == Doubt::Limited && self.is_too_high()) {
            Some(cpu) => {
                let cpu = self.with_verdict(cpu, |cpu| Self { cpu: Some(cpu), ..self.clone() });
                format!(" (limited: {cpu})")
            }
            None => doubt.mark().to_owned(),
        };
        self.doubts.iter().map(mark).collect()
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = match &self.revision {
            Some(revision) => format!("{}, {revision}", self.title),
            None => self.title.clone(),
        };
        let mark = if self.is_met() { " " } else { "!" };
        let shown = |value: f64| format!("{}{}", number(value), spaced(&self.unit));
        let value = format!("{}{}", self.shown(), spaced(&self.unit));
        write!(f, "{title:<62} {value:>12} {:>14}{mark}", self.aim.text(&self.unit))?;
        for (name, value) in &self.peers {
            write!(f, "  {name} {}", shown(*value))?;
        }
        f.write_str(&self.marks())
    }
}

fn spaced(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" {unit}") }
}

/// A number with about three digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 10.0 && size.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Writes figures as JSON.
pub(crate) fn write<T: Serialize>(path: &Path, values: &T) -> Result<(), io::Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, serde_json::to_string_pretty(values)? + "\n")
}

/// Names the figures that miss their aims; none if all figures meet them.
pub(crate) fn missed(figures: &[Figure]) -> Option<String> {
    let names: Vec<String> = figures.iter().filter(|figure| !figure.is_met()).map(Figure::name).collect();
    (!names.is_empty()).then(|| format!("{}: {}", misses(names.len()), names.join(", ")))
}

/// Names the figures without a verdict: their aims are multiples of a value of rmcp, which the run did not request. Returns `None` if each
/// figure has a verdict. A figure whose requested value is absent misses its aim, so it has a verdict.
pub(crate) fn without_verdict(figures: &[Figure]) -> Option<String> {
    let is_open = |figure: &&Figure| figure.aim.is_multiple() && figure.is_met() && !figure.peers.contains_key(RMCP);
    let names: Vec<String> = figures.iter().filter(is_open).map(Figure::name).collect();
    (!names.is_empty()).then(|| format!("no verdict without a value of rmcp (--peers): {}", names.join(", ")))
}

/// The number of figures that miss their aims, as text.
pub(crate) fn misses(count: usize) -> String {
    if count == 1 { "1 figure misses its aim".to_owned() } else { format!("{count} figures miss their aims") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_meets_its_aim_on_one_side() {
        for (aim, value, rmcp, is_met) in [
            (Aim::AtMost(1.3), 1.3, None, true),
            (Aim::AtMost(1.3), 1.31, None, false),
            (Aim::AtLeast(0.6), 0.6, None, true),
            (Aim::AtLeast(0.6), 0.59, None, false),
            (Aim::AtLeast(0.6), f64::NAN, None, false),
            (Aim::AtMostRmcp(1.0), 2.1, Some(2.0), false),
            (Aim::AtMostRmcp(1.0), 2.0, Some(2.0), true),
            (Aim::AtLeastRmcp(2.0), 3.9, Some(2.0), false),
            (Aim::AtLeastRmcp(2.0), 4.0, Some(2.0), true),
            (Aim::AtLeastRmcp(2.0), 0.0, None, true),
            (Aim::None, 9.0, Some(1.0), true),
        ] {
            assert_eq!(aim.is_met(value, rmcp), is_met, "{aim:?} {value} {rmcp:?}");
        }
    }

    #[test]
    fn the_cpu_ratio_counts_beside_a_limited_peer() {
        for (aim, doubts, cpu, is_met) in [
            (Aim::AtLeast(0.9), &[] as &[Doubt], None, true),
            (Aim::AtLeast(0.9), &[Doubt::Limited], None, false),
            (Aim::AtLeast(0.9), &[Doubt::Limited], Some(0.89), false),
            (Aim::AtLeast(0.9), &[Doubt::Disturbed, Doubt::Limited], Some(0.9), true),
            (Aim::AtLeast(0.9), &[Doubt::Disturbed], Some(0.1), true),
            (Aim::AtMost(1.5), &[Doubt::Limited], None, true),
            (Aim::AtLeastRmcp(2.0), &[Doubt::Limited], Some(0.1), true),
        ] {
            let figure = Figure { cpu, doubts: doubts.to_vec(), ..Figure::new("a", "a", 1.14, "", aim) };
            assert_eq!(figure.is_met(), is_met, "{figure:?}");
            let is_shown = cpu.is_some() && doubts.contains(&Doubt::Limited) && matches!(aim, Aim::AtLeast(_));
            assert_eq!(figure.marks().contains("(limited: 0."), is_shown, "{figure:?}");
        }
    }

    #[test]
    fn a_rounded_value_shows_the_verdict() {
        for (value, aim, shown) in [
            (0.795, Aim::AtLeast(0.8), "0.795"),
            (0.79, Aim::AtLeast(0.8), "0.79"),
            (0.7996, Aim::AtLeast(0.8), "0.7996"),
            (0.8, Aim::AtLeast(0.8), "0.80"),
            (1.504, Aim::AtMost(1.5), "1.504"),
            (0.795, Aim::None, "0.80"),
        ] {
            assert_eq!(Figure::new("case", "case", value, "", aim).shown(), shown);
        }
    }

    #[test]
    fn numbers_have_about_three_digits() {
        for (value, text) in
            [(115.0, "115"), (64.0, "64"), (64.25, "64.2"), (5.0, "5.00"), (1234.5, "1234"), (0.0, "0.00")]
        {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn figures_survive_json_and_name_their_misses() {
        let mut figure = Figure::new("start", "cold start", 5.25, "ms", Aim::AtMostRmcp(1.0));
        figure.revision = Some("2025-11-25".to_owned());
        figure.peers.insert(RMCP.to_owned(), 2.0);
        let read: Figure = serde_json::from_str(&serde_json::to_string(&figure).unwrap()).unwrap();
        assert_eq!(read, figure);
        for repeated in [false, true] {
            let text = serde_json::to_string(&Figure { repeated, ..figure.clone() }).unwrap();
            assert_eq!(text.contains("\"repeated\":true"), repeated, "{text}");
            assert_eq!(text.contains("repeated"), repeated, "{text}");
            assert_eq!(serde_json::from_str::<Figure>(&text).unwrap().repeated, repeated);
        }
        assert_eq!(missed(std::slice::from_ref(&read)).unwrap(), "1 figure misses its aim: start 2025-11-25");
        let both = "2 figures miss their aims: start 2025-11-25, start 2025-11-25";
        assert_eq!(missed(&[read.clone(), read]).unwrap(), both);
        assert_eq!(missed(&[Figure::new("a", "a", 1.0, "", Aim::None)]), None);
        assert!(figure.to_string().contains("5.25 ms") && figure.to_string().contains("<= rmcp!"), "{figure}");
    }

    #[test]
    fn a_requested_value_of_rmcp_that_is_absent_is_a_miss() {
        let figure = |aim, doubts: &[Doubt]| Figure { doubts: doubts.to_vec(), ..Figure::new("a", "a", 1.0, "", aim) };
        for (aim, doubts, is_met) in [
            (Aim::AtMostRmcp(1.0), &[] as &[Doubt], true),
            (Aim::AtMostRmcp(1.0), &[Doubt::Incomplete], false),
            (Aim::AtLeastRmcp(2.0), &[Doubt::Limited, Doubt::Incomplete], false),
            (Aim::AtLeastRmcp(2.0), &[Doubt::Disturbed], true),
            (Aim::AtLeast(0.5), &[Doubt::Incomplete], true),
        ] {
            let mut figure = figure(aim, doubts);
            assert_eq!(figure.is_met(), is_met, "{figure:?}");
            let text = serde_json::to_string(&figure).unwrap();
            assert_eq!(serde_json::from_str::<Figure>(&text).unwrap(), figure);
            let has_verdict = !is_met || matches!(aim, Aim::AtLeast(_));
            assert_eq!(without_verdict(std::slice::from_ref(&figure)).is_none(), has_verdict, "{figure:?}");
            figure.peers.insert(RMCP.to_owned(), 0.5);
            assert_eq!(figure.is_met(), !matches!(aim, Aim::AtMostRmcp(_)), "{figure:?}");
            assert_eq!(without_verdict(&[figure]), None);
        }
        assert!(figure(Aim::None, &[Doubt::Limited, Doubt::Disturbed]).to_string().ends_with(" (limited) (disturbed)"));
    }
}
