//! The calls of a server that are running, for the idle stop.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Counts the running calls of a server.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<(usize, Instant)>,
}

impl Default for Activity {
    fn default() -> Self {
        Self { state: Mutex::new((0, Instant::now())) }
    }
}

/// A running call. Its end restarts the idle time.
#[derive(Debug)]
pub(crate) struct ActiveCall {
    activity: Arc<Activity>,
}

impl Activity {
    pub(super) fn begin(self: &Arc<Self>) -> ActiveCall {
        self.state.lock().0 += 1;
        ActiveCall { activity: Arc::clone(self) }
    }

    /// Restarts the idle time.
    pub(super) fn touch(&self) {
        self.state.lock().1 = Instant::now();
    }

    /// Returns the time of the last end of a call.
    pub(super) fn last_used(&self) -> Instant {
        self.state.lock().1
    }

    /// Runs `stop` if the server was idle for this long. No call begins meanwhile. Otherwise returns the time to wait.
    pub(super) fn stop_if_idle(&self, limit: Duration, stop: impl FnOnce()) -> Result<(), Duration> {
        let state = self.state.lock();
        let idle = state.1.elapsed();
        if state.0 > 0 {
            return Err(limit);
        }
        if idle < limit {
            return Err(limit - idle);
        }
        stop();
        Ok(())
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock();
        *state = (state.0 - 1, Instant::now());
    }
}
