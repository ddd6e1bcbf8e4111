//! Tests of processes that end during a write.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use super::*;

const DIR: &str = "MCP_OAUTH_TEST_WRITE_DIR";
const STEP: &str = "MCP_OAUTH_TEST_WRITE_STEP";
const STOPPED: &str = "stopped at the step";
const KEY: &str = "tokens/https://a.example/mcp";

/// Stops a child process at its step. Its parent kills it then.
pub(super) fn reach(step: Step, file: &fs::File) {
    let Some(wanted) = std::env::var_os(STEP) else { return };
    let is_half = wanted == "HalfWritten" && step == Step::Written;
    if is_half {
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    }
    if is_half || wanted == *format!("{step:?}") {
        println!("{STOPPED}");
        loop {
            std::thread::park();
        }
    }
}

fn record(letter: &str) -> Secret {
    Secret::new(format!("{{\"access_token\":\"{}\"}}", letter.repeat(10_000)))
}

#[tokio::test]
async fn a_process_replaces_a_record() {
    let own = std::env::temp_dir().join(format!("mcp-oauth-replaces-{}", std::process::id()));
    let dir = std::env::var_os(DIR).map_or_else(|| own.clone(), PathBuf::from);
    let store = FileStore::open(&dir).unwrap();
    let _lock = store.lock(KEY, Duration::from_secs(5)).await.unwrap();
    let before = store.load(KEY).await.unwrap();
    assert!(store.replace(KEY, before.as_ref(), &record("b")).await.unwrap());
    assert!(store.load(KEY).await.unwrap().unwrap() == record("b"));
    let _ = fs::remove_dir_all(own);
}

/// Starts a process that replaces the record, and stops at a step.
fn stopped(dir: &Path, step: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "store::file::tests::a_process_replaces_a_record", "--nocapture"]);
    let mut child = command.env(DIR, dir).env(STEP, step).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_stopped = lines.map_while(Result::ok).any(|line| line.contains(STOPPED));
    if !is_stopped {
        child.kill().unwrap();
        panic!("the process did not reach the step {step}");
    }
    child
}

#[tokio::test]
async fn a_removal_waits_for_a_replacement_that_has_begun() {
    let dir = std::env::temp_dir().join(format!("mcp-oauth-removed-{}", std::process::id()));
    let store = FileStore::open(&dir).unwrap();
    store.save(KEY, &record("a")).await.unwrap();
    let mut child = stopped(&dir, "Synced");
    let removal = tokio::spawn({
        let store = store.clone();
        async move { store.remove(KEY).await }
    });
    // Without the wait, the replacement would restore the removed record.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!removal.is_finished() && store.load(KEY).await.unwrap().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    tokio::time::timeout(Duration::from_secs(30), removal).await.unwrap().unwrap().unwrap();
    assert!(store.load(KEY).await.unwrap().is_none());
    fs::remove_dir_all(&dir).unwrap();
}

#[tokio::test]
async fn a_process_that_is_killed_during_a_write_leaves_the_old_or_the_new_record() {
    for (step, letter, temporary_files) in
        [("Created", "a", 1), ("HalfWritten", "a", 1), ("Written", "a", 1), ("Synced", "a", 1), ("Renamed", "b", 0)]
    {
        let dir = std::env::temp_dir().join(format!("mcp-oauth-killed-{step}-{}", std::process::id()));
        let store = FileStore::open(&dir).unwrap();
        store.save(KEY, &record("a")).await.unwrap();
        let mut child = stopped(&dir, step);
        child.kill().unwrap();
        child.wait().unwrap();

        assert!(store.load(KEY).await.unwrap().unwrap() == record(letter), "{step}");
        let entries = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
        let temporary = entries.filter(|path| path.extension().is_some_and(|extension| extension == TEMPORARY));
        assert_eq!(temporary.count(), temporary_files, "{step}");
        // The next process takes the lock at once, and replaces the record.
        let next = FileStore::open(&dir).unwrap();
        drop(next.lock(KEY, Duration::from_secs(5)).await.unwrap());
        next.save(KEY, &record("c")).await.unwrap();
        assert!(store.load(KEY).await.unwrap().unwrap() == record("c"), "{step}");
        fs::remove_dir_all(&dir).unwrap();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_record_that_other_users_can_read_gets_its_mode_back() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = std::env::temp_dir().join(format!("mcp-oauth-mode-{}", std::process::id()));
    let store = FileStore::open(&dir).unwrap();
    store.save(KEY, &record("m")).await.unwrap();
    let file = store.path(KEY, "json");
    let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    for other in [0o644, 0o640, 0o666] {
        fs::set_permissions(&file, fs::Permissions::from_mode(other)).unwrap();
        assert_eq!(store.load(KEY).await.unwrap(), Some(record("m")));
        assert_eq!(mode(), 0o600, "{other:o}");
    }
    fs::remove_dir_all(dir).unwrap();
}
