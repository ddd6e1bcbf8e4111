//! All tasks of a server: what runs here, how many there are, and their records in the store.

use std::{collections::HashMap, sync::Arc, time::Duration};

use mcp_protocol::{InputRequests, RpcError, tasks::ext::DetailedTask};
use mcp_store::{StoreError, Swap};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{
    TaskLimits,
    id::{is_id, new_id},
    owner::Owner,
    record::{Outcome, Record},
    running::RunningTask,
    timestamp,
};
use crate::{session::Session, store::RecordStore};

/// How often the table is searched for what has expired while it is not full.
const SWEEP: Duration = Duration::from_secs(10);

/// What a task comes to in so few bytes, such as a cancellation, is kept always: its record is not smaller.
pub(crate) const SMALL: usize = 512;

/// All tasks of a server.
pub(crate) struct TaskTable {
    records: RecordStore,
    limits: TaskLimits,
    entries: Mutex<Entries>,
}

struct Entries {
    tasks: HashMap<String, Entry>,
    counts: HashMap<Owner, usize>,
    /// What all tasks came to, in bytes.
    bytes: usize,
    swept: Instant,
}

/// One task that was created here and has not expired.
struct Entry {
    owner: Owner,
    expires: Instant,
    /// What it came to, in bytes.
    bytes: usize,
    /// Present while it runs, and when its end could not be written.
    live: Option<Arc<RunningTask>>,
}

/// A task that somebody asked for.
pub(crate) enum Found {
    /// It runs here.
    Here(Arc<RunningTask>),
    /// It has ended, or runs on another node; with the record as it lies in the store.
    Stored(Box<Record>, Arc<[u8]>),
}

impl Found {
    /// Looks at it as it is now. What it came to may be large, so it is not copied for that.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Record) -> T) -> T {
        match self {
            Self::Here(live) => live.look(look),
            Self::Stored(record, _) => look(record),
        }
    }

    /// The task as the extension shows it.
    pub(crate) fn into_detailed(self) -> DetailedTask {
        match self {
            Self::Here(live) => live.detailed(),
            Self::Stored(record, _) => record.into_detailed(),
        }
    }
}

/// What became of the wish to cancel a task that does not run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// It is cancelled.
    Now,
    /// It was cancelled already; its node may not have heard of that.
    Before,
    /// It came to another end.
    Never,
}

/// A task that is to be.
pub(crate) struct Wanted<'a> {
    pub(crate) owner: Owner,
    pub(crate) tool: Option<&'a str>,
    pub(crate) ttl: Duration,
    pub(crate) message: Option<String>,
    pub(crate) session: Option<&'a Arc<Session>>,
}

impl TaskTable {
    pub(crate) fn new(records: RecordStore, limits: TaskLimits) -> Self {
        let entries = Entries { tasks: HashMap::new(), counts: HashMap::new(), bytes: 0, swept: Instant::now() };
        Self { records, limits, entries: Mutex::new(entries) }
    }

