//! The client's end of a connection, as the runner sees it: text out, messages in.

use std::time::Duration;

use bytes::Bytes;
use mcp_server_core::Server;
use mcp_transport::{BoxFuture, Frame, Transport as _, memory, recv};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    task::JoinHandle,
};

use super::{Over, parse::OK};

/// How long anything may take.
pub(super) const LIMIT: Duration = Duration::from_secs(10);
/// Frames, or bytes of a pipe, that may wait for the other side.
const FRAMES: usize = 64;
const PIPE: usize = 64 << 10;

/// A message of the server.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) message: Value,
    /// What HTTP said; where there are no statuses, nothing.
    pub(super) status: Option<u16>,
}

/// The client's end.
pub(super) trait Line: Send {
    /// Sends a message. `value` is what the text says, where it is JSON.
    fn send<'a>(&'a mut self, text: String, value: Option<&'a Value>) -> BoxFuture<'a, Result<(), String>>;

    /// The next message; nothing after the end. Nothing is lost when the future is dropped.
    fn recv(&mut self) -> BoxFuture<'_, Option<Result<Heard, String>>>;

    /// Sends nothing more, so that the server ends.
    fn close(&mut self) -> BoxFuture<'_, Result<(), String>>;
}

pub(super) fn connect(server: &Server, over: Over) -> Box<dyn Line> {
    match over {
        Over::Memory => Box::new(Memory::new(server.clone())),
        Over::Stdio => Box::new(Pipes::new(server.clone())),
        #[cfg(feature = "http")]
        Over::Sse => Box::new(super::sse::Sse::new(server.clone())),
        #[cfg(feature = "http")]
        Over::Http => Box::new(super::http::Http::new(server.clone())),
    }
}

/// A task that ends with this value.
struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) fn heard(bytes: &[u8], status: Option<u16>) -> Result<Heard, String> {
    let message = serde_json::from_slice(bytes)
        .map_err(|error| format!("the server sent what is not JSON ({error}): {}", String::from_utf8_lossy(bytes)))?;
    Ok(Heard { message, status })
}

struct Memory {
    end: memory::MemoryTransport,
    _serving: Serving,
}

impl Memory {
    fn new(server: Server) -> Self {
        let (end, other) = memory::duplex(FRAMES);
        let serving = tokio::spawn(async move {
            // A failure shows as an end that comes too early.
            let _ = server.serve(other).await;
        });
        Self { end, _serving: Serving(serving) }
    }
}

impl Line for Memory {
    fn send<'a>(&'a mut self, text: String, _: Option<&'a Value>) -> BoxFuture<'a, Result<(), String>> {
        let sender = self.end.sender();
        Box::pin(async move {
            sender.send(Frame::new(Bytes::from(text))).await.map_err(|_| "the server has closed".to_owned())
        })
    }

    fn recv(&mut self) -> BoxFuture<'_, Option<Result<Heard, String>>> {
        Box::pin(async move {
            Some(match recv(&mut self.end).await? {
                Ok(frame) => heard(&frame.message, None),
                Err(error) => Err(error.to_string()),
            })
        })
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), String>> {
        let sender = self.end.sender();
        Box::pin(async move { sender.shutdown().await.map_err(|error| error.to_string()) })
    }
}

struct Pipes {
    reader: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    _serving: Serving,
}

impl Pipes {
    fn new(server: Server) -> Self {
        let (end, other) = tokio::io::duplex(PIPE);
        let (reader, writer) = tokio::io::split(end);
        let (theirs, ours) = tokio::io::split(other);
        let serving = tokio::spawn(async move {
            let _ = server.serve_io(theirs, ours).await;
        });
        Self { reader: BufReader::new(reader).lines(), writer, _serving: Serving(serving) }
    }
}

impl Line for Pipes {
    fn send<'a>(&'a mut self, text: String, _: Option<&'a Value>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let line = text + "\n";
            self.writer.write_all(line.as_bytes()).await.map_err(|error| format!("the server has closed: {error}"))
        })
    }

    fn recv(&mut self) -> BoxFuture<'_, Option<Result<Heard, String>>> {
        Box::pin(async move {
            match self.reader.next_line().await {
                Ok(Some(line)) => Some(heard(line.as_bytes(), None)),
                Ok(None) => None,
                Err(error) => Some(Err(error.to_string())),
            }
        })
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.writer.shutdown().await.map_err(|error| error.to_string()) })
    }
}

impl Heard {
    /// Whether the status is the expected one, where there is one.
    pub(super) fn has_status(&self, expected: u16) -> bool {
        self.status.is_none_or(|status| status == expected)
    }

    /// The status to write down, where it is worth a word.
    pub(super) fn status_mark(&self, known: Option<u16>) -> String {
        match self.status.or(known) {
            Some(status) if status != OK => status.to_string(),
            _ => String::new(),
        }
    }
}
