//! The tasks whose states a stream could not fetch, and the pauses before it fetches them again.

use std::{
    collections::HashMap,
    future::pending,
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// The shortest time between two repeated fetches of a stream.
const GAP: Duration = Duration::from_millis(100);

/// The tasks whose last fetch failed. Each failure doubles the pause of its task.
pub(super) struct FailedFetches {
    first: Duration,
    longest: Duration,
    tasks: HashMap<Box<str>, Pause>,
    /// The earliest time of the next repeated fetch.
    free: Instant,
    random: RandomState,
    /// The number of failures.
    failures: u64,
}

struct Pause {
    /// The longest pause after the next failure.
    next: Duration,
    /// The time of the next fetch. `None` while the stream fetches the state.
    due: Option<Instant>,
}

impl FailedFetches {
    pub(super) fn new((first, longest): (Duration, Duration)) -> Self {
        let (tasks, random) = (HashMap::new(), RandomState::new());
        Self { first, longest, tasks, free: Instant::now(), random, failures: 0 }
    }

    /// Waits for the next fetch that is due, and returns its task. Never returns if no fetch failed. Cancel safe.
    pub(super) async fn due(&self) -> Box<str> {
        let due = self.tasks.iter().filter_map(|(id, pause)| Some((pause.due?, id)));
        match due.min() {
            Some((at, id)) => {
                sleep_until(at.max(self.free)).await;
                id.clone()
            }
            None => pending().await,
        }
    }

    /// Whether the last fetch of a task failed.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.tasks.contains_key(id)
    }

    /// The stream repeats the fetch of a task.
    pub(super) fn repeated(&mut self, id: &str) {
        self.free = Instant::now() + GAP;
        self.begun(id);
    }

    /// The stream fetches the state of a task.
    pub(super) fn begun(&mut self, id: &str) {
        if let Some(pause) = self.tasks.get_mut(id) {
            pause.due = None;
        }
    }

    pub(super) fn failed(&mut self, id: Box<str>) {
        self.failures += 1;
        // The streams of a node do not repeat their fetches at the same time.
        let random = f64::from(self.random.hash_one(self.failures).to_le_bytes()[0]) / 256.0;
        let pause = self.tasks.entry(id).or_insert(Pause { next: self.first, due: None });
        pause.due = Some(Instant::now() + pause.next.mul_f64(1.0 - random / 4.0));
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

    const FIRST: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(10);

    fn assert_pause(began: Instant, pause: Duration) {
        let elapsed = began.elapsed();
        // The clock has milliseconds.
        assert!(pause * 3 / 4 <= elapsed && elapsed <= pause + Duration::from_millis(1), "{pause:?}: {elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn each_task_has_its_own_growing_pause_up_to_the_longest() {
        let mut failed = FailedFetches::new((FIRST, LONGEST));
        for seconds in [1, 2, 4, 8, 10, 10] {
            let began = Instant::now();
            failed.failed("a".into());
            assert_eq!(&*failed.due().await, "a");
            assert_pause(began, FIRST * seconds);
            failed.repeated("a");
        }
        // The failures of one task do not change the pause of another task.
        let began = Instant::now();
        failed.failed("a".into());
        failed.failed("b".into());
        assert_eq!(&*failed.due().await, "b");
        assert_pause(began, FIRST);
        failed.fetched("b");
        assert_eq!(&*failed.due().await, "a");
        assert_pause(began, LONGEST);
        // A fetch without a fault ends the pause.
        failed.fetched("a");
        assert!(failed.tasks.is_empty());
        let began = Instant::now();
        failed.failed("a".into());
        assert_eq!(&*failed.due().await, "a");
        assert_pause(began, FIRST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_repeats_one_fetch_in_each_gap() {
        let mut failed = FailedFetches::new((FIRST, LONGEST));
        let tasks = ["a", "b", "c", "d", "e", "f"];
        for task in tasks {
            failed.failed(task.into());
        }
        tokio::time::advance(LONGEST).await;
        let began = Instant::now();
        for repeated in 0..tasks.len() {
            let task = failed.due().await;
            failed.repeated(&task);
            assert_eq!(began.elapsed(), GAP * u32::try_from(repeated).unwrap());
        }
    }
}
