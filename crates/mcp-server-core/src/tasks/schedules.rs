//! The table of tasks in random schedules: each task has one end, and its capacity returns.

use std::{sync::Arc, time::Duration};

use mcp_protocol::JsonObject;
use mcp_schedule::{Schedule, explore};
use mcp_transport::BoxFuture;

use super::{Driver, Found, Owner, RunningTask, TaskLimits, TaskOutcome, TaskSpec, TaskTable};
use crate::{
    shutdown::{RunningWork, Shutdown},
    store::{ServerStore, is_unavailable},
};

const SEEDS: u64 = 48;
const CREATORS: usize = 6;
/// The tasks of each creator.
const TASKS: usize = 3;
/// The capacity of the owner. Creators find the table full.
const CAPACITY: usize = 12;
const TTL: Duration = Duration::from_secs(60);
/// The results exceed this budget.
const RESULT_BYTES: usize = 4096;

/// The end of a task, as the table shows it.
type End = Option<TaskOutcome>;

fn owner() -> Owner {
    Owner::of(None, true)
}

fn end_of(found: &Found) -> End {
    found.inspect(|record| record.outcome.clone())
}

fn result(schedule: &Schedule) -> TaskOutcome {
    TaskOutcome::Result(JsonObject::new().with("text", "x".repeat(schedule.below(RESULT_BYTES / 4))))
}

/// Creates tasks, cancels some of them, and drops the creation of others. Returns those that exist.
async fn create(driver: &Driver, schedule: &Schedule) -> Vec<Arc<RunningTask>> {
    let table = &driver.table;
    let mut created = Vec::new();
    for _ in 0..TASKS {
        schedule.pause().await;
        let spec = TaskSpec { owner: owner(), tool: None, ttl: TTL, message: None, session: None };
        let creating = table.create(spec);
        let task = match schedule.chance(20) {
            true => schedule.run_or_drop(creating).await,
            false => Some(creating.await),
        };
        // The owner has too many tasks, the store failed, or the creator was dropped.
        let Some(Ok(task)) = task else { continue };
        let (work, turns) = (schedule.clone(), schedule.below(12));
        let work = async move {
            for _ in 0..turns {
                work.pause().await;
            }
            result(&work)
        };
        tokio::spawn(driver.clone().drive(task.clone(), Box::pin(work), Box::new(|_| ())));
        if schedule.chance(50) {
            schedule.pause().await;
            let is_first = table.settle(&task, TaskOutcome::Cancelled).await;
            assert_eq!(is_first, end_of(&Found::Running(task.clone())) == Some(TaskOutcome::Cancelled));
        }
        created.push(task);
    }
    created
}

/// Reads tasks while they run and end. An end that the table has shown does not change.
async fn watch(table: &TaskTable, schedule: &Schedule) {
    let mut shown: Vec<(String, End)> = Vec::new();
    for _ in 0..40 {
        schedule.pause().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        let Ok((found, _)) = table.list(&owner(), None, CAPACITY).await else { continue };
        assert!(found.len() <= CAPACITY);
        for task in found {
            let (id, listed) = (task.inspect(|record| record.id.clone()), end_of(&task));
            let read = table.find(&owner(), &id).await.ok().as_ref().and_then(end_of);
            let known = shown.iter().find(|(known, _)| *known == id).map(|(_, end)| end.clone());
            for end in [listed, read].into_iter().filter(Option::is_some) {
                assert!(known.as_ref().is_none_or(|known| *known == end), "{id}: {known:?}, then {end:?}");
                shown.push((id.clone(), end));
            }
        }
    }
}

async fn tasks(schedule: Schedule, failures: usize) {
    let limits = TaskLimits { per_principal: CAPACITY, result_bytes: RESULT_BYTES, ..TaskLimits::default() };
    let store = ServerStore::new(Arc::new(schedule.store(failures)), "t");
    let table = Arc::new(TaskTable::new(store, limits, None));
    let shutdown = Shutdown::of_server(Duration::ZERO);
    let driver = Driver { table: table.clone(), shutdown, work: RunningWork::default() };
    let (created, watched) = (&driver, &table);
    let creating = (0..CREATORS).map(|_| {
        let schedule = &schedule;
        Box::pin(async move { create(created, schedule).await }) as BoxFuture<'_, _>
    });
    let watching = [Box::pin(async {
        watch(watched, &schedule).await;
        Vec::new()
    }) as BoxFuture<'_, _>];
    let tasks: Vec<Arc<RunningTask>> = schedule.run_all(creating.chain(watching)).await.into_iter().flatten().collect();
    assert!(!tasks.is_empty() && tasks.len() <= CAPACITY);
    driver.work.ended().await;
    for task in &tasks {
        let mut found = table.find(&owner(), task.id()).await;
        // The store rejects some attempts, and never all of them.
        while let Err(error) = &found {
            assert!(failures > 0 && is_unavailable(error), "{error:?}");
            found = table.find(&owner(), task.id()).await;
        }
        let found = found.unwrap();
        assert!(end_of(&found).is_some() && end_of(&found) == end_of(&Found::Running(task.clone())));
    }
    assert!(table.running().is_empty());
    let (count, bytes) = table.usage();
    assert!(
        count == tasks.len() && bytes <= RESULT_BYTES + count * super::table::SMALL,
        "{count} tasks, {bytes} bytes"
    );
    tokio::time::advance(TTL).await;
    // A lookup removes the expired tasks, also if the store fails.
    assert!(table.find(&owner(), tasks[0].id()).await.is_err());
    assert_eq!(table.usage(), (0, 0));
    let left = table.list(&owner(), None, 1).await;
    assert!(left.is_ok_and(|(found, _)| found.is_empty()) || failures > 0);
}

#[test]
fn each_task_has_one_end_and_returns_its_capacity() {
    explore(SEEDS, async |schedule: Schedule| tasks(schedule, 0).await);
}

#[test]
fn each_task_has_one_end_while_the_store_fails() {
    explore(SEEDS, async |schedule: Schedule| tasks(schedule, 15).await);
}
