//! The errors of a request.

use std::{borrow::Cow, error::Error, fmt};

/// A request that failed. The text is for people and contains no secrets: it names at most the origin of the URL.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use mcp_fetch::{Fetch, FetchErrorKind};
///
/// let error = Fetch::new().get("https://169.254.169.254/latest/meta-data").await.unwrap_err();
/// assert_eq!(error.kind(), FetchErrorKind::Blocked);
/// assert!(!error.is_temporary());
/// # });
/// ```
pub struct FetchError {
    kind: FetchErrorKind,
    text: Cow<'static, str>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// The cause of a [`FetchError`].
///
/// ```
/// let error = mcp_fetch::Fetch::builder().proxy("::").unwrap_err();
/// assert_eq!(error.kind(), mcp_fetch::FetchErrorKind::Configuration);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchErrorKind {
    /// A setting of the [`FetchBuilder`](crate::FetchBuilder) is invalid.
    Configuration,
    /// The URL is invalid, or its scheme is not allowed.
    Url,
    /// The host or its address is not allowed.
    Blocked,
    /// The response is a redirect that must not be followed.
    Redirect,
    /// The response is larger than the limit.
    TooLarge,
    /// The response did not arrive in time.
    TimedOut,
    /// The name of the host has no address, the connection failed, or it broke off.
    Connection,
    /// The body is not the expected JSON.
    Json,
}

impl FetchError {
    pub(crate) fn new(kind: FetchErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into(), source: None }
    }

    pub(crate) fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the cause.
    #[must_use]
    pub fn kind(&self) -> FetchErrorKind {
        self.kind
    }

    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self.kind, FetchErrorKind::TimedOut | FetchErrorKind::Connection)
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchError").field("kind", &self.kind).field("text", &self.text).finish()
    }
}

impl Error for FetchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
