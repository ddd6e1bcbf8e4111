//! The failures of one address, and the credentials that stay usable in spite of them.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use super::{Credentials, Verdict};
use crate::config::AttemptLimit;

/// The largest number of accepted credentials that an address with failures keeps.
pub(super) const ACCEPTED: usize = 256;
/// The largest number of accepted credentials of one principal. One caller must not evict the credentials of all others.
pub(super) const ACCEPTED_OF_PRINCIPAL: usize = 32;
/// The largest number of unchecked credentials that an address keeps.
const UNCHECKED: usize = 256;
/// The part of the budget of one failure that new credentials cost if an outage prevents their check.
const UNCHECKED_COST: f64 = 0.1;
/// The error of many small additions to a bucket.
const ROUNDING: f64 = 1e-6;

/// The failures of one address.
pub(super) struct Bucket {
    /// The number of failures that are still allowed. Each running check of new credentials has reserved one.
    left: f64,
    /// The budget of credentials that an outage leaves unchecked, in failures. It is a budget of its own, so that an outage does
    /// not take failures from honest callers. Without it, a caller could guess the credentials of a provider that works, because
    /// the outage of another provider is the result of each guess.
    unchecked_left: f64,
    at: Instant,
    has_failures: bool,
    /// The running checks of new credentials, by their tags.
    running: HashMap<u64, Running>,
    accepted: Accepted,
    /// The tags of the credentials that an outage left unchecked. The oldest is first.
    unchecked: VecDeque<u64>,
}

/// The running checks of equal credentials. They share one reserved failure.
struct Running {
    count: usize,
    /// The reserved part of the budget of unchecked credentials.
    unchecked: f64,
    /// Whether a check uses up the reserved failure.
    has_failed: bool,
    /// Whether a check uses up the reserved part for unchecked credentials.
    was_unchecked: bool,
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
            unchecked_left: f64::from(limit.count),
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
        for left in [&mut self.left, &mut self.unchecked_left] {
            *left = (*left + forgiven).min(f64::from(limit.count));
        }
        self.at = now;
    }

    /// Whether the server accepted these credentials earlier. They are then the most recently used.
    pub(super) fn has_accepted(&mut self, tag: u64) -> bool {
        self.accepted.use_again(tag)
    }

    /// Reserves a failure and a part for unchecked credentials, unless a check of equal credentials has them.
    ///
    /// # Errors
    /// The time after which they can be reserved.
    pub(super) fn reserve(&mut self, credentials: Credentials, limit: AttemptLimit) -> Result<(), Duration> {
        if let Some(running) = self.running.get_mut(&credentials.tag) {
            running.count += 1;
            return Ok(());
        }
        let unchecked = self.unchecked_cost(credentials);
        let missing = (1.0 - self.left).max(unchecked - self.unchecked_left) - ROUNDING;
        if missing > 0.0 {
            let wait = (missing / limit.rate()).ceil();
            return Err(Duration::try_from_secs_f64(wait).unwrap_or(limit.per));
        }
        self.left -= 1.0;
        self.unchecked_left -= unchecked;
        let running = Running { count: 1, unchecked, has_failed: false, was_unchecked: false };
        self.running.insert(credentials.tag, running);
        Ok(())
    }

    /// Returns the cost of credentials that an outage leaves unchecked.
    fn unchecked_cost(&self, credentials: Credentials) -> f64 {
        match credentials {
            // A client that repeats its request guesses nothing.
            Credentials { tag, .. } if self.unchecked.contains(&tag) => 0.0,
            // The outage of one provider hides that another provider rejected a key in another header.
            Credentials { are_several: true, .. } => 1.0,
            Credentials { are_several: false, .. } => UNCHECKED_COST,
        }
    }

    /// Ends a check. The last check of equal credentials returns what the checks have reserved and did not use up.
    pub(super) fn release(&mut self, tag: u64, verdict: Verdict, limit: AttemptLimit) {
        let has_failed = matches!(verdict, Verdict::Failed | Verdict::PartlyAccepted { .. });
        let was_unchecked = verdict == Verdict::Unchecked;
        if was_unchecked {
            self.keep_unchecked(tag);
        }
        self.has_failures |= has_failed || was_unchecked;
        let Some(running) = self.running.get_mut(&tag) else { return };
        running.count -= 1;
        running.has_failed |= has_failed;
        running.was_unchecked |= was_unchecked;
        if running.count == 0 {
            let unused = if running.has_failed { 0.0 } else { 1.0 };
            let unused_unchecked = if running.was_unchecked { 0.0 } else { running.unchecked };
            self.left = (self.left + unused).min(f64::from(limit.count));
            self.unchecked_left = (self.unchecked_left + unused_unchecked).min(f64::from(limit.count));
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

    /// Stores the tag of unchecked credentials.
    fn keep_unchecked(&mut self, tag: u64) {
        if self.unchecked.contains(&tag) {
            return;
        }
        if self.unchecked.len() == UNCHECKED {
            self.unchecked.pop_front();
        }
        self.unchecked.push_back(tag);
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
