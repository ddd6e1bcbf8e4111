//! The tasks of a server: the running ones, their limits, and the records in the store.

use std::{collections::HashMap, sync::Arc, time::Duration};

use mcp_protocol::{InputRequests, RpcError, tasks::ext::DetailedTask};
use mcp_store::{StoreError, Swap};
use mcp_transport::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{
    TaskLimits,
    elsewhere::StoredTask,
    id::{is_id, new_id},
    owner::Owner,
    polls::Polls,
    record::{Record, TaskOutcome},
    running::RunningTask,
    timestamp,
};
use crate::{
    access::Access,
    node::{Failing, Node},
    session::Session,
    store::{ServerStore, is_away, not_taken, unavailable},
};

/// The interval between sweeps for expired tasks, while the table is not full.
const SWEEP: Duration = Duration::from_secs(10);

/// An outcome up to this size, in bytes, is always kept. Its record is larger anyway.
pub(crate) const SMALL: usize = 512;

/// The tasks of a server.
pub(crate) struct TaskTable {
    pub(super) records: ServerStore,
    /// This node of a fleet.
    pub(super) node: Option<Arc<Node>>,
    /// The tasks of other nodes that streams of this node follow.
    pub(super) polls: Polls,
    limits: TaskLimits,
    entries: Mutex<Entries>,
    /// The failures of the store that requests caused.
    failing: Mutex<Failing>,
    /// The failures of the store that the ends of tasks caused.
    failing_ends: Mutex<Failing>,
}

struct Entries {
    tasks: HashMap<String, Entry>,
    counts: HashMap<Owner, usize>,
    /// The bytes of all outcomes.
    bytes: usize,
    swept: Instant,
}

/// A task that this node created and that has not expired.
struct Entry {
    owner: Owner,
    expires: Instant,
    /// The bytes of its outcome.
    bytes: usize,
    /// Present while the task runs, and after the store rejected its end.
    running_task: Option<Arc<RunningTask>>,
}

/// A task that a request named.
pub(crate) enum Found {
    /// The task runs on this node.
    Running(Arc<RunningTask>),
    /// The task has ended or runs on another node.
    Stored(Box<StoredTask>),
}

impl Found {
    /// Passes the state to a closure, without copying a large result.
    pub(crate) fn inspect<T>(&self, inspect: impl FnOnce(&Record) -> T) -> T {
        match self {
            Self::Running(running_task) => running_task.inspect(inspect),
            Self::Stored(stored) => inspect(&stored.record),
        }
    }

    /// Returns the task in the form of the extension.
    pub(crate) fn into_detailed(self) -> DetailedTask {
        match self {
            Self::Running(running_task) => running_task.detailed(),
            Self::Stored(stored) => stored.record.into_detailed(),
        }
    }
}

/// The data of a new task.
pub(crate) struct TaskSpec<'a> {
    pub(crate) owner: Owner,
    /// The tool that runs, and the access that it needs.
    pub(crate) tool: Option<(&'a str, &'a Access)>,
    pub(crate) ttl: Duration,
    pub(crate) message: Option<String>,
    pub(crate) session: Option<&'a Arc<Session>>,
}

impl TaskTable {
    pub(crate) fn new(records: ServerStore, limits: TaskLimits, node: Option<Arc<Node>>) -> Self {
        let entries = Entries { tasks: HashMap::new(), counts: HashMap::new(), bytes: 0, swept: Instant::now() };
        let (entries, polls) = (Mutex::new(entries), Polls::default());
        Self { records, node, polls, limits, entries, failing: Mutex::default(), failing_ends: Mutex::default() }
    }

