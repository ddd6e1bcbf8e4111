//! The trait of all providers, and the types of its method.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use mcp_protocol::{Challenge, Principal, ProtectedResourceMetadata, auth::Secret};

use crate::error::ConfigError;

/// The header with the nonce of the next DPoP proof (RFC 9449 §8).
pub(crate) const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// The future of a provider.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Authenticates the client of a request.
///
/// One authenticator serves all requests of an endpoint in parallel. It must answer in bounded time.
///
/// ```
/// use std::collections::HashMap;
///
/// use http::{HeaderMap, Method};
/// use mcp_auth::{ApiKeys, AuthRequest, Authenticator, Rejection};
/// use mcp_protocol::Principal;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let keys = ApiKeys::new().key("hunter2", Principal::new("build-server")).unwrap();
/// let headers = HeaderMap::from_iter([("x-api-key".parse().unwrap(), "hunter2".parse().unwrap())]);
/// let request = AuthRequest::new(&Method::POST, "https://mcp.example.com/mcp", &headers);
/// assert_eq!(keys.authenticate(&request).await.unwrap().principal.subject, "build-server");
///
/// let without = HeaderMap::new();
/// let request = AuthRequest::new(&Method::POST, "https://mcp.example.com/mcp", &without);
/// assert_eq!(keys.authenticate(&request).await.unwrap_err(), Rejection::Missing);
/// # });
/// ```
pub trait Authenticator: Send + Sync + 'static {
    /// Authenticates the client of a request.
    ///
    /// # Errors
    /// The reason for which the request is not authenticated. [`Rejection::Missing`] means that the request has no
    /// credentials for this authenticator.
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>>;

    /// Returns the result of [`authenticate`](Self::authenticate) if it is known without a wait, for example from a cache. The
    /// server calls this method first, because a known result needs neither a timer nor an allocation. The method must not
    /// block, and it must check the credentials as `authenticate` does. The default returns `None`.
    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        let _ = request;
        None
    }

    /// Returns the challenges for a request without credentials, one for each scheme.
    fn challenges(&self) -> Vec<Challenge>;

    /// Returns the headers that contain credentials. The endpoint removes them before a handler sees the request, and
    /// allows web pages to send them.
    fn request_headers(&self) -> Vec<HeaderName> {
        vec![header::AUTHORIZATION]
    }

    /// Returns the authorization servers that issue tokens for this authenticator, for the metadata document.
    fn authorization_servers(&self) -> Vec<String> {
        Vec::new()
    }

    /// Adds members to the metadata document of the endpoint, such as the algorithms of DPoP proofs. An endpoint whose listener
    /// demands no client certificates removes `tls_client_certificate_bound_access_tokens`.
    fn describe(&self, metadata: &mut ProtectedResourceMetadata) {
        let _ = metadata;
    }
}

impl<A: Authenticator + ?Sized> Authenticator for Arc<A> {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        (**self).authenticate(request)
    }

    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        (**self).authenticate_now(request)
    }

    fn challenges(&self) -> Vec<Challenge> {
        (**self).challenges()
    }

    fn request_headers(&self) -> Vec<HeaderName> {
        (**self).request_headers()
    }

    fn authorization_servers(&self) -> Vec<String> {
        (**self).authorization_servers()
    }

    fn describe(&self, metadata: &mut ProtectedResourceMetadata) {
        (**self).describe(metadata);
    }
}

/// An authenticator, or the result of its construction.
///
/// A setting of a server takes either, so that the constructor of a provider needs no `?` there.
///
/// ```
/// use mcp_auth::{ApiKeys, IntoAuthenticator, Jwt};
///
/// assert!(ApiKeys::new().into_authenticator().is_ok());
/// assert!(Jwt::issuer("https://as.example").into_authenticator().is_ok());
/// assert!(Jwt::issuer("as.example").into_authenticator().is_err());
/// ```
pub trait IntoAuthenticator {
    /// Returns the authenticator.
    ///
    /// # Errors
    /// The error of the construction.
    fn into_authenticator(self) -> Result<Arc<dyn Authenticator>, ConfigError>;
}

impl<A: Authenticator> IntoAuthenticator for A {
    fn into_authenticator(self) -> Result<Arc<dyn Authenticator>, ConfigError> {
        Ok(Arc::new(self))
    }
}

impl<A: Authenticator> IntoAuthenticator for Result<A, ConfigError> {
    fn into_authenticator(self) -> Result<Arc<dyn Authenticator>, ConfigError> {
        Ok(Arc::new(self?))
    }
}

