//! The one error of this tool: a sentence.

use std::fmt;

/// What went wrong, as text. It is not a `std::error::Error`, so that `?` can take any of those.
#[derive(Debug)]
pub(crate) struct Error(String);

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The same, with what was being done before it.
    pub(crate) fn when(self, doing: impl fmt::Display) -> Self {
        Self(format!("{doing}: {}", self.0))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