    pub(crate) fn limits(&self) -> &TaskLimits {
        &self.limits
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    /// Creates a task. The store has the record when this returns.
    ///
    /// # Errors
    /// `-32603` when the owner has too many tasks, when the store fails, or when the system has no random numbers. The error
    /// of an unavailable store has data by which [`is_unavailable`](crate::store::is_unavailable) recognizes it.
    pub(crate) async fn create(&self, wanted: TaskSpec<'_>) -> Result<Arc<RunningTask>, RpcError> {
        let id = new_id()?;
        let lease = match &self.node {
            Some(node) => Some(node.lease().await.map_err(|error| error.to_rpc())?),
            None => None,
        };
        let created = timestamp::now();
        let record = Record {
            id: id.clone(),
            owner: wanted.owner.as_str().to_owned(),
            tool: wanted.tool.map(|(tool, _)| tool.to_owned()),
            access: wanted.tool.map_or(Access::PUBLIC, |(_, access)| access.clone()),
            updated: created.clone(),
            created,
            ttl: millis(wanted.ttl),
            poll: millis(self.limits.poll_interval),
            message: wanted.message,
            node: lease.as_ref().map(|lease| lease.id().to_owned()),
            version: 0,
            questions: InputRequests::new(),
            awaits_input: false,
            outcome: None,
        };
        let written = bytes_of(&record)?;
        let key = wanted.owner.key(&id);
        let running_task = Arc::new(RunningTask::new(record, written.clone(), wanted.ttl, wanted.session, lease));
        let entry = Entry {
            owner: wanted.owner,
            expires: running_task.expires(),
            bytes: 0,
            running_task: Some(running_task.clone()),
        };
        if !self.enter(id.clone(), entry) {
            return Err(RpcError::internal("too many tasks: try again when some have expired"));
        }
        let mut entering = InsertGuard { table: self, id: &id, key: Some(key.clone()) };
        if let Err(error) = self.records.put(&key, written, Some(wanted.ttl)).await {
            return Err(self.failed(&error));
        }
        entering.key = None;
        Ok(running_task)
    }

    /// Returns the error of a request for which the store failed. A client can repeat such a request often, so the log has one
    /// record in an interval.
    pub(super) fn failed(&self, error: &StoreError) -> RpcError {
        if self.failing.lock().record_failure() {
            tracing::error!(%error, "the store fails for requests about tasks");
        }
        if is_away(error) {
            return unavailable();
        }
        RpcError::internal("the store of the tasks failed")
    }

    /// Returns the number of the tasks, and the bytes of their outcomes.
    #[cfg(test)]
    pub(super) fn usage(&self) -> (usize, usize) {
        let entries = self.entries();
        assert_eq!(entries.counts.values().sum::<usize>(), entries.tasks.len());
        (entries.tasks.len(), entries.bytes)
    }

    fn enter(&self, id: String, entry: Entry) -> bool {
        let cap = if entry.owner.is_one() { self.limits.per_principal } else { self.limits.unauthenticated };
        let mut entries = self.entries();
        let count = |entries: &Entries| entries.counts.get(&entry.owner).copied().unwrap_or_default();
        let is_full = count(&entries) >= cap;
        entries.sweep(is_full);
        if count(&entries) >= cap {
            return false;
        }
        *entries.counts.entry(entry.owner.clone()).or_default() += 1;
        entries.tasks.insert(id, entry);
        true
    }

    /// Reserves bytes for an outcome. Returns false when the limit is reached.
    fn reserve(&self, id: &str, bytes: usize) -> bool {
        let mut entries = self.entries();
        let budget = self.limits.result_bytes;
        let fits = |entries: &Entries| bytes <= SMALL || entries.bytes.saturating_add(bytes) <= budget;
        if !fits(&entries) {
            entries.sweep(true);
        }
        if !fits(&entries) {
            return false;
        }
        let entries = &mut *entries;
        // An expired task is not counted any more.
        if let Some(entry) = entries.tasks.get_mut(id) {
            entry.bytes += bytes;
            entries.bytes += bytes;
        }
        true
    }

    fn release(&self, id: &str, bytes: usize) {
        let entries = &mut *self.entries();
        if let Some(entry) = entries.tasks.get_mut(id) {
            entry.bytes -= bytes;
            entries.bytes -= bytes;
        }
    }

    /// Returns a task of an owner, with its current state if it runs on another node. Tasks of other owners and expired tasks
    /// are unknown.
    ///
    /// # Errors
    /// `-32602` when the task is unknown. `-32603` when the store fails.
    pub(crate) async fn find(&self, owner: &Owner, id: &str) -> Result<Found, RpcError> {
        match self.locate(owner, id).await? {
            Found::Stored(mut found) => {
                self.follow(std::slice::from_mut(&mut *found)).await?;
                Ok(Found::Stored(found))
            }
            Found::Running(running_task) => {
                // Only the store can tell whether another node ended the task first.
                if running_task.is_over() && !running_task.is_final() {
                    self.persist(&running_task).await.map_err(|error| not_stored(&error))?;
                }
                Ok(Found::Running(running_task))
            }
        }
    }

    /// Returns a task of an owner. A task of another node has the state of its record.
    ///
    /// # Errors
    /// `-32602` when the task is unknown. `-32603` when the store fails.
    pub(crate) async fn locate(&self, owner: &Owner, id: &str) -> Result<Found, RpcError> {
        if !is_id(id) {
            return Err(unknown());
        }
        {
            let mut entries = self.entries();
            // A server that creates no new tasks sweeps here.
            entries.sweep(false);
            if let Some(entry) = entries.tasks.get(id) {
                if entry.owner != *owner || entry.expires <= Instant::now() {
                    return Err(unknown());
                }
                if let Some(running_task) = &entry.running_task {
                    return Ok(Found::Running(running_task.clone()));
                }
            }
        }
        let bytes = self.records.get(&owner.key(id)).await.map_err(|error| self.failed(&error))?;
        let found = bytes.and_then(|bytes| StoredTask::read(&bytes));
        let found = found.filter(|found| found.record.owner == owner.as_str());
        found.map(Found::from).ok_or_else(unknown)
    }

    /// Returns at most `count` tasks of an owner after the id `after`, oldest first, and the cursor of the next page.
    pub(crate) async fn list(
        &self,
        owner: &Owner,
        after: Option<&str>,
        count: usize,
    ) -> Result<(Vec<Found>, Option<String>), RpcError> {
        let mut cursor = after.map(|id| self.records.full(&owner.key(id)));
        let page = loop {
            let page = self.records.list(&owner.prefix(), cursor.as_deref(), count).await;
            let page = page.map_err(|error| self.failed(&error))?;
            // A page of expired records has no entries, and further pages follow.
            match page.next {
                Some(next) if page.entries.is_empty() => cursor = Some(next),
                _ => break page,
            }
        };
        // The cursor of the store may contain no id, but a listing also continues after a key.
        let last = page.next.as_ref().and_then(|_| page.entries.last());
        let next = last.and_then(|(key, _)| key.rsplit('/').next()).map(str::to_owned);
        // A running task is newer than its record.
        let here: Vec<_> = {
            let mut entries = self.entries();
            entries.sweep(false);
            let ids = page.entries.iter().map(|(key, _)| key.rsplit('/').next().unwrap_or_default());
            ids.map(|id| entries.tasks.get(id).and_then(|entry| entry.running_task.clone())).collect()
        };
        let is_owned = |record: &Record| record.owner == owner.as_str();
        let stored = page.entries.into_iter().zip(here);
        let stored = stored.filter_map(|((_, bytes), here)| Some((StoredTask::read(&bytes)?, here)));
        let (mut stored, here): (Vec<_>, Vec<_>) = stored.filter(|(stored, _)| is_owned(&stored.record)).unzip();
        self.follow(&mut stored).await?;
        let found = stored.into_iter().zip(here);
        let found = found.map(|(stored, here)| here.map_or_else(|| stored.into(), Found::Running)).collect();
        Ok((found, next))
    }

    /// Ends a running task and stores its outcome. Returns false when it has ended already, on this node or another one.
    pub(crate) async fn settle(&self, running_task: &Arc<RunningTask>, outcome: TaskOutcome) -> bool {
        let is_first = self.mark(running_task, outcome);
        if let Err(error) = self.persist(running_task).await {
            self.end_failed(&error);
        }
        is_first && !running_task.is_replaced()
    }

    /// Logs that the end of a task is not stored. All running tasks repeat this in an outage of the store.
    pub(super) fn end_failed(&self, error: &StoreError) {
        if self.failing_ends.lock().record_failure() {
            tracing::warn!(%error, "the end of a task is not stored yet");
        }
    }

    /// Decides the end of a task. Returns false when it is decided already.
    ///
    /// The driver of the task stores the outcome, also when the caller is dropped.
    pub(crate) fn mark(&self, running_task: &Arc<RunningTask>, outcome: TaskOutcome) -> bool {
        let is_cancelled = outcome == TaskOutcome::Cancelled;
        let bytes = outcome.size();
        let (outcome, bytes) = if self.reserve(running_task.id(), bytes) {
            (outcome, bytes)
        } else {
            tracing::warn!(bytes, "the result of a task finds no room among those that are kept");
            (TaskOutcome::Error(RpcError::internal("the server has no room to keep the result of this task")), 0)
        };
        if !running_task.settle(outcome) {
            self.release(running_task.id(), bytes);
            return false;
        }
        if is_cancelled {
            running_task.cancel.cancel();
        }
        true
    }

    /// Returns a task that runs on this node.
    pub(super) fn here(&self, id: &str) -> Option<(Owner, Arc<RunningTask>)> {
        self.entries().tasks.get(id).and_then(|entry| Some((entry.owner.clone(), entry.running_task.clone()?)))
    }

    /// Returns the ids of the tasks that run on this node.
    pub(crate) fn running(&self) -> Vec<String> {
        let entries = self.entries();
        let running = entries.tasks.iter().filter(|(_, entry)| entry.running_task.is_some());
        let mut ids: Vec<String> = running.map(|(id, _)| id.clone()).collect();
        // The oldest task is first.
        ids.sort_unstable();
        ids
    }

    /// Stores the outcome of a task once, and shows the end of the task. A record that another node ended first stays, and
    /// the task shows that end.
    ///
    /// # Errors
    /// Fails when the store fails. The task stays in memory until it expires.
    pub(crate) async fn persist(&self, running_task: &Arc<RunningTask>) -> Result<(), StoreError> {
        let Some(record) = running_task.ended_record() else { return Ok(()) };
        let is_kept = self.entries().tasks.get(running_task.id()).is_none_or(|entry| entry.running_task.is_none());
        let left = running_task.expires().saturating_duration_since(Instant::now());
        let bytes = bytes_of(&record).ok().filter(|_| !is_kept && !left.is_zero());
        let Some(bytes) = bytes else {
            running_task.show_end(None);
            return Ok(());
        };
        let key = Owner::named(&record.owner).key(running_task.id());
        let written = running_task.stored_bytes();
        let end = |expected| self.records.compare_and_swap(&key, expected, Some(bytes.clone()), Some(left));
        let mut swap = end(Some(&*written)).await?;
        if matches!(swap, Swap::Lost { current: None }) {
            // A store that was restarted can lack the creation of the task.
            swap = end(None).await?;
        }
        let stored = match swap {
            Swap::Lost { current: Some(current) } => Record::read(&current),
            _ => None,
        };
        // A request that finds no running task reads the record, so the end is shown first.
        running_task.show_end(stored);
        if let Some(entry) = self.entries().tasks.get_mut(running_task.id()) {
            entry.running_task = None;
        }
        Ok(())
    }

    /// Removes an expired task.
    pub(crate) fn forget(&self, id: &str) {
        self.entries().remove(id);
    }
}

impl Entries {
    fn remove(&mut self, id: &str) {
        if let Some(entry) = self.tasks.remove(id) {
            decrement(&mut self.counts, &entry.owner);
            self.bytes -= entry.bytes;
        }
    }

