//! The table of checks. Each check starts its own fleet.

use std::{
    future::Future,
    pin::Pin,
    time::{Duration, Instant},
};

use anyhow::Error;
use check_kit::random::Random;
use tokio::time::{sleep, timeout};

use crate::fleet::Settings;

mod effects;
mod events;
mod isolation;
mod outage;
mod questions;
mod restart;
mod swaps;
mod tasks;
mod tokens;

/// The parameters of a check.
pub(crate) struct Run {
    pub(crate) settings: Settings,
    pub(crate) random: Random,
    /// The size in hundredths of the full size.
    pub(crate) size: u32,
}

impl Run {
    /// A count of the full size, for the size of this run, and at least 1.
    pub(crate) fn of(&self, full: usize) -> usize {
        (full * self.size as usize / 100).max(1)
    }

    /// The time limit of a promise. A smaller run allows twice the time, because it runs beside other work.
    pub(crate) fn limit(&self, promised: Duration) -> Duration {
        if self.size < 100 { promised * 2 } else { promised }
    }
}

type Outcome<'a> = Pin<Box<dyn Future<Output = Result<String, Error>> + 'a>>;

/// A check: its name, its promise, its time limit, and its function. The function returns a line with the measured values.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) promise: &'static str,
    /// The time limit of the whole check, at any size.
    pub(crate) limit: Duration,
    pub(crate) run: fn(&mut Run) -> Outcome<'_>,
}

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

pub(crate) const CHECKS: &[Check] = &[
    Check {
        name: "events",
        promise: "each event of 50 streams arrives once and in order, while nodes are killed",
        limit: minutes(8),
        run: |run| Box::pin(events::check(run)),
    },
    Check {
        name: "questions",
        promise: "each elicitation is answered through another node, with an added p99 of 5 ms at most",
        limit: minutes(4),
        run: |run| Box::pin(questions::check(run)),
    },
    Check {
        name: "tasks",
        promise: "the tasks of a killed node fail within 15 s, and ended tasks keep their results",
        limit: minutes(4),
        run: |run| Box::pin(tasks::check(run)),
    },
    Check {
        name: "effects",
        promise: "no order is placed twice, while nodes are killed and rounds are sent again",
        limit: minutes(4),
        run: |run| Box::pin(effects::check(run)),
    },
    Check {
        name: "outage",
        promise: "Redis is killed: acknowledged writes stay, stateless calls succeed, and nodes recover within 5 s",
        limit: minutes(4),
        run: |run| Box::pin(outage::check(run)),
    },
    Check {
        name: "isolation",
        promise: "a node loses Redis in four ways: its clients have an answer or a typed error within 6 s, and it never acts twice",
        limit: minutes(4),
        run: |run| Box::pin(isolation::check(run)),
    },
    Check {
        name: "swaps",
        promise: "compare-and-swap is linearizable, while Redis is stopped, killed and cut from its clients",
        limit: minutes(4),
        run: |run| Box::pin(swaps::check(run)),
    },
    Check {
        name: "tokens",
        promise: "three processes send one token request for each rotation of their refresh token",
        limit: minutes(4),
        run: |run| Box::pin(tokens::check(run)),
    },
    Check {
        name: "restart",
        promise: "a rolling restart of all nodes fails no read-only call, and opens at most one session again for each client",
        limit: minutes(4),
        run: |run| Box::pin(restart::check(run)),
    },
];

/// The value below which the given share (in hundredths) of the durations is. The durations are in ascending order.
pub(crate) fn percentile(durations: &[Duration], share: usize) -> Duration {
    let last = durations.len().saturating_sub(1);
    durations.get((durations.len() * share / 100).min(last)).copied().unwrap_or_default()
}

/// Repeats `test` every 50 ms until it is true. Returns the time that it took, or `None` after `limit`, also during a test.
pub(crate) async fn until(limit: Duration, mut test: impl AsyncFnMut() -> bool) -> Option<Duration> {
    let start = Instant::now();
    let tests = async {
        while !test().await {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(limit, tests).await.ok().map(|()| start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_durations() {
        let durations: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(percentile(&durations, 99), Duration::from_millis(100));
        assert_eq!(percentile(&durations, 50), Duration::from_millis(51));
        assert_eq!(percentile(&[], 99), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_test_that_does_not_end_in_time_has_failed() {
        let limit = Duration::from_millis(20);
        assert!(until(Duration::from_secs(60), async || true).await.is_some());
        assert!(until(limit, async || false).await.is_none());
        assert!(until(limit, async || std::future::pending().await).await.is_none());
    }
}
