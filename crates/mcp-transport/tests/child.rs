//! Child processes: their environment, their end, and their descendants.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{future::Future, path::Path, time::Duration};

use mcp_transport::{Connect, Frame, Transport, TransportError, child::ChildProcess, recv};
use tokio::time::{sleep, timeout};

/// The time limit of every wait.
const DEADLINE: Duration = Duration::from_secs(20);

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("{what} did not happen"))
}

fn shell(script: &str) -> ChildProcess {
    ChildProcess::new("sh").args(["-c", script]).end_within(Duration::from_millis(300))
}

async fn open(process: &ChildProcess) -> Box<dyn Transport> {
    process.connect().await.unwrap()
}

async fn line(transport: &mut Box<dyn Transport>) -> String {
    let frame = soon("a line", recv(transport)).await.unwrap().unwrap();
    String::from_utf8(frame.message.to_vec()).unwrap()
}

/// Receives the error after the last line. No frame follows it.
async fn last_error(transport: &mut Box<dyn Transport>) -> TransportError {
    let error = soon("the end", recv(transport)).await.unwrap().unwrap_err();
    assert!(soon("the end", recv(transport)).await.is_none());
    error
}

async fn shut_down(transport: &mut Box<dyn Transport>) {
    let sender = transport.sender();
    soon("the shutdown", sender.shutdown()).await.ok();
    assert!(soon("the end", recv(transport)).await.is_none(), "a requested end is not an error");
}

