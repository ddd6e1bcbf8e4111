//! Signed tokens (RFC 7519, RFC 9068).

pub(crate) mod claims;
#[cfg(feature = "oauth")]
mod key_cache;
pub(crate) mod keys;
mod known_tokens;
#[cfg(feature = "oauth")]
pub(crate) mod remote;
#[cfg(feature = "oauth")]
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod token;

use std::{
    fmt,
    str::FromStr as _,
    sync::Arc,
    time::{Duration, SystemTime},
};

use jsonwebtoken::Algorithm;
#[cfg(feature = "oauth")]
use mcp_fetch::Fetch;
use mcp_protocol::{Challenge, Principal, ProtectedResourceMetadata};

#[cfg(feature = "oauth")]
use self::remote::{RemoteKeys, Source};
use self::{
    claims::{Rules, check_expiry, client_claims},
    keys::{Key, KeySet},
    known_tokens::KnownTokens,
    token::Token,
};
#[cfg(feature = "oauth")]
use crate::issuer_url::{check_issuer, check_url, fetch_for};
use crate::{
    authenticator::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection, SubjectToken},
    clock::Clock,
    error::ConfigError,
    token_verifier::{self, TokenVerifier},
    verified::{LONGEST, Outcome, VALID_FOR},
};

/// Authenticates clients by signed tokens in `Authorization: Bearer …`.
///
/// A token must have a valid signature of the issuer, the issuer, an expiry time, and this server as its audience. The
/// audience is the public URL of the endpoint, unless [`audience`](Self::audience) sets others.
///
/// A token that is bound to a client certificate (`x5t#S256`, RFC 8705) is accepted on a connection with this certificate only.
/// A token that is bound to another key (`cnf`) is rejected, except by [`Dpop`](crate::Dpop).
///
/// The result for a valid token is remembered for at most a minute. Keys from a URL are fetched at the first token, and every ten
/// minutes while they are used. An unknown key id or a wrong signature causes another fetch, at most three times a minute. A token
/// with an unknown key is answered with 503 if the keys cannot be fetched then. When the issuer is away, known keys are used
/// for at most 24 hours.
///
/// The host of the configured URL may be in a private network. A host that the metadata document names must be public.
///
/// Issuers sign tokens of other purposes with the same keys. Tokens with the marks of ID tokens, refresh tokens and logout
/// tokens are rejected. [`require_type`](Self::require_type) is stricter, for issuers that follow RFC 9068.
///
/// `Jwt::issuer`, `Jwt::jwks` and `Jwt::fetch` need the feature `oauth`, because they add an HTTP client.
///
/// ```
/// use mcp_auth::Jwt;
///
/// let auth = Jwt::issuer("https://as.example")?;
/// # let _ = auth;
/// # Ok::<_, mcp_auth::ConfigError>(())
/// ```
pub struct Jwt {
    issuers: Vec<String>,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    keys: Keys,
    scope_claims: Vec<String>,
    client_claims: Vec<String>,
    clients_without_audience: Vec<String>,
    required_type: Option<String>,
    keeps_subject_token: bool,
    clock: Clock,
    /// The time for which a token stays valid after its end.
    skew: Duration,
    known: KnownTokens,
    /// The longest time for which a known token is not checked again.
    valid_for: Duration,
}

enum Keys {
    Fixed(KeySet),
    #[cfg(feature = "oauth")]
    Remote(Arc<RemoteKeys>),
}

/// The reason for which a token is rejected. The texts are for log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Invalid(&'static str),
    /// The issuer has no key for the token now.
    #[cfg(feature = "oauth")]
    NoKey,
    Expired,
    #[cfg(feature = "oauth")]
    Unavailable(Duration),
}

/// The algorithms that are allowed by default: signatures with public keys.
pub(crate) const PUBLIC: [Algorithm; 9] = [
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];
/// The shortest shared secret, in bytes (RFC 7518 §3.2).
const MIN_SECRET: usize = 32;
/// The default of the largest difference between the clocks of an issuer and this server.
pub(crate) const CLOCK_SKEW: Duration = Duration::from_secs(60);
/// The largest value of this setting.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(600);

impl Jwt {
    /// Accepts tokens of an issuer whose metadata document names its keys (RFC 8414, OpenID Connect Discovery). Needs the
    /// feature `oauth`.
    ///
    /// # Errors
    /// If the issuer is not an `https` URL, or an `http` URL of this machine, or it has a user, a query or a fragment.
    #[cfg(feature = "oauth")]
    pub fn issuer(issuer: impl Into<String>) -> Result<Self, ConfigError> {
        let issuer = issuer.into();
        check_issuer(&issuer)?;
        let source = Source::Issuer(issuer.clone());
        Self::remote(issuer, source)
    }

