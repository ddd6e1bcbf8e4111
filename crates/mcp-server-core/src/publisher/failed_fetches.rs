//! The tasks whose states a stream could not fetch, and the pauses before it fetches them again.

use std::{collections::HashMap, future::pending, time::Duration};

use tokio::time::{Instant, sleep_until};

/// The tasks whose last fetch failed. Each failure doubles the pause of its task.
pub(super) struct FailedFetches {
    first: Duration,
    longest: Duration,
    tasks: HashMap<Box<str>, Pause>,
}

struct Pause {
    /// The pause after the next failure.
    next: Duration,
    /// The time of the next fetch. `None` while the stream fetches the state.
    due: Option<Instant>,
}

impl FailedFetches {
    pub(super) fn new((first, longest): (Duration, Duration)) -> Self {
        Self { first, longest, tasks: HashMap::new() }
    }

    /// Waits for the next fetch that is due, and returns its task. Never returns if no fetch failed. Cancel safe.
    pub(super) async fn due(&self) -> Box<str> {
        let due = self.tasks.iter().filter_map(|(id, pause)| Some((pause.due?, id)));
        match due.min() {
            Some((at, id)) => {
                sleep_until(at).await;
                id.clone()
            }
            None => pending().await,
        }
    }

    /// The stream fetches the state of a task.
    pub(super) fn begun(&mut self, id: &str) {
        if let Some(pause) = self.tasks.get_mut(id) {
            pause.due = None;
        }
    }

    pub(super) fn failed(&mut self, id: Box<str>) {
        let pause = self.tasks.entry(id).or_insert(Pause { next: self.first, due: None });
        pause.due = Some(Instant::now() + pause.next);
        pause.next = (pause.next * 2).min(self.longest);
    }

    /// The stream has the state of a task, or the task is unknown.
    pub(super) fn fetched(&mut self, id: &str) {
        self.tasks.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn each_task_has_its_own_growing_pause_up_to_the_longest() {
        let longest = Duration::from_secs(1);
        let mut failed = FailedFetches::new((FIRST, longest));
        for tenths in [1, 2, 4, 8, 10, 10] {
            let began = Instant::now();
            failed.failed("a".into());
            assert_eq!(&*failed.due().await, "a");
            assert_eq!(began.elapsed(), FIRST * tenths);
            failed.begun("a");
        }
        // The failures of one task do not change the pause of another task.
        let began = Instant::now();
        failed.failed("a".into());
        failed.failed("b".into());
        assert_eq!((&*failed.due().await, began.elapsed()), ("b", FIRST));
        failed.fetched("b");
        assert_eq!((&*failed.due().await, began.elapsed()), ("a", longest));
        // A fetch without a fault ends the pause.
        failed.fetched("a");
        assert!(failed.tasks.is_empty());
        let began = Instant::now();
        failed.failed("a".into());
        assert_eq!((&*failed.due().await, began.elapsed()), ("a", FIRST));
    }
}
