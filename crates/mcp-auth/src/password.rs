//! Digests of passwords, and the bounded pool that computes them.

mod argon2id;
mod background;

#[cfg(test)]
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use argon2::Params;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use mcp_protocol::auth::Secret;
use parking_lot::Mutex;
use ring::{digest, pbkdf2};
use tokio::sync::Semaphore;

use self::argon2id::Argon2id;
use crate::{authenticator::Rejection, crypto, error::ConfigError};

/// The least number of iterations of PBKDF2 that is not old (OWASP, 2023).
const GOOD_ITERATIONS: u32 = 600_000;
/// The least memory of Argon2id in KiB that is not old, and the least sum over its passes (OWASP, 2023).
const GOOD_MEMORY: u32 = 7 << 10;
const GOOD_PASSES: u64 = 5 * (7 << 10);
/// The largest number of iterations that a digest may demand.
const MAX_ITERATIONS: u32 = 10_000_000;
/// The largest memory in KiB that a digest may demand, and the largest sum over its passes.
const MAX_MEMORY: u32 = 128 << 10;
const MAX_PASSES: u64 = 1 << 20;

/// The digest of a password.
#[derive(Clone)]
pub(crate) enum PasswordDigest {
    Argon2id(Argon2id),
    Pbkdf2 { iterations: std::num::NonZeroU32, salt: Vec<u8>, hash: Vec<u8> },
    Sha256([u8; 32]),
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
            let digest = Argon2id::parse(text).ok_or_else(invalid)?;
            if digest.params().m_cost() > MAX_MEMORY || passes(digest.params()) > MAX_PASSES {
                return Err(ConfigError::new(
                    "the digest must be cheaper: at most 128 MiB of memory, and 1 GiB in all passes together",
                ));
            }
            return Ok(Self::Argon2id(digest));
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
        crypto::sha256_of_hexadecimal(text).map(Self::Sha256).ok_or_else(invalid)
    }

    /// Whether the digest needs less work to attack than is good practice today.
    pub(crate) fn is_old(&self) -> bool {
        match self {
            Self::Argon2id(digest) => digest.params().m_cost() < GOOD_MEMORY || passes(digest.params()) < GOOD_PASSES,
            Self::Pbkdf2 { iterations, .. } => iterations.get() < GOOD_ITERATIONS,
            Self::Sha256(_) => true,
        }
    }

    /// Returns the settings on which the time of a computation depends.
    pub(crate) fn form(&self) -> Form {
        match self {
            Self::Argon2id(digest) => {
                let params = digest.params();
                Form::Argon2id(params.m_cost(), params.t_cost(), params.p_cost())
            }
            Self::Pbkdf2 { iterations, .. } => Form::Pbkdf2(iterations.get()),
            Self::Sha256(_) => Form::Sha256,
        }
    }

    /// Whether the digest belongs to a password. It takes as long as the digest demands, so it must not run on the threads
    /// of the runtime.
    pub(crate) fn verify(&self, password: &str) -> bool {
        match self {
            Self::Argon2id(digest) => digest.verify(password),
            Self::Pbkdf2 { iterations, salt, hash } => {
                pbkdf2::verify(pbkdf2::PBKDF2_HMAC_SHA256, *iterations, salt, password.as_bytes(), hash).is_ok()
            }
            Self::Sha256(hash) => crypto::is_equal(digest::digest(&digest::SHA256, password.as_bytes()).as_ref(), hash),
        }
    }
}

/// The settings on which the time of a computation depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Argon2id(u32, u32, u32),
    Pbkdf2(u32),
    Sha256,
}

/// Returns the memory of all passes in KiB.
fn passes(params: &Params) -> u64 {
    u64::from(params.m_cost()) * u64::from(params.t_cost())
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
    let digest = Argon2id::hash(password, salt.to_vec());
    Ok(digest.ok_or_else(|| ConfigError::new("the password cannot be hashed"))?.to_string())
}

/// The computations that run at once.
const RUNNING: usize = 2;
/// The computations that wait. A request beyond them is rejected.
const WAITING: usize = 64;
/// The longest time that a computation waits.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The largest number of computations for one user name.
const PER_USER: usize = 4;

/// Computes digests on threads of their own with a low priority: at most two at once, and 64 wait. Credentials that were valid
/// before have a computation of their own with the usual priority, so that guesses do not delay them.
#[derive(Clone)]
pub(crate) struct HashPool {
    running: Arc<Semaphore>,
    /// The open computations by user name.
    open: Arc<Mutex<HashMap<String, usize>>>,
    /// The computation for credentials that were valid before.
    reserved: Arc<Semaphore>,
    /// The places of open computations for credentials that were valid before.
    reserved_places: Arc<Semaphore>,
    /// The number of computations so far.
    #[cfg(test)]
    pub(crate) computed: Arc<AtomicUsize>,
}

impl HashPool {
    pub(crate) fn new() -> Self {
        Self {
            running: Arc::new(Semaphore::new(RUNNING)),
            open: Arc::default(),
            reserved: Arc::new(Semaphore::new(1)),
            reserved_places: Arc::new(Semaphore::new(1 + WAITING)),
            #[cfg(test)]
            computed: Arc::default(),
        }
    }

