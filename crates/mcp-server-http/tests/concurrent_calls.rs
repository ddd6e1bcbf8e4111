//! Many concurrent calls of one session: they run in parallel, and quick calls do not wait for slow ones.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use crate::common;
use std::{sync::Arc, time::Duration};

use crate::common::{legacy_as, socket::serve, stateless, within};
use http::StatusCode;
use mcp_server_core::{Context, Server, tool};
use mcp_server_http::{HttpConfig, HttpServer};
use serde_json::json;
use tokio::sync::{Semaphore, watch};

/// A server whose tool `wait` counts its running calls and waits for a permit.
fn server(limit: usize) -> (Server, watch::Receiver<usize>, Arc<Semaphore>) {
    let (count, running) = watch::channel(0);
    let permits = Arc::new(Semaphore::new(0));
    let held = permits.clone();
    let wait = move |context: Context| {
        let (count, permits) = (count.clone(), held.clone());
        async move {
            count.send_modify(|count| *count += 1);
            permits.acquire().await.unwrap().forget();
            count.send_modify(|count| *count -= 1);
            context.request_id().unwrap().to_string()
        }
    };
    let server = Server::builder("test", "1.0").tool(tool("wait", wait)).limits(|limits| limits.handlers = limit);
    (server.build(), running, permits)
}

#[tokio::test]
async fn runs_64_calls_of_a_session_concurrently_and_rejects_the_next() {
    let (server, mut running, permits) = server(4096);
    let endpoint = serve(&server, HttpConfig::new()).await;
    let (session, other) = (endpoint.open().await, endpoint.open().await);
    let call = |id, session| legacy_as(id, Some(session), "tools/call", json!({ "name": "wait" }));
    let mut wires = Vec::new();
    for id in 0..64 {
        let mut connection = endpoint.connect().await;
        connection.send(call(id, &session)).await;
        wires.push(connection);
    }
    within("64 calls at once", running.wait_for(|count| *count == 64)).await.unwrap();

    // Requests without a handler are answered on the same session before any call ends.
    let ping = endpoint.exchange(legacy_as(100, Some(&session), "ping", json!({}))).await;
    assert_eq!(ping.json()["result"], json!({}));
    let list = endpoint.exchange(legacy_as(101, Some(&session), "tools/list", json!({}))).await;
    assert_eq!(list.json()["result"]["tools"][0]["name"], "wait");
    let notice = common::notification(&session, "notifications/initialized", json!({}));
    assert_eq!(endpoint.exchange(notice).await.status, StatusCode::ACCEPTED);

    let busy = endpoint.exchange(call(64, &session)).await;
    assert_eq!((busy.status, busy.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("1")));
    assert_eq!((busy.error_code(), &busy.json()["id"]), (Some(-32603), &json!(64)));

    // The limit of one session is not the limit of another.
    let mut neighbour = endpoint.connect().await;
    neighbour.send(call(0, &other)).await;
    within("a call of another session", running.wait_for(|count| *count == 65)).await.unwrap();

    permits.add_permits(65);
    for (id, mut connection) in wires.into_iter().enumerate() {
        let answer = connection.answer().await.json();
        assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(id), &json!(id.to_string())));
    }
    assert_eq!(neighbour.answer().await.status, StatusCode::OK);
    // Every place was given back.
    permits.add_permits(1);
    assert_eq!(endpoint.exchange(call(65, &session)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_limit_of_the_server_applies_to_stateless_calls() {
    let (server, mut running, permits) = server(2);
    let service = server.into_service(HttpConfig::new());
    let call = || stateless("tools/call", json!({ "name": "wait" }), &[]);
    let start = || {
        let service = service.clone();
        tokio::spawn(async move { common::send(&service, call()).await.status })
    };
    let (given_up, kept) = (start(), start());
    within("two calls", running.wait_for(|count| *count == 2)).await.unwrap();
    let busy = common::send(&service, call()).await;
    assert_eq!((busy.status, busy.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("1")));
    let list = common::send(&service, stateless("tools/list", json!({}), &[])).await;
    assert_eq!(list.status, StatusCode::OK);
    // A cancelled call releases its permit at once.
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    let third = start();
    within("a third call", running.wait_for(|count| *count == 3)).await.unwrap();
    permits.add_permits(2);
    assert_eq!((kept.await.unwrap(), third.await.unwrap()), (StatusCode::OK, StatusCode::OK));
}

#[tokio::test(start_paused = true)]
async fn two_requests_with_the_same_id_get_their_own_responses() {
    let service = common::service();
    let session = common::open(&service).await;
    let call = || legacy_as(7, Some(&session), "tools/call", json!({ "name": "slow" }));
    let first = common::send(&service, call());
    let second = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        common::send(&service, call()).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.json()["result"]["content"][0]["text"], "slow");
    assert_eq!((second.status, second.error_code()), (StatusCode::OK, Some(-32600)));
}
