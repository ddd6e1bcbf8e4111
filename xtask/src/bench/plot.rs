//! The plots of the results: bars for the figures beside the other libraries, and curves for the growth.

use std::{fs, path::Path};

use anyhow::{Context, Error};

use super::{
    figure::{Aim, Figure, Point, Series, number},
    page::{explained, is_growth, marks, ordered},
    svg::{Anchor, Picture},
};

/// The names of the programs in the order of their colors.
const NAMES: [&str; 4] = ["ours", "rmcp", "tower-mcp", "bare"];
const WIDTH: f64 = 1110.0;
const LABELS: f64 = 340.0;
const RIGHT: f64 = 380.0;
const TOP: f64 = 66.0;
const BAR: f64 = 13.0;
/// The height of the two lines of a label.
const LABEL: f64 = 30.0;
const GAP: f64 = 12.0;
/// The height of a line that explains a mark.
const NOTE: f64 = 18.0;

/// The names and the texts of the plots of some values. Values of no kind have no plot.
pub(super) fn all(figures: &[Figure], series: &[Series]) -> Vec<(String, String)> {
    let ratios = ordered(figures.iter().filter(|figure| is_ratio(figure)));
    let costs = ordered(figures.iter().filter(|figure| is_cost(figure)));
    let mut plots = Vec::new();
    for (name, title, figures, is_shared) in [
        ("speed.svg", "Calls in a second, by the bare limit (dashed): more is better", ratios, true),
        ("costs.svg", "Start, memory, size and builds: less is better", costs, false),
    ] {
        if !figures.is_empty() {
            plots.push((name.to_owned(), bars(title, &figures, is_shared)));
        }
    }
    plots.extend(series.iter().map(|series| (format!("{}.svg", series.id), curve(series))));
    plots
}

