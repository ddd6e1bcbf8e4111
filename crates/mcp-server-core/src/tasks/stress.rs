//! Tasks in several threads: each waiter of a task observes its end, and the task has one end.
//!
//! The waits of a task check its state under a lock of a Tokio channel, so a model cannot contain them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mcp_protocol::JsonObject;
use mcp_store::MemoryStore;
use tokio::{task::JoinSet, time::timeout};

use super::{Owner, TaskLimits, TaskOutcome, TaskSpec, TaskTable};
use crate::store::ServerStore;

/// The time of the test, and its most tasks.
const TIME: Duration = Duration::from_secs(1);
const TASKS: usize = 5_000;
/// A time limit that no waiter reaches.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_waiter_observes_the_only_end_of_a_task() {
    let store = ServerStore::new(Arc::new(MemoryStore::new()), "t");
    let (table, start) = (Arc::new(TaskTable::new(store, TaskLimits::default(), None)), Instant::now());
    for number in 0..TASKS {
        if number > 0 && start.elapsed() >= TIME {
            break;
        }
        let spec = TaskSpec { owner: Owner::of(None, true), tool: None, ttl: LIMIT, message: None, session: None };
        let task = table.create(spec).await.unwrap();
        let mut waiting = JoinSet::new();
        for waiter in 0..4 {
            let task = task.clone();
            waiting.spawn(async move {
                match waiter {
                    0 => task.ended().await,
                    1 => task.over().await,
                    2 => task.wait_until(|| task.is_final()).await,
                    _ => _ = task.changed_since(0).await,
                }
                assert!(task.is_over());
            });
        }
        let mut ending = JoinSet::new();
        for outcome in [TaskOutcome::Cancelled, TaskOutcome::Result(JsonObject::new())] {
            let (table, task) = (table.clone(), task.clone());
            ending.spawn(async move { table.settle(&task, outcome).await });
        }
        let ends = ending.join_all().await;
        assert_eq!(ends.iter().filter(|is_first| **is_first).count(), 1, "the task {number} has two ends");
        assert!(timeout(LIMIT, waiting.join_all()).await.is_ok(), "a waiter of the task {number} has no end");
        table.forget(task.id());
    }
    assert_eq!(table.usage(), (0, 0));
}