    /// Accepts tokens of an issuer whose keys are at a URL. Needs the feature `oauth`.
    ///
    /// # Errors
    /// If the URL does not begin with `https://`, or with `http://` for this machine, or it has a user or a fragment.
    ///
    /// ```
    /// use mcp_auth::Jwt;
    ///
    /// let auth = Jwt::jwks("https://as.example", "https://as.example/keys")?.audience("https://mcp.example.com/mcp");
    /// # let _ = auth;
    /// # Ok::<_, mcp_auth::ConfigError>(())
    /// ```
    #[cfg(feature = "oauth")]
    pub fn jwks(issuer: impl Into<String>, url: impl Into<String>) -> Result<Self, ConfigError> {
        let url = url.into();
        check_url(&url)?;
        Self::remote(issuer.into(), Source::Url(url))
    }

    /// Accepts tokens of an issuer with these keys: a JWK set (RFC 7517) in JSON.
    ///
    /// # Errors
    /// If the text is not a JWK set, or it has more than 100 keys or no usable key.
    ///
    /// ```
    /// use mcp_auth::Jwt;
    ///
    /// let keys = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    /// let auth = Jwt::keys("https://as.example", keys)?.algorithms(["EdDSA"])?;
    /// # let _ = auth;
    /// # Ok::<_, mcp_auth::ConfigError>(())
    /// ```
    pub fn keys(issuer: impl Into<String>, jwk_set: &str) -> Result<Self, ConfigError> {
        let keys = KeySet::parse(jwk_set.as_bytes()).map_err(ConfigError::new)?;
        if keys.is_empty() {
            return Err(ConfigError::new("the key set has no usable key"));
        }
        Ok(Self::new(issuer.into(), Keys::Fixed(keys), PUBLIC.to_vec()))
    }

    /// Accepts tokens that are signed with a shared secret (HS256).
    ///
    /// # Errors
    /// If the secret has less than 32 bytes.
    ///
    /// ```
    /// use mcp_auth::Jwt;
    ///
    /// let auth = Jwt::hs256("https://as.example", b"0123456789abcdef0123456789abcdef")?;
    /// # let _ = auth;
    /// # Ok::<_, mcp_auth::ConfigError>(())
    /// ```
    pub fn hs256(issuer: impl Into<String>, secret: &[u8]) -> Result<Self, ConfigError> {
        if secret.len() < MIN_SECRET {
            return Err(ConfigError::new("the secret must have at least 32 bytes"));
        }
        let keys = KeySet::new([Key::secret(secret)]);
        Ok(Self::new(issuer.into(), Keys::Fixed(keys), vec![Algorithm::HS256]))
    }

    #[cfg(feature = "oauth")]
    fn remote(issuer: String, source: Source) -> Result<Self, ConfigError> {
        let (Source::Issuer(url) | Source::Url(url)) = &source;
        let fetch = fetch_for(url)?;
        let keys = RemoteKeys::new(source, fetch, Clock::system());
        Ok(Self::new(issuer, Keys::Remote(Arc::new(keys)), PUBLIC.to_vec()))
    }

    fn new(issuer: String, keys: Keys, algorithms: Vec<Algorithm>) -> Self {
        Self {
            issuers: vec![issuer],
            audiences: Vec::new(),
            algorithms,
            keys,
            scope_claims: vec!["scope".to_owned(), "scp".to_owned()],
            client_claims: client_claims(),
            clients_without_audience: Vec::new(),
            required_type: None,
            keeps_subject_token: false,
            clock: Clock::system(),
            skew: CLOCK_SKEW,
            known: KnownTokens::new(),
            valid_for: VALID_FOR,
        }
    }

