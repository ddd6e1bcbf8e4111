//! The client resumes the stream of a request on another connection if the events have ids.

use std::{future::ready, time::Duration};

use http::{HeaderMap, Method};
use mcp_client_http::{Authorizer, AuthorizerError, Http, Refusal, Target, Verdict};
use mcp_transport::{BoxFuture, Route};
use tokio::time::Instant;

use crate::common::{
    LEGACY, MODERN, Peer, answer,
    byte_server::{ByteServer, ReceivedRequest, Reply},
    notice, pause,
};

/// A server that answers these to the POST and the GETs for the stream of a request, the last of them for good.
async fn server(replies: Vec<Reply>) -> ByteServer {
    ByteServer::serve(move |number, seen: &ReceivedRequest| match seen.call().as_str() {
        "initialize" => Reply::opening(seen, "s-1"),
        _ => replies[(number - 2).min(replies.len() - 1)].clone(),
    })
    .await
}

/// A peer with a session, without a GET stream, and with a pending request.
async fn peer_with_request(server: &ByteServer) -> Peer {
    let mut peer = Peer::connect(&server.url()).await;
    peer.request(LEGACY, 0, "initialize").await;
    peer.next().await.unwrap();
    peer.request(LEGACY, 1, "tools/call").await;
    peer
}

#[tokio::test]
async fn resumes_a_broken_stream_after_its_last_event() {
    pause();
    let first = Reply::events().event_as("a-1", &notice(1)).chunk("id: a-2\ndata: {").cut();
    let second = Reply::events().event_as("a-2", &notice(2)).end();
    let third = Reply::events().event_as("a-3", &answer(1)).end();
    let server = server(vec![first, second, third]).await;
    let mut peer = peer_with_request(&server).await;
    for expected in [1, 2] {
        let (route, message) = peer.next().await.unwrap();
        assert_eq!((route, message["params"]["data"].as_i64()), (Route::Request(1.into()), Some(expected)));
    }
    let (route, message) = peer.next().await.unwrap();
    assert_eq!((route, message["id"].as_i64()), (Route::Request(1.into()), Some(1)));
    let seen = server.seen();
    for (get, id) in [(&seen[2], "a-1"), (&seen[3], "a-2")] {
        assert_eq!((get.method.as_str(), get.header("last-event-id")), ("GET", Some(id)));
        assert_eq!((get.header("mcp-session-id"), get.header("accept")), (Some("s-1"), Some("text/event-stream")));
    }
    assert_eq!(seen.len(), 4);
}

#[tokio::test]
async fn reconnects_after_the_delay_that_the_server_requests() {
    pause();
    let opening = |id: &str| Reply::events().chunk(&format!("id: {id}\nretry: 5000\ndata: \n\n")).end();
    let nothing_new = Reply::events().chunk("retry: 5000\n\n").end();
    let mut replies = vec![opening("p-0"), opening("p-1")];
    replies.extend(std::iter::repeat_n(nothing_new, 10));
    replies.push(Reply::events().event(&answer(1)).end());
    let count = u32::try_from(replies.len()).unwrap();
    let server = server(replies).await;
    let mut peer = peer_with_request(&server).await;
    let began = Instant::now();
    assert_eq!(peer.next().await.unwrap().0, Route::Request(1.into()));
    let waited = began.elapsed();
    let requested = Duration::from_secs(5) * (count - 1);
    assert!(waited >= requested && waited < requested + Duration::from_secs(2), "{waited:?}");
    let ids: Vec<_> = server.seen()[2..].iter().map(|seen| seen.header("last-event-id").unwrap().to_owned()).collect();
    assert_eq!(ids[..3], ["p-0", "p-1", "p-1"]);
}

