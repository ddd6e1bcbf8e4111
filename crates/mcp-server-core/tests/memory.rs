//! A server as a connector: each transport is an independent connection.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use mcp_server_core::{Server, tool};
use mcp_transport::{Connect, Frame, Transport, recv};
use serde_json::{Value, json};

use crate::common::{call, initialize, legacy, text_of};

async fn exchange(transport: &mut dyn Transport, request: Value) -> Value {
    transport.sender().send(Frame::new(request.to_string())).await.unwrap();
    serde_json::from_slice(&recv(transport).await.unwrap().unwrap().message).unwrap()
}

#[tokio::test]
async fn memory_connections_are_independent_until_shutdown() {
    let server = Server::builder("test", "1").tool(tool("quick", async || "quick")).build();
    assert_eq!(server.describe(), "test (in memory)");
    let mut first = server.connect().await.unwrap();
    let mut second = server.connect().await.unwrap();
    assert!(exchange(&mut *first, initialize("2025-06-18")).await.get("result").is_some());
    assert_eq!(text_of(&exchange(&mut *first, legacy(2, "tools/call", call("quick"))).await), "quick");
    // This connection has no session.
    assert!(exchange(&mut *second, legacy(1, "tools/call", call("quick"))).await.get("error").is_some());
    drop(first);
    assert_eq!(exchange(&mut *second, legacy(2, "ping", json!({}))).await["result"], json!({}));
    server.shutdown();
    assert!(recv(&mut *second).await.is_none());
    assert!(server.connect().await.err().unwrap().is_closed());
}
