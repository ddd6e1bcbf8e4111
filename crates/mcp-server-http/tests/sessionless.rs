//! The older revisions without sessions: plain JSON-RPC over POST.

use http::{Method, StatusCode};
use mcp_server_core::{Server, resource, tool};
use mcp_server_http::{HttpConfig, HttpServer, McpService};
use serde_json::json;

use crate::common::{self, initialize, legacy, request, send, stateless};

fn service() -> McpService {
    let server =
        Server::builder("test", "1.0").tool(tool("hi", async || "hi")).resource(resource("x:a", async || "a")).build();
    server.into_service(HttpConfig::new().sessions(false).lenient_accept())
}

#[tokio::test]
async fn each_post_stands_alone_and_no_session_is_made() {
    let service = service();
    let opened = send(&service, initialize()).await;
    assert_eq!((opened.status, opened.header("mcp-session-id")), (StatusCode::OK, None));
    let result = &opened.json()["result"];
    assert_eq!(result["protocolVersion"], "2025-11-25");
    let promised = result["capabilities"].to_string();
    assert!(!promised.contains("listChanged") && !promised.contains("subscribe"), "{promised}");
    assert_eq!(service.open_sessions(), 0);
    // With or without `initialize`, with a session id that means nothing, and for who accepts nothing but JSON.
    for session in [None, Some("mcp_0")] {
        let mut call = legacy(session, "tools/call", json!({ "name": "hi" }));
        call.headers_mut().insert("accept", "application/json".parse().unwrap());
        let answer = send(&service, call).await;
        assert_eq!(answer.json()["result"]["content"][0]["text"], "hi");
    }
    for message in [
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
    ] {
        let answer = send(&service, request(Method::POST, &common::BASE, message.to_string())).await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::ACCEPTED, 0));
    }
    assert_eq!(send(&service, stateless("tools/list", json!({}), &[])).await.status, StatusCode::OK);
}

#[tokio::test]
async fn what_needs_a_session_is_refused() {
    let service = service();
    for method in [Method::GET, Method::DELETE] {
        let answer = send(&service, request(method, &[("accept", "text/event-stream")], "")).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(answer.header("allow"), Some("POST, OPTIONS"));
    }
    let subscribe = send(&service, legacy(None, "resources/subscribe", json!({ "uri": "x:a" }))).await;
    assert_eq!((subscribe.status, subscribe.error_code()), (StatusCode::OK, Some(-32602)), "{subscribe:?}");
    let mut odd = legacy(None, "ping", json!({}));
    odd.headers_mut().insert("mcp-protocol-version", "1999-01-01".parse().unwrap());
    assert_eq!(send(&service, odd).await.status, StatusCode::BAD_REQUEST);
}
