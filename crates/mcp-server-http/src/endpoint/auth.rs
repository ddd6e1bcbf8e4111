//! The authentication of an endpoint: the check of credentials, the challenges, and the metadata document.

mod attempts;
mod metadata;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, request::Parts};
use mcp_auth::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection};
use mcp_protocol::{Challenge, Principal, RpcError};
use mcp_server_core::engine::{Denied, contain_async};
use tokio::time::Instant;

use self::attempts::Attempts;
pub(crate) use self::metadata::Metadata;
use crate::{
    answer::{access, body::Body, respond},
    config::{HttpConfig, PublicUrl, SharedAuthenticator},
    request::caller,
};

/// The longest life of a stream whose caller has credentials without an end. The client then opens the stream again, so that
/// its credentials are checked again.
const STREAM_LIFE: Duration = Duration::from_secs(60 * 60);

/// The longest time of one authentication. The providers of `mcp-auth` have shorter limits of their own.
const AUTHENTICATION: Duration = Duration::from_secs(25);
/// The rejection of a request whose authenticator failed.
const OUTAGE: Rejection = Rejection::Unavailable { retry_after: Duration::from_secs(5) };

/// The authentication of one endpoint.
pub(crate) struct Auth {
    checks: Option<Checks>,
    /// The scopes that each operation of the server needs.
    scopes: Vec<String>,
}

/// The parts that only an endpoint with an authenticator has.
struct Checks {
    authenticator: Arc<dyn Authenticator>,
    /// The headers with credentials.
    headers: Vec<HeaderName>,
    public_url: PublicUrl,
    /// The path of the endpoint behind the public URL.
    path: String,
    allows_anonymous: bool,
    metadata: Option<Metadata>,
    attempts: Option<Attempts>,
}

/// The authenticated caller of a request, or an anonymous caller.
pub(crate) struct Authentication {
    pub(crate) caller: Option<Arc<Principal>>,
    /// The headers for the response, from the authenticator.
    headers: Option<HeaderMap>,
}

/// The time at which the streams of a request end.
#[derive(Debug, Clone, Copy)]
struct ValidUntil(Instant);

impl Auth {
    /// # Panics
    /// If there is an authenticator and no public URL.
    #[track_caller]
    pub(crate) fn new(config: &HttpConfig, scopes: &[String]) -> Self {
        let scopes = scopes.to_vec();
        let Some(SharedAuthenticator(authenticator)) = config.authenticator.clone() else {
            if config.failed_authentications.is_some() {
                tracing::warn!("`max_failed_authentications` has no effect without `authenticate`");
            }
            return Self { checks: None, scopes };
        };
        let Some(public_url) = config.public_url.clone() else {
            panic!("`authenticate` needs `public_url`: tokens are issued for the public URL of the endpoint");
        };
        let metadata = Metadata::new(config, &public_url, &*authenticator, &scopes);
        let checks = Checks {
            headers: authenticator.request_headers(),
            authenticator,
            public_url,
            path: config.path.clone(),
            allows_anonymous: config.allows_anonymous,
            metadata,
            attempts: config.failed_authentications.map(Attempts::new),
        };
        Self { checks: Some(checks), scopes }
    }

    /// Returns the metadata document, if the path is one of its paths.
    pub(crate) fn metadata(&self, path: &str) -> Option<&Metadata> {
        self.checks.as_ref()?.metadata.as_ref().filter(|metadata| metadata.has_path(path))
    }

    /// Returns the paths of the metadata document.
    pub(crate) fn metadata_paths(&self) -> &[String] {
        let metadata = self.checks.as_ref().and_then(|checks| checks.metadata.as_ref());
        metadata.map_or(&[], Metadata::paths)
    }

    /// Returns the headers with credentials.
    pub(crate) fn credential_headers(&self) -> &[HeaderName] {
        self.checks.as_ref().map_or(&[], |checks| &checks.headers)
    }

    /// Whether an anonymous session may become the session of the first principal that uses it.
    pub(crate) fn adopts_sessions(&self) -> bool {
        self.checks.as_ref().is_some_and(|checks| checks.allows_anonymous)
    }

    /// Authenticates the caller of a request. Removes the credentials from the request, and adds the principal. Fails with
    /// the response that rejects the request.
    pub(crate) async fn authenticate(&self, parts: &mut Parts) -> Result<Authentication, Response<Body>> {
        let headers = match &self.checks {
            // Boxed, because the requests of endpoints without an authenticator would have the larger future.
            Some(checks) => Some(Box::pin(self.check(checks, parts)).await?),
            None => None,
        };
        Ok(Authentication { caller: caller::principal(&parts.extensions), headers })
    }

    /// Completes the response to an authenticated caller.
    pub(crate) fn complete(&self, response: Response<Body>, authentication: Authentication) -> Response<Body> {
        let Authentication { caller, headers } = authentication;
        let mut response = self.deny(response, caller.as_deref());
        access::name_caller(&mut response, caller);
        if let Some(headers) = headers {
            response.headers_mut().extend(headers);
        }
        response
    }

    /// Checks the credentials of a request. Returns headers for the response.
    async fn check(&self, checks: &Checks, parts: &mut Parts) -> Result<HeaderMap, Response<Body>> {
        if caller::principal(&parts.extensions).is_some() {
            tracing::error!("a layer around the endpoint sets a principal, but the endpoint has an authenticator");
            let error = RpcError::internal("the request cannot be authenticated");
            return Err(respond::refusal(StatusCode::INTERNAL_SERVER_ERROR, &error));
        }
        let target = checks.public_url.of_path(&checks.path, parts.uri.path());
        let request = AuthRequest::new(&parts.method, checks.public_url.as_str(), &parts.headers)
            .with_target(&target)
            .with_extensions(&parts.extensions);
        let check = contained(|| checks.authenticator.authenticate(&request));
        let checked = match &checks.attempts {
            Some(attempts) => attempts.limited(&parts.headers, &checks.headers, &parts.extensions, check).await,
            None => check.await,
        };
        match checked {
            Ok(authenticated) => Ok(checks.admit(parts, authenticated)),
            Err(Rejection::Missing) if checks.allows_anonymous && !checks.has_credentials(&parts.headers) => {
                Ok(HeaderMap::new())
            }
            Err(rejection) => Err(self.reject(checks, &rejection)),
        }
    }

