//! The cache of verified credentials.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;

use crate::crypto::Digest;

/// The largest number of entries.
const CAPACITY: usize = 10_000;
/// The time for which valid credentials are not checked again.
const VALID_FOR: Duration = Duration::from_secs(60);
/// The time for which invalid credentials are not checked again.
const INVALID_FOR: Duration = Duration::from_secs(5);

/// Results by the digest of credentials. `None` means invalid credentials.
pub(crate) struct Cache<T> {
    generations: Mutex<Generations<T>>,
}

/// Two maps of half the capacity. When the young map is full, it becomes the old one, so that unused entries go.
struct Generations<T> {
    young: HashMap<Digest, Entry<T>>,
    old: HashMap<Digest, Entry<T>>,
}

#[derive(Clone)]
struct Entry<T> {
    result: Option<T>,
    until: SystemTime,
}

impl<T: Clone> Cache<T> {
    pub(crate) fn new() -> Self {
        Self { generations: Mutex::new(Generations { young: HashMap::new(), old: HashMap::new() }) }
    }

    /// Returns the result for credentials: `Some(None)` if they are known to be invalid.
    pub(crate) fn get(&self, digest: &Digest, now: SystemTime) -> Option<Option<T>> {
        let mut generations = self.generations.lock();
        let mut entry = generations.young.get(digest).cloned();
        if entry.is_none() {
            entry = generations.old.remove(digest);
            if let Some(entry) = &entry {
                generations.insert(*digest, entry.clone());
            }
        }
        entry.filter(|entry| now < entry.until).map(|entry| entry.result)
    }

    /// Stores valid credentials, at most until they expire.
    pub(crate) fn valid(&self, digest: Digest, result: T, expires_at: Option<SystemTime>, now: SystemTime) {
        let until = expires_at.unwrap_or(now + VALID_FOR).min(now + VALID_FOR);
        self.generations.lock().insert(digest, Entry { result: Some(result), until });
    }

    /// Stores invalid credentials for a short time.
    pub(crate) fn invalid(&self, digest: Digest, now: SystemTime) {
        self.generations.lock().insert(digest, Entry { result: None, until: now + INVALID_FOR });
    }
}

impl<T> Generations<T> {
    fn insert(&mut self, digest: Digest, entry: Entry<T>) {
        if self.young.len() >= CAPACITY / 2 && !self.young.contains_key(&digest) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::digest;

    #[test]
    fn entries_expire() {
        let cache = Cache::new();
        let start = SystemTime::UNIX_EPOCH;
        let at = |seconds| start + Duration::from_secs(seconds);
        let [short, long, invalid] = ["short", "long", "invalid"].map(|text| digest(&[text.as_bytes()]));
        cache.valid(short, 1, Some(at(10)), start);
        cache.valid(long, 2, None, start);
        cache.invalid(invalid, start);
        for (key, second, expected) in [
            (short, 9, Some(Some(1))),
            (short, 10, None),
            (long, 59, Some(Some(2))),
            (long, 60, None),
            (invalid, 4, Some(None)),
            (invalid, 5, None),
        ] {
            assert_eq!(cache.get(&key, at(second)), expected, "{second}");
        }
    }

    #[test]
    fn the_number_of_entries_is_bounded_and_used_entries_stay() {
        let cache = Cache::new();
        let now = SystemTime::UNIX_EPOCH;
        let used = digest(&[b"used"]);
        cache.valid(used, 0, None, now);
        for number in 0..30_000_u32 {
            cache.valid(digest(&[&number.to_be_bytes()]), number, None, now);
            assert_eq!(cache.get(&used, now), Some(Some(0)), "{number}");
        }
        let generations = cache.generations.lock();
        assert!(generations.young.len() + generations.old.len() <= CAPACITY);
    }
}
