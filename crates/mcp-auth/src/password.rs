//! Digests of passwords, and the bounded pool that computes them.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use argon2::{
    Algorithm, Argon2, Params, PasswordHash, PasswordHasher as _, PasswordVerifier as _, Version,
    password_hash::SaltString,
};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use ring::{digest, pbkdf2};
use tokio::sync::Semaphore;

use crate::{authenticator::Rejection, crypto, error::ConfigError};

/// The least number of iterations of PBKDF2 that is not old (OWASP, 2023).
const GOOD_ITERATIONS: u32 = 600_000;
/// The largest number of iterations and the largest memory (in KiB) that a digest may demand.
const MAX_ITERATIONS: u32 = 10_000_000;
const MAX_MEMORY: u32 = 1 << 20;

/// The digest of a password.
#[derive(Clone)]
pub(crate) enum PasswordDigest {
    Argon2id(String),
    Pbkdf2 { iterations: std::num::NonZeroU32, salt: Vec<u8>, hash: Vec<u8> },
    Sha256(Vec<u8>),
}

impl PasswordDigest {
    /// Parses `$argon2id$…`, `pbkdf2-sha256$iterations$salt$hash` or 64 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Result<Self, ConfigError> {
        let invalid = || {
            ConfigError::new(
                "the digest must be `$argon2id$…`, `pbkdf2-sha256$…` or the SHA-256 in 64 hexadecimal digits",
            )
        };
        if text.starts_with("$argon2id$") {
            let hash = PasswordHash::new(text).map_err(|_| invalid())?;
            let params = Params::try_from(&hash).map_err(|_| invalid())?;
            let is_complete = hash.salt.is_some() && hash.hash.is_some();
            if !is_complete || params.m_cost() > MAX_MEMORY || params.t_cost() > 100 {
                return Err(invalid());
            }
            return Ok(Self::Argon2id(text.to_owned()));
        }
        if let Some(rest) = text.strip_prefix("pbkdf2-sha256$") {
            let parts: Vec<&str> = rest.split('$').collect();
            let [iterations, salt, hash] = parts[..] else { return Err(invalid()) };
            let decode = |part: &str| BASE64_STANDARD.decode(part).map_err(|_| invalid());
            let iterations: std::num::NonZeroU32 = iterations.parse().map_err(|_| invalid())?;
            let (salt, hash) = (decode(salt)?, decode(hash)?);
            if iterations.get() > MAX_ITERATIONS || salt.len() < 8 || hash.len() < 16 {
                return Err(invalid());
            }
            return Ok(Self::Pbkdf2 { iterations, salt, hash });
        }
        let is_hexadecimal = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hexadecimal {
            return Err(invalid());
        }
        let byte = |place| u8::from_str_radix(&text[place..place + 2], 16).map_err(|_| invalid());
        Ok(Self::Sha256((0..64).step_by(2).map(byte).collect::<Result<_, _>>()?))
    }

    /// Whether the digest needs less work to attack than is good practice today.
    pub(crate) fn is_old(&self) -> bool {
        match self {
            Self::Argon2id(_) => false,
            Self::Pbkdf2 { iterations, .. } => iterations.get() < GOOD_ITERATIONS,
            Self::Sha256(_) => true,
        }
    }

    /// Whether the digest belongs to a password. It takes as long as the digest demands, so it must not run on the threads
    /// of the runtime.
    pub(crate) fn verify(&self, password: &str) -> bool {
        match self {
            Self::Argon2id(text) => PasswordHash::new(text)
                .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()),
            Self::Pbkdf2 { iterations, salt, hash } => {
                pbkdf2::verify(pbkdf2::PBKDF2_HMAC_SHA256, *iterations, salt, password.as_bytes(), hash).is_ok()
            }
            Self::Sha256(hash) => crypto::is_equal(digest::digest(&digest::SHA256, password.as_bytes()).as_ref(), hash),
        }
    }
}

/// Returns the digest of a password for [`Basic::user`](crate::Basic::user): Argon2id with 19 MiB of memory, two passes and
/// one lane, and a random salt. It takes about 20 ms.
///
/// # Errors
/// If the system has no random numbers.
///
/// ```
/// let digest = mcp_auth::hash_password("hunter2")?;
/// assert!(digest.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
/// # Ok::<_, mcp_auth::ConfigError>(())
/// ```
pub fn hash_password(password: &str) -> Result<String, ConfigError> {
    let mut salt = [0; 16];
    if !crypto::random(&mut salt) {
        return Err(ConfigError::new("the system has no random numbers"));
    }
    let failed = |_| ConfigError::new("the password cannot be hashed");
    let salt = SaltString::encode_b64(&salt).map_err(failed)?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::default());
    Ok(argon2.hash_password(password.as_bytes(), &salt).map_err(failed)?.to_string())
}

/// The computations that run at once.
const RUNNING: usize = 2;
/// The computations that wait. A request beyond them is rejected.
const WAITING: usize = 64;

/// Computes digests on threads of their own: at most two at once, and 64 wait.
pub(crate) struct HashPool {
    running: Arc<Semaphore>,
    open: Arc<AtomicUsize>,
    /// The number of computations so far.
    pub(crate) computed: AtomicUsize,
}

impl HashPool {
    pub(crate) fn new() -> Self {
        Self { running: Arc::new(Semaphore::new(RUNNING)), open: Arc::default(), computed: AtomicUsize::new(0) }
    }

    /// Verifies a password.
    pub(crate) async fn verify(&self, digest: PasswordDigest, password: String) -> Result<bool, Rejection> {
        let busy = Rejection::Unavailable { retry_after: Duration::from_secs(1) };
        let open = Open(Arc::clone(&self.open));
        if open.0.fetch_add(1, Ordering::AcqRel) >= RUNNING + WAITING {
            return Err(busy);
        }
        let Ok(permit) = Arc::clone(&self.running).acquire_owned().await else { return Err(busy) };
        self.computed.fetch_add(1, Ordering::Relaxed);
        // The computation keeps its permit even if the request is dropped.
        let computing = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            digest.verify(&password)
        });
        computing.await.map_err(|_| busy)
    }

    /// Takes the permits of all computations, so that no computation begins.
    #[cfg(test)]
    pub(crate) async fn hold(&self) -> tokio::sync::OwnedSemaphorePermit {
        let permits = u32::try_from(RUNNING).unwrap();
        Arc::clone(&self.running).acquire_many_owned(permits).await.unwrap()
    }
}

/// Counts an open request until it is dropped.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for PasswordDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordDigest(…)")
    }
}
