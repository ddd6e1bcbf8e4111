//! HTTP+SSE, the transport of 2024-11-05.

use std::{collections::HashSet, time::Duration};

use http::{Method, StatusCode};
use http_body_util::BodyExt;
use mcp_server_core::{Context, Extension, Inputs, Progress, Server, ToolError, tool};
use mcp_server_http::{HttpConfig, HttpServer, RequestParts};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tower_service::Service as _;

use crate::common::{
    self,
    observed_server::{Event, ObservedServer},
    server,
    socket::serve,
    sse::{Client, get, post},
    within,
};

fn config() -> HttpConfig {
    HttpConfig::new().sse("/sse", "/messages")
}

#[tokio::test]
async fn a_session_uses_one_stream_and_posts() {
    let http_endpoint = serve(&server(), config()).await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = Client::open(&http_endpoint).await;
        let opened = client.initialize(version, json!({})).await;
        assert_eq!(opened["protocolVersion"], version);
        assert_eq!(client.exchange(1, "ping", json!({})).await["result"], json!({}));
        let params = json!({ "name": "progress", "_meta": { "progressToken": "p" } });
        client.send(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params })).await;
        for progress in [1.0, 2.0] {
            let notice = client.message().await.unwrap();
            assert_eq!(notice["method"], "notifications/progress");
            assert_eq!(notice["params"]["progress"].as_f64(), Some(progress));
        }
        let answer = client.message().await.unwrap();
        assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(2), &json!("done")));
        // The server answers invalid messages on the stream too.
        assert_eq!(http_endpoint.exchange(post(&client.endpoint, &json!(1))).await.status, StatusCode::ACCEPTED);
        assert_eq!(client.message().await.unwrap()["error"]["code"], -32600);
    }
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    colour: String,
}

#[tokio::test]
async fn the_server_sends_requests_on_the_stream_and_receives_responses_by_post() {
    let greet = async |inputs: Inputs| -> Result<String, ToolError> {
        let Answer { colour } = inputs.elicit("colour", "Which colour?").await?;
        Ok(colour)
    };
    let http_endpoint = serve(&Server::builder("test", "1").tool(tool("ask", greet)).build(), config()).await;
    let mut client = Client::open(&http_endpoint).await;
    client.initialize("2025-06-18", json!({ "elicitation": {} })).await;
    client.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "ask" } })).await;
    let question = client.message().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let result = json!({ "action": "accept", "content": { "colour": "blue" } });
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })).await;
    assert_eq!(client.message().await.unwrap()["result"]["content"][0]["text"], "blue");
}

