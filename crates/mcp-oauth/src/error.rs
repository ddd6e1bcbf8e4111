//! The error of an authorization, by its fault.

use std::{borrow::Cow, error::Error as StdError, fmt, sync::Arc, time::Duration};

use mcp_fetch::FetchError;
use mcp_protocol::auth::OAuthError;

use crate::quirks::Quirk;

/// An authorization that failed. Clones share their content.
///
/// The text is for people. It contains no token, code or secret. It may contain URLs of metadata documents, and the shortened
/// error text of an authorization server.
///
/// ```
/// use mcp_oauth::{Error, ErrorKind};
///
/// /// Whether the application shows its login button.
/// fn offers_login(error: &Error) -> bool {
///     matches!(error.kind(), ErrorKind::LoginRequired | ErrorKind::Denied)
/// }
/// # let _ = offers_login;
/// ```
#[derive(Clone)]
pub struct Error {
    inner: Arc<Inner>,
    /// The quirks that the client applied at the authorization server.
    quirks: Vec<Quirk>,
}

struct Inner {
    kind: ErrorKind,
    text: Cow<'static, str>,
    scopes: Vec<String>,
    retry_after: Option<Duration>,
    /// The header for the credentials that the server expects.
    header: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Inner {
    fn new(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into(), scopes: Vec::new(), retry_after: None, header: None, source: None }
    }
}

/// The fault of an [`Error`].
///
/// ```
/// use mcp_oauth::ErrorKind;
///
/// assert!(ErrorKind::Unavailable.is_temporary() && !ErrorKind::Denied.is_temporary());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting of the application is invalid.
    Configuration,
    /// The metadata documents of the server are missing or invalid, or they do not belong together.
    Discovery,
    /// The server expects credentials and offers no login, such as a server with API keys: it has no OAuth metadata.
    NoLogin,
    /// The client has no registration at the authorization server and cannot get one.
    Registration,
    /// A user must log in, and the application has no way to ask.
    LoginRequired,
    /// The user or the authorization server denied the access.
    Denied,
    /// The answer of the login is invalid, for example because it has another issuer.
    Callback,
    /// The token endpoint refused the request, or its answer is invalid.
    Token,
    /// The server requires scopes that another login would not grant.
    InsufficientScope,
    /// A server did not answer in time, or it reported an outage. The same step may succeed later.
    Unavailable,
    /// The token store failed.
    Store,
    /// The authorization server does not support what the application configured, such as the device flow.
    Unsupported,
    /// A part of the application panicked: the user agent, the token store or the source of assertions.
    Panic,
}

impl ErrorKind {
    /// Whether the same step may succeed later without a change.
    #[must_use]
    pub fn is_temporary(self) -> bool {
        self == Self::Unavailable
    }
}

impl Error {
    /// Returns an error with a fault and a text for people. The text must not contain secrets.
    pub fn new(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Inner::new(kind, text).into()
    }

    /// Returns an error with its source. The text of the source must not contain secrets.
    pub fn with_source(
        kind: ErrorKind,
        text: impl Into<Cow<'static, str>>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        let source = Some(source.into());
        Inner { source, ..Inner::new(kind, text) }.into()
    }

    /// Returns the error of a request that requires further scopes.
    pub fn insufficient_scope(text: impl Into<Cow<'static, str>>, scopes: Vec<String>) -> Self {
        let kind = ErrorKind::InsufficientScope;
        Inner { scopes, ..Inner::new(kind, text) }.into()
    }

    /// Returns the error of a record that only a login can replace.
    pub(crate) fn unreadable_record(cause: &str) -> Self {
        let text = format!("{cause}; log in again, for example with `mcp login URL`");
        Self::with_source(ErrorKind::LoginRequired, text, UnreadableRecord)
    }

    /// Returns the error of a server without OAuth metadata, with the header for the credentials that it expects.
    pub(crate) fn no_login(text: impl Into<Cow<'static, str>>, header: Option<String>) -> Self {
        Inner { header, ..Inner::new(ErrorKind::NoLogin, text) }.into()
    }

    /// Returns the error of a login that the user did not complete.
    pub(crate) fn login_timeout(limit: Duration) -> Self {
        let text = format!("the user did not complete the login in {} seconds", limit.as_secs());
        Self::with_source(ErrorKind::LoginRequired, text, LoginTimeout)
    }

