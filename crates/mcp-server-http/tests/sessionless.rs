//! The session era in sessionless mode: JSON-RPC over POST.

use http::{Method, StatusCode};
use mcp_protocol::LoggingLevel;
use mcp_server_core::{Context, Server, TaskSupport, resource, tool};
use mcp_server_http::{HttpConfig, HttpServer, McpService};
use serde_json::json;

use crate::common::{self, initialize, legacy, request, send, stateless};

fn service() -> McpService {
    let server =
        Server::builder("test", "1.0").tool(tool("hi", async || "hi")).resource(resource("x:a", async || "a")).build();
    server.into_service(HttpConfig::new().sessionless().lenient_accept())
}

#[tokio::test]
async fn each_post_is_independent_and_opens_no_session() {
    let service = service();
    let opened = send(&service, initialize()).await;
    assert_eq!((opened.status, opened.header("mcp-session-id")), (StatusCode::OK, None));
    let result = &opened.json()["result"];
    assert_eq!(result["protocolVersion"], "2025-11-25");
    let promised = result["capabilities"].to_string();
    assert!(!promised.contains("listChanged") && !promised.contains("subscribe"), "{promised}");
    assert_eq!(service.open_sessions(), 0);
    // The client may omit `initialize`, send an unknown session id, and accept only JSON.
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
async fn rejects_methods_that_need_a_session() {
    let service = service();
    for method in [Method::GET, Method::DELETE] {
        let answer = send(&service, request(method, &[("accept", "text/event-stream")], "")).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(answer.header("allow"), Some("POST, OPTIONS"));
    }
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let answer = send(&service, legacy(None, method, json!({ "uri": "x:a" }))).await;
        assert_eq!((answer.status, answer.error_code()), (StatusCode::OK, Some(-32601)), "{method}: {answer:?}");
    }
    let mut odd = legacy(None, "ping", json!({}));
    odd.headers_mut().insert("mcp-protocol-version", "1999-01-01".parse().unwrap());
    assert_eq!(send(&service, odd).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn declares_no_tasks_and_no_logging() {
    let server = Server::builder("test", "1.0")
        .tool(tool("may", async || "may").task(TaskSupport::Optional))
        .tool(tool("must", async || "must").task(TaskSupport::Required))
        .tool(tool("says", async |context: Context| {
            context.log(LoggingLevel::Error, "something").await;
            "said"
        }))
        .build();
    let service = server.into_service(HttpConfig::new().sessionless());
    let opened = send(&service, initialize()).await.json();
    let promised = opened["result"]["capabilities"].as_object().unwrap();
    assert_eq!(promised.keys().collect::<Vec<_>>(), ["tools"]);
    for (tool, task) in [("may", None), ("may", Some(json!({}))), ("must", None), ("must", Some(json!({ "ttl": 5 })))] {
        let mut params = json!({ "name": tool });
        if let Some(task) = task {
            params["task"] = task;
        }
        let mut call = legacy(None, "tools/call", params.clone());
        call.headers_mut().insert("mcp-protocol-version", "2025-11-25".parse().unwrap());
        let answer = send(&service, call).await;
        assert_eq!(answer.json()["result"]["content"][0]["text"], tool, "{params}: {answer:?}");
    }
    for (method, params) in [
        ("tasks/get", json!({ "taskId": "t" })),
        ("tasks/result", json!({ "taskId": "t" })),
        ("tasks/cancel", json!({ "taskId": "t" })),
        ("tasks/list", json!({})),
        ("logging/setLevel", json!({ "level": "debug" })),
    ] {
        let mut request = legacy(None, method, params);
        request.headers_mut().insert("mcp-protocol-version", "2025-11-25".parse().unwrap());
        assert_eq!(send(&service, request).await.error_code(), Some(-32601), "{method}");
    }
    let quiet = send(&service, legacy(None, "tools/call", json!({ "name": "says" }))).await;
    assert_eq!(quiet.header("content-type"), Some("application/json"), "{quiet:?}");
}