    /// Removes expired tasks. Their drivers have ended already.
    fn sweep(&mut self, is_full: bool) {
        let now = Instant::now();
        // A caller that fills the table must not cause a sweep with every request.
        let pause = if is_full { Duration::from_secs(1) } else { SWEEP };
        if now.duration_since(self.swept) < pause {
            return;
        }
        self.swept = now;
        let Self { tasks, counts, bytes, .. } = self;
        tasks.retain(|_, entry| {
            let lives = entry.expires > now;
            if !lives {
                decrement(counts, &entry.owner);
                *bytes -= entry.bytes;
            }
            lives
        });
    }
}

/// Removes a task whose creation failed or was dropped.
struct InsertGuard<'a> {
    table: &'a TaskTable,
    id: &'a str,
    key: Option<String>,
}

impl Drop for InsertGuard<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        self.table.entries().remove(self.id);
        let records = self.table.records.clone();
        // Without a runtime no store operation can be running.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(Box::pin(async move {
            if let Err(error) = records.delete(&key).await {
                tracing::error!(%error, "a task that was not created cannot be forgotten");
            }
        }) as BoxFuture<'static, ()>);
    }
}

fn decrement(counts: &mut HashMap<Owner, usize>, owner: &Owner) {
    if let Some(count) = counts.get_mut(owner) {
        *count -= 1;
        if *count == 0 {
            counts.remove(owner);
        }
    }
}