    /// Whether the user did not complete the login.
    pub(crate) fn is_login_timeout(&self) -> bool {
        self.inner.source.as_ref().is_some_and(|source| source.is::<LoginTimeout>())
    }

    /// Returns the error of an outage, with the wait that the server demanded.
    pub(crate) fn outage(text: impl Into<Cow<'static, str>>, retry_after: Option<Duration>) -> Self {
        let kind = ErrorKind::Unavailable;
        Inner { retry_after, ..Inner::new(kind, text) }.into()
    }

    /// Returns the error of a request. An outage is temporary, and each other fault has the given kind.
    pub(crate) fn fetch(kind: ErrorKind, action: &str, error: FetchError) -> Self {
        let kind = if error.is_temporary() { ErrorKind::Unavailable } else { kind };
        let text = format!("{action}: {error}");
        Self::with_source(kind, text, error)
    }

    /// Returns the fault.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Whether the same step may succeed later without a change.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.inner.kind.is_temporary()
    }

    /// Returns the wait that a server demanded with `Retry-After` (RFC 9110 §10.2.3), for [`ErrorKind::Unavailable`].
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.inner.retry_after
    }

    /// Adds the quirks that the client applied at the authorization server.
    pub(crate) fn with_quirks(mut self, quirks: &[Quirk]) -> Self {
        if self.quirks.is_empty() {
            self.quirks = quirks.to_vec();
        }
        self
    }

    /// Returns the quirks that the client applied at the authorization server. The text of the error names them too.
    #[must_use]
    pub fn quirks(&self) -> &[Quirk] {
        &self.quirks
    }

    /// Whether the answer of a request is lost: the connection broke, or the time limit ended.
    pub(crate) fn is_lost_answer(&self) -> bool {
        let error = self.inner.source.as_ref().and_then(|source| source.downcast_ref::<FetchError>());
        error.is_some_and(FetchError::is_temporary)
    }

    /// Whether the store has a record that it cannot open, such as a sealed record whose key is lost.
    pub(crate) fn is_unreadable_record(&self) -> bool {
        self.inner.source.as_ref().is_some_and(|source| source.is::<UnreadableRecord>())
    }

    /// Returns the scopes that the server required, for [`ErrorKind::InsufficientScope`].
    #[must_use]
    pub fn required_scopes(&self) -> &[String] {
        &self.inner.scopes
    }

    /// Returns the name of the header for the credentials that the server expects, for [`ErrorKind::NoLogin`]. `None` if the
    /// challenge of the server does not show it.
    #[must_use]
    pub fn credentials_header(&self) -> Option<&str> {
        self.inner.header.as_deref()
    }

    /// Returns the answer of the authorization server, if it caused the error.
    #[must_use]
    pub fn oauth_error(&self) -> Option<&OAuthError> {
        self.inner.source.as_ref()?.downcast_ref()
    }
}

/// The source of the error of a record that the store has and cannot open.
#[derive(Debug)]
pub(crate) struct UnreadableRecord;

impl fmt::Display for UnreadableRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store keeps the record until a login replaces it")
    }
}

impl StdError for UnreadableRecord {}

/// The source of the error of a login that the user did not complete.
#[derive(Debug)]
struct LoginTimeout;

impl fmt::Display for LoginTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time limit of the login ended")
    }
}

impl StdError for LoginTimeout {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.text)?;
        for (index, quirk) in self.quirks.iter().enumerate() {
            write!(f, "{}{quirk}", if index == 0 { "; applied quirks: " } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("kind", &self.inner.kind).field("text", &self.inner.text).finish()
    }
}

impl From<Inner> for Error {
    fn from(inner: Inner) -> Self {
        Self { inner: Arc::new(inner), quirks: Vec::new() }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_applied_quirks() {
        let error = Error::new(ErrorKind::Denied, "the login failed: access_denied");
        assert_eq!((error.to_string().as_str(), error.quirks()), ("the login failed: access_denied", &[][..]));
        let quirks = Quirk::of_issuer("https://login.microsoftonline.com/t/v2.0");
        let error = error.with_quirks(&quirks);
        let text = "the login failed: access_denied; applied quirks: assumes-s256 (Microsoft Entra ID), omits-resource \
                    (Microsoft Entra ID)";
        assert_eq!((error.to_string().as_str(), error.quirks()), (text, &quirks[..]));
    }
}
