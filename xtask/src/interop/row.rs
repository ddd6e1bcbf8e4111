//! One client over one transport: starts its script and collects its reports.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error};

use serde::Deserialize;

use super::{
    install::Ready,
    matrix::{Cell, Columns},
    peers::{Era, Transport},
};
use crate::{
    conformance::fixture::{Protected, Server},
    process::{self, Running},
};

/// The number of kept lines of a client's error stream, which explain an early exit.
const KEPT_LINES: usize = 12;
/// How long a client may take to end once its streams are closed.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The server that a client connects to.
pub(super) struct Target {
    config: serde_json::Value,
    /// Killed when this value is dropped. Over stdio the client starts the server.
    _server: Held,
}

/// The server that a target keeps alive.
#[expect(dead_code, reason = "the drop of the value ends the server")]
enum Held {
    None,
    Server(Server),
    Protected(Protected),
}

impl Target {
    /// Our server, started here when it is to listen.
    pub(super) fn new(transport: Transport, era: Era, binary: &Path) -> Result<Self, Error> {
        let mut config = serde_json::json!({ "transport": transport.name(), "era": era.name() });
        let server = match transport {
            Transport::Stdio => {
                config["command"] = binary.to_string_lossy().into();
                config["args"] = serde_json::json!(["--stdio"]);
                Held::None
            }
            Transport::Http => {
                let server = Server::start(binary)?;
                config["url"] = server.url.as_str().into();
                Held::Server(server)
            }
        };
        Ok(Self { config, _server: server })
    }

    /// A gateway over HTTP, which runs, in front of a server of the era `upstream`.
    pub(super) fn gateway(server: Server, era: Era, upstream: Era) -> Self {
        let config = serde_json::json!({
            "transport": Transport::Http.name(), "era": era.name(), "url": server.url, "upstream": upstream.name(),
        });
        Self { config, _server: Held::Server(server) }
    }

    /// The example `protected`, which runs.
    pub(super) fn protected(server: Protected, era: Era) -> Self {
        let config = serde_json::json!({
            "transport": Transport::Http.name(), "era": era.name(), "url": server.url, "issuer": server.issuer,
        });
        Self { config, _server: Held::Protected(server) }
    }
}

/// One line of a script: a check and how it ended.
#[derive(Debug, Deserialize)]
struct Report {
    check: String,
    status: String,
    #[serde(default)]
    reason: String,
}

/// The script of a foreign client, with the server's address.
pub(super) fn script(ready: &Ready, script: &str, target: &Target) -> Command {
    let home = ready.dir.join("home");
    let mut command = Command::new(&ready.program);
    command.current_dir(&ready.dir).arg(script).arg(target.config.to_string());
    command.env("HOME", &home).env("USERPROFILE", &home).env("PYTHONUTF8", "1").env("NO_COLOR", "1");
    command
}

/// Runs all checks of a client within `limit` and returns one cell per column.
pub(super) fn run(mut command: Command, columns: Columns, limit: Duration) -> Result<Vec<Cell>, Error> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", process::display(&command)))?;
    let (reports, complaints) = (child.stdout.take().map(lines), child.stderr.take().map(tail));
    let child = Running(child);
    let deadline = Instant::now() + limit;
    let mut cells: Vec<Option<Cell>> = columns.iter().map(|_| None).collect();
    let mut end = "the client ended before this".to_owned();
    while let Some(reports) = &reports {
        match reports.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => note(&line, columns, &mut cells),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                end = format!("the client was not done after {} s", limit.as_secs());
                break;
            }
        }
    }
    // A client that hangs at its end has finished its checks. The drop of `child` kills it.
    let ended = child.wait(END_LIMIT.min(deadline.saturating_duration_since(Instant::now())));
    if cells.iter().any(Option::is_none) {
        if let Ok(status) = ended {
            end = format!("{end} ({status})");
        }
        let complaints = complaints.and_then(|tail| tail.recv_timeout(END_LIMIT).ok()).unwrap_or_default();
        end = complaints.iter().fold(end, |end, line| end + "\n    " + line);
    }
    Ok(explained(cells, &end))
}

