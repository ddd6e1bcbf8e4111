//! The state of the keys that an issuer publishes: a pure state machine, to which the caller passes the time.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use jsonwebtoken::Algorithm;

use super::{
    Fault,
    keys::{Key, KeySet},
};

/// The age at which known keys are fetched again while they stay in use.
const REFRESH_AFTER: Duration = Duration::from_secs(600);
/// The age beyond which keys are not used.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// The largest number of fetches in one minute.
const MAX_FETCHES: usize = 3;
const MINUTE: Duration = Duration::from_secs(60);
/// The time after which a client may try again while further fetches are possible.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The keys of an issuer, and the recent attempts to fetch them.
#[derive(Default)]
pub(crate) struct KeyCache {
    keys: Option<(KeySet, Instant)>,
    attempts: VecDeque<Instant>,
    is_fetching: bool,
    /// Whether the last attempt failed.
    failed: bool,
    /// The last fetch for a token whose signature is wrong.
    mismatch: Option<Instant>,
}

/// The result of a lookup. At most one caller at a time must fetch the keys.
pub(crate) enum Lookup {
    /// These keys may verify the token.
    Found(Vec<Arc<Key>>),
    /// These keys may verify the token, and the caller must fetch the keys.
    Stale(Vec<Arc<Key>>),
    /// The caller must fetch the keys first.
    Fetch,
    /// Another caller fetches the keys.
    Join,
    /// The keys cannot be fetched now.
    Unavailable(Duration),
}

impl KeyCache {
    /// Looks up the keys of a token.
    pub(crate) fn lookup(&mut self, algorithm: Algorithm, id: Option<&str>, now: Instant) -> Lookup {
        let known = self.select(algorithm, id, now);
        if !known.is_empty() {
            let is_stale = self.keys.as_ref().is_some_and(|(_, at)| age(*at, now) >= REFRESH_AFTER);
            return if is_stale && self.begin(now) { Lookup::Stale(known) } else { Lookup::Found(known) };
        }
        if self.is_fetching {
            Lookup::Join
        } else if self.begin(now) {
            Lookup::Fetch
        } else {
            Lookup::Unavailable(self.retry_after(now))
        }
    }

    /// Returns the keys of a token after a fetch for which its request waited.
    pub(crate) fn fetched(&self, algorithm: Algorithm, id: Option<&str>, now: Instant) -> Result<Vec<Arc<Key>>, Fault> {
        let known = self.select(algorithm, id, now);
        match known.is_empty() {
            false => Ok(known),
            true if self.failed => Err(Fault::Unavailable(self.retry_after(now))),
            true => Err(Fault::NoKey),
        }
    }

    /// Decides about a token whose signature no known key verifies: an issuer may replace a key and keep its id. `None` if
    /// the keys are not fetched for the token.
    pub(crate) fn mismatch(&mut self, now: Instant) -> Option<Lookup> {
        if self.is_fetching {
            return Some(Lookup::Join);
        }
        if self.mismatch.is_some_and(|at| age(at, now) < MINUTE) || !self.begin(now) {
            return None;
        }
        self.mismatch = Some(now);
        Some(Lookup::Fetch)
    }

    fn select(&self, algorithm: Algorithm, id: Option<&str>, now: Instant) -> Vec<Arc<Key>> {
        let usable = self.keys.as_ref().filter(|(_, at)| age(*at, now) < MAX_AGE);
        usable.map(|(keys, _)| keys.select(algorithm, id)).unwrap_or_default()
    }

    fn retry_after(&self, now: Instant) -> Duration {
        if self.recent(now).count() < MAX_FETCHES {
            return RETRY_AFTER;
        }
        let oldest = self.recent(now).next().map_or(Duration::ZERO, |at| age(at, now));
        MINUTE.saturating_sub(oldest).max(Duration::from_secs(1))
    }

    fn recent(&self, now: Instant) -> impl Iterator<Item = Instant> {
        self.attempts.iter().copied().filter(move |at| age(*at, now) < MINUTE)
    }

    /// Records the start of a fetch. `false` if one runs already, or there were too many.
    fn begin(&mut self, now: Instant) -> bool {
        if self.is_fetching || self.recent(now).count() >= MAX_FETCHES {
            return false;
        }
        self.is_fetching = true;
        self.attempts.push_back(now);
        if self.attempts.len() > MAX_FETCHES {
            self.attempts.pop_front();
        }
        true
    }

    /// Records the end of a fetch. Keys stay in use when it failed.
    pub(crate) fn complete(&mut self, keys: Option<KeySet>, now: Instant) {
        self.is_fetching = false;
        self.failed = keys.is_none();
        if let Some(keys) = keys {
            self.keys = Some((keys, now));
        }
    }
}

fn age(at: Instant, now: Instant) -> Duration {
    now.saturating_duration_since(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_waits_until_the_oldest_fetch_no_longer_counts() {
        let start = Instant::now();
        let mut cache = KeyCache::default();
        for (seconds, expected) in [(0, None), (10, None), (20, None), (30, Some(30)), (59, Some(1)), (60, None)] {
            let now = start + Duration::from_secs(seconds);
            let found = match cache.lookup(Algorithm::RS256, None, now) {
                Lookup::Fetch => None,
                Lookup::Unavailable(wait) => Some(wait.as_secs()),
                _ => panic!("a lookup without keys finds keys after {seconds} s"),
            };
            cache.complete(None, now);
            assert_eq!(found, expected, "{seconds} s");
        }
    }
}
