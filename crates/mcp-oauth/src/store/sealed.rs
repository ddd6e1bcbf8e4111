//! The store whose records are sealed with a key in a keyring.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_protocol::auth::Secret;
use mcp_transport::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
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
/// The shortest time between a failure of the keyring and the next question.
const PAUSE: Duration = Duration::from_secs(30);

/// Records of another store, sealed with a key of 32 bytes in a [`Keyring`] (ChaCha20-Poly1305). A copy of the files without
/// the keyring contains no usable token.
///
/// The store asks the keyring at its first use, and creates the key if the keyring has none.
///
/// | case | effect |
/// |---|---|
/// | The keyring fails, or does not answer in 3 seconds. | The store writes records that are not sealed. The first such write logs a warning with the cause. A [`FileStore`](super::FileStore) keeps them in files of mode 0600. [`without_fallback`](Self::without_fallback) makes the write fail instead. |
/// | The keyring answers later. | The store seals each record that it writes from then on. |
/// | The keyring failed 30 seconds ago or earlier. | The next use of the key asks the keyring again. |
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
pub struct SealedStore {
    inner: Arc<Inner>,
    /// Whether the store writes plain records if the keyring fails.
    has_fallback: bool,
}

struct Inner {
    records: Arc<dyn TokenStore>,
    keyring: Arc<dyn Keyring>,
    limit: Duration,
    /// The last question to the keyring.
    question: Mutex<Option<Question>>,
    has_warned: AtomicBool,
}

type Key = Result<Arc<SealingKey>, Error>;

/// A question to the keyring. Clones wait for the same answer.
#[derive(Clone)]
struct Question {
    /// The end of the wait for the answer.
    deadline: Instant,
    /// The answer and its time. The sender is dropped without an answer if the runtime of the question ended.
    answer: watch::Receiver<Option<(Key, Instant)>>,
}

impl Question {
    /// Whether a later answer may be another: the keyring failed some time ago, or will not answer.
    fn is_over(&self) -> bool {
        match &*self.answer.borrow() {
            Some((Ok(_), _)) => false,
            Some((Err(_), answered)) => answered.elapsed() >= PAUSE,
            None => self.answer.has_changed().is_err(),
        }
    }
}

impl SealedStore {
    /// Returns a store that seals the records of another with a key of a keyring. It waits at most 3 seconds for the keyring.
    pub fn new(records: impl TokenStore, keyring: impl Keyring) -> Self {
        Self::with_keyring_limit(records, keyring, KEYRING_LIMIT)
    }

