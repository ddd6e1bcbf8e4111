//! A file of lines, which a thread writes. Each line is one write, so that several processes can share the file.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::{screen::warn, text::line};

/// The number of lines that wait for the file. Further lines are lost, unless their senders wait for the file.
const WAITING: usize = 4096;
/// The longest wait for the file at the start. The open of a pipe without a reader does not end.
const OPEN: Duration = Duration::from_secs(2);
/// The longest wait at the end, for the lines that wait for the file.
const END: Duration = Duration::from_secs(5);

/// The shortest time between two warnings about lost lines.
const QUIET: Duration = Duration::from_secs(1);

/// A file of lines. Clones share it.
#[derive(Clone)]
pub(crate) struct LineFile {
    entries: mpsc::Sender<Entry>,
    losses: Arc<Losses>,
}

/// Counts the lost lines of a file for its warnings.
struct Losses {
    name: String,
    /// The noun of a line, with its article.
    kind: &'static str,
    state: Mutex<Lost>,
}

/// The lost lines since the last warning.
#[derive(Default)]
struct Lost {
    lines: u64,
    reason: String,
    warned: Option<Instant>,
}

impl Losses {
    /// Counts a lost line, and prints a warning unless the last one is recent.
    fn lost(&self, reason: String) {
        {
            let mut lost = self.state.lock();
            lost.lines += 1;
            lost.reason = reason;
        }
        self.warn(Instant::now(), QUIET);
    }

    /// Prints a warning about the lines that were lost since the last one, if it is older than a time.
    fn warn(&self, now: Instant, quiet: Duration) {
        if let Some(text) = self.due(now, quiet) {
            warn(&text);
        }
    }

    fn due(&self, now: Instant, quiet: Duration) -> Option<String> {
        let mut lost = self.state.lock();
        let is_recent = lost.warned.is_some_and(|warned| now.saturating_duration_since(warned) < quiet);
        if lost.lines == 0 || is_recent {
            return None;
        }
        lost.warned = Some(now);
        let more = std::mem::take(&mut lost.lines) - 1;
        let more = if more == 0 { String::new() } else { format!(", and {more} more") };
        Some(format!("{}: {} is lost{more}: {}", self.name, self.kind, lost.reason))
    }
}

/// A line for the file, and the sender that waits for it.
struct Entry {
    line: String,
    stored: Option<oneshot::Sender<io::Result<()>>>,
}

impl LineFile {
    /// Opens the file, and starts its thread. `kind` is the noun of a line for warnings, with its article.
    ///
    /// # Errors
    /// If the file cannot be opened within a time limit. The error has the name of the file.
    pub(crate) async fn open(path: &Path, kind: &'static str) -> io::Result<Self> {
        let (name, path) = (line(&path.display().to_string()), path.to_owned());
        let (entries, waiting) = mpsc::channel(WAITING);
        let (opened, is_open) = oneshot::channel();
        let losses = Arc::new(Losses { name: name.clone(), kind, state: Mutex::default() });
        let of_thread = Arc::clone(&losses);
        let work = move || write_all(&path, waiting, opened, &of_thread);
        let failed =
            |error: io::Error| io::Error::new(error.kind(), format!("{name}: the file cannot be opened: {error}"));
        thread::Builder::new().name("lines".to_owned()).spawn(work).map_err(failed)?;
        let opened = timeout(OPEN, is_open).await.map_err(|elapsed| failed(elapsed.into()))?;
        opened.map_err(|_| failed(ErrorKind::BrokenPipe.into()))?.map_err(failed)?;
        Ok(Self { entries, losses })
    }

    /// Appends a line later. Lost lines are a warning, at most once in a second.
    pub(crate) fn append(&self, line: String) {
        if self.entries.try_send(Entry { line, stored: None }).is_err() {
            self.losses.lost(format!("{WAITING} lines wait for the file"));
        }
    }

    /// Appends a line, and waits until the file has it.
    ///
    /// # Errors
    /// If the line cannot be written.
    pub(crate) async fn store(&self, line: String) -> io::Result<()> {
        let (stored, is_stored) = oneshot::channel();
        let ended = || io::Error::from(ErrorKind::BrokenPipe);
        self.entries.send(Entry { line, stored: Some(stored) }).await.map_err(|_| ended())?;
        is_stored.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Waits until the lines are written, within a time limit.
    pub(crate) async fn finish(&self) {
        if timeout(END, self.store(String::new())).await.is_err() {
            warn(&format!("{}: the last lines are lost: the file did not accept them in time", self.losses.name));
        }
        self.losses.warn(Instant::now(), Duration::ZERO);
    }
}

/// Writes the lines until the end of the program.
fn write_all(
    path: &PathBuf,
    mut waiting: mpsc::Receiver<Entry>,
    opened: oneshot::Sender<io::Result<()>>,
    losses: &Losses,
) {
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
        match &written {
            Ok(()) => losses.warn(Instant::now(), QUIET),
            Err(error) => losses.lost(error.to_string()),
        }
        if let Some(stored) = stored {
            let _ = stored.send(written);
        }
    }
}

fn open(path: &PathBuf) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    // The lines name users and resources.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_lines_are_one_warning_in_a_second() {
        let losses = Losses { name: "a.jsonl".to_owned(), kind: "an audit event", state: Mutex::default() };
        let lose = |lines: u64| losses.state.lock().lines += lines;
        losses.state.lock().reason = "full".to_owned();
        let began = Instant::now();
        let due = |millis: u64, quiet: Duration| losses.due(began + Duration::from_millis(millis), quiet);
        assert_eq!(due(0, QUIET), None);
        lose(1);
        assert_eq!(due(0, QUIET).unwrap(), "a.jsonl: an audit event is lost: full");
        lose(500);
        assert_eq!(due(999, QUIET), None);
        assert_eq!(due(1000, QUIET).unwrap(), "a.jsonl: an audit event is lost, and 499 more: full");
        lose(2);
        // The end of the program shows all losses.
        assert_eq!(due(1001, Duration::ZERO).unwrap(), "a.jsonl: an audit event is lost, and 1 more: full");
        assert_eq!(due(9000, QUIET), None);
    }
}
