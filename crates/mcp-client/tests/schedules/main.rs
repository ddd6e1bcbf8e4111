//! A client and a server in random schedules: each call ends, and no event is doubled or lost.
//!
//! `MCP_SCHEDULE_SEEDS` sets the number of schedules, and `MCP_SCHEDULE_SEED` repeats one of them.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

mod calls;
mod subscriptions;
mod tasks;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use mcp_client::{Client, protocol::ProtocolVersion};
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

/// The newest revision of each era.
const ERAS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

/// The number of schedules of each test and era.
const SEEDS: u64 = 24;

/// Waits until no request of the client waits for an answer. The client cancels dropped calls in the background.
async fn idle(client: &Client) {
    let idle = async {
        while client.pending() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(timeout(Duration::from_secs(60), idle).await.is_ok(), "{} requests wait", client.pending());
}

/// The handlers of the calls by the number of the call.
#[derive(Debug, Clone, Default)]
struct Handlers {
    counts: Arc<Mutex<BTreeMap<usize, Counts>>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    running: usize,
    /// The handlers that have reached their end.
    ended: usize,
}

/// A running handler.
struct Running(Handlers, usize);

impl Handlers {
    fn begin(&self, number: usize) -> Running {
        self.count(number, |counts| counts.running += 1);
        Running(self.clone(), number)
    }

    fn count(&self, number: usize, change: impl Fn(&mut Counts)) {
        change(self.counts.lock().entry(number).or_default());
    }

    /// Returns how many handlers of a call have reached their end.
    fn ended(&self, number: usize) -> usize {
        self.counts.lock().get(&number).map_or(0, |counts| counts.ended)
    }

    /// Waits until no handler runs.
    async fn stopped(&self) {
        let stopped = async {
            while self.counts.lock().values().any(|counts| counts.running > 0) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let is_stopped = timeout(Duration::from_secs(60), stopped).await.is_ok();
        assert!(is_stopped, "handlers run although their calls have ended: {:?}", self.counts.lock());
    }
}

impl Running {
    fn end(&self) {
        self.0.count(self.1, |counts| counts.ended += 1);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.count(self.1, |counts| counts.running -= 1);
    }
}
