//! The keyring, which keeps the key of a sealed store.

use std::{sync::Arc, time::Duration};

use mcp_protocol::auth::Secret;
use tokio::sync::oneshot;

use super::{TokenStore, seal::SealingKey};
use crate::error::{Error, ErrorKind};

/// The longest wait for another process that creates the key, and for a user who unlocks the keyring after the store stopped
/// its wait.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// The key of the lock of the process that creates the key.
const LOCK: &str = "keyring";

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
}

/// Returns the key of a keyring. Creates it if the keyring has none, while no other process does.
pub(super) async fn key(keyring: Arc<dyn Keyring>, records: Arc<dyn TokenStore>) -> Result<SealingKey, Error> {
    let limited = tokio::time::timeout(LONGEST_WAIT, async {
        if let Some(key) = read(&keyring).await? {
            return Ok(key);
        }
        let _lock = records.lock(LOCK, LONGEST_WAIT).await?;
        if let Some(key) = read(&keyring).await? {
            return Ok(key);
        }
        let key = SealingKey::generate()?;
        let text = key.to_text();
        on_own_thread(&keyring, move |keyring| keyring.set(&text)).await?;
        // Records under a key that the keyring lost could never be opened.
        match read(&keyring).await? {
            Some(stored) if stored.id() == key.id() => Ok(stored),
            _ => Err(Error::new(ErrorKind::Store, "the keyring does not keep the key")),
        }
    });
    limited.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Unavailable, "the keyring does not answer")))
}

async fn read(keyring: &Arc<dyn Keyring>) -> Result<Option<SealingKey>, Error> {
    match on_own_thread(keyring, |keyring| keyring.get()).await? {
        Some(text) => SealingKey::from_text(&text).map(Some),
        None => Ok(None),
    }
}

/// Calls a keyring on a thread of its own. The call may never return, and must not keep the runtime from its end.
async fn on_own_thread<T: Send + 'static>(
    keyring: &Arc<dyn Keyring>,
    call: impl FnOnce(&dyn Keyring) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let keyring = Arc::clone(keyring);
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("mcp-oauth-keyring".to_owned());
    let thread = thread.spawn(move || _ = sender.send(call(&*keyring)));
    thread.map_err(|error| {
        let text = format!("a thread for the keyring cannot be started: {error}");
        Error::with_source(ErrorKind::Store, text, error)
    })?;
    let panicked = |_| Err(Error::new(ErrorKind::Store, "the keyring panicked"));
    receiver.await.unwrap_or_else(panicked)
}