/// The parts of a request by which a client is authenticated. `Debug` shows no header.
///
/// ```
/// use http::{HeaderMap, Method};
/// use mcp_auth::AuthRequest;
///
/// let headers = HeaderMap::new();
/// let request = AuthRequest::new(&Method::POST, "https://mcp.example.com/mcp", &headers);
/// assert_eq!(request.target, "https://mcp.example.com/mcp");
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct AuthRequest<'a> {
    /// The HTTP method.
    pub method: &'a Method,
    /// The public URL of the endpoint, byte for byte as it is configured: the resource that tokens are issued for.
    pub resource: &'a str,
    /// The public URL of the request without its query. It differs from the resource for the paths of HTTP+SSE.
    pub target: &'a str,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// Values of the connection, such as the address of the peer.
    pub extensions: Option<&'a Extensions>,
    /// The certificate of the client of the TLS connection (X.509 in DER). Tokens may be bound to it (RFC 8705 §3).
    pub client_certificate: Option<&'a [u8]>,
}

impl<'a> AuthRequest<'a> {
    /// Returns a request for the endpoint at this public URL.
    #[must_use]
    pub fn new(method: &'a Method, resource: &'a str, headers: &'a HeaderMap) -> Self {
        Self { method, resource, target: resource, headers, extensions: None, client_certificate: None }
    }

    /// Sets the public URL of the request without its query.
    #[must_use]
    pub fn with_target(mut self, target: &'a str) -> Self {
        self.target = target;
        self
    }

    /// Adds the certificate of the client (X.509 in DER). The TLS handshake must have checked that the client has its key.
    #[must_use]
    pub fn with_client_certificate(mut self, der: &'a [u8]) -> Self {
        self.client_certificate = Some(der);
        self
    }

    /// Adds the values of the connection.
    #[must_use]
    pub fn with_extensions(mut self, extensions: &'a Extensions) -> Self {
        self.extensions = Some(extensions);
        self
    }
}

impl fmt::Debug for AuthRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, resource) = (self.method, self.resource);
        f.debug_struct("AuthRequest").field("method", method).field("resource", &resource).finish_non_exhaustive()
    }
}

/// The result of a successful authentication.
///
/// ```
/// use mcp_auth::Authenticated;
/// use mcp_protocol::Principal;
///
/// let authenticated = Authenticated::new(Principal::new("user-7"));
/// assert!(authenticated.headers.is_empty() && authenticated.subject_token.is_none());
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Authenticated {
    /// The identity of the client.
    pub principal: Arc<Principal>,
    /// Headers for the response, such as a fresh nonce.
    pub headers: HeaderMap,
    /// The token of the client, if the provider keeps it for a token exchange.
    pub subject_token: Option<SubjectToken>,
    /// The time until which the server accepts the credentials: the end of the authentication plus the clock skew of the
    /// provider. Streams of the client end then.
    pub valid_until: Option<SystemTime>,
    /// Whether a provider found credentials of the request wrong or unreadable before another provider accepted some. Expired
    /// tokens and outages do not set it. If the request has credentials in several headers, the server counts such a request
    /// as a failed authentication.
    pub has_rejected_credentials: bool,
}

impl Authenticated {
    /// Returns the result for a principal.
    pub fn new(principal: impl Into<Arc<Principal>>) -> Self {
        let principal = principal.into();
        let valid_until = principal.expires_at;
        Self { principal, headers: HeaderMap::new(), subject_token: None, valid_until, has_rejected_credentials: false }
    }

    /// Adds the largest difference of the clocks to the end of the authentication.
    #[must_use]
    pub fn with_clock_skew(mut self, skew: Duration) -> Self {
        self.valid_until = self.principal.expires_at.map(|at| at.checked_add(skew).unwrap_or(at));
        self
    }

    /// Keeps the token of the client for a token exchange.
    #[must_use]
    pub fn with_subject_token(mut self, token: SubjectToken) -> Self {
        self.subject_token = Some(token);
        self
    }
}

/// The token of a client, sealed for a token exchange (RFC 8693).
///
/// A server must not send the token of its client to another server. The type therefore prints nothing. Its token is only for the
/// body of a request to the token endpoint of the authorization server that issued it, such as `mcp_oauth::TokenExchange` sends.
///
/// ```
/// use mcp_auth::SubjectToken;
///
/// let token = SubjectToken::new("hunter2");
/// assert_eq!(format!("{token:?}"), "SubjectToken(…)");
/// assert!(token.since() <= std::time::Instant::now());
/// let secret = token.into_secret();
/// assert!(!format!("{secret:?}").contains("hunter2"));
/// ```
#[derive(Clone)]
pub struct SubjectToken {
    secret: Secret,
    since: Instant,
}

impl SubjectToken {
    /// Seals a token, which a provider has accepted now.
    pub fn new(token: impl Into<Secret>) -> Self {
        Self { secret: token.into(), since: Instant::now() }
    }

    /// Returns the time at which the provider accepted the token. A stream keeps the token of its first request, and its later work
    /// does not change this time.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Returns the token, for a token exchange. `Debug` does not show it.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn into_secret(self) -> Secret {
        self.secret
    }
}

impl fmt::Debug for SubjectToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubjectToken(…)")
    }
}

