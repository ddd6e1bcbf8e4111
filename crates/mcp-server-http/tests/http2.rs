//! HTTP/2 in cleartext, with prior knowledge, on the port that serves HTTP/1.1 as well.

use std::{error::Error, net::Shutdown, time::Duration};

use http::{Method, StatusCode};
use http_body_util::BodyExt;
use mcp_server_http::HttpConfig;
use serde_json::json;
use tokio::net::TcpStream;

use crate::common::{
    self,
    http2::{Http2, options},
    observed_server::{Event, ObservedServer},
    server,
    socket::serve,
    within,
};

fn call(name: &str) -> http::Request<http_body_util::Full<bytes::Bytes>> {
    let meta = json!({ "progressToken": "p" });
    common::stateless("tools/call", json!({ "name": name, "arguments": {}, "_meta": meta }), &[])
}

#[tokio::test]
async fn serves_http1_and_http2_on_one_port() {
    let endpoint = serve(&server(), HttpConfig::new()).await;
    let echo = || common::stateless("tools/call", json!({ "name": "echo", "arguments": { "text": "hi" } }), &[]);
    let mut new = Http2::connect(endpoint.stream().await).await;
    for answer in [new.exchange(echo()).await, endpoint.exchange(echo()).await, new.exchange(echo()).await] {
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.json()["result"]["content"][0]["text"], "hi");
    }
    // A session of an older revision.
    let opened = new.exchange(common::initialize()).await;
    let session = opened.header("mcp-session-id").unwrap();
    let pong = new.exchange(common::legacy(Some(session), "ping", json!({}))).await;
    assert_eq!(pong.json()["result"], json!({}));
}

