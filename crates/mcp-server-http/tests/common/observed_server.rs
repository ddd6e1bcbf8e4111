//! Tools that report their start and their end, and wait for a permit of the test.

use std::sync::Arc;

use mcp_server_core::{Progress, Server, tool};
use tokio::sync::{
    Semaphore,
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use super::within;

/// An event of a call of the tool `hold`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Started,
    /// It ran to its end.
    Finished,
    /// Its future was dropped before that.
    Dropped,
}

/// A server with the tools `hold` and `mute`. `hold` reports progress, waits for a permit, reports more progress and
/// returns. `mute` reports no progress before its permit.
pub(crate) struct ObservedServer {
    pub(crate) server: Server,
    pub(crate) release: Arc<Semaphore>,
    events: UnboundedReceiver<Event>,
}

struct OnDrop {
    events: UnboundedSender<Event>,
    finished: bool,
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        let event = if self.finished { Event::Finished } else { Event::Dropped };
        let _ = self.events.send(event);
    }
}

impl ObservedServer {
    pub(crate) fn new() -> Self {
        let (sender, events) = unbounded_channel();
        let release = Arc::new(Semaphore::new(0));
        let permits = release.clone();
        let hold = move |progress: Progress, speaks_first: bool| {
            let (sender, permits) = (sender.clone(), permits.clone());
            async move {
                let _ = sender.send(Event::Started);
                let mut end = OnDrop { events: sender, finished: false };
                if speaks_first {
                    progress.report(1.0, None, None).await;
                }
                permits.acquire().await.unwrap().forget();
                // More reports than any queue holds.
                for step in 2..1000 {
                    progress.report(f64::from(step), None, None).await;
                }
                end.finished = true;
                "held"
            }
        };
        let mute = hold.clone();
        let server = Server::builder("test", "1.0")
            .tool(tool("hold", move |progress: Progress| hold(progress, true)))
            .tool(tool("mute", move |progress: Progress| mute(progress, false)))
            .tool(tool("quick", async || "quick"))
            .build();
        Self { server, release, events }
    }

    pub(crate) async fn expect(&mut self, event: Event) {
        let next = within("an event of the tool", self.events.recv()).await;
        assert_eq!(next, Some(event));
    }

    /// Whether the test has read all events.
    pub(crate) fn has_no_events(&mut self) -> bool {
        self.events.try_recv().is_err()
    }
}
