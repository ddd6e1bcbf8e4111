//! `mcp listen`: updates, invalid notifications and lost connections.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use super::{Http, check, mcp};

/// The timeout of every wait in these tests.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Reads lines on a thread, so that a test can limit its wait.
fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

/// A running `mcp listen`. Dropping it ends the program.
struct Listening {
    child: Child,
    stdout: Receiver<String>,
}

impl Listening {
    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Listens for changes of `config://app`, and returns when the server has accepted the subscription.
    fn to_config(http: &Http, version: &str) -> Self {
        let mut command = mcp();
        command.args(["listen", &http.url, "config://app", "--revision", version]).stderr(Stdio::piped());
        let mut listening = Self::spawn(&mut command);
        let stderr = lines(listening.child.stderr.take().unwrap());
        assert_eq!(stderr.recv_timeout(TIMEOUT).as_deref(), Ok("listening; Ctrl-C ends it"), "{version}");
        listening
    }

    /// Returns the next line of stdout.
    fn next(&self) -> Option<String> {
        self.stdout.recv_timeout(TIMEOUT).ok()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn listen_prints_updates_when_they_arrive() {
    let http = Http::start();
    for version in ["2025-11-25", "2026-07-28"] {
        let listening = Listening::to_config(&http, version);
        check(&http.url, "call URL touch", 0, "touched", "");
        assert_eq!(listening.next().as_deref(), Some("config://app changed"), "{version}");
    }
}

/// A server of 2025-11-25 that sends invalid notifications after a subscription, and then a valid one.
#[cfg(unix)]
const INVALID_NOTIFICATIONS: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')" "$1"; }
read -r line
answer '{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"x","version":"1"}}'
read -r line
read -r line
answer '{}'
echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"no level"}}'
echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1e999}}'
echo '{"jsonrpc":"2.0","method":"notifications/replay_truncated"}'
echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"in order"}}'
cat > /dev/null
"#;

#[cfg(unix)]
#[test]
fn listen_survives_invalid_notifications_and_reports_a_loss_once() {
    let words = ["listen", "x://y", "--revision", "2025-11-25", "--", "sh", "-c", INVALID_NOTIFICATIONS];
    let listening = Listening::spawn(mcp().args(words).stderr(Stdio::null()));
    let mut printed = Vec::new();
    while let Some(line) = listening.next() {
        printed.push(line);
        let has = |text| printed.iter().any(|line| line == text);
        if has("[info] in order") && has("updates were lost: anything may have changed") {
            break;
        }
    }
    printed.sort();
    assert_eq!(
        printed,
        [
            "[info] in order",
            "updates were lost: anything may have changed",
            r#"{"method":"notifications/message","params":"{\"level\":\"info\",\"data\":1e999}"}"#,
            r#"{"method":"notifications/message","params":{"data":"no level"}}"#,
        ]
    );
}

/// A server of 2025-11-25 that ends after a subscription.
#[cfg(unix)]
const CRASHES: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')" "$1"; }
read -r line
answer '{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"x","version":"1"}}'
read -r line
read -r line
answer '{}'
"#;

#[cfg(unix)]
#[test]
fn listen_reports_a_command_that_ends_and_its_restart() {
    for (json, expected) in [
        (&[][..], ["the connection is lost; mcp opens it again", "the connection is open again"]),
        (&["--json"], [r#"{"connection":"lost"}"#, r#"{"connection":"open"}"#]),
    ] {
        let words = ["--", "sh", "-c", CRASHES];
        let mut command = mcp();
        command.args(["listen", "x://y", "--revision", "2025-11-25"]).args(json).args(words).stderr(Stdio::null());
        let listening = Listening::spawn(&mut command);
        // The message about lost updates may come between them.
        let all = std::iter::from_fn(|| listening.next());
        let read: Vec<String> = all.filter(|line| line.contains("connection")).take(2).collect();
        assert_eq!(read, expected);
    }
}

#[test]
fn listen_reports_a_lost_http_connection_before_it_is_open_again() {
    for version in ["2025-11-25", "2026-07-28"] {
        let http = Http::start();
        let listening = Listening::to_config(&http, version);
        // The server ends, and no other server takes its port.
        drop(http);
        let first = listening.next();
        assert_eq!(first.as_deref(), Some("the connection is lost; mcp opens it again"), "{version}");
    }
}
