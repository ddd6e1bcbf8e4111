//! The store whose records are sealed with a key in a keyring.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_protocol::auth::Secret;
use mcp_transport::BoxFuture;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use super::{
    StoreLock, TokenStore,
    keyring::{self, Keyring},
    seal::{self, SealingKey},
};
use crate::error::{Error, ErrorKind, UnreadableRecord};

/// The default of the longest wait for a keyring.
const KEYRING_LIMIT: Duration = Duration::from_secs(3);

/// Records of another store, sealed with a key of 32 bytes in a [`Keyring`] (ChaCha20-Poly1305). A copy of the files without
/// the keyring contains no usable token.
///
/// The store asks the keyring at its first use, and creates the key if the keyring has none.
///
/// | case | effect |
/// |---|---|
/// | The keyring fails, or does not answer in 3 seconds. | The store writes records that are not sealed, and logs one warning with the cause. A [`FileStore`](super::FileStore) keeps them in files of mode 0600. |
/// | The keyring answers later. | The store seals each record that it writes from then on. |
/// | A record is not sealed. | The store reads it. The next write seals it, so a plain store becomes a sealed one. |
/// | A record is sealed, and the keyring does not answer. | [`ErrorKind::Unavailable`] |
/// | A record is sealed, and the keyring fails. | [`ErrorKind::Store`] |
/// | The key is lost or another, or the record was changed. | [`ErrorKind::LoginRequired`] |
///
/// An error keeps the record. [`OAuth::log_in`](crate::OAuth::log_in), which `mcp login` calls, replaces it.
///
/// To move to another machine, log in there. To keep the logins, copy the records and the entry of the keyring.
///
/// ```no_run
/// # #[cfg(feature = "keyring")] {
/// use mcp_oauth::{FileStore, OAuth, SealedStore, SystemKeyring};
///
/// let store = SealedStore::new(FileStore::open("example/oauth")?, SystemKeyring::new("example"));
/// let auth = OAuth::builder().store(store).build();
/// # let _ = auth;
/// # }
/// # Ok::<_, mcp_oauth::Error>(())
/// ```
#[derive(Clone)]
pub struct SealedStore(Arc<Inner>);

struct Inner {
    records: Arc<dyn TokenStore>,
    keyring: Arc<dyn Keyring>,
    limit: Duration,
    /// The end of the wait for the keyring, once the store asked it.
    deadline: OnceLock<Instant>,
    answer: watch::Sender<Option<Result<Arc<SealingKey>, Error>>>,
    has_warned: AtomicBool,
}

impl SealedStore {
    /// Returns a store that seals the records of another with a key of a keyring. It waits at most 3 seconds for the keyring.
    pub fn new(records: impl TokenStore, keyring: impl Keyring) -> Self {
        Self::with_keyring_limit(records, keyring, KEYRING_LIMIT)
    }

    /// Returns a store that waits at most the given time for the keyring.
    pub fn with_keyring_limit(records: impl TokenStore, keyring: impl Keyring, limit: Duration) -> Self {
        Self(Arc::new(Inner {
            records: Arc::new(records),
            keyring: Arc::new(keyring),
            limit,
            deadline: OnceLock::new(),
            answer: watch::Sender::new(None),
            has_warned: AtomicBool::new(false),
        }))
    }

    /// Returns whether the store seals the records that it writes. Asks the keyring if the store has not asked it yet.
    pub async fn is_sealing(&self) -> bool {
        self.key().await.is_ok()
    }

    /// Returns the key of the keyring, which the store asks once.
    ///
    /// # Errors
    /// If the keyring fails, or has not answered yet.
    async fn key(&self) -> Result<Arc<SealingKey>, Error> {
        let inner = &*self.0;
        let deadline = *inner.deadline.get_or_init(|| {
            let this = self.clone();
            tokio::spawn(async move {
                let key = keyring::key(Arc::clone(&this.0.keyring), Arc::clone(&this.0.records)).await;
                this.0.answer.send_replace(Some(key.map(Arc::new)));
            });
            Instant::now() + inner.limit
        });
        let mut answer = inner.answer.subscribe();
        let key = match timeout_at(deadline, answer.wait_for(Option::is_some)).await {
            Ok(Ok(answer)) => answer.clone(),
            _ => None,
        };
        let late = || {
            let text = format!("the keyring did not answer in {:?}: it may be locked", inner.limit);
            Err(Error::new(ErrorKind::Unavailable, text))
        };
        let key = key.unwrap_or_else(late);
        if let Err(cause) = &key
            && !inner.has_warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%cause, "the store writes tokens that are not sealed");
        }
        key
    }
}

impl TokenStore for SealedStore {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        Box::pin(async move {
            let record = match self.0.records.load(key).await? {
                Some(record) if seal::is_sealed(&record) => record,
                record => return Ok(record),
            };
            let sealing = self.key().await.map_err(|cause| {
                let kind = if cause.is_temporary() { ErrorKind::Unavailable } else { ErrorKind::Store };
                let text = format!(
                    "the stored login is sealed, and its key cannot be read: {cause}; unlock the keyring, or log in \
                     again, for example with `mcp login URL`"
                );
                Error::with_source(kind, text, UnreadableRecord)
            })?;
            sealing.open(key, &record).map(Some)
        })
    }

    fn save<'a>(&'a self, key: &'a str, record: &'a Secret) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            match self.key().await {
                Ok(sealing) => self.0.records.save(key, &sealing.seal(key, record)?).await,
                Err(_) => self.0.records.save(key, record).await,
            }
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        self.0.records.remove(key)
    }

    fn lock<'a>(&'a self, key: &'a str, limit: Duration) -> BoxFuture<'a, Result<StoreLock, Error>> {
        self.0.records.lock(key, limit)
    }
}

impl fmt::Debug for SealedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_sealing = self.0.answer.borrow().as_ref().map(Result::is_ok);
        f.debug_struct("SealedStore").field("is_sealing", &is_sealing).finish_non_exhaustive()
    }
}
