//! A client and a server in random schedules: each call ends, and no event is doubled or lost.
//!
//! `MCP_SCHEDULE_SEEDS` sets the number of schedules, and `MCP_SCHEDULE_SEED` repeats one of them.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

mod calls;
mod repetition;
mod subscriptions;
mod tasks;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use mcp_client::{Client, Error, protocol::ProtocolVersion, transport::BoxFuture};
use mcp_test::schedule::{Connections, Schedule};
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

/// The newest revision of each era.
const ERAS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

/// The number of schedules of each test and era.
const SEEDS: u64 = 24;

/// Returns futures that cut the connections at random times.
fn cutting<'a, T: Send + 'a>(
    schedule: &'a Schedule,
    connections: &'a Connections,
    cuts: usize,
) -> impl Iterator<Item = BoxFuture<'a, Option<T>>> {
    (0..cuts).map(move |_| {
        Box::pin(async move {
            for _ in 0..schedule.below(24) {
                schedule.pause().await;
            }
            connections.cut();
            None
        }) as BoxFuture<'a, Option<T>>
    })
}

/// Whether a cut connection can cause an error of a request. A lost answer would end the request by its time limit.
fn is_of_cut(error: &Error) -> bool {
    let is_lost = error.is_closed() || error.is_unreachable() || error.is_retryable();
    !error.is_timeout() && (is_lost || error.is_cancelled())
}

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
