//! Tokens that are bound to a key of the client (RFC 9449).

mod nonce;
pub(crate) mod proof;
mod quota;
#[cfg(test)]
mod tests;

use std::{fmt, ops::RangeInclusive, str::FromStr as _, sync::Arc, time::Duration};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::{HeaderName, header};
use jsonwebtoken::Algorithm;
use mcp_protocol::{Challenge, ProtectedResourceMetadata};
use mcp_store::{KeyValue, MemoryLimits, MemoryStore, Swap};

use self::{
    nonce::{Freshness, Nonces},
    proof::{Expected, Proof},
    quota::{CAPACITY, Quota},
};
use crate::{
    authenticator::{AuthRequest, Authenticated, Authenticator, BoxFuture, DPOP_NONCE, Rejection},
    clock::{Clock, Moment},
    credentials, crypto,
    error::ConfigError,
    jwt::PUBLIC,
    token_verifier::{self, TokenVerifier},
};

const DPOP: HeaderName = HeaderName::from_static("dpop");
/// The longest time of a lookup in the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// The bounds of [`Dpop::window`].
const WINDOWS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);
/// The largest difference between the clocks of two nodes, or of one clock before and after a correction.
const CLOCK_SKEW: Duration = Duration::from_secs(60);
/// The bytes that a proof takes in the private store.
const PROOF_BYTES: usize = 64;

/// Accepts tokens of another provider that are bound to a key of the client (`Authorization: DPoP …`, RFC 9449).
/// Needs the feature `oauth`.
///
/// Each request has a proof: a signature of the client over the method, the public URL of the request, the token and the
/// time. The provider accepts each proof once, within five minutes of its time. The store has the ids of accepted proofs; the
/// nodes of a fleet share it ([`store`](Self::store)). When the store is away, the answer is 503.
///
/// A process remembers at most a million proofs, and at most a ninth of them for one key: about 300 requests per second. The
/// requests of a client above its share receive 503. The other clients are not affected.
///
/// The default store is empty after a restart. The provider then accepts a proof again whose time is within the window. A
/// random key of [`nonces`](Self::nonces) excludes that, because each process demands nonces of its own.
///
/// Bearer tokens of the other provider are accepted too, unless they are bound to a key, or [`required`](Self::required) is
/// set.
///
/// ```
/// use mcp_auth::{Dpop, Jwt};
///
/// let auth = Dpop::new(Jwt::issuer("https://as.example")?).required();
/// # let _ = auth;
/// # Ok::<_, mcp_auth::ConfigError>(())
/// ```
pub struct Dpop<V> {
    verifier: V,
    algorithms: Vec<Algorithm>,
    is_required: bool,
    window: Duration,
    nonces: Option<Nonces>,
    store: Arc<dyn KeyValue>,
    quota: Quota,
    clock: Clock,
}

impl<V: TokenVerifier> Dpop<V> {
    /// Returns a provider that checks tokens with another provider.
    pub fn new(verifier: V) -> Self {
        Self {
            verifier,
            algorithms: PUBLIC.to_vec(),
            is_required: false,
            window: Duration::from_secs(300),
            nonces: None,
            store: Arc::new(private_store()),
            quota: Quota::new(CAPACITY),
            clock: Clock::system(),
        }
    }

    /// Rejects bearer tokens.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Sets the algorithms of proofs, such as `ES256`. The default is all supported signatures with public keys.
    ///
    /// # Errors
    /// If an algorithm is unknown or has no public keys, or the list is empty.
    pub fn algorithms<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Result<Self, ConfigError> {
        let known = |name: &str| {
            let algorithm = Algorithm::from_str(name).ok().filter(|algorithm| PUBLIC.contains(algorithm));
            algorithm
                .ok_or_else(|| ConfigError::new(format!("the algorithm `{name}` is unknown or has no public keys")))
        };
        self.algorithms = names.into_iter().map(known).collect::<Result<_, _>>()?;
        if self.algorithms.is_empty() {
            return Err(ConfigError::new("the list of algorithms is empty"));
        }
        Ok(self)
    }

    /// Sets the largest difference between the time of a proof and the clock of this server. The default is five minutes.
    ///
    /// # Errors
    /// If the time is shorter than a second or longer than ten minutes.
    pub fn window(mut self, window: Duration) -> Result<Self, ConfigError> {
        if !WINDOWS.contains(&window) {
            return Err(ConfigError::new("the window of proofs must be between one second and ten minutes"));
        }
        self.window = window;
        Ok(self)
    }

    /// Demands a nonce of this server in each proof, so that a client cannot prepare proofs for later. Nonces are valid for
    /// two to four minutes. The nodes of a fleet need one key of at least 32 bytes.
    ///
    /// # Errors
    /// If the key has less than 32 bytes.
    pub fn nonce_key(mut self, key: &[u8]) -> Result<Self, ConfigError> {
        if key.len() < 32 {
            return Err(ConfigError::new("the key of the nonces must have at least 32 bytes"));
        }
        self.nonces = Some(Nonces::new(key));
        Ok(self)
    }

