//! Checks of credentials whose results are remembered, and the table of configured credentials.

use std::{collections::HashMap, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use mcp_protocol::{Principal, auth::Secret};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    authenticator::{Rejection, with_scheme},
    cache::{Cache, Valid},
    clock::Clock,
    crypto::{self, Digest},
    error::ConfigError,
    limit::CheckLimit,
};

/// The future of a check by the application.
type Checking = Pin<Box<dyn Future<Output = Result<Option<Principal>, Rejection>> + Send>>;
type Check = dyn Fn(Secret) -> Checking + Send + Sync;
/// The result of a check.
pub(crate) type Outcome = Result<Arc<Principal>, Rejection>;

/// The default of the longest time for which valid credentials are not checked again.
pub(crate) const VALID_FOR: Duration = Duration::from_secs(60);
/// The largest value of this setting.
pub(crate) const LONGEST: Duration = Duration::from_secs(3600);
/// The reasons for which a provider rejects credentials, for log records.
const NO_ENTRY: &str = "no entry has the credentials";
pub(crate) const NO_PRINCIPAL: &str = "the function of the application does not know the credentials";
/// The largest number of checks that run at once on tasks of their own.
const MAX_RUNNING: usize = 1_024;
/// The longest time of such a check.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The results of checks: those of valid credentials for at most a minute, those of invalid ones for five seconds.
#[derive(Clone)]
pub(crate) struct Verified {
    shared: Arc<Shared>,
    pub(crate) clock: Clock,
    /// The time for which a principal stays valid after its end.
    pub(crate) skew: Duration,
    valid_for: Duration,
}

struct Shared {
    cache: Cache<Arc<Principal>>,
    /// The checks that run on tasks of their own.
    running: Mutex<HashMap<Digest, watch::Receiver<Option<Outcome>>>>,
}

impl Verified {
    pub(crate) fn new() -> Self {
        let shared = Arc::new(Shared { cache: Cache::new(), running: Mutex::default() });
        Self { shared, clock: Clock::system(), skew: Duration::ZERO, valid_for: VALID_FOR }
    }

    /// Returns a check whose principals stay valid for this time after their end.
    #[cfg(feature = "oauth")]
    pub(crate) fn with_skew(skew: Duration) -> Self {
        Self { skew, ..Self::new() }
    }

    /// Sets the longest time for which valid credentials are not checked again, at most an hour.
    pub(crate) fn remember_for(&mut self, time: Duration) {
        self.valid_for = time.min(LONGEST);
    }

    /// Returns the remembered result for credentials.
    pub(crate) fn known(&self, digest: &Digest) -> Option<Outcome> {
        let known = self.shared.cache.get(digest, self.clock.moment())?;
        Some(known.ok_or_else(|| invalid("an earlier check rejected the credentials")))
    }

    /// Whether the last check of the credentials accepted them, also if the result is too old to be used.
    pub(crate) fn was_valid(&self, digest: &Digest) -> bool {
        self.shared.cache.was_valid(digest)
    }

    /// Remembers the result of a check, except an outage.
    pub(crate) fn remember(&self, digest: Digest, result: Result<Principal, Rejection>) -> Outcome {
        let (result, now) = (result.map(Arc::new), self.clock.moment());
        match &result {
            Ok(principal) => {
                let end = principal.expires_at.and_then(|at| at.checked_add(self.skew));
                if end.is_some_and(|end| end <= now.time) {
                    return Err(Rejection::Expired);
                }
                self.shared.cache.valid(digest, Valid::new(Arc::clone(principal), end, self.valid_for, now));
            }
            Err(Rejection::Invalid) => self.shared.cache.invalid(digest, now),
            Err(_) => {}
        }
        result
    }

    /// Returns the remembered result for credentials, or runs the check on a task of its own. Requests with the same
    /// credentials share one check, and the end of a request does not end the check.
    pub(crate) async fn check<F>(&self, digest: Digest, check: impl FnOnce() -> F) -> Outcome
    where
        F: Future<Output = Result<Principal, Rejection>> + Send + 'static,
    {
        let unavailable = Rejection::Unavailable { retry_after: Duration::from_secs(1) };
        let (mut result, sender) = {
            let mut running = self.shared.running.lock();
            // A check stores its result before it leaves the map.
            if let Some(known) = self.known(&digest) {
                return known;
            }
            match running.get(&digest) {
                Some(result) => (result.clone(), None),
                None if running.len() >= MAX_RUNNING => return Err(unavailable),
                None => {
                    let (sender, result) = watch::channel(None);
                    running.insert(digest, result.clone());
                    (result, Some(sender))
                }
            }
        };
        if let Some(sender) = sender {
            let entry = Running { shared: Arc::clone(&self.shared), digest };
            let (verified, check) = (self.clone(), check());
            tokio::spawn(async move {
                let checked = tokio::time::timeout(TIMEOUT, check).await.unwrap_or_else(|_| {
                    tracing::warn!("a check of credentials takes too long");
                    Err(Rejection::Unavailable { retry_after: Duration::from_secs(1) })
                });
                let outcome = verified.remember(digest, checked);
                drop(entry);
                let _ = sender.send(Some(outcome));
            });
        }
        // The task ends without a result if the check panics.
        let result = result.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        result.ok().flatten().unwrap_or(Err(unavailable))
    }
}

