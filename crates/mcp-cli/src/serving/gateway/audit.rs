//! The file of audit events: one line of JSON for each decision about a call.

use std::{
    error::Error,
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use mcp_agent::policy::{AuditEvent, AuditSink};
use mcp_transport::BoxFuture;
use serde_json::json;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::status::seconds;
use crate::{failure::Failure, screen::warn, text::line};

/// The number of events that wait for the file. Further events are lost, unless their calls wait for the file.
const WAITING: usize = 4096;
/// The longest wait for the file at the start. The open of a pipe without a reader does not end.
const OPEN: Duration = Duration::from_secs(2);
/// The longest wait at the end, for the events that wait for the file.
const END: Duration = Duration::from_secs(5);

/// A file of audit events, which a thread writes. Each event is one write, so that several gateways can share the file.
#[derive(Clone)]
pub(super) struct AuditFile {
    entries: mpsc::Sender<Entry>,
    name: String,
}

/// A line for the file, and the call that waits for it.
struct Entry {
    line: String,
    stored: Option<oneshot::Sender<io::Result<()>>>,
}

impl AuditFile {
    /// Opens the file, and starts its thread.
    pub(super) async fn open(path: &Path) -> Result<Self, Failure> {
        let (name, path) = (line(&path.display().to_string()), path.to_owned());
        let (entries, waiting) = mpsc::channel(WAITING);
        let (opened, is_open) = oneshot::channel();
        let of_thread = name.clone();
        let work = move || write_all(&path, waiting, opened, &of_thread);
        let failed = |error: &dyn Error| Failure::usage(format!("{name}: the file cannot be opened: {error}"));
        thread::Builder::new().name("audit".to_owned()).spawn(work).map_err(|error| failed(&error))?;
        match timeout(OPEN, is_open).await {
            Ok(Ok(Ok(()))) => Ok(Self { entries, name }),
            Ok(Ok(Err(error))) => Err(failed(&error)),
            Ok(Err(error)) => Err(failed(&error)),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Waits until the events are written, within a time limit.
    pub(super) async fn finish(&self) {
        let (stored, is_stored) = oneshot::channel();
        let written = async {
            let _ = self.entries.send(Entry { line: String::new(), stored: Some(stored) }).await;
            let _ = is_stored.await;
        };
        if timeout(END, written).await.is_err() {
            warn(&format!("{}: the last audit events are lost: the file did not accept them in time", self.name));
        }
    }
}

impl AuditSink for AuditFile {
    /// Appends an event later. A lost event is a warning.
    fn record(&self, event: &AuditEvent) {
        if self.entries.try_send(Entry { line: text(event), stored: None }).is_err() {
            warn(&format!("{}: an audit event is lost: {WAITING} events wait for the file", self.name));
        }
    }

    fn store<'a>(&'a self, event: &'a AuditEvent) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        Box::pin(async move {
            let (stored, is_stored) = oneshot::channel();
            self.entries.send(Entry { line: text(event), stored: Some(stored) }).await?;
            Ok(is_stored.await??)
        })
    }
}

/// Writes the lines until the end of the gateway.
fn write_all(path: &PathBuf, mut waiting: mpsc::Receiver<Entry>, opened: oneshot::Sender<io::Result<()>>, name: &str) {
    let mut file = match open(path) {
        Ok(file) => Appended { file, is_cut: false },
        Err(error) => {
            let _ = opened.send(Err(error));
            return;
        }
    };
    let _ = opened.send(Ok(()));
    while let Some(Entry { line, stored }) = waiting.blocking_recv() {
        let written = file.append(&line);
        if let Err(error) = &written {
            warn(&format!("{name}: an audit event is lost: {error}"));
        }
        if let Some(stored) = stored {
            let _ = stored.send(written);
        }
    }
}

fn open(path: &PathBuf) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    // The events name users and resources.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// A file with whole lines.
struct Appended {
    file: File,
    /// A failed write left a part of a line.
    is_cut: bool,
}

impl Appended {
    fn append(&mut self, line: &str) -> io::Result<()> {
        let text = if self.is_cut { format!("\n{line}") } else { line.to_owned() };
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = &rest[written..];
                    self.is_cut = !rest.is_empty();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns the line of an event.
fn text(event: &AuditEvent) -> String {
    let mut text = json!({
        "at": seconds(event.at),
        "action": format!("{:?}", event.action),
        "server": event.server,
        "name": event.tool,
        "principal": event.principal,
        "effect": event.effect.to_string(),
        "decidedBy": format!("{:?}", event.decided_by),
        "policy": event.policy,
        "outcome": format!("{:?}", event.outcome),
        "reason": event.reason,
        "waitedMs": u64::try_from(event.waited.as_millis()).unwrap_or(u64::MAX),
    })
    .to_string();
    text.push('\n');
    text
}
