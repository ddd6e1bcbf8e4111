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
use ring::hmac;

use crate::{
    authenticator::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection},
    credentials,
    crypto::{self, Digest},
    error::ConfigError,
    verified::{Hashed, Table},
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
    has_warned: AtomicBool,
}

/// The shortest pepper, in bytes.
const MIN_PEPPER: usize = 16;

impl ApiKeys {
    /// Returns a provider without keys.
    #[must_use]
    pub fn new() -> Self {
        let header = HeaderName::from_static("x-api-key");
        let (table, has_warned) = (Table::new("ApiKey"), AtomicBool::new(false));
        Self { header, table, pepper: None, has_hmac: false, has_warned }
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
    /// or its hash was added before.
    pub fn key(mut self, key: &str, principal: Principal) -> Result<Self, ConfigError> {
        check_readable("key", key, credentials::is_key, &principal)?;
        self.table.insert(sha256(key), self.hmac_of(key), principal)?;
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
        if let Some(encoded) = hash.strip_prefix("hmac-sha256$") {
            let bytes = BASE64_STANDARD.decode(encoded).ok().and_then(|bytes| Digest::try_from(bytes).ok());
            let bytes = bytes.ok_or_else(invalid)?;
            if self.pepper.is_none() {
                return Err(ConfigError::new("the hash of the key needs a pepper: call `pepper` first"));
            }
            self.has_hmac = true;
            self.table.insert(Hashed::Hmac(bytes), None, principal)?;
        } else {
            let bytes = crypto::sha256_of_hexadecimal(hash).ok_or_else(invalid)?;
            tracing::warn!(subject = principal.subject, "an API key is stored as a SHA-256 hash without a pepper");
            self.table.insert(Hashed::Sha256(bytes), None, principal)?;
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
    fn hmac_of(&self, key: &str) -> Option<Hashed> {
        let tag = hmac::sign(self.pepper.as_ref()?, key.as_bytes());
        tag.as_ref().try_into().ok().map(Hashed::Hmac)
    }

    /// Looks up a key in the table.
    fn find(&self, key: &str) -> Option<&Arc<Principal>> {
        // Each configured hash is looked up, so that the time does not show the hash of a key.
        let hmac = if self.has_hmac { self.hmac_of(key) } else { None };
        let with_pepper = hmac.and_then(|hmac| self.table.find(hmac));
        let without = self.table.find(sha256(key));
        if let (Some(with_pepper), Some(without)) = (with_pepper, without) {
            self.warn_of_two_hashes(with_pepper, without);
        }
        with_pepper.or(without)
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
async fn verify(table: &Table, entry: Option<&Arc<Principal>>, secret: &str) -> Result<Authenticated, Rejection> {
    let principal = match entry {
        Some(principal) => table.current(Arc::clone(principal))?,
        None => table.run_check(secret).await?,
    };
    Ok(Authenticated::new(principal))
}

/// Returns the result of [`verify`] if it is known without a wait.
fn verify_now(table: &Table, entry: Option<&Arc<Principal>>, secret: &str) -> Option<Result<Authenticated, Rejection>> {
    let outcome = match entry {
        Some(principal) => table.current(Arc::clone(principal)),
        None => table.known_check(secret)?,
    };
    Some(outcome.map(Authenticated::new))
}

fn sha256(secret: &str) -> Hashed {
    Hashed::Sha256(crypto::sha256(secret.as_bytes()))
}

/// Rejects a key or a token that a client cannot send.
fn check_readable(
    kind: &str,
    secret: &str,
    is_readable: impl Fn(&str) -> bool,
    principal: &Principal,
) -> Result<(), ConfigError> {
    let subject = &principal.subject;
    let fault = if secret.trim().is_empty() {
        "is empty"
    } else if secret.trim() != secret {
        "begins or ends with white space"
    } else if !is_readable(secret) {
        "contains a character that a client cannot send"
    } else {
        return Ok(());
    };
    Err(ConfigError::new(format!("the {kind} of `{subject}` {fault}")))
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
            verify(&self.table, self.find(key), key).await
        })
    }

    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        match credentials::api_key(request.headers, &self.header) {
            Ok(Some(key)) => verify_now(&self.table, self.find(key), key),
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
        Self { table: Table::new("Bearer") }
    }

    /// Adds a token. Memory contains only its digest.
    ///
    /// # Errors
    /// If the token is empty, contains an invalid character, or was added before. Valid characters are letters, digits and
    /// `-._~+/=`.
    pub fn token(mut self, token: &str, principal: Principal) -> Result<Self, ConfigError> {
        check_readable("token", token, credentials::is_token, &principal)?;
        self.table.insert(sha256(token), None, principal)?;
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
            verify(&self.table, self.table.find(sha256(token)), token).await
        })
    }

    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        credentials::bearer_now(request.headers, |token| verify_now(&self.table, self.table.find(sha256(token)), token))
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