/// Writes the plots of some values to a folder.
pub(super) fn write(folder: &Path, figures: &[Figure], series: &[Series]) -> Result<(), Error> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for (name, text) in all(figures, series) {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// The speed beside the bare limit. A ratio of times has another direction.
fn is_ratio(figure: &Figure) -> bool {
    figure.unit.is_empty() && !is_growth(figure) && !matches!(figure.aim, Aim::AtMost(_))
}

fn is_cost(figure: &Figure) -> bool {
    !figure.unit.is_empty() && !is_growth(figure) && !figure.peers.is_empty()
}

/// Bars for each figure, in groups. A group has its own scale, or a scale of all groups if `shared`.
pub(super) fn bars(title: &str, figures: &[&Figure], shared: bool) -> String {
    let groups: Vec<Vec<(usize, f64)>> = figures.iter().map(|figure| values(figure)).collect();
    let bars = |group: &[(usize, f64)]| group.len() as f64 * (BAR + 2.0);
    let height = |group: &[(usize, f64)]| bars(group).max(LABEL);
    let end = TOP + groups.iter().map(|group| height(group) + GAP).sum::<f64>();
    let notes = explained(figures);
    let mut picture = Picture::new(title, WIDTH, NOTE.mul_add(notes.len() as f64, end + 16.0));
    legend(&mut picture, groups.iter().flatten().map(|(name, _)| *name));
    let most = |group: &[(usize, f64)]| group.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let common = groups.iter().map(|group| most(group)).fold(1.0, f64::max);
    if shared {
        let x = LABELS + (WIDTH - LABELS - RIGHT) / common;
        // The values are drawn above the line, with an edge in the color of the page.
        picture.rule("limit", (x, TOP - 8.0), (x, end - 6.0));
    }
    let mut y = TOP;
    for (figure, group) in figures.iter().zip(&groups) {
        let scale = (WIDTH - LABELS - RIGHT) / if shared { common } else { most(group).max(f64::MIN_POSITIVE) };
        let end = y + height(group);
        let middle = f64::midpoint(y, end) + 4.0;
        y += (height(group) - bars(group)) / 2.0;
        let label = if figure.revision.is_some() { middle - 7.0 } else { middle };
        picture.text("user", LABELS - 12.0, label, Anchor::End, &figure.title);
        if let Some(revision) = &figure.revision {
            picture.text("note", LABELS - 12.0, middle + 8.0, Anchor::End, revision);
        }
        for (name, value) in group {
            picture.bar(*name, LABELS, y, (value * scale).max(1.0), BAR);
            let is_ours = NAMES[*name] == "ours";
            let text = if is_ours { figure.shown() } else { number(*value) };
            let marks = if is_ours { marks(figure) } else { String::new() };
            let text = format!("{}{marks}", format!("{text} {}", figure.unit).trim());
            picture.text("note", LABELS + value * scale + 6.0, y + BAR - 2.5, Anchor::Start, &text);
            y += BAR + 2.0;
        }
        y = end + GAP;
    }
    for (at, note) in notes.iter().enumerate() {
        picture.text("note", 16.0, NOTE.mul_add((at + 1) as f64, end), Anchor::Start, note);
    }
    picture.finish()
}

/// The values of a figure with the numbers of their programs.
fn values(figure: &Figure) -> Vec<(usize, f64)> {
    let value = |name: &str| if name == "ours" { Some(figure.value) } else { figure.peers.get(name).copied() };
    NAMES.iter().enumerate().filter_map(|(at, name)| Some((at, value(name)?))).collect()
}

fn legend(picture: &mut Picture, used: impl Iterator<Item = usize>) {
    let used: Vec<usize> = used.collect();
    let mut x = LABELS;
    for (at, name) in NAMES.iter().enumerate().filter(|(at, _)| used.contains(at)) {
        picture.bar(at, x, 41.0, 11.0, 11.0);
        picture.text("note", x + 16.0, 51.0, Anchor::Start, name);
        x += 110.0;
    }
}

const CURVE_WIDTH: f64 = 460.0;
const CURVE_HEIGHT: f64 = 270.0;
const LEFT: f64 = 70.0;
const CURVE_TOP: f64 = 52.0;
const BOTTOM: f64 = 52.0;
/// The color of the second curve of a series.
const BESIDE: usize = 3;

/// A curve with a logarithmic axis of the size. The other axis begins at zero, or is logarithmic for values of many scales.
pub(super) fn curve(series: &Series) -> String {
    let mut picture = Picture::new(&series.title, CURVE_WIDTH, CURVE_HEIGHT);
    let (first, last) = match &*series.points {
        [first, .., last] => (first.x, last.x),
        _ => {
            picture.text("note", CURVE_WIDTH / 2.0, CURVE_HEIGHT / 2.0, Anchor::Middle, "not measured yet");
            return picture.finish();
        }
    };
    let beside = series.beside.iter().flat_map(|curve| &curve.points);
    let values = || series.points.iter().chain(beside.clone()).map(|point| point.y);
    let most = values().fold(f64::MIN_POSITIVE, f64::max);
    let least = values().fold(f64::MAX, f64::min).max(f64::MIN_POSITIVE);
    let (right, bottom) = (CURVE_WIDTH - 24.0, CURVE_HEIGHT - BOTTOM);
    let x = |value: f64| LEFT + (right - LEFT) * (value / first).ln() / (last / first).ln();
    let is_logarithmic = most / least > 30.0;
    let (low, high) = match is_logarithmic {
        true => (10f64.powf(least.log10().floor()), 10f64.powf(most.log10().ceil())),
        false => (0.0, nice(most)),
    };
    let y = |value: f64| {
        let share = if is_logarithmic { (value / low).log(high / low) } else { value / high };
        (bottom - CURVE_TOP).mul_add(-share, bottom)
    };
    let ticks: Vec<f64> = match is_logarithmic {
        true => {
            std::iter::successors(Some(low), |tick| Some(tick * 10.0)).take_while(|tick| *tick <= high * 1.01).collect()
        }
        false => (0..=4).map(|part| high * f64::from(part) / 4.0).collect(),
    };
    for tick in ticks {
        picture.rule("grid", (LEFT, y(tick)), (right, y(tick)));
        picture.text("note", LEFT - 8.0, y(tick) + 4.0, Anchor::End, &short(tick));
    }
    for point in &series.points {
        picture.text("note", x(point.x), bottom + 18.0, Anchor::Middle, &size(point.x, &series.axis));
    }
    picture.text("note", f64::midpoint(LEFT, right), CURVE_HEIGHT - 14.0, Anchor::Middle, &series.axis);
    picture.text("note", 14.0, CURVE_TOP - 10.0, Anchor::Start, &series.unit);
    let placed =
        |points: &[Point]| -> Vec<(f64, f64)> { points.iter().map(|point| (x(point.x), y(point.y))).collect() };
    if let Some(beside) = &series.beside {
        for (color, left, name) in [(0, right - 230.0, &*beside.first), (BESIDE, right - 110.0, &*beside.name)] {
            picture.bar(color, left, 35.0, 11.0, 11.0);
            picture.text("note", left + 16.0, 45.0, Anchor::Start, name);
        }
        picture.curve(BESIDE, &placed(&beside.points));
    }
    picture.curve(0, &placed(&series.points));
    picture.finish()
}

/// The next number of the form 1, 2, 4, 5 or 8 with zeros.
fn nice(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor());
    let step = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0].into_iter().find(|step| step * unit >= value);
    step.unwrap_or(10.0) * unit
}