    /// Computes all digests with a password in their order. Returns whether the own digest, if there is one, belongs to the
    /// password. Without a user name the credentials were valid before.
    pub(crate) async fn verify(
        &self,
        user: Option<String>,
        digests: Vec<PasswordDigest>,
        own: Option<usize>,
        password: Secret,
    ) -> Result<bool, Rejection> {
        let busy = Rejection::Unavailable { retry_after: Duration::from_secs(1) };
        let is_guess = user.is_some();
        let (_open, _place, running) = match user {
            Some(user) => {
                let Some(open) = Open::begin(&self.open, user) else { return Err(busy) };
                (Some(open), None, &self.running)
            }
            None => {
                let Ok(place) = self.reserved_places.try_acquire() else { return Err(busy) };
                (None, Some(place), &self.reserved)
            }
        };
        let permit = tokio::time::timeout(MAX_WAIT, Arc::clone(running).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else { return Err(busy) };
        #[cfg(test)]
        self.computed.fetch_add(digests.len(), Ordering::Relaxed);
        // The computation keeps its permit even if the request is dropped.
        let compute = move || {
            let _permit = permit;
            let results: Vec<bool> = digests.iter().map(|digest| digest.verify(password.expose())).collect();
            own.and_then(|own| results.get(own).copied()).unwrap_or(false)
        };
        let run = move || if is_guess { background::run(compute) } else { Some(compute()) };
        tokio::task::spawn_blocking(run).await.ok().flatten().ok_or(busy)
    }

    /// Takes the permits of all computations, so that no computation begins.
    #[cfg(test)]
    pub(crate) async fn hold(&self) -> tokio::sync::OwnedSemaphorePermit {
        let permits = u32::try_from(RUNNING).unwrap();
        Arc::clone(&self.running).acquire_many_owned(permits).await.unwrap()
    }
}

/// Counts an open computation of a user until it is dropped.
struct Open {
    open: Arc<Mutex<HashMap<String, usize>>>,
    user: String,
}

impl Open {
    /// Begins a computation. `None` if too many are open, for the user or for all users.
    fn begin(open: &Arc<Mutex<HashMap<String, usize>>>, user: String) -> Option<Self> {
        let mut users = open.lock();
        if users.values().sum::<usize>() >= RUNNING + WAITING || users.get(&user).is_some_and(|open| *open >= PER_USER)
        {
            return None;
        }
        *users.entry(user.clone()).or_default() += 1;
        Some(Self { open: Arc::clone(open), user })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut users = self.open.lock();
        if let Some(open) = users.get_mut(&self.user) {
            *open -= 1;
            if *open == 0 {
                users.remove(&self.user);
            }
        }
    }
}

impl fmt::Debug for PasswordDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordDigest(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_that_are_easy_to_attack_are_old() {
        let argon2 = |settings| format!("$argon2id$v=19${settings}$AAAAAAAAAAAAAAAAAAAAAA${}", "A".repeat(43));
        let pbkdf2 = |iterations| format!("pbkdf2-sha256${iterations}$c2FsdHNhbHQ=${}=", "A".repeat(43));
        for (digest, expected) in [
            (argon2("m=8,t=1,p=1"), true),
            (argon2("m=4096,t=20,p=1"), true),
            (argon2("m=19456,t=1,p=1"), true),
            (argon2("m=7168,t=5,p=1"), false),
            (argon2("m=19456,t=2,p=1"), false),
            (argon2("m=47104,t=1,p=1"), false),
            (pbkdf2(599_999), true),
            (pbkdf2(600_000), false),
            ("0".repeat(64), true),
        ] {
            assert_eq!(PasswordDigest::parse(&digest).unwrap().is_old(), expected, "{digest}");
        }
    }

    #[test]
    fn the_work_of_a_digest_is_limited() {
        let argon2 =
            |memory, passes| format!("$argon2id$v=19$m={memory},t={passes},p=1$c2FsdHNhbHQ${}", "A".repeat(43));
        let pbkdf2 = |iterations| format!("pbkdf2-sha256${iterations}$c2FsdHNhbHQ=${}=", "A".repeat(43));
        for (digest, is_accepted) in [
            (argon2(MAX_MEMORY, 1), true),
            (argon2(MAX_MEMORY + 1, 1), false),
            (argon2(MAX_MEMORY, 8), true),
            (argon2(MAX_MEMORY, 9), false),
            (pbkdf2(MAX_ITERATIONS), true),
            (pbkdf2(MAX_ITERATIONS + 1), false),
        ] {
            assert_eq!(PasswordDigest::parse(&digest).is_ok(), is_accepted, "{digest}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn computations_wait_for_a_bounded_time() {
        let pool = HashPool::new();
        let permits = pool.hold().await;
        let digest = PasswordDigest::parse(&"0".repeat(64)).unwrap();
        let start = tokio::time::Instant::now();
        let result = pool.verify(Some("ann".to_owned()), vec![digest], Some(0), "hunter2".into()).await;
        assert!(matches!(result, Err(Rejection::Unavailable { .. })), "{result:?}");
        assert_eq!((start.elapsed(), pool.computed.load(Ordering::Relaxed)), (MAX_WAIT, 0));
        assert!(pool.open.lock().is_empty());
        drop(permits);
    }
}
