//! Requests in the future of their caller, and the cases in which a task of the transport continues them.

use std::{future::pending, sync::Arc};

use http::HeaderMap;
use mcp_client_http::{Authorizer, AuthorizerError, Http, Refusal, Target, Verdict};
use mcp_transport::{BoxFuture, Exchange, Frame, Route};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::common::{
    MODERN, Peer, answer,
    byte_server::{ByteServer, Reply, Step},
    notice, request, within,
};

/// Begins the exchange of a request.
async fn exchange(peer: &Peer, frame: Frame) -> Exchange {
    let begun = within("an exchange", async { peer.sender().exchange(frame).await }).await;
    begun.unwrap().expect("a request has an exchange")
}

/// The response that the exchange of this request returns.
async fn response(peer: &Peer, id: i64) -> Option<(Route, Value)> {
    let exchange = exchange(peer, request(MODERN, id, "tools/call")).await;
    let frame = within("the end of an exchange", exchange).await?;
    Some((frame.route, serde_json::from_slice(&frame.message).unwrap()))
}

async fn replying(reply: Reply) -> (ByteServer, Peer) {
    let server = ByteServer::serve(move |_, _| reply.clone()).await;
    let peer = Peer::connect(&server.url()).await;
    (server, peer)
}

#[tokio::test]
async fn a_single_response_returns_to_the_caller() {
    let error = json!({ "jsonrpc": "2.0", "id": 7, "error": { "code": 1, "message": "m" } });
    for (what, reply, expected, connections) in [
        ("JSON", Reply::json(&answer(7)), json!({ "jsonrpc": "2.0", "id": 7, "result": {} }), 1),
        ("an error", Reply::json(&error.to_string()), error, 1),
        (
            "an event",
            Reply::events().chunk(": hello\n\nid: 1\ndata\n\n").event(&answer(7)).end(),
            json!({ "jsonrpc": "2.0", "id": 7, "result": {} }),
            1,
        ),
        // The transport does not wait for the end of the stream. The next request has another connection.
        (
            "an event on an open stream",
            Reply::events().event(&answer(7)).hold(),
            json!({ "jsonrpc": "2.0", "id": 7, "result": {} }),
            2,
        ),
    ] {
        let (server, mut peer) = replying(reply).await;
        for _ in 0..2 {
            assert_eq!(response(&peer, 7).await, Some((Route::Request(7.into()), expected.clone())), "{what}");
        }
        peer.nothing().await;
        assert_eq!(server.connections(), connections, "{what}");
    }
}

#[tokio::test]
async fn other_responses_arrive_by_the_transport() {
    let result = || json!({ "jsonrpc": "2.0", "id": 7, "result": {} });
    let refused = json!({ "jsonrpc": "2.0", "id": 7, "error": { "code": -32602, "message": "m" } });
    for (what, reply, messages, fault) in [
        (
            "a notification before the response",
            Reply::events().event(&notice(1)).event(&answer(7)).end(),
            vec![serde_json::from_str(&notice(1)).unwrap(), result()],
            None,
        ),
        ("a batch", Reply::json(&format!("[{}]", answer(7))), vec![json!([result()])], None),
        ("an error with a status", Reply::full(400, &[], &refused.to_string()), vec![refused.clone()], None),
        (
            "another id",
            Reply::json(&answer(8)),
            vec![json!({ "jsonrpc": "2.0", "id": 8, "result": {} })],
            Some("unanswered"),
        ),
        ("no response", Reply::status(202), vec![], Some("unanswered")),
        ("a stream without a response", Reply::events().end(), vec![], Some("unanswered")),
        ("a fault", Reply::full(403, &[], "closed"), vec![], Some("403")),
        ("a broken response", Reply::raw("x"), vec![], Some("unanswered")),
    ] {
        let (_server, mut peer) = replying(reply).await;
        assert_eq!(response(&peer, 7).await, None, "{what}");
        for message in messages {
            assert_eq!(peer.next().await.unwrap(), (Route::Request(7.into()), message), "{what}");
        }
        if let Some(fault) = fault {
            let error = peer.fault(7).await;
            let status = error.http_status().map(|status| status.to_string());
            let kind = status.as_deref().unwrap_or(if error.is_unanswered() { "unanswered" } else { "another fault" });
            assert_eq!(kind, fault, "{what}: {error}");
        }
        peer.nothing().await;
    }
}

