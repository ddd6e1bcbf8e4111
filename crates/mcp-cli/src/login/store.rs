//! The store of the tokens: sealed with a key in the keyring of the system, or plain files.

use std::{sync::Arc, time::Duration};

use mcp_client::oauth::{Error, FileStore, StoreLock, TokenStore};
#[cfg(feature = "keyring")]
use mcp_client::oauth::{SealedStore, SystemKeyring};
use mcp_protocol::auth::Secret;
use mcp_transport::BoxFuture;

use super::waiting;
use crate::failure::Failure;
#[cfg(feature = "keyring")]
use crate::screen::warn;

/// The variable that selects the store.
const VARIABLE: &str = "MCP_TOKEN_STORE";
/// The name of the entry in the keyring.
#[cfg(feature = "keyring")]
const ENTRY: &str = "mcp";
/// The longest wait for the keyring if `mcp` must not store plain files. The user may have to unlock the keyring.
#[cfg(feature = "keyring")]
const STRICT_LIMIT: Duration = Duration::from_secs(60);
/// The record of the warning about tokens that are not sealed. It exists until the keyring works again.
#[cfg(feature = "keyring")]
const WARNED: &str = "keyring/warned";
/// The keys of tokens begin with this text.
#[cfg(feature = "keyring")]
const TOKENS: &str = "tokens/";

/// The store of the tokens of a user.
#[derive(Clone)]
pub(super) struct Tokens {
    store: Arc<dyn TokenStore>,
    /// The records that are not secret.
    files: FileStore,
    #[cfg(feature = "keyring")]
    keyring: Option<Keyring>,
}

/// The use of the keyring.
#[cfg(feature = "keyring")]
#[derive(Clone)]
struct Keyring {
    sealed: SealedStore,
    files: FileStore,
    is_required: bool,
}

#[cfg(feature = "keyring")]
impl Keyring {
    /// Seals a record that was written before the keyring answered.
    async fn seal(&self, key: &str, record: &Secret) -> Result<(), Error> {
        if self.files.load(key).await?.as_ref() != Some(record) {
            return Ok(());
        }
        // A record that another process has written meanwhile stays.
        self.sealed.replace(key, Some(record), record).await.map(drop)
    }
}

impl Tokens {
    /// Returns the store over the files of a user, as the variable [`VARIABLE`] selects it.
    pub(super) fn over(files: FileStore) -> Result<Self, Failure> {
        let choice = std::env::var(VARIABLE).unwrap_or_default();
        match &*choice {
            "file" => Ok(Self::plain(files)),
            "" | "auto" => Ok(Self::sealed(files)),
            "sealed" => Self::sealed_only(files),
            _ => Err(Failure::usage(format!("{VARIABLE} is `{choice}` and must be `auto`, `sealed` or `file`"))),
        }
    }

    fn plain(files: FileStore) -> Self {
        Self {
            store: Arc::new(files.clone()),
            files,
            #[cfg(feature = "keyring")]
            keyring: None,
        }
    }

    #[cfg(feature = "keyring")]
    fn sealed(files: FileStore) -> Self {
        let sealed = SealedStore::new(files.clone(), SystemKeyring::new(ENTRY));
        let keyring = Keyring { sealed: sealed.clone(), files: files.clone(), is_required: false };
        Self { store: Arc::new(sealed), files, keyring: Some(keyring) }
    }

    #[cfg(feature = "keyring")]
    #[expect(clippy::unnecessary_wraps, reason = "a build without the keyring fails here")]
    fn sealed_only(files: FileStore) -> Result<Self, Failure> {
        let sealed = SealedStore::with_keyring_limit(files.clone(), SystemKeyring::new(ENTRY), STRICT_LIMIT);
        let sealed = sealed.without_fallback();
        let keyring = Keyring { sealed: sealed.clone(), files: files.clone(), is_required: true };
        Ok(Self { store: Arc::new(sealed), files, keyring: Some(keyring) })
    }

    #[cfg(not(feature = "keyring"))]
    fn sealed(files: FileStore) -> Self {
        Self::plain(files)
    }

    #[cfg(not(feature = "keyring"))]
    fn sealed_only(_: FileStore) -> Result<Self, Failure> {
        Err(Failure::usage(format!("{VARIABLE} is `sealed`, and this `mcp` was built without the feature `keyring`")))
    }

    /// Prepares the store for a login that the user requested. Asks the keyring, which the user can unlock during the login.
    /// The next plain record warns again.
    ///
    /// # Errors
    /// If the tokens must be sealed and the keyring has no key.
    #[cfg(feature = "keyring")]
    pub(super) async fn prepare_login(&self) -> Result<(), Failure> {
        let Some(keyring) = &self.keyring else { return Ok(()) };
        if keyring.is_required {
            keyring.sealed.check().await.map_err(|cause| {
                Failure::local(format!(
                    "the tokens cannot be sealed: {cause}; unlock the keyring, or set {VARIABLE}=file"
                ))
            })?;
        }
        keyring.files.remove(WARNED).await?;
        let sealed = keyring.sealed.clone();
        tokio::spawn(async move { sealed.is_sealing().await });
        Ok(())
    }

