//! The state of the keys that an issuer publishes: a pure state machine, to which the caller passes the time.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime},
};

use jsonwebtoken::Algorithm;

use super::keys::{Key, KeySet};

/// The age at which known keys are fetched again while they stay in use.
const REFRESH_AFTER: Duration = Duration::from_secs(600);
/// The age beyond which keys are not used.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// The largest number of fetches in one minute.
const MAX_FETCHES: usize = 3;
const MINUTE: Duration = Duration::from_secs(60);

/// The keys of an issuer, and the recent attempts to fetch them.
#[derive(Default)]
pub(crate) struct KeyCache {
    keys: Option<(KeySet, SystemTime)>,
    attempts: VecDeque<SystemTime>,
    /// Whether the last attempt failed.
    failed: bool,
    /// The number of completed attempts.
    pub(crate) completed: u64,
}

/// The result of a lookup.
pub(crate) enum Lookup {
    /// The key verifies the token.
    Found(Arc<Key>),
    /// The key verifies the token, and the keys should be fetched again.
    Stale(Arc<Key>),
    /// The keys must be fetched first.
    Fetch,
    /// The issuer has no such key.
    Unknown,
    /// The keys cannot be fetched now.
    Unavailable(Duration),
}

impl KeyCache {
    /// Looks up the key of a token.
    pub(crate) fn lookup(&self, algorithm: Algorithm, id: Option<&str>, now: SystemTime) -> Lookup {
        let usable = self.keys.as_ref().filter(|(_, at)| age(*at, now) < MAX_AGE);
        if let Some((keys, at)) = usable
            && let Some(key) = keys.select(algorithm, id)
        {
            let refresh = age(*at, now) >= REFRESH_AFTER && self.may_fetch(now);
            return if refresh { Lookup::Stale(key) } else { Lookup::Found(key) };
        }
        if self.may_fetch(now) { Lookup::Fetch } else { self.missing(now) }
    }

    /// The result for a key that is missing, if the keys are not fetched again.
    pub(crate) fn missing(&self, now: SystemTime) -> Lookup {
        let has_keys = self.keys.as_ref().is_some_and(|(_, at)| age(*at, now) < MAX_AGE);
        if has_keys && !self.failed {
            return Lookup::Unknown;
        }
        let oldest = self.recent(now).next().map_or(Duration::ZERO, |at| age(at, now));
        Lookup::Unavailable(MINUTE.saturating_sub(oldest).max(Duration::from_secs(1)))
    }

    fn may_fetch(&self, now: SystemTime) -> bool {
        self.recent(now).count() < MAX_FETCHES
    }

    fn recent(&self, now: SystemTime) -> impl Iterator<Item = SystemTime> {
        self.attempts.iter().copied().filter(move |at| age(*at, now) < MINUTE)
    }

    /// Records the start of a fetch. `false` if there were too many.
    pub(crate) fn begin(&mut self, now: SystemTime) -> bool {
        if !self.may_fetch(now) {
            return false;
        }
        self.attempts.push_back(now);
        if self.attempts.len() > MAX_FETCHES {
            self.attempts.pop_front();
        }
        true
    }

    /// Records the end of a fetch. Keys stay in use when it failed.
    pub(crate) fn complete(&mut self, keys: Option<KeySet>, now: SystemTime) {
        self.completed += 1;
        self.failed = keys.is_none();
        if let Some(keys) = keys {
            self.keys = Some((keys, now));
        }
    }
}

/// Returns the time since a moment. A moment after `now` has the age 0, because a clock may be set back.
fn age(at: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(at).unwrap_or_default()
}
