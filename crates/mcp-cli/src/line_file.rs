//! A file of lines, which a thread writes. Each line is one write, so that several processes can share the file.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

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

/// A file of lines. Clones share it.
#[derive(Clone)]
pub(crate) struct LineFile {
    entries: mpsc::Sender<Entry>,
    name: String,
    /// The noun of a line, for warnings.
    kind: &'static str,
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
        let of_thread = name.clone();
        let work = move || write_all(&path, waiting, opened, &of_thread, kind);
        let failed =
            |error: io::Error| io::Error::new(error.kind(), format!("{name}: the file cannot be opened: {error}"));
        thread::Builder::new().name("lines".to_owned()).spawn(work).map_err(failed)?;
        let opened = timeout(OPEN, is_open).await.map_err(|elapsed| failed(elapsed.into()))?;
        opened.map_err(|_| failed(ErrorKind::BrokenPipe.into()))?.map_err(failed)?;
        Ok(Self { entries, name, kind })
    }

    /// Appends a line later. A lost line is a warning.
    pub(crate) fn append(&self, line: String) {
        if self.entries.try_send(Entry { line, stored: None }).is_err() {
            warn(&format!("{}: {} is lost: {WAITING} lines wait for the file", self.name, self.kind));
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
            warn(&format!("{}: the last lines are lost: the file did not accept them in time", self.name));
        }
    }
}

/// Writes the lines until the end of the program.
fn write_all(
    path: &PathBuf,
    mut waiting: mpsc::Receiver<Entry>,
    opened: oneshot::Sender<io::Result<()>>,
    name: &str,
    kind: &str,
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
        if let Err(error) = &written {
            warn(&format!("{name}: {kind} is lost: {error}"));
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
