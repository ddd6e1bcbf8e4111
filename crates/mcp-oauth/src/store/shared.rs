//! The store of a fleet, over the traits of `mcp-store`.

use std::{fmt, sync::Arc, time::Duration};

use mcp_protocol::auth::Secret;
use mcp_store::{KeyValue, StoreError, Swap};
use mcp_transport::BoxFuture;

use super::{StoreLock, TokenStore};
use crate::error::{Error, ErrorKind};

/// The delay between two attempts to take a lock.
const PAUSE: Duration = Duration::from_millis(50);
/// The delay between two attempts to release a lock while the store fails.
const RELEASE_PAUSE: Duration = Duration::from_millis(500);
/// The time after which the lock of a process that ended is free.
const LEASE: Duration = Duration::from_secs(15);

/// Records in a store of `mcp-store`, for several processes. The records are plain texts with secrets, so the store must be
/// as safe as the tokens.
///
/// A lock is a lease of 15 seconds that its holder renews. If a holder ends, the lock becomes free after that time. The same
/// happens to a holder that is stopped longer than its lease. Its next write then fails, because
/// [`replace`](TokenStore::replace) compares the records atomically.
///
/// ```
/// use std::sync::Arc;
/// use mcp_oauth::SharedStore;
///
/// let store = SharedStore::new(Arc::new(mcp_store::MemoryStore::new()));
/// # let _ = store;
/// ```
#[derive(Clone)]
pub struct SharedStore(Arc<dyn KeyValue>);

impl SharedStore {
    /// Returns a store over another.
    pub fn new(store: Arc<dyn KeyValue>) -> Self {
        Self(store)
    }
}

/// Returns the key of a record: the length of keys in a store is limited, that of URLs is not.
fn name(kind: &str, key: &str) -> String {
    format!("mcp/oauth/{kind}/{}", super::file::digest(key))
}

fn failed(error: StoreError) -> Error {
    let kind = if error.is_unavailable() { ErrorKind::Unavailable } else { ErrorKind::Store };
    Error::with_source(kind, format!("the token store failed: {error}"), error)
}

impl TokenStore for SharedStore {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        Box::pin(async move {
            let Some(bytes) = self.0.get(&name("record", key)).await.map_err(failed)? else { return Ok(None) };
            let text = std::str::from_utf8(&bytes);
            if text.is_err() {
                tracing::warn!("a record of the token store is not a text and is ignored");
            }
            Ok(text.ok().map(Secret::new))
        })
    }

    fn save<'a>(&'a self, key: &'a str, record: &'a Secret) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.0.put(&name("record", key), Arc::from(record.expose().as_bytes()), None).await.map_err(failed)
        })
    }

    fn replace<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Secret>,
        record: &'a Secret,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let (key, record) = (name("record", key), Arc::from(record.expose().as_bytes()));
            let bytes = expected.map(|expected| expected.expose().as_bytes());
            let current = match self.0.compare_and_swap(&key, bytes, Some(Arc::clone(&record)), None).await {
                Ok(Swap::Done) => return Ok(true),
                Ok(Swap::Lost { current }) => current,
                Ok(_) => None,
                Err(error) => return Err(failed(error)),
            };
            // A reader ignores a record that is not a text.
            let Some(invalid) = current.filter(|bytes| expected.is_none() && std::str::from_utf8(bytes).is_err())
            else {
                return Ok(false);
            };
            let swap = self.0.compare_and_swap(&key, Some(&invalid), Some(record), None).await;
            swap.map(|swap| swap.is_done()).map_err(failed)
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { self.0.delete(&name("record", key)).await.map(|_| ()).map_err(failed) })
    }

    fn lock<'a>(&'a self, key: &'a str, limit: Duration) -> BoxFuture<'a, Result<StoreLock, Error>> {
        Box::pin(async move {
            let key = name("lock", key);
            let holder: Arc<[u8]> = Arc::from(oauth2::CsrfToken::new_random().secret().as_bytes());
            let mut taking =
                Taking(Some(Held { store: Arc::clone(&self.0), key: key.clone(), holder: Arc::clone(&holder) }));
            let taken = async {
                loop {
                    let swap = self.0.compare_and_swap(&key, None, Some(Arc::clone(&holder)), Some(LEASE));
                    if swap.await.map_err(failed)?.is_done() {
                        return Ok::<_, Error>(());
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            };
            let Ok(taken) = tokio::time::timeout(limit, taken).await else {
                let text = "another process still logs in to the same server or refreshes its tokens";
                return Err(Error::new(ErrorKind::Unavailable, text));
            };
            taken?;
            let (lock, released) = tokio::sync::oneshot::channel::<()>();
            if let Some(held) = taking.0.take() {
                tokio::spawn(held.hold(released));
            }
            Ok(StoreLock::new(lock))
        })
    }
}

/// A lock that the store may have. Its drop releases the lock: the store can have it also when the attempt to take it failed.
struct Taking(Option<Held>);

impl Drop for Taking {
    fn drop(&mut self) {
        if let (Some(held), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(held.release());
        }
    }
}

/// The lease of a lock.
struct Held {
    store: Arc<dyn KeyValue>,
    key: String,
    /// The random name of the holder.
    holder: Arc<[u8]>,
}

impl Held {
    /// Renews the lease until its lock is dropped, and deletes it then.
    async fn hold(self, mut released: tokio::sync::oneshot::Receiver<()>) {
        while tokio::time::timeout(LEASE / 3, &mut released).await.is_err() {
            let new = Some(Arc::clone(&self.holder));
            match self.store.compare_and_swap(&self.key, Some(&self.holder), new, Some(LEASE)).await {
                Ok(swap) if swap.is_done() => {}
                Ok(_) => {
                    tracing::debug!("the lease of a lock ended, and another process may hold the lock");
                    return;
                }
                Err(error) => tracing::warn!(%error, "the lock of a token store is not renewed"),
            }
        }
        self.release().await;
    }

    /// Deletes the lease. While the store fails, it repeats the deletion until the lease has ended.
    async fn release(self) {
        let released = async {
            while let Err(error) = self.store.compare_and_swap(&self.key, Some(&self.holder), None, None).await {
                tracing::debug!(%error, "the lock of a token store is not released yet");
                tokio::time::sleep(RELEASE_PAUSE).await;
            }
        };
        if tokio::time::timeout(LEASE, released).await.is_err() {
            tracing::debug!("the lock of a token store ends with its lease");
        }
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedStore")
    }
}
