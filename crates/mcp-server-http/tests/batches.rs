//! Batches, which only sessions of 2025-03-26 allow.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::common::{self, legacy, request, send, service};

#[tokio::test]
async fn answers_a_batch_with_one_array() {
    let service = service();
    for version in ["2025-03-26", "2025-06-18"] {
        let params = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" }
        });
        let opened = send(&service, legacy(None, "initialize", params.clone())).await;
        let session = opened.header("mcp-session-id").unwrap();
        let mut headers = common::BASE.to_vec();
        headers.push(("mcp-session-id", session));
        let batch = |members: &Value| request(Method::POST, &headers, members.to_string());
        let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        let notice = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let call = json!({
            "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": { "name": "echo", "arguments": { "text": "hi" } }
        });
        let again = json!({ "jsonrpc": "2.0", "id": 3, "method": "initialize", "params": params });
        let answer = send(&service, batch(&json!([ping, notice, call, again]))).await;
        if version != "2025-03-26" {
            assert_eq!((answer.status, answer.error_code()), (StatusCode::BAD_REQUEST, Some(-32600)));
            continue;
        }
        let answers = answer.json();
        assert_eq!(answers[0], json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
        assert_eq!(answers[1]["result"]["content"][0]["text"], "hi");
        assert_eq!((&answers[2]["id"], &answers[2]["error"]["code"]), (&json!(3), &json!(-32600)));
        assert_eq!(answers.as_array().unwrap().len(), 3);
        assert_eq!(send(&service, batch(&json!([notice]))).await.status, StatusCode::ACCEPTED);
        assert_eq!(send(&service, batch(&json!([]))).await.error_code(), Some(-32600));
        assert_eq!(send(&service, batch(&json!(vec![ping.clone(); 65]))).await.error_code(), Some(-32600));
        // One that speaks is a stream for all.
        let progress = json!({
            "jsonrpc": "2.0", "id": 4, "method": "tools/call",
            "params": { "name": "progress", "_meta": { "progressToken": 4 } }
        });
        let events = send(&service, batch(&json!([progress, ping]))).await.events();
        assert_eq!(events.len(), 3);
        assert_eq!((&events[2][0]["id"], &events[2][1]["id"]), (&json!(4), &json!(1)));
    }
}

#[tokio::test]
async fn rejects_a_batch_for_an_unknown_session() {
    let service = service();
    let batch = json!([{ "jsonrpc": "2.0", "id": 1, "method": "ping" }]).to_string();
    let mut headers = common::BASE.to_vec();
    let unnamed = send(&service, request(Method::POST, &headers, batch.clone())).await;
    headers.push(("mcp-session-id", "mcp_00000000000000000000000000000001"));
    let dead = send(&service, request(Method::POST, &headers, batch)).await;
    assert_eq!((unnamed.status, dead.status), (StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND));
}
