//! Transcripts: text files of what a client sends and what the server must answer, replayed by one runner over memory,
//! pipes and HTTP.
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
//! // In a `#[tokio::test]`. With `UPDATE=1` in the environment the file is rewritten to what the server says now.
//! transcript::run("tests/transcripts/hello.txt", server).await.unwrap();
//! # }
//! ```
//!
//! # The format
//!
//! Lines are comments, definitions and messages; a line that begins with a blank goes on with the message before it.
//!
//! ```text
//! # What this transcript is about.
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
//! | `let name = json` | gives a value a name; `"<name>"` stands for it from there on |
//! | `> json` | the client sends this message |
//! | `>! text` | the client sends this text, whatever it is |
//! | `< json` | the server answers this, before anything else |
//! | `~ json` | the server answers this; adjacent `~` messages come in any order |
//! | `<404 json`, `~404 json` | the same, and over HTTP the status is 404 instead of 200 |
//!
//! A message of the server must be equal to the line, whatever the order of members and the layout. These strings are
//! not compared as they stand: `"<any>"` is any value, `<any>` within a longer string is any text, and `"<name>"` is the
//! value of that name; where the name has none yet, it takes the one that the server sent. After the last line the client
//! leaves, and the server must have nothing more to say.
//!
//! # What the runner adds
//!
//! Over HTTP each message is a POST with the headers of its revision, as a real client sends them: the session id, the
//! version, and the mirrored `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` (for tools that were listed before). The stream
//! for unasked messages is opened after `notifications/initialized`, and a stateless request is cancelled by closing its
//! response. So one file does for every transport, where the messages themselves are the same.

mod error;
#[cfg(feature = "http")]
mod http;
mod layout;
mod line;
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
    error::Failure,
    replay::{Replay, ServerMessage},
};

/// What a transcript is replayed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Over {
    /// Frames in memory.
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

impl Over {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Memory,
        Self::Stdio,
        #[cfg(feature = "http")]
        Self::Sse,
        #[cfg(feature = "http")]
        Self::Http,
    ];
}

impl std::fmt::Display for Over {
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

/// A transcript that was read.
#[derive(Debug, Clone)]
pub struct Transcript {
    name: String,
    items: Vec<Item>,
}

impl Transcript {
    /// Reads a transcript; `name` is what failures call it.
    ///
    /// # Errors
    /// The first line that cannot be read, and why.
    pub fn parse(name: impl Into<String>, text: &str) -> Result<Self, Failure> {
        let name = name.into();
        let items = parse::items(&name, text)?;
        Ok(Self { name, items })
    }

    /// Reads a transcript from a file.
    ///
    /// # Errors
    /// When the file cannot be read, and as [`Transcript::parse`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Failure> {
        let path = path.as_ref();
        let name = path.display().to_string();
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(name, &text),
            Err(error) => Err(Failure::new(&name, None, None, format!("cannot be read: {error}"))),
        }
    }

    /// Sends what the client sends, and compares what the server answers. Every wait is bounded by ten seconds.
    ///
    /// # Errors
    /// The first message that differs, with its line and the differences.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn replay(&self, server: &Server, over: Over) -> Result<Replay, Failure> {
        replay::replay(self, server, over).await
    }

    /// Sends what the client sends, and returns the transcript with what the server answers. Comments, and placeholders
    /// that fit, stay. Messages that are sent next to each other are sent at once, and every request is answered before
    /// the next empty line, unless it is cancelled.
    ///
    /// # Errors
    /// When the connection fails, or a request is not answered.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn record(&self, server: &Server, over: Over) -> Result<String, Failure> {
        record::record(self, server, over).await
    }
}

/// Replays the transcript of a file over every transport, each time with a server of its own, and returns what was said.
///
/// With `UPDATE=1` in the environment the file is rewritten first, so that a change of the server shows as a change of
/// the file.
///
/// # Errors
/// The first message that differs on the first transport that fails.
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn run(path: impl AsRef<Path>, server: impl Fn() -> Server) -> Result<Vec<Replay>, Failure> {
    let path = path.as_ref();
    let mut transcript = Transcript::load(path)?;
    if env::var_os("UPDATE").is_some_and(|value| value == "1") {
        // The last transport is the one that has the most to say: statuses.
        let over = Over::ALL.last().copied().unwrap_or(Over::Memory);
        let text = transcript.record(&server(), over).await?;
        if let Err(error) = fs::write(path, &text) {
            return Err(Failure::new(&transcript.name, None, None, format!("cannot be written: {error}")));
        }
        transcript = Transcript::parse(transcript.name, &text)?;
    }
    let mut replays = Vec::new();
    for over in Over::ALL {
        replays.push(transcript.replay(&server(), *over).await?);
    }
    Ok(replays)
}