    fn reject(&self, checks: &Checks, rejection: &Rejection) -> Response<Body> {
        let status = rejection.status();
        let error = RpcError::invalid_request(rejection.description());
        let mut response = respond::refusal(status, &error);
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::BAD_REQUEST) {
            let challenges = checks.challenges().map(|challenge| rejection.challenge(challenge));
            challenge(&mut response, challenges.map(|challenge| with_scopes(challenge, &self.scopes)));
        }
        response.headers_mut().extend(rejection.headers());
        no_store(response)
    }

    /// Completes the response to a caller that lacks access. The response has the status 403. An anonymous caller of an
    /// authenticator receives 401.
    fn deny(&self, mut response: Response<Body>, caller: Option<&Principal>) -> Response<Body> {
        let Some(denied) = response.extensions_mut().remove::<Denied>() else { return response };
        let all = self.checks.as_ref().map(|checks| checks.challenges());
        if !denied.is_anonymous {
            // The caller needs other credentials of the same scheme.
            let scheme = caller.and_then(|caller| caller.scheme.as_deref()).unwrap_or("Bearer");
            let same = all.into_iter().flatten().find(|challenge| challenge.is_scheme(scheme));
            let same = same.unwrap_or_else(|| Challenge::new(scheme)).with_error("insufficient_scope");
            challenge(&mut response, [with_scopes(same, &denied.scopes)]);
        } else if let Some(all) = all {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
            challenge(&mut response, all.map(|challenge| with_scopes(challenge, &denied.scopes)));
        }
        // Without an authenticator the application authenticates its callers, so the endpoint has no challenge for them.
        no_store(response)
    }
}

/// Runs an authenticator, also one of the application: it has a time limit, and a panic is an outage.
async fn contained<'a>(
    check: impl FnOnce() -> BoxFuture<'a, Result<Authenticated, Rejection>>,
) -> Result<Authenticated, Rejection> {
    match tokio::time::timeout(AUTHENTICATION, contain_async(check)).await {
        Ok(Ok(checked)) => checked,
        Ok(Err(_)) => {
            // The message of the panic may quote credentials. The panic hook prints it.
            tracing::error!("an authenticator panicked");
            Err(OUTAGE)
        }
        Err(_) => {
            tracing::error!(limit = ?AUTHENTICATION, "an authenticator exceeded its time limit");
            Err(OUTAGE)
        }
    }
}

impl Checks {
    /// Returns the challenges for a request without credentials. Those for tokens name the metadata document.
    fn challenges(&self) -> impl Iterator<Item = Challenge> {
        self.authenticator.challenges().into_iter().map(|challenge| {
            let is_token = challenge.is_scheme("Bearer") || challenge.is_scheme("DPoP");
            match &self.metadata {
                Some(metadata) if is_token => challenge.with_resource_metadata(metadata.url()),
                _ => challenge,
            }
        })
    }

    fn has_credentials(&self, headers: &HeaderMap) -> bool {
        headers.contains_key(header::AUTHORIZATION) || self.headers.iter().any(|name| headers.contains_key(name))
    }

    fn admit(&self, parts: &mut Parts, authenticated: Authenticated) -> HeaderMap {
        // Handlers must not see the credentials, because they must not send them to another server.
        parts.headers.remove(header::AUTHORIZATION);
        for name in &self.headers {
            parts.headers.remove(name);
        }
        let until = authenticated.valid_until.map_or_else(|| Instant::now() + STREAM_LIFE, instant);
        parts.extensions.insert(ValidUntil(until));
        parts.extensions.insert(authenticated.principal);
        if let Some(token) = authenticated.subject_token {
            parts.extensions.insert(token);
        }
        authenticated.headers
    }
}

/// Returns the time at which the streams of a request end: the end of its authentication by the authenticator of the
/// endpoint. An application that authenticates its callers in a layer ends their streams itself.
pub(crate) fn valid_until(extensions: &http::Extensions) -> Option<Instant> {
    extensions.get::<ValidUntil>().map(|ValidUntil(until)| *until)
}

fn instant(time: SystemTime) -> Instant {
    let left = time.duration_since(SystemTime::now()).unwrap_or_default();
    Instant::now() + left.min(STREAM_LIFE)
}

fn with_scopes(challenge: Challenge, scopes: &[String]) -> Challenge {
    // Only tokens have scopes that a client can request.
    let has_scopes = challenge.is_scheme("Bearer") || challenge.is_scheme("DPoP") || challenge.error.is_some();
    // A server should not ask for refresh tokens.
    let scopes = scopes.iter().map(String::as_str).filter(|scope| *scope != "offline_access");
    if has_scopes { challenge.with_scopes(scopes) } else { challenge }
}

/// Adds a header for each challenge.
fn challenge(response: &mut Response<Body>, challenges: impl IntoIterator<Item = Challenge>) {
    for challenge in challenges {
        if let Ok(value) = HeaderValue::try_from(challenge.to_string()) {
            response.headers_mut().append(header::WWW_AUTHENTICATE, value);
        }
    }
}

fn no_store(response: Response<Body>) -> Response<Body> {
    respond::with_header(response, header::CACHE_CONTROL, HeaderValue::from_static("no-store"))
}
