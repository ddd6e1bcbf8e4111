//! The waits between the attempts of a server that fails again and again.

use std::time::Duration;

use mcp_client::Reconnect;

/// The waits between the attempts of a server. Each failure doubles the wait.
pub(super) struct BackOff<'a> {
    policy: &'a Reconnect,
    failures: u32,
}

impl<'a> BackOff<'a> {
    pub(super) fn new(policy: &'a Reconnect) -> Self {
        Self { policy, failures: 0 }
    }

    /// Counts a failed attempt, and returns the wait before the next one.
    pub(super) fn failed(&mut self) -> Duration {
        self.failures += 1;
        doubled(self.policy.first, self.failures - 1).min(self.policy.longest)
    }

    /// Counts a connection that was lost soon, and returns the wait before the next attempt. The first loss causes no
    /// wait.
    pub(super) fn lost(&mut self) -> Duration {
        let wait = if self.failures == 0 { Duration::ZERO } else { doubled(self.policy.first, self.failures - 1) };
        self.failures += 1;
        wait.min(self.policy.longest)
    }

    /// Returns true if the host makes the next attempt without a call.
    pub(super) fn repeats(&self) -> bool {
        self.failures < self.policy.attempts
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Returns the wait after this number of doublings.
pub(super) fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1 << times.min(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_wait_up_to_the_longest() {
        let policy = Reconnect::default().attempts(3).first(Duration::from_secs(1)).longest(Duration::from_secs(3));
        let mut back_off = BackOff::new(&policy);
        let waits: Vec<u64> = (0..4).map(|_| back_off.failed().as_secs()).collect();
        assert_eq!(waits, [1, 2, 3, 3]);
        assert!(!back_off.repeats());
        back_off.reset();
        let waits: Vec<u64> = (0..4).map(|_| back_off.lost().as_secs()).collect();
        assert_eq!(waits, [0, 1, 2, 3]);
        for _ in 0..100 {
            assert_eq!(back_off.failed().as_secs(), 3);
        }
    }
}