#[tokio::test]
async fn checks_the_authority_like_the_host_header() {
    let endpoint = serve(&server(), HttpConfig::new()).await;
    let mut client = Http2::connect(endpoint.stream().await).await;
    let foreign = common::request(Method::OPTIONS, &[("host", "evil.example")], "");
    assert_eq!(client.exchange(foreign).await.status, StatusCode::FORBIDDEN);
    assert_eq!(client.exchange(options()).await.status, StatusCode::NO_CONTENT);
    let mut elsewhere = options();
    *elsewhere.uri_mut() = "/other".parse().unwrap();
    assert_eq!(client.exchange(elsewhere).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn runs_streams_of_one_connection_concurrently() {
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    let mut client = Http2::connect(endpoint.stream().await).await;
    let response = within("the head", client.open(call("hold"))).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    observed.expect(Event::Started).await;
    // The held call does not delay other calls.
    assert_eq!(client.exchange(call("quick")).await.json()["result"]["content"][0]["text"], "quick");
    observed.release.add_permits(1);
    let text = within("the rest", response.into_body().collect()).await.unwrap().to_bytes();
    let text = std::str::from_utf8(&text).unwrap();
    assert_eq!(text.matches("notifications/progress").count(), 999);
    assert!(text.trim_end().ends_with('}') && text.contains(r#""text":"held""#));
    observed.expect(Event::Finished).await;
}

#[tokio::test]
async fn resetting_a_stream_cancels_its_stateless_call() {
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    let mut client = Http2::connect(endpoint.stream().await).await;
    // One call has sent an event, and the other has sent none.
    let response = within("the head", client.open(call("hold"))).await.unwrap();
    observed.expect(Event::Started).await;
    drop(response);
    observed.expect(Event::Dropped).await;
    {
        let mut quiet = std::pin::pin!(client.open(call("mute")));
        tokio::select! {
            _ = &mut quiet => panic!("the response does not begin before the release"),
            () = observed.expect(Event::Started) => {}
        }
    }
    observed.expect(Event::Dropped).await;
    // The connection stays open.
    assert_eq!(client.exchange(call("quick")).await.status, StatusCode::OK);
}

/// The reason for the end of a truncated response.
async fn broken(response: http::Response<hyper::body::Incoming>) -> String {
    let outcome = within("the end of an answer", response.into_body().collect()).await;
    let error = outcome.map(|_| ()).err();
    error.as_ref().and_then(Error::source).map(ToString::to_string).unwrap_or_default()
}

const RESET: &str = "stream error received: stream no longer needed";

#[tokio::test]
async fn resets_an_unread_stream_and_cancels_its_call_without_affecting_others() {
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new().write_timeout(Duration::from_secs(1))).await;
    let mut client = Http2::with_window(endpoint.stream().await, 4 << 10).await;
    let unread = within("the head", client.open(call("hold"))).await.unwrap();
    observed.expect(Event::Started).await;
    let read = within("the head", client.open(call("hold"))).await.unwrap();
    observed.expect(Event::Started).await;
    // The first response is larger than the window of its client.
    observed.release.add_permits(1);
    observed.expect(Event::Dropped).await;
    assert_eq!(broken(unread).await, RESET);
    assert_eq!(client.exchange(call("quick")).await.json()["result"]["content"][0]["text"], "quick");
    observed.release.add_permits(1);
    let text = within("the rest", read.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(std::str::from_utf8(&text).unwrap().matches("notifications/progress").count(), 999);
    observed.expect(Event::Finished).await;
}

#[tokio::test]
async fn resets_unread_responses_of_every_length_when_the_client_grants_no_window() {
    let server = mcp_server_core::Server::builder("test", "1.0")
        .tool(mcp_server_core::tool("small", async || "x"))
        .tool(mcp_server_core::tool("large", async || "x".repeat(1 << 20)))
        .build();
    let endpoint = serve(&server, HttpConfig::new().write_timeout(Duration::from_millis(200))).await;
    let mut client = Http2::with_window(endpoint.stream().await, 0).await;
    for name in ["small", "large"] {
        let unread = within("the head", client.open(call(name))).await.unwrap();
        assert_eq!(broken(unread).await, RESET, "{name}");
    }
    // A response without a body needs no window.
    assert_eq!(client.exchange(options()).await.status, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_lost_connection_cancels_all_of_its_stateless_calls() {
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    let stream = endpoint.stream().await.into_std().unwrap();
    let cutter = stream.try_clone().unwrap();
    let mut client = Http2::connect(TcpStream::from_std(stream).unwrap()).await;
    let first = within("the head", client.open(call("hold"))).await.unwrap();
    observed.expect(Event::Started).await;
    let second = within("the head", client.open(call("hold"))).await.unwrap();
    observed.expect(Event::Started).await;
    cutter.shutdown(Shutdown::Both).unwrap();
    observed.expect(Event::Dropped).await;
    observed.expect(Event::Dropped).await;
    drop((first, second));
}

#[tokio::test]
async fn shutdown_lets_open_requests_finish_and_then_closes_the_rest() {
    let mut observed = ObservedServer::new();
    let config = HttpConfig::new().shutdown_deadline(Duration::from_millis(300));
    let endpoint = serve(&observed.server, config).await;
    let mut client = Http2::connect(endpoint.stream().await).await;
    let ends = within("the head", client.open(call("hold"))).await.unwrap();
    observed.expect(Event::Started).await;
    observed.server.shutdown();
    observed.release.add_permits(1);
    let text = within("the rest", ends.into_body().collect()).await.unwrap().to_bytes();
    assert!(std::str::from_utf8(&text).unwrap().contains(r#""text":"held""#));
    observed.expect(Event::Finished).await;
    client.ended().await;
    endpoint.ended().await.unwrap();

    let mut observed = ObservedServer::new();
    let config = HttpConfig::new().shutdown_deadline(Duration::from_millis(50));
    let endpoint = serve(&observed.server, config).await;
    let mut client = Http2::connect(endpoint.stream().await).await;
    let held = within("the head", client.open(call("hold"))).await.unwrap();
    observed.expect(Event::Started).await;
    observed.server.shutdown();
    endpoint.ended().await.unwrap();
    observed.expect(Event::Dropped).await;
    drop(held);
}
