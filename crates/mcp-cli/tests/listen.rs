//! `mcp listen`: updates, invalid notifications and lost connections.

use std::process::{Child, Command, Stdio};

#[cfg(unix)]
use super::process::script;
use super::{Http, check, mcp, process::Lines};

/// A running `mcp listen`. Dropping it ends the program.
struct Listening {
    child: Child,
    stdout: Lines,
}

impl Listening {
    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = Lines::of(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Listens for changes of `config://app`, and returns when the server has accepted the subscription.
    fn to_config(http: &Http, version: &str) -> Self {
        let mut command = mcp();
        command.args(["listen", &http.url, "config://app", "--revision", version]).stderr(Stdio::piped());
        let mut listening = Self::spawn(&mut command);
        let mut stderr = Lines::of(listening.child.stderr.take().unwrap());
        assert_eq!(stderr.next().as_deref(), Some("listening; Ctrl-C ends it"), "{version}");
        listening
    }

    /// Returns the next line of stdout.
    fn next(&mut self) -> Option<String> {
        self.stdout.next()
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
        let mut listening = Listening::to_config(&http, version);
        check(&http.url, "call URL touch", 0, "touched", "");
        assert_eq!(listening.next().as_deref(), Some("config://app changed"), "{version}");
    }
}

/// A server of 2025-11-25 that sends invalid notifications after a subscription, and then a valid one.
#[cfg(unix)]
const INVALID_NOTIFICATIONS: &str = r#"
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
    let words = ["listen", "x://y", "--revision", "2025-11-25", "--"];
    let mut listening = Listening::spawn(mcp().args(words).args(script(INVALID_NOTIFICATIONS)).stderr(Stdio::null()));
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
        let mut command = mcp();
        command.args(["listen", "x://y", "--revision", "2025-11-25"]).args(json);
        command.arg("--").args(script(CRASHES)).stderr(Stdio::null());
        let mut listening = Listening::spawn(&mut command);
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
        let mut listening = Listening::to_config(&http, version);
        // The server ends, and no other server takes its port.
        drop(http);
        let first = listening.next();
        assert_eq!(first.as_deref(), Some("the connection is lost; mcp opens it again"), "{version}");
    }
}