    /// Returns a store that waits at most the given time for the keyring. A limit above 2 minutes is a limit of 2 minutes.
    pub fn with_keyring_limit(records: impl TokenStore, keyring: impl Keyring, limit: Duration) -> Self {
        let inner = Inner {
            records: Arc::new(records),
            keyring: Arc::new(keyring),
            limit: limit.min(keyring::LIMIT),
            question: Mutex::new(None),
            has_warned: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner), has_fallback: true }
    }

    /// Returns the store without its fallback. If the keyring fails, a write fails too, and the store writes no plain record.
    /// Plain records of an earlier store are still readable.
    ///
    /// ```
    /// # use mcp_oauth::{Error, ErrorKind, Keyring, MemoryStore, SealedStore, TokenStore as _};
    /// # use mcp_protocol::auth::Secret;
    /// # struct Vault;
    /// # impl Keyring for Vault {
    /// #     fn get(&self) -> Result<Option<Secret>, Error> {
    /// #         Err(Error::new(ErrorKind::Store, "the vault is closed"))
    /// #     }
    /// #     fn set(&self, _: &Secret) -> Result<(), Error> {
    /// #         self.get().map(drop)
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let store = SealedStore::new(MemoryStore::new(), Vault).without_fallback();
    /// assert!(store.check().await.is_err());
    /// assert!(store.save("key", &"record".into()).await.is_err());
    /// # }
    /// ```
    #[must_use]
    pub fn without_fallback(self) -> Self {
        Self { has_fallback: false, ..self }
    }

    /// Returns whether the store seals the records that it writes. Asks the keyring if the store has not asked it yet, or if
    /// the keyring failed 30 seconds ago or earlier.
    pub async fn is_sealing(&self) -> bool {
        self.key().await.is_ok()
    }

    /// Checks that the store seals the records that it writes. Asks the keyring like [`is_sealing`](Self::is_sealing).
    ///
    /// # Errors
    /// The reason why the store has no key.
    pub async fn check(&self) -> Result<(), Error> {
        self.key().await.map(drop)
    }

    /// Opens a sealed record.
    async fn open(&self, name: &str, record: &Secret) -> Result<Secret, Error> {
        let sealing = self.key().await.map_err(|cause| {
            let text = format!(
                "the stored login is sealed, and its key cannot be read: {cause}; unlock the keyring, or log in again, for \
                 example with `mcp login URL`"
            );
            Error::with_source(kind_of(&cause), text, UnreadableRecord)
        })?;
        sealing.open(name, record)
    }

    /// Returns the text of a record: sealed, or plain if the store has no key.
    async fn text(&self, name: &str, record: &Secret) -> Result<Secret, Error> {
        let cause = match self.key().await {
            Ok(sealing) => return sealing.seal(name, record),
            Err(cause) => cause,
        };
        if !self.has_fallback {
            let text = format!("the record is not stored, because it cannot be sealed: {cause}");
            return Err(Error::with_source(kind_of(&cause), text, cause));
        }
        if !self.inner.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(%cause, "the store writes tokens that are not sealed");
        }
        Ok(record.clone())
    }

    /// Returns the key of the keyring.
    ///
    /// # Errors
    /// If the keyring failed less than [`PAUSE`] ago, or has not answered yet.
    async fn key(&self) -> Key {
        loop {
            let Question { deadline, mut answer } = self.question();
            return match timeout_at(deadline, answer.wait_for(Option::is_some)).await {
                Ok(answer) => match answer.ok().as_deref() {
                    Some(Some((key, _))) => key.clone(),
                    // The runtime of the question ended. This one runs.
                    _ => continue,
                },
                Err(_) => {
                    let text = format!("the keyring did not answer in {:?}: it may be locked", self.inner.limit);
                    Err(Error::new(ErrorKind::Unavailable, text))
                }
            };
        }
    }

    /// Returns the last question. If the store has not asked the keyring yet, or the question is over, asks the keyring.
    fn question(&self) -> Question {
        let mut last = self.inner.question.lock();
        match &*last {
            Some(question) if !question.is_over() => question.clone(),
            _ => last.insert(self.ask()).clone(),
        }
    }

    /// Asks the keyring on a thread of its own. The call may never return, and must not keep the runtime from its end.
    fn ask(&self) -> Question {
        let deadline = Instant::now() + self.inner.limit;
        let (sender, answer) = watch::channel(None);
        let (keyring, records) = (Arc::clone(&self.inner.keyring), Arc::clone(&self.inner.records));
        let runtime = Handle::current();
        let thread = std::thread::Builder::new().name("mcp-oauth-keyring".to_owned()).spawn(move || {
            let call = AssertUnwindSafe(|| keyring::key(&*keyring, &*records, &runtime));
            let panicked = |_| Some(Err(Error::new(ErrorKind::Store, "the keyring panicked")));
            if let Some(key) = catch_unwind(call).unwrap_or_else(panicked) {
                sender.send_replace(Some((key.map(Arc::new), Instant::now())));
            }
        });
        let Err(error) = thread else { return Question { deadline, answer } };
        let text = format!("a thread for the keyring cannot be started: {error}");
        let error = Error::with_source(ErrorKind::Store, text, error);
        Question { deadline, answer: watch::channel(Some((Err(error), Instant::now()))).1 }
    }
}

/// Returns the kind of an error that the keyring caused.
fn kind_of(cause: &Error) -> ErrorKind {
    if cause.is_temporary() { ErrorKind::Unavailable } else { ErrorKind::Store }
}

impl TokenStore for SealedStore {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        Box::pin(async move {
            match self.inner.records.load(key).await? {
                Some(record) if seal::is_sealed(&record) => self.open(key, &record).await.map(Some),
                record => Ok(record),
            }
        })
    }

    fn save<'a>(&'a self, key: &'a str, record: &'a Secret) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let text = self.text(key, record).await?;
            self.inner.records.save(key, &text).await
        })
    }

    fn replace<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Secret>,
        record: &'a Secret,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            // Each seal of a record has another text, so the present text is the expected one of the other store.
            let present = self.inner.records.load(key).await?;
            let is_expected = match &present {
                Some(sealed) if seal::is_sealed(sealed) => Some(&self.open(key, sealed).await?) == expected,
                plain => plain.as_ref() == expected,
            };
            if !is_expected {
                return Ok(false);
            }
            let text = self.text(key, record).await?;
            self.inner.records.replace(key, present.as_ref(), &text).await
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        self.inner.records.remove(key)
    }

    fn lock<'a>(&'a self, key: &'a str, limit: Duration) -> BoxFuture<'a, Result<StoreLock, Error>> {
        self.inner.records.lock(key, limit)
    }
}

impl fmt::Debug for SealedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let question = self.inner.question.lock().clone();
        let is_sealing = question.and_then(|question| Some(question.answer.borrow().as_ref()?.0.is_ok()));
        f.debug_struct("SealedStore").field("is_sealing", &is_sealing).finish_non_exhaustive()
    }
}