    pub(crate) fn limits(&self) -> &TaskLimits {
        &self.limits
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    /// Creates a task. When this returns it is in the store, so that it is found from now on.
    ///
    /// # Errors
    /// `-32603` when the owner has too many tasks, or the store refuses.
    pub(crate) async fn create(&self, wanted: Wanted<'_>) -> Result<Arc<RunningTask>, RpcError> {
        let id = new_id();
        let created = timestamp::now();
        let record = Record {
            id: id.clone(),
            owner: wanted.owner.as_str().to_owned(),
            tool: wanted.tool.map(str::to_owned),
            updated: created.clone(),
            created,
            ttl: millis(wanted.ttl),
            poll: millis(self.limits.poll_interval),
            message: wanted.message,
            questions: InputRequests::new(),
            asks: false,
            outcome: None,
        };
        let written = bytes_of(&record)?;
        let key = wanted.owner.key(&id);
        let live = Arc::new(RunningTask::new(record, written.clone(), wanted.ttl, wanted.session));
        let entry = Entry { owner: wanted.owner, expires: live.expires(), bytes: 0, live: Some(live.clone()) };
        if !self.enter(id.clone(), entry) {
            return Err(RpcError::internal("too many tasks: try again when some have expired"));
        }
        let mut entering = Entering { table: self, id: &id, key: Some(key.clone()) };
        if let Err(error) = self.records.put(&key, written, Some(wanted.ttl)).await {
            tracing::error!(%error, "a task cannot be kept");
            return Err(RpcError::internal("no task can be created"));
        }
        entering.key = None;
        Ok(live)
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

    /// Takes room for what a task came to; false when there is none.
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
        // One that has expired is kept no longer.
        if let Some(entry) = entries.tasks.get_mut(id) {
            entry.bytes += bytes;
            entries.bytes += bytes;
        }
        true
    }

    fn give_back(&self, id: &str, bytes: usize) {
        let entries = &mut *self.entries();
        if let Some(entry) = entries.tasks.get_mut(id) {
            entry.bytes -= bytes;
            entries.bytes -= bytes;
        }
    }

    /// Finds a task of an owner. Foreign, unknown and expired tasks are the same.
    ///
    /// # Errors
    /// `-32602` when there is none; `-32603` when the store fails.
    pub(crate) async fn find(&self, owner: &Owner, id: &str) -> Result<Found, RpcError> {
        if !is_id(id) {
            return Err(unknown());
        }
        {
            let mut entries = self.entries();
            // Where no tasks are made any more, whoever looks at one cleans up.
            entries.sweep(false);
            if let Some(entry) = entries.tasks.get(id) {
                if entry.owner != *owner || entry.expires <= Instant::now() {
                    return Err(unknown());
                }
                if let Some(live) = &entry.live {
                    return Ok(Found::Here(live.clone()));
                }
            }
        }
        let bytes = self.records.get(&owner.key(id)).await.map_err(|error| cannot_read(&error))?;
        let found = bytes.and_then(|bytes| Some((Record::read(&bytes)?, bytes)));
        match found {
            Some((record, bytes)) if record.owner == owner.as_str() => Ok(Found::Stored(Box::new(record), bytes)),
            _ => Err(unknown()),
        }
    }

    /// The tasks of an owner, oldest first, at most `count` behind the id `after`; and whether there may be more.
    pub(crate) async fn list(
        &self,
        owner: &Owner,
        after: Option<&str>,
        count: usize,
    ) -> Result<(Vec<Found>, Option<String>), RpcError> {
        let after = after.map(|id| owner.key(id));
        let page = self.records.list(&owner.prefix(), after.as_deref(), count).await;
        let page = page.map_err(|error| cannot_read(&error))?;
        let next = page.next.as_deref().and_then(|key| key.rsplit('/').next()).map(str::to_owned);
        // What is here is further than its record.
        let here: Vec<_> = {
            let mut entries = self.entries();
            entries.sweep(false);
            let ids = page.entries.iter().map(|(key, _)| key.rsplit('/').next().unwrap_or_default());
            ids.map(|id| entries.tasks.get(id).and_then(|entry| entry.live.clone())).collect()
        };
        let found = page.entries.into_iter().zip(here).filter_map(|((_, bytes), live)| match live {
            Some(live) => Some(Found::Here(live)),
            None => Some(Found::Stored(Box::new(Record::read(&bytes)?), bytes)),
        });
        let found = found.filter(|found| found.look(|record| record.owner == owner.as_str())).collect();
        Ok((found, next))
    }

    /// Ends a task that runs here, and keeps what it came to; false when it ended before.
    pub(crate) async fn settle(&self, live: &Arc<RunningTask>, outcome: Outcome) -> bool {
        let is_first = self.mark(live, outcome);
        if is_first {
            self.persist(live).await;
        }
        is_first
    }

    /// Ends a task for this node; false when it ended before. Whoever drives it writes that down, whatever becomes of the
    /// caller.
    pub(crate) fn mark(&self, live: &Arc<RunningTask>, outcome: Outcome) -> bool {
        let is_cancelled = outcome == Outcome::Cancelled;
        let bytes = outcome.size();
        let (outcome, bytes) = if self.reserve(live.id(), bytes) {
            (outcome, bytes)
        } else {
            tracing::warn!(bytes, "the result of a task finds no room among those that are kept");
            (Outcome::Error(RpcError::internal("the server has no room to keep the result of this task")), 0)
        };
        if !live.settle(outcome) {
            self.give_back(live.id(), bytes);
            return false;
        }
        if is_cancelled {
            live.cancel.cancel();
        }
        true
    }

    /// Another node cancelled a task, which may run here: ends it here too.
    pub(crate) fn cancelled_elsewhere(&self, id: &str) {
        let live = self.entries().tasks.get(id).and_then(|entry| entry.live.clone());
        if let Some(live) = live {
            self.mark(&live, Outcome::Cancelled);
        }
    }

    /// The tasks that run here.
    pub(crate) fn running(&self) -> Vec<String> {
        let entries = self.entries();
        let running = entries.tasks.iter().filter(|(_, entry)| entry.live.is_some());
        running.map(|(id, _)| id.clone()).collect()
    }

    /// Ends a task that runs here if its record says that another node cancelled it.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn check(&self, id: &str) -> Result<(), StoreError> {
        let found = self.entries().tasks.get(id).and_then(|entry| Some((entry.owner.key(id), entry.live.clone()?)));
        let Some((key, live)) = found else { return Ok(()) };
        let Some(bytes) = self.records.get(&key).await? else { return Ok(()) };
        if bytes != live.written() && is_cancelled(&bytes) {
            self.mark(&live, Outcome::Cancelled);
        }
        Ok(())
    }

