//! Opaque tokens, which the issuer checks for the server (RFC 7662).

use std::{fmt, sync::OnceLock, time::Duration};

use http::{HeaderMap, StatusCode, header};
use mcp_fetch::Fetch;
use mcp_protocol::{Challenge, Principal, auth::Secret};
use serde_json::{Map, Value};

use crate::{
    authenticator::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection, SubjectToken},
    crypto,
    error::ConfigError,
    issuer_request::{self, IssuerRequests},
    json,
    jwt::{CLOCK_SKEW, check_url, claims::Rules, remote},
    token_verifier::{self, TokenVerifier},
    verified::Verified,
};

/// Authenticates clients by opaque tokens in `Authorization: Bearer …`, which the issuer checks (RFC 7662).
///
/// The result for a valid token is remembered for at most a minute and not beyond the expiry time, that for an invalid token
/// for five seconds. A revoked token is therefore accepted for up to a minute. When the issuer is away, the answer is 503.
///
/// The response of the issuer must name this server as the audience ([`audience`](Self::audience)).
///
/// ```
/// use mcp_auth::Introspection;
///
/// let auth = Introspection::issuer("https://as.example", "mcp-server", "hunter2")?;
/// # let _ = auth;
/// # Ok::<_, mcp_auth::ConfigError>(())
/// ```
pub struct Introspection {
    issuers: Vec<String>,
    /// The URL, once it is known.
    endpoint: OnceLock<String>,
    requests: IssuerRequests,
    audiences: Vec<String>,
    may_omit_audience: bool,
    scope_claims: Vec<String>,
    keeps_subject_token: bool,
    fetch: Fetch,
    verified: Verified,
}

impl Introspection {
    /// Accepts tokens of an issuer whose metadata document names the introspection endpoint (RFC 8414). The server
    /// authenticates there with a client id and a secret (`client_secret_basic`).
    ///
    /// # Errors
    /// If the issuer is not an `https` URL, or an `http` URL of this machine.
    pub fn issuer(
        issuer: impl Into<String>,
        client_id: impl Into<Secret>,
        client_secret: impl Into<Secret>,
    ) -> Result<Self, ConfigError> {
        let issuer = issuer.into();
        check_url(&issuer)?;
        let fetch = Fetch::builder().for_server(&issuer).build();
        Self::new(issuer, fetch, OnceLock::new(), &client_id.into(), &client_secret.into())
    }

    /// Accepts tokens of an issuer whose introspection endpoint is at a URL.
    ///
    /// # Errors
    /// If the URL does not begin with `https://`, or with `http://` for this machine.
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
        let fetch = Fetch::builder().for_server(&url).build();
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
        Ok(Self {
            issuers: vec![issuer],
            endpoint,
            requests: IssuerRequests::new(&id, &secret)?,
            audiences: Vec::new(),
            may_omit_audience: false,
            scope_claims: vec!["scope".to_owned()],
            keeps_subject_token: false,
            fetch,
            verified: Verified::with_skew(CLOCK_SKEW),
        })
    }

    /// Accepts tokens for this audience instead of the public URL of the endpoint. Each call adds one.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audiences.push(audience.into());
        self
    }

    /// Accepts a response without `aud`. Only for an issuer that answers each server about the tokens for that server only:
    /// otherwise a token for any other server is accepted.
    #[must_use]
    pub fn dangerous_allow_missing_audience(mut self) -> Self {
        self.may_omit_audience = true;
        self
    }

    /// Sets the largest difference between the clocks of the issuer and this server. The default is 60 seconds.
    #[must_use]
    pub fn clock_skew(mut self, skew: Duration) -> Self {
        self.verified.skew = skew;
        self
    }

    /// Reads scopes from this member too. The value is a text with scopes between spaces, or a list. The default is `scope`.
    #[must_use]
    pub fn scope_claim(mut self, name: impl Into<String>) -> Self {
        self.scope_claims.push(name.into());
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
        self.fetch = fetch;
        self
    }

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
    async fn introspect(&self, token: &str, resource: &str) -> Result<Principal, Rejection> {
        let _running = self.requests.begin()?;
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
            Some(Value::Bool(true)) => self.principal(claims, resource),
            Some(Value::Bool(false)) => Err(Rejection::Invalid),
            _ => Err(issuer_request::malformed(self.name())),
        }
    }

    fn principal(&self, mut claims: Map<String, Value>, resource: &str) -> Result<Principal, Rejection> {
        for name in ["active", "token_type"] {
            claims.remove(name);
        }
        let configured: Vec<&str> = self.audiences.iter().map(String::as_str).collect();
        let rules = Rules {
            issuers: &self.issuers,
            audiences: if configured.is_empty() { &[resource] } else { &configured },
            skew: self.verified.skew,
            scope_claims: &self.scope_claims,
            is_lenient: true,
            may_omit_audience: self.may_omit_audience,
        };
        rules.check(&claims, self.verified.clock.now()).map_err(|fault| fault.reject("introspection"))
    }
}

impl TokenVerifier for Introspection {
    fn verify_token<'a>(
        &'a self,
        token: &'a str,
        resource: &'a str,
    ) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async move {
            let digest = crypto::digest(&[b"introspection", token.as_bytes(), resource.as_bytes()]);
            let principal = self.verified.check(digest, self.introspect(token, resource)).await?;
            let authenticated = Authenticated::new(principal).with_clock_skew(self.verified.skew);
            Ok(if self.keeps_subject_token {
                authenticated.with_subject_token(SubjectToken::new(token))
            } else {
                authenticated
            })
        })
    }
}

impl Authenticator for Introspection {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(token_verifier::bearer(self, request))
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::bearer()]
    }

    fn authorization_servers(&self) -> Vec<String> {
        self.issuers.clone()
    }
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection")
            .field("issuers", &self.issuers)
            .field("audiences", &self.audiences)
            .finish_non_exhaustive()
    }
}
