//! The task that appends the events of a session to the shared store, before their readers receive them.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use mcp_server_core::engine::Lease;
use mcp_store::{Retain, StoreError};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
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
/// The first and the longest pause between retries of a failing store.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

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
}

impl Appender {
    /// Appends events until none is left.
    pub(super) fn start(&self) {
        if let Some(log) = self.log.upgrade() {
            self.runtime.spawn(async move {
                if let Some(appender) = &log.appender {
                    appender.run(&log).await;
                }
            });
        }
    }

    async fn run(&self, log: &EventLog) {
        let (mut pause, mut failing_since) = (PAUSES.0, None);
        // A batch names its node. When the lease of that node ends, another node ends its streams.
        let lease = self.store.node.lease().await.ok();
        let node = lease.as_ref().map_or("", Lease::id);
        while let Some(batch) = log.next_batch(node) {
            let bytes: Arc<[u8]> = batch.bytes.into();
            let sequence = loop {
                match self.append(log, batch.id, &bytes, failing_since.is_some()).await {
                    Ok(sequence) => break sequence,
                    Err(error) => tracing::warn!(%error, "the events of a session wait for the shared store"),
                }
                if log.is_closed() {
                    return;
                }
                let since = *failing_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= PATIENCE {
                    log.store_failed();
                }
                sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            };
            (pause, failing_since) = (PAUSES.0, None);
            let trims = log.batch_stored(&batch.places, sequence, bytes.len());
            self.announce().await;
            if trims {
                let retain = Retain::all().records(BATCHES).bytes((BYTES + bytes.len()) as u64);
                if let Err(error) = self.store.trim(&self.session, retain).await {
                    tracing::debug!(%error, "the events of a session are trimmed later");
                }
            }
        }
    }

    /// Appends a batch. After a failure the batch may be in the log already.
    async fn append(&self, log: &EventLog, id: BatchId, bytes: &Arc<[u8]>, may_exist: bool) -> Result<u64, StoreError> {
        if may_exist && let Some(sequence) = self.find(log.last_sequence(), id).await? {
            return Ok(sequence);
        }
        self.store.append(&self.session, bytes.clone(), self.ttl).await
    }

    /// Returns the sequence of a batch in the store.
    async fn find(&self, mut after: u64, id: BatchId) -> Result<Option<u64>, StoreError> {
        loop {
            let page = self.store.events_after(&self.session, after, 100).await?;
            for record in &page.records {
                after = record.sequence;
                if Batch::read(&record.data).is_some_and(|batch| batch.id == id) {
                    return Ok(Some(record.sequence));
                }
            }
            if !page.more || page.records.is_empty() {
                return Ok(None);
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
