//! The store inside one process.

use std::{collections::HashMap, fmt, future::ready, sync::Arc, time::Duration};

use mcp_protocol::auth::Secret;
use mcp_transport::BoxFuture;
use parking_lot::Mutex;

use super::{StoreLock, TokenStore};
use crate::error::{Error, ErrorKind};

/// Records in the memory of this process. Clones share them. They end with the process.
///
/// ```
/// use mcp_oauth::{MemoryStore, TokenStore as _};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_oauth::Error> {
/// let store = MemoryStore::new();
/// store.save("key", &"{}".into()).await?;
/// store.clone().remove("key").await?;
/// assert!(store.load("key").await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Inner>);

#[derive(Default)]
struct Inner {
    records: Mutex<HashMap<String, Secret>>,
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl MemoryStore {
    /// Returns an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl TokenStore for MemoryStore {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        Box::pin(ready(Ok(self.0.records.lock().get(key).cloned())))
    }

    fn save<'a>(&'a self, key: &'a str, record: &'a Secret) -> BoxFuture<'a, Result<(), Error>> {
        self.0.records.lock().insert(key.to_owned(), record.clone());
        Box::pin(ready(Ok(())))
    }

    fn replace<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Secret>,
        record: &'a Secret,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        let mut records = self.0.records.lock();
        let is_expected = records.get(key) == expected;
        if is_expected {
            records.insert(key.to_owned(), record.clone());
        }
        Box::pin(ready(Ok(is_expected)))
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        self.0.records.lock().remove(key);
        Box::pin(ready(Ok(())))
    }

    fn lock<'a>(&'a self, key: &'a str, limit: Duration) -> BoxFuture<'a, Result<StoreLock, Error>> {
        let lock = Arc::clone(self.0.locks.lock().entry(key.to_owned()).or_default());
        Box::pin(async move {
            let guard = tokio::time::timeout(limit, lock.lock_owned()).await;
            let busy = |_| Error::new(ErrorKind::Unavailable, "another login or refresh of the same server still runs");
            guard.map(StoreLock::new).map_err(busy)
        })
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("records", &self.0.records.lock().len()).finish()
    }
}
