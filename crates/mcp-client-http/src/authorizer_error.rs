//! The errors of an authorizer.

use std::{error::Error, fmt, time::Duration};

use http::header::InvalidHeaderValue;
use mcp_transport::TransportError;

/// The error of an [`Authorizer`](crate::Authorizer), with which the request fails.
///
/// The kind decides whether the client tries again. [`Error::source`] is the error of the authorizer itself, so a program
/// finds it in the chain of sources of the client's error.
///
/// ```
/// use std::{error::Error, time::Duration};
///
/// use mcp_client_http::{AuthorizerError, AuthorizerErrorKind};
///
/// let error = AuthorizerError::login_required("the refresh token was revoked");
/// assert_eq!(error.kind(), AuthorizerErrorKind::LoginRequired);
/// assert_eq!(error.to_string(), "a login is required");
/// assert_eq!(error.source().unwrap().to_string(), "the refresh token was revoked");
///
/// let error = AuthorizerError::unavailable("HTTP status 503", Some(Duration::from_secs(2)));
/// assert!(matches!(error.kind(), AuthorizerErrorKind::Unavailable { retry_after: Some(_) }));
///
/// let error: AuthorizerError = "there is no token".into();
/// assert_eq!(error.kind(), AuthorizerErrorKind::Other);
/// ```
#[derive(Debug)]
pub struct AuthorizerError {
    kind: AuthorizerErrorKind,
    source: Box<dyn Error + Send + Sync>,
}

/// The kind of an [`AuthorizerError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthorizerErrorKind {
    /// The user must log in first. Only a later request causes another attempt.
    LoginRequired,
    /// The user or the authorization server denied the authorization. Only a later request causes another attempt.
    Denied,
    /// The authorization server cannot be reached or is overloaded. Another attempt can succeed.
    Unavailable {
        /// The time after which another attempt can succeed, if the authorization server sent it.
        retry_after: Option<Duration>,
    },
    /// Any other reason, such as an invalid configuration. Only a later request causes another attempt.
    Other,
}

impl AuthorizerError {
    /// Returns the error of a request for which the user must log in first.
    pub fn login_required(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind: AuthorizerErrorKind::LoginRequired, source: source.into() }
    }

    /// Returns the error of an authorization that the user or the authorization server denied.
    pub fn denied(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind: AuthorizerErrorKind::Denied, source: source.into() }
    }

    /// Returns the error of an authorization server that cannot be reached or is overloaded.
    pub fn unavailable(source: impl Into<Box<dyn Error + Send + Sync>>, retry_after: Option<Duration>) -> Self {
        Self { kind: AuthorizerErrorKind::Unavailable { retry_after }, source: source.into() }
    }

    /// Returns an error of another kind.
    pub fn other(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind: AuthorizerErrorKind::Other, source: source.into() }
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> AuthorizerErrorKind {
        self.kind
    }

    /// Returns the error of the request. Only the error of an authorization server that is unavailable does not last.
    pub(crate) fn into_transport_error(self) -> TransportError {
        match self.kind {
            AuthorizerErrorKind::Unavailable { retry_after } => {
                TransportError::unauthorized(self).with_retry_after(retry_after)
            }
            _ => TransportError::unauthorized(self).lasting(),
        }
    }
}

impl fmt::Display for AuthorizerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            AuthorizerErrorKind::LoginRequired => "a login is required",
            AuthorizerErrorKind::Denied => "the authorization was denied",
            AuthorizerErrorKind::Unavailable { .. } => "the authorization server is unavailable",
            AuthorizerErrorKind::Other => "the authorizer failed",
        })
    }
}

impl Error for AuthorizerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.source.as_ref())
    }
}

impl From<&str> for AuthorizerError {
    fn from(text: &str) -> Self {
        Self::other(text)
    }
}

impl From<String> for AuthorizerError {
    fn from(text: String) -> Self {
        Self::other(text)
    }
}

impl From<InvalidHeaderValue> for AuthorizerError {
    fn from(error: InvalidHeaderValue) -> Self {
        Self::other(error)
    }
}

impl From<Box<dyn Error + Send + Sync>> for AuthorizerError {
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        Self::other(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unavailable_authorization_server_is_retried() {
        let wait = Some(Duration::from_secs(3));
        for (error, is_lasting, retry_after) in [
            (AuthorizerError::login_required("x"), true, None),
            (AuthorizerError::denied("x"), true, None),
            (AuthorizerError::other("x"), true, None),
            (AuthorizerError::unavailable("x", None), false, None),
            (AuthorizerError::unavailable("x", wait), false, wait),
        ] {
            let kind = error.kind();
            let error = error.into_transport_error();
            assert_eq!((error.is_lasting(), error.retry_after()), (is_lasting, retry_after), "{kind:?}");
            let source = error.source().and_then(|source| source.downcast_ref::<AuthorizerError>());
            assert!(error.is_unauthorized() && source.is_some_and(|source| source.kind() == kind));
        }
    }
}
