//! Test kit for Model Context Protocol servers and clients, in memory and without fixed ports.
//!
//! | to test | use |
//! |---|---|
//! | a server, message by message | [`peer::ScriptedClient`]: sends any text and reads the responses |
//! | a server, over every transport | [`transcript`]: a text file with the messages of both peers |
//! | a client against faulty servers | [`peer::ScriptedServer`]: follows a script over pipes or HTTP |
//! | authorization, against an authorization server | `authorization_server`, with the feature of that name |
//! | a program that uses the keyring of Linux | `secret_service`, with the feature of that name |
//! | a store on Redis | `redis_server`, with the feature of that name: a server, and a proxy with faults |
//! | a client and a server in many orders | `schedule`, with the feature of that name: seeds, delays and cut connections |
//! | messages against the specification | [`schemas`]: the JSON schemas of each revision |
//!
//! A client of the crate `mcp-client` connects to a server in memory by `connect(&server)`, without this crate.
//!
//! # Examples
//!
//! A test of a server in memory:
//!
//! ```
//! use mcp_server_core::{Server, tool};
//! use mcp_test::peer::ScriptedClient;
//! use serde_json::json;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! let server = Server::builder("hello", "1.0").tool(tool("hello", async || "Hello!")).build();
//! let (mut client, transport) = ScriptedClient::new();
//! let serving = tokio::spawn(async move { server.serve(transport).await });
//! let meta = json!({
//!     "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
//! });
//! let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hello", "_meta": meta}});
//! client.send(call.to_string()).await;
//! assert_eq!(client.next().await["result"]["content"][0]["text"], "Hello!");
//! client.close().await;
//! assert!(serving.await.unwrap().is_ok());
//! # });
//! ```
//!
//! The same server, tested by a transcript over every transport. In tests the transcripts are files, and
//! [`transcript::run`] replays a file:
//!
//! ```
//! use mcp_server_core::{Server, tool};
//! use mcp_test::transcript::{Transcript, TransportKind};
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
//! for transport in TransportKind::ALL {
//!     transcript.replay(&server, *transport).await.unwrap();
//! }
//! # });
//! ```
//!
//! A script for a client under test. The client connects to the server over pipes, because the server implements
//! [`Connect`](mcp_transport::Connect):
//!
//! ```
//! use mcp_protocol::ProtocolVersion;
//! use mcp_test::peer::{Reply, ScriptedServer};
//! use mcp_transport::{Connect, Frame, recv};
//! use serde_json::json;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # runtime.block_on(async {
//! let server = ScriptedServer::for_revision(ProtocolVersion::V2025_11_25)
//!     .on("tools/list", Reply::error(-32603, "out of memory"))
//!     .on("tools/list", Reply::result(json!({"tools": []})));
//! let mut transport = server.connect().await.unwrap();
//! let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
//! transport.sender().send(Frame::new(request.to_string())).await.unwrap();
//! let response = recv(&mut transport).await.unwrap().unwrap();
//! assert!(String::from_utf8_lossy(&response.message).contains("out of memory"));
//! assert_eq!(server.seen_of("tools/list"), [request]);
//! # });
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "authorization-server")]
pub mod authorization_server;
pub mod peer;
#[cfg(feature = "redis-server")]
pub mod redis_server;
pub mod schemas;
#[cfg(all(unix, feature = "secret-service"))]
pub mod secret_service;
pub mod transcript;

#[cfg(feature = "schedule")]
pub use mcp_schedule as schedule;
