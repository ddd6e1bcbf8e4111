//! The stateless era over HTTP: status codes, mirrored headers, and the forms of responses.

use crate::common;
use crate::common::{request, send, service, stateless};
use http::{Method, StatusCode};
use serde_json::{Value, json};

#[tokio::test]
async fn a_call_without_notifications_answers_json_with_identity_and_result_type() {
    let answer =
        send(&service(), stateless("tools/call", json!({ "name": "echo", "arguments": { "text": "hi" } }), &[])).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(answer.header("mcp-session-id"), None);
    let result = &answer.json()["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["content"][0]["text"], "hi");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "test");
}

#[tokio::test]
async fn the_first_notification_turns_the_response_into_a_stream() {
    let params = json!({ "name": "progress", "_meta": { "progressToken": 7 } });
    let answer = send(&service(), stateless("tools/call", params, &[])).await;
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let events = answer.events();
    assert_eq!(events.len(), 3, "{events:?}");
    assert_eq!(events[0]["params"], json!({ "progressToken": 7, "progress": 1, "total": 2, "message": "half" }));
    assert_eq!(events[1]["params"]["progress"], 2);
    assert_eq!(events[2]["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn checks_run_in_the_specified_order() {
    let service = service();
    let echo = || json!({ "name": "echo", "arguments": { "text": "hi" } });
    let version = |v: Value| json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": v } });
    let capabilities = |v: Value| json!({ "_meta": { "io.modelcontextprotocol/clientCapabilities": v } });
    let cases: Vec<(&str, _, u16, i64)> = vec![
        ("host", stateless("tools/list", json!({}), &[("host", "evil.example")]), 403, -32600),
        ("origin", stateless("tools/list", json!({}), &[("origin", "https://evil.example")]), 403, -32600),
        ("content type", stateless("tools/list", json!({}), &[("content-type", "text/plain")]), 415, -32600),
        ("accept", stateless("tools/list", json!({}), &[("accept", "application/json")]), 406, -32600),
        ("capabilities type", stateless("tools/list", capabilities(json!([])), &[]), 400, -32602),
        ("version type", stateless("tools/list", version(json!(7)), &[]), 400, -32602),
        ("no version header", stateless("tools/list", json!({}), &[("mcp-protocol-version", "-")]), 400, -32020),
        (
            "other version header",
            stateless("tools/list", json!({}), &[("mcp-protocol-version", "2025-11-25")]),
            400,
            -32020,
        ),
        ("body differs", stateless("tools/list", version(json!("v999")), &[]), 400, -32020),
        (
            "unknown version",
            stateless("tools/list", version(json!("v999")), &[("mcp-protocol-version", "v999")]),
            400,
            -32022,
        ),
        (
            "legacy version",
            stateless("tools/list", version(json!("2025-11-25")), &[("mcp-protocol-version", "2025-11-25")]),
            400,
            -32022,
        ),
        ("no method header", stateless("tools/list", json!({}), &[("mcp-method", "-")]), 400, -32020),
        ("other method header", stateless("tools/list", json!({}), &[("mcp-method", "tools/call")]), 400, -32020),
        ("method case", stateless("tools/list", json!({}), &[("mcp-method", "Tools/List")]), 400, -32020),
        ("no name header", stateless("tools/call", echo(), &[("mcp-name", "-")]), 400, -32020),
        ("other name header", stateless("tools/call", echo(), &[("mcp-name", "ping")]), 400, -32020),
        ("bad base64", stateless("tools/call", echo(), &[("mcp-name", "=?base64?ZWNobw?=")]), 400, -32020),
        ("unknown method", stateless("no/such", json!({}), &[]), 404, -32601),
        ("removed method", stateless("ping", json!({}), &[]), 404, -32601),
        ("modern initialize", stateless("initialize", json!({}), &[]), 404, -32601),
        ("no capability", stateless("prompts/list", json!({}), &[]), 404, -32601),
        ("unknown tool", stateless("tools/call", json!({ "name": "none" }), &[]), 200, -32602),
        ("bad params", stateless("tools/call", json!({ "name": "echo", "arguments": [] }), &[]), 200, -32602),
        ("bad cursor", stateless("tools/list", json!({ "cursor": "%" }), &[]), 200, -32602),
    ];
    for (what, request, status, code) in cases {
        let answer = send(&service, request).await;
        assert_eq!((answer.status.as_u16(), answer.error_code()), (status, Some(code)), "{what}: {answer:?}");
    }
}

#[tokio::test]
async fn distinguishes_missing_metadata_from_a_missing_header() {
    let service = service();
    let body = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {} }).to_string();
    let mut headers = common::BASE.to_vec();
    headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")]);
    let answer = send(&service, request(Method::POST, &headers, body)).await;
    assert_eq!((answer.status.as_u16(), answer.error_code()), (400, Some(-32602)));
    assert_eq!(answer.json()["id"], 3);
}

#[tokio::test]
async fn rejects_mirrored_arguments_that_differ_from_the_body() {
    let service = service();
    let call = |region: Value| json!({ "name": "region", "arguments": { "region": region } });
    for (region, header, code) in [
        ("eu", "eu", None),
        ("eu", "  eu\t", None),
        ("eu", "=?base64?ZXU=?=", None),
        ("Zürich", "=?base64?WsO8cmljaA==?=", None),
        ("eu", "us", Some(-32020)),
        ("eu", "EU", Some(-32020)),
        ("eu", "=?base64?ZXU?=", Some(-32020)),
        ("eu", "-", Some(-32020)),
    ] {
        let answer =
            send(&service, stateless("tools/call", call(json!(region)), &[("mcp-param-region", header)])).await;
        assert_eq!(answer.error_code(), code, "{region} {header}");
        assert_eq!(answer.status.as_u16(), if code.is_some() { 400 } else { 200 });
    }
    let answer = send(&service, stateless("tools/call", call(Value::Null), &[])).await;
    assert!(answer.json()["result"]["isError"].as_bool().unwrap(), "null expects no header: {answer:?}");
}

#[tokio::test]
async fn rejects_other_methods_and_bodies_with_a_reason() {
    let service = service();
    let modern = [("mcp-protocol-version", "2026-07-28"), ("accept", "text/event-stream")];
    for method in [Method::GET, Method::DELETE] {
        let answer = send(&service, request(method, &modern, "")).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(answer.header("allow"), Some("POST, OPTIONS"));
        let text = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(text.starts_with("GET and DELETE are for sessions of older revisions"), "{text}");
    }
    for (body, code) in [("{", -32700), ("[]", -32600), ("{}", -32600), ("7", -32600), ("", -32700)] {
        let answer = send(&service, request(Method::POST, &common::BASE, body)).await;
        assert_eq!((answer.status.as_u16(), answer.error_code()), (400, Some(code)), "{body}");
        assert!(!answer.json()["error"]["message"].as_str().unwrap().is_empty());
    }
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": {} }).to_string();
    let mut headers = common::BASE.to_vec();
    headers.push(("mcp-protocol-version", "2026-07-28"));
    assert_eq!(send(&service, request(Method::POST, &headers, response)).await.status, StatusCode::BAD_REQUEST);
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    let answer = send(&service, request(Method::POST, &headers, notification.to_string())).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::ACCEPTED, 0));
}

