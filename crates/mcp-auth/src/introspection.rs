//! Opaque tokens, which the issuer checks for the server (RFC 7662).

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{HeaderMap, StatusCode, header};
use mcp_fetch::Fetch;
use mcp_protocol::{Challenge, Principal, ProtectedResourceMetadata, auth::Secret};
use serde_json::{Map, Value};

use crate::{
    authenticator::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection, SubjectToken},
    crypto::{self, Digest},
    error::ConfigError,
    issuer_request::{self, IssuerRequests},
    issuer_url::{check_issuer, check_url, fetch_for},
    json,
    jwt::{
        CLOCK_SKEW, Fault, check_skew,
        claims::{Rules, client_claims},
        remote,
    },
    token_verifier::{self, TokenVerifier},
    verified::{Verified, invalid},
};

/// Authenticates clients by opaque tokens in `Authorization: Bearer …`, which the issuer checks (RFC 7662). Needs the
/// feature `oauth`.
///
/// The result for a valid token is remembered for at most a minute and not beyond the expiry time, that for an invalid token
/// for five seconds. A revoked token is therefore accepted for up to a minute. When the issuer is away, the answer is 503.
///
/// The response of the issuer must name this server as the audience ([`audience`](Self::audience)) and the user or client as
/// the subject.
///
/// ```
/// use mcp_auth::Introspection;
///
/// let auth = Introspection::issuer("https://as.example", "mcp-server", "hunter2")?;
/// # let _ = auth;
/// # Ok::<_, mcp_auth::ConfigError>(())
/// ```
pub struct Introspection {
    settings: Arc<Settings>,
    keeps_subject_token: bool,
    /// Has the clock and the clock skew too.
    verified: Verified,
}

/// The settings that a check on a task of its own shares.
#[derive(Clone)]
struct Settings {
    issuers: Vec<String>,
    /// The URL, once it is known.
    endpoint: OnceLock<String>,
    requests: IssuerRequests,
    audiences: Vec<String>,
    may_omit_audience: bool,
    scope_claims: Vec<String>,
    client_claims: Vec<String>,
    fetch: Fetch,
}

/// The values of `token_type` for access tokens. The last one is that of an issuer that does not follow RFC 6749 §5.1.
const TYPES: [&str; 3] = ["bearer", "dpop", "access_token"];

impl Introspection {
    /// Accepts tokens of an issuer whose metadata document names the introspection endpoint (RFC 8414). The server
    /// authenticates there with a client id and a secret (`client_secret_basic`).
    ///
    /// # Errors
    /// If the issuer is not an `https` URL, or an `http` URL of this machine, or it has a user, a query or a fragment.
    pub fn issuer(
        issuer: impl Into<String>,
        client_id: impl Into<Secret>,
        client_secret: impl Into<Secret>,
    ) -> Result<Self, ConfigError> {
        let issuer = issuer.into();
        check_issuer(&issuer)?;
        let fetch = fetch_for(&issuer)?;
        Self::new(issuer, fetch, OnceLock::new(), &client_id.into(), &client_secret.into())
    }

    /// Accepts tokens of an issuer whose introspection endpoint is at a URL.
    ///
    /// # Errors
    /// If the URL does not begin with `https://`, or with `http://` for this machine, or it has a user or a fragment.
    ///
    /// ```
    /// use mcp_auth::Introspection;
    ///
    /// let url = "https://as.example/introspect";
    /// let auth = Introspection::endpoint("https://as.example", url, "mcp-server", "hunter2")?.scope_claim("roles");
    /// # let _ = auth;
    /// # Ok::<_, mcp_auth::ConfigError>(())
    /// ```
    pub fn endpoint(
        issuer: impl Into<String>,
        url: impl Into<String>,
        client_id: impl Into<Secret>,
        client_secret: impl Into<Secret>,
    ) -> Result<Self, ConfigError> {
        let url = url.into();
        check_url(&url)?;
        let fetch = fetch_for(&url)?;
        Self::new(issuer.into(), fetch, OnceLock::from(url), &client_id.into(), &client_secret.into())
    }

    fn new(
        issuer: String,
        fetch: Fetch,
        endpoint: OnceLock<String>,
        client_id: &Secret,
        client_secret: &Secret,
    ) -> Result<Self, ConfigError> {
        let (id, secret) = (issuer_request::form_encoded(client_id), issuer_request::form_encoded(client_secret));
        let settings = Settings {
            issuers: vec![issuer],
            endpoint,
            requests: IssuerRequests::new(&id, &secret)?,
            audiences: Vec::new(),
            may_omit_audience: false,
            scope_claims: vec!["scope".to_owned()],
            client_claims: client_claims(),
            fetch,
        };
        Ok(Self { settings: Arc::new(settings), keeps_subject_token: false, verified: Verified::with_skew(CLOCK_SKEW) })
    }

    fn digest(token: &str, resource: &str) -> Digest {
        crypto::digest(&[token.as_bytes(), resource.as_bytes()])
    }

    fn authenticated(&self, principal: Arc<Principal>, token: &str) -> Authenticated {
        let authenticated = Authenticated::new(principal).with_clock_skew(self.verified.skew);
        if self.keeps_subject_token {
            authenticated.with_subject_token(SubjectToken::new(token))
        } else {
            authenticated
        }
    }

    fn settings(&mut self) -> &mut Settings {
        Arc::make_mut(&mut self.settings)
    }

