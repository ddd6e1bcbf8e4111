//! The error of a transcript, formatted for the output of a test.

use std::fmt;

use super::TransportKind;

/// An invalid transcript, or a difference in a replay, with its position in the file.
///
/// `Debug` shows the same text as `Display`, which makes the output of `unwrap` in a test readable.
pub struct TranscriptError {
    name: String,
    line: Option<usize>,
    transport: Option<TransportKind>,
    text: String,
}

impl TranscriptError {
    pub(crate) fn new(
        name: &str,
        line: Option<usize>,
        transport: Option<TransportKind>,
        text: impl Into<String>,
    ) -> Self {
        Self { name: name.to_owned(), line, transport, text: text.into() }
    }

    /// Returns the line of the transcript, starting at 1. Returns `None` if the error concerns the whole file.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

impl fmt::Display for TranscriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(transport) = self.transport {
            write!(f, " over {transport}")?;
        }
        write!(f, ": {}", self.text)
    }
}

impl fmt::Debug for TranscriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TranscriptError {}
