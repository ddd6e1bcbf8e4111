//! Recordings: all messages between a host and its servers in a file, and a replay without the servers.
//!
//! A [`Recorder`] wraps the connectors of servers, and writes each message to a file of JSON lines. A [`Recording`] reads
//! the file, and offers connectors that answer as the servers did. So a test of an agent needs no servers, and a report of a
//! fault contains the whole run.
//!
//! ```
//! use mcp_agent::record::{Recorder, Recording};
//! use mcp_client::Client;
//! use mcp_server::{Server, tool};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("mcp-agent-doc-{}.jsonl", std::process::id()));
//! let server = Server::builder("greeter", "1.0").tool(tool("greet", async || "Hello!")).build();
//! let recorder = Recorder::create(&path)?;
//! let client = Client::connect(recorder.connector("greeter", server)).await?;
//! assert_eq!(client.call_tool("greet", ()).await?.text(), "Hello!");
//! client.close().await;
//! recorder.finish()?;
//!
//! let recording = Recording::load(&path)?;
//! let client = Client::connect(recording.connector("greeter")).await?;
//! assert_eq!(client.call_tool("greet", ()).await?.text(), "Hello!");
//! assert!(recording.differences().is_empty());
//! # std::fs::remove_file(path)?;
//! # Ok(())
//! # }
//! ```
//!
//! # The file
//!
//! Each line is a JSON object. The first line is `{"format":"mcp-recording","version":1}`. The other lines have a member
//! `connection`, the number of the connection, and a member `event`:
//!
//! | `event` | meaning | members |
//! |---|---|---|
//! | `opened` | the host opened a connection | `server`; `streams`: whether each request has its own stream |
//! | `unreachable` | the server could not be reached | `server`, `text` |
//! | `sent`, `received` | a message of the host, or of the server | `message`; `raw` instead, if it is not JSON; `route`: the id of the request whose stream it belongs to |
//! | `fault` | the transport reported an error | `text`; `route`: the request that it ended |
//! | `ended` | the server closed the connection | |
//! | `truncated` | the limit of the file is reached, and further messages are missing | |
//!
//! `at` is the time in milliseconds since the start of the recording. HTTP headers and credentials are not messages, so the
//! file does not contain them. It contains the arguments and results of all calls.
//!
//! # Secrets
//!
//! The text `[redacted]` replaces the values of [`Recorder::redact`], and the texts of members with the name of a secret, such as
//! `password` and `api_key`. [`HostBuilder::record`](crate::HostBuilder::record) also redacts the headers and variables of
//! definitions. In a replay, any text matches `[redacted]`.

mod connector;
mod difference;
mod line;
mod message;
mod recorder;
mod recording;
mod redaction;
mod replay;
mod script;

pub use self::{
    connector::RecordingConnector,
    difference::Difference,
    recorder::Recorder,
    recording::{Recording, RecordingError},
    replay::ReplayConnector,
};
