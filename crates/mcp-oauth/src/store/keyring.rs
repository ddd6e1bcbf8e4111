//! The keyring, which keeps the key of a sealed store.

use std::time::Duration;

use mcp_protocol::auth::Secret;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::{StoreLock, TokenStore, seal::SealingKey};
use crate::{
    caught::caught,
    error::{Error, ErrorKind},
};

/// The longest wait for a keyring: for its program, for a user who unlocks it, and for another process that creates the key.
pub(super) const LIMIT: Duration = Duration::from_secs(120);
/// The key of the lock of the process that creates the key.
const LOCK: &str = "keyring";
/// The lock of the store that creates a key in a keyring without locks.
static CREATION: Mutex<()> = Mutex::new(());

/// One entry of a keyring: a text that the system keeps for the user.
///
/// The methods block, and may wait for a user who unlocks the keyring. A [`SealedStore`](super::SealedStore) calls them on a
/// thread of their own. `SystemKeyring` (feature `keyring`) is the keyring of the operating system. An application can
/// implement the trait for a vault of its own.
///
/// ```
/// use mcp_oauth::{Error, Keyring, MemoryStore, SealedStore};
/// use mcp_protocol::auth::Secret;
/// use std::sync::Mutex;
///
/// #[derive(Default)]
/// struct Vault(Mutex<Option<Secret>>);
///
/// impl Keyring for Vault {
///     fn get(&self) -> Result<Option<Secret>, Error> {
///         Ok(self.0.lock().unwrap().clone())
///     }
///
///     fn set(&self, secret: &Secret) -> Result<(), Error> {
///         *self.0.lock().unwrap() = Some(secret.clone());
///         Ok(())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = SealedStore::new(MemoryStore::new(), Vault::default());
/// assert!(store.is_sealing().await);
/// # }
/// ```
pub trait Keyring: Send + Sync + 'static {
    /// Returns the text of the entry, or `None` if the keyring has no such entry.
    ///
    /// # Errors
    /// If the keyring cannot be read. The text of the error must not contain secrets.
    fn get(&self) -> Result<Option<Secret>, Error>;

    /// Writes the text of the entry.
    ///
    /// # Errors
    /// If the entry is not written. The text of the error must not contain secrets.
    fn set(&self, secret: &Secret) -> Result<(), Error>;

    /// Waits until no other process creates the entry, and takes the lock of the entry. The drop of the lock releases it.
    ///
    /// A store without an entry takes the lock, reads the entry again, and only then writes a new one. So two stores over
    /// different records do not replace the key of each other. By default the keyring has no lock (`None`). Then the stores of
    /// one process take turns, and so do the processes that share the records.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the lock is not free within the limit.
    fn lock(&self, limit: Duration) -> Result<Option<StoreLock>, Error> {
        let _ = limit;
        Ok(None)
    }
}

/// Returns the key of a keyring. Creates it if the keyring has none, while no other store does. Blocks the thread.
///
/// Only the lock of the records needs a runtime. Returns `None` if the runtime ended during the wait for it.
pub(super) fn key(
    keyring: &dyn Keyring,
    records: &dyn TokenStore,
    runtime: &Handle,
) -> Option<Result<SealingKey, Error>> {
    match read(keyring) {
        Ok(None) => {}
        answer => return answer.transpose(),
    }
    match runtime.block_on(caught("the token store", records.lock(LOCK, LIMIT))) {
        Ok(_records) => Some(create(keyring)),
        Err(_) if has_ended(runtime) => None,
        Err(error) => Some(Err(error)),
    }
}

fn create(keyring: &dyn Keyring) -> Result<SealingKey, Error> {
    let busy = || Error::new(ErrorKind::Unavailable, "another store still creates its key in a keyring");
    let entry = keyring.lock(LIMIT)?;
    let _process = if entry.is_none() { Some(CREATION.try_lock_for(LIMIT).ok_or_else(busy)?) } else { None };
    if let Some(key) = read(keyring)? {
        return Ok(key);
    }
    keyring.set(&SealingKey::generate()?.to_text())?;
    // Records under a key that the keyring lost or replaced could never be opened.
    read(keyring)?.ok_or_else(|| Error::new(ErrorKind::Store, "the keyring does not keep the key"))
}

fn read(keyring: &dyn Keyring) -> Result<Option<SealingKey>, Error> {
    keyring.get()?.map(|text| SealingKey::from_text(&text)).transpose()
}

/// Whether a runtime runs no more tasks.
fn has_ended(runtime: &Handle) -> bool {
    runtime.block_on(runtime.spawn(async {})).is_err()
}
