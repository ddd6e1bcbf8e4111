//! The authentication of an endpoint: the check of credentials, the challenges, and the metadata document.

mod attempts;
mod challenges;
mod metadata;

use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::extract::OriginalUri;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, request::Parts};
use mcp_auth::{AuthRequest, Authenticated, Authenticator, BoxFuture, ConfigError, Rejection};
#[cfg(feature = "tls")]
use mcp_http_listener::ClientCertificate;
use mcp_protocol::{Challenge, Principal, RpcError};
use mcp_server_core::engine::{Denied, contain_async};
use tokio::time::Instant;

use self::attempts::Attempts;
pub(crate) use self::metadata::Metadata;
use crate::{
    answer::{access, body::Body, respond},
    config::{HttpConfig, PublicUrl, SharedAuthenticator, SsePaths},
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
    /// The headers with credentials: those of the authenticator and `Authorization`.
    headers: Vec<HeaderName>,
    public_url: PublicUrl,
    /// The path of the endpoint behind the public URL.
    path: String,
    sse: Option<SsePaths>,
    allows_anonymous: bool,
    metadata: Option<Metadata>,
    attempts: Option<Attempts>,
}

/// The authenticated caller of a request, or an anonymous caller.
pub(crate) struct Authentication {
    pub(crate) caller: Option<Arc<Principal>>,
    /// The time at which the streams of the request end. An application that authenticates its callers in a layer ends their
    /// streams itself.
    pub(crate) valid_until: Option<Instant>,
    /// The headers for the response, from the authenticator.
    headers: HeaderMap,
}

impl Authentication {
    /// A caller that the endpoint did not authenticate.
    fn of(caller: Option<Arc<Principal>>) -> Self {
        Self { caller, valid_until: None, headers: HeaderMap::new() }
    }
}

impl Auth {
    /// # Errors
    /// If there is an authenticator and no public URL.
    pub(crate) fn new(config: &HttpConfig, scopes: &[String]) -> Result<Self, ConfigError> {
        let scopes = scopes.to_vec();
        let Some(SharedAuthenticator(authenticator)) = config.authenticator.clone() else {
            if config.failed_authentications.is_some() {
                tracing::warn!("`max_failed_authentications` has no effect without `authenticate`");
            }
            return Ok(Self { checks: None, scopes });
        };
        let Some(public_url) = config.public_url.clone() else {
            let text = "`authenticate` needs `public_url`: tokens are issued for the public URL of the endpoint";
            return Err(ConfigError::new(text));
        };
        let metadata = Metadata::new(config, &public_url, &*authenticator, &scopes);
        let checks = Checks {
            headers: credential_headers(&*authenticator),
            authenticator,
            public_url,
            path: config.path.clone(),
            sse: config.sse.clone(),
            allows_anonymous: config.allows_anonymous,
            metadata,
            attempts: config.failed_authentications.map(Attempts::new),
        };
        Ok(Self { checks: Some(checks), scopes })
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

    /// Authenticates the caller of a request. Removes the credentials from the request. Fails with the response that rejects
    /// the request.
    pub(crate) async fn authenticate(&self, parts: &mut Parts) -> Result<Authentication, Response<Body>> {
        let caller = caller::principal(&parts.extensions);
        let Some(checks) = &self.checks else { return Ok(Authentication::of(caller)) };
        if caller.is_some() {
            tracing::error!("a layer around the endpoint sets a principal, but the endpoint has an authenticator");
            let error = RpcError::internal("the request cannot be authenticated");
            return Err(respond::refusal(StatusCode::INTERNAL_SERVER_ERROR, &error));
        }
        let checked = match checks.known(parts) {
            Some(known) => known,
            // Boxed, because the requests of endpoints without an authenticator would have the larger future.
            None => Box::pin(checks.check(parts)).await,
        };
        match checked {
            Ok(authenticated) => Ok(checks.admit(parts, authenticated)),
            Err(Rejection::Missing) if checks.allows_anonymous && !checks.has_credentials(&parts.headers) => {
                Ok(Authentication::of(None))
            }
            Err(rejection) => Err(self.reject(checks, &rejection)),
        }
    }

    /// Completes the response to an authenticated caller.
    pub(crate) fn complete(&self, response: Response<Body>, authentication: Authentication) -> Response<Body> {
        let Authentication { caller, headers, .. } = authentication;
        let mut response = self.deny(response, caller.as_deref());
        access::name_caller(&mut response, caller);
        if !headers.is_empty() {
            response.headers_mut().extend(headers);
        }
        response
    }

    fn reject(&self, checks: &Checks, rejection: &Rejection) -> Response<Body> {
        let status = rejection.status();
        let error = RpcError::invalid_request(rejection.description());
        let mut response = respond::refusal(status, &error);
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::BAD_REQUEST) {
            let all = checks.challenges().map(|challenge| rejection.challenge(challenge));
            challenges::add(&mut response, all.map(|challenge| challenges::with_scopes(challenge, &self.scopes)));
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
            challenges::add(&mut response, [challenges::with_scopes(same, &denied.scopes)]);
        } else if let Some(all) = all {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
            challenges::add(&mut response, all.map(|challenge| challenges::with_scopes(challenge, &denied.scopes)));
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
        Ok(Err(_)) => Err(panicked()),
        Err(_) => {
            tracing::error!(limit = ?AUTHENTICATION, "an authenticator exceeded its time limit");
            Err(OUTAGE)
        }
    }
}

/// Logs the panic of an authenticator. The message of the panic may quote credentials. The panic hook prints it.
fn panicked() -> Rejection {
    tracing::error!("an authenticator panicked");
    OUTAGE
}

impl Checks {
    /// Returns the challenges for a request without credentials. Those for tokens name the metadata document.
    fn challenges(&self) -> impl Iterator<Item = Challenge> {
        let own = self.authenticator.challenges();
        let defaults = || challenges::defaults(&self.authenticator.request_headers(), self.metadata.is_some());
        let all = if own.is_empty() { defaults() } else { own };
        all.into_iter().map(|challenge| {
            let is_token = challenge.is_scheme("Bearer") || challenge.is_scheme("DPoP");
            match &self.metadata {
                Some(metadata) if is_token => challenge.with_resource_metadata(metadata.url()),
                _ => challenge,
            }
        })
    }

