//! Messages in both directions: each POST, its headers and the forms of its response.

use mcp_transport::{Frame, Route};
use serde_json::json;

use crate::common::{
    LEGACY, MODERN, Peer, answer,
    byte_server::{ByteServer, Reply, Step},
    hints, notice, request, request_with,
};

#[tokio::test]
async fn a_request_is_a_post_that_mirrors_its_message() {
    let server = ByteServer::serve(|_, seen| Reply::result(seen)).await;
    let mut peer = Peer::connect(&server.url()).await;
    let mut frame = request_with(MODERN, 1, "tools/call", json!({ "name": "grüße" }));
    frame.hints.params = vec![("Region".into(), "eu west".into()), ("X".into(), " ".into())];
    let body = String::from_utf8(frame.message.to_vec()).unwrap();
    peer.send(frame).await;
    assert_eq!(
        peer.next().await.unwrap(),
        (Route::Request(1.into()), json!({"jsonrpc": "2.0", "id": 1, "result": {}}))
    );
    let seen = server.seen().remove(0);
    assert_eq!((seen.method.as_str(), seen.path.as_str(), &seen.body), ("POST", "/mcp", &body));
    for (name, expected) in [
        ("content-type", Some("application/json")),
        ("accept", Some("application/json, text/event-stream")),
        ("mcp-protocol-version", Some(MODERN)),
        ("mcp-method", Some("tools/call")),
        ("mcp-name", Some("=?base64?Z3LDvMOfZQ==?=")),
        ("mcp-param-region", Some("eu west")),
        ("mcp-param-x", Some("=?base64?IA==?=")),
        ("mcp-session-id", None),
        ("referer", None),
    ] {
        assert_eq!(seen.header(name), expected, "{name}");
    }
}

#[tokio::test]
async fn sends_notifications_and_responses_as_posts() {
    let server = ByteServer::serve(|_, _| Reply::status(202)).await;
    let peer = Peer::connect(&server.url()).await;
    peer.notify(LEGACY, "notifications/cancelled").await;
    let reply = json!({ "jsonrpc": "2.0", "id": 7, "result": { "roots": [] } }).to_string();
    // An answer that belongs to the stream of a request is no request.
    peer.send(Frame::new(reply.clone()).with_route(Route::Request(3.into()))).await;
    let seen = server.saw(2).await;
    assert!(seen.iter().any(|seen| seen.call() == "notifications/cancelled"));
    assert!(seen.iter().any(|seen| seen.body == reply));
}

#[tokio::test]
async fn events_of_a_stream_have_the_route_of_its_request() {
    let server = ByteServer::serve(|_, seen| {
        Reply::events()
            .chunk(": hello\n\nevent: ping\ndata: {}\n\ndata\n\n")
            .event(&notice(1))
            .chunk("event: message\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"method\":\"notifications/x\"}\r\n\r\n")
            .event(&answer(seen.id()))
            .end()
    })
    .await;
    let mut peer = Peer::connect(&server.url()).await;
    peer.request(MODERN, 5, "tools/call").await;
    for expected in [
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "data": 1 } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/x" }),
        json!({ "jsonrpc": "2.0", "id": 5, "result": {} }),
    ] {
        assert_eq!(peer.next().await.unwrap(), (Route::Request(5.into()), expected));
    }
    // The connection was read to its end, so that it serves the next request.
    peer.request(MODERN, 6, "tools/call").await;
    for _ in 0..3 {
        assert_eq!(peer.next().await.unwrap().0, Route::Request(6.into()));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn concurrent_requests_reuse_connections() {
    const COUNT: i64 = 16;
    let all_there = std::sync::Arc::new(tokio::sync::Notify::new());
    let released = std::sync::Arc::clone(&all_there);
    let server = ByteServer::serve(move |number, seen| {
        if number == 16 {
            released.notify_waiters();
            // Those that begin to wait only now.
            (0..16).for_each(|_| released.notify_one());
        }
        let reply = Reply::events();
        if number < 16 { reply.step(Step::Wait(std::sync::Arc::clone(&released))) } else { reply }
            .event(&answer(seen.id()))
            .end()
    })
    .await;
    drop(all_there);
    let mut peer = Peer::connect(&server.url()).await;
    for round in 0..2 {
        for id in 0..COUNT {
            peer.request(MODERN, round * COUNT + id, "tools/list").await;
        }
        let mut answered = Vec::new();
        for _ in 0..COUNT {
            let (route, message) = peer.next().await.unwrap();
            assert_eq!(route, Route::Request(message["id"].as_i64().unwrap().into()));
            answered.push(message["id"].as_i64().unwrap());
        }
        answered.sort_unstable();
        assert!(answered.iter().copied().eq(round * COUNT..(round + 1) * COUNT));
    }
    // The client replaces a connection that becomes idle too late. It reuses the others.
    assert!((16..32).contains(&server.connections()), "{}", server.connections());
}

#[tokio::test]
async fn a_status_with_a_message_yields_the_message() {
    for (status, error) in [
        (400, json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32022, "message": "no" } })),
        (404, json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32601, "message": "no" } })),
        (500, json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32603, "message": "no" } })),
        (400, json!({ "jsonrpc": "2.0", "error": { "code": -32700, "message": "no" } })),
        (503, json!({ "jsonrpc": "2.0", "id": 1, "result": {} })),
    ] {
        let body = error.to_string();
        let server =
            ByteServer::serve(move |_, _| Reply::full(status, &[("content-type", "application/json")], &body)).await;
        let mut peer = Peer::connect(&server.url()).await;
        peer.request(MODERN, 1, "server/discover").await;
        assert_eq!(peer.next().await.unwrap(), (Route::Request(1.into()), error), "{status}");
    }
}

