//! Transcripts: text files with the messages of a client and the expected messages of a server.
//!
//! One runner replays a transcript in memory, over pipes and over HTTP.
//!
//! ```no_run
//! use mcp_server_core::{Server, tool};
//! use mcp_test::transcript;
//!
//! fn server() -> Server {
//!     Server::builder("hello", "1.0").tool(tool("hello", async || "Hello!")).build()
//! }
//!
//! # async fn test() {
//! // In a `#[tokio::test]`. With `UPDATE=1` in the environment, the run rewrites the file from the server's messages.
//! transcript::run("tests/transcripts/hello.txt", server).await.unwrap();
//! # }
//! ```
//!
//! # The format
//!
//! A line is a comment, a definition or a message. A line that begins with a blank continues the message before it.
//!
//! ```text
//! # A client reads a paged list.
//!
//! let meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities": {}}
//!
//! > {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": "<meta>"}}
//! < {"jsonrpc": "2.0", "id": 1, "result": {"tools": "<any>", "nextCursor": "<next>", …}}
//! > {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": "<meta>", "cursor": "<next>"}}
//! ```
//!
//! | line | meaning |
//! |---|---|
//! | `# …` | a comment |
//! | `let name = json` | names a value; `"<name>"` has this value in the following lines |
//! | `> json` | the client sends this message |
//! | `>! text` | the client sends this text, which may be invalid |
//! | `< json` | the server sends this message next |
//! | `~ json` | the server sends this message; adjacent `~` messages have any order |
//! | `<404 json`, `~404 json` | the same, with the HTTP status 404 instead of 200 |
//!
//! A message of the server must equal the line. The order of members and the layout do not count. Placeholders match more
//! than one value:
//!
//! - `"<any>"` matches any value, and `<any>` within a longer string matches any text.
//! - `"<name>"` matches the value of this name. If the name has no value yet, it takes the value of the server.
//!
//! After the last line the client closes the connection. The server must not send further messages.
//!
//! # HTTP
//!
//! Over HTTP the runner sends each message as a POST with the headers of its revision: the session id, the version and
//! the mirrored headers `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*`. The runner knows the parameters of listed tools only.
//! After `notifications/initialized` it opens the GET stream of the session. It cancels a stateless request by closing the
//! response. One file therefore serves every transport.

mod client;
mod error;
#[cfg(feature = "http")]
mod http;
mod layout;
mod parse;
mod pattern;
mod record;
mod replay;
#[cfg(feature = "http")]
mod sse;

use std::{env, fs, path::Path};

use mcp_server_core::Server;

use self::parse::Item;
pub use self::{
    error::TranscriptError,
    replay::{Replay, ServerMessage},
};

/// The transport of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportKind {
    /// Frames in memory, without serialization to bytes.
    Memory,
    /// Newline-delimited JSON over a pair of pipes, as on stdio.
    Stdio,
    /// HTTP+SSE, the transport of 2024-11-05, without a socket.
    #[cfg(feature = "http")]
    Sse,
    /// The Streamable HTTP endpoint, without a socket.
    #[cfg(feature = "http")]
    Http,
}

impl TransportKind {
    /// All transports.
    pub const ALL: &'static [Self] = &[
        Self::Memory,
        Self::Stdio,
        #[cfg(feature = "http")]
        Self::Sse,
        #[cfg(feature = "http")]
        Self::Http,
    ];
}

impl std::fmt::Display for TransportKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Stdio => "stdio",
            #[cfg(feature = "http")]
            Self::Sse => "HTTP+SSE",
            #[cfg(feature = "http")]
            Self::Http => "HTTP",
        })
    }
}

/// A parsed transcript. The [crate documentation](crate#examples) has an example.
#[derive(Debug, Clone)]
pub struct Transcript {
    name: String,
    items: Vec<Item>,
}

impl Transcript {
    /// Parses a transcript. Errors refer to it by `name`.
    ///
    /// # Errors
    ///
    /// Fails at the first invalid line.
    ///
    /// ```
    /// use mcp_test::transcript::Transcript;
    ///
    /// let error = Transcript::parse("ping.txt", "# A comment.\n> {").unwrap_err();
    /// assert_eq!(error.line(), Some(2));
    /// ```
    pub fn parse(name: impl Into<String>, text: &str) -> Result<Self, TranscriptError> {
        let name = name.into();
        let items = parse::items(&name, text)?;
        Ok(Self { name, items })
    }

    /// Reads a transcript from a file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, and as [`Transcript::parse`] does.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, TranscriptError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(name, &text),
            Err(error) => Err(TranscriptError::new(&name, None, None, format!("cannot read the file: {error}"))),
        }
    }

    /// Sends the client's messages, and compares the server's messages. Every wait times out after ten seconds.
    ///
    /// # Errors
    ///
    /// Fails at the first message that differs, with its line and the differences.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub async fn replay(&self, server: &Server, transport: TransportKind) -> Result<Replay, TranscriptError> {
        replay::replay(self, server, transport).await
    }

    /// Sends the client's messages, and returns the transcript with the server's messages.
    ///
    /// The result keeps comments and matching placeholders. The runner sends adjacent messages at once. It waits for the
    /// responses to all requests before the next empty line, except for cancelled requests.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails, or if a request gets no response.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime.
    pub async fn record(&self, server: &Server, transport: TransportKind) -> Result<String, TranscriptError> {
        record::record(self, server, transport).await
    }
}

/// Replays the transcript of a file over every transport, with a new server each time, and returns the replays.
///
/// With `UPDATE=1` in the environment, the function first rewrites the file from the server's messages. A change of the
/// server then shows as a change of the file.
///
/// # Errors
///
/// Fails at the first message that differs.
///
/// # Panics
///
/// Panics outside a tokio runtime.
pub async fn run(path: impl AsRef<Path>, server: impl Fn() -> Server) -> Result<Vec<Replay>, TranscriptError> {
    let path = path.as_ref();
    let mut transcript = Transcript::load(path)?;
    if env::var_os("UPDATE").is_some_and(|value| value == "1") {
        // The last transport is HTTP, which also has statuses.
        let transport = TransportKind::ALL.last().copied().unwrap_or(TransportKind::Memory);
        let text = transcript.record(&server(), transport).await?;
        if let Err(error) = fs::write(path, &text) {
            return Err(TranscriptError::new(&transcript.name, None, None, format!("cannot write the file: {error}")));
        }
        transcript = Transcript::parse(transcript.name, &text)?;
    }
    let mut replays = Vec::new();
    for transport in TransportKind::ALL {
        replays.push(transcript.replay(&server(), *transport).await?);
    }
    Ok(replays)
}
