//! Test kit for the Model Context Protocol: transcripts that say what goes over the wire, replayed over every transport;
//! [scripted peers](peer) that do to a client what servers and networks do; and the check of messages against the schemas
//! of the specification.
//!
//! ```
//! use mcp_server_core::{Server, tool};
//! use mcp_test::transcript::{Over, Transcript};
//!
//! let text = r#"
//! ## A client of 2025-06-18 calls a tool.
//!
//! > {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
//!     "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}
//! < {"jsonrpc": "2.0", "id": 1, "result": {
//!     "protocolVersion": "2025-06-18", "capabilities": "<any>", "serverInfo": {"name": "hello", "version": "1.0"}}}
//! > {"jsonrpc": "2.0", "method": "notifications/initialized"}
//!
//! > {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "hello"}}
//! < {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "Hello!"}]}}
//! "#;
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! let server = Server::builder("hello", "1.0").tool(tool("hello", async || "Hello!")).build();
//! let transcript = Transcript::parse("hello.txt", text).unwrap();
//! for over in Over::ALL {
//!     transcript.replay(&server, *over).await.unwrap();
//! }
//! # });
//! ```
//!
//! In tests the transcripts are files, and [`transcript::run`] replays one over every transport.

pub mod peer;
pub mod transcript;
pub mod wire;
