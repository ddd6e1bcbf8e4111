//! Servers as child processes: killed during a call, restarted, and ended with their client.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]
#![cfg(unix)]

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use mcp_client::{
    ChildProcess, Client, Reconnect, State, Update,
    protocol::{ProtocolVersion, SubscriptionFilter},
};
use mcp_server::prelude::*;
use tokio::time::timeout;

use crate::common::scripted_site::{DEADLINE, ERAS, alive, no_tasks_above, outcome, predicates, quick};

/// Set in the environment of this program where it is the server.
const SERVES: &str = "TEST_SERVES_STDIO";

/// The server of the tests below: this program in another process. Without the variable, it does nothing.
#[tokio::test]
async fn a_child_process_serves_stdio() {
    if std::env::var_os(SERVES).is_none() {
        return;
    }
    let server = Server::builder("child", "1")
        .tool(tool("pid", async || std::process::id().to_string()))
        .tool(tool("parent", async || std::os::unix::process::parent_id().to_string()))
        .tool(tool("ask", crate::raw_inputs::ask))
        .tool(tool("die", async || -> String { std::process::abort() }))
        .tool(tool("sleep", async || -> String { std::future::pending().await }))
        .tool(tool("touch", async |server: Server| {
            server.notify().resource_updated("config://app");
            "touched"
        }))
        .resource(resource("config://app", async || "dark"))
        .build();
    server.serve_stdio().await.unwrap();
}

fn child() -> ChildProcess {
    let program = std::env::current_exe().unwrap();
    // With one thread, the test harness would print the name of the test before the first message.
    let args = ["--exact", "process_faults::a_child_process_serves_stdio", "--nocapture", "-q", "--test-threads=2"];
    ChildProcess::new(program).args(args).env(SERVES, "1").end_within(Duration::from_millis(500))
}

/// Connects to a server in another process.
pub(crate) async fn connect_to_child(version: ProtocolVersion) -> Client {
    connect(child(), version).await
}

async fn connect(child: ChildProcess, version: ProtocolVersion) -> Client {
    timeout(DEADLINE, quick(&[version]).connect(child)).await.unwrap().unwrap()
}

async fn pid(client: &Client) -> String {
    client.call_tool("pid", ()).await.unwrap().text()
}

