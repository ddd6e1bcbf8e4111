//! HTTP+SSE: detected by a rejected `initialize`, or configured.

use std::sync::Arc;

use mcp_client_http::Http;
use mcp_transport::{Connect, Route};
use tokio::sync::Notify;

use crate::common::{
    Peer, answer,
    byte_server::{ByteServer, ReceivedRequest, Reply, Step},
    notice, pause, within,
};

/// The revision of this transport.
const OLD: &str = "2024-11-05";

/// A server whose stream names an endpoint. It answers two requests on the stream after their POSTs.
async fn server(endpoint: &'static str) -> ByteServer {
    let posted = Arc::new(Notify::new());
    ByteServer::serve(move |_, seen: &ReceivedRequest| match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", "/mcp") => Reply::events()
            .chunk(&format!("event: endpoint\ndata: {endpoint}\n\n"))
            .step(Step::Wait(Arc::clone(&posted)))
            .event(&answer(0))
            .step(Step::Wait(Arc::clone(&posted)))
            .chunk(&format!(": beat\n\nevent: message\ndata: {}\n\n", notice(1)))
            .event(&answer(1))
            .hold(),
        ("POST", "/messages?session=7") => {
            if seen.call() != "notifications/initialized" {
                posted.notify_one();
            }
            Reply::full(202, &[("content-type", "text/plain")], "Accepted")
        }
        ("POST", _) => Reply::status(405),
        _ => Reply::status(404),
    })
    .await
}

/// A whole session: all messages of the server are on one stream.
async fn talk(peer: &mut Peer) {
    peer.request(OLD, 0, "initialize").await;
    let (route, message) = peer.next().await.unwrap();
    assert_eq!((route, message["id"].as_i64()), (Route::Connection, Some(0)));
    peer.notify(OLD, "notifications/initialized").await;
    peer.request(OLD, 1, "tools/list").await;
    let (route, message) = peer.next().await.unwrap();
    assert_eq!((route, message["params"]["data"].as_i64()), (Route::Connection, Some(1)));
    let (route, message) = peer.next().await.unwrap();
    assert_eq!((route, message["id"].as_i64()), (Route::Connection, Some(1)));
}

#[tokio::test]
async fn opens_the_sse_stream_when_initialize_is_rejected() {
    for endpoint in ["/messages?session=7", "messages?session=7"] {
        let server = server(endpoint).await;
        let mut peer = Peer::connect(&server.url()).await;
        talk(&mut peer).await;
        let seen = server.seen();
        let order: Vec<_> = seen.iter().map(|seen| (seen.method.as_str(), seen.path.as_str())).collect();
        let posted = ("POST", "/messages?session=7");
        assert_eq!(order, [("POST", "/mcp"), ("GET", "/mcp"), posted, posted, posted]);
        assert_eq!(seen[0].body, seen[2].body);
        assert!(seen.iter().all(|seen| seen.header("mcp-session-id").is_none()));
        within("the end", peer.sender().shutdown()).await.unwrap();
        peer.ended().await;
        server.wait_for_disconnects(1).await;
    }
}

#[tokio::test]
async fn opens_the_sse_stream_of_a_known_server_directly() {
    let server = server("/messages?session=7").await;
    let mut peer = Peer::open(&Http::sse(server.url()).unwrap()).await;
    talk(&mut peer).await;
    let order: Vec<_> = server.seen().iter().map(|seen| seen.method.clone()).collect();
    assert_eq!(order, ["GET", "POST", "POST", "POST"]);
    drop(peer);
    server.wait_for_disconnects(1).await;
}

#[tokio::test]
async fn the_session_ends_with_its_stream() {
    let server = ByteServer::serve(|_, seen| match seen.method.as_str() {
        "GET" => {
            let events = Reply::events().chunk("event: endpoint\ndata: /m\n\n").event(&"x".repeat(2000));
            events.event(&notice(1)).end()
        }
        _ => Reply::status(202),
    })
    .await;
    let mut peer = Peer::open(&Http::sse(server.url()).unwrap().max_message(1024)).await;
    // It may have been an answer.
    assert!(peer.next().await.unwrap_err().is_too_large());
    peer.next().await.unwrap();
    let error = peer.next().await.unwrap_err();
    assert!(error.request().is_none() && error.to_string().contains("has ended"), "{error}");
    peer.ended().await;
    assert!(peer.sender().send(crate::common::request(OLD, 1, "ping")).await.unwrap_err().is_closed());
}

