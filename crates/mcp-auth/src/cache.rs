//! The cache of verified credentials.

use std::{
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;

use crate::{clock::Moment, crypto::Digest};

/// The largest number of valid credentials, and of invalid ones.
const CAPACITY: usize = 10_000;
/// The time for which invalid credentials are not checked again.
const INVALID_FOR: Duration = Duration::from_secs(5);

/// Results by the digest of credentials. `None` means invalid credentials.
pub(crate) struct Cache<T>(Mutex<Entries<T>>);

struct Entries<T> {
    valid: Generations<Digest, Valid<T>>,
    /// The ends of the results for invalid credentials. They have a table of their own, because each caller can fill it.
    invalid: Generations<Digest, Instant>,
}

/// The result for valid credentials.
pub(crate) struct Valid<T> {
    result: T,
    until: Instant,
    expires_at: Option<SystemTime>,
}

impl<T> Valid<T> {
    /// Returns a result that is used for some time, at most until the credentials expire.
    pub(crate) fn new(result: T, expires_at: Option<SystemTime>, lifetime: Duration, now: Moment) -> Self {
        Self { result, until: now.instant + lifetime, expires_at }
    }

    /// Returns the result, unless it is too old or the credentials have expired.
    pub(crate) fn current(&self, now: Moment) -> Option<&T> {
        let is_current = now.instant < self.until && self.expires_at.is_none_or(|at| now.time < at);
        is_current.then_some(&self.result)
    }
}

/// At most 10,000 entries, each in one of two maps of half the capacity. When the young map is full, it becomes the old one, so that
/// unused entries go.
pub(crate) struct Generations<K, E> {
    young: HashMap<K, E>,
    old: HashMap<K, E>,
}

impl<T: Clone> Cache<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Entries { valid: Generations::new(), invalid: Generations::new() }))
    }

    /// Returns the result for credentials: `Some(None)` if they are known to be invalid.
    pub(crate) fn get(&self, digest: &Digest, now: Moment) -> Option<Option<T>> {
        let Entries { valid, invalid } = &mut *self.0.lock();
        if let Some(result) = valid.get(digest).and_then(|entry| entry.current(now)) {
            return Some(Some(result.clone()));
        }
        invalid.get(digest).filter(|until| now.instant < **until).map(|_| None)
    }

    /// Whether the last known result for credentials is that they are valid, also if it has ended.
    pub(crate) fn was_valid(&self, digest: &Digest) -> bool {
        self.0.lock().valid.get(digest).is_some()
    }

    /// Stores valid credentials.
    pub(crate) fn valid(&self, digest: Digest, entry: Valid<T>) {
        self.0.lock().valid.insert(digest, entry);
    }

    /// Stores invalid credentials for a short time.
    pub(crate) fn invalid(&self, digest: Digest, now: Moment) {
        let Entries { valid, invalid } = &mut *self.0.lock();
        valid.remove(&digest);
        invalid.insert(digest, now.instant + INVALID_FOR);
    }
}

impl<K: Copy + Eq + Hash, E> Generations<K, E> {
    pub(crate) fn new() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }

    /// Returns an entry, and moves it into the young map.
    pub(crate) fn get(&mut self, key: &K) -> Option<&E> {
        // Most tables have few entries and no old map. The removal from an empty map would hash the key once more.
        if !self.old.is_empty()
            && let Some(entry) = self.old.remove(key)
        {
            self.insert(*key, entry);
        }
        self.young.get(key)
    }

    pub(crate) fn insert(&mut self, key: K, entry: E) {
        if self.young.len() >= CAPACITY / 2 && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, entry);
    }

    fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Clock, crypto::sha256};

    const MINUTE: Duration = Duration::from_secs(60);

    fn key(text: &str) -> Digest {
        sha256(text.as_bytes())
    }

    #[test]
    fn entries_expire() {
        let cache = Cache::new();
        let start = Clock::system().moment();
        let at = |seconds| {
            let step = Duration::from_secs(seconds);
            Moment { time: start.time + step, instant: start.instant + step }
        };
        let [short, long, invalid] = ["short", "long", "invalid"].map(key);
        cache.valid(short, Valid::new(1, Some(at(10).time), MINUTE, start));
        cache.valid(long, Valid::new(2, None, MINUTE, start));
        cache.invalid(invalid, start);
        // The time of day does not change the lifetime of an entry.
        let past = |seconds| Moment { time: start.time - 24 * 60 * MINUTE, ..at(seconds) };
        for (key, now, expected) in [
            (short, at(9), Some(Some(1))),
            (short, at(10), None),
            (long, at(59), Some(Some(2))),
            (long, at(60), None),
            (long, past(59), Some(Some(2))),
            (long, past(60), None),
            (invalid, at(4), Some(None)),
            (invalid, at(5), None),
            (invalid, past(5), None),
        ] {
            assert_eq!(cache.get(&key, now), expected, "{:?}", now.instant - start.instant);
        }
    }

    #[test]
    fn an_ended_entry_was_valid_until_a_check_rejects_it() {
        let cache = Cache::new();
        let now = Clock::system().moment();
        let used = key("used");
        assert!(!cache.was_valid(&used));
        cache.valid(used, Valid::new(0, None, Duration::ZERO, now));
        assert_eq!((cache.get(&used, now), cache.was_valid(&used)), (None, true));
        cache.invalid(used, now);
        assert_eq!((cache.get(&used, now), cache.was_valid(&used)), (Some(None), false));
    }

    #[test]
    fn the_number_of_entries_is_bounded_and_used_entries_stay() {
        let cache = Cache::new();
        let now = Clock::system().moment();
        let used = key("used");
        cache.valid(used, Valid::new(0, None, MINUTE, now));
        for number in 0..30_000_u32 {
            cache.valid(sha256(&number.to_be_bytes()), Valid::new(number, None, MINUTE, now));
            assert_eq!(cache.get(&used, now), Some(Some(0)), "{number}");
        }
        let Entries { valid, .. } = &*cache.0.lock();
        assert!(valid.young.len() + valid.old.len() <= CAPACITY);
    }

    #[test]
    fn a_new_entry_replaces_an_old_one() {
        let mut entries = Generations::new();
        entries.insert(0, "former");
        for key in 1..=CAPACITY / 2 {
            entries.insert(key, "other");
        }
        assert!(entries.old.contains_key(&0));
        entries.insert(0, "new");
        assert!(!entries.old.contains_key(&0));
        assert_eq!(entries.get(&0), Some(&"new"));
    }

    #[test]
    fn invalid_credentials_evict_no_valid_ones() {
        let cache = Cache::new();
        let now = Clock::system().moment();
        let quiet = key("quiet");
        cache.valid(quiet, Valid::new(0, None, MINUTE, now));
        for number in 0..30_000_u32 {
            cache.invalid(sha256(&number.to_be_bytes()), now);
        }
        assert_eq!(cache.get(&quiet, now), Some(Some(0)));
        let Entries { invalid, .. } = &*cache.0.lock();
        assert!(invalid.young.len() + invalid.old.len() <= CAPACITY);
    }
}
