//! Stores whose records are sealed with a key in a keyring.

use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_oauth::{DiscoveryRule, Error, ErrorKind, FileStore, Keyring, MemoryStore, OAuth, SealedStore, TokenStore};
use mcp_protocol::auth::Secret;
use tracing_subscriber::filter::LevelFilter;

use crate::{common::World, secrets::Written, stores::Dir};

/// A keyring in memory. Clones share the entry.
#[derive(Clone, Default)]
pub(crate) struct FakeKeyring(Arc<Inner>);

#[derive(Default)]
struct Inner {
    entry: Mutex<Option<Secret>>,
    fault: Mutex<Option<Fault>>,
    /// Whether the calls wait.
    is_locked: AtomicBool,
    /// The calls of `get`, with those that wait.
    calls: AtomicUsize,
    reads: AtomicUsize,
}

#[derive(Clone, Copy)]
enum Fault {
    Error,
    Panic,
    /// The keyring accepts an entry and loses it.
    Forgets,
}

impl FakeKeyring {
    fn faulty(fault: Fault) -> Self {
        let keyring = Self::default();
        keyring.set_fault(Some(fault));
        keyring
    }

    fn set_fault(&self, fault: Option<Fault>) {
        *self.0.fault.lock().unwrap() = fault;
    }

    fn lock(&self, is_locked: bool) {
        self.0.is_locked.store(is_locked, Ordering::SeqCst);
    }

    pub(crate) fn set_entry(&self, entry: Option<&str>) {
        *self.0.entry.lock().unwrap() = entry.map(Secret::new);
    }
}

impl Keyring for FakeKeyring {
    fn get(&self) -> Result<Option<Secret>, Error> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        while self.0.is_locked.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.0.reads.fetch_add(1, Ordering::SeqCst);
        let fault = *self.0.fault.lock().unwrap();
        match fault {
            Some(Fault::Error) => Err(Error::new(ErrorKind::Store, "the keyring has no daemon")),
            Some(Fault::Panic) => panic!("the keyring is broken"),
            _ => Ok(self.0.entry.lock().unwrap().clone()),
        }
    }

    fn set(&self, secret: &Secret) -> Result<(), Error> {
        let fault = *self.0.fault.lock().unwrap();
        if !matches!(fault, Some(Fault::Forgets)) {
            *self.0.entry.lock().unwrap() = Some(secret.clone());
        }
        Ok(())
    }
}

fn open(dir: &Dir, keyring: &FakeKeyring) -> SealedStore {
    SealedStore::new(FileStore::open(&dir.0).unwrap(), keyring.clone())
}