    /// Accepts tokens for this audience instead of the public URL of the endpoint. Each call adds one.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audiences.push(audience.into());
        self
    }

    /// Accepts tokens without the claim `aud` if their claim `client_id` has one of these values. A token with `aud` must still
    /// name this server there.
    ///
    /// This is for issuers whose access tokens have no audience, such as Amazon Cognito. A token of these clients for another
    /// server is accepted too. Each tool, resource and prompt should therefore require a scope that belongs to this server
    /// alone.
    ///
    /// ```
    /// use mcp_auth::Jwt;
    ///
    /// let auth = Jwt::issuer("https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_EXAMPLE")?
    ///     .dangerous_allow_clients_without_audience(["1example23456789"]);
    /// # let _ = auth;
    /// # Ok::<_, mcp_auth::ConfigError>(())
    /// ```
    #[must_use]
    pub fn dangerous_allow_clients_without_audience(
        mut self,
        client_ids: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.clients_without_audience.extend(client_ids.into_iter().map(Into::into));
        self
    }

    /// Accepts a further value of `iss`, for an issuer with several names.
    #[must_use]
    pub fn also_issued_by(mut self, issuer: impl Into<String>) -> Self {
        self.issuers.push(issuer.into());
        self
    }

    /// Sets the allowed algorithms, such as `ES256`. The default is all supported signatures with public keys.
    ///
    /// # Errors
    /// If an algorithm is unknown or does not fit the kind of the keys, or the list is empty.
    pub fn algorithms<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Result<Self, ConfigError> {
        let allowed = self.algorithms.clone();
        self.algorithms = names
            .into_iter()
            .map(|name| {
                let algorithm = Algorithm::from_str(name).ok();
                // A secret verifies HS256 only, and a public key must never be used as a secret.
                algorithm.filter(|algorithm| allowed.contains(algorithm)).ok_or_else(|| {
                    ConfigError::new(format!("the algorithm `{name}` is unknown or does not fit the keys"))
                })
            })
            .collect::<Result<_, _>>()?;
        if self.algorithms.is_empty() {
            return Err(ConfigError::new("the list of algorithms is empty"));
        }
        Ok(self)
    }

    /// Accepts only tokens with this type in their header, such as `at+jwt` (RFC 9068 §2.1). Without it, tokens of the types
    /// `at+jwt` and `JWT` and tokens without a type are accepted.
    #[must_use]
    pub fn require_type(mut self, typ: impl Into<String>) -> Self {
        self.required_type = Some(typ.into());
        self
    }

    /// Sets the largest difference between the clocks of the issuer and this server. The default is 60 seconds.
    ///
    /// # Errors
    /// If the time is longer than ten minutes.
    pub fn clock_skew(mut self, skew: Duration) -> Result<Self, ConfigError> {
        self.skew = check_skew(skew)?;
        Ok(self)
    }

    /// Sets the longest time for which the result for a valid token is remembered, at most an hour. The default is a minute.
    /// With zero, each request checks its token.
    #[must_use]
    pub fn remember_for(mut self, time: Duration) -> Self {
        self.valid_for = time.min(LONGEST);
        self
    }

    /// Reads scopes from this claim too. The value is a text with scopes between spaces, or a list with one scope in each
    /// item. An item with white space is ignored. The defaults are `scope` and `scp`.
    #[must_use]
    pub fn scope_claim(mut self, name: impl Into<String>) -> Self {
        self.scope_claims.push(name.into());
        self
    }

    /// Reads the id of the client from this claim if the token has neither `client_id` nor `azp`, for example from `cid` of Okta.
    /// The id is a part of the identity of the caller: sessions of one user with two clients are then separate.
    ///
    /// ```
    /// use mcp_auth::Jwt;
    ///
    /// let auth = Jwt::issuer("https://example.okta.com/oauth2/default")?.client_claim("cid");
    /// # let _ = auth;
    /// # Ok::<_, mcp_auth::ConfigError>(())
    /// ```
    #[must_use]
    pub fn client_claim(mut self, name: impl Into<String>) -> Self {
        self.client_claims.push(name.into());
        self
    }

    /// Keeps the token of the client for a token exchange. Without this, the token is dropped after the check.
    #[must_use]
    pub fn keep_subject_token(mut self) -> Self {
        self.keeps_subject_token = true;
        self
    }

    /// Fetches keys with these settings, for example through a proxy. It has no effect on fixed keys. Needs the feature `oauth`.
    #[cfg(feature = "oauth")]
    #[must_use]
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        if let Keys::Remote(keys) = &mut self.keys {
            *keys = Arc::new(RemoteKeys::new(keys.source.clone(), fetch, Clock::system()));
        }
        self
    }

    /// Checks a token for the endpoint at this public URL. The last step is the check of its signature.
    fn read<'t>(&self, text: &'t str, resource: &str, now: SystemTime) -> Result<(Token<'t>, Principal), Fault> {
        let token = Token::parse(text, self.required_type.as_deref())?;
        if !self.algorithms.contains(&token.algorithm) {
            return Err(Fault::Invalid("the algorithm is not allowed"));
        }
        let configured: Vec<&str> = self.audiences.iter().map(String::as_str).collect();
        let rules = Rules {
            issuers: &self.issuers,
            audiences: if configured.is_empty() { &[resource] } else { &configured },
            skew: self.skew,
            scope_claims: &self.scope_claims,
            is_lenient: false,
            may_omit_audience: false,
            clients_without_audience: &self.clients_without_audience,
            client_claims: &self.client_claims,
        };
        // The claims come before the signature, because a token of another issuer must not cause a fetch of the keys.
        let principal = rules.check_without_expiry(&token.claims()?, now)?;
        Ok((token, principal))
    }

    /// Checks a token with known keys, except whether it has ended.
    fn verify_with(&self, keys: &KeySet, text: &str, resource: &str) -> Result<Principal, Fault> {
        let (token, principal) = self.read(text, resource, self.clock.now())?;
        let keys = keys.select(token.algorithm, token.key_id());
        if keys.is_empty() {
            return Err(Fault::Invalid("there is no key for the token"));
        }
        if !token.is_signed_by(&keys) {
            return Err(Fault::Invalid("the signature is wrong"));
        }
        Ok(principal)
    }

    /// Checks a token with the keys of an issuer, except whether it has ended.
    #[cfg(feature = "oauth")]
    async fn verify_remote(&self, keys: &Arc<RemoteKeys>, text: &str, resource: &str) -> Result<Principal, Fault> {
        let (token, principal) = self.read(text, resource, self.clock.now())?;
        keys.check(&token).await?;
        Ok(principal)
    }

    /// Rejects a token that has ended, and stores the principal of any other valid token. The signature must be checked before:
    /// a forged token is invalid, so that it counts as a failed authentication.
    fn remember(&self, token: &str, resource: &str, checked: Result<Principal, Fault>) -> Outcome {
        let now = self.clock.moment();
        let current = checked.and_then(|principal| check_expiry(&principal, self.skew, now.time).map(|()| principal));
        let principal = Arc::new(current.map_err(|fault| fault.reject("Bearer"))?);
        let end = principal.expires_at.and_then(|at| at.checked_add(self.skew));
        self.known.insert(token, resource, Arc::clone(&principal), end, self.valid_for, now);
        Ok(principal)
    }

    fn authenticated(&self, principal: Arc<Principal>, token: &str) -> Authenticated {
        let authenticated = Authenticated::new(principal).with_clock_skew(self.skew);
        if self.keeps_subject_token {
            authenticated.with_subject_token(SubjectToken::new(token))
        } else {
            authenticated
        }
    }

    /// Returns the result for a token if the token or its keys are known.
    fn check_now(&self, token: &str, resource: &str) -> Option<Outcome> {
        if let Some(principal) = self.known.get(token, resource, self.clock.moment()) {
            return Some(Ok(principal));
        }
        match &self.keys {
            Keys::Fixed(keys) => Some(self.remember(token, resource, self.verify_with(keys, token, resource))),
            #[cfg(feature = "oauth")]
            Keys::Remote(_) => None,
        }
    }

    async fn check(&self, token: &str, resource: &str) -> Outcome {
        if let Some(known) = self.check_now(token, resource) {
            return known;
        }
        match &self.keys {
            #[cfg(feature = "oauth")]
            Keys::Remote(keys) => {
                let checked = self.verify_remote(keys, token, resource).await;
                self.remember(token, resource, checked)
            }
            // The check with known keys needs no wait.
            Keys::Fixed(_) => Err(Rejection::Invalid),
        }
    }
}

