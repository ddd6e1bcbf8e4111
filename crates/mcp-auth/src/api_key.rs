//! API keys and static bearer tokens.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::{HeaderName, header};
use mcp_protocol::{Challenge, Principal, auth::Secret};
use ring::{digest, hmac};

use crate::{
    authenticator::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection, with_scheme},
    credentials, crypto,
    error::ConfigError,
    verified::Table,
};

/// Authenticates clients by API keys: in the header `x-api-key`, or as `Authorization: ApiKey …`.
///
/// ```
/// use mcp_auth::ApiKeys;
/// use mcp_protocol::Principal;
///
/// let keys = ApiKeys::new()
///     .header("x-team-key")?
///     .pepper(b"a secret of the server")?
///     .key("hunter2", Principal::new("build-server").with_scopes(["deploy"]))?
///     .hashed_key("hmac-sha256$q0tBGH8lRkUlXh7ul5Pq5zyAVlnGQN0D6PLvGNbYg/U=", Principal::new("reports"))?;
/// # let _ = keys;
/// # Ok::<_, mcp_auth::ConfigError>(())
/// ```
pub struct ApiKeys {
    header: HeaderName,
    table: Table,
    pepper: Option<hmac::Key>,
    has_hmac: bool,
    has_sha256: bool,
    has_warned: AtomicBool,
}

/// The forms in which keys are stored.
const PLAIN: &str = "plain";
const HMAC: &str = "hmac-sha256";
const SHA256: &str = "sha256";
/// The shortest pepper, in bytes.
const MIN_PEPPER: usize = 16;

impl ApiKeys {
    /// Returns a provider without keys.
    #[must_use]
    pub fn new() -> Self {
        let header = HeaderName::from_static("x-api-key");
        let (table, has_warned) = (Table::new(), AtomicBool::new(false));
        Self { header, table, pepper: None, has_hmac: false, has_sha256: false, has_warned }
    }

    /// Reads the key from another header.
    ///
    /// # Errors
    /// If the text is not the name of a header.
    pub fn header(mut self, name: &str) -> Result<Self, ConfigError> {
        let invalid = |_| ConfigError::new("the name of the header contains an invalid character");
        self.header = HeaderName::from_bytes(name.as_bytes()).map_err(invalid)?;
        Ok(self)
    }

    /// Adds a key. Memory contains only its digest.
    ///
    /// # Errors
    /// If the key is empty, begins or ends with white space, or contains a character that is not printable ASCII. Also if the key
    /// or its hash was added before, or the system has no random numbers.
    pub fn key(mut self, key: &str, principal: Principal) -> Result<Self, ConfigError> {
        let (hmac, sha256) = (self.hmac_of(key), digest::digest(&digest::SHA256, key.as_bytes()));
        // The hash of this key must not be a second entry.
        let hashes = hmac.as_ref().map(|hmac| (HMAC, hmac.as_ref())).into_iter().chain([(SHA256, sha256.as_ref())]);
        let hashes: Vec<(&str, &[u8])> = hashes.collect();
        insert(&mut self.table, ("key", key), &hashes, credentials::is_key, with_scheme(principal, "ApiKey"))?;
        Ok(self)
    }

    /// Sets the secret under which keys are hashed ([`hash_api_key`]).
    ///
    /// # Errors
    /// If the secret has less than 16 bytes, or keys or hashes were added before. The provider compares each key with the hashes,
    /// and it does not store keys.
    pub fn pepper(mut self, pepper: &[u8]) -> Result<Self, ConfigError> {
        if pepper.len() < MIN_PEPPER {
            return Err(ConfigError::new("the pepper must have at least 16 bytes"));
        }
        if !self.table.is_empty() {
            return Err(ConfigError::new("the pepper must be set before the keys and the hashes of keys"));
        }
        self.pepper = Some(hmac::Key::new(hmac::HMAC_SHA256, pepper));
        Ok(self)
    }

    /// Sets the longest time for which keys that the function of [`verify_with`](Self::verify_with) accepts are remembered, at
    /// most an hour. The default is a minute. With zero, accepted keys are not remembered. Concurrent requests with one key share
    /// a call, and rejected keys stay rejected for five seconds.
    #[must_use]
    pub fn remember_for(mut self, time: Duration) -> Self {
        self.table.remember_for(time);
        self
    }