/// Logs the reason for which credentials are invalid. The client receives no reason.
pub(crate) fn invalid(reason: &'static str) -> Rejection {
    tracing::debug!(reason, "rejected credentials");
    Rejection::Invalid
}

/// Removes a check from the map of running checks when it is dropped.
struct Running {
    shared: Arc<Shared>,
    digest: Digest,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.running.lock().remove(&self.digest);
    }
}

/// A hash of configured credentials: the key of their entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Hashed {
    Sha256(Digest),
    /// The hash under the pepper of the server.
    Hmac(Digest),
}

/// Credentials of the configuration, and optionally a check by the application for all others.
pub(crate) struct Table {
    /// The scheme of each principal that names no other.
    scheme: &'static str,
    entries: HashMap<Hashed, Arc<Principal>>,
    /// Other hashes of the entries. They accept nothing: they show that two entries have the same credentials.
    other_hashes: HashMap<Hashed, Arc<Principal>>,
    check: Option<Arc<Check>>,
    limit: CheckLimit,
    verified: Verified,
}

impl Table {
    pub(crate) fn new(scheme: &'static str) -> Self {
        Self {
            scheme,
            entries: HashMap::new(),
            other_hashes: HashMap::new(),
            check: None,
            limit: CheckLimit::new(),
            verified: Verified::new(),
        }
    }

    /// Adds credentials by a hash. `other` is another hash of the same credentials, which another entry may have.
    pub(crate) fn insert(
        &mut self,
        hashed: Hashed,
        other: Option<Hashed>,
        principal: Principal,
    ) -> Result<(), ConfigError> {
        let find = |hashed| self.entries.get(&hashed).or_else(|| self.other_hashes.get(&hashed));
        if let Some(known) = [Some(hashed), other].into_iter().flatten().find_map(find) {
            let (subject, known) = (&principal.subject, &known.subject);
            return Err(ConfigError::new(format!(
                "the credentials of `{subject}` were added before, for `{known}`: each entry needs its own"
            )));
        }
        let principal = Arc::new(with_scheme(principal, self.scheme));
        self.other_hashes.extend(other.map(|other| (other, Arc::clone(&principal))));
        self.entries.insert(hashed, principal);
        Ok(())
    }

    /// Whether the table has no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sets the check for credentials that are not in the table.
    pub(crate) fn check_with<F, Fut>(&mut self, check: F)
    where
        F: Fn(Secret) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Principal>, Rejection>> + Send + 'static,
    {
        self.check = Some(Arc::new(move |secret| Box::pin(check(secret))));
    }

    /// Sets the longest time for which valid credentials are not checked again.
    pub(crate) fn remember_for(&mut self, time: Duration) {
        self.verified.remember_for(time);
    }

    /// Returns the entry of the table.
    pub(crate) fn find(&self, hashed: Hashed) -> Option<&Arc<Principal>> {
        self.entries.get(&hashed)
    }

    /// Returns the result of the check of the application, if it is known without a wait.
    pub(crate) fn known_check(&self, credentials: &str) -> Option<Outcome> {
        if self.check.is_none() {
            return Some(Err(invalid(NO_ENTRY)));
        }
        self.verified.known(&crypto::sha256(credentials.as_bytes()))
    }

    /// Runs the check of the application.
    pub(crate) async fn run_check(&self, credentials: &str) -> Outcome {
        let Some(check) = &self.check else { return Err(invalid(NO_ENTRY)) };
        let digest = crypto::sha256(credentials.as_bytes());
        let (check, limit, scheme) = (Arc::clone(check), self.limit.clone(), self.scheme);
        let secret = Secret::from(credentials);
        let checking = async move {
            let principal = limit.run(|| check(secret)).await?.ok_or_else(|| invalid(NO_PRINCIPAL))?;
            Ok(with_scheme(principal, scheme))
        };
        self.verified.check(digest, || checking).await
    }

    /// Rejects a principal whose authentication has ended.
    pub(crate) fn current(&self, principal: Arc<Principal>) -> Result<Arc<Principal>, Rejection> {
        // Most entries have no end, so they need no clock.
        let has_ended = principal.expires_at.is_some() && principal.is_expired(self.verified.clock.now());
        if has_ended { Err(Rejection::Expired) } else { Ok(principal) }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::{Duration, SystemTime},
    };

    use super::*;