impl TokenVerifier for Jwt {
    fn verify_token<'a>(
        &'a self,
        token: &'a str,
        resource: &'a str,
    ) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async move { Ok(self.authenticated(self.check(token, resource).await?, token)) })
    }
}

/// Checks the setting of the largest difference between two clocks.
pub(crate) fn check_skew(skew: Duration) -> Result<Duration, ConfigError> {
    if skew > MAX_CLOCK_SKEW {
        return Err(ConfigError::new("the clock skew must be at most ten minutes"));
    }
    Ok(skew)
}

impl Fault {
    /// Returns the rejection for the client, and logs the reason.
    pub(crate) fn reject(self, scheme: &'static str) -> Rejection {
        match self {
            Self::Invalid(reason) => {
                tracing::debug!(scheme, reason, "rejected a token");
                Rejection::Invalid
            }
            #[cfg(feature = "oauth")]
            Self::NoKey => {
                tracing::debug!(scheme, "rejected a token, because the issuer has no key for it");
                Rejection::Invalid
            }
            Self::Expired => {
                tracing::debug!(scheme, "rejected an expired token");
                Rejection::Expired
            }
            #[cfg(feature = "oauth")]
            Self::Unavailable(retry_after) => Rejection::Unavailable { retry_after },
        }
    }
}

impl Authenticator for Jwt {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(token_verifier::bearer(self, request))
    }

    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        token_verifier::bearer_now(request, |token| {
            Some(self.check_now(token, request.resource)?.map(|principal| self.authenticated(principal, token)))
        })
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::bearer()]
    }

    fn authorization_servers(&self) -> Vec<String> {
        // The issuer of a shared secret is not an authorization server that a client could use.
        let is_shared = self.algorithms.iter().all(|algorithm| KeySet::is_symmetric(*algorithm));
        if is_shared { Vec::new() } else { self.issuers.iter().take(1).cloned().collect() }
    }

    fn describe(&self, metadata: &mut ProtectedResourceMetadata) {
        metadata.tls_client_certificate_bound_access_tokens = Some(true);
    }
}

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwt")
            .field("issuers", &self.issuers)
            .field("audiences", &self.audiences)
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
}
