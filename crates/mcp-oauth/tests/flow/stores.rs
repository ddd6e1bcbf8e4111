//! The rules that each token store keeps.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use mcp_oauth::{ErrorKind, FileStore, MemoryStore, SealedStore, SharedStore, TokenStore};
use mcp_protocol::auth::Secret;
use mcp_store::{KeyPage, KeyValue, StoreError, StoreFuture, Swap};

use crate::sealed::FakeKeyring;

/// A directory that ends with the test.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("mcp-oauth-{name}-{}", std::process::id())))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Each kind of store, as two handles on the same records.
fn stores(dir: &Dir) -> Vec<[Arc<dyn TokenStore>; 2]> {
    let memory = MemoryStore::new();
    let shared = Arc::new(mcp_store::MemoryStore::new());
    let open = || Arc::new(FileStore::open(&dir.0).expect("the directory can be created"));
    let sealed_files = FileStore::open(dir.0.join("sealed")).expect("the directory can be created");
    let keyring = FakeKeyring::default();
    let sealed = || Arc::new(SealedStore::new(sealed_files.clone(), keyring.clone()));
    vec![
        [Arc::new(memory.clone()), Arc::new(memory)],
        [open(), open()],
        [sealed(), sealed()],
        [Arc::new(SharedStore::new(shared.clone())), Arc::new(SharedStore::new(shared))],
    ]
}

#[tokio::test]
async fn records_are_visible_through_each_handle() {
    let dir = Dir::new("records");
    for [one, other] in stores(&dir) {
        let keys = ["tokens/https://a.example/mcp?a=../..", "client/https://as.example", ""];
        for key in keys {
            assert!(one.load(key).await.unwrap().is_none());
            one.save(key, &format!("1 {key}").as_str().into()).await.unwrap();
            one.save(key, &format!("2 {key}").as_str().into()).await.unwrap();
        }
        for key in keys {
            assert_eq!(other.load(key).await.unwrap().unwrap().expose(), format!("2 {key}"));
            other.remove(key).await.unwrap();
            other.remove(key).await.unwrap();
            assert!(one.load(key).await.unwrap().is_none());
        }
    }
}

