//! The writer of a recording.

use std::{
    fmt,
    fs::OpenOptions,
    io::{self, Write},
    path::Path,
    sync::Arc,
    time::Instant,
};

use mcp_transport::{Connect, Frame, Route, TransportError};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use super::{
    connector::RecordingConnector,
    line::{Event, FORMAT, Head, Line, VERSION},
    redaction::Secrets,
};

/// The largest file, in bytes.
const LARGEST: u64 = 256 << 20;

/// Writes the messages of all its connectors to one file.
///
/// A failed write ends the recording, and never a connection: [`finish`](Self::finish) returns the error. Clones write to the
/// same file.
///
/// ```
/// use mcp_agent::record::Recorder;
/// use mcp_server::Server;
///
/// let recorder = Recorder::new(std::io::sink());
/// let connector = recorder.connector("empty", Server::builder("empty", "1.0").build());
/// # let _ = connector;
/// recorder.finish()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    out: Box<dyn Write + Send>,
    started: Instant,
    connections: u64,
    written: u64,
    largest: u64,
    secrets: Secrets,
    /// Whether the recording ended: its limit is reached, a write failed, or it is finished.
    is_over: bool,
    error: Option<io::Error>,
}

impl Recorder {
    /// Returns a recorder that writes to `out`. Each message is one write.
    #[must_use]
    pub fn new(out: impl Write + Send + 'static) -> Self {
        let mut shared = Shared {
            out: Box::new(out),
            started: Instant::now(),
            connections: 0,
            written: 0,
            largest: LARGEST,
            secrets: Secrets::default(),
            is_over: false,
            error: None,
        };
        shared.write(&Head { format: FORMAT.to_owned(), version: VERSION });
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Returns a recorder that writes to a new file. On Unix only the user can read the file (0600).
    ///
    /// # Errors
    /// The file cannot be created, or the path is not a regular file. An old file of this name is replaced.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        // The open of a pipe would wait for a reader.
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path of the recording is not a regular file"));
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        // The mode of an old file can be another one.
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        Ok(Self::new(file))
    }

    /// Sets the largest size of the file in bytes. Default: 256 MiB. Further messages are not recorded.
    #[must_use]
    pub fn max_bytes(self, bytes: u64) -> Self {
        self.shared.lock().largest = bytes;
        self
    }

    /// Replaces a value by `[redacted]` in all later messages. An empty value has no effect.
    ///
    /// ```
    /// use mcp_agent::record::Recorder;
    ///
    /// let recorder = Recorder::new(std::io::sink()).redact("hunter2");
    /// # recorder.finish()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn redact(self, value: impl Into<String>) -> Self {
        self.shared.lock().secrets.add(value.into());
        self
    }

    pub(crate) fn hide(&self, value: &str) {
        self.shared.lock().secrets.add(value.to_owned());
    }

    /// Returns a connector that records the connections of a server. `server` is the name of the server in the host.
    #[must_use]
    pub fn connector(&self, server: impl Into<String>, inner: impl Connect) -> RecordingConnector {
        self.connector_of(server, Arc::new(inner))
    }

    /// Returns a connector that records the connections of a shared connector.
    #[must_use]
    pub fn connector_of(&self, server: impl Into<String>, inner: Arc<dyn Connect>) -> RecordingConnector {
        RecordingConnector::new(self.clone(), server.into(), inner)
    }

    /// Ends the recording. Later messages are not recorded.
    ///
    /// # Errors
    /// The first error of a write.
    pub fn finish(&self) -> io::Result<()> {
        let mut shared = self.shared.lock();
        shared.is_over = true;
        match shared.error.take() {
            Some(error) => Err(error),
            None => shared.out.flush(),
        }
    }

    /// Returns the number of a new connection.
    pub(super) fn open(&self) -> u64 {
        let mut shared = self.shared.lock();
        shared.connections += 1;
        shared.connections
    }

    pub(super) fn opened(&self, connection: u64, server: &str, result: Result<bool, &TransportError>) {
        let mut line = Line::new(connection, Event::Opened);
        line.server = Some(server.to_owned());
        match result {
            Ok(streams) => line.streams = Some(streams),
            Err(error) => {
                line.event = Event::Unreachable;
                line.text = Some(error.to_string());
            }
        }
        self.shared.lock().add(line);
    }

    pub(super) fn received(&self, connection: u64, frame: &Frame) {
        if self.is_over() {
            return;
        }
        self.shared.lock().add(message(connection, Event::Received, frame));
    }

    /// Runs `send` and records the frame if it succeeds. The lock keeps the response behind the request.
    pub(super) fn sent<E>(
        &self,
        connection: u64,
        frame: &Frame,
        send: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if self.is_over() {
            return send();
        }
        let line = message(connection, Event::Sent, frame);
        let mut shared = self.shared.lock();
        send()?;
        shared.add(line);
        Ok(())
    }

    pub(super) fn fault(&self, connection: u64, error: &TransportError) {
        let mut line = Line::new(connection, Event::Fault);
        line.text = Some(error.to_string());
        line.route = error.request().and_then(|id| serde_json::to_value(id).ok());
        self.shared.lock().add(line);
    }

    /// Whether no further message is recorded, so that the connectors need not read the messages.
    fn is_over(&self) -> bool {
        self.shared.lock().is_over
    }

    pub(super) fn ended(&self, connection: u64) {
        self.shared.lock().add(Line::new(connection, Event::Ended));
    }
}

fn message(connection: u64, event: Event, frame: &Frame) -> Line {
    let mut line = Line::new(connection, event);
    match serde_json::from_slice::<Value>(&frame.message) {
        Ok(message) => line.message = Some(message),
        Err(_) => line.raw = Some(String::from_utf8_lossy(&frame.message).into_owned()),
    }
    if let Route::Request(id) = &frame.route {
        line.route = serde_json::to_value(id).ok();
    }
    line
}

impl Shared {
    fn add(&mut self, mut line: Line) {
        if self.is_over {
            return;
        }
        line.message.iter_mut().for_each(|message| self.secrets.hide(message));
        [&mut line.raw, &mut line.text].into_iter().flatten().for_each(|text| self.secrets.hide_text(text));
        line.at = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.write(&line);
    }

    fn write<T: Serialize>(&mut self, line: &T) {
        if self.is_over {
            return;
        }
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        if self.written + text.len() as u64 > self.largest {
            tracing::warn!(limit = self.largest, "a recording reached its limit, and further messages are missing");
            self.is_over = true;
            let Ok(mut last) = serde_json::to_vec(&Line::new(0, Event::Truncated)) else { return };
            last.push(b'\n');
            self.error = self.out.write_all(&last).err();
            return;
        }
        self.written += text.len() as u64;
        if let Err(error) = self.out.write_all(&text) {
            tracing::warn!(%error, "a recording cannot be written, and further messages are missing");
            self.is_over = true;
            self.error = Some(error);
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}
