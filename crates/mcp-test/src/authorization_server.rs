//! An OAuth authorization server for tests and for development on one machine.
//!
//! The server is not made for production: it has one user, and it approves each request of that user. It runs inside the
//! process of a test and listens on `127.0.0.1`.
//!
//! | ability | specification |
//! |---|---|
//! | metadata at both well-known paths, a key set with an ES256 key | RFC 8414, OpenID Connect Discovery, RFC 7517 |
//! | dynamic registration; clients of the builder | RFC 7591 |
//! | authorization with a consent page or without, PKCE with S256 only, `resource`, `iss` | RFC 6749, RFC 7636, RFC 8707, RFC 9207 |
//! | redirect URIs are compared exactly, but each port of this machine is allowed | RFC 8252 |
//! | access tokens are JWTs with audience, scopes and client | RFC 9068 |
//! | clients with a secret, a key, or a metadata document | RFC 6749 §2.3, RFC 7523, client id metadata documents |
//! | client credentials, device flow, token exchange, assertions of trusted issuers with ID-JAG | RFC 6749 §4.4, RFC 8628, RFC 8693, RFC 7523 |
//! | tokens that are bound to a key, nonces for proofs | RFC 9449 |
//! | introspection and revocation, opaque access tokens | RFC 7662, RFC 7009 |
//! | refresh tokens rotate; a second use revokes their family | RFC 9700 |
//! | deliberate faults | [`Misbehavior`] |
//!
//! [`AuthorizationServer::respond`] is the whole server as a function: a request and the time go in, a response comes out. All
//! records are in a [`KeyValue`](mcp_store::KeyValue) store, and a code or a refresh token is used up by a compare-and-swap.
//!
//! A resource server accepts its tokens with the issuer and the audience:
//!
//! ```
//! use mcp_auth::Jwt;
//! use mcp_test::authorization_server::AuthorizationServer;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let server = AuthorizationServer::builder().auto_approve().scopes(["read"]).start().await?;
//! let auth = Jwt::issuer(server.issuer()).unwrap().audience("http://127.0.0.1:8080/mcp");
//! // A token without a login:
//! let token = server.issue_token("alice", ["read"], "http://127.0.0.1:8080/mcp").await?;
//! # let _ = (auth, token);
//! # Ok::<_, mcp_test::authorization_server::AuthorizationServerError>(()) }).unwrap();
//! ```

mod assertion;
mod assertion_grant;
mod authenticate;
mod authorize;
mod browser;
mod builder;
mod client_document;
mod clients;
mod clock;
mod code_grant;
mod consent;
mod device;
mod dpop;
mod exchange;
mod fault;
mod inspect;
mod issue;
mod journal;
mod keys;
mod message;
mod metadata;
mod misbehavior;
mod page;
mod redirect_uri;
mod refresh_grant;
mod serve;
mod state;
#[cfg(test)]
mod tests;
mod token;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::Router;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use mcp_protocol::auth::AuthorizationServerMetadata;
use serde_json::Value;

pub use self::{
    browser::open_page,
    builder::{AuthorizationServerBuilder, AuthorizationServerError},
    clients::RegisteredClient,
    journal::{Endpoint, RecordedRequest},
    misbehavior::{Misbehavior, ResponseFault},
    serve::RunningAuthorizationServer,
};
use self::{
    builder::Config, fault::Fault, issue::Issue, journal::Journal, keys::Keys, metadata::path,
    misbehavior::Misbehaviors, state::State,
};

/// An OAuth authorization server for tests. The [module](self) page has its abilities.
///
/// Clones share their state.
///
/// ```
/// use std::time::SystemTime;
///
/// use http::{Request, StatusCode};
/// use mcp_test::authorization_server::AuthorizationServer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = AuthorizationServer::builder().build("http://127.0.0.1:8000")?;
/// let request = Request::get("/.well-known/oauth-authorization-server").body(Default::default()).unwrap();
/// let response = server.respond(request, SystemTime::now()).await;
/// assert_eq!(response.status(), StatusCode::OK);
/// # Ok::<_, mcp_test::authorization_server::AuthorizationServerError>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct AuthorizationServer {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    keys: Keys,
    nonce_key: String,
    state: State,
    journal: Journal,
    misbehaviors: Misbehaviors,
}

