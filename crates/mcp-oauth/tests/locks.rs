//! The locks of token stores in random schedules: one holder at a time, and a dropped waiter leaves no lock behind.
//!
//! `MCP_SCHEDULE_SEEDS` sets the number of schedules, and `MCP_SCHEDULE_SEED` repeats one of them.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_oauth::{MemoryStore, SharedStore, TokenStore};
use mcp_test::schedule::{Schedule, explore};
use mcp_transport::BoxFuture;
use tokio::time::sleep;

const SEEDS: u64 = 16;
/// The processes that wait for the lock.
const PROCESSES: usize = 6;
/// A time limit that no waiter reaches.
const LIMIT: Duration = Duration::from_secs(3600);

/// Takes the lock, and holds it for up to a minute. The lease of a shared lock is shorter. Some processes stop waiting.
async fn process(store: &dyn TokenStore, schedule: &Schedule, holders: &AtomicUsize) {
    let held = async {
        let lock = store.lock("server", LIMIT).await.unwrap();
        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two processes hold the lock");
        let holding = Holding(holders);
        schedule.pause().await;
        sleep(Duration::from_secs(schedule.below(60) as u64)).await;
        drop((holding, lock));
    };
    schedule.pause().await;
    match schedule.below(3) {
        0 => _ = schedule.run_or_drop(held).await,
        1 => _ = tokio::time::timeout(Duration::from_secs(schedule.below(90) as u64), held).await,
        _ => held.await,
    }
}

struct Holding<'a>(&'a AtomicUsize);

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn locks(schedule: Schedule, store: impl TokenStore) {
    let holders = AtomicUsize::new(0);
    let processes = (0..PROCESSES).map(|_| {
        let (store, schedule, holders) = (&store, &schedule, &holders);
        Box::pin(async move { process(store, schedule, holders).await }) as BoxFuture<'_, ()>
    });
    schedule.run_all(processes).await;
    // No lock is left behind, so the lock is free in less than a lease.
    let free = store.lock("server", Duration::from_secs(5)).await;
    assert!(free.is_ok(), "{free:?}");
}

#[test]
fn one_process_at_a_time_holds_a_lock_in_memory() {
    explore(SEEDS, async |schedule: Schedule| locks(schedule, MemoryStore::new()).await);
}

#[test]
fn one_process_at_a_time_holds_a_shared_lock() {
    explore(SEEDS, async |schedule: Schedule| {
        let store = SharedStore::new(Arc::new(schedule.store(0)));
        locks(schedule, store).await;
    });
}