/// A number of an axis.
fn short(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{}M", value / 1e6),
        _ if value >= 1e3 => format!("{}k", value / 1e3),
        _ => format!("{}", (value * 1e4).round() / 1e4),
    }
}

/// A size on its axis: bytes have binary units.
fn size(value: f64, axis: &str) -> String {
    match value {
        _ if axis != "bytes" => short(value),
        _ if value >= f64::from(1 << 20) => format!("{} MiB", value / f64::from(1 << 20)),
        _ => format!("{} KiB", value / 1024.0),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bench::figure::{Curve, Doubt};

    #[test]
    fn a_run_has_the_plots_of_its_values() {
        let value = |id: &str, unit: &str, aim| Figure {
            peers: BTreeMap::from([("bare".to_owned(), 1.0)]),
            ..Figure::new(id, id, 1.0, unit, aim)
        };
        let (speed, cost) = (value("auth-jwt", "", Aim::AtLeast(0.9)), value("start", "ms", Aim::None));
        let times = value("auth-guesses", "", Aim::AtMost(3.0));
        let series = Series {
            id: "growth-tools".to_owned(),
            title: "growth".to_owned(),
            axis: "tools".to_owned(),
            unit: "calls/s".to_owned(),
            points: Vec::new(),
            cost: Vec::new(),
            beside: None,
        };
        for (figures, series, expected) in [
            (&[] as &[Figure], &[] as &[Series], &[] as &[&str]),
            (std::slice::from_ref(&times), &[], &[]),
            (&[speed, cost.clone()], &[], &["speed.svg", "costs.svg"]),
            (std::slice::from_ref(&cost), std::slice::from_ref(&series), &["costs.svg", "growth-tools.svg"]),
        ] {
            let folder = std::env::temp_dir().join(format!("xtask-plots-{}-{}", std::process::id(), expected.len()));
            write(&folder, figures, series).unwrap();
            let written: Vec<String> = all(figures, series).into_iter().map(|(name, _)| name).collect();
            assert_eq!(written, expected);
            assert!(written.iter().all(|name| fs::read_to_string(folder.join(name)).unwrap().ends_with("</svg>\n")));
            fs::remove_dir_all(&folder).unwrap();
        }
    }

    #[test]
    fn bars_show_each_program_of_a_figure() {
        let mut figure = Figure::new("a", "HTTP echo", 0.5, "", Aim::None);
        figure.peers.insert("rmcp".to_owned(), 0.25);
        figure.doubts.push(Doubt::Limited);
        let text = bars("speed", &[&figure], true);
        let explanation = "(limited): the load, or the server";
        for part in ["HTTP echo", ">0.50 (limited)<", ">0.25<", "ours", "rmcp", "class=\"limit\"", explanation] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("tower-mcp"));
        assert!(text.find("\"limit\"") < text.find("HTTP echo"), "the limit is below the texts: {text}");
    }

    /// The largest width of a character in the sizes of the fonts of texts, for the wide fonts that some systems have.
    fn width_of(class: &str) -> f64 {
        match class {
            "name" => 9.5,
            "user" => 8.1,
            _ => 7.4,
        }
    }

    #[test]
    fn each_text_is_inside_of_the_picture_with_a_wide_font() {
        let figure = |title: &str, value, unit: &str| {
            let mut figure = Figure::new("a", title, value, unit, Aim::AtLeast(0.9));
            (figure.revision, figure.cpu) = (Some("2026-07-28".to_owned()), Some(0.25));
            figure.doubts = vec![Doubt::Limited, Doubt::Disturbed, Doubt::Distant];
            figure
        };
        let ratios = [figure("stdio echo, 64 calls at once, gathered", 0.89, "")];
        let costs = [figure("cold release build of the stdio server", 137.0, "s")];
        let ratios: Vec<&Figure> = ratios.iter().collect();
        let costs: Vec<&Figure> = costs.iter().collect();
        for picture in [bars("Calls in a second", &ratios, true), bars("Start and memory", &costs, false)] {
            let attribute = |line: &str, name: &str| {
                let (_, rest) = line.split_once(&format!(" {name}=\"")).unwrap();
                rest.split_once('"').unwrap().0.to_owned()
            };
            for line in picture.lines().filter(|line| line.trim_start().starts_with("<text ")) {
                let shown = line.split_once('>').unwrap().1.trim_end_matches("</text>");
                let width = shown.chars().count() as f64 * width_of(&attribute(line, "class"));
                let x: f64 = attribute(line, "x").parse().unwrap();
                let start = match &*attribute(line, "text-anchor") {
                    "start" => x,
                    "end" => x - width,
                    _ => x - width / 2.0,
                };
                assert!(start >= 0.0 && start + width <= WIDTH, "{line}: {start} to {}", start + width);
            }
            assert!(picture.contains("paint-order: stroke"), "{picture}");
        }
    }

    #[test]
    fn a_curve_has_its_sizes() {
        let series = |points: &[(f64, f64)], axis: &str| Series {
            id: "growth-a".to_owned(),
            title: "growth".to_owned(),
            axis: axis.to_owned(),
            unit: "calls/s".to_owned(),
            points: points.iter().map(|(x, y)| Point { x: *x, y: *y }).collect(),
            cost: Vec::new(),
            beside: None,
        };
        let text = curve(&series(&[(10.0, 900.0), (10_000.0, 890.0)], "tools"));
        for part in [">10<", ">10k<", ">tools<", ">1k<"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = curve(&series(&[(1024.0, 1.0), (1_048_576.0, 500.0)], "bytes"));
        for part in [">1 KiB<", ">1 MiB<", ">1k<", ">100<"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(curve(&series(&[], "tools")).ends_with("</svg>\n"));
    }

    #[test]
    fn a_second_curve_has_a_name_and_shares_the_axis() {
        let points = |values: [f64; 2]| vec![Point { x: 1.0, y: values[0] }, Point { x: 10.0, y: values[1] }];
        let mut series = Series {
            id: "growth-a".to_owned(),
            title: "growth".to_owned(),
            axis: "connections".to_owned(),
            unit: "calls/s".to_owned(),
            points: points([900.0, 800.0]),
            cost: Vec::new(),
            beside: None,
        };
        let alone = curve(&series);
        assert!(!alone.contains("class=\"line3\"") && !alone.contains(">ours<"), "{alone}");
        series.beside = Some(Curve {
            first: "ours".to_owned(),
            name: "bare".to_owned(),
            points: points([1_900.0, 1_800.0]),
            cost: Vec::new(),
        });
        let both = curve(&series);
        for part in ["class=\"line0\"", "class=\"line3\"", ">ours<", ">bare<", ">2k<"] {
            assert!(both.contains(part), "{part}: {both}");
        }
        let read: Series = serde_json::from_str(&serde_json::to_string(&series).unwrap()).unwrap();
        assert_eq!(read, series);
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, expected) in [(1.0, 1.0), (890.0, 1000.0), (41.0, 50.0), (0.31, 0.4)] {
            assert!((nice(value) - expected).abs() < 1e-9, "{value}");
        }
        assert_eq!([short(0.25), short(2_500.0), short(1e6)], ["0.25", "2.5k", "1M"]);
    }
}