    /// Adds a key by its hash: `hmac-sha256$…` of [`hash_api_key`]. The SHA-256 of a key in 64 hexadecimal digits is also
    /// accepted, with a warning in the log, because it has no pepper.
    ///
    /// # Errors
    /// If the text is not a hash, or needs a [`pepper`](Self::pepper) that is not set yet. Also if the hash or its key was added
    /// before.
    pub fn hashed_key(mut self, hash: &str, principal: Principal) -> Result<Self, ConfigError> {
        let invalid = || ConfigError::new("the hash of the key must be `hmac-sha256$…` or 64 hexadecimal digits");
        let principal = with_scheme(principal, "ApiKey");
        if let Some(encoded) = hash.strip_prefix("hmac-sha256$") {
            let bytes = BASE64_STANDARD.decode(encoded).ok().filter(|bytes| bytes.len() == 32).ok_or_else(invalid)?;
            if self.pepper.is_none() {
                return Err(ConfigError::new("the hash of the key needs a pepper: call `pepper` first"));
            }
            self.has_hmac = true;
            self.table.insert((HMAC, &bytes), &[], principal)?;
        } else {
            let bytes = crypto::sha256_of_hexadecimal(hash).ok_or_else(invalid)?;
            tracing::warn!(subject = principal.subject, "an API key is stored as a SHA-256 hash without a pepper");
            self.has_sha256 = true;
            self.table.insert((SHA256, &bytes), &[], principal)?;
        }
        Ok(self)
    }

    /// Checks keys that are not configured with a function. It returns `None` for an invalid key, and an error for an
    /// outage. The provider remembers valid keys for a minute and invalid keys for five seconds. A check has ten seconds, and
    /// at most 64 checks run at once.
    ///
    /// ```
    /// use mcp_auth::{ApiKeys, Rejection};
    /// use mcp_protocol::{Principal, auth::Secret};
    ///
    /// let keys = ApiKeys::new().verify_with(|key: Secret| async move {
    ///     // Look the key up in a database here.
    ///     Ok::<_, Rejection>((key.expose() == "hunter2").then(|| Principal::new("user-7")))
    /// });
    /// # let _ = keys;
    /// ```
    #[must_use]
    pub fn verify_with<F, Fut>(mut self, verify: F) -> Self
    where
        F: Fn(Secret) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Principal>, Rejection>> + Send + 'static,
    {
        self.table.check_with(verify);
        self
    }

    /// Returns the hash of a key under the pepper.
    fn hmac_of(&self, key: &str) -> Option<hmac::Tag> {
        self.pepper.as_ref().map(|pepper| hmac::sign(pepper, key.as_bytes()))
    }

    /// Looks up a key in the table.
    fn find(&self, key: &str) -> Result<Option<&Arc<Principal>>, Rejection> {
        // Each configured form is looked up, so that the time does not show the form of a key.
        let plain = self.table.find(PLAIN, key.as_bytes())?;
        let hashed = match self.has_hmac.then(|| self.hmac_of(key)).flatten() {
            Some(tag) => self.table.find(HMAC, tag.as_ref())?,
            None => None,
        };
        let old = match self.has_sha256 {
            true => self.table.find(SHA256, digest::digest(&digest::SHA256, key.as_bytes()).as_ref())?,
            false => None,
        };
        if let (Some(hashed), Some(old)) = (hashed, old) {
            self.warn_of_two_hashes(hashed, old);
        }
        Ok(plain.or(hashed).or(old))
    }

    /// Warns once that a key has a hash of each form. The hashes do not show this before a client sends the key.
    fn warn_of_two_hashes(&self, used: &Principal, ignored: &Principal) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            let (used, ignored) = (&used.subject, &ignored.subject);
            tracing::warn!(
                used,
                ignored,
                "two entries are hashes of one API key: the entry without a pepper has no effect"
            );
        }
    }
}

/// Checks an entry of the table, or runs the check of the application for credentials without an entry.
async fn verify(
    table: &Table,
    entry: Option<&Arc<Principal>>,
    secret: &str,
    scheme: &str,
) -> Result<Authenticated, Rejection> {
    let principal = match entry {
        Some(principal) => table.current(Arc::clone(principal))?,
        None => scheme_of(table.run_check(secret).await?, scheme),
    };
    Ok(Authenticated::new(principal))
}

/// Returns the result of [`verify`] if it is known without a wait.
fn verify_now(
    table: &Table,
    entry: Result<Option<&Arc<Principal>>, Rejection>,
    secret: &str,
    scheme: &str,
) -> Option<Result<Authenticated, Rejection>> {
    let outcome = match entry {
        Ok(Some(principal)) => table.current(Arc::clone(principal)),
        Ok(None) => table.known_check(secret)?.map(|principal| scheme_of(principal, scheme)),
        Err(rejection) => Err(rejection),
    };
    Some(outcome.map(Authenticated::new))
}