    /// Demands a nonce of this server, as [`nonce_key`](Self::nonce_key) does, with a random key of this process. Proofs with
    /// the nonces of a former process are rejected.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn nonces(self) -> Result<Self, ConfigError> {
        let mut key = [0; 32];
        if !crypto::random(&mut key) {
            return Err(ConfigError::new("the system has no random numbers"));
        }
        self.nonce_key(&key)
    }

    /// Stores the ids of accepted proofs in a store that the nodes of a fleet share. The default is a memory of this process for
    /// a million proofs. An id stays in the store until a minute after the end of the window of its proof.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn KeyValue>) -> Self {
        self.store = store;
        self
    }

    async fn authenticate(&self, request: &AuthRequest<'_>) -> Result<Authenticated, Rejection> {
        let Some(token) = credentials::token(request.headers, "DPoP")? else {
            if self.is_required && credentials::token(request.headers, "Bearer")?.is_some() {
                tracing::debug!("rejected a bearer token, because the server requires proofs");
                return Err(Rejection::Invalid);
            }
            return self.verifier.authenticate(request).await;
        };
        let moment = self.clock.moment();
        let now = moment.time;
        let proof = credentials::single(request.headers, &DPOP).ok().flatten();
        let expected = Expected {
            method: request.method,
            target: request.target,
            token: Some(token),
            algorithms: &self.algorithms,
            window: self.window,
            now,
        };
        let proof = proof.ok_or("the proof is missing or given twice").and_then(|text| Proof::check(text, &expected));
        let proof = proof.map_err(|reason| {
            tracing::debug!(reason, "rejected a proof");
            Rejection::InvalidProof
        })?;
        let mut fresh = None;
        if let Some(nonces) = &self.nonces {
            match nonces.check(proof.nonce.as_deref(), now) {
                Freshness::Current => {}
                Freshness::Previous => fresh = Some(nonces.current(now)),
                Freshness::Unknown => return Err(Rejection::FreshProof { nonce: nonces.current(now) }),
            }
        }
        let mut authenticated = self.verifier.verify_token(token, request.resource).await?;
        let confirmation = authenticated.principal.confirmation.as_ref();
        let bound = confirmation.filter(|confirmation| confirmation.jkt.as_deref() == Some(&*proof.thumbprint));
        let Some(confirmation) = bound else {
            tracing::debug!("rejected a token that is not bound to the key of the proof");
            return Err(Rejection::Invalid);
        };
        token_verifier::check_certificate(confirmation, request)?;
        self.record(&proof, moment).await?;
        if let Some(nonce) = fresh {
            authenticated.headers.insert(DPOP_NONCE, nonce);
        }
        Ok(authenticated)
    }

    /// Records the proof, so that it is accepted once. Only proofs with a valid token reach the store.
    async fn record(&self, proof: &Proof, now: Moment) -> Result<(), Rejection> {
        let digest = crypto::digest(&[proof.thumbprint.as_bytes(), proof.id.as_bytes()]);
        let key = format!("mcp/dpop/{}", BASE64_URL_SAFE_NO_PAD.encode(digest));
        let lifetime = self.lifetime(proof, now);
        let unavailable = Rejection::Unavailable { retry_after: Duration::from_secs(1) };
        let owner = crypto::sha256(proof.thumbprint.as_bytes());
        let Some(place) = self.quota.take(owner, lifetime, now.instant) else {
            tracing::debug!("rejected a proof, because its key has too many proofs");
            return Err(unavailable);
        };
        let recording = self.store.compare_and_swap(&key, None, Some(Arc::from(*b"1")), Some(lifetime));
        let rejection = match tokio::time::timeout(STORE_TIMEOUT, recording).await {
            Ok(Ok(Swap::Done)) => return Ok(()),
            Ok(Ok(_)) => {
                tracing::debug!("rejected a proof that was used before");
                Rejection::InvalidProof
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the id of a proof cannot be stored");
                unavailable
            }
            Err(_) => {
                tracing::warn!("the store of the ids of proofs does not answer");
                unavailable
            }
        };
        self.quota.release(place);
        Err(rejection)
    }

    /// Returns the time for which a node may still accept the proof.
    fn lifetime(&self, proof: &Proof, now: Moment) -> Duration {
        let age = now.time.duration_since(proof.issued_at);
        let window = match age {
            Ok(age) => self.window.saturating_sub(age),
            Err(ahead) => self.window.saturating_add(ahead.duration()),
        };
        window.saturating_add(CLOCK_SKEW)
    }

    fn names(&self) -> Vec<String> {
        self.algorithms.iter().map(|algorithm| format!("{algorithm:?}")).collect()
    }
}

/// Returns the default store, which has places for all proofs of the quota.
fn private_store() -> MemoryStore {
    MemoryStore::with_limits(MemoryLimits::default().entries(CAPACITY).bytes(CAPACITY * PROOF_BYTES))
}

impl<V: TokenVerifier> Authenticator for Dpop<V> {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(self.authenticate(request))
    }

    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        match credentials::token(request.headers, "DPoP") {
            // The check of a proof records it in the store.
            Ok(Some(_)) => None,
            Ok(None) if self.is_required => None,
            Ok(None) => self.verifier.authenticate_now(request),
            Err(rejection) => Some(Err(rejection)),
        }
    }

    fn challenges(&self) -> Vec<Challenge> {
        let names = self.names();
        let mut challenges = vec![Challenge::new("DPoP").with_algs(names.iter().map(String::as_str))];
        if !self.is_required {
            challenges.extend(self.verifier.challenges());
        }
        challenges
    }

    fn request_headers(&self) -> Vec<HeaderName> {
        vec![header::AUTHORIZATION, DPOP]
    }

    fn authorization_servers(&self) -> Vec<String> {
        self.verifier.authorization_servers()
    }

    fn describe(&self, metadata: &mut ProtectedResourceMetadata) {
        metadata.dpop_signing_alg_values_supported = Some(self.names());
        metadata.dpop_bound_access_tokens_required = Some(self.is_required);
        self.verifier.describe(metadata);
    }
}

impl<V: fmt::Debug> fmt::Debug for Dpop<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dpop")
            .field("verifier", &self.verifier)
            .field("is_required", &self.is_required)
            .field("has_nonces", &self.nonces.is_some())
            .finish_non_exhaustive()
    }
}
