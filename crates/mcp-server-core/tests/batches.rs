//! Batches on a connection. Only sessions of 2025-03-26 allow them.

use std::time::Duration;

use mcp_server_core::{Server, tool};
use mcp_transport::{Frame, Transport, memory::duplex, recv};
use serde_json::{Value, json};

#[tokio::test]
async fn answers_a_batch_with_one_array_in_revisions_with_batches() {
    for version in ["2025-03-26", "2025-11-25"] {
        let server = Server::builder("test", "1.0").tool(tool("hi", async || "hi")).build();
        let (mut ours, theirs) = duplex(16);
        let served = tokio::spawn(async move { server.serve(theirs).await });
        let sender = ours.sender();
        let params =
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let open = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "hi" } });
        let notice = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        for message in [open, json!([notice]), json!([call, ping])] {
            sender.send(Frame::new(message.to_string())).await.unwrap();
        }
        let mut answers = Vec::new();
        for _ in 0..if version == "2025-03-26" { 2 } else { 3 } {
            let frame = tokio::time::timeout(Duration::from_secs(20), recv(&mut ours)).await.unwrap().unwrap().unwrap();
            answers.push(serde_json::from_slice::<Value>(&frame.message).unwrap());
        }
        assert_eq!(answers[0]["id"], 0);
        if version == "2025-03-26" {
            assert_eq!((&answers[1][0]["id"], &answers[1][1]["id"]), (&json!(2), &json!(1)));
        } else {
            assert!(answers[1..].iter().all(|answer| answer["error"]["code"] == -32600), "{answers:?}");
        }
        served.abort();
    }
}