/// Adds a key or a token, and its hashes in the forms that other entries may have.
fn insert(
    table: &mut Table,
    (kind, secret): (&str, &str),
    hashes: &[(&str, &[u8])],
    is_readable: impl Fn(&str) -> bool,
    principal: Principal,
) -> Result<(), ConfigError> {
    let subject = &principal.subject;
    let fault = if secret.trim().is_empty() {
        "is empty"
    } else if secret.trim() != secret {
        "begins or ends with white space"
    } else if !is_readable(secret) {
        "contains a character that a client cannot send"
    } else {
        return table.insert((PLAIN, secret.as_bytes()), hashes, principal);
    };
    Err(ConfigError::new(format!("the {kind} of `{subject}` {fault}")))
}

fn scheme_of(principal: Arc<Principal>, scheme: &str) -> Arc<Principal> {
    if principal.scheme.is_some() { principal } else { Arc::new(with_scheme((*principal).clone(), scheme)) }
}

/// Returns the hash of an API key under the pepper of the server, for [`ApiKeys::hashed_key`].
///
/// ```
/// use mcp_auth::hash_api_key;
///
/// let hash = hash_api_key(b"a secret of the server", "hunter2");
/// assert_eq!(hash, "hmac-sha256$+5t/sohOR+H6JUMcrOwNpWnpL4fZ/oScPNG5x6z5GAI=");
/// ```
#[must_use]
pub fn hash_api_key(pepper: &[u8], key: &str) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, pepper), key.as_bytes());
    format!("hmac-sha256${}", BASE64_STANDARD.encode(tag))
}

impl Default for ApiKeys {
    fn default() -> Self {
        Self::new()
    }
}

impl Authenticator for ApiKeys {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async move {
            let key = credentials::api_key(request.headers, &self.header)?.ok_or(Rejection::Missing)?;
            verify(&self.table, self.find(key)?, key, "ApiKey").await
        })
    }

    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        match credentials::api_key(request.headers, &self.header) {
            Ok(Some(key)) => verify_now(&self.table, self.find(key), key, "ApiKey"),
            Ok(None) => Some(Err(Rejection::Missing)),
            Err(rejection) => Some(Err(rejection)),
        }
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::new("ApiKey").with_param("header", self.header.as_str())]
    }

    fn request_headers(&self) -> Vec<HeaderName> {
        vec![self.header.clone(), header::AUTHORIZATION]
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKeys").field("header", &self.header).field("table", &self.table).finish_non_exhaustive()
    }
}

/// Authenticates clients by fixed tokens in `Authorization: Bearer …`.
///
/// ```
/// use mcp_auth::BearerTokens;
/// use mcp_protocol::Principal;
///
/// let tokens = BearerTokens::new().token("hunter2", Principal::new("build-server"))?;
/// # let _ = tokens;
/// # Ok::<_, mcp_auth::ConfigError>(())
/// ```
pub struct BearerTokens {
    table: Table,
}

impl BearerTokens {
    /// Returns a provider without tokens.
    #[must_use]
    pub fn new() -> Self {
        Self { table: Table::new() }
    }

    /// Adds a token. Memory contains only its digest.
    ///
    /// # Errors
    /// If the token is empty, contains a character that is not a letter, a digit or one of `-._~+/=`, or was added before, or
    /// the system has no random numbers.
    pub fn token(mut self, token: &str, principal: Principal) -> Result<Self, ConfigError> {
        insert(&mut self.table, ("token", token), &[], credentials::is_token, with_scheme(principal, "Bearer"))?;
        Ok(self)
    }

    /// Sets the longest time for which tokens that the function of [`verify_with`](Self::verify_with) accepts are remembered,
    /// at most an hour. The default is a minute. With zero, accepted tokens are not remembered. Concurrent requests with one token
    /// share a call, and rejected tokens stay rejected for five seconds.
    #[must_use]
    pub fn remember_for(mut self, time: Duration) -> Self {
        self.table.remember_for(time);
        self
    }

    /// Checks tokens that are not configured with a function. [`ApiKeys::verify_with`] describes it.
    #[must_use]
    pub fn verify_with<F, Fut>(mut self, verify: F) -> Self
    where
        F: Fn(Secret) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Principal>, Rejection>> + Send + 'static,
    {
        self.table.check_with(verify);
        self
    }
}

impl Default for BearerTokens {
    fn default() -> Self {
        Self::new()
    }
}

impl Authenticator for BearerTokens {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async move {
            let token = credentials::token(request.headers, "Bearer")?.ok_or(Rejection::Missing)?;
            verify(&self.table, self.table.find(PLAIN, token.as_bytes())?, token, "Bearer").await
        })
    }

    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        match credentials::token(request.headers, "Bearer") {
            Ok(Some(token)) => verify_now(&self.table, self.table.find(PLAIN, token.as_bytes()), token, "Bearer"),
            Ok(None) => Some(Err(Rejection::Missing)),
            Err(rejection) => Some(Err(rejection)),
        }
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::bearer()]
    }
}

impl fmt::Debug for BearerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerTokens").field("table", &self.table).finish()
    }
}