/// Returns the contents of all records of a directory.
fn records(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let records = entries.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    records.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[tokio::test]
async fn records_are_sealed_with_the_key_of_the_keyring() {
    let (dir, keyring) = (Dir::new("sealed"), FakeKeyring::default());
    let store = open(&dir, &keyring);
    store.save("tokens/a", &"hunter2".into()).await.unwrap();
    assert!(store.is_sealing().await);
    let key = keyring.get().unwrap().unwrap();
    for text in records(&dir.0).into_iter().chain([format!("{store:?}")]) {
        assert!(!text.contains("hunter2") && !text.contains(key.expose()), "{text}");
    }
    let other = open(&dir, &keyring);
    assert_eq!(other.load("tokens/a").await.unwrap().unwrap().expose(), "hunter2");
    assert!(other.load("tokens/b").await.unwrap().is_none());
}

#[tokio::test]
async fn a_plain_record_is_read_and_then_sealed() {
    let (dir, keyring) = (Dir::new("upgraded"), FakeKeyring::default());
    FileStore::open(&dir.0).unwrap().save("key", &"hunter2".into()).await.unwrap();
    let store = open(&dir, &keyring);
    let record = store.load("key").await.unwrap().unwrap();
    assert_eq!(record.expose(), "hunter2");
    // The record is not sealed, so the store does not need the keyring.
    assert_eq!(keyring.0.reads.load(Ordering::SeqCst), 0);
    store.save("key", &record).await.unwrap();
    assert!(!records(&dir.0).concat().contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stores_that_start_together_share_one_key() {
    let (dir, keyring) = (Dir::new("one-key"), FakeKeyring::default());
    let stores: Vec<_> = (0..8).map(|_| open(&dir, &keyring)).collect();
    let saves: Vec<_> = stores
        .iter()
        .enumerate()
        .map(|(number, store)| {
            let store = store.clone();
            tokio::spawn(async move { store.save(&number.to_string(), &"hunter2".into()).await.unwrap() })
        })
        .collect();
    for save in saves {
        save.await.unwrap();
    }
    for number in 0..8 {
        let record = stores[0].load(&number.to_string()).await.unwrap().unwrap();
        assert_eq!(record.expose(), "hunter2");
    }
}

/// Runs a store with a log, and returns its warnings.
fn warnings(run: impl Future<Output = ()>) -> Vec<String> {
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(LevelFilter::WARN)
        .with_writer(written.clone())
        .finish();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(subscriber, || runtime.block_on(run));
    written.text().lines().map(str::to_owned).collect()
}

#[test]
fn a_keyring_that_fails_leads_to_plain_files_and_one_warning() {
    let invalid = FakeKeyring::default();
    invalid.set_entry(Some("hunter2-entry"));
    for (name, keyring, cause) in [
        ("error", FakeKeyring::faulty(Fault::Error), "the keyring has no daemon"),
        ("panic", FakeKeyring::faulty(Fault::Panic), "the keyring panicked"),
        ("forgets", FakeKeyring::faulty(Fault::Forgets), "does not keep the key"),
        ("invalid", invalid.clone(), "is not a key of 32 bytes"),
    ] {
        let dir = Dir::new(&format!("keyring-{name}"));
        let warnings = warnings(async {
            let store = open(&dir, &keyring);
            for record in ["hunter1", "hunter2"] {
                store.clone().save("key", &record.into()).await.unwrap();
                assert_eq!(store.load("key").await.unwrap().unwrap().expose(), record);
            }
            assert!(!store.is_sealing().await);
            assert_eq!(FileStore::open(&dir.0).unwrap().load("key").await.unwrap().unwrap().expose(), "hunter2");
        });
        assert_eq!(warnings.len(), 1, "{name}: {warnings:?}");
        assert!(warnings[0].contains(cause) && !warnings[0].contains("hunter"), "{name}: {warnings:?}");
    }
    assert_eq!(invalid.get().unwrap().unwrap().expose(), "hunter2-entry", "the store keeps a foreign entry");
}

#[test]
fn a_store_without_a_fallback_writes_no_plain_record() {
    let (dir, keyring) = (Dir::new("strict"), FakeKeyring::faulty(Fault::Error));
    let warnings = warnings(async {
        FileStore::open(&dir.0).unwrap().save("old", &"hunter1".into()).await.unwrap();
        let store = open(&dir, &keyring).without_fallback();
        let old = store.load("old").await.unwrap();
        let results = [
            store.check().await,
            store.save("key", &"hunter2".into()).await,
            store.replace("key", None, &"hunter2".into()).await.map(drop),
            store.replace("old", old.as_ref(), &"hunter2".into()).await.map(drop),
        ];
        for error in results.map(Result::unwrap_err) {
            assert_eq!(error.kind(), ErrorKind::Store);
            assert!(error.to_string().contains("the keyring has no daemon"), "{error}");
        }
        assert!(store.load("key").await.unwrap().is_none());
        assert_eq!(store.load("old").await.unwrap().unwrap().expose(), "hunter1");

        keyring.set_fault(None);
        let store = open(&dir, &keyring).without_fallback();
        store.check().await.unwrap();
        assert!(store.replace("old", old.as_ref(), &"hunter2".into()).await.unwrap());
        assert!(!records(&dir.0).concat().contains("hunter"));
    });
    assert_eq!(warnings, [""; 0], "the error replaces the warning");
}

#[test]
fn a_keyring_that_does_not_answer_is_used_once_it_answers() {
    let (dir, keyring) = (Dir::new("keyring-hangs"), FakeKeyring::default());
    let limit = Duration::from_millis(100);
    let hanging = || SealedStore::with_keyring_limit(FileStore::open(&dir.0).unwrap(), keyring.clone(), limit);
    let warnings = warnings(async {
        let sealed = open(&dir, &keyring);
        sealed.save("old", &"hunter1".into()).await.unwrap();
        keyring.lock(true);
        let store = hanging();
        store.save("new", &"hunter2".into()).await.unwrap();
        assert_eq!(store.load("new").await.unwrap().unwrap().expose(), "hunter2");
        let error = store.load("old").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("did not answer in 100ms"), "{error}");
        keyring.lock(false);
        sealing(&store).await;
        assert_eq!(store.load("old").await.unwrap().unwrap().expose(), "hunter1");
        store.save("new", &"hunter2".into()).await.unwrap();
        assert!(!records(&dir.0).concat().contains("hunter2"));
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("did not answer"), "{warnings:?}");
}

#[tokio::test]
async fn a_hanging_keyring_does_not_delay_the_end_of_the_process() {
    let keyring = FakeKeyring::default();
    let limit = Duration::from_millis(10);
    keyring.lock(true);
    let store = SealedStore::with_keyring_limit(MemoryStore::new(), keyring.clone(), limit);
    let ended = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async { assert!(!store.is_sealing().await) });
        drop(runtime);
    });
    tokio::task::spawn_blocking(|| ended.join().unwrap()).await.unwrap();
    keyring.lock(false);
}