    /// Writes down the end of a task, where nobody has.
    pub(crate) async fn persist(&self, live: &Arc<RunningTask>) {
        let is_kept = self.entries().tasks.get(live.id()).is_none_or(|entry| entry.live.is_none());
        let left = live.expires().saturating_duration_since(Instant::now());
        if is_kept || left.is_zero() {
            return;
        }
        let record = live.record();
        let key = format!("{}{}", Owner::named(&record.owner).prefix(), live.id());
        let Ok(bytes) = bytes_of(&record) else { return };
        match self.records.compare_and_swap(&key, Some(&live.written()), Some(bytes), Some(left)).await {
            // Another node cancelled it in the meantime: its word stands.
            Ok(Swap::Done | Swap::Lost { .. }) => {
                if let Some(entry) = self.entries().tasks.get_mut(live.id()) {
                    entry.live = None;
                }
            }
            Ok(_) => {}
            // It stays in memory then, until it expires.
            Err(error) => tracing::error!(%error, "the end of a task cannot be kept"),
        }
    }

    /// Cancels a task that runs on another node, or whose node is gone.
    pub(crate) async fn cancel_stored(
        &self,
        owner: &Owner,
        mut record: Record,
        bytes: &[u8],
    ) -> Result<Cancelled, RpcError> {
        match &record.outcome {
            Some(Outcome::Cancelled) => return Ok(Cancelled::Before),
            Some(_) => return Ok(Cancelled::Never),
            None => {}
        }
        record.outcome = Some(Outcome::Cancelled);
        record.updated = timestamp::now();
        // How much time is left is known to the store only; the record may live a little longer than it should.
        let ttl = Duration::from_millis(record.ttl.max(1));
        let swapped = self
            .records
            .compare_and_swap(&owner.key(&record.id), Some(bytes), Some(bytes_of(&record)?), Some(ttl))
            .await;
        Ok(match swapped.map_err(|error| cannot_read(&error))? {
            Swap::Done => Cancelled::Now,
            Swap::Lost { current: Some(bytes) } if is_cancelled(&bytes) => Cancelled::Before,
            _ => Cancelled::Never,
        })
    }

