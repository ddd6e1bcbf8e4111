//! The error type of this tool: a text.

use std::{fmt, time::Duration};

use tokio::time::timeout;

/// An error message. The type is not a `std::error::Error`, so `?` converts each such error into it.
#[derive(Debug)]
pub(crate) struct Error(String);

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Prepends the failed step to the message.
    pub(crate) fn when(self, doing: impl fmt::Display) -> Self {
        Self(format!("{doing}: {}", self.0))
    }
}

/// Waits for an outcome. After the limit, the error names the subject that did not answer.
pub(crate) async fn within<T, E: Into<Error>>(
    limit: Duration,
    subject: &str,
    outcome: impl Future<Output = Result<T, E>>,
) -> Result<T, Error> {
    match timeout(limit, outcome).await {
        Ok(outcome) => outcome.map_err(|error| error.into().when(subject)),
        Err(_) => Err(Error::new(format!("{subject}: no end within {limit:?}"))),
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
