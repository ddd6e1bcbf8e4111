//! Access to the records in the shared store, with a timeout for every operation.

use std::{sync::Arc, time::Duration};

use mcp_store::{KeyPage, Store, StoreError, StoreFuture, Swap};

/// The longest time that one operation of the store may take.
pub(crate) const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The key-value part of a store. An operation fails as unavailable after [`STORE_TIMEOUT`].
#[derive(Debug, Clone)]
pub(crate) struct RecordStore {
    store: Arc<dyn Store>,
}

impl RecordStore {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    pub(crate) async fn get(&self, key: &str) -> Result<Option<Arc<[u8]>>, StoreError> {
        in_time(self.store.get(key)).await
    }

    pub(crate) async fn put(&self, key: &str, value: Arc<[u8]>, ttl: Option<Duration>) -> Result<(), StoreError> {
        in_time(self.store.put(key, value, ttl)).await
    }

    pub(crate) async fn compare_and_swap(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> Result<Swap, StoreError> {
        in_time(self.store.compare_and_swap(key, expected, new, ttl)).await
    }

    pub(crate) async fn delete(&self, key: &str) -> Result<bool, StoreError> {
        in_time(self.store.delete(key)).await
    }

    pub(crate) async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<KeyPage, StoreError> {
        in_time(self.store.list(prefix, after, limit)).await
    }
}

async fn in_time<T>(answer: StoreFuture<'_, T>) -> Result<T, StoreError> {
    let late = |_| Err(StoreError::unavailable("the store did not answer in time"));
    tokio::time::timeout(STORE_TIMEOUT, answer).await.unwrap_or_else(late)
}
