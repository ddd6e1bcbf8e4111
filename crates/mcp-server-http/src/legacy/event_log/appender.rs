//! The task that appends the events of a session to the shared store, before their readers receive them.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use mcp_server_core::engine::Failing;
use mcp_store::{Retain, StoreError};
use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use super::{
    BYTES, EventLog,
    batch::{Batch, BatchId},
};
use crate::legacy::session_store::SessionStore;

/// The most batches of a session in the store.
const BATCHES: u64 = 1024;
/// The batches and the bytes after which the log in the store is trimmed.
const TRIM: (u64, usize) = (128, 256 << 10);
/// How long the store may fail until the readers of the session are disconnected. They resume when it works again.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest time for the work after an append. Later events wait for it, so it is short.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// The first and the longest pause between retries of a failing store.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The shared store as the target of the events of one session.
#[derive(Debug)]
pub(crate) struct Appender {
    pub(super) log: Weak<EventLog>,
    pub(super) store: SessionStore,
    /// The digest of the session id.
    pub(super) session: Box<str>,
    pub(super) ttl: Duration,
    pub(super) runtime: Handle,
    /// The delay of the first event of a stream, if the revision has that event.
    pub(super) retry: OnceLock<Duration>,
    /// Notified when the streams of calls are removed, because other nodes may end them.
    pub(super) excluded: Notify,
}

/// The retries of a failing store.
struct Retries {
    pause: Duration,
    /// The start of the first attempt. An attempt that fails late counts too.
    since: Instant,
    failing: Failing,
}

impl Retries {
    fn new() -> Self {
        Self { pause: PAUSES.0, since: Instant::now(), failing: Failing::default() }
    }

    fn report(&mut self, error: &StoreError) {
        if self.failing.record_failure() {
            tracing::warn!(%error, "the events of a session wait for the shared store");
        }
    }

    /// Waits for the next attempt. Disconnects the readers that wait for too long.
    async fn wait(&mut self, log: &EventLog) {
        log.append_failed();
        if self.since.elapsed() >= PATIENCE {
            log.disconnect_unstored();
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
    }
}

impl Appender {
    /// Appends events until none is left.
    pub(super) fn start(&self) {
        if let Some(log) = self.log.upgrade() {
            // A node that shuts down keeps its lease until the store has the last events.
            let work = self.store.work.enter();
            self.runtime.spawn(async move {
                if let Some(appender) = &log.appender {
                    appender.run(&log).await;
                }
                drop(work);
            });
        }
    }

    async fn run(&self, log: &EventLog) {
        loop {
            // Another node ends the streams of a writer when the lease of its node has ended.
            let Some(lease) = self.lease(log).await else { return };
            log.keep_lease(Some(&lease));
            let Some(batch) = log.next_batch(&lease) else { return };
            let bytes: Arc<[u8]> = batch.bytes.into();
            let mut retries = Retries::new();
            let appended = loop {
                match self.append(log, batch.id, &bytes, &lease).await {
                    Ok(appended) => break appended,
                    Err(error) => retries.report(&error),
                }
                if log.is_closed() {
                    return;
                }
                retries.wait(log).await;
            };
            let sequence = match appended {
                Some(sequence) => Some(sequence),
                // Other nodes have excluded this writer. The batch may have been appended before.
                None => self.find(log, batch.id).await,
            };
            let Some(sequence) = sequence else {
                log.batch_rejected(batch.id.writer);
                continue;
            };
            let trims = log.batch_stored(&batch.places, sequence, bytes.len());
            let afterwards = async { tokio::join!(self.announce(), self.trim(trims, bytes.len())) };
            if timeout(AFTERWARDS, afterwards).await.is_err() {
                tracing::warn!("the readers at other nodes receive events late");
            }
        }
    }

    /// Trims the log in the store if it has grown so much.
    async fn trim(&self, is_due: bool, last: usize) {
        if is_due {
            let retain = Retain::all().records(BATCHES).bytes((BYTES + last) as u64);
            if let Err(error) = self.store.trim(&self.session, retain).await {
                tracing::debug!(%error, "the events of a session are trimmed later");
            }
        }
    }

    /// Returns the id of the lease of this node. `None` if the session has ended.
    async fn lease(&self, log: &EventLog) -> Option<Box<str>> {
        let mut retries = Retries::new();
        loop {
            match timeout(PATIENCE, self.store.lease()).await {
                Ok(Ok(lease)) => return Some(lease),
                // The lease of a node that has stopped ended with its sessions.
                _ if log.is_closed() => return None,
                Ok(Err(error)) if retries.failing.record_failure() => {
                    tracing::warn!(%error, "the events of a session wait for the lease of this node");
                }
                Err(_) if retries.failing.record_failure() => {
                    tracing::warn!("the events of a session wait for the lease of this node");
                }
                _ => {}
            }
            retries.wait(log).await;
        }
    }

    /// Appends a batch once. Returns `None` if other nodes have excluded the writer. The record that names the node of a writer
    /// exists before a reader has an event of the writer.
    async fn append(
        &self,
        log: &EventLog,
        id: BatchId,
        bytes: &Arc<[u8]>,
        lease: &str,
    ) -> Result<Option<u64>, StoreError> {
        let append = self.store.append(&self.session, id, bytes.clone(), self.ttl);
        if log.is_named() {
            return append.await;
        }
        let name = self.store.put_writer(&self.session, id.writer, lease, self.ttl);
        let (is_named, appended) = tokio::join!(name, append);
        is_named?;
        log.set_named(id.writer);
        appended
    }

    /// Returns the sequence of a batch in the store. `None` if it is not there, or the session has ended.
    async fn find(&self, log: &EventLog, id: BatchId) -> Option<u64> {
        let (mut after, mut retries) = (log.last_sequence(), Retries::new());
        loop {
            match self.store.events_after(&self.session, after, 100).await {
                Ok(page) => {
                    let is_this = |data: &[u8]| Batch::read(data).is_some_and(|batch| batch.id == id);
                    if let Some(found) = page.records.iter().find(|record| is_this(&record.data)) {
                        return Some(found.sequence);
                    }
                    match page.records.last() {
                        Some(last) if page.more => after = last.sequence,
                        _ => return None,
                    }
                }
                Err(error) => {
                    retries.report(&error);
                    if log.is_closed() {
                        return None;
                    }
                    retries.wait(log).await;
                }
            }
        }
    }

    /// Wakes the readers on all nodes. They also read after a while without this.
    async fn announce(&self) {
        if let Err(error) = self.store.announce_events(&self.session).await {
            tracing::warn!(%error, "the readers at other nodes receive events late");
        }
    }
}

/// Whether a log has grown so much that it is trimmed.
pub(super) fn needs_trim(batches: u64, bytes: usize) -> bool {
    batches >= TRIM.0 || bytes >= TRIM.1
}
