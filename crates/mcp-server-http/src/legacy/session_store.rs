//! The names of sessions in the shared store, and a time limit for each operation.

use std::{sync::Arc, time::Duration};

use mcp_server_core::engine::Node;
use mcp_store::{LogPage, Retain, Store, StoreError, StoreFuture, Subscription, Swap, limits::MAX_MESSAGE_BYTES};

/// The longest time of one operation. A client waits for it.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The life of a claim. A node that stops after its claim is replaced then.
const CLAIM: Duration = Duration::from_secs(30);
/// The most messages of a topic that wait.
const QUEUE: usize = 1024;

/// The shared store of the sessions of one server.
#[derive(Debug, Clone)]
pub(crate) struct SessionStore {
    pub(crate) node: Arc<Node>,
    store: Arc<dyn Store>,
    /// The beginning of all names, with the name of the server.
    namespace: Arc<str>,
}

impl SessionStore {
    pub(crate) fn new(node: &Arc<Node>) -> Self {
        Self { store: node.store().clone(), namespace: node.name("session").into(), node: node.clone() }
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

    /// Deletes a session with its events.
    pub(crate) async fn delete(&self, session: &str) -> Result<(), StoreError> {
        in_time(self.store.delete(&self.record(session))).await?;
        in_time(self.store.delete(&self.cursor(session))).await?;
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

    fn cursor(&self, session: &str) -> String {
        format!("{}/{session}/read", self.namespace)
    }

    /// Returns the position up to which readers of the standalone stream have received its events.
    pub(crate) async fn read_position(&self, session: &str) -> Result<u64, StoreError> {
        let value = in_time(self.store.get(&self.cursor(session))).await?;
        let bytes = value.as_deref().and_then(|value| <[u8; 8]>::try_from(value).ok());
        Ok(bytes.map(u64::from_be_bytes).unwrap_or_default())
    }

    pub(crate) async fn set_read_position(&self, session: &str, at: u64, ttl: Duration) -> Result<(), StoreError> {
        in_time(self.store.put(&self.cursor(session), Arc::from(at.to_be_bytes()), Some(ttl))).await
    }

    /// Claims the end of a stream for this node. Returns false if another node has claimed it.
    pub(crate) async fn claim_end(&self, session: &str, stream: u64) -> Result<bool, StoreError> {
        let key = format!("{}/{session}/ended/{stream:x}", self.namespace);
        let claim = self.store.compare_and_swap(&key, None, Some(Arc::from(*b"ended")), Some(CLAIM));
        Ok(in_time(claim).await?.is_done())
    }

    /// Appends a batch of events, and returns its sequence.
    pub(crate) async fn append(&self, session: &str, batch: Arc<[u8]>, ttl: Duration) -> Result<u64, StoreError> {
        in_time(self.store.append(&self.events(session), batch, Some(ttl))).await
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
