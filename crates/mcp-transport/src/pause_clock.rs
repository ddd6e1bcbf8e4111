//! Clocks that pause, so that a user who thinks does not cause a timeout.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// Measures the time for which the time limits of a client pause. Clones share the clock.
///
/// ```
/// use mcp_transport::PauseClock;
///
/// let clock = PauseClock::new();
/// let pause = clock.pause();
/// assert!(clock.is_paused());
/// drop(pause);
/// assert!(!clock.is_paused());
/// ```
#[derive(Clone, Default)]
pub struct PauseClock {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// The clock was paused, or runs again. Many requests have a clock of their own, so this is smaller than a channel.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    guards: usize,
    since: Option<Instant>,
    paused: Duration,
}

/// Pauses a [`PauseClock`] until the guard is dropped.
#[must_use = "dropping the guard ends the pause"]
pub struct PauseGuard(PauseClock);

impl PauseClock {
    /// Returns a clock that runs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Pauses the clock until the guard is dropped. With several guards, the clock runs after the last one.
    pub fn pause(&self) -> PauseGuard {
        let mut state = self.inner.state.lock();
        state.guards += 1;
        if state.guards == 1 {
            state.since = Some(Instant::now());
            drop(state);
            self.inner.changed.notify_waiters();
        }
        PauseGuard(self.clone())
    }

    /// Returns how long the clock was paused since it was created.
    #[must_use]
    pub fn paused(&self) -> Duration {
        let state = self.inner.state.lock();
        state.paused + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns true while the clock is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.inner.state.lock().guards > 0
    }

    /// Waits until the clock is paused. Cancel safe.
    pub async fn until_paused(&self) {
        self.until(true).await;
    }

    /// Waits until the clock runs. Cancel safe.
    pub async fn until_running(&self) {
        self.until(false).await;
    }

    async fn until(&self, expected: bool) {
        loop {
            // A change after the comparison wakes this future.
            let mut changed = pin!(self.inner.changed.notified());
            changed.as_mut().enable();
            if self.is_paused() == expected {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for PauseGuard {
    fn drop(&mut self) {
        let mut state = self.0.inner.state.lock();
        state.guards -= 1;
        if state.guards == 0
            && let Some(since) = state.since.take()
        {
            state.paused += since.elapsed();
            drop(state);
            self.0.inner.changed.notify_waiters();
        }
    }
}

impl fmt::Debug for PauseClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PauseClock").field("is_paused", &self.is_paused()).finish_non_exhaustive()
    }
}

impl fmt::Debug for PauseGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PauseGuard").finish_non_exhaustive()
    }
}

/// The clocks of the authorization of a connector ([`Connect::authorization`](crate::Connect::authorization)).
///
/// ```
/// use mcp_transport::AuthorizationClocks;
///
/// let clocks = AuthorizationClocks::default();
/// let _asking = clocks.user.pause();
/// assert!(clocks.user.is_paused() && !clocks.requests.is_paused());
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AuthorizationClocks {
    /// Paused while the authorizer waits for the user, such as during a login. The time limits of connections and calls
    /// pause meanwhile.
    pub user: PauseClock,
    /// Paused while a request waits for its authorization, so that the client has not sent it. The time limits for the
    /// silence of the server pause meanwhile.
    pub requests: PauseClock,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_pauses_while_there_are_guards() {
        let clock = PauseClock::new();
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

    #[tokio::test(start_paused = true)]
    async fn waits_end_with_the_pause() {
        let clock = PauseClock::new();
        clock.until_running().await;
        let other = clock.clone();
        let pausing = tokio::spawn(async move {
            let guard = other.pause();
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(guard);
        });
        clock.until_paused().await;
        let since = Instant::now();
        clock.until_running().await;
        assert_eq!(since.elapsed(), Duration::from_secs(5));
        pausing.await.unwrap();
    }
}
