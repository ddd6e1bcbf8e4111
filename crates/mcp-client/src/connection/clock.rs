//! A clock that pauses while handlers answer the server, so that a user who thinks does not cause a timeout.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The total time for which handlers answered the server.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    since: Option<Instant>,
    paused: Duration,
}

/// Pauses the clock while a handler answers the server.
#[derive(Debug)]
pub(crate) struct Pause(Arc<Clock>);

impl Clock {
    /// Pauses the clock until the guard is dropped.
    pub(crate) fn pause(self: &Arc<Self>) -> Pause {
        let mut state = self.state();
        state.running += 1;
        state.since.get_or_insert_with(Instant::now);
        drop(state);
        Pause(Arc::clone(self))
    }

    /// Returns how long the clock was paused since it was created.
    pub(crate) fn paused(&self) -> Duration {
        let state = self.state();
        state.paused + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.state().running > 0
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running -= 1;
        if state.running == 0
            && let Some(since) = state.since.take()
        {
            state.paused += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_pauses_while_the_user_answers() {
        let clock = Arc::new(Clock::default());
        let second = Duration::from_secs(1);
        tokio::time::advance(second).await;
        assert_eq!(clock.paused(), Duration::ZERO);
        let first = clock.pause();
        tokio::time::advance(second).await;
        let other = clock.pause();
        drop(first);
        tokio::time::advance(second).await;
        assert!(clock.is_paused());
        assert_eq!(clock.paused(), 2 * second);
        drop(other);
        tokio::time::advance(second).await;
        assert!(!clock.is_paused());
        assert_eq!(clock.paused(), 2 * second);
    }
}
