//! Batches on a connection. Only sessions of 2025-03-26 allow them.

use std::time::Duration;

use mcp_server_core::{Server, tool};
use mcp_transport::{Frame, Route, Transport, memory::duplex, recv};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::common;

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
        for _ in 0..if version == "2025-03-26" { 2 } else { 4 } {
            let frame = timeout(Duration::from_secs(20), recv(&mut ours)).await.unwrap().unwrap().unwrap();
            answers.push(serde_json::from_slice::<Value>(&frame.message).unwrap());
        }
        assert_eq!(answers[0]["id"], 0);
        if version == "2025-03-26" {
            assert_eq!((&answers[1][0]["id"], &answers[1][1]["id"]), (&json!(2), &json!(1)));
        } else {
            assert!(answers[1..].iter().all(|answer| answer["error"]["code"] == -32600), "{answers:?}");
            let ids: Vec<_> = answers[1..].iter().map(|answer| answer.get("id")).collect();
            assert_eq!(ids, [None, Some(&json!(2)), Some(&json!(1))]);
        }
        served.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_of_a_rejected_batch_receives_the_error_at_once() {
    let request = |id: usize| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let cases = [
        (json!([]), vec![Route::Connection]),
        (json!([7]), vec![Route::Connection]),
        (json!([notice, notice]), vec![Route::Connection]),
        (json!([request(1), notice, {}, request(2)]), vec![Route::Request(1.into()), Route::Request(2.into())]),
        (Value::from_iter((0..65).map(request)), vec![Route::Connection]),
    ];
    for version in [None, Some("2024-11-05"), Some("2025-06-18"), Some("2025-11-25")] {
        let server = Server::builder("test", "1.0").build();
        let (mut ours, theirs) = duplex(16);
        let served = tokio::spawn(async move { server.serve(theirs).await });
        let start = Instant::now();
        if let Some(version) = version {
            ours.sender().send(Frame::new(common::initialize(version).to_string())).await.unwrap();
            recv(&mut ours).await.unwrap().unwrap();
        }
        for (batch, routes) in &cases {
            ours.sender().send(Frame::new(batch.to_string())).await.unwrap();
            for route in routes {
                let frame = timeout(Duration::from_secs(20), recv(&mut ours)).await.unwrap().unwrap().unwrap();
                let error: Value = serde_json::from_slice(&frame.message).unwrap();
                assert_eq!(
                    (error["error"]["code"].as_i64(), &frame.route),
                    (Some(-32600), route),
                    "{version:?} {batch}"
                );
                let id = match route {
                    Route::Request(id) => Some(json!(id)),
                    Route::Connection => None,
                };
                assert_eq!(error.get("id"), id.as_ref(), "{version:?} {batch}");
            }
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        drop(ours);
        served.await.unwrap().unwrap();
    }
}
