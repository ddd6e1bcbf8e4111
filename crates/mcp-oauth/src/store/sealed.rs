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
/// | The keyring fails, or does not answer in 3 seconds. | The store writes records that are not sealed. The first such write logs a warning with the cause. A [`FileStore`](super::FileStore) keeps them in files of mode 0600. |
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
pub struct SealedStore(Arc<Inner>);

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
        Self(Arc::new(Inner {
            records: Arc::new(records),
            keyring: Arc::new(keyring),
            limit: limit.min(keyring::LIMIT),
            question: Mutex::new(None),
            has_warned: AtomicBool::new(false),
        }))
    }

    /// Returns whether the store seals the records that it writes. Asks the keyring if the store has not asked it yet, or if
    /// the keyring failed 30 seconds ago or earlier.
    pub async fn is_sealing(&self) -> bool {
        self.key().await.is_ok()
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
                    let text = format!("the keyring did not answer in {:?}: it may be locked", self.0.limit);
                    Err(Error::new(ErrorKind::Unavailable, text))
                }
            };
        }
    }

    /// Returns the last question, or asks the keyring if there is none or if it is over.
    fn question(&self) -> Question {
        let mut last = self.0.question.lock();
        match &*last {
            Some(question) if !question.is_over() => question.clone(),
            _ => last.insert(self.ask()).clone(),
        }
    }

    /// Asks the keyring on a thread of its own. The call may never return, and must not keep the runtime from its end.
    fn ask(&self) -> Question {
        let deadline = Instant::now() + self.0.limit;
        let (sender, answer) = watch::channel(None);
        let (keyring, records) = (Arc::clone(&self.0.keyring), Arc::clone(&self.0.records));
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
                Err(cause) => {
                    if !self.0.has_warned.swap(true, Ordering::Relaxed) {
                        tracing::warn!(%cause, "the store writes tokens that are not sealed");
                    }
                    self.0.records.save(key, record).await
                }
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
        let question = self.0.question.lock().clone();
        let is_sealing = question.and_then(|question| Some(question.answer.borrow().as_ref()?.0.is_ok()));
        f.debug_struct("SealedStore").field("is_sealing", &is_sealing).finish_non_exhaustive()
    }
}
