//! A lost connection cancels a stateless request, but not a call of a session.

use crate::common;
use crate::common::{
    legacy, legacy_as,
    observed_server::{Event, ObservedServer},
    socket::serve,
    stateless,
};
use http::StatusCode;
use mcp_server_http::HttpConfig;
use serde_json::json;

#[tokio::test]
async fn a_lost_connection_cancels_a_stateless_call() {
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    let mut connection = endpoint.connect().await;
    connection.send(stateless("tools/call", json!({ "name": "hold" }), &[])).await;
    observed.expect(Event::Started).await;
    drop(connection);
    observed.expect(Event::Dropped).await;
}

#[tokio::test]
async fn a_closed_stream_cancels_a_stateless_call() {
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    let mut connection = endpoint.connect().await;
    let params = json!({ "name": "hold", "_meta": { "progressToken": "t" } });
    connection.send(stateless("tools/call", params, &[])).await;
    assert_eq!(connection.head().await.unwrap().0, StatusCode::OK);
    let first = connection.chunk().await.unwrap();
    assert!(first.starts_with(b"event: message"), "{first:?}");
    observed.expect(Event::Started).await;
    drop(connection);
    observed.expect(Event::Dropped).await;
}

#[tokio::test]
async fn a_lost_connection_does_not_cancel_a_call_of_a_session() {
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    let session = endpoint.open().await;
    let (mut quiet, mut streaming, mut other) =
        (endpoint.connect().await, endpoint.connect().await, endpoint.connect().await);
    quiet.send(legacy_as(1, Some(&session), "tools/call", json!({ "name": "hold" }))).await;
    let params = json!({ "name": "hold", "_meta": { "progressToken": "t" } });
    streaming.send(legacy_as(2, Some(&session), "tools/call", params.clone())).await;
    streaming.head().await.unwrap();
    streaming.chunk().await.unwrap();
    other.send(stateless("tools/call", json!({ "name": "hold" }), &[])).await;
    for _ in 0..3 {
        observed.expect(Event::Started).await;
    }
    drop((quiet, streaming, other));
    // The stateless call ends at once. By then the server also knows that the other connections are lost.
    observed.expect(Event::Dropped).await;
    for _ in 0..10 {
        assert_eq!(endpoint.exchange(legacy(Some(&session), "ping", json!({}))).await.status, StatusCode::OK);
    }
    assert!(observed.has_no_events());
    // The calls continue although no client reads their messages, and the session stays open.
    observed.release.add_permits(2);
    observed.expect(Event::Finished).await;
    observed.expect(Event::Finished).await;
    assert_eq!(endpoint.exchange(legacy(Some(&session), "ping", json!({}))).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_session_call_without_messages_finishes_after_a_lost_connection() {
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    let session = endpoint.open().await;
    let mut connection = endpoint.connect().await;
    connection
        .send(legacy(Some(&session), "tools/call", json!({ "name": "mute", "_meta": { "progressToken": "t" } })))
        .await;
    observed.expect(Event::Started).await;
    let mut other = endpoint.connect().await;
    other.send(stateless("tools/call", json!({ "name": "hold" }), &[])).await;
    observed.expect(Event::Started).await;
    drop((connection, other));
    // The stateless call ends at once. By then the server also knows that the other connection is lost.
    observed.expect(Event::Dropped).await;
    observed.release.add_permits(1);
    observed.expect(Event::Finished).await;
}

#[tokio::test]
async fn deleting_a_session_cancels_its_calls_without_a_response() {
    let mut observed = ObservedServer::new();
    let endpoint = serve(&observed.server, HttpConfig::new()).await;
    let session = endpoint.open().await;
    let mut connection = endpoint.connect().await;
    connection.send(legacy(Some(&session), "tools/call", json!({ "name": "hold" }))).await;
    observed.expect(Event::Started).await;
    let end = common::request(http::Method::DELETE, &[("mcp-session-id", &session)], "");
    assert_eq!(endpoint.exchange(end).await.status, StatusCode::NO_CONTENT);
    observed.expect(Event::Dropped).await;
    let answer = connection.answer().await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, 0));
}
