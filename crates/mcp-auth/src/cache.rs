//! The cache of verified credentials.

use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use crate::{
    clock::Moment,
    credential_digest::{Digest, DigestMap},
};

/// The largest number of valid credentials, and of invalid ones.
const CAPACITY: usize = 10_000;
/// The time for which invalid credentials are not checked again.
const INVALID_FOR: Duration = Duration::from_secs(5);

/// Results by the digest of credentials. `None` means invalid credentials.
pub(crate) struct Cache<T> {
    /// Invalid credentials have a map of their own, because each caller can fill it.
    maps: Mutex<(Generations<Valid<T>>, Generations<Instant>)>,
}

#[derive(Clone)]
struct Valid<T> {
    result: T,
    until: Instant,
    expires_at: Option<SystemTime>,
}

/// Two maps of half the capacity. When the young map is full, it becomes the old one, so that unused entries go.
struct Generations<E> {
    young: DigestMap<E>,
    old: DigestMap<E>,
}

impl<T: Clone> Cache<T> {
    pub(crate) fn new() -> Self {
        Self { maps: Mutex::new((Generations::new(), Generations::new())) }
    }

    /// Returns the result for credentials: `Some(None)` if they are known to be invalid.
    pub(crate) fn get(&self, digest: &Digest, now: Moment) -> Option<Option<T>> {
        let (valid, invalid) = &mut *self.maps.lock();
        let is_current =
            |entry: &Valid<T>| now.instant < entry.until && entry.expires_at.is_none_or(|at| now.time < at);
        if let Some(entry) = valid.get(digest).filter(is_current) {
            return Some(Some(entry.result));
        }
        invalid.get(digest).filter(|until| now.instant < *until).map(|_| None)
    }

    /// Whether the last known result for credentials is that they are valid, also if it has ended.
    pub(crate) fn was_valid(&self, digest: &Digest) -> bool {
        self.maps.lock().0.get(digest).is_some()
    }

    /// Stores valid credentials for some time, at most until they expire.
    pub(crate) fn valid(
        &self,
        digest: Digest,
        result: T,
        expires_at: Option<SystemTime>,
        lifetime: Duration,
        now: Moment,
    ) {
        self.maps.lock().0.insert(digest, Valid { result, until: now.instant + lifetime, expires_at });
    }

    /// Stores invalid credentials for a short time.
    pub(crate) fn invalid(&self, digest: Digest, now: Moment) {
        let (valid, invalid) = &mut *self.maps.lock();
        valid.remove(&digest);
        invalid.insert(digest, now.instant + INVALID_FOR);
    }
}

impl<E: Clone> Generations<E> {
    fn new() -> Self {
        Self { young: DigestMap::default(), old: DigestMap::default() }
    }

    fn get(&mut self, digest: &Digest) -> Option<E> {
        if let Some(entry) = self.young.get(digest) {
            return Some(entry.clone());
        }
        let entry = self.old.remove(digest)?;
        self.insert(*digest, entry.clone());
        Some(entry)
    }

    fn remove(&mut self, digest: &Digest) {
        self.young.remove(digest);
        self.old.remove(digest);
    }

    fn insert(&mut self, digest: Digest, entry: E) {
        if self.young.len() >= CAPACITY / 2 && !self.young.contains_key(&digest) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Clock, credential_digest::digest};

    const MINUTE: Duration = Duration::from_secs(60);

    fn key(text: &str) -> Digest {
        digest(&[text.as_bytes()]).unwrap()
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
        cache.valid(short, 1, Some(at(10).time), MINUTE, start);
        cache.valid(long, 2, None, MINUTE, start);
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
        cache.valid(used, 0, None, Duration::ZERO, now);
        assert_eq!((cache.get(&used, now), cache.was_valid(&used)), (None, true));
        cache.invalid(used, now);
        assert_eq!((cache.get(&used, now), cache.was_valid(&used)), (Some(None), false));
    }

    #[test]
    fn the_number_of_entries_is_bounded_and_used_entries_stay() {
        let cache = Cache::new();
        let now = Clock::system().moment();
        let used = key("used");
        cache.valid(used, 0, None, MINUTE, now);
        for number in 0..30_000_u32 {
            cache.valid(digest(&[&number.to_be_bytes()]).unwrap(), number, None, MINUTE, now);
            assert_eq!(cache.get(&used, now), Some(Some(0)), "{number}");
        }
        let (valid, _) = &*cache.maps.lock();
        assert!(valid.young.len() + valid.old.len() <= CAPACITY);
    }

    #[test]
    fn invalid_credentials_evict_no_valid_ones() {
        let cache = Cache::new();
        let now = Clock::system().moment();
        let quiet = key("quiet");
        cache.valid(quiet, 0, None, MINUTE, now);
        for number in 0..30_000_u32 {
            cache.invalid(digest(&[&number.to_be_bytes()]).unwrap(), now);
        }
        assert_eq!(cache.get(&quiet, now), Some(Some(0)));
        let (_, invalid) = &*cache.maps.lock();
        assert!(invalid.young.len() + invalid.old.len() <= CAPACITY);
    }
}