#[tokio::test]
async fn limits_the_resumptions_of_a_stream() {
    pause();
    let first = || Reply::events().event_as("a-1", &notice(1)).end();
    for (what, reply, gets) in [
        ("nothing new", Reply::events().end(), 6),
        ("busy", Reply::status(503), 6),
        ("no stream", Reply::status(405), 1),
        ("no such event", Reply::status(400), 1),
        ("other content", Reply::json("{}"), 1),
    ] {
        let server = server(vec![first(), reply]).await;
        let mut peer = peer_with_request(&server).await;
        peer.next().await.unwrap();
        let error = peer.fault(1).await;
        assert!(error.is_unanswered(), "{what}: {error}");
        assert_eq!(server.seen().iter().filter(|seen| seen.method == "GET").count(), gets, "{what}");
    }
    let server = server(vec![first(), Reply::status(404)]).await;
    let mut peer = peer_with_request(&server).await;
    peer.next().await.unwrap();
    // The session is lost, but the server accepted the request. The error does not claim that the request did not
    // run.
    let error = peer.next().await.unwrap_err();
    assert!(error.is_session_lost() && error.request().is_none(), "{error}");
    assert!(peer.fault(1).await.is_unanswered());
}

/// Authorizes no stream.
struct OnlyPosts;

impl Authorizer for OnlyPosts {
    fn authorize<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        let needs_login = target.method == Method::GET;
        Box::pin(ready(if needs_login { Err(AuthorizerError::login_required("no")) } else { Ok(HeaderMap::new()) }))
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(ready(Ok(Verdict::GiveUp)))
    }
}

#[tokio::test]
async fn a_request_whose_stream_cannot_be_authorized_again_was_received() {
    pause();
    let server = server(vec![Reply::events().event_as("a-1", &notice(1)).end()]).await;
    let mut peer = Peer::open(&Http::new(server.url()).unwrap().authorizer(OnlyPosts)).await;
    peer.request(LEGACY, 0, "initialize").await;
    peer.next().await.unwrap();
    peer.request(LEGACY, 1, "tools/call").await;
    peer.next().await.unwrap();
    let error = peer.fault(1).await;
    assert!(error.is_unanswered(), "{error}");
}

/// Of 2025-03-26.
#[tokio::test]
async fn a_batch_with_the_response_ends_the_stream() {
    pause();
    let batch = format!("[{},{}]", notice(1), answer(1));
    let server =
        server(vec![Reply::events().event_as("a-1", &batch).end(), Reply::events().event(&answer(1)).end()]).await;
    let mut peer = peer_with_request(&server).await;
    assert_eq!(peer.next().await.unwrap().0, Route::Request(1.into()));
    // This is later than the next attempt to resume.
    tokio::time::sleep(Duration::from_secs(60)).await;
    peer.nothing().await;
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn respects_retry_after_of_a_busy_server() {
    pause();
    let busy = Reply::full(503, &[("retry-after", "40")], "");
    let replies = vec![Reply::events().event_as("1", &notice(1)).end(), busy, Reply::events().event(&answer(1)).end()];
    let server = server(replies).await;
    let mut peer = peer_with_request(&server).await;
    peer.next().await.unwrap();
    let began = Instant::now();
    assert_eq!(peer.next().await.unwrap().0, Route::Request(1.into()));
    assert!(began.elapsed() >= Duration::from_secs(40), "{:?}", began.elapsed());
}

#[tokio::test]
async fn does_not_resume_without_event_ids_or_sessions() {
    for (version, reply) in [
        (MODERN, Reply::events().event_as("a-1", &notice(1)).end()),
        (LEGACY, Reply::events().event(&notice(1)).end()),
        (LEGACY, Reply::events().event_as("a-1", &notice(1)).chunk("id\n\n").end()),
    ] {
        let server = ByteServer::serve(move |_, _| reply.clone()).await;
        let mut peer = Peer::connect(&server.url()).await;
        peer.request(version, 1, "tools/call").await;
        peer.next().await.unwrap();
        assert!(peer.fault(1).await.is_unanswered());
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn closing_a_request_ends_its_resumption() {
    pause();
    let server = server(vec![Reply::events().event_as("a-1", &notice(1)).end(), Reply::events().hold()]).await;
    let mut peer = peer_with_request(&server).await;
    peer.next().await.unwrap();
    server.saw(3).await;
    peer.sender().close(&1.into());
    server.wait_for_disconnects(1).await;
    peer.nothing().await;
}
