//! The clients of the runner: they send text and receive messages over one transport.

use std::time::Duration;

use bytes::Bytes;
use mcp_server_core::Server;
use mcp_transport::{BoxFuture, Frame, Transport as _, memory, recv};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    task::JoinHandle,
};

use super::{TransportKind, parse::OK};

/// The timeout of every wait.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// The number of frames that wait for the receiver.
const FRAMES: usize = 64;
/// The capacity of a pipe in bytes.
const PIPE: usize = 64 << 10;

/// A message of the server.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) message: Value,
    /// The HTTP status; `None` on other transports.
    pub(super) status: Option<u16>,
}

/// A client of one transport.
pub(super) trait Client: Send {
    /// Sends a message. `value` is the parsed text, if it is JSON.
    fn send<'a>(&'a mut self, text: String, value: Option<&'a Value>) -> BoxFuture<'a, Result<(), String>>;

    /// Receives the next message. Returns `None` at the end. Dropping the future loses no message.
    fn recv(&mut self) -> BoxFuture<'_, Option<Result<Received, String>>>;

    /// Closes the sending half. The server then ends.
    fn close(&mut self) -> BoxFuture<'_, Result<(), String>>;
}

pub(super) fn connect(server: &Server, transport: TransportKind) -> Box<dyn Client> {
    match transport {
        TransportKind::Memory => Box::new(Memory::new(server.clone())),
        TransportKind::Stdio => Box::new(Pipes::new(server.clone())),
        #[cfg(feature = "http")]
        TransportKind::Sse => Box::new(super::sse::Sse::new(server.clone())),
        #[cfg(feature = "http")]
        TransportKind::Http => Box::new(super::http::Http::new(server.clone())),
    }
}

/// A task that is aborted when this value is dropped.
struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) fn parse(bytes: &[u8], status: Option<u16>) -> Result<Received, String> {
    let message = serde_json::from_slice(bytes)
        .map_err(|error| format!("the server sent invalid JSON ({error}): {}", String::from_utf8_lossy(bytes)))?;
    Ok(Received { message, status })
}

struct Memory {
    end: memory::MemoryTransport,
    _serving: Serving,
}

impl Memory {
    fn new(server: Server) -> Self {
        let (end, other) = memory::duplex(FRAMES);
        let serving = tokio::spawn(async move {
            // The replay reports an error of the server as an early end.
            let _ = server.serve(other).await;
        });
        Self { end, _serving: Serving(serving) }
    }
}

impl Client for Memory {
    fn send<'a>(&'a mut self, text: String, _: Option<&'a Value>) -> BoxFuture<'a, Result<(), String>> {
        let sender = self.end.sender();
        Box::pin(async move {
            sender.send(Frame::new(Bytes::from(text))).await.map_err(|_| "the server has closed".to_owned())
        })
    }

    fn recv(&mut self) -> BoxFuture<'_, Option<Result<Received, String>>> {
        Box::pin(async move {
            Some(match recv(&mut self.end).await? {
                Ok(frame) => parse(&frame.message, None),
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
        let (server_reader, server_writer) = tokio::io::split(other);
        let serving = tokio::spawn(async move {
            let _ = server.serve_io(server_reader, server_writer).await;
        });
        Self { reader: BufReader::new(reader).lines(), writer, _serving: Serving(serving) }
    }
}

impl Client for Pipes {
    fn send<'a>(&'a mut self, text: String, _: Option<&'a Value>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let line = text + "\n";
            self.writer.write_all(line.as_bytes()).await.map_err(|error| format!("the server has closed: {error}"))
        })
    }

    fn recv(&mut self) -> BoxFuture<'_, Option<Result<Received, String>>> {
        Box::pin(async move {
            match self.reader.next_line().await {
                Ok(Some(line)) => Some(parse(line.as_bytes(), None)),
                Ok(None) => None,
                Err(error) => Some(Err(error.to_string())),
            }
        })
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.writer.shutdown().await.map_err(|error| error.to_string()) })
    }
}

impl Received {
    /// Returns whether the status is the expected one, or the transport has no statuses.
    pub(super) fn has_status(&self, expected: u16) -> bool {
        self.status.is_none_or(|status| status == expected)
    }

    /// Returns the status for the mark of a line. It is empty for 200.
    pub(super) fn status_mark(&self, known: Option<u16>) -> String {
        match self.status.or(known) {
            Some(status) if status != OK => status.to_string(),
            _ => String::new(),
        }
    }
}
