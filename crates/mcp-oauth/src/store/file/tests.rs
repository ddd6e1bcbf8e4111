//! Tests of processes that end during a write.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
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
    store.save(KEY, &record("b")).await.unwrap();
    assert!(store.load(KEY).await.unwrap().unwrap() == record("b"));
    let _ = fs::remove_dir_all(own);
}

#[tokio::test]
async fn a_process_that_is_killed_during_a_write_leaves_the_old_or_the_new_record() {
    for (step, letter, temporary_files) in
        [("Created", "a", 1), ("HalfWritten", "a", 1), ("Written", "a", 1), ("Synced", "a", 1), ("Renamed", "b", 0)]
    {
        let dir = std::env::temp_dir().join(format!("mcp-oauth-killed-{step}-{}", std::process::id()));
        let store = FileStore::open(&dir).unwrap();
        store.save(KEY, &record("a")).await.unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "store::file::tests::a_process_replaces_a_record", "--nocapture"]);
        let mut child = command.env(DIR, &dir).env(STEP, step).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_stopped = lines.map_while(Result::ok).any(|line| line.contains(STOPPED));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_stopped, "{step}");

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
