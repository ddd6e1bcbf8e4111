//! A server that supports only the stateless era: no sessions, no GET, no handshake.

use crate::common;
use crate::common::{initialize, legacy, request, send, stateless};
use http::{Method, StatusCode};
use mcp_protocol::ProtocolVersion;
use mcp_server_core::{Server, tool};
use mcp_server_http::{HttpConfig, HttpServer, McpService};
use serde_json::json;

fn service() -> McpService {
    Server::builder("test", "1.0")
        .tool(tool("echo", async || "echo"))
        .versions([ProtocolVersion::LATEST])
        .build()
        .into_service(HttpConfig::new())
}

#[tokio::test]
async fn allows_only_post() {
    let service = service();
    for method in [Method::GET, Method::DELETE, Method::HEAD, Method::PUT] {
        let headers = [("accept", "text/event-stream"), ("mcp-session-id", "mcp_0"), ("last-event-id", "1")];
        let answer = send(&service, request(method.clone(), &headers, "")).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_eq!(answer.header("allow"), Some("POST, OPTIONS"), "{method}");
    }
}

#[tokio::test]
async fn ignores_session_headers_and_opens_no_session() {
    let service = service();
    let extra = [("mcp-session-id", "mcp_dead"), ("last-event-id", "7")];
    let answer = send(&service, stateless("tools/call", json!({ "name": "echo" }), &extra)).await;
    assert_eq!((answer.status, answer.header("mcp-session-id")), (StatusCode::OK, None));
    // The same on an endpoint that also serves sessions.
    let dual = common::service();
    let answer = send(&dual, stateless("tools/list", json!({}), &extra)).await;
    assert_eq!((answer.status, answer.header("mcp-session-id")), (StatusCode::OK, None));
}

#[tokio::test]
async fn answers_initialize_with_the_supported_revisions() {
    let answer = send(&service(), initialize()).await;
    assert_eq!((answer.status, answer.error_code()), (StatusCode::BAD_REQUEST, Some(-32022)));
    assert_eq!(answer.json()["error"]["data"]["supported"], json!(["2026-07-28"]));
    assert_eq!(answer.header("mcp-session-id"), None);
}

#[tokio::test]
async fn rejects_requests_of_the_session_era() {
    let service = service();
    let answer = send(&service, legacy(Some("mcp_0"), "tools/list", json!({}))).await;
    assert_eq!((answer.status, answer.error_code()), (StatusCode::BAD_REQUEST, Some(-32020)));
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": {} }).to_string();
    assert_eq!(send(&service, request(Method::POST, &common::BASE, response)).await.status, StatusCode::BAD_REQUEST);
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" }).to_string();
    let answer = send(&service, request(Method::POST, &common::BASE, notice)).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::ACCEPTED, 0));
}

#[tokio::test]
async fn serves_a_stateless_request_with_a_session_header_without_the_session() {
    let service = common::service();
    let session = common::open(&service).await;
    let extra = [("mcp-session-id", session.as_str())];
    let answer = send(&service, stateless("tools/list", json!({}), &extra)).await;
    assert_eq!(answer.json()["result"]["resultType"], "complete");
    let old = send(&service, legacy(Some(&session), "tools/list", json!({}))).await;
    assert!(old.json()["result"].get("resultType").is_none());
}