#[tokio::test]
async fn a_failed_post_fails_its_request() {
    let server = ByteServer::serve(|_, seen| match (seen.method.as_str(), seen.id()) {
        ("GET", _) => Reply::events().chunk("event: endpoint\ndata: /m\n\n").hold(),
        (_, 1) => Reply::full(500, &[("content-type", "text/plain")], "out of order"),
        _ => Reply::status(404),
    })
    .await;
    let mut peer = Peer::open(&Http::sse(server.url()).unwrap()).await;
    peer.request(OLD, 1, "tools/list").await;
    let error = peer.fault(1).await;
    assert_eq!((error.http_status(), error.to_string().ends_with("500: out of order")), (Some(500), true), "{error}");
    peer.request(OLD, 2, "tools/list").await;
    assert!(peer.fault(2).await.is_session_lost());
}

#[track_caller]
fn check(error: &mcp_transport::TransportError, expected: &str) {
    assert!(error.to_string().contains(expected), "{error}: not {expected:?}");
}

#[tokio::test]
async fn rejects_a_stream_without_the_endpoint_event() {
    let endpoint = |url: &str| Reply::events().chunk(&format!("event: endpoint\ndata: {url}\n\n")).hold();
    for (reply, expected) in [
        (Reply::status(405), "status 405"),
        (Reply::json("{}"), "`application/json`"),
        (Reply::events().event(&notice(1)).hold(), "does not begin with the event `endpoint`"),
        (Reply::events().chunk(&format!("event: endpoint\ndata: /{}", "x".repeat(5 << 20))).hold(), "limit of 4194304"),
        (Reply::events().chunk(&"x".repeat(5 << 20)).hold(), "limit of 4194304"),
        (Reply::events().end(), "does not begin with the event `endpoint`"),
        (endpoint("http://"), "does not begin with the event `endpoint`"),
        (endpoint("https://evil.example/x?key=hunter2"), "another origin, `https://evil.example`"),
        (endpoint("//evil.example/x"), "another origin, `http://evil.example`"),
        (endpoint("http://127.0.0.1:1/x"), "another origin, `http://127.0.0.1:1`"),
    ] {
        let server = ByteServer::serve(move |_, _| reply.clone()).await;
        let opened = within("an answer", Http::sse(server.url()).unwrap().connect()).await;
        check(&opened.err().unwrap(), expected);
    }
}

#[tokio::test]
async fn the_wait_for_the_first_event_is_bounded() {
    pause();
    for reply in [Reply::events().chunk(": nothing yet\n\n").hold(), Reply::raw("").hold()] {
        let server = ByteServer::serve(move |_, _| reply.clone()).await;
        let opened = Http::sse(server.url()).unwrap().connect().await;
        check(&opened.err().unwrap(), "did not answer within 10s");
        server.wait_for_disconnects(1).await;
    }
}

#[tokio::test]
async fn reports_the_first_rejection_if_the_sse_stream_fails() {
    let message = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}"#;
    let modern = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no"}}"#;
    for (status, body, is_get_expected) in [
        (400, "", true),
        (404, "", true),
        (405, "", true),
        (400, message, true),
        (400, modern, false),
        (401, "", false),
        (500, "", false),
        (500, message, false),
    ] {
        let server = ByteServer::serve(move |_, seen| match seen.method.as_str() {
            "POST" => Reply::full(status, &[], body),
            _ => Reply::status(404),
        })
        .await;
        let mut peer = Peer::connect(&server.url()).await;
        peer.request(OLD, 1, "initialize").await;
        match peer.next().await {
            Ok((route, got)) => assert_eq!((route, got.to_string().as_str()), (Route::Request(1.into()), body)),
            Err(error) => assert_eq!((error.http_status(), body), (Some(status), "")),
        }
        assert_eq!(server.seen().iter().any(|seen| seen.method == "GET"), is_get_expected, "{status} {body}");
    }
}
