//! The one error of this tool: a sentence for whoever typed the command.

use std::fmt;

/// What went wrong, as text. It is not a `std::error::Error`, so that `?` can take any of those.
#[derive(Debug)]
pub(crate) struct Error(String);

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
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

/// Says what was being done when an error came up.
pub(crate) trait Context<T> {
    fn context(self, doing: impl fmt::Display) -> Result<T, Error>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, doing: impl fmt::Display) -> Result<T, Error> {
        self.map_err(|error| Error(format!("{doing}: {error}")))
    }
}