/// Waits until the process has exited or is a zombie.
async fn wait_until_exited(id: &str) {
    let stat = format!("/proc/{}/stat", id.trim());
    soon("the end of a process", async {
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn exchanges_lines_and_the_end_of_input_ends_the_process() {
    let mut transport = open(&shell("echo $$; exec cat")).await;
    let id = line(&mut transport).await;
    for message in ["{}", "[1,2]", &format!("\"{}\"", "x".repeat(1 << 20))] {
        transport.sender().send(Frame::new(message.to_owned())).await.unwrap();
        assert_eq!(line(&mut transport).await, message);
    }
    shut_down(&mut transport).await;
    assert!(!Path::new(&format!("/proc/{id}")).exists(), "it was waited for");
}

#[tokio::test]
async fn passes_only_the_configured_environment() {
    // Cargo sets this variable for every test. It represents a secret.
    let script = r#"echo "${CARGO_PKG_NAME-none} ${GIVEN-none} ${PATH:+path} $PWD""#;
    let case = async |process: ChildProcess| line(&mut open(&process.current_dir("/")).await).await;
    assert_eq!(case(shell(script)).await, "none none path /");
    assert_eq!(case(shell(script).env("GIVEN", "a b")).await, "none a b path /");
    assert_eq!(case(shell(script).inherit_env("CARGO_PKG_NAME")).await, "mcp-transport none path /");
    assert_eq!(case(shell(script).dangerous_inherit_all_env()).await, "mcp-transport none path /");
}

#[tokio::test]
async fn passes_each_argument_as_it_is() {
    // A shell would run `id`, remove the quotes, and start a second command.
    for argument in ["$(id);\"x", "`id` | cat > /dev/null & 'y'", "*", "-n", "two words"] {
        let mut transport = open(&ChildProcess::new("printf").args(["%s\n", argument])).await;
        assert_eq!(line(&mut transport).await, argument);
    }
    let error = ChildProcess::new("printf x; true").connect().await.err().map(|error| error.to_string()).unwrap();
    assert!(error.starts_with("cannot start `printf x; true`: there is no such program"), "{error}");
}

#[tokio::test]
async fn terminates_and_then_kills_a_process_that_ignores_the_end_of_input() {
    for script in ["echo $$; while :; do sleep 0.05; done", "trap '' TERM; echo $$; while :; do sleep 0.05; done"] {
        let mut transport = open(&shell(script)).await;
        let id = line(&mut transport).await;
        shut_down(&mut transport).await;
        wait_until_exited(&id).await;
    }
}

#[tokio::test]
async fn terminates_the_descendants_of_the_process() {
    let mut transport = open(&shell("sleep 1000 & echo $!; exec cat")).await;
    let grandchild = line(&mut transport).await;
    shut_down(&mut transport).await;
    wait_until_exited(&grandchild).await;

    // The process exits on its own. Its descendant holds none of its pipes, or all of them.
    for script in ["sleep 1000 <&- >&- 2>&- & echo $!; exit 3", "sleep 1000 & echo $!; exit 3"] {
        let mut transport = open(&shell(script)).await;
        let grandchild = line(&mut transport).await;
        let error = last_error(&mut transport).await.to_string();
        assert!(error.contains("`sh` ended (exit status: 3)"), "{error}");
        wait_until_exited(&grandchild).await;
    }
}

#[tokio::test]
async fn stderr_output_is_not_an_error() {
    let mut transport = open(&shell("echo 'ERROR: everything is fine' >&2; exec cat")).await;
    transport.sender().send(Frame::new("{}")).await.unwrap();
    assert_eq!(line(&mut transport).await, "{}");
    shut_down(&mut transport).await;
}

#[tokio::test]
async fn the_error_quotes_the_last_stderr_lines() {
    let mut transport = open(&shell("echo 'no module named mcp' >&2; echo 'I give up' >&2; exit 7")).await;
    let error = last_error(&mut transport).await.to_string();
    assert!(error.contains("exit status: 7"), "{error}");
    assert!(error.ends_with("its standard error ended with:\n  no module named mcp\n  I give up"), "{error}");
}

#[tokio::test]
async fn terminates_a_server_that_closes_its_stdout() {
    let mut transport = open(&shell("echo $$; exec >&-; while :; do sleep 0.05; done")).await;
    let id = line(&mut transport).await;
    let error = last_error(&mut transport).await.to_string();
    assert!(error.ends_with("closed its output"), "{error}");
    wait_until_exited(&id).await;
}

#[tokio::test]
async fn dropping_the_transport_and_its_senders_ends_the_process() {
    let mut transport = open(&shell("trap '' TERM; echo $$; while :; do sleep 0.05; done")).await;
    let id = line(&mut transport).await;
    let sender = transport.sender();
    drop(transport);
    assert!(sender.send(Frame::new("{}")).await.is_ok(), "a sender keeps it open");
    drop(sender);
    wait_until_exited(&id).await;
}

#[test]
fn the_end_of_the_runtime_ends_the_process() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (transport, ids) = first.block_on(async {
        let mut transport = open(&shell("trap '' TERM; sleep 1000 & echo $! $$; while :; do sleep 0.05; done")).await;
        let ids = line(&mut transport).await;
        (transport, ids)
    });
    drop(first);
    runtime().block_on(async {
        for id in ids.split_whitespace() {
            wait_until_exited(id).await;
        }
    });
    drop(transport);
}

#[tokio::test]
async fn reports_why_a_program_cannot_start() {
    let case = async |process: ChildProcess| process.connect().await.err().map(|error| error.to_string()).unwrap();
    let missing = case(ChildProcess::new("no-such-program-anywhere")).await;
    assert!(missing.starts_with("cannot start `no-such-program-anywhere`: there is no such program"), "{missing}");
    let nowhere = case(shell("true").current_dir("/no/such/directory")).await;
    assert!(nowhere.ends_with("there is no directory /no/such/directory"), "{nowhere}");
    let forbidden = case(ChildProcess::new("/")).await;
    assert!(forbidden.ends_with("it may not be executed"), "{forbidden}");
}

#[test]
fn debug_output_contains_no_secrets() {
    let process = ChildProcess::new("x").arg("--token=hunter2").env("TOKEN", "hunter2");
    let shown = format!("{process:?}");
    assert!(!shown.contains("hunter2") && shown.contains("TOKEN"), "{shown}");
    assert_eq!(process.describe(), "x");
}
