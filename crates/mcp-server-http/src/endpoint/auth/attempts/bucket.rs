//! The failures of one address, and the credentials that stay usable in spite of them.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use super::Verdict;
use crate::config::AttemptLimit;

/// The largest number of accepted credentials that an address with failures keeps.
pub(super) const ACCEPTED: usize = 256;
/// The largest number of accepted credentials of one principal. One caller must not evict the credentials of all others.
pub(super) const ACCEPTED_OF_PRINCIPAL: usize = 32;
/// The largest number of unchecked credentials that an address keeps.
const UNCHECKED: usize = 256;
/// The part of a failure that new credentials cost if an outage prevents their check.
const UNCHECKED_COST: f64 = 0.1;
/// The error of many small additions to a bucket.
const ROUNDING: f64 = 1e-6;

/// The failures of one address.
pub(super) struct Bucket {
    /// The number of failures that are still allowed. Each running check of new credentials has reserved one.
    left: f64,
    at: Instant,
    has_failures: bool,
    /// The running checks of new credentials, by their tags.
    running: HashMap<u64, Running>,
    accepted: Accepted,
    /// The tags of the credentials that an outage left unchecked. The oldest is first.
    unchecked: VecDeque<u64>,
}

/// The running checks of equal credentials. They share one reserved failure.
#[derive(Default)]
struct Running {
    count: usize,
    /// The part of the reserved failure that the checks use up.
    cost: f64,
}

/// The credentials that the server accepted from an address since its first failure. The least recently used are first.
#[derive(Default)]
struct Accepted(VecDeque<AcceptedCredentials>);

struct AcceptedCredentials {
    tag: u64,
    principal: u64,
}

impl Bucket {
    pub(super) fn new(limit: AttemptLimit) -> Self {
        Self {
            left: f64::from(limit.count),
            at: Instant::now(),
            has_failures: false,
            running: HashMap::new(),
            accepted: Accepted::default(),
            unchecked: VecDeque::new(),
        }
    }

    /// Whether the bucket has no state that a later request needs.
    pub(super) fn is_unused(&self) -> bool {
        !self.has_failures && self.running.is_empty()
    }

    pub(super) fn refill(&mut self, limit: AttemptLimit) {
        let now = Instant::now();
        let forgiven = now.duration_since(self.at).as_secs_f64() * limit.rate();
        self.left = (self.left + forgiven).min(f64::from(limit.count));
        self.at = now;
    }

    /// Whether the server accepted these credentials earlier. They are then the most recently used.
    pub(super) fn has_accepted(&mut self, tag: u64) -> bool {
        self.accepted.use_again(tag)
    }

    /// Reserves a failure for a check, unless a check of equal credentials has one. `false` if none is left.
    pub(super) fn reserve(&mut self, tag: u64) -> bool {
        if !self.running.contains_key(&tag) {
            if self.left < 1.0 - ROUNDING {
                return false;
            }
            self.left -= 1.0;
        }
        self.running.entry(tag).or_default().count += 1;
        true
    }

    /// Returns the time after which a failure can be reserved.
    pub(super) fn retry_after(&self, limit: AttemptLimit) -> Duration {
        let missing = (1.0 - ROUNDING - self.left) / limit.rate();
        Duration::try_from_secs_f64(missing.ceil()).unwrap_or(limit.per)
    }

    /// Ends a check. The last check of equal credentials returns the unused part of the reserved failure.
    pub(super) fn release(&mut self, tag: u64, verdict: Verdict, limit: AttemptLimit) {
        let cost = match verdict {
            Verdict::Failed | Verdict::PartlyAccepted { .. } => 1.0,
            Verdict::Unchecked if self.is_first_unchecked(tag) => UNCHECKED_COST,
            Verdict::Unchecked | Verdict::Accepted { .. } | Verdict::Uncounted => 0.0,
        };
        self.has_failures |= cost > 0.0;
        let Some(running) = self.running.get_mut(&tag) else { return };
        running.count -= 1;
        running.cost = running.cost.max(cost);
        if running.count == 0 {
            self.left = (self.left + 1.0 - running.cost).min(f64::from(limit.count));
            self.running.remove(&tag);
        }
        if let Verdict::Accepted { principal } | Verdict::PartlyAccepted { principal } = verdict
            && self.has_failures
        {
            self.accepted.insert(tag, principal);
        }
    }

    /// Counts a failure of credentials that were accepted earlier.
    pub(super) fn charge(&mut self, limit: AttemptLimit) {
        self.has_failures = true;
        // Without the lower bound, one burst could lock out the other callers behind the address for days.
        self.left = (self.left - 1.0).max(-f64::from(limit.count));
    }

    /// Stores the tag of unchecked credentials. `false` if it is stored already: a client that repeats its request guesses
    /// nothing.
    fn is_first_unchecked(&mut self, tag: u64) -> bool {
        if self.unchecked.contains(&tag) {
            return false;
        }
        if self.unchecked.len() == UNCHECKED {
            self.unchecked.pop_front();
        }
        self.unchecked.push_back(tag);
        true
    }
}

impl Accepted {
    /// Makes credentials the most recently used. `false` if they are unknown.
    fn use_again(&mut self, tag: u64) -> bool {
        let place = self.0.iter().position(|accepted| accepted.tag == tag);
        let known = place.and_then(|place| self.0.remove(place));
        let is_known = known.is_some();
        self.0.extend(known);
        is_known
    }

    /// Inserts credentials. They replace the least recently used of their principal, or of all principals.
    fn insert(&mut self, tag: u64, principal: u64) {
        if self.use_again(tag) {
            return;
        }
        let is_of_principal = |accepted: &AcceptedCredentials| accepted.principal == principal;
        if self.0.iter().filter(|accepted| is_of_principal(accepted)).count() >= ACCEPTED_OF_PRINCIPAL {
            let oldest = self.0.iter().position(is_of_principal);
            oldest.and_then(|place| self.0.remove(place));
        } else if self.0.len() >= ACCEPTED {
            self.0.pop_front();
        }
        self.0.push_back(AcceptedCredentials { tag, principal });
    }
}
