//! The number of remembered proofs of each key, so that one client cannot fill the store.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::crypto::Digest;

/// The largest number of proofs that one process remembers.
pub(super) const CAPACITY: usize = 1_000_000;
/// A key may have as many proofs as this part of the free places. Keys that use their whole share therefore always leave
/// places for other keys.
const SHARE: usize = 8;

/// Counts the proofs of each key until they end.
pub(super) struct Quota {
    capacity: usize,
    start: Instant,
    live: Mutex<Live>,
}

#[derive(Default)]
struct Live {
    total: usize,
    by_key: HashMap<Digest, usize>,
    /// The proofs of each key by the second in which they end.
    ends: BTreeMap<u64, HashMap<Digest, usize>>,
}

/// The place of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    key: Digest,
    end: u64,
}

impl Quota {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, start: Instant::now(), live: Mutex::default() }
    }

    /// Takes a place for a proof of a key, until the proof ends. `None` if the key uses its whole share.
    pub(super) fn take(&self, key: Digest, lifetime: Duration, now: Instant) -> Option<Place> {
        let elapsed = now.saturating_duration_since(self.start);
        let place = Place { key, end: (elapsed + lifetime).as_secs() + 1 };
        let mut live = self.live.lock();
        live.end(elapsed.as_secs());
        let free = self.capacity.saturating_sub(live.total);
        if live.by_key.get(&key).copied().unwrap_or_default() >= free / SHARE {
            return None;
        }
        live.total += 1;
        *live.by_key.entry(key).or_default() += 1;
        *live.ends.entry(place.end).or_default().entry(key).or_default() += 1;
        Some(place)
    }

    /// Returns the place of a proof that is not stored.
    pub(super) fn release(&self, place: Place) {
        let mut live = self.live.lock();
        let Some(count) = live.ends.get_mut(&place.end).and_then(|keys| keys.get_mut(&place.key)) else { return };
        if *count > 0 {
            *count -= 1;
            live.remove(place.key, 1);
        }
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> usize {
        self.live.lock().total
    }
}

impl Live {
    /// Removes the proofs that have ended.
    fn end(&mut self, now: u64) {
        while let Some(first) = self.ends.first_entry().filter(|first| *first.key() <= now) {
            for (key, count) in first.remove() {
                self.remove(key, count);
            }
        }
    }

    fn remove(&mut self, key: Digest, count: usize) {
        self.total -= count;
        if let Some(left) = self.by_key.get_mut(&key) {
            *left -= count;
            if *left == 0 {
                self.by_key.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn keys_that_use_their_share_leave_places_for_other_keys() {
        let quota = Quota::new(900);
        let mut counts = Vec::new();
        for key in 0..20 {
            counts.push((0..1_000).filter(|_| quota.take([key; 32], MINUTE, quota.start).is_some()).count());
        }
        assert_eq!(counts[0], 100);
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        assert_eq!(quota.total(), counts.iter().sum::<usize>());
    }

    #[test]
    fn a_place_is_free_after_the_end_of_its_proof() {
        let quota = Quota::new(16);
        let at = |seconds| quota.start + Duration::from_secs(seconds);
        assert!(quota.take([1; 32], MINUTE, at(0)).is_some());
        for (second, expected) in [(0, false), (60, false), (61, true)] {
            assert_eq!(quota.take([1; 32], MINUTE, at(second)).is_some(), expected, "{second}");
        }
        assert_eq!(quota.total(), 1);
    }

    #[test]
    fn a_released_place_is_free() {
        let quota = Quota::new(16);
        let place = quota.take([1; 32], MINUTE, quota.start).unwrap();
        quota.release(place);
        // A second release has no effect.
        quota.release(place);
        assert_eq!((quota.total(), quota.live.lock().by_key.len()), (0, 0));
        assert!(quota.take([1; 32], MINUTE, quota.start).is_some());
    }
}