#[tokio::test]
async fn accepts_a_body_at_the_limit_and_rejects_a_larger_one() {
    let service = common::server();
    let service =
        mcp_server_http::HttpServer::into_service(service, mcp_server_http::HttpConfig::new().body_limit(2000));
    let sized = |size: usize| {
        let empty = stateless("tools/call", json!({ "name": "echo", "arguments": { "text": "" } }), &[]);
        let overhead = http_body::Body::size_hint(empty.body()).exact().unwrap() as usize;
        let text = "x".repeat(size - overhead);
        stateless("tools/call", json!({ "name": "echo", "arguments": { "text": text } }), &[])
    };
    assert_eq!(send(&service, sized(2000)).await.status, StatusCode::OK);
    assert_eq!(send(&service, sized(2001)).await.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(start_paused = true)]
async fn closing_the_request_cancels_the_call() {
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<()>(1);
    let server = mcp_server_core::Server::builder("test", "1")
        .tool(mcp_server_core::tool("hold", move || {
            let sender = sender.clone();
            async move {
                let _held = sender.clone();
                sender.send(()).await.ok();
                std::future::pending::<()>().await;
            }
        }))
        .build();
    let service = mcp_server_http::HttpServer::into_service(server.clone(), mcp_server_http::HttpConfig::new());
    let call =
        tokio::spawn(async move { send(&service, stateless("tools/call", json!({ "name": "hold" }), &[])).await });
    receiver.recv().await.unwrap();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    drop(server);
    // The future of the handler and the server owned all senders. Both are dropped.
    assert_eq!(receiver.recv().await, None);
}
