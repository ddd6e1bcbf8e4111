//! The reader of a recording.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    difference::Difference,
    line::{Event, FORMAT, Head, Line, VERSION},
    replay::ReplayConnector,
    script::Script,
};
use crate::bounded_file;

/// The largest file that is read, in bytes.
const LARGEST: u64 = 512 << 20;

/// The messages of a run, for a replay without servers.
///
/// The n-th connection to a server gets the messages of the n-th recorded connection to the server of this name. A request
/// matches a recorded request with the same method and parameters, in any order. A request without a match gets an error, and
/// [`differences`](Self::differences) lists it. Clones share the state.
///
/// ```
/// use mcp_agent::record::Recording;
///
/// let recording = Recording::parse("{\"format\":\"mcp-recording\",\"version\":1}\n")?;
/// assert!(recording.servers().is_empty());
/// # Ok::<(), mcp_agent::record::RecordingError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Recording {
    shared: Arc<Mutex<Shared>>,
    is_truncated: bool,
}

#[derive(Debug)]
pub(super) struct Shared {
    /// The connections of each server that are not replayed yet.
    waiting: BTreeMap<String, VecDeque<Connection>>,
    /// The connections that are replayed, with the names of their servers.
    replayed: Vec<(String, Arc<Mutex<Script>>)>,
}

/// A recorded connection.
#[derive(Debug)]
enum Connection {
    Open(Arc<Mutex<Script>>),
    Unreachable(String),
}

/// The error of a file that is not a recording.
///
/// ```
/// use mcp_agent::record::Recording;
///
/// let error = Recording::parse("{}").unwrap_err();
/// assert!(error.to_string().starts_with("line 1: "));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingError {
    line: Option<usize>,
    text: String,
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line.map_or(Ok(()), |line| write!(f, "line {line}: "))?;
        f.write_str(&self.text)
    }
}

impl std::error::Error for RecordingError {}

impl RecordingError {
    /// Returns the number of the line, from 1.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    fn at(line: usize, text: impl fmt::Display) -> Self {
        Self { line: Some(line), text: text.to_string() }
    }
}

impl Recording {
    /// Reads a recording from a file of at most 512 MiB. The function blocks the thread for the time of the read.
    ///
    /// # Errors
    /// The file cannot be read, or [`parse`](Self::parse) rejects it.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let unreadable = |text: String| RecordingError { line: None, text: format!("{}: {text}", path.display()) };
        Self::parse(&bounded_file::read_text(path, LARGEST).map_err(|error| unreadable(error.to_string()))?)
    }

    /// Reads a recording from text. An incomplete last line is left out, because a process can end during a write.
    ///
    /// # Errors
    /// A line is not a line of a recording. The error names the line.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let count = text.lines().count();
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        let head: Head = match lines.next() {
            Some((number, line)) => serde_json::from_str(line)
                .map_err(|error| RecordingError::at(number, format!("not the head of a recording: {error}")))?,
            None => return Err(RecordingError::at(1, "the file is empty")),
        };
        if head.format != FORMAT || head.version != VERSION {
            let text = format!("expected {FORMAT} version {VERSION}, got {:?} version {}", head.format, head.version);
            return Err(RecordingError::at(1, text));
        }
        let mut connections: BTreeMap<u64, (String, Vec<Line>)> = BTreeMap::new();
        let mut is_truncated = false;
        for (number, line) in lines {
            let line: Line = match serde_json::from_str(line) {
                Ok(line) => line,
                Err(_) if number == count && !text.ends_with('\n') => {
                    is_truncated = true;
                    continue;
                }
                Err(error) => return Err(RecordingError::at(number, error)),
            };
            match (line.event, &line.server) {
                (Event::Truncated, _) => is_truncated = true,
                (Event::Opened | Event::Unreachable, Some(server)) => {
                    connections.insert(line.connection, (server.clone(), vec![line]));
                }
                (Event::Opened | Event::Unreachable, None) => {
                    return Err(RecordingError::at(number, "the line has no `server`"));
                }
                _ => match connections.get_mut(&line.connection) {
                    Some((_, lines)) => lines.push(line),
                    None => return Err(RecordingError::at(number, "the connection was not opened before")),
                },
            }
        }
        let mut waiting: BTreeMap<String, VecDeque<Connection>> = BTreeMap::new();
        for (server, lines) in connections.into_values() {
            let connection = match &lines[0] {
                Line { event: Event::Unreachable, text, .. } => {
                    Connection::Unreachable(text.clone().unwrap_or_default())
                }
                _ => Connection::Open(Arc::new(Mutex::new(Script::new(lines)))),
            };
            waiting.entry(server).or_default().push_back(connection);
        }
        Ok(Self { shared: Arc::new(Mutex::new(Shared { waiting, replayed: Vec::new() })), is_truncated })
    }

    /// Returns a connector that answers as the server of this name did.
    #[must_use]
    pub fn connector(&self, server: impl Into<String>) -> ReplayConnector {
        ReplayConnector::new(self.clone(), server.into())
    }

    /// Returns the names of the recorded servers with connections that are not replayed yet.
    #[must_use]
    pub fn servers(&self) -> Vec<String> {
        self.shared.lock().waiting.iter().filter(|(_, list)| !list.is_empty()).map(|(name, _)| name.clone()).collect()
    }

    /// Whether messages are missing, because the recording reached its limit or its process ended.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Returns the differences between the run and its recording so far, in the order of the connections.
    #[must_use]
    pub fn differences(&self) -> Vec<Difference> {
        self.each_script(Script::differences)
    }

    /// Returns the recorded requests of replayed connections that the run did not send. After a complete replay the list is
    /// empty.
    #[must_use]
    pub fn missing(&self) -> Vec<Difference> {
        self.each_script(Script::missing)
    }

    fn each_script(&self, list: impl Fn(&Script, &str) -> Vec<Difference>) -> Vec<Difference> {
        let replayed = self.shared.lock().replayed.clone();
        replayed.iter().flat_map(|(server, script)| list(&script.lock(), server)).collect()
    }

    /// Returns the script of the next connection to a server.
    ///
    /// # Errors
    /// The reason why the recording has no further connection.
    pub(super) fn next(&self, server: &str) -> Result<Arc<Mutex<Script>>, String> {
        let mut shared = self.shared.lock();
        match shared.waiting.get_mut(server).and_then(VecDeque::pop_front) {
            Some(Connection::Open(script)) => {
                shared.replayed.push((server.to_owned(), Arc::clone(&script)));
                Ok(script)
            }
            Some(Connection::Unreachable(text)) => Err(text),
            None => Err(format!("the recording has no further connection to {server:?}")),
        }
    }
}
