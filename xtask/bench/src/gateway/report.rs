//! The table of the gateway and of the fleet: each figure beside its aim.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Error;

/// The wanted bound of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Aim {
    AtMost(f64),
    AtLeast(f64),
    /// Information only.
    None,
}

impl Aim {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::None => true,
        }
    }

    fn text(self, unit: &str) -> String {
        match self {
            Self::AtMost(most) => format!("<= {most}{unit}"),
            Self::AtLeast(least) => format!(">= {least}{unit}"),
            Self::None => "-".to_owned(),
        }
    }
}

/// Prints the names of the columns.
pub(crate) fn head(title: &str) {
    println!("{title:<52} {:>12} {:>12}  details", "measured", "aim");
}

/// The number of printed figures that miss their aims.
static MISSED: AtomicUsize = AtomicUsize::new(0);

/// Ends the table.
///
/// # Errors
/// If a figure misses its aim.
pub(crate) fn foot() -> Result<(), Error> {
    println!("\n!: the figure misses its aim. Each value is of one round, in which both parts saw the same machine.");
    match MISSED.load(Ordering::Relaxed) {
        0 => Ok(()),
        missed => Err(Error::new(format!("{missed} figures miss their aims"))),
    }
}

/// Prints the median of the values of all rounds.
pub(crate) fn row(name: &str, values: &[f64], unit: &str, aim: Aim, details: &str) {
    let value = median(values);
    let is_met = aim.is_met(value);
    MISSED.fetch_add(usize::from(!is_met), Ordering::Relaxed);
    let mark = if is_met { " " } else { "!" };
    let measured = format!("{value:.2}{unit}");
    println!("{name:<52} {measured:>12} {:>12}{mark} {details}", aim.text(unit));
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_meets_its_aim_on_one_side() {
        for (aim, value, is_met) in [
            (Aim::AtMost(1.3), 1.3, true),
            (Aim::AtMost(1.3), 1.31, false),
            (Aim::AtLeast(0.6), 0.6, true),
            (Aim::AtLeast(0.6), 0.59, false),
            (Aim::AtLeast(0.6), f64::NAN, false),
            (Aim::None, 9.0, true),
        ] {
            assert_eq!(aim.is_met(value), is_met, "{aim:?} {value}");
        }
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
    }
}