    #[tokio::test]
    async fn functions_verify_credentials_and_their_results_are_remembered() {
        let calls: Arc<AtomicUsize> = Arc::default();
        let counted = Arc::clone(&calls);
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let (clock, advance) = Clock::manual(start);
        let mut table = Table::new("ApiKey");
        table.verified.clock = clock;
        table.check_with(move |secret| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                match secret.expose() {
                    "known" => Ok(Some(Principal::new("known"))),
                    "short" => Ok(Some(Principal::new("short").with_expires_at(start + Duration::from_secs(75)))),
                    "ended" => Ok(Some(Principal::new("ended").with_expires_at(start))),
                    "away" => Err(Rejection::Unavailable { retry_after: Duration::from_secs(3) }),
                    _ => Ok(None),
                }
            }
        });
        for (wait, secret, expected, counts) in [
            (0, "known", Ok("known"), 1),
            (59, "known", Ok("known"), 1),
            (1, "known", Ok("known"), 2),
            (0, "unknown", Err(Rejection::Invalid), 3),
            (4, "unknown", Err(Rejection::Invalid), 3),
            (1, "unknown", Err(Rejection::Invalid), 4),
            (0, "short", Ok("short"), 5),
            (9, "short", Ok("short"), 5),
            // The result is remembered at most until the end of the authentication.
            (1, "short", Err(Rejection::Expired), 6),
            (0, "ended", Err(Rejection::Expired), 7),
            // An outage is not remembered.
            (0, "away", Err(Rejection::Unavailable { retry_after: Duration::from_secs(3) }), 8),
            (0, "away", Err(Rejection::Unavailable { retry_after: Duration::from_secs(3) }), 9),
        ] {
            advance(Duration::from_secs(wait));
            let got = table.run_check(secret).await;
            assert_eq!(got.map(|principal| principal.subject.clone()), expected.map(str::to_owned), "{wait} {secret}");
            assert_eq!(calls.load(Ordering::SeqCst), counts, "{wait} {secret}");
        }
    }

    #[tokio::test]
    async fn requests_with_the_same_credentials_share_one_check() {
        let (calls, gate): (Arc<AtomicUsize>, Arc<tokio::sync::Notify>) = Default::default();
        let (counted, opened) = (Arc::clone(&calls), Arc::clone(&gate));
        let mut table = Table::new("ApiKey");
        table.check_with(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let opened = Arc::clone(&opened);
            async move {
                opened.notified().await;
                Ok(Some(Principal::new("known")))
            }
        });
        let table = Arc::new(table);
        let request = || {
            let table = Arc::clone(&table);
            tokio::spawn(async move { table.run_check("secret").await })
        };
        let first = request();
        let others: Vec<_> = (0..99).map(|_| request()).collect();
        while calls.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        // The end of the first request does not end the check.
        first.abort();
        assert!(first.await.is_err());
        gate.notify_one();
        for other in others {
            assert_eq!(other.await.unwrap().unwrap().subject, "known");
        }
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert!(table.verified.shared.running.lock().is_empty());
    }

    #[test]
    fn principals_end_after_the_difference_between_the_clocks() {
        for (skew, is_current) in [(0, false), (600, true)] {
            let verified = Verified::with_skew(Duration::from_secs(skew));
            let ended = Principal::new("ann").with_expires_at(SystemTime::now() - Duration::from_secs(60));
            assert_eq!(verified.remember(crypto::sha256(b"token"), Ok(ended)).is_ok(), is_current, "{skew} s");
        }
    }

    #[tokio::test]
    async fn the_number_of_checks_at_the_same_time_is_limited() {
        let mut table = Table::new("ApiKey");
        table.check_with(|_| std::future::pending());
        let table = Arc::new(table);
        for number in 0..MAX_RUNNING {
            let checking = Arc::clone(&table);
            tokio::spawn(async move { checking.run_check(&number.to_string()).await });
        }
        while table.verified.shared.running.lock().len() < MAX_RUNNING {
            tokio::task::yield_now().await;
        }
        let result = tokio::time::timeout(Duration::from_secs(5), table.run_check("other")).await.unwrap();
        assert_eq!(result.unwrap_err(), Rejection::Unavailable { retry_after: Duration::from_secs(1) });
    }

    #[tokio::test]
    async fn a_check_that_panics_is_an_outage() {
        let mut table = Table::new("ApiKey");
        table.check_with(|_| async { panic!("a fault of the application") });
        for _ in 0..2 {
            assert!(matches!(table.run_check("secret").await, Err(Rejection::Unavailable { .. })));
        }
        assert!(table.verified.shared.running.lock().is_empty());
    }

    #[tokio::test]
    async fn the_time_for_which_results_are_remembered_can_be_zero() {
        let calls: Arc<AtomicUsize> = Arc::default();
        let counted = Arc::clone(&calls);
        let mut table = Table::new("ApiKey");
        table.remember_for(Duration::ZERO);
        table.check_with(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok(Some(Principal::new("known"))) }
        });
        for number in 1..=3 {
            table.run_check("secret").await.unwrap();
            assert_eq!(calls.load(Ordering::SeqCst), number);
        }
    }
}
