//! An error with its causes on one line.

use std::{error::Error, fmt};

/// Writes an error and its causes: `message: cause: cause`. That is what a program prints whose `main` returns an error
/// that has this as its `Debug`.
pub(crate) fn chain(error: &(dyn Error + 'static), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{error}")?;
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(f, ": {error}")?;
        cause = error.source();
    }
    Ok(())
}