#[tokio::test]
async fn a_record_is_replaced_only_if_it_is_the_expected_one() {
    let dir = Dir::new("replaced");
    for [one, other] in stores(&dir) {
        let [first, second, third] = ["1", "2", "3"].map(Secret::new);
        assert!(!one.replace("key", Some(&first), &second).await.unwrap(), "there is no record");
        assert!(one.load("key").await.unwrap().is_none());
        assert!(one.replace("key", None, &first).await.unwrap());
        assert!(!other.replace("key", None, &second).await.unwrap(), "there is a record");
        assert!(other.replace("key", Some(&first), &second).await.unwrap());
        assert!(!one.replace("key", Some(&first), &third).await.unwrap(), "there is another record");
        assert!(one.load("key").await.unwrap().unwrap() == second);
        other.remove("key").await.unwrap();
        assert!(!one.replace("key", Some(&second), &third).await.unwrap(), "the record was removed");
        assert!(other.load("key").await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_shared_record_that_is_not_a_text_counts_as_missing() {
    let records = Arc::new(mcp_store::MemoryStore::new());
    let store = SharedStore::new(records.clone());
    store.save("key", &"1".into()).await.unwrap();
    let page = records.list("mcp/oauth/record/", None, 1).await.unwrap();
    records.put(&page.entries[0].0, Arc::from(*b"\xff\xfe"), None).await.unwrap();
    assert!(store.load("key").await.unwrap().is_none());
    assert!(store.replace("key", None, &"2".into()).await.unwrap());
    assert_eq!(store.load("key").await.unwrap().unwrap().expose(), "2");
}

#[tokio::test]
async fn a_lock_has_one_holder_and_a_bounded_wait() {
    let dir = Dir::new("locks");
    for [one, other] in stores(&dir) {
        let held = one.lock("key", Duration::from_secs(5)).await.unwrap();
        let error = other.lock("key", Duration::from_millis(100)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        // The locks of other keys are free.
        drop(other.lock("another key", Duration::from_secs(5)).await.unwrap());
        drop(held);
        drop(other.lock("key", Duration::from_secs(5)).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn locks_keep_holders_apart() {
    let dir = Dir::new("holders");
    for handles in stores(&dir) {
        let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let (store, inside, most) = (Arc::clone(&handles[number % 2]), inside.clone(), most.clone());
                tokio::spawn(async move {
                    for _ in 0..3 {
                        let lock = store.lock("key", Duration::from_secs(30)).await.unwrap();
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }
}

/// The directory in which [`a_process_counts_under_a_lock`] counts, if another process started that test.
const COUNTING_DIR: &str = "MCP_OAUTH_TEST_COUNTING_DIR";
/// The number of steps of each process.
const STEPS: usize = 25;

#[tokio::test]
async fn a_process_counts_under_a_lock() {
    let own = Dir::new("counting");
    let dir = std::env::var_os(COUNTING_DIR).map_or_else(|| own.0.clone(), PathBuf::from);
    let store = FileStore::open(dir).unwrap();
    let mut last = 0;
    for step in 1..=STEPS {
        let lock = store.lock("count", Duration::from_secs(30)).await.unwrap();
        let count = store.load("count").await.unwrap().map_or(0, |count| count.expose().parse::<usize>().unwrap());
        assert!(count >= last && count + 1 >= step, "{count} after {last}");
        last = count + 1;
        store.save("count", &last.to_string().as_str().into()).await.unwrap();
        drop(lock);
    }
}

#[tokio::test]
async fn a_lock_keeps_processes_apart() {
    let dir = Dir::new("processes");
    let start = |_| {
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "stores::a_process_counts_under_a_lock"]).env(COUNTING_DIR, &dir.0);
        test.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let processes: Vec<_> = (0..4).map(start).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let count = FileStore::open(&dir.0).unwrap().load("count").await.unwrap().unwrap();
    assert_eq!(count.expose(), (4 * STEPS).to_string());
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_user_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = Dir::new("permissions");
    std::fs::create_dir_all(&dir.0).unwrap();
    std::fs::set_permissions(&dir.0, std::fs::Permissions::from_mode(0o755)).unwrap();
    let store = FileStore::open(&dir.0).unwrap();
    store.save("key", &"hunter2".into()).await.unwrap();
    drop(store.lock("key", Duration::from_secs(5)).await.unwrap());
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir.0), 0o700);
    let files: Vec<_> = std::fs::read_dir(&dir.0).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{file:?}");
    }
}

#[tokio::test]
async fn unreadable_records_count_as_missing() {
    for (number, bytes) in [vec![0xff, 0xfe], vec![b'a'; (1 << 20) + 1]].into_iter().enumerate() {
        let dir = Dir::new(&format!("unreadable-{number}"));
        let store = FileStore::open(&dir.0).unwrap();
        store.save("key", &"1".into()).await.unwrap();
        let file = std::fs::read_dir(&dir.0).unwrap().next().unwrap().unwrap().path();
        std::fs::write(&file, bytes).unwrap();
        assert!(store.load("key").await.unwrap().is_none());
        store.save("key", &"2".into()).await.unwrap();
        assert_eq!(store.load("key").await.unwrap().unwrap().expose(), "2");
    }
}

#[tokio::test]
async fn a_store_removes_old_temporary_files() {
    let dir = Dir::new("temporary");
    FileStore::open(&dir.0).unwrap();
    let [old, new, record] = ["a.1.tmp", "a.2.tmp", "a.json"].map(|name| dir.0.join(name));
    let two_hours_ago = std::time::SystemTime::now() - Duration::from_secs(7200);
    for path in [&old, &new, &record] {
        let file = std::fs::File::create(path).unwrap();
        if path != &new {
            file.set_modified(two_hours_ago).unwrap();
        }
    }
    FileStore::open(&dir.0).unwrap();
    assert_eq!([old, new, record].map(|path| path.exists()), [false, true, true]);
}

#[tokio::test]
async fn a_store_that_cannot_be_used_names_its_directory() {
    let dir = Dir::new("broken");
    std::fs::create_dir_all(&dir.0).unwrap();
    let file = dir.0.join("file");
    std::fs::write(&file, "").unwrap();
    let error = FileStore::open(&file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Store);
    assert!(error.to_string().contains("file"), "{error}");
}

/// A store that loses the response to its first compare-and-swap.
#[derive(Debug)]
struct LosesResponse {
    records: Arc<mcp_store::MemoryStore>,
    has_lost: AtomicBool,
    /// Whether the lost response is an error. Otherwise it never arrives.
    is_error: bool,
}

impl KeyValue for LosesResponse {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>> {
        self.records.get(key)
    }

    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, ()> {
        self.records.put(key, value, ttl)
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a [u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Swap> {
        Box::pin(async move {
            let swap = self.records.compare_and_swap(key, expected, new, ttl).await;
            match self.has_lost.swap(true, Ordering::SeqCst) {
                true => swap,
                false if self.is_error => Err(StoreError::unavailable("the connection broke")),
                false => std::future::pending().await,
            }
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        self.records.delete(key)
    }

    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage> {
        self.records.list(prefix, after, limit)
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_response_is_lost_is_released() {
    let limit = Duration::from_secs(1);
    for (name, is_error, is_dropped) in
        [("an error", true, false), ("the limit", false, false), ("a dropped attempt", false, true)]
    {
        let records = Arc::new(mcp_store::MemoryStore::new());
        let store = LosesResponse { records: records.clone(), has_lost: AtomicBool::new(false), is_error };
        let store = SharedStore::new(Arc::new(store));
        let attempt = store.lock("key", limit);
        if is_dropped {
            assert!(tokio::time::timeout(limit / 2, attempt).await.is_err());
        } else {
            assert_eq!(attempt.await.unwrap_err().kind(), ErrorKind::Unavailable, "{name}");
        }
        let other = SharedStore::new(records);
        assert!(other.lock("key", limit).await.is_ok(), "{name}");
    }
}
