//! The calls and the tasks of a connection, for the idle stop.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Counts the running calls of a connection.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    calls: usize,
    last_used: Instant,
    /// The end of the last task, which needs the connection without a call.
    tasks_until: Instant,
}

impl Default for Activity {
    fn default() -> Self {
        let now = Instant::now();
        Self { state: Mutex::new(State { calls: 0, last_used: now, tasks_until: now }) }
    }
}

/// A running call. Its end restarts the idle time.
#[derive(Debug)]
pub(crate) struct ActiveCall {
    activity: Arc<Activity>,
}

impl Activity {
    pub(super) fn begin(self: &Arc<Self>) -> ActiveCall {
        self.state.lock().calls += 1;
        ActiveCall { activity: Arc::clone(self) }
    }

    /// Restarts the idle time.
    pub(super) fn touch(&self) {
        self.state.lock().last_used = Instant::now();
    }

    /// Defers the idle stop: a task of the connection can run for this time.
    #[cfg(feature = "gateway")]
    pub(super) fn keep_for(&self, time: Duration) {
        let mut state = self.state.lock();
        state.tasks_until = state.tasks_until.max(Instant::now() + time);
    }

    /// Returns the time until which a task can run, and the time of the last end of a call: the order in which connections end.
    pub(super) fn last_needed(&self) -> (Option<Instant>, Instant) {
        let state = self.state.lock();
        (Some(state.tasks_until).filter(|until| *until > Instant::now()), state.last_used)
    }

    /// Runs `stop` if the connection was idle for this long and can have no task. No call begins meanwhile. Otherwise returns the
    /// time to wait.
    pub(super) fn stop_if_idle(&self, limit: Duration, stop: impl FnOnce()) -> Result<(), Duration> {
        let state = self.state.lock();
        if state.calls > 0 {
            return Err(limit);
        }
        let now = Instant::now();
        let idle = now.saturating_duration_since(state.last_used);
        let left = limit.saturating_sub(idle).max(state.tasks_until.saturating_duration_since(now));
        if left > Duration::ZERO {
            return Err(left);
        }
        stop();
        Ok(())
    }

    /// Runs `stop` if the connection has no running call, also if it has tasks. No call begins meanwhile. Returns whether it ran.
    pub(super) fn stop_without_calls(&self, stop: impl FnOnce()) -> bool {
        let state = self.state.lock();
        let is_unused = state.calls == 0;
        if is_unused {
            stop();
        }
        is_unused
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock();
        state.calls -= 1;
        state.last_used = Instant::now();
    }
}