#[tokio::test]
async fn a_session_receives_list_changes() {
    let server = server();
    let http_endpoint = serve(&server, config()).await;
    let mut client = Client::open(&http_endpoint).await;
    client.initialize("2024-11-05", json!({})).await;
    // The server has processed the earlier notification.
    client.exchange(1, "ping", json!({})).await;
    server.tools().add(tool("new", async || "new")).unwrap();
    assert_eq!(client.message().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_remote_client_has_no_scopes_and_handlers_receive_the_head_of_the_stream() {
    let show = async |Extension(parts): Extension<RequestParts>, context: Context| {
        let accept = parts.headers["accept"].to_str().unwrap_or_default().to_owned();
        format!("{accept} {} {}", parts.uri.path(), context.session_id().is_some_and(|id| id.len() > 30))
    };
    let server = Server::builder("test", "1")
        .tool(tool("show", show))
        .tool(tool("guarded", async || "secret").requires_scopes(["admin"]))
        .build();
    let http_endpoint = serve(&server, config()).await;
    let mut client = Client::open(&http_endpoint).await;
    client.initialize("2024-11-05", json!({})).await;
    let shown = client.exchange(1, "tools/call", json!({ "name": "show" })).await;
    assert_eq!(shown["result"]["content"][0]["text"], "text/event-stream /sse true");
    let refused = client.exchange(2, "tools/call", json!({ "name": "guarded" })).await;
    assert_eq!(refused["error"]["data"]["requiredScopes"], json!(["admin"]), "{refused}");
    assert_eq!(refused["error"]["message"], "insufficient scope: this request needs `admin`");
}

#[tokio::test]
async fn closing_the_stream_ends_the_session_and_its_calls() {
    let mut observed = ObservedServer::new();
    let http_endpoint = serve(&observed.server, config()).await;
    let mut client = Client::open(&http_endpoint).await;
    client.initialize("2024-11-05", json!({})).await;
    let params = json!({ "name": "mute", "arguments": {} });
    client.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
    observed.expect(Event::Started).await;
    let endpoint = client.endpoint.clone();
    drop(client);
    observed.expect(Event::Dropped).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    within("the end of the session", async {
        while http_endpoint.exchange(post(&endpoint, &ping)).await.status != StatusCode::NOT_FOUND {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_cancellation_finds_the_call_of_another_post() {
    let mut observed = ObservedServer::new();
    let http_endpoint = serve(&observed.server, config()).await;
    let mut client = Client::open(&http_endpoint).await;
    client.initialize("2024-11-05", json!({})).await;
    let params = json!({ "name": "mute", "arguments": {} });
    client.send(json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params })).await;
    observed.expect(Event::Started).await;
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } })).await;
    observed.expect(Event::Dropped).await;
    client.exchange(8, "ping", json!({})).await;
}

#[tokio::test]
async fn rejects_invalid_requests_with_a_reason() {
    let http_endpoint = serve(&server(), config().body_limit(1000)).await;
    let client = Client::open(&http_endpoint).await;
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let posted = |uri: &str, headers: &[(&str, &str)], body: String| {
        let mut request = common::request(Method::POST, headers, body);
        *request.uri_mut() = uri.parse().unwrap();
        request
    };
    let json = [("content-type", "application/json")];
    let text = message.to_string();
    let foreign = [json[0], ("origin", "https://evil.example")];
    let rebound = [json[0], ("host", "evil.example")];
    let mut no_stream = get();
    no_stream.headers_mut().insert("accept", "application/json".parse().unwrap());
    let (mut put, mut delete) = (get(), get());
    *put.method_mut() = Method::PUT;
    *delete.method_mut() = Method::DELETE;
    for (name, request, status) in [
        ("no session", posted("/messages", &json, text.clone()), 400),
        ("unknown session", posted("/messages?sessionId=mcp_0", &json, text.clone()), 404),
        ("another type", posted(&client.endpoint, &[("content-type", "text/plain")], text.clone()), 415),
        ("too large", posted(&client.endpoint, &json, " ".repeat(1001)), 413),
        ("foreign origin", posted(&client.endpoint, &foreign, text.clone()), 403),
        ("foreign host", posted(&client.endpoint, &rebound, text.clone()), 403),
        ("no stream accepted", no_stream, 406),
        ("put", put, 405),
        ("delete", delete, 405),
    ] {
        let answer = http_endpoint.exchange(request).await;
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        assert!(answer.json()["error"]["message"].is_string(), "{name}");
        if status == 405 {
            assert_eq!(answer.header("allow"), Some("GET, OPTIONS"));
        }
    }
    let mut preflight = posted("/messages", &[("origin", "http://localhost:5173")], String::new());
    *preflight.method_mut() = Method::OPTIONS;
    let answer = http_endpoint.exchange(preflight).await;
    assert_eq!((answer.status, answer.header("allow")), (StatusCode::NO_CONTENT, Some("POST, OPTIONS")));
}

