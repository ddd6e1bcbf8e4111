//! Sessions: the client learns the id from the response to `initialize`, sends it, loses it and deletes it.

use std::sync::Arc;

use mcp_client_http::Http;
use mcp_transport::{Connect, Route};
use tokio::sync::Notify;

use crate::common::{
    LEGACY, MODERN, Peer, answer,
    byte_server::{ByteServer, ReceivedRequest, Reply, Step},
    within,
};

/// A server with sessions and without a GET stream.
fn script(_: usize, seen: &ReceivedRequest) -> Reply {
    match (seen.method.as_str(), seen.call().as_str()) {
        ("POST", "initialize") => Reply::opening(seen, "s-1"),
        ("POST", method) if method.starts_with("notifications/") => Reply::status(202),
        ("POST", _) => Reply::result(seen),
        _ => Reply::status(405),
    }
}

#[tokio::test]
async fn sends_the_session_id_and_version_once_known() {
    let server = ByteServer::serve(script).await;
    let mut peer = Peer::in_session(&server.url()).await;
    peer.request(LEGACY, 1, "tools/list").await;
    peer.next().await.unwrap();
    within("the end", peer.sender().shutdown()).await.unwrap();
    peer.ended().await;
    let seen = server.seen();
    let of = |method: &str, call: &str| seen.iter().find(|seen| seen.method == method && seen.call() == call).unwrap();
    for (seen, session, version) in [
        (of("POST", "initialize"), None, None),
        (of("POST", "notifications/initialized"), Some("s-1"), Some(LEGACY)),
        (of("GET", ""), Some("s-1"), Some(LEGACY)),
        (of("POST", "tools/list"), Some("s-1"), Some(LEGACY)),
        (of("DELETE", ""), Some("s-1"), Some(LEGACY)),
    ] {
        assert_eq!(
            (seen.header("mcp-session-id"), seen.header("mcp-protocol-version")),
            (session, version),
            "{seen:?}"
        );
        assert_eq!(seen.header("mcp-method"), None);
    }
    assert_eq!(of("GET", "").header("accept"), Some("text/event-stream"));
    assert_eq!(seen.len(), 5, "{seen:?}");
}

#[tokio::test]
async fn a_stream_can_open_a_session() {
    let server = ByteServer::serve(|number, seen| match number {
        1 => Reply::events_with("mcp-session-id: s-2\r\n").event(&answer(seen.id())).end(),
        _ => script(number, seen),
    })
    .await;
    let mut peer = Peer::in_session(&server.url()).await;
    peer.request(LEGACY, 1, "tools/list").await;
    peer.next().await.unwrap();
    assert!(server.seen().iter().skip(1).all(|seen| seen.header("mcp-session-id") == Some("s-2")));
}

#[tokio::test]
async fn the_oldest_revisions_send_no_version_and_stateless_requests_no_session() {
    let server = ByteServer::serve(script).await;
    let mut peer = Peer::connect(&server.url()).await;
    peer.request("2025-03-26", 0, "initialize").await;
    peer.next().await.unwrap();
    peer.notify("2025-03-26", "notifications/initialized").await;
    server.saw(3).await;
    peer.request("2025-03-26", 1, "tools/list").await;
    peer.next().await.unwrap();
    peer.request(MODERN, 2, "tools/list").await;
    peer.next().await.unwrap();
    let seen = server.seen();
    assert!(seen[1..4].iter().all(|seen| seen.header("mcp-protocol-version").is_none()), "{seen:?}");
    assert!(seen[1..4].iter().all(|seen| seen.header("mcp-session-id") == Some("s-1")), "{seen:?}");
    assert_eq!((seen[4].header("mcp-protocol-version"), seen[4].header("mcp-session-id")), (Some(MODERN), None));
}

#[tokio::test]
async fn session_messages_wait_for_the_end_of_the_handshake() {
    let released = Arc::new(Notify::new());
    let release = Arc::clone(&released);
    let server = ByteServer::serve(move |number, seen| match seen.call().as_str() {
        "notifications/initialized" => Reply::raw("")
            .step(Step::Wait(Arc::clone(&released)))
            .step(Step::Send(b"HTTP/1.1 202 X\r\n\r\n".to_vec()))
            .cut(),
        _ => script(number, seen),
    })
    .await;
    let mut peer = Peer::in_session(&server.url()).await;
    peer.request(LEGACY, 1, "tools/list").await;
    // A stateless request has no session to wait for.
    peer.request(MODERN, 2, "tools/list").await;
    assert_eq!(peer.next().await.unwrap().0, Route::Request(2.into()));
    assert!(!server.seen().iter().any(|seen| seen.id() == 1));
    release.notify_one();
    assert_eq!(peer.next().await.unwrap().0, Route::Request(1.into()));
}

#[tokio::test]
async fn a_failed_handshake_does_not_block_other_messages() {
    let server = ByteServer::serve(|number, seen| match seen.call().as_str() {
        "notifications/initialized" => Reply::status(400),
        _ => script(number, seen),
    })
    .await;
    let mut peer = Peer::in_session(&server.url()).await;
    peer.request(LEGACY, 1, "tools/list").await;
    assert_eq!(peer.next().await.unwrap().0, Route::Request(1.into()));
    // No GET stream belongs to a session that was not opened.
    assert!(!server.seen().iter().any(|seen| seen.method == "GET"));
}