#[tokio::test]
async fn a_task_continues_a_stream_with_further_messages() {
    let released = Arc::new(Notify::new());
    let reply = Reply::events().event(&notice(1)).step(Step::Wait(Arc::clone(&released))).event(&answer(7)).end();
    let (server, mut peer) = replying(reply).await;
    assert_eq!(response(&peer, 7).await, None);
    assert_eq!(peer.next().await.unwrap().1["params"]["data"], 1);
    released.notify_one();
    assert_eq!(peer.next().await.unwrap().1["id"], 7);
    assert_eq!((server.connections(), server.seen().len()), (1, 1));
}

#[tokio::test]
async fn the_id_of_a_request_closes_the_stream_that_a_task_continues() {
    let (server, mut peer) = replying(Reply::events().event(&notice(1)).hold()).await;
    assert_eq!(response(&peer, 7).await, None);
    peer.next().await.unwrap();
    peer.sender().close(&7.into());
    server.wait_for_disconnects(1).await;
    peer.nothing().await;
}

#[tokio::test]
async fn the_drop_of_an_exchange_ends_its_request() {
    for reply in [Reply::events().hold(), Reply::raw("").hold()] {
        let (server, mut peer) = replying(reply).await;
        let mut exchange = exchange(&peer, request(MODERN, 7, "tools/call")).await;
        tokio::select! {
            response = &mut exchange => panic!("{response:?}"),
            seen = server.saw(1) => assert_eq!(seen[0].id(), 7),
        }
        drop(exchange);
        server.wait_for_disconnects(1).await;
        peer.nothing().await;
    }
}

#[tokio::test]
async fn a_closed_transport_ends_its_exchanges() {
    let (server, peer) = replying(Reply::events().hold()).await;
    let mut exchange = exchange(&peer, request(MODERN, 7, "tools/call")).await;
    tokio::select! {
        response = &mut exchange => panic!("{response:?}"),
        _ = server.saw(1) => {}
    }
    drop(peer);
    assert!(within("the end of an exchange", &mut exchange).await.is_none());
    server.wait_for_disconnects(1).await;
}

#[tokio::test]
async fn a_response_follows_the_messages_that_arrived_before_it() {
    let server = ByteServer::serve(|_, seen| match seen.id() {
        1 => Reply::events().event(&notice(1)).hold(),
        _ => Reply::result(seen),
    })
    .await;
    let mut peer = Peer::connect(&server.url()).await;
    assert_eq!(response(&peer, 1).await, None);
    assert_eq!(response(&peer, 2).await, None, "the reader has not taken the notification");
    assert_eq!(peer.next().await.unwrap().1["params"]["data"], 1);
    assert_eq!(peer.next().await.unwrap().1["id"], 2);
    assert!(response(&peer, 3).await.is_some());
}

/// Authorizes no request.
struct Waits;

impl Authorizer for Waits {
    fn authorize<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        Box::pin(pending())
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(pending())
    }
}

#[tokio::test]
async fn a_task_waits_for_an_authorizer() {
    let http = Http::new("http://127.0.0.1:1/mcp").unwrap().authorizer(Waits);
    let peer = Peer::open(&http).await;
    // A caller that pauses its future pauses no other request.
    assert!(peer.sender().exchange(request(MODERN, 7, "tools/call")).await.unwrap().is_none());
}

#[test]
fn connections_outlive_the_runtime_of_a_caller() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let own = runtime();
    // A connection becomes idle shortly after its response. A request before that opens another connection.
    let is_reused = (0..20).any(|_| {
        let (server, peer) = own.block_on(replying(Reply::json(&answer(7))));
        let other = runtime();
        assert!(other.block_on(response(&peer, 7)).is_some());
        drop(other);
        assert!(own.block_on(response(&peer, 7)).is_some());
        server.connections() == 1
    });
    assert!(is_reused);
}
