//! The GET stream for messages of the server: when the client opens it, reopens it and closes it.

use std::time::Duration;

use mcp_client_http::Http;
use mcp_transport::Route;
use tokio::time::Instant;

use crate::common::{
    Peer,
    byte_server::{ByteServer, ReceivedRequest, Reply},
    notice, pause,
};

/// A server that answers these to the GETs of a session, the last of them for good.
async fn server(replies: Vec<Reply>) -> ByteServer {
    let gets = std::sync::atomic::AtomicUsize::new(0);
    ByteServer::serve(move |_, seen: &ReceivedRequest| match (seen.method.as_str(), seen.call().as_str()) {
        ("GET", _) => {
            let number = gets.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            replies[number.min(replies.len() - 1)].clone()
        }
        (_, "initialize") => Reply::opening(seen, "s-1"),
        (_, "tools/list") => Reply::result(seen),
        _ => Reply::status(202),
    })
    .await
}

fn gets(server: &ByteServer) -> Vec<ReceivedRequest> {
    server.seen().into_iter().filter(|seen| seen.method == "GET").collect()
}

#[tokio::test]
async fn receives_server_messages_on_the_get_stream_and_resumes_it() {
    pause();
    let first = Reply::events().chunk("id: p\nretry: 7000\ndata: \n\n").event_as("g-1", &notice(1)).cut();
    let second = Reply::events().event_as("g-2", &notice(2)).hold();
    let server = server(vec![first, second]).await;
    let mut peer = Peer::in_session(&server.url()).await;
    assert_eq!(peer.next().await.unwrap().0, Route::Connection);
    let began = Instant::now();
    let (route, message) = peer.next().await.unwrap();
    assert_eq!((route, message["params"]["data"].as_i64()), (Route::Connection, Some(2)));
    assert!(began.elapsed() >= Duration::from_secs(7), "{:?}", began.elapsed());
    let gets = gets(&server);
    assert_eq!((gets[0].header("last-event-id"), gets[1].header("last-event-id")), (None, Some("g-1")));
    assert!(gets.iter().all(|get| get.header("mcp-session-id") == Some("s-1")));
    drop(peer);
    server.wait_for_disconnects(1).await;
}

#[tokio::test]
async fn does_not_retry_a_permanent_rejection() {
    pause();
    for status in [405, 400, 401, 403, 406, 501] {
        let server = server(vec![Reply::status(status)]).await;
        let mut peer = Peer::in_session(&server.url()).await;
        server.saw(3).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(gets(&server).len(), 1, "{status}");
        peer.request(crate::common::LEGACY, 1, "tools/list").await;
        assert_eq!(peer.next().await.unwrap().0, Route::Request(1.into()));
    }
}

#[tokio::test]
async fn retries_a_temporary_rejection_a_bounded_number_of_times() {
    pause();
    let server = server(vec![Reply::status(503)]).await;
    let _peer = Peer::in_session(&server.url()).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(gets(&server).len(), 5);
}

#[tokio::test]
async fn retries_a_lost_stream_with_increasing_delays() {
    pause();
    let mut replies = vec![Reply::events().event(&notice(1)).end()];
    replies.extend(std::iter::repeat_n(Reply::status(502), 20));
    replies.push(Reply::events().event(&notice(2)).hold());
    let server = server(replies).await;
    let mut peer = Peer::in_session(&server.url()).await;
    peer.next().await.unwrap();
    let began = Instant::now();
    // No event had an id, so the stream cannot be resumed.
    assert!(peer.next().await.unwrap_err().is_missed());
    peer.next().await.unwrap();
    let waited = began.elapsed();
    // Five waits grow from a second to half a minute; the rest are of half a minute at most.
    assert!(waited > Duration::from_secs(15 * 15) && waited < Duration::from_secs(21 * 31), "{waited:?}");
}

#[tokio::test]
async fn reports_possible_loss_when_a_stream_cannot_be_resumed() {
    pause();
    let named = |n| Reply::events().event_as(&format!("g-{n}"), &notice(n)).cut();
    for (name, replies, expected) in [
        (
            "no place to go on",
            vec![Reply::events().event(&notice(1)).cut(), Reply::events().event(&notice(2)).hold()],
            1,
        ),
        ("a place that is unknown", vec![named(1), Reply::status(400), Reply::events().event(&notice(2)).hold()], 1),
        ("a place that is known", vec![named(1), named(2), Reply::events().hold()], 0),
        ("gone for good", vec![Reply::events().event(&notice(1)).cut(), Reply::status(405)], 1),
        ("a place that is gone for good", vec![named(1), Reply::status(405)], 1),
    ] {
        let has_two = replies.len() > 2 || expected == 1 && !name.ends_with("good");
        let server = server(replies).await;
        let mut peer = Peer::in_session(&server.url()).await;
        assert_eq!(peer.next().await.unwrap().1["params"]["data"], 1, "{name}");
        for _ in 0..expected {
            let error = peer.next().await.unwrap_err();
            assert!(error.is_missed() && error.request().is_none(), "{name}: {error}");
        }
        if has_two {
            assert_eq!(peer.next().await.unwrap().1["params"]["data"], 2, "{name}");
        }
        tokio::time::sleep(Duration::from_secs(100)).await;
        peer.nothing().await;
    }
}

#[tokio::test]
async fn reports_a_lost_session_once() {
    pause();
    let about_session = Reply::full(400, &[("content-type", "text/plain")], "Invalid or missing session ID");
    for reply in [Reply::status(404), about_session] {
        let server = server(vec![reply]).await;
        let mut peer = Peer::in_session(&server.url()).await;
        let error = peer.next().await.unwrap_err();
        assert!(error.is_session_lost() && error.request().is_none());
        tokio::time::sleep(Duration::from_secs(3600)).await;
        peer.nothing().await;
        assert_eq!(gets(&server).len(), 1);
    }
}

#[tokio::test]
async fn an_event_above_the_limit_loses_only_itself() {
    let events = Reply::events().event(&"x".repeat(2000)).event(&notice(1)).hold();
    let server = server(vec![events]).await;
    let mut peer = Peer::open(&Http::new(server.url()).unwrap().max_message(1024)).await;
    peer.initialize().await;
    // The response belongs to no request, so the client ignores it.
    assert_eq!(peer.next().await.unwrap().1["params"]["data"], 1);
}
