//! Sessions of the older revisions over HTTP.

use crate::common;
use std::time::Duration;

use crate::common::{initialize, legacy, open, request, send, service};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use mcp_server_core::tool;
use mcp_server_http::{HttpConfig, HttpServer};
use serde_json::json;

#[tokio::test]
async fn opens_uses_and_deletes_a_session() {
    let service = service();
    let answer = send(&service, initialize()).await;
    let id = answer.header("mcp-session-id").unwrap().to_owned();
    assert!(id.len() >= 32 && id.bytes().all(|b| (0x21..=0x7e).contains(&b)));
    let result = &answer.json()["result"];
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(result["capabilities"]["tools"]["listChanged"], true);
    assert!(result.get("resultType").is_none() && result.get("_meta").is_none());

    let body = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    let mut headers = common::BASE.to_vec();
    headers.push(("mcp-session-id", &id));
    let answer = send(&service, request(Method::POST, &headers, body)).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::ACCEPTED, 0));

    let call = legacy(Some(&id), "tools/call", json!({ "name": "echo", "arguments": { "text": "hi" } }));
    let answer = send(&service, call).await;
    assert_eq!(answer.json()["result"], json!({ "content": [{ "type": "text", "text": "hi" }] }));

    assert_eq!(send(&service, request(Method::DELETE, &headers, "")).await.status, StatusCode::NO_CONTENT);
    assert_eq!(send(&service, legacy(Some(&id), "ping", json!({}))).await.status, StatusCode::NOT_FOUND);
    assert_eq!(send(&service, request(Method::DELETE, &headers, "")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn rejects_requests_that_do_not_match_the_session() {
    let service = service();
    let id = open(&service).await;
    let ping = |headers: &[(&str, &str)]| {
        let mut all = common::BASE.to_vec();
        all.extend(headers);
        request(Method::POST, &all, json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string())
    };
    for (what, request, status) in [
        ("no session", ping(&[]), 400),
        ("made-up session", ping(&[("mcp-session-id", "mcp_0")]), 404),
        ("bad version", ping(&[("mcp-session-id", &id), ("mcp-protocol-version", "1999-01-01")]), 400),
        ("other known version", ping(&[("mcp-session-id", &id), ("mcp-protocol-version", "2025-06-18")]), 200),
        ("no version", ping(&[("mcp-session-id", &id)]), 200),
        ("two sessions", ping(&[("mcp-session-id", &id), ("mcp-session-id", &id)]), 400),
        ("GET without SSE", request(Method::GET, &[("mcp-session-id", &id), ("accept", "text/html")], ""), 406),
        ("GET without session", request(Method::GET, &[("accept", "text/event-stream")], ""), 400),
        ("DELETE without session", request(Method::DELETE, &[], ""), 400),
        ("PUT", request(Method::PUT, &[], ""), 405),
    ] {
        let answer = send(&service, request).await;
        assert_eq!(answer.status.as_u16(), status, "{what}: {answer:?}");
    }
    let mut again = initialize();
    again.headers_mut().insert("mcp-session-id", "mcp_dead".parse().unwrap());
    assert_eq!(send(&service, again).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn expires_idle_sessions_and_keeps_busy_sessions() {
    let config = HttpConfig::new().session_idle_timeout(Duration::from_secs(60));
    let service = common::server().into_service(config);
    let id = open(&service).await;
    let ping = || legacy(Some(&id), "ping", json!({}));
    assert_eq!(send(&service, ping()).await.status, StatusCode::OK);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(send(&service, ping()).await.status, StatusCode::OK);
    // A running call keeps its session. It takes 20 seconds, and the minute starts at its end.
    tokio::time::advance(Duration::from_secs(50)).await;
    assert_eq!(send(&service, legacy(Some(&id), "tools/call", json!({ "name": "slow" }))).await.status, StatusCode::OK);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(send(&service, ping()).await.status, StatusCode::OK);
    // Every message of the client keeps the session alive.
    for message in [
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 99, "result": {} }),
    ] {
        tokio::time::advance(Duration::from_secs(59)).await;
        let mut headers = common::BASE.to_vec();
        headers.push(("mcp-session-id", &id));
        let answer = send(&service, request(Method::POST, &headers, message.to_string())).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
    }
    // So is a stream that is open.
    let stream = common::opened(&service, &id).await;
    tokio::time::advance(Duration::from_secs(600)).await;
    assert_eq!(send(&service, ping()).await.status, StatusCode::OK);
    drop(stream);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(send(&service, ping()).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn answers_503_when_the_table_is_full_until_unopened_sessions_expire() {
    let service = common::server().into_service(HttpConfig::new().max_sessions(2));
    open(&service).await;
    open(&service).await;
    let answer = send(&service, initialize()).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.header("retry-after").is_some());
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(send(&service, initialize()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_failed_initialize_frees_its_place_in_the_table() {
    let service = common::server().into_service(HttpConfig::new().max_sessions(1));
    for _ in 0..2 {
        let answer = send(&service, legacy(None, "initialize", json!({ "protocolVersion": 7 }))).await;
        assert_eq!(answer.error_code(), Some(-32602));
        assert_eq!(service.open_sessions(), 0);
    }
    open(&service).await;
    assert_eq!(send(&service, initialize()).await.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_cancelled_call_gets_no_response() {
    let service = service();
    let id = open(&service).await;
    let mut headers = common::BASE.to_vec();
    headers.push(("mcp-session-id", &id));
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    let call = send(&service, legacy(Some(&id), "tools/call", json!({ "name": "forever" })));
    let cancelling = async {
        // A cancellation has no effect before the call is registered. Clients may lose this race.
        loop {
            send(&service, request(Method::POST, &headers, cancel.to_string())).await;
            tokio::task::yield_now().await;
        }
    };
    let answer = tokio::select! {
        biased;
        answer = call => answer,
        () = cancelling => unreachable!(),
    };
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body.is_empty(), "{answer:?}");
}

#[tokio::test]
async fn sends_a_list_change_once_to_each_initialized_session() {
    let server = common::server();
    let service = server.clone().into_service(HttpConfig::new());
    let id = open(&service).await;
    let without_stream = open(&service).await;
    let mut headers = common::BASE.to_vec();
    headers.push(("mcp-session-id", &id));
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    send(&service, request(Method::POST, &headers, initialized)).await;
    server.tools().add(tool("later", async || "later")).unwrap();
    server.tools().remove("later");

    let mut streams = Vec::new();
    for session in [&id, &without_stream] {
        streams.push(common::opened(&service, session).await);
    }
    let frame = streams[0].frame().await.unwrap().unwrap().into_data().unwrap();
    let text = std::str::from_utf8(&frame).unwrap();
    assert_eq!(text.matches("notifications/tools/list_changed").count(), 1, "{text}");

    // The end of a session ends its streams. They contain no other events.
    for (session, stream) in [&id, &without_stream].into_iter().zip(streams) {
        send(&service, request(Method::DELETE, &[("mcp-session-id", session)], "")).await;
        assert_eq!(stream.collect().await.unwrap().to_bytes().len(), 0);
    }
}

#[tokio::test]
async fn a_newer_stream_replaces_an_older_one() {
    let service = service();
    let id = open(&service).await;
    let older = common::opened(&service, &id).await;
    let _newer = common::opened(&service, &id).await;
    assert_eq!(older.collect().await.unwrap().to_bytes().len(), 0);
}

#[tokio::test]
async fn answers_preflight_requests_of_allowed_origins() {
    let service = service();
    let headers = [
        ("origin", "http://localhost:5173"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type, mcp-param-region, x-evil"),
    ];
    let answer = send(&service, request(Method::OPTIONS, &headers, "")).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://localhost:5173"));
    assert_eq!(answer.header("vary"), Some("origin"));
    let allowed = answer.header("access-control-allow-headers").unwrap();
    assert!(allowed.contains("mcp-session-id") && allowed.contains("mcp-param-region") && !allowed.contains("x-evil"));
    let answer = send(&service, request(Method::OPTIONS, &[("origin", "https://evil.example")], "")).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert_eq!(answer.header("access-control-allow-origin"), None);
}
