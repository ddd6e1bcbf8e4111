//! What went wrong with a transcript, for whoever reads the output of a test.

use std::fmt;

use super::Over;

/// Why a transcript could not be read or replayed: the place in the file, then what differs.
///
/// `Debug` shows the same text as `Display`, so that an `unwrap` in a test can be read.
pub struct Failure {
    name: String,
    line: Option<usize>,
    over: Option<Over>,
    text: String,
}

impl Failure {
    pub(crate) fn new(name: &str, line: Option<usize>, over: Option<Over>, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), line, over, text: text.into() }
    }

    /// The line of the transcript, from one; `None` when it is about the file as a whole.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(over) = self.over {
            write!(f, " over {over}")?;
        }
        write!(f, ": {}", self.text)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}