/// Waits until the process has exited or is a zombie.
async fn wait_until_exited(pid: &str) {
    if !Path::new("/proc/self/stat").exists() {
        return;
    }
    let stat = format!("/proc/{pid}/stat");
    let exited = timeout(DEADLINE, async {
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(exited.await.is_ok(), "the process {pid} did not exit");
}

/// Closes the client. No process and no task is left.
async fn assert_clean_close(client: Client, pid: &str, tasks: usize) {
    assert_eq!(client.pending(), 0);
    timeout(DEADLINE, client.close()).await.unwrap();
    drop(client);
    wait_until_exited(pid).await;
    no_tasks_above(tasks, "a client of a child process").await;
}

#[tokio::test]
async fn restarts_a_process_killed_during_a_call() {
    for version in ERAS {
        let tasks = alive();
        let client = connect(child(), version).await;
        let first = pid(&client).await;
        let result = client.call_tool("die", ()).await;
        let cause = result.as_ref().unwrap_err().clone();
        assert_eq!(outcome(result), "closed retryable", "{version}");
        // The error contains the exit status and the last stderr lines.
        let cause = std::error::Error::source(&cause).unwrap().to_string();
        assert!(cause.contains("signal: 6"), "{cause}");
        wait_until_exited(&first).await;
        let second = pid(&client).await;
        assert_ne!(first, second, "{version}");
        assert_clean_close(client, &second, tasks).await;
    }
}

#[tokio::test]
async fn a_call_that_times_out_does_not_end_the_process() {
    for version in ERAS {
        let tasks = alive();
        let client = connect(child(), version).await;
        let first = pid(&client).await;
        let silent = client.call_tool("sleep", ()).idle_timeout(Duration::from_millis(100)).await;
        assert_eq!(outcome(silent), "timeout", "{version}");
        assert_eq!(pid(&client).await, first, "it is the same process");
        assert_clean_close(client, &first, tasks).await;
    }
}

#[tokio::test]
async fn dropping_the_client_ends_the_process() {
    for version in ERAS {
        let tasks = alive();
        let client = connect(child(), version).await;
        let first = pid(&client).await;
        drop(client);
        wait_until_exited(&first).await;
        no_tasks_above(tasks, "a dropped client").await;
    }
}

#[tokio::test]
async fn closing_the_client_kills_a_process_that_ignores_signals() {
    // The server ends when its input ends. Its parent ignores both the end of input and SIGTERM.
    let script = r#"trap '' TERM
        "$SERVER" --exact process_faults::a_child_process_serves_stdio --nocapture -q --test-threads=2
        while :; do sleep 1; done"#;
    for version in ERAS {
        let tasks = alive();
        let child = ChildProcess::new("sh").args(["-c", script]).env(SERVES, "1");
        let child = child.env("SERVER", std::env::current_exe().unwrap()).end_within(Duration::from_millis(300));
        let less = quick(&[version]).limits(|limits| limits.close = Duration::from_millis(10));
        let client = timeout(DEADLINE, less.connect(child)).await.unwrap().unwrap();
        let parent = client.call_tool("parent", ()).await.unwrap().text();
        timeout(DEADLINE, client.close()).await.unwrap();
        // The process was killed. It may still be a zombie.
        let stat = std::fs::read_to_string(format!("/proc/{parent}/stat"));
        assert!(stat.as_ref().is_err() || stat.as_ref().is_ok_and(|stat| stat.contains(") Z ")), "{version}: {stat:?}");
        drop(client);
        no_tasks_above(tasks, "a child that does not want to end").await;
    }
}

#[tokio::test]
async fn renews_subscriptions_after_a_restart() {
    for version in ERAS {
        let client = connect(child(), version).await;
        let filter = SubscriptionFilter::new().with_resources(["config://app"]);
        let mut subscription = client.listen(filter).await.unwrap();
        let updated = Update::ResourceUpdated { uri: "config://app".into() };
        for _ in 0..2 {
            client.call_tool("touch", ()).await.unwrap();
            let update = timeout(DEADLINE, subscription.next()).await.unwrap().unwrap().unwrap();
            assert_eq!(update, updated, "{version}");
            client.call_tool("die", ()).await.unwrap_err();
            // The connection is open again, and the subscription reports possibly missed changes.
            let update = timeout(DEADLINE, subscription.next()).await.unwrap().unwrap().unwrap();
            assert_eq!(update, Update::Missed, "{version}");
        }
        let last = pid(&client).await;
        client.close().await;
        assert!(timeout(DEADLINE, subscription.next()).await.unwrap().is_none());
        wait_until_exited(&last).await;
    }
}

/// A directory that is removed on drop.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn retries_a_failing_start_a_few_times_and_then_on_demand() {
    for version in ERAS {
        let folder = Folder(std::env::temp_dir().join(format!("mcp-client-{}-{version}", std::process::id())));
        std::fs::create_dir_all(&folder.0).unwrap();
        let (good, starts) = (folder.0.join("good"), folder.0.join("starts"));
        std::fs::write(&good, "").unwrap();
        let script = r#"echo >> "$STARTS"; test -e "$GOOD" || { echo 'out of order' >&2; exit 3; }
            exec "$SERVER" --exact process_faults::a_child_process_serves_stdio --nocapture -q --test-threads=2"#;
        let child = ChildProcess::new("sh")
            .args(["-c", script])
            .envs([("STARTS", starts.as_os_str()), ("GOOD", good.as_os_str())])
            .env("SERVER", std::env::current_exe().unwrap())
            .env(SERVES, "1");
        let policy = Reconnect::default().attempts(3).first(Duration::from_millis(5));
        let client = timeout(DEADLINE, quick(&[version]).reconnect(policy).connect(child)).await.unwrap().unwrap();
        let count = || std::fs::read_to_string(&starts).unwrap().lines().count();
        assert_eq!(count(), 1, "{version}");

        std::fs::remove_file(&good).unwrap();
        let mut states = client.states();
        client.call_tool("die", ()).await.unwrap_err();
        timeout(DEADLINE, states.wait_for(|state| *state == State::Down)).await.unwrap().unwrap();
        assert_eq!(count(), 4, "{version}");

        // Each call makes one attempt and receives its error.
        let error = client.call_tool("pid", ()).await.unwrap_err();
        assert_eq!(predicates(&error), "closed retryable", "{version}: {error:?}");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("exit status: 3") && cause.contains("out of order"), "{cause}");
        assert_eq!(count(), 5, "{version}");

        std::fs::write(&good, "").unwrap();
        let last = pid(&client).await;
        assert_eq!(count(), 6, "{version}");
        client.close().await;
        wait_until_exited(&last).await;
    }
}

