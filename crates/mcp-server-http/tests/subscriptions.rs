//! `subscriptions/listen` over HTTP: the stream begins with its acknowledgement and ends with its client or its
//! server.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use mcp_server_core::{Server, resource, tool};
use mcp_server_http::{Body, HttpConfig, HttpServer, McpService};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::common::{initialized, legacy, open, opened, request, send, socket::serve, stateless, within};

const ID: &str = "io.modelcontextprotocol/subscriptionId";

fn server(streams: usize) -> Server {
    Server::builder("test", "1.0")
        .tool(tool("t", async || "t"))
        .resource(resource("x:a", async || "a"))
        .limits(|limits| limits.listen_streams = streams)
        .build()
}

fn listen_request(filter: &Value) -> http::Request<http_body_util::Full<Bytes>> {
    stateless("subscriptions/listen", json!({ "notifications": filter }), &[])
}

async fn message(body: &mut Body) -> Option<Value> {
    let frame = within("a frame", body.frame()).await?.unwrap().into_data().unwrap();
    let text = String::from_utf8(frame.to_vec()).unwrap();
    let data: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let [data] = data[..] else { panic!("one message in each frame: {text}") };
    Some(serde_json::from_str(data).unwrap())
}

/// Opens a stream and reads its acknowledgement.
async fn stream(service: &McpService, filter: &Value) -> Body {
    let response = service.handle(listen_request(filter)).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    let mut body = response.into_body();
    let first = message(&mut body).await.unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"], json!({ "notifications": filter, "_meta": { ID: 1 } }));
    body
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_acknowledged_notified_kept_alive_and_completed() {
    let server = server(10);
    let service = server.clone().into_service(HttpConfig::new());
    let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": ["x:a"] });
    let mut body = stream(&service, &filter).await;
    let start = Instant::now();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), ": keep-alive\n\n");
    assert_eq!(start.elapsed(), Duration::from_secs(15));
    tokio::time::sleep(Duration::from_secs(5)).await;
    server.notify().resources_changed();
    server.notify().resource_updated("x:a");
    let updated = message(&mut body).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(20));
    assert_eq!(updated["method"], "notifications/resources/updated");
    assert_eq!(updated["params"], json!({ "uri": "x:a", "_meta": { ID: 1 } }));
    // The event has restarted the interval.
    for seconds in [35, 50] {
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), ": keep-alive\n\n");
        assert_eq!(start.elapsed(), Duration::from_secs(seconds));
    }
    server.tools().add(tool("later", async || "later")).unwrap();
    let changed = message(&mut body).await.unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"], json!({ "_meta": { ID: 1 } }));

    server.shutdown();
    let result = message(&mut body).await.unwrap();
    assert_eq!((&result["id"], &result["result"]["resultType"]), (&json!(1), &json!("complete")));
    assert_eq!(result["result"]["_meta"][ID], 1);
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn a_stream_closed_by_the_client_is_removed() {
    let server = server(2);
    let service = server.clone().into_service(HttpConfig::new());
    let filter = json!({ "toolsListChanged": true });
    let first = stream(&service, &filter).await;
    let _second = stream(&service, &filter).await;
    let full = send(&service, listen_request(&filter)).await;
    assert_eq!((full.status, full.error_code()), (StatusCode::SERVICE_UNAVAILABLE, Some(-32603)));
    assert!(full.header("retry-after").is_some());
    drop(first);
    // The work of a stream ends with it, as soon as the runtime gets to it.
    let _third = within("room for a third stream", async {
        loop {
            let response = service.handle(listen_request(&filter)).await;
            if response.status() == StatusCode::OK {
                return response;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;

    let endpoint = serve(&self::server(1), HttpConfig::new()).await;
    let mut connection = endpoint.connect().await;
    connection.send(listen_request(&filter)).await;
    assert_eq!(connection.head().await.unwrap().0, StatusCode::OK);
    assert!(connection.chunk().await.unwrap().starts_with(b"event: message"));
    assert_eq!(endpoint.exchange(listen_request(&filter)).await.status, StatusCode::SERVICE_UNAVAILABLE);
    drop(connection);
    within("room for another stream", async {
        loop {
            let mut connection = endpoint.connect().await;
            connection.send(listen_request(&filter)).await;
            if connection.head().await.unwrap().0 == StatusCode::OK {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn shutdown_completes_the_stream_in_order_over_a_socket() {
    let server = server(10);
    let endpoint = serve(&server, HttpConfig::new()).await;
    let mut connection = endpoint.connect().await;
    connection.send(listen_request(&json!({ "toolsListChanged": true }))).await;
    connection.head().await.unwrap();
    connection.chunk().await.unwrap();
    server.shutdown();
    let end = connection.chunk().await.unwrap();
    assert!(std::str::from_utf8(&end).unwrap().contains("\"resultType\":\"complete\""), "{end:?}");
    assert_eq!(connection.chunk().await, None);
    endpoint.ended().await.unwrap();
}

#[tokio::test]
async fn rejects_invalid_filters_and_clients_without_event_streams_as_json() {
    let service = server(10).into_service(HttpConfig::new().lenient_accept());
    for (params, accept, status, code) in [
        (json!({}), "application/json, text/event-stream", StatusCode::OK, -32602),
        (json!({ "notifications": 7 }), "application/json, text/event-stream", StatusCode::OK, -32602),
        (json!({ "notifications": {} }), "application/json", StatusCode::BAD_REQUEST, -32600),
    ] {
        let answer = send(&service, stateless("subscriptions/listen", params, &[("accept", accept)])).await;
        assert_eq!((answer.status, answer.error_code()), (status, Some(code)), "{answer:?}");
        assert_eq!(answer.json()["id"], 1);
    }
}

#[tokio::test]
async fn a_session_receives_its_resource_updates_on_its_stream() {
    let server = server(10);
    let service = server.clone().into_service(HttpConfig::new());
    let (session, other) = (open(&service).await, open(&service).await);
    for id in [&session, &other] {
        initialized(&service, id).await;
    }
    let subscribe = legacy(Some(&session), "resources/subscribe", json!({ "uri": "x:a" }));
    assert_eq!(send(&service, subscribe).await.json()["result"], json!({}));
    server.notify().resource_updated("x:a");
    server.notify().resource_updated("x:b");
    server.notify().tools_changed();
    let expected = [
        (&session, vec!["notifications/resources/updated", "notifications/tools/list_changed"]),
        (&other, vec!["notifications/tools/list_changed"]),
    ];
    for (id, methods) in expected {
        let body = opened(&service, id).await;
        crate::common::settle().await;
        let ending = send(&service, request(http::Method::DELETE, &[("mcp-session-id", id)], ""));
        let (read, _) = tokio::join!(body.collect(), ending);
        let text = String::from_utf8(read.unwrap().to_bytes().to_vec()).unwrap();
        let told: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(told.len(), methods.len(), "{text}");
        for (message, method) in told.iter().zip(methods) {
            assert!(message.contains(method), "{message}");
        }
    }
}

/// However often something changes: a client that stops reading gets each notice once more when it reads again.
#[tokio::test]
async fn a_client_that_does_not_read_uses_bounded_memory_and_loses_nothing() {
    let server = server(10);
    let service = server.clone().into_service(HttpConfig::new());
    let mut slow = stream(&service, &json!({ "toolsListChanged": true, "resourceSubscriptions": ["x:a"] })).await;
    for _ in 0..10_000 {
        server.notify().tools_changed();
        server.notify().resource_updated("x:a");
    }
    // The body is not polled, so that the server merges the changes into two.
    let frame = within("a frame", slow.frame()).await.unwrap().unwrap().into_data().unwrap();
    let text = std::str::from_utf8(&frame).unwrap();
    assert_eq!(text.matches("data: ").count(), 2, "{text}");
    assert!(text.contains("tools/list_changed") && text.contains("\"x:a\""), "{text}");
}