/// The reason for which a request is not authenticated. Its texts contain nothing of the request.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_auth::Rejection;
/// use mcp_protocol::Challenge;
///
/// assert_eq!(Rejection::Expired.status(), 401);
/// assert_eq!(Rejection::Forbidden.status(), 403);
/// assert_eq!(Rejection::Unavailable { retry_after: Duration::from_secs(5) }.status(), 503);
/// let challenge = Rejection::Expired.challenge(Challenge::bearer());
/// assert_eq!(challenge.to_string(), r#"Bearer error="invalid_token", error_description="the token has expired""#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// The request has no credentials (401).
    Missing,
    /// The credentials cannot be read (400).
    Malformed,
    /// The credentials are wrong (401).
    Invalid,
    /// The credentials were valid earlier (401).
    Expired,
    /// The caller is known, and it may not use the server (403).
    Forbidden,
    /// The DPoP proof is missing or wrong (401, RFC 9449 §7.1).
    InvalidProof,
    /// The DPoP proof needs this nonce (401, RFC 9449 §9).
    FreshProof {
        /// The nonce for the next proof.
        nonce: HeaderValue,
    },
    /// The credentials cannot be checked now (503). An outage is not a reason for the client to log in again.
    Unavailable {
        /// The time after which the client may try again.
        retry_after: Duration,
    },
    /// The credentials are not checked, because too many checks for the peer failed (429).
    TooManyFailures {
        /// The time after which the client may try again.
        retry_after: Duration,
    },
}

impl Rejection {
    /// Returns the HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Missing | Self::Invalid | Self::Expired | Self::InvalidProof | Self::FreshProof { .. } => {
                StatusCode::UNAUTHORIZED
            }
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooManyFailures { .. } => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// Returns the error code of a challenge (RFC 6750 §3.1, RFC 9449 §7). A request without credentials, a caller
    /// that may not use the server, and an outage have none.
    #[must_use]
    pub fn error(&self) -> Option<&'static str> {
        match self {
            // A code of RFC 6750 would make the client log in again, which does not help.
            Self::Missing | Self::Unavailable { .. } | Self::TooManyFailures { .. } | Self::Forbidden => None,
            Self::Malformed => Some("invalid_request"),
            Self::Invalid | Self::Expired => Some("invalid_token"),
            Self::InvalidProof => Some("invalid_dpop_proof"),
            Self::FreshProof { .. } => Some("use_dpop_nonce"),
        }
    }

    /// Returns a description for people.
    #[must_use]
    pub fn description(&self) -> &'static str {
        match self {
            Self::Missing => "the request has no credentials",
            Self::Malformed => "the credentials are malformed",
            Self::Invalid => "the credentials are invalid",
            Self::Expired => "the token has expired",
            Self::Forbidden => "the caller may not use this server",
            Self::InvalidProof => "the DPoP proof is missing or invalid",
            Self::FreshProof { .. } => "the DPoP proof needs the nonce of this response",
            Self::Unavailable { .. } => "the credentials cannot be checked now",
            Self::TooManyFailures { .. } => "too many authentications failed",
        }
    }

    /// Adds the error to a challenge of the authenticator.
    #[must_use]
    pub fn challenge(&self, challenge: Challenge) -> Challenge {
        let has_errors = match self {
            Self::InvalidProof | Self::FreshProof { .. } => challenge.is_scheme("DPoP"),
            _ => challenge.is_scheme("Bearer") || challenge.is_scheme("DPoP"),
        };
        match self.error() {
            Some(error) if has_errors => challenge.with_error(error).with_description(self.description()),
            _ => challenge,
        }
    }

    /// Returns the headers of the response beside the challenges: the nonce, or the time of the next attempt.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        match self {
            Self::FreshProof { nonce } => {
                headers.insert(DPOP_NONCE, nonce.clone());
            }
            Self::Unavailable { retry_after } | Self::TooManyFailures { retry_after } => {
                let seconds = retry_after.as_secs().max(1);
                headers.insert(header::RETRY_AFTER, seconds.into());
            }
            _ => {}
        }
        headers
    }

    /// The order in which a chain prefers rejections. The highest is the most precise.
    pub(crate) fn precedence(&self) -> u8 {
        match self {
            Self::Missing => 0,
            Self::Malformed => 1,
            Self::Invalid => 2,
            Self::Expired => 3,
            Self::InvalidProof => 4,
            Self::FreshProof { .. } => 5,
            Self::Unavailable { .. } | Self::TooManyFailures { .. } => 6,
            Self::Forbidden => 7,
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.description())
    }
}

impl std::error::Error for Rejection {}

/// Returns a principal with the scheme of its credentials.
pub(crate) fn with_scheme(mut principal: Principal, scheme: &str) -> Principal {
    principal.scheme.get_or_insert_with(|| scheme.to_owned());
    principal
}
