//! The table of the gateway and of the fleet: each figure beside its aim.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{error::Error, figure};
pub(crate) use crate::{figure::Aim, report::median};

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
    println!(
        "\n!: the figure misses its aim. Each value is the median of its rounds. A round measures both parts of a ratio."
    );
    verdict()
}

/// Counts a figure that another table printed.
pub(crate) fn count(is_met: bool) {
    MISSED.fetch_add(usize::from(!is_met), Ordering::Relaxed);
}

/// Returns an error if a counted figure misses its aim.
pub(crate) fn verdict() -> Result<(), Error> {
    match MISSED.load(Ordering::Relaxed) {
        0 => Ok(()),
        missed => Err(Error::new(figure::misses(missed))),
    }
}

/// Prints the median of the values of all rounds.
pub(crate) fn row(name: &str, values: &[f64], unit: &str, aim: Aim, details: &str) {
    let value = median(values);
    let is_met = aim.is_met(value, None);
    count(is_met);
    let mark = if is_met { " " } else { "!" };
    let measured = format!("{value:.2}{unit}");
    println!("{name:<52} {measured:>12} {:>12}{mark} {details}", aim.text(unit.trim_start()));
}