    /// Accepts tokens for this audience instead of the public URL of the endpoint. Each call adds one.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.settings().audiences.push(audience.into());
        self
    }

    /// Accepts a response without `aud`. Only for an issuer that answers each server about the tokens for that server only:
    /// otherwise a token for any other server is accepted.
    #[must_use]
    pub fn dangerous_allow_missing_audience(mut self) -> Self {
        self.settings().may_omit_audience = true;
        self
    }

    /// Sets the largest difference between the clocks of the issuer and this server. The default is 60 seconds.
    ///
    /// # Errors
    /// If the time is longer than ten minutes.
    pub fn clock_skew(mut self, skew: Duration) -> Result<Self, ConfigError> {
        self.verified.skew = check_skew(skew)?;
        Ok(self)
    }

    /// Sets the longest time for which the result for a valid token is remembered, at most an hour. The default is a minute.
    /// With zero, each request asks the issuer.
    #[must_use]
    pub fn remember_for(mut self, time: Duration) -> Self {
        self.verified.remember_for(time);
        self
    }

    /// Reads scopes from this member too. The value is a text with scopes between spaces, or a list with one scope in
    /// each item. The default is `scope`.
    #[must_use]
    pub fn scope_claim(mut self, name: impl Into<String>) -> Self {
        self.settings().scope_claims.push(name.into());
        self
    }

    /// Keeps the token of the client for a token exchange. Without this, the token is dropped after the check.
    #[must_use]
    pub fn keep_subject_token(mut self) -> Self {
        self.keeps_subject_token = true;
        self
    }

    /// Sends the requests to the issuer with these settings, for example through a proxy.
    #[must_use]
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        self.settings().fetch = fetch;
        self
    }
}

impl Settings {
    fn name(&self) -> &str {
        self.issuers.first().map_or("", String::as_str)
    }

    async fn url(&self) -> Result<&str, Rejection> {
        if let Some(url) = self.endpoint.get() {
            return Ok(url);
        }
        let unavailable = |reason: String| {
            tracing::warn!(issuer = self.name(), reason, "the introspection endpoint of an issuer is unknown");
            Rejection::Unavailable { retry_after: Duration::from_secs(5) }
        };
        let metadata = remote::discover(&self.fetch, self.name()).await.map_err(unavailable)?;
        let url = metadata.introspection_endpoint;
        let url = url.ok_or_else(|| unavailable("the metadata of the issuer names no endpoint".to_owned()))?;
        Ok(self.endpoint.get_or_init(|| url))
    }

    /// Asks the issuer about a token.
    async fn introspect(&self, token: &str, resource: &str, verified: &Verified) -> Result<Principal, Rejection> {
        let _running = self.requests.begin().await?;
        let url = self.url().await?;
        let form = [("token", token), ("token_type_hint", "access_token")];
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, self.requests.authorization.clone())]);
        let response = self.fetch.post_form_with(url, &form, headers).await;
        let response = response.map_err(|error| issuer_request::no_response(self.name(), &error))?;
        if response.status() != StatusCode::OK {
            return Err(issuer_request::unexpected(self.name(), &response));
        }
        let claims = json::object(response.body()).ok_or_else(|| issuer_request::malformed(self.name()))?;
        match claims.get("active") {
            Some(Value::Bool(true)) => self.principal(claims, resource, verified),
            Some(Value::Bool(false)) => Err(invalid("the issuer reports an inactive token")),
            _ => Err(issuer_request::malformed(self.name())),
        }
    }

    fn principal(
        &self,
        mut claims: Map<String, Value>,
        resource: &str,
        verified: &Verified,
    ) -> Result<Principal, Rejection> {
        claims.remove("active");
        let token_type = claims.remove("token_type").filter(|value| !value.is_null());
        let is_access_token =
            |value: &Value| TYPES.iter().any(|typ| value.as_str().is_some_and(|it| it.eq_ignore_ascii_case(typ)));
        if !token_type.as_ref().is_none_or(is_access_token) {
            return Err(Fault::Invalid("the token is not an access token").reject("introspection"));
        }
        let configured: Vec<&str> = self.audiences.iter().map(String::as_str).collect();
        let rules = Rules {
            issuers: &self.issuers,
            audiences: if configured.is_empty() { &[resource] } else { &configured },
            skew: verified.skew,
            scope_claims: &self.scope_claims,
            is_lenient: true,
            may_omit_audience: self.may_omit_audience,
            clients_without_audience: &[],
            client_claims: &self.client_claims,
        };
        rules.check(&claims, verified.clock.now()).map_err(|fault| fault.reject("introspection"))
    }
}

impl TokenVerifier for Introspection {
    fn verify_token<'a>(
        &'a self,
        token: &'a str,
        resource: &'a str,
    ) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async move {
            let digest = Self::digest(token, resource);
            let (settings, verified) = (Arc::clone(&self.settings), self.verified.clone());
            let (secret, resource) = (Secret::from(token), resource.to_owned());
            let check = async move { settings.introspect(secret.expose(), &resource, &verified).await };
            Ok(self.authenticated(self.verified.check(digest, || check).await?, token))
        })
    }
}

impl Authenticator for Introspection {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(token_verifier::bearer(self, request))
    }

    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        token_verifier::bearer_now(request, |token| {
            let known = self.verified.known(&Self::digest(token, request.resource))?;
            Some(known.map(|principal| self.authenticated(principal, token)))
        })
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::bearer()]
    }

    fn authorization_servers(&self) -> Vec<String> {
        self.settings.issuers.clone()
    }

    fn describe(&self, metadata: &mut ProtectedResourceMetadata) {
        metadata.tls_client_certificate_bound_access_tokens = Some(true);
    }
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection")
            .field("issuers", &self.settings.issuers)
            .field("audiences", &self.settings.audiences)
            .finish_non_exhaustive()
    }
}
