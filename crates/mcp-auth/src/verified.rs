//! A check of credentials that remembers its results, and the table of configured credentials.

use std::{collections::HashMap, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use mcp_protocol::{Principal, auth::Secret};

use crate::{
    authenticator::Rejection,
    cache::Cache,
    clock::Clock,
    crypto::{self, Digest},
};

/// The future of a check by the application.
type Checking = Pin<Box<dyn Future<Output = Result<Option<Principal>, Rejection>> + Send>>;
type Check = dyn Fn(Secret) -> Checking + Send + Sync;

/// A check whose results are remembered: valid credentials for at most a minute, invalid ones for five seconds.
pub(crate) struct Verified {
    cache: Cache<Arc<Principal>>,
    pub(crate) clock: Clock,
    /// The time for which a principal stays valid after its end.
    pub(crate) skew: Duration,
}

impl Verified {
    pub(crate) fn new() -> Self {
        Self { cache: Cache::new(), clock: Clock::system(), skew: Duration::ZERO }
    }

    /// Returns a check whose principals stay valid for this time after their end.
    pub(crate) fn with_skew(skew: Duration) -> Self {
        Self { skew, ..Self::new() }
    }

    /// Returns the remembered result for credentials, or runs the check.
    pub(crate) async fn check(
        &self,
        digest: Digest,
        check: impl Future<Output = Result<Principal, Rejection>>,
    ) -> Result<Arc<Principal>, Rejection> {
        match self.cache.get(&digest, self.clock.now()) {
            Some(Some(principal)) => return Ok(principal),
            Some(None) => return Err(Rejection::Invalid),
            None => {}
        }
        let result = check.await.map(Arc::new);
        let now = self.clock.now();
        match &result {
            Ok(principal) => {
                let end = principal.expires_at.and_then(|at| at.checked_add(self.skew));
                if end.is_some_and(|end| end <= now) {
                    return Err(Rejection::Expired);
                }
                self.cache.valid(digest, Arc::clone(principal), end, now);
            }
            Err(Rejection::Invalid) => self.cache.invalid(digest, now),
            Err(_) => {}
        }
        result
    }
}

/// Credentials of the configuration, and optionally a check by the application for all others.
pub(crate) struct Table {
    entries: HashMap<Digest, Arc<Principal>>,
    check: Option<Box<Check>>,
    verified: Verified,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { entries: HashMap::new(), check: None, verified: Verified::new() }
    }

    /// Adds credentials in a form, such as `plain` or a digest.
    pub(crate) fn insert(&mut self, form: &str, credentials: &[u8], principal: Principal) {
        self.entries.insert(crypto::digest(&[form.as_bytes(), credentials]), Arc::new(principal));
    }

    /// Sets the check for credentials that are not in the table.
    pub(crate) fn check_with<F, Fut>(&mut self, check: F)
    where
        F: Fn(Secret) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Principal>, Rejection>> + Send + 'static,
    {
        self.check = Some(Box::new(move |secret| Box::pin(check(secret))));
    }

    /// Returns the entry of the table.
    pub(crate) fn find(&self, form: &str, credentials: &[u8]) -> Option<&Arc<Principal>> {
        self.entries.get(&crypto::digest(&[form.as_bytes(), credentials]))
    }

    /// Runs the check of the application.
    pub(crate) async fn run_check(&self, credentials: &str) -> Result<Arc<Principal>, Rejection> {
        let Some(check) = &self.check else { return Err(Rejection::Invalid) };
        let digest = crypto::digest(&[b"check", credentials.as_bytes()]);
        let checking = async { check(credentials.into()).await?.ok_or(Rejection::Invalid) };
        self.verified.check(digest, checking).await
    }

    /// Rejects a principal whose authentication has ended.
    pub(crate) fn current(&self, principal: Arc<Principal>) -> Result<Arc<Principal>, Rejection> {
        if principal.is_expired(self.verified.clock.now()) { Err(Rejection::Expired) } else { Ok(principal) }
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
        let mut table = Table::new();
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
}
