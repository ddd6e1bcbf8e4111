//! Shutdown: running calls may finish, idle streams end at once, and the grace period bounds the shutdown.

use crate::common;
use std::time::Duration;

use crate::common::{
    legacy, listen,
    observed_server::{Event, ObservedServer},
    socket::serve,
    stateless, within,
};
use http::StatusCode;
use mcp_server_http::HttpConfig;
use serde_json::json;
use tokio::time::Instant;

#[tokio::test]
async fn finishes_running_calls_and_closes_idle_streams() {
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    let session = endpoint.open().await;
    let (mut idle, mut events) = (endpoint.connect().await, endpoint.connect().await);
    idle.send(stateless("tools/list", json!({}), &[])).await;
    assert_eq!(idle.answer().await.status, StatusCode::OK);
    events.send(listen(&session)).await;
    assert_eq!(events.head().await.unwrap().0, StatusCode::OK);
    let (mut quiet, mut streaming) = (endpoint.connect().await, endpoint.connect().await);
    quiet.send(stateless("tools/call", json!({ "name": "hold" }), &[])).await;
    let params = json!({ "name": "hold", "_meta": { "progressToken": 1 } });
    streaming.send(legacy(Some(&session), "tools/call", params)).await;
    observed.expect(Event::Started).await;
    observed.expect(Event::Started).await;

    observed.server.shutdown();
    assert!(idle.closes_silently().await);
    assert!(events.chunk().await.unwrap().starts_with(b"id: "));
    assert_eq!(events.chunk().await, None);
    within("the end of listening", async {
        while tokio::net::TcpStream::connect(endpoint.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(observed.has_no_events());

    observed.release.add_permits(2);
    assert_eq!(quiet.answer().await.json()["result"]["content"][0]["text"], "held");
    let answer = streaming.answer().await;
    assert_eq!(answer.events().last().unwrap()["result"]["content"][0]["text"], "held");
    endpoint.ended().await.unwrap();
}

#[tokio::test]
async fn calls_past_the_grace_period_are_answered_with_an_error_in_both_eras() {
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new().shutdown_deadline(Duration::from_millis(200))).await;
    let session = endpoint.open().await;
    let mut wires = Vec::new();
    for (id, tool) in [(1, "hold"), (2, "mute")] {
        let params = json!({ "name": tool, "_meta": { "progressToken": id } });
        let in_session = common::legacy_as(id, Some(&session), "tools/call", params.clone());
        let requests = [stateless("tools/call", params, &[]), in_session];
        for request in requests {
            let mut connection = endpoint.connect().await;
            connection.send(request).await;
            observed.expect(Event::Started).await;
            wires.push((tool, connection));
        }
    }
    observed.server.shutdown();
    for (tool, connection) in &mut wires {
        let answer = connection.answer().await;
        // The tool `hold` sends a notification first, so its response is a stream.
        let message = if *tool == "hold" { answer.events().last().unwrap().clone() } else { answer.json() };
        assert_eq!(message["error"]["message"], "the server was shut down", "{tool} {message}");
        let data = serde_json::json!({ "reason": "server_shutdown", "retryable": true });
        assert_eq!(message["error"]["data"], data, "{tool} {message}");
        observed.expect(Event::Dropped).await;
    }
    endpoint.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn calls_over_http_sse_have_the_grace_period_of_the_configuration() {
    // The limit of the core for a connection is shorter than the first grace period and longer than the second one.
    for (grace_period, is_finished) in [(Duration::from_secs(60), true), (Duration::from_millis(200), false)] {
        let mut observed = ObservedServer::new();
        let config = HttpConfig::new().shutdown_deadline(grace_period).sse("/sse", "/messages");
        let service = mcp_server_http::HttpServer::into_service(observed.server.clone(), config);
        let mut client = common::sse::LocalClient::open(&service, "2024-11-05").await;
        let params = json!({ "name": "mute" });
        client.send(json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params })).await;
        observed.expect(Event::Started).await;
        let start = Instant::now();
        observed.server.shutdown();
        if is_finished {
            tokio::time::sleep(grace_period - Duration::from_secs(1)).await;
            assert!(observed.has_no_events());
            observed.release.add_permits(1);
        }
        let answer = loop {
            let message = client.message().await.unwrap();
            if message["id"] == 7 {
                break message;
            }
        };
        if is_finished {
            assert_eq!(answer["result"]["content"][0]["text"], "held", "{answer}");
        } else {
            assert_eq!(answer["error"]["message"], "the server was shut down", "{answer}");
            assert_eq!(start.elapsed().as_millis(), grace_period.as_millis());
        }
        assert_eq!(client.message().await, None);
    }
}

#[tokio::test]
async fn dropping_the_serving_future_closes_everything() {
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    let session = endpoint.open().await;
    let mut wires = Vec::new();
    let hold = || json!({ "name": "hold" });
    for request in [stateless("tools/call", hold(), &[]), legacy(Some(&session), "tools/call", hold())] {
        let mut connection = endpoint.connect().await;
        connection.send(request).await;
        wires.push(connection);
        observed.expect(Event::Started).await;
    }
    // One call lost its connection before; it has to end as well.
    wires.truncate(1);
    endpoint.abort();
    observed.expect(Event::Dropped).await;
    observed.expect(Event::Dropped).await;
}

#[tokio::test]
async fn calls_of_a_mounted_endpoint_end_with_it_or_after_the_grace_period() {
    for is_shut_down in [true, false] {
        let mut observed = ObservedServer::new();
        let config = HttpConfig::new().shutdown_deadline(Duration::from_millis(50)).sse("/sse", "/messages");
        let service = mcp_server_http::HttpServer::into_service(observed.server.clone(), config);
        let session = common::open(&service).await;
        let params = |name| json!({ "name": name, "_meta": { "progressToken": 1 } });
        let hold = common::legacy_as(1, Some(&session), "tools/call", params("hold"));
        let streaming = service.handle(hold).await.into_body();
        observed.expect(Event::Started).await;
        {
            // This call lost its connection before its first message.
            let mute = common::legacy_as(2, Some(&session), "tools/call", params("mute"));
            let mut quiet = std::pin::pin!(service.handle(mute));
            tokio::select! {
                _ = &mut quiet => panic!("the response does not begin before the release"),
                () = observed.expect(Event::Started) => {}
            }
        }
        let old = service.handle(common::sse::get()).await.into_body();
        if is_shut_down {
            observed.server.shutdown();
        } else {
            drop(service);
        }
        observed.expect(Event::Dropped).await;
        observed.expect(Event::Dropped).await;
        for body in [streaming, old] {
            within("the end of a stream", http_body_util::BodyExt::collect(body)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn shutdown_closes_the_streams_of_a_mounted_endpoint() {
    use http_body_util::BodyExt;

    let server = common::server();
    let service = mcp_server_http::HttpServer::into_service(server.clone(), HttpConfig::new());
    let session = common::open(&service).await;
    let stream = common::opened(&service, &session).await;
    let reading = tokio::spawn(stream.collect());
    server.shutdown();
    let rest = within("the end of the stream", reading).await.unwrap().unwrap();
    assert_eq!(rest.to_bytes().len(), 0);
}

#[tokio::test]
async fn a_mounted_endpoint_rejects_requests_after_shutdown() {
    let server = common::server();
    let service = mcp_server_http::HttpServer::into_service(server.clone(), HttpConfig::new());
    let session = common::open(&service).await;
    server.shutdown();
    for late in [stateless("tools/list", json!({}), &[]), legacy(Some(&session), "ping", json!({})), listen(&session)] {
        let answer = common::send(&service, late).await;
        assert_eq!((answer.status, answer.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("1")));
    }
    // A web page may read why.
    let page = stateless("tools/list", json!({}), &[("origin", "http://localhost:5173")]);
    let answer = common::send(&service, page).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.header("access-control-allow-origin"), Some("http://localhost:5173"));
}

#[tokio::test]
async fn shutdown_rejects_a_request_without_its_body_at_once() {
    let server = common::server();
    let endpoint = serve(&server, HttpConfig::new()).await;
    let mut connection = endpoint.connect().await;
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n\
                content-length: 9\r\n\r\n";
    connection.write(head).await;
    // The server has requested the body, so the request is open.
    assert_eq!(connection.head().await.unwrap().0, StatusCode::CONTINUE);
    connection.write("{").await;
    server.shutdown();
    assert_eq!(connection.answer().await.status, StatusCode::SERVICE_UNAVAILABLE);
    endpoint.ended().await.unwrap();
}