pub(super) fn bytes_of(record: &Record) -> Result<Arc<[u8]>, RpcError> {
    let bytes = serde_json::to_vec(record).map_err(|error| {
        tracing::error!(%error, "a task cannot be written as JSON");
        RpcError::internal("the task cannot be written as JSON")
    })?;
    Ok(bytes.into())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The error of a call that cannot become a task, and whose handler may have run.
pub(crate) fn not_created() -> RpcError {
    not_taken("no task can be created")
}

/// Returns the same error for unknown, foreign and expired tasks.
pub(crate) fn unknown() -> RpcError {
    RpcError::invalid_params("Task not found")
}

/// The error of a task whose end is decided, but not stored. The driver of the task logs the cause.
fn not_stored(error: &StoreError) -> RpcError {
    if is_away(error) {
        return unavailable();
    }
    RpcError::internal("the end of the task is not stored yet")
}

#[cfg(test)]
mod tests {
    use mcp_store::MemoryStore;

    use super::*;

    fn table(change: impl FnOnce(&mut TaskLimits)) -> TaskTable {
        let mut limits = TaskLimits::default();
        change(&mut limits);
        TaskTable::new(ServerStore::new(Arc::new(MemoryStore::new()), "t"), limits, None)
    }

    async fn create(table: &TaskTable) -> Result<Arc<RunningTask>, RpcError> {
        let (owner, ttl) = (Owner::of(None, true), Duration::from_secs(60));
        table.create(TaskSpec { owner, tool: None, ttl, message: None, session: None }).await
    }

    #[tokio::test]
    async fn does_not_count_an_owner_whose_limit_is_zero() {
        let table = table(|limits| limits.per_principal = 0);
        create(&table).await.unwrap_err();
        assert!(table.entries().counts.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_and_a_list_remove_expired_tasks() {
        let table = table(|_| {});
        let owner = Owner::of(None, true);
        for lists in [false, true] {
            for _ in 0..3 {
                create(&table).await.unwrap();
            }
            tokio::time::advance(Duration::from_secs(61)).await;
            if lists {
                // The first pages have expired records alone.
                table.list(&owner, None, 1).await.unwrap();
            } else {
                assert!(table.find(&owner, &new_id().unwrap()).await.is_err());
            }
            assert!(table.entries().tasks.is_empty() && table.entries().counts.is_empty(), "lists: {lists}");
        }
    }
}
