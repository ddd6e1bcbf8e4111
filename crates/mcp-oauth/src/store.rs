//! The store of tokens and registrations.

mod file;
mod keyring;
mod memory;
mod seal;
mod sealed;
#[cfg(all(feature = "keyring", unix, not(target_os = "macos")))]
mod secret_service;
mod shared;
#[cfg(feature = "keyring")]
mod system_keyring;

use std::{any::Any, fmt, time::Duration};

use mcp_protocol::auth::Secret;
use mcp_transport::BoxFuture;

pub(crate) use self::seal::is_sealed;
#[cfg(feature = "keyring")]
pub use self::system_keyring::SystemKeyring;
pub use self::{file::FileStore, keyring::Keyring, memory::MemoryStore, sealed::SealedStore, shared::SharedStore};
use crate::error::Error;

/// Records under keys. A record is a JSON text with secrets. The key `tokens/URL` has the tokens of the server at the URL. The
/// keys that begin with `client/` have the registrations at the issuers. The key `declined/URL` has the id of the latest login
/// that a user declined.
///
/// Several clients may share one store. The lock keeps a rotating refresh token from being sent twice, and a second login
/// page from opening.
///
/// ```
/// use mcp_oauth::{MemoryStore, TokenStore as _};
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_oauth::Error> {
/// let store = MemoryStore::new();
/// let lock = store.lock("tokens/https://a.example/mcp", Duration::from_secs(5)).await?;
/// store.save("tokens/https://a.example/mcp", &"{}".into()).await?;
/// drop(lock);
/// assert!(store.load("tokens/https://a.example/mcp").await?.is_some());
/// # Ok(())
/// # }
/// ```
pub trait TokenStore: Send + Sync + 'static {
    /// Returns the record under a key.
    ///
    /// # Errors
    /// If the store cannot be read. A missing record is not an error.
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Secret>, Error>>;

    /// Writes the record under a key. A reader sees the old or the new record, and never a part of one.
    ///
    /// # Errors
    /// If the record is not stored.
    fn save<'a>(&'a self, key: &'a str, record: &'a Secret) -> BoxFuture<'a, Result<(), Error>>;

    /// Writes the record under a key if the key still has the expected record, or if both are missing. Returns whether the
    /// record was written.
    ///
    /// The client replaces tokens with this method, because a process can lose a lock without notice. For example, the lease
    /// of a [`SharedStore`] ends while its process is stopped, and another process stores newer tokens. A logout also calls
    /// [`remove`](Self::remove) without the lock, if another client holds it for 3 seconds. By default the method compares and
    /// then writes. That suffices if no process can lose its lock, and if `remove` waits for the end of the write.
    ///
    /// # Errors
    /// If the present record cannot be read, or the new one is not stored.
    fn replace<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Secret>,
        record: &'a Secret,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            if self.load(key).await?.as_ref() != expected {
                return Ok(false);
            }
            self.save(key, record).await.map(|()| true)
        })
    }

    /// Removes the record under a key, if there is one.
    ///
    /// # Errors
    /// If the record is still stored.
    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), Error>>;

    /// Waits until no other client holds the lock of a key, and takes it. The drop of the [`StoreLock`] releases it, and so
    /// does the end of the process.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if the lock is not free within the limit.
    fn lock<'a>(&'a self, key: &'a str, limit: Duration) -> BoxFuture<'a, Result<StoreLock, Error>>;
}

/// A held lock of a [`TokenStore`]. Its drop releases the lock.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use mcp_oauth::StoreLock;
///
/// let held = Arc::new(());
/// let lock = StoreLock::new(Arc::clone(&held));
/// assert_eq!(Arc::strong_count(&held), 2);
/// drop(lock);
/// assert_eq!(Arc::strong_count(&held), 1);
/// ```
#[must_use]
pub struct StoreLock(#[expect(dead_code, reason = "the drop of the value releases the lock")] Box<dyn Any + Send>);

impl StoreLock {
    /// Returns a lock that lasts as long as a value, such as a locked file.
    pub fn new(guard: impl Any + Send) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for StoreLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreLock")
    }
}
