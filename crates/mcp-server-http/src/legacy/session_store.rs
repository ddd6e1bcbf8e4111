//! The names of sessions in the shared store, and a time limit for each operation.

use std::{sync::Arc, time::Duration};

use mcp_server_core::engine::{Node, NodeError, RunningWork};
use mcp_store::{LogPage, Retain, Store, StoreError, StoreFuture, Subscription, Swap, limits::MAX_MESSAGE_BYTES};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::event_log::batch::{BatchId, BatchWriter, EXCLUDED};

/// The longest time of one operation. A client waits for it.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The most attempts to change a record that other nodes change too.
pub(crate) const ATTEMPTS: usize = 8;
/// The most messages of a topic that wait.
const QUEUE: usize = 1024;

/// The shared store of the sessions of one server.
#[derive(Debug, Clone)]
pub(crate) struct SessionStore {
    pub(crate) node: Arc<Node>,
    store: Arc<dyn Store>,
    /// The beginning of all names, with the name of the server.
    namespace: Arc<str>,
    /// Notified when a log begins to append under the lease of this node.
    pub(crate) lease_used: Arc<Notify>,
    /// The work of the server that a listener waits for.
    pub(crate) work: RunningWork,
}

/// The record of the connections that read the events of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Readers {
    /// The order of the last reader among all nodes.
    pub(crate) order: u64,
    /// The order of the last reader of the standalone stream.
    pub(crate) reader: u64,
    /// The lease of the node of this reader. Empty after its end.
    pub(crate) node: String,
    /// The position up to which readers have taken the events of the standalone stream.
    pub(crate) position: u64,
}

impl SessionStore {
    pub(crate) fn new(node: &Arc<Node>, work: &RunningWork) -> Self {
        Self {
            store: node.store().clone(),
            namespace: node.name("session").into(),
            node: node.clone(),
            lease_used: Arc::default(),
            work: work.clone(),
        }
    }

    fn record(&self, session: &str) -> String {
        format!("{}/{session}", self.namespace)
    }

    fn events(&self, session: &str) -> String {
        format!("{}/{session}/events", self.namespace)
    }

    fn topic(&self) -> String {
        format!("{}s", self.namespace)
    }

    /// Returns the record of a session.
    pub(crate) async fn get(&self, session: &str) -> Result<Option<Arc<[u8]>>, StoreError> {
        in_time(self.store.get(&self.record(session))).await
    }

    pub(crate) async fn compare_and_swap(
        &self,
        session: &str,
        expected: Option<&[u8]>,
        new: Arc<[u8]>,
        ttl: Duration,
    ) -> Result<Swap, StoreError> {
        in_time(self.store.compare_and_swap(&self.record(session), expected, Some(new), Some(ttl))).await
    }

    /// Deletes the record of a session.
    pub(crate) async fn delete(&self, session: &str) -> Result<(), StoreError> {
        in_time(self.store.delete(&self.record(session))).await.map(drop)
    }

    /// Deletes the events of a session and the record of their readers.
    pub(crate) async fn delete_events(&self, session: &str) -> Result<(), StoreError> {
        in_time(self.store.delete(&self.readers_key(session))).await?;
        in_time(self.store.delete_log(&self.events(session))).await.map(drop)
    }

    /// Sends a message to all nodes.
    pub(crate) async fn publish(&self, message: Arc<[u8]>) -> Result<(), StoreError> {
        in_time(self.store.publish(&self.topic(), message)).await
    }

    /// Receives the messages of all nodes.
    pub(crate) async fn subscribe(&self) -> Result<Subscription, StoreError> {
        in_time(self.store.subscribe(&self.topic(), QUEUE)).await
    }

    /// Whether a message fits into a topic.
    pub(crate) fn fits(message: &[u8]) -> bool {
        message.len() <= MAX_MESSAGE_BYTES
    }

    fn readers_key(&self, session: &str) -> String {
        format!("{}/{session}/read", self.namespace)
    }

