//! Counters for tests that cannot inspect the server: dropped slow calls and changes of roots.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use mcp_server::{ClientNotification, ServerBuilder, extract::FromRef as _, prelude::*};

use crate::app::App;

/// Registers the tool that returns the counters, and the hook that counts notifications.
pub(crate) fn register(builder: ServerBuilder<App>, app: &App) -> ServerBuilder<App> {
    let observations = Observations::from_ref(app);
    builder
        .tool(
            tool("observed", observed)
                .title("What was observed")
                .description(
                    "Return what the server observed of its clients: calls that ended early, and changes of roots.",
                )
                .read_only()
                .closed_world(),
        )
        .on_notification(move |notification: ClientNotification| {
            if notification.method() == "notifications/roots/list_changed" {
                observations.0.roots_changed.fetch_add(1, Ordering::Relaxed);
            }
            async {}
        })
}

/// The counters. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Observations(Arc<Counts>);

#[derive(Default)]
struct Counts {
    running: AtomicU64,
    finished: AtomicU64,
    dropped: AtomicU64,
    roots_changed: AtomicU64,
}

impl Observations {
    /// Counts a running call. The call counts as dropped unless it calls [`RunningCall::finish`].
    pub(crate) fn start_call(&self) -> RunningCall {
        self.0.running.fetch_add(1, Ordering::Relaxed);
        RunningCall { counts: Arc::clone(&self.0), finished: false }
    }
}

/// A running call.
pub(crate) struct RunningCall {
    counts: Arc<Counts>,
    finished: bool,
}

impl RunningCall {
    /// Counts the call as finished.
    pub(crate) fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let Counts { running, finished, dropped, .. } = &*self.counts;
        if self.finished { finished } else { dropped }.fetch_add(1, Ordering::Relaxed);
        running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Serialize, JsonSchema)]
struct Totals {
    /// Running calls of `slow` and `slow_compute`.
    running: u64,
    /// Finished calls.
    finished: u64,
    /// Calls that were cancelled or lost.
    dropped: u64,
    /// Notifications of clients about changed roots.
    roots_changed: u64,
}

/// Returns the counters.
async fn observed(State(Observations(counts)): State<Observations>) -> Json<Totals> {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Json(Totals {
        running: count(&counts.running),
        finished: count(&counts.finished),
        dropped: count(&counts.dropped),
        roots_changed: count(&counts.roots_changed),
    })
}