/// How a response is sent, if a deliberate fault demands it.
#[derive(Debug, Clone)]
enum Delivery {
    Late(Duration),
    Truncated,
}

impl AuthorizationServer {
    /// Returns a builder with the defaults.
    pub fn builder() -> AuthorizationServerBuilder {
        AuthorizationServerBuilder::new()
    }

    /// Returns the issuer, as the metadata and the tokens name it. It has no slash at its end.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.inner.config.issuer
    }

    /// Responds to a request at a time. The path of the request is that of the URL, with the path of the issuer.
    pub async fn respond(&self, request: Request<Bytes>, now: SystemTime) -> Response<Bytes> {
        let endpoint = self.inner.endpoint(request.uri().path());
        let fault = self.inner.misbehaviors.response(endpoint);
        let mut response = match fault.as_ref().and_then(ResponseFault::response) {
            Some(response) => response,
            None => self.inner.answer(endpoint, &request, now).await,
        };
        match fault {
            Some(ResponseFault::Slow(delay)) => _ = response.extensions_mut().insert(Delivery::Late(delay)),
            Some(ResponseFault::Truncated) => _ = response.extensions_mut().insert(Delivery::Truncated),
            _ => {}
        }
        if is_shared(endpoint) {
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            let exposed = HeaderValue::from_static("dpop-nonce, retry-after, www-authenticate");
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
        self.inner.journal.record(endpoint, &request, response.status());
        response
    }

    /// Issues an access token without a login. Its client is `direct`.
    ///
    /// # Errors
    /// If the store is not available, or the system has no random numbers.
    pub async fn issue_token(
        &self,
        subject: impl Into<String>,
        scopes: impl IntoIterator<Item = impl Into<String>>,
        audience: impl Into<String>,
    ) -> Result<String, AuthorizationServerError> {
        let issue = Issue {
            grant: None,
            client_id: "direct".to_owned(),
            subject: subject.into(),
            scopes: scopes.into_iter().map(Into::into).collect(),
            audience: vec![audience.into()],
            jkt: None,
        };
        let issued = self.inner.issue(issue, SystemTime::now()).await;
        issued.map(|issued| issued.token).map_err(|_| AuthorizationServerError::new("the token could not be issued"))
    }

    /// Issues an id token for a client without a login, for example as the subject of a token exchange.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn issue_id_token(&self, subject: &str, client_id: &str) -> Result<String, AuthorizationServerError> {
        let token = self.inner.id_token(subject, client_id, SystemTime::now());
        token.map_err(|_| AuthorizationServerError::new("the token could not be issued"))
    }

    /// Returns the key set, as the endpoint without faults does.
    #[must_use]
    pub fn key_set(&self) -> Value {
        self.inner.keys.key_set()
    }

    /// Approves the request of a device, as the page does. Returns whether the request was open.
    ///
    /// # Errors
    /// If the store is not available.
    pub async fn approve_device(&self, user_code: &str) -> Result<bool, AuthorizationServerError> {
        self.decide_device(user_code, true).await
    }

    /// Denies the request of a device, as the page does. Returns whether the request was open.
    ///
    /// # Errors
    /// If the store is not available.
    pub async fn deny_device(&self, user_code: &str) -> Result<bool, AuthorizationServerError> {
        self.decide_device(user_code, false).await
    }

    async fn decide_device(&self, user_code: &str, is_approved: bool) -> Result<bool, AuthorizationServerError> {
        let decided = self.inner.decide_device(user_code, is_approved, SystemTime::now()).await;
        decided.map_err(|_| AuthorizationServerError::new("the store is not available"))
    }

    /// Returns the number of requests to an endpoint.
    #[must_use]
    pub fn count(&self, endpoint: Endpoint) -> usize {
        self.inner.journal.count(endpoint)
    }

    /// Returns the last 1,000 requests, the oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.inner.journal.requests()
    }

    /// Adds a deliberate fault, which lasts until [`behave`](Self::behave).
    pub fn misbehave(&self, misbehavior: Misbehavior) {
        self.inner.misbehaviors.add(misbehavior, None);
    }

    /// Adds a deliberate fault that occurs a number of times.
    pub fn misbehave_times(&self, misbehavior: Misbehavior, times: usize) {
        self.inner.misbehaviors.add(misbehavior, Some(times));
    }

    /// Ends all deliberate faults.
    pub fn behave(&self) {
        self.inner.misbehaviors.clear();
    }

    /// Replaces the signing key. The key set then contains the new key only, and earlier tokens are no longer valid.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn rotate_key(&self) -> Result<(), AuthorizationServerError> {
        self.inner.keys.rotate().map_err(|_| AuthorizationServerError::new("the system has no random numbers"))
    }

    /// Returns a router that serves each path with this server. Its requests have the path of the issuer.
    pub fn router(&self) -> Router {
        serve::router(self.clone())
    }
}

