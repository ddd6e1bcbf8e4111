//! Models of the end of a task: each order of the threads that end it and wait for its end.

use std::{sync::Arc, time::Duration};

use mcp_protocol::JsonObject;
use mcp_schedule::model::{block_on, check, spawn};
use mcp_store::MemoryStore;
use tokio::runtime::Builder;

use super::{Owner, TaskLimits, TaskOutcome, TaskSpec, TaskTable};
use crate::store::ServerStore;

#[test]
fn a_task_has_one_end_that_wakes_its_waiters() {
    // The creation of a task has a time limit, which needs the clock of a runtime.
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let _entered = runtime.enter();
    check(|| {
        let store = ServerStore::new(Arc::new(MemoryStore::new()), "t");
        let table = Arc::new(TaskTable::new(store, TaskLimits::default(), None));
        let (owner, ttl) = (Owner::of(None, true), Duration::from_secs(60));
        let task = block_on(table.create(TaskSpec { owner, tool: None, ttl, message: None, session: None })).unwrap();
        let ending = [TaskOutcome::Cancelled, TaskOutcome::Result(JsonObject::new())].map(|outcome| {
            let (table, task) = (table.clone(), task.clone());
            spawn(move || table.mark(&task, outcome))
        });
        block_on(async {
            task.over().await;
            task.changed_since(0).await;
        });
        let ends = ending.map(|ending| ending.join().unwrap());
        assert_ne!(ends[0], ends[1]);
        assert!(task.is_final());
    });
}