/// Waits until a store seals its records.
async fn sealing(store: &SealedStore) {
    let sealing = async {
        while !store.is_sealing().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), sealing).await.unwrap();
}

#[tokio::test]
async fn a_keyring_that_failed_is_asked_again_after_a_pause() {
    let (dir, keyring) = (Dir::new("keyring-recovers"), FakeKeyring::default());
    open(&dir, &keyring).save("old", &"hunter1".into()).await.unwrap();
    keyring.set_fault(Some(Fault::Error));
    let store = open(&dir, &keyring);
    store.save("new", &"hunter2".into()).await.unwrap();
    assert!(store.load("old").await.is_err());
    let reads = keyring.0.reads.load(Ordering::SeqCst);
    keyring.set_fault(None);
    assert!(!store.is_sealing().await);
    store.save("new", &"hunter2".into()).await.unwrap();
    assert_eq!(keyring.0.reads.load(Ordering::SeqCst), reads, "the store pauses");
    assert!(records(&dir.0).concat().contains("hunter2"));

    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(30)).await;
    tokio::time::resume();
    assert_eq!(store.load("old").await.unwrap().unwrap().expose(), "hunter1");
    store.save("new", &"hunter2".into()).await.unwrap();
    assert!(!records(&dir.0).concat().contains("hunter2"));
    assert_eq!(keyring.0.reads.load(Ordering::SeqCst), reads + 1, "the store keeps the key");
}

#[test]
fn a_keyring_answers_after_the_end_of_the_first_runtime() {
    for has_entry in [true, false] {
        let (dir, keyring) = (Dir::new(&format!("two-runtimes-{has_entry}")), FakeKeyring::default());
        keyring.set_entry(has_entry.then(|| "A".repeat(43)).as_deref());
        keyring.lock(true);
        let limit = Duration::from_millis(10);
        let store = SealedStore::with_keyring_limit(FileStore::open(&dir.0).unwrap(), keyring.clone(), limit);
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert!(!runtime().block_on(store.is_sealing()));
        keyring.lock(false);
        runtime().block_on(sealing(&store));
    }
}

#[tokio::test]
async fn the_longest_limit_asks_a_hanging_keyring_once() {
    let keyring = FakeKeyring::default();
    keyring.set_entry(Some(&"A".repeat(43)));
    keyring.lock(true);
    let store = SealedStore::with_keyring_limit(MemoryStore::new(), keyring.clone(), Duration::MAX);
    for _ in 0..3 {
        assert!(tokio::time::timeout(Duration::from_millis(10), store.is_sealing()).await.is_err());
    }
    keyring.lock(false);
    sealing(&store).await;
    assert_eq!(keyring.0.calls.load(Ordering::SeqCst), 1);
}

/// A keyring whose reads last longer than a write.
struct SlowKeyring(FakeKeyring);

impl Keyring for SlowKeyring {
    fn get(&self) -> Result<Option<Secret>, Error> {
        let entry = self.0.get();
        std::thread::sleep(Duration::from_millis(100));
        entry
    }

    fn set(&self, secret: &Secret) -> Result<(), Error> {
        self.0.set(secret)
    }
}

#[tokio::test]
async fn stores_of_two_directories_share_the_key_of_a_keyring() {
    let keyring = FakeKeyring::default();
    let dirs = ["one", "other"].map(|name| Dir::new(&format!("one-entry-{name}")));
    let [one, other] = dirs.each_ref().map(|dir| {
        let files = FileStore::open(&dir.0).unwrap();
        SealedStore::with_keyring_limit(files, SlowKeyring(keyring.clone()), Duration::from_secs(60))
    });
    let record = "hunter2".into();
    let second = async {
        // Without a lock, the second store reads the keyring before the first one writes its key, and replaces the key later.
        tokio::time::sleep(Duration::from_millis(50)).await;
        other.save("key", &record).await
    };
    let (first, second) = tokio::join!(one.save("key", &record), second);
    first.and(second).unwrap();
    for dir in &dirs {
        assert!(!records(&dir.0).concat().contains("hunter2"));
        assert_eq!(open(dir, &keyring).load("key").await.unwrap().unwrap().expose(), "hunter2");
    }
}