/// The cells of a client that could not be started, or that had no server to talk to.
pub(super) fn not_started(error: &Error, columns: Columns) -> Vec<Cell> {
    explained(columns.iter().map(|_| None).collect(), &format!("{error:#}"))
}

/// Stores a report in its cell. Other output of the client is ignored.
fn note(line: &str, columns: Columns, cells: &mut [Option<Cell>]) {
    let Ok(Report { check, status, reason }) = serde_json::from_str(line) else { return };
    let Some(column) = columns.iter().position(|name| *name == check) else { return };
    cells[column] = Some(match status.as_str() {
        "ok" => Cell::Ok,
        "n/a" => Cell::NotOffered(reason),
        _ => Cell::Failed(reason),
    });
}

/// Fills the columns that nothing was reported for: the first with the reason, the others point to it.
fn explained(cells: Vec<Option<Cell>>, end: &str) -> Vec<Cell> {
    let mut explained = false;
    let cells = cells.into_iter().map(|cell| match cell {
        Some(Cell::Failed(reason)) => {
            explained = true;
            Cell::Failed(reason)
        }
        Some(cell) => cell,
        None if explained => Cell::NotReached,
        None => {
            explained = true;
            Cell::Failed(end.to_owned())
        }
    });
    cells.collect()
}

/// The lines of a stream, one at a time.
fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            // The thread reads the stream to its end, also without a receiver: a full pipe would stop the client.
            let _ = send.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
    lines
}

/// The last lines of a stream, once it has ended.
fn tail(stream: impl Read + Send + 'static) -> Receiver<VecDeque<String>> {
    let (send, tail) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = VecDeque::new();
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            if kept.len() == KEPT_LINES {
                kept.pop_front();
            }
            kept.push_back(String::from_utf8_lossy(&line).into_owned());
        }
        // The receiver is dropped when the client has reported each check.
        let _ = send.send(kept);
    });
    tail
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::interop::matrix::COLUMNS;

    /// A client that is a shell script: `sh` runs the script of the table.
    fn cells(script: &str, limit: Duration) -> Vec<Cell> {
        let dir = std::env::temp_dir().join(format!("xtask-interop-{}-{}", std::process::id(), script.len()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("script"), script).unwrap();
        let ready = Ready { program: PathBuf::from("/bin/sh"), dir: dir.clone() };
        let target = Target::new(Transport::Stdio, Era::Legacy, Path::new("server")).unwrap();
        let cells = run(super::script(&ready, "script", &target), COLUMNS, limit).unwrap();
        std::fs::remove_dir_all(dir).unwrap();
        cells
    }

    #[test]
    fn reports_become_cells() {
        let mut script = String::from("echo noise\n");
        for column in COLUMNS {
            let (status, reason) = match *column {
                "complete" => ("n/a", "not offered"),
                "read" => ("fail", "no PNG came"),
                _ => ("ok", ""),
            };
            script += &format!("echo '{{\"check\":\"{column}\",\"status\":\"{status}\",\"reason\":\"{reason}\"}}'\n");
        }
        for (column, cell) in COLUMNS.iter().zip(cells(&script, Duration::from_secs(30))) {
            let expected = match *column {
                "complete" => Cell::NotOffered("not offered".into()),
                "read" => Cell::Failed("no PNG came".into()),
                _ => Cell::Ok,
            };
            assert_eq!(cell, expected, "{column}");
        }
    }

    #[test]
    fn an_early_exit_fails_the_next_check_only() {
        let script = "echo '{\"check\":\"connect\",\"status\":\"ok\"}'; echo why >&2; exit 3";
        let cells = cells(script, Duration::from_secs(30));
        let expected = "the client ended before this (exit status: 3)\n    why";
        assert_eq!(cells[..3], [Cell::Ok, Cell::Failed(expected.into()), Cell::NotReached]);
    }

    #[test]
    fn a_client_that_hangs_is_killed_and_keeps_its_reports() {
        let script = "echo '{\"check\":\"connect\",\"status\":\"ok\"}'\nexec sleep 600";
        let started = Instant::now();
        let cells = cells(script, Duration::from_secs(1));
        assert_eq!(cells[..2], [Cell::Ok, Cell::Failed("the client was not done after 1 s".into())]);
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}