#[tokio::test]
async fn a_process_that_does_not_answer_is_reported_with_its_stderr() {
    let child = || ChildProcess::new("sh").args(["-c", "echo 'loading the index' >&2; exec sleep 100"]);
    for versions in [&ERAS[..1], &ERAS[1..], &ERAS[..]] {
        let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
        let limit = Duration::from_secs(2);
        let connecting = quick(versions)
            .connect_timeout(limit)
            .on_slow_start(Duration::from_millis(300), move |start| sender.send(start.clone()).unwrap())
            .connect(child());
        let error = timeout(DEADLINE, connecting).await.unwrap().unwrap_err();
        assert!(error.is_timeout() && error.to_string().contains("loading the index"), "{error}");
        let report = reports.recv().await.unwrap();
        assert_eq!(report.stderr(), ["loading the index"]);
        assert!(report.to_string().contains("has not answered for 300ms: it is still starting"), "{report}");
        assert!(reports.recv().await.is_none(), "one report for each connection");
    }
}

#[tokio::test]
async fn a_panic_in_the_slow_start_callback_does_not_fail_the_connect() {
    let child = ChildProcess::new("sh").args(["-c", "exec sleep 100"]);
    let connecting = quick(&ERAS)
        .connect_timeout(Duration::from_secs(1))
        .on_slow_start(Duration::from_millis(100), |_| panic!("a panic of the application"))
        .connect(child);
    let error = timeout(DEADLINE, connecting).await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error}");
}

#[tokio::test]
async fn a_server_that_prints_text_and_exits_is_retryable() {
    let child = ChildProcess::new("sh").args(["-c", "echo 'Loading the model'; exit 1"]);
    let error = timeout(DEADLINE, quick(&ERAS).connect(child)).await.unwrap().unwrap_err();
    assert!(error.is_not_a_server() && error.is_closed() && error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn rejects_a_command_that_echoes_its_input() {
    for versions in [&ERAS[..1], &ERAS[1..], &ERAS[..]] {
        let connecting = quick(versions).connect(ChildProcess::new("cat"));
        let error = timeout(DEADLINE, connecting).await.unwrap().unwrap_err();
        assert!(error.is_not_a_server() && !error.is_retryable(), "{error:?}");
        assert!(error.to_string().contains("is not an MCP server"), "{error}");
    }
}

#[tokio::test]
async fn reports_a_program_that_is_not_a_server_at_once() {
    let cases: [(&str, ChildProcess, &str, &str); 3] = [
        ("no program", ChildProcess::new("/no/such/program"), "unreachable", "no such program"),
        (
            "it ends",
            ChildProcess::new("sh").args(["-c", "echo 'missing --token' >&2; exit 2"]),
            "closed retryable",
            "missing --token",
        ),
        ("it ends well", ChildProcess::new("true"), "closed retryable", "exit status: 0"),
    ];
    for (what, child, expected, shown) in cases {
        for versions in [&ERAS[..1], &ERAS[1..], &ERAS[..]] {
            let tasks = alive();
            let error = timeout(DEADLINE, quick(versions).connect(&child)).await.unwrap().unwrap_err();
            assert_eq!(predicates(&error), expected, "{what}, {versions:?}: {error:?}");
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert!(cause.contains(shown), "{what}, {versions:?}: {cause}");
            no_tasks_above(tasks, what).await;
        }
    }
}
