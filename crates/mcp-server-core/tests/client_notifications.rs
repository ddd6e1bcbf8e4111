//! The notifications of clients for the application.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_protocol::ProtocolVersion;
use mcp_server_core::Server;
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

use crate::common::{Connection, call, event, hold, legacy, notification};

#[tokio::test(start_paused = true)]
async fn the_application_receives_client_notifications() {
    let (sender, mut receiver) = unbounded_channel();
    let server = Server::builder("test", "1")
        .on_notification(move |notification| {
            let sender = sender.clone();
            async move {
                let session = notification.version().map(ProtocolVersion::as_str);
                sender.send((notification.method().to_owned(), notification.params().cloned(), session)).unwrap();
                assert_ne!(notification.method(), "notifications/panic", "a failure of the callback is ignored");
            }
        })
        .limits(|limits| limits.handlers_per_session = 4)
        .build();
    let mut connection = Connection::connect(&server);
    connection.send(notification("notifications/x/custom", json!({ "a": [1] }))).await;
    assert_eq!(receiver.recv().await, Some(("notifications/x/custom".into(), Some(json!({ "a": [1] })), None)));
    connection.open("2025-06-18").await;
    for (method, params) in [
        ("notifications/initialized", None),
        ("notifications/panic", None),
        ("notifications/roots/list_changed", Some(json!({}))),
        ("notifications/cancelled", Some(json!({ "requestId": 7 }))),
        ("notifications/progress", Some(json!({ "progressToken": 1, "progress": 1 }))),
    ] {
        if method != "notifications/initialized" {
            connection.send(notification(method, params.clone().unwrap_or(json!({})))).await;
        }
        if method != "notifications/cancelled" {
            let (received_method, _, session) = receiver.recv().await.unwrap();
            assert_eq!((received_method.as_str(), session), (method, Some("2025-06-18")));
        }
    }
    connection.quiet().await;
}

#[tokio::test]
async fn notifications_wait_for_the_application_but_not_for_handlers() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (sender, mut receiver) = unbounded_channel();
    let permits = gate.clone();
    let (hold, mut seen) = hold();
    let server = Server::builder("test", "1")
        .tool(hold)
        .on_notification(move |notification| {
            let (sender, permits) = (sender.clone(), permits.clone());
            async move {
                permits.acquire().await.unwrap().forget();
                sender.send((notification.method().to_owned(), notification.params().cloned())).unwrap();
            }
        })
        .limits(|limits| limits.handlers_per_session = 1)
        .build();
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    // All allowed handlers run.
    connection.send(legacy("hold", "tools/call", call("hold"))).await;
    assert_eq!(event(&mut seen).await, "entered");
    let changed = || notification("notifications/roots/list_changed", json!({}));
    for message in [changed(), changed(), notification("notifications/x", json!({ "a": 1 })), changed()] {
        connection.send(message).await;
    }
    // The server drops notifications above the limit of the queue.
    for n in 0..200 {
        connection.send(notification("notifications/y", json!({ "n": n }))).await;
    }
    connection.quiet().await;
    gate.add_permits(1000);
    let mut received = Vec::new();
    while received.last() != Some(&("notifications/y".to_owned(), Some(json!({ "n": 61 })))) {
        received.push(
            tokio::time::timeout(Duration::from_secs(10), receiver.recv())
                .await
                .expect("a queued notification")
                .unwrap(),
        );
    }
    let methods: Vec<_> = received.iter().map(|(method, _)| method.as_str()).take(4).collect();
    assert_eq!(
        methods,
        ["notifications/initialized", "notifications/roots/list_changed", "notifications/x", "notifications/y"]
    );
    connection.quiet().await;
    assert!(receiver.is_empty());
}