#[test]
fn only_a_write_warns_of_tokens_that_are_not_sealed() {
    let (dir, keyring) = (Dir::new("warning"), FakeKeyring::default());
    let warnings = |writes: bool| {
        warnings(async {
            open(&dir, &keyring).save("key", &"hunter2".into()).await.unwrap();
            let store = open(&dir, &FakeKeyring::faulty(Fault::Error));
            assert!(store.load("key").await.is_err());
            assert!(!store.is_sealing().await);
            if writes {
                store.save("key", &"hunter2".into()).await.unwrap();
            }
        })
    };
    assert_eq!(warnings(false), [""; 0]);
    let warnings = warnings(true);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("not sealed"), "{warnings:?}");
}

/// A damage to the keyring or to the records.
#[derive(Debug, Clone, Copy)]
enum Damage {
    LostKey,
    OtherKey,
    ChangedRecord,
    NoKeyring,
    PlainStore,
}

#[tokio::test]
async fn a_record_that_cannot_be_opened_is_kept_until_a_login_replaces_it() {
    use Damage::{ChangedRecord, LostKey, NoKeyring, OtherKey, PlainStore};
    for (damage, kind, text) in [
        (LostKey, ErrorKind::LoginRequired, "a key that the keyring does not have"),
        (OtherKey, ErrorKind::LoginRequired, "a key that the keyring does not have"),
        (ChangedRecord, ErrorKind::LoginRequired, "was changed or is damaged"),
        (NoKeyring, ErrorKind::Store, "the keyring has no daemon"),
        (PlainStore, ErrorKind::LoginRequired, "the store has no key"),
    ] {
        let world = World::new().await;
        let (dir, keyring) = (Dir::new(&format!("unreadable-{damage:?}")), FakeKeyring::default());
        world.site.token(&world.builder().store(open(&dir, &keyring)).build()).await;
        let mut after = keyring.clone();
        match damage {
            LostKey => keyring.set_entry(None),
            OtherKey => keyring.set_entry(Some(&"A".repeat(43))),
            ChangedRecord => damage_records(&dir.0).unwrap(),
            NoKeyring => after = FakeKeyring::faulty(Fault::Error),
            PlainStore => {}
        }
        let before = records(&dir.0);
        // The registration is sealed too. An explanation is that of `OAuth::log_in`, which replaces the records.
        let files = world.builder().store(FileStore::open(&dir.0).unwrap()).build();
        let explanation = files.explain(&world.site.endpoint).await.unwrap();
        assert!(explanation.error.is_none(), "{damage:?}: {explanation:?}");
        let mut checks = explanation.steps.iter().flat_map(|step| &step.checks);
        let registration = checks.find(|check| check.rule == DiscoveryRule::Registration).unwrap();
        let assumption = registration.assumption.as_deref().unwrap_or_default();
        assert!(assumption.contains("a stored registration cannot be read"), "{damage:?}: {registration:?}");
        let builder = || match damage {
            PlainStore => world.builder().store(FileStore::open(&dir.0).unwrap()),
            _ => world.builder().store(open(&dir, &after)),
        };
        let auth: OAuth = builder().build();
        for error in [world.site.error(&auth).await, auth.stored_login(&world.site.endpoint).await.unwrap_err()] {
            assert_eq!(error.kind(), kind, "{damage:?}: {error}");
            assert!(error.to_string().contains(text), "{damage:?}: {error}");
            assert!(error.to_string().contains("`mcp login URL`"), "{damage:?}: {error}");
        }
        assert_eq!((records(&dir.0), world.user.count()), (before, 1), "{damage:?}");

        auth.log_in(&world.site.endpoint).await.unwrap();
        world.site.token(&auth).await;
        world.site.token(&builder().build()).await;
        assert_eq!(world.user.count(), 2, "{damage:?}");
    }
}

/// Changes the last character of each record.
fn damage_records(dir: &Path) -> io::Result<()> {
    for path in std::fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.extension().is_some_and(|extension| extension == "json") {
            let mut text = std::fs::read_to_string(&path)?;
            let last = if text.pop() == Some('A') { 'B' } else { 'A' };
            text.push(last);
            std::fs::write(&path, text)?;
        }
    }
    Ok(())
}