#[tokio::test]
async fn closing_a_request_closes_its_connection() {
    let server = ByteServer::serve(|_, seen| match seen.id() {
        1 => Reply::events().event(&notice(1)).hold(),
        2 => Reply::raw("").hold(),
        _ => Reply::result(seen),
    })
    .await;
    let mut peer = Peer::connect(&server.url()).await;
    peer.request(MODERN, 1, "tools/call").await;
    peer.next().await.unwrap();
    peer.sender().close(&1.into());
    server.wait_for_disconnects(1).await;
    peer.request(MODERN, 2, "tools/call").await;
    server.saw(2).await;
    peer.sender().close(&2.into());
    peer.sender().close(&99.into());
    server.wait_for_disconnects(2).await;
    peer.request(MODERN, 3, "tools/call").await;
    assert_eq!(peer.next().await.unwrap().0, Route::Request(3.into()));
}

#[tokio::test]
async fn dropping_the_transport_closes_every_connection() {
    let server = ByteServer::serve(|_, _| Reply::events().hold()).await;
    let peer = Peer::connect(&server.url()).await;
    let sender = peer.sender();
    for id in 0..4 {
        peer.request(MODERN, id, "tools/call").await;
    }
    server.saw(4).await;
    drop(peer);
    server.wait_for_disconnects(4).await;
    assert!(sender.send(request(MODERN, 9, "ping")).await.unwrap_err().is_closed());
    assert!(sender.ready(1).await.unwrap_err().is_closed());
    assert!(matches!(sender.try_send(request(MODERN, 9, "ping")), Err(mcp_transport::TrySendError::Closed(_))));
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn limits_concurrent_requests_as_configured() {
    let server = ByteServer::serve(|_, _| Reply::events().hold()).await;
    let http = mcp_client_http::Http::new(server.url()).unwrap().max_requests(2);
    let peer = Peer::open(&http).await;
    let sender = peer.sender();
    sender.try_send(request(MODERN, 1, "a")).unwrap();
    sender.try_send(request(MODERN, 2, "a")).unwrap();
    assert!(matches!(sender.try_send(request(MODERN, 3, "a")), Err(mcp_transport::TrySendError::Full(_))));
    // Notifications have their own limit.
    sender.try_send(Frame::new("{}").with_hints(hints(MODERN, "notifications/x"))).unwrap();
    let mut waiting = Box::pin(sender.send(request(MODERN, 3, "a")));
    tokio::select! {
        biased;
        sent = &mut waiting => panic!("{sent:?}"),
        () = tokio::task::yield_now() => {}
    }
    // Pings have their own limit, too, so that long calls do not delay them.
    sender.try_send(request(MODERN, 4, "server/discover")).unwrap();
    server.saw(3).await;
    sender.close(&1.into());
    crate::common::within("room", waiting).await.unwrap();
    // The first may not have got as far as the server.
    server.saw(3).await;
}

#[tokio::test]
async fn rejects_a_frame_whose_mirrored_value_is_not_a_valid_header() {
    let peer = Peer::connect("http://127.0.0.1:9/mcp").await;
    let mut frame = request(MODERN, 1, "tools/call");
    frame.hints.params = vec![("a b".into(), "x".into())];
    assert!(matches!(peer.sender().try_send(frame.clone()), Err(mcp_transport::TrySendError::Refused(_))));
    let error = peer.sender().send(frame).await.unwrap_err();
    assert_eq!(error.to_string(), "the message contains the parameter \"a b\", which a header cannot carry");
    assert!(error.is_lasting() && error.request().is_none());
}