    /// Forgets a task that has expired.
    pub(crate) fn forget(&self, id: &str) {
        self.entries().remove(id);
    }
}

impl Entries {
    fn remove(&mut self, id: &str) {
        if let Some(entry) = self.tasks.remove(id) {
            discount(&mut self.counts, &entry.owner);
            self.bytes -= entry.bytes;
        }
    }

    /// Forgets what has expired. Nothing runs for it any more: whoever drives a task ends with it.
    fn sweep(&mut self, is_full: bool) {
        let now = Instant::now();
        // Who floods the table must not buy a search with every request.
        let pause = if is_full { Duration::from_secs(1) } else { SWEEP };
        if now.duration_since(self.swept) < pause {
            return;
        }
        self.swept = now;
        let Self { tasks, counts, bytes, .. } = self;
        tasks.retain(|_, entry| {
            let lives = entry.expires > now;
            if !lives {
                discount(counts, &entry.owner);
                *bytes -= entry.bytes;
            }
            lives
        });
    }
}

/// Takes a task back that is not in the store, or whose creator did not wait until it was.
struct Entering<'a> {
    table: &'a TaskTable,
    id: &'a str,
    key: Option<String>,
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        self.table.entries().remove(self.id);
        let records = self.table.records.clone();
        // Outside of a runtime nothing can be under way.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = records.delete(&key).await {
                tracing::error!(%error, "a task that was not created cannot be forgotten");
            }
        });
    }
}

fn discount(counts: &mut HashMap<Owner, usize>, owner: &Owner) {
    if let Some(count) = counts.get_mut(owner) {
        *count -= 1;
        if *count == 0 {
            counts.remove(owner);
        }
    }
}

fn is_cancelled(bytes: &[u8]) -> bool {
    Record::read(bytes).is_some_and(|record| record.outcome == Some(Outcome::Cancelled))
}

fn bytes_of(record: &Record) -> Result<Arc<[u8]>, RpcError> {
    let bytes = serde_json::to_vec(record).map_err(|error| {
        tracing::error!(%error, "a task cannot be written as JSON");
        RpcError::internal("the task cannot be written as JSON")
    })?;
    Ok(bytes.into())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// One answer for tasks that never were, are another's, or have expired.
pub(crate) fn unknown() -> RpcError {
    RpcError::invalid_params("Task not found")
}

fn cannot_read(error: &StoreError) -> RpcError {
    tracing::error!(%error, "tasks cannot be read from the store");
    RpcError::internal("the tasks cannot be read")
}

#[cfg(test)]
mod tests {
    use mcp_store::MemoryStore;

    use super::*;

    fn table(change: impl FnOnce(&mut TaskLimits)) -> TaskTable {
        let mut limits = TaskLimits::default();
        change(&mut limits);
        TaskTable::new(RecordStore::new(Arc::new(MemoryStore::new())), limits)
    }

    async fn create(table: &TaskTable) -> Result<Arc<RunningTask>, RpcError> {
        let (owner, ttl) = (Owner::of(None, true), Duration::from_secs(60));
        table.create(Wanted { owner, tool: None, ttl, message: None, session: None }).await
    }

    #[tokio::test]
    async fn who_may_have_no_tasks_is_not_counted() {
        let table = table(|limits| limits.per_principal = 0);
        create(&table).await.unwrap_err();
        assert!(table.entries().counts.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_looks_for_tasks_cleans_up_what_has_expired() {
        let table = table(|_| {});
        let owner = Owner::of(None, true);
        for lists in [false, true] {
            create(&table).await.unwrap();
            tokio::time::advance(Duration::from_secs(61)).await;
            if lists {
                table.list(&owner, None, 1).await.unwrap();
            } else {
                assert!(table.find(&owner, &new_id()).await.is_err());
            }
            assert!(table.entries().tasks.is_empty() && table.entries().counts.is_empty(), "lists: {lists}");
        }
    }
}