    #[cfg(not(feature = "keyring"))]
    #[expect(clippy::unused_async, reason = "the build with the keyring waits for it")]
    pub(super) async fn prepare_login(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Warns once of tokens that are not sealed: the next warning follows after the keyring worked.
    #[cfg(feature = "keyring")]
    async fn note_write(&self, key: &str, record: &Secret) {
        let Some(keyring) = self.keyring.as_ref().filter(|_| key.starts_with(TOKENS)) else { return };
        let was_warned = keyring.files.load(WARNED).await.is_ok_and(|record| record.is_some());
        let sealing = keyring.sealed.check().await;
        if sealing.is_ok()
            && let Err(error) = keyring.seal(key, record).await
        {
            tracing::debug!(%error, "the tokens are sealed at their next write");
        }
        let noted = match sealing {
            Ok(()) if was_warned => keyring.files.remove(WARNED).await,
            Err(cause) if !was_warned => {
                warn(&format!(
                    "the tokens are stored in files that are not encrypted: {cause}; {VARIABLE}=file omits this warning, and \
                     {VARIABLE}=sealed refuses such files"
                ));
                keyring.files.save(WARNED, &Secret::new("1")).await
            }
            _ => Ok(()),
        };
        if let Err(error) = noted {
            tracing::debug!(%error, "the state of the warning is not stored");
        }
    }

    #[cfg(not(feature = "keyring"))]
    #[expect(clippy::unused_async, reason = "the build with the keyring waits for it")]
    async fn note_write(&self, _: &str, _: &Secret) {}
}

impl TokenStore for Tokens {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        self.store.load(key)
    }

    fn save<'a>(&'a self, key: &'a str, record: &'a Secret) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.store.save(key, record).await?;
            waiting::forget(&self.files, key).await;
            self.note_write(key, record).await;
            Ok(())
        })
    }

    fn replace<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Secret>,
        record: &'a Secret,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let is_replaced = self.store.replace(key, expected, record).await?;
            if is_replaced {
                waiting::forget(&self.files, key).await;
                self.note_write(key, record).await;
            }
            Ok(is_replaced)
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        self.store.remove(key)
    }

    fn lock<'a>(&'a self, key: &'a str, limit: Duration) -> BoxFuture<'a, Result<StoreLock, Error>> {
        Box::pin(waiting::lock(&*self.store, &self.files, key, limit))
    }
}

#[cfg(all(test, feature = "keyring"))]
mod tests {
    use parking_lot::{Condvar, Mutex};

    use super::*;

    /// A keyring whose user unlocks it later.
    #[derive(Default)]
    struct Locked {
        entry: Mutex<Option<Secret>>,
        is_open: Mutex<bool>,
        opened: Condvar,
    }

    struct Handle(Arc<Locked>);

    impl mcp_client::oauth::Keyring for Handle {
        fn get(&self) -> Result<Option<Secret>, Error> {
            self.0.opened.wait_while(&mut self.0.is_open.lock(), |is_open| !*is_open);
            Ok(self.0.entry.lock().clone())
        }

        fn set(&self, secret: &Secret) -> Result<(), Error> {
            *self.0.entry.lock() = Some(secret.clone());
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_plain_record_is_sealed_if_the_keyring_answers_after_the_write() {
        let directory = std::env::temp_dir().join(format!("mcp-login-store-{}", std::process::id()));
        let files = FileStore::open(&directory).unwrap();
        let locked = Arc::new(Locked::default());
        let limit = Duration::from_millis(10);
        let sealed = SealedStore::with_keyring_limit(files.clone(), Handle(Arc::clone(&locked)), limit);
        let keyring = Keyring { sealed: sealed.clone(), files: files.clone(), is_required: false };
        let tokens = Tokens { store: Arc::new(sealed.clone()), files: files.clone(), keyring: Some(keyring) };
        let (key, record) = ("tokens/https://a.example/mcp", Secret::new("hunter2"));
        sealed.save(key, &record).await.unwrap();
        assert!(files.load(key).await.unwrap() == Some(record.clone()), "the record is plain");

        *locked.is_open.lock() = true;
        locked.opened.notify_all();
        let opened = async {
            while !sealed.is_sealing().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), opened).await.unwrap();
        tokens.note_write(key, &record).await;
        assert!(!files.load(key).await.unwrap().unwrap().expose().contains("hunter2"));
        assert!(tokens.load(key).await.unwrap() == Some(record));
        std::fs::remove_dir_all(directory).unwrap();
    }
}