#[tokio::test]
async fn a_404_in_a_session_is_a_lost_session() {
    let lost = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;
    let server = ByteServer::serve(move |number, seen| match seen.call().as_str() {
        "tools/list" | "notifications/cancelled" => Reply::full(404, &[("content-type", "application/json")], lost),
        _ => script(number, seen),
    })
    .await;
    let mut peer = Peer::in_session(&server.url()).await;
    peer.request(LEGACY, 1, "tools/list").await;
    assert!(peer.fault(1).await.is_session_lost());
    // Without a session, a 404 is an error of the request.
    peer.request(MODERN, 2, "tools/list").await;
    assert_eq!(peer.next().await.unwrap().0, Route::Request(2.into()));
    // A notification has no response, so the transport reports the loss.
    peer.notify(LEGACY, "notifications/cancelled").await;
    let error = peer.next().await.unwrap_err();
    assert!(error.is_session_lost() && error.request().is_none());
    // The session has already ended.
    within("the end", peer.sender().shutdown()).await.unwrap();
    assert!(!server.seen().iter().any(|seen| seen.method == "DELETE"));
}

#[tokio::test]
async fn a_400_about_the_session_is_a_lost_session() {
    let text = &[("content-type", "text/plain")][..];
    let json = &[("content-type", "application/json")][..];
    let error =
        |id: &str, message: &str| format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32000,"message":"{message}"}}}}"#);
    for (headers, body, is_lost) in [
        (json, error(r#""id":null,"#, "Bad Request: No valid session ID provided"), true),
        (json, error("", "Session expired"), true),
        (text, "Invalid session".to_owned(), true),
        (json, error(r#""id":1,"#, "the session of yoga is full"), false),
        (json, error(r#""id":null,"#, "Bad Request"), false),
        (text, "Bad Request".to_owned(), false),
    ] {
        let shown = body.clone();
        let server = ByteServer::serve(move |number, seen| match seen.call().as_str() {
            "tools/call" => Reply::full(400, headers, &body),
            _ => script(number, seen),
        })
        .await;
        let mut peer = Peer::in_session(&server.url()).await;
        peer.request(LEGACY, 1, "tools/call").await;
        let got = peer.next().await;
        assert_eq!(got.is_err_and(|error| error.is_session_lost()), is_lost, "{shown}");
        // A request without a session does not lose one.
        peer.request(MODERN, 2, "tools/call").await;
        assert!(!peer.next().await.is_err_and(|error| error.is_session_lost()), "{shown}");
    }
}

#[tokio::test]
async fn closing_waits_for_pending_posts_and_deletes_the_session_once() {
    let released = Arc::new(Notify::new());
    let release = Arc::clone(&released);
    let server = ByteServer::serve(move |number, seen| match seen.call().as_str() {
        "notifications/cancelled" => Reply::raw("")
            .step(Step::Wait(Arc::clone(&released)))
            .step(Step::Send(b"HTTP/1.1 202 X\r\n\r\n".to_vec()))
            .cut(),
        "tools/call" => Reply::events().hold(),
        _ => script(number, seen),
    })
    .await;
    let mut peer = Peer::in_session(&server.url()).await;
    server.saw(3).await;
    peer.request(LEGACY, 1, "tools/call").await;
    peer.notify(LEGACY, "notifications/cancelled").await;
    server.saw(5).await;
    let sender = peer.sender();
    let ending = tokio::spawn(async move { sender.shutdown().await });
    // The caller does not wait for these responses, so the requests end at once.
    server.wait_for_disconnects(1).await;
    assert!(!server.seen().iter().any(|seen| seen.method == "DELETE"));
    release.notify_one();
    within("the end", ending).await.unwrap().unwrap();
    peer.ended().await;
    within("another end", peer.sender().shutdown()).await.unwrap();
    assert_eq!(server.seen().iter().filter(|seen| seen.method == "DELETE").count(), 1);
}

#[tokio::test]
async fn does_not_delete_without_a_session() {
    let server = ByteServer::serve(|_, seen| Reply::result(seen)).await;
    let mut peer = Peer::connect(&server.url()).await;
    peer.request(MODERN, 1, "tools/list").await;
    peer.next().await.unwrap();
    within("the end", peer.sender().shutdown()).await.unwrap();
    peer.ended().await;
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn each_transport_has_its_own_session() {
    let server = ByteServer::serve(script).await;
    let http = Http::new(server.url()).unwrap();
    let mut first = Peer::open(&http).await;
    first.initialize().await;
    let mut second = Peer::open(&http).await;
    second.request(LEGACY, 1, "tools/list").await;
    second.next().await.unwrap();
    let seen = server.seen();
    let listing = seen.iter().find(|seen| seen.call() == "tools/list").unwrap();
    assert_eq!(listing.header("mcp-session-id"), None);
    assert_eq!(http.describe(), server.url());
}
