//! The response of a request.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use crate::error::{FetchError, FetchErrorKind};

/// A response with its whole body. `Debug` shows the status and the length of the body only.
///
/// ```no_run
/// # async fn example() -> Result<(), mcp_fetch::FetchError> {
/// let response = mcp_fetch::Fetch::new().get("https://as.example/jwks").await?;
/// assert!(response.status().is_success() && response.body().len() <= 1 << 20);
/// # Ok(())
/// # }
/// ```
pub struct Response {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Response {
    pub(crate) fn new(status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        Self { status, headers, body }
    }

    /// Returns the status. It may be an error.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Parses the body.
    ///
    /// # Errors
    /// If the body is not the expected JSON. The text of the error contains no part of the body.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, FetchError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            // The text of a serde error may quote the body, which may be secret.
            let at = format!("the body is not the expected JSON (line {}, column {})", error.line(), error.column());
            FetchError::new(FetchErrorKind::Json, at)
        })
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).field("length", &self.body.len()).finish()
    }
}