impl fmt::Debug for AuthorizationServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationServer").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

/// Whether scripts of each site may read the responses. A page of the user is not shared.
fn is_shared(endpoint: Endpoint) -> bool {
    !matches!(endpoint, Endpoint::Authorization | Endpoint::Decision | Endpoint::Device | Endpoint::Unknown)
}

impl Inner {
    fn endpoint(&self, path: &str) -> Endpoint {
        let base = self.config.base_path.as_str();
        let well_known = [AuthorizationServerMetadata::WELL_KNOWN, AuthorizationServerMetadata::OPENID_WELL_KNOWN];
        if well_known.iter().any(|prefix| path.strip_prefix(prefix) == Some(base)) {
            return Endpoint::Metadata;
        }
        match path.strip_prefix(base).unwrap_or_default() {
            AuthorizationServerMetadata::OPENID_WELL_KNOWN => Endpoint::Metadata,
            path::KEYS => Endpoint::Keys,
            path::REGISTRATION if self.config.registers => Endpoint::Registration,
            path::AUTHORIZATION => Endpoint::Authorization,
            path::DECISION => Endpoint::Decision,
            path::TOKEN => Endpoint::Token,
            path::INTROSPECTION => Endpoint::Introspection,
            path::REVOCATION => Endpoint::Revocation,
            path::DEVICE_AUTHORIZATION => Endpoint::DeviceAuthorization,
            path::DEVICE => Endpoint::Device,
            _ => Endpoint::Unknown,
        }
    }

    async fn answer(&self, endpoint: Endpoint, request: &Request<Bytes>, now: SystemTime) -> Response<Bytes> {
        let methods: &'static [Method] = match endpoint {
            Endpoint::Metadata | Endpoint::Keys => &[Method::GET],
            Endpoint::Authorization | Endpoint::Device => &[Method::GET, Method::POST],
            Endpoint::Unknown => return message::plain(StatusCode::NOT_FOUND, "this path has no endpoint"),
            _ => &[Method::POST],
        };
        if request.method() == Method::OPTIONS && is_shared(endpoint) {
            return preflight();
        }
        if !methods.contains(request.method()) {
            let mut response = message::plain(StatusCode::METHOD_NOT_ALLOWED, "the endpoint has another method");
            let allowed = if methods.contains(&Method::GET) { "GET" } else { "POST" };
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
            return response;
        }
        let result = match endpoint {
            Endpoint::Metadata => Ok(self.metadata()),
            Endpoint::Keys => Ok(self.key_set()),
            Endpoint::Registration => self.register(request, now).await,
            Endpoint::Authorization => Ok(self.authorize(request, now).await),
            Endpoint::Decision => Ok(self.decide(request, now).await),
            Endpoint::Token => self.token(request, now).await,
            Endpoint::Introspection => self.introspect(request, now).await,
            Endpoint::Revocation => self.revoke(request, now).await,
            Endpoint::DeviceAuthorization => self.authorize_device(request, now).await,
            Endpoint::Device => Ok(self.device_page(request, now).await.unwrap_or_else(|fault| page_of_fault(&fault))),
            Endpoint::Unknown => Ok(message::plain(StatusCode::NOT_FOUND, "this path has no endpoint")),
        };
        result.unwrap_or_else(|fault| {
            tracing::debug!(?endpoint, error = fault.error, description = %fault.description, "rejected a request");
            fault.into_response()
        })
    }
}

/// Returns the page for a fault of a request of the user.
fn page_of_fault(fault: &Fault) -> Response<Bytes> {
    message::page(fault.status, page::error(&fault.description))
}

/// Returns the answer to a preflight of a browser. The endpoints use no cookies.
fn preflight() -> Response<Bytes> {
    let mut response = message::plain(StatusCode::NO_CONTENT, "");
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("authorization, content-type, dpop, mcp-protocol-version"),
    );
    response
}