#[tokio::test]
async fn http_sse_is_disabled_by_default() {
    let http_endpoint = serve(&server(), HttpConfig::new()).await;
    assert_eq!(http_endpoint.exchange(get()).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn session_ids_cannot_be_guessed() {
    let http_endpoint = serve(&server(), config()).await;
    let mut seen = HashSet::new();
    for _ in 0..8 {
        let endpoint = Client::open(&http_endpoint).await.endpoint;
        let id = endpoint.strip_prefix("/messages?sessionId=mcp_").unwrap();
        assert_eq!(id.len(), 32);
        assert!(seen.insert(id.to_owned()));
    }
}

#[tokio::test]
async fn streams_count_towards_the_session_limit() {
    let http_endpoint = serve(&server(), config().max_sessions(2)).await;
    http_endpoint.open().await;
    let first = Client::open(&http_endpoint).await;
    for refused in [http_endpoint.exchange(get()).await, http_endpoint.exchange(common::initialize()).await] {
        assert_eq!((refused.status, refused.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("10")));
    }
    drop(first);
    within("room", async {
        while http_endpoint.exchange(common::initialize()).await.status != StatusCode::OK {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn closes_an_unused_stream_and_sends_keep_alives_on_a_used_one() {
    let service = server().into_service(config());
    let mut unused = service.handle(get()).await.into_body();
    let start = tokio::time::Instant::now();
    let mut comments = 0;
    while let Some(frame) = unused.frame().await {
        comments += usize::from(frame.unwrap().into_data().unwrap().starts_with(b": "));
    }
    assert!(start.elapsed().as_secs() == 30 && comments > 0, "{:?} {comments}", start.elapsed());
    assert_eq!(service.open_sessions(), 0);

    let mut used = service.handle(get()).await.into_body();
    let opening = used.frame().await.unwrap().unwrap().into_data().unwrap();
    let opening = std::str::from_utf8(&opening).unwrap();
    let endpoint = opening.strip_prefix("event: endpoint\ndata: ").unwrap().trim_end();
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(common::send(&service, post(endpoint, &ping)).await.status, StatusCode::ACCEPTED);
    let pong = used.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(pong.starts_with(b"event: message\ndata: {"), "{pong:?}");
    for _ in 0..1000 {
        assert_eq!(used.frame().await.unwrap().unwrap().into_data().unwrap(), ": keep-alive\n\n");
    }
    assert_eq!(service.open_sessions(), 1);
    drop(used);
    within("the end", async {
        while service.open_sessions() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn closes_the_stream_of_a_client_that_stops_reading() {
    let flood = async |progress: Progress| {
        let text = "x".repeat(64 << 10);
        for step in 1..1000 {
            progress.report(f64::from(step), None, &*text).await;
        }
        "all"
    };
    let service = Server::builder("test", "1").tool(tool("flood", flood)).build().into_service(config());
    let mut stream = service.handle(get()).await.into_body();
    let opening = stream.frame().await.unwrap().unwrap().into_data().unwrap();
    let opening = std::str::from_utf8(&opening).unwrap();
    let endpoint = opening.strip_prefix("event: endpoint\ndata: ").unwrap().trim_end().to_owned();
    let client = json!({ "name": "t", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let call = json!({ "name": "flood", "_meta": { "progressToken": 1 } });
    for message in [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call }),
    ] {
        assert_eq!(common::send(&service, post(&endpoint, &message)).await.status, StatusCode::ACCEPTED);
    }
    let start = tokio::time::Instant::now();
    while service.open_sessions() > 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(start.elapsed() < Duration::from_secs(40), "it is still open");
    }
    assert!(start.elapsed() >= Duration::from_secs(30));
    // The queue of the stream is bounded. At the bound the stream ends.
    let mut held = 0;
    while let Some(frame) = stream.frame().await {
        held += frame.unwrap().into_data().unwrap().len();
    }
    assert!(held > 512 << 10 && held < 2 << 20, "{held}");
}

#[tokio::test]
async fn closes_the_socket_of_a_client_that_stops_reading_without_delaying_others() {
    let flood = async |progress: Progress| {
        let text = "x".repeat(64 << 10);
        for step in 1..1_000_000 {
            progress.report(f64::from(step), None, &*text).await;
        }
        "all"
    };
    let tools = Server::builder("test", "1").tool(tool("flood", flood)).tool(tool("quick", async || "quick")).build();
    let http_endpoint = serve(&tools, config().write_timeout(Duration::from_millis(500))).await;
    let mut stalled = Client::open(&http_endpoint).await;
    stalled.initialize("2025-03-26", json!({})).await;
    let call = json!({ "name": "flood", "_meta": { "progressToken": 1 } });
    stalled.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call })).await;
    let mut other = Client::open(&http_endpoint).await;
    other.initialize("2024-11-05", json!({})).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    within("the end of the deaf session", async {
        let mut id = 0;
        while http_endpoint.exchange(post(&stalled.endpoint, &ping)).await.status != StatusCode::NOT_FOUND {
            id += 1;
            let answer = other.exchange(id, "tools/call", json!({ "name": "quick" })).await;
            assert_eq!(answer["result"]["content"][0]["text"], "quick");
        }
    })
    .await;
}

#[tokio::test]
async fn shutdown_lets_calls_finish_and_closes_the_stream() {
    let mut observed = ObservedServer::new();
    let http_endpoint = serve(&observed.server, config()).await;
    let mut client = Client::open(&http_endpoint).await;
    client.initialize("2024-11-05", json!({})).await;
    let params = json!({ "name": "mute", "arguments": {} });
    client.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })).await;
    observed.expect(Event::Started).await;
    observed.server.shutdown();
    observed.release.add_permits(1);
    let answer = client.message().await.unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "held");
    assert!(client.event().await.is_none());
    http_endpoint.ended().await.unwrap();
}

#[tokio::test]
async fn sends_the_message_url_of_a_nested_endpoint() {
    let mut app = axum::Router::new().nest("/api/v1", server().into_router(config()));
    let mut nested = get();
    *nested.uri_mut() = "/api/v1/sse".parse().unwrap();
    let response = app.call(nested).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let event = response.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(event.starts_with(b"event: endpoint\ndata: /api/v1/messages?sessionId=mcp_"), "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_client_that_reads_a_large_event_slowly() {
    let large = async || "x".repeat(2 << 20);
    let service = Server::builder("test", "1").tool(tool("large", large)).build().into_service(config());
    let mut stream = service.handle(get()).await.into_body();
    let opening = stream.frame().await.unwrap().unwrap().into_data().unwrap();
    let opening = std::str::from_utf8(&opening).unwrap();
    let endpoint = opening.strip_prefix("event: endpoint\ndata: ").unwrap().trim_end().to_owned();
    let client = json!({ "name": "t", "version": "1" });
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let call = |id| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "large" } });
    for message in [
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        call(1),
        call(2),
        call(3),
    ] {
        assert_eq!(common::send(&service, post(&endpoint, &message)).await.status, StatusCode::ACCEPTED);
    }
    let mut text = String::new();
    while !(1..=3).all(|id| text.contains(&format!("\"id\":{id},"))) || !text.ends_with("\n\n") {
        let piece =
            within("a piece", stream.frame()).await.expect("the stream did not end").unwrap().into_data().unwrap();
        assert!(piece.len() <= 64 << 10);
        text.push_str(std::str::from_utf8(&piece).unwrap());
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(service.open_sessions(), 1);
}

/// A body that the server must not read.
struct Unread;

impl http_body::Body for Unread {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        panic!("the body is read")
    }
}

#[tokio::test]
async fn rejects_messages_for_an_unknown_stream_unread() {
    let service = server().into_service(config());
    for (endpoint, kind, status) in [
        ("/messages", "application/json", StatusCode::BAD_REQUEST),
        ("/messages?sessionId=mcp_0", "application/json", StatusCode::NOT_FOUND),
        ("/messages?sessionId=mcp_0", "text/plain", StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ] {
        let request = http::Request::post(endpoint).header("host", "localhost").header("content-type", kind);
        let answer = service.handle(request.body(Unread).unwrap()).await;
        assert_eq!(answer.status(), status, "{endpoint} {kind}");
    }
}