    /// Returns the result for a request that the authenticator knows without a wait. An endpoint that limits failures has none,
    /// because the limit comes first.
    fn known(&self, parts: &Parts) -> Option<Result<Authenticated, Rejection>> {
        if self.attempts.is_some() {
            return None;
        }
        self.known_to_authenticator(&self.request(parts, &self.target(parts)))
    }

    fn known_to_authenticator(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        let known = AssertUnwindSafe(|| self.authenticator.authenticate_now(request));
        catch_unwind(known).unwrap_or_else(|_| Some(Err(panicked())))
    }

    /// Checks the credentials of a request.
    async fn check(&self, parts: &Parts) -> Result<Authenticated, Rejection> {
        let target = self.target(parts);
        let request = self.request(parts, &target);
        let Some(attempts) = &self.attempts else {
            return contained(|| self.authenticator.authenticate(&request)).await;
        };
        let check = async {
            match self.known_to_authenticator(&request) {
                Some(known) => known,
                None => contained(|| self.authenticator.authenticate(&request)).await,
            }
        };
        attempts.limited(&parts.headers, &self.headers, &parts.extensions, check).await
    }

    /// Returns the public URL of a request. The paths of HTTP+SSE have URLs beside the public URL of the endpoint. Every other
    /// path is the endpoint itself: a router may have removed a prefix from the path.
    fn target(&self, parts: &Parts) -> Cow<'_, str> {
        let path = parts.uri.path();
        if !self.sse.as_ref().is_some_and(|sse| sse.has(path)) {
            return Cow::Borrowed(self.public_url.as_str());
        }
        let original = parts.extensions.get::<OriginalUri>().map_or(path, |OriginalUri(uri)| uri.path());
        Cow::Owned(self.public_url.beside(&self.path, original, path))
    }

    fn request<'a>(&'a self, parts: &'a Parts, target: &'a str) -> AuthRequest<'a> {
        let request = AuthRequest::new(&parts.method, self.public_url.as_str(), &parts.headers)
            .with_target(target)
            .with_extensions(&parts.extensions);
        #[cfg(feature = "tls")]
        if let Some(certificate) = parts.extensions.get::<ClientCertificate>() {
            return request.with_client_certificate(certificate.der());
        }
        request
    }

    fn has_credentials(&self, headers: &HeaderMap) -> bool {
        self.headers.iter().any(|name| headers.contains_key(name))
    }

    fn admit(&self, parts: &mut Parts, authenticated: Authenticated) -> Authentication {
        // Handlers must not see the credentials, because they must not send them to another server.
        for name in &self.headers {
            parts.headers.remove(name);
        }
        let until = authenticated.valid_until.map_or_else(|| Instant::now() + STREAM_LIFE, instant);
        if let Some(token) = authenticated.subject_token {
            parts.extensions.insert(token);
        }
        Authentication {
            caller: Some(authenticated.principal),
            valid_until: Some(until),
            headers: authenticated.headers,
        }
    }
}

/// Returns the headers of an authenticator and `Authorization`, each of them once. A header that an authenticator names twice has
/// the credentials of one header.
fn credential_headers(authenticator: &dyn Authenticator) -> Vec<HeaderName> {
    let mut headers = authenticator.request_headers();
    headers.push(header::AUTHORIZATION);
    headers.into_iter().fold(Vec::new(), |mut distinct, header| {
        if !distinct.contains(&header) {
            distinct.push(header);
        }
        distinct
    })
}

fn instant(time: SystemTime) -> Instant {
    let left = time.duration_since(SystemTime::now()).unwrap_or_default();
    Instant::now() + left.min(STREAM_LIFE)
}

fn no_store(response: Response<Body>) -> Response<Body> {
    respond::with_header(response, header::CACHE_CONTROL, HeaderValue::from_static("no-store"))
}