    /// Changes the record of the readers of a session, and returns the earlier record. `change` can run more than once.
    pub(crate) async fn change_readers(
        &self,
        session: &str,
        ttl: Duration,
        change: impl Fn(&mut Readers),
    ) -> Result<Readers, StoreError> {
        let key = self.readers_key(session);
        let mut current = in_time(self.store.get(&key)).await?;
        for _ in 0..ATTEMPTS {
            let earlier: Readers =
                current.as_deref().and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
            let mut changed = earlier.clone();
            change(&mut changed);
            // Numbers and a string always serialize.
            let new = serde_json::to_vec(&changed).unwrap_or_default().into();
            let swap = self.store.compare_and_swap(&key, current.as_deref(), Some(new), Some(ttl));
            match in_time(swap).await? {
                Swap::Lost { current: other } => current = other,
                _ => return Ok(earlier),
            }
        }
        Err(StoreError::conflict("other nodes change the readers of a session too often"))
    }

    /// Extends the life of the events of a session, and of the record of their readers.
    pub(crate) async fn extend_events(&self, session: &str, ttl: Duration) -> Result<(), StoreError> {
        self.last_event(session, ttl).await?;
        let key = self.readers_key(session);
        if let Some(readers) = in_time(self.store.get(&key)).await? {
            let swap = self.store.compare_and_swap(&key, Some(&readers), Some(readers.clone()), Some(ttl));
            // A node that changes the record also extends its life.
            in_time(swap).await?;
        }
        Ok(())
    }

    /// Returns the sequence of the last batch of a session, and extends the life of its events.
    pub(crate) async fn last_event(&self, session: &str, ttl: Duration) -> Result<u64, StoreError> {
        in_time(self.store.extend(&self.events(session), Some(ttl))).await
    }

    /// Returns the id of the lease of this node.
    pub(crate) async fn lease(&self) -> Result<Box<str>, NodeError> {
        let lease = self.node.lease().await?;
        self.lease_used.notify_one();
        Ok(lease.id().into())
    }

    fn writer(&self, session: &str, writer: u32) -> String {
        format!("{}/{session}/writer/{writer:x}", self.namespace)
    }

    /// Names the node of a writer of events, by its lease.
    pub(crate) async fn put_writer(
        &self,
        session: &str,
        writer: u32,
        lease: &str,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        in_time(self.store.put(&self.writer(session, writer), lease.as_bytes().into(), Some(ttl))).await
    }

    /// Returns the node of a writer of events, by its lease.
    pub(crate) async fn node_of(&self, session: &str, writer: u32) -> Result<Option<String>, StoreError> {
        let lease = in_time(self.store.get(&self.writer(session, writer))).await?;
        Ok(lease.map(|lease| String::from_utf8_lossy(&lease).into_owned()))
    }

    /// Appends a batch of events once, and returns its sequence. `None` if other nodes have excluded its writer.
    pub(crate) async fn append(
        &self,
        session: &str,
        id: BatchId,
        batch: Arc<[u8]>,
        ttl: Duration,
    ) -> Result<Option<u64>, StoreError> {
        let log = self.events(session);
        in_time(self.store.append_once(&log, id.writer.into(), id.number, batch, Some(ttl))).await
    }

    /// Excludes a writer of events whose node has stopped. The log has no events of the writer after this.
    pub(crate) async fn exclude(&self, session: &str, writer: u32, ttl: Duration) -> Result<(), StoreError> {
        let id = BatchId { writer, number: EXCLUDED };
        self.append(session, id, BatchWriter::new(id).into_bytes().into(), ttl).await.map(drop)
    }

    /// Returns batches of events after a sequence.
    pub(crate) async fn events_after(&self, session: &str, after: u64, most: usize) -> Result<LogPage, StoreError> {
        in_time(self.store.read_after(&self.events(session), after, most)).await
    }

    pub(crate) async fn trim(&self, session: &str, retain: Retain) -> Result<u64, StoreError> {
        in_time(self.store.trim(&self.events(session), retain)).await
    }

    /// Wakes the readers of a session's events on all nodes.
    pub(crate) async fn announce_events(&self, session: &str) -> Result<(), StoreError> {
        in_time(self.store.publish(&self.events(session), Arc::from(*b"+"))).await
    }

    pub(crate) async fn subscribe_events(&self, session: &str) -> Result<Subscription, StoreError> {
        in_time(self.store.subscribe(&self.events(session), 1)).await
    }
}

async fn in_time<T>(answer: StoreFuture<'_, T>) -> Result<T, StoreError> {
    let late = |_| Err(StoreError::unavailable("the store did not answer in time"));
    tokio::time::timeout(TIMEOUT, answer).await.unwrap_or_else(late)
}
