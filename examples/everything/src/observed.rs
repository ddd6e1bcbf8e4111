//! What the server saw of its clients, for who cannot look inside: slow calls that were dropped, roots that changed.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use mcp_server::{ClientNotification, ServerBuilder, prelude::*};

use crate::app::App;

/// Adds the tool that tells, and the hook that hears.
pub(crate) fn register(builder: ServerBuilder<App>, app: &App) -> ServerBuilder<App> {
    let observed = Observed::from_ref(app);
    builder
        .tool(
            tool("observed", tell)
                .title("What was observed")
                .description(
                    "Tell what the server noticed of its clients: calls that ended early, and news of their roots.",
                )
                .read_only()
                .open_world(false),
        )
        .on_notification(move |notification: ClientNotification| {
            if notification.method() == "notifications/roots/list_changed" {
                observed.0.roots_changed.fetch_add(1, Ordering::Relaxed);
            }
            async {}
        })
}

/// The counts; all clones are one.
#[derive(Clone, Default)]
pub(crate) struct Observed(Arc<Counts>);

#[derive(Default)]
struct Counts {
    running: AtomicU64,
    finished: AtomicU64,
    dropped: AtomicU64,
    roots_changed: AtomicU64,
}

impl Observed {
    /// Counts a call from here on, as a dropped one unless it says that it has finished.
    pub(crate) fn call(&self) -> Running {
        self.0.running.fetch_add(1, Ordering::Relaxed);
        Running { counts: Arc::clone(&self.0), finished: false }
    }
}

/// A call that runs.
pub(crate) struct Running {
    counts: Arc<Counts>,
    finished: bool,
}

impl Running {
    /// The call came to its end.
    pub(crate) fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Counts { running, finished, dropped, .. } = &*self.counts;
        if self.finished { finished } else { dropped }.fetch_add(1, Ordering::Relaxed);
        running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Serialize, JsonSchema)]
struct Told {
    /// Calls of `slow` and `slow_compute` that run now.
    running: u64,
    /// Those that came to their end.
    finished: u64,
    /// Those that were cancelled or lost.
    dropped: u64,
    /// How often clients said that their roots have changed.
    roots_changed: u64,
}

/// Tells what became of slow calls, and how often clients said that their roots have changed.
async fn tell(State(Observed(counts)): State<Observed>) -> Json<Told> {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Json(Told {
        running: count(&counts.running),
        finished: count(&counts.finished),
        dropped: count(&counts.dropped),
        roots_changed: count(&counts.roots_changed),
    })
}
