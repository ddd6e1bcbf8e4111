//! List changes: one notification per session, on one of its streams.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use crate::common;
use std::time::Duration;

use crate::common::{initialized, open, opened, send};
use http_body_util::BodyExt;
use mcp_server_core::{Server, prompt, resource, tool};
use mcp_server_http::{HttpConfig, HttpServer, McpService};
use serde_json::{Value, json};

/// Returns the notifications of a session until its end.
async fn delivered_changes(service: &McpService, session: &str) -> Vec<String> {
    let stream = opened(service, session).await;
    let mut text = Vec::new();
    // The stream now delivers pending changes. The end of the session ends the stream.
    common::settle().await;
    let reading = stream.collect();
    let ending = send(service, common::request(http::Method::DELETE, &[("mcp-session-id", session)], ""));
    let (read, _) = tokio::join!(reading, ending);
    text.extend_from_slice(&read.unwrap().to_bytes());
    String::from_utf8(text)
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str::<Value>(data).unwrap()["method"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn notifies_each_session_exactly_once() {
    let server = common::server();
    let service = server.clone().into_service(HttpConfig::new());
    let mut sessions = Vec::new();
    for _ in 0..5 {
        let id = open(&service).await;
        initialized(&service, &id).await;
        sessions.push(id);
    }
    let without_stream = open(&service).await;
    server.tools().add(tool("later", async || "later")).unwrap();
    for session in &sessions {
        assert_eq!(delivered_changes(&service, session).await, ["notifications/tools/list_changed"]);
    }
    assert_eq!(delivered_changes(&service, &without_stream).await, [""; 0]);
}

#[tokio::test]
async fn each_list_has_its_own_notification() {
    let server = Server::builder("test", "1.0")
        .tool(tool("first", async || ""))
        .resource(resource("test://first", async || ""))
        .prompt(prompt("first", async || ""))
        .build();
    let service = server.clone().into_service(HttpConfig::new());
    let id = open(&service).await;
    initialized(&service, &id).await;
    server.tools().add(tool("second", async || "")).unwrap();
    server.resources().add(resource("test://second", async || "")).unwrap();
    server.prompts().add(prompt("second", async || "")).unwrap();
    assert!(server.prompts().remove("second"));
    assert!(!server.prompts().remove("second"));
    // No stream was open, so two changes of a list are one notification.
    let expected = ["tools", "resources", "prompts"].map(|list| format!("notifications/{list}/list_changed"));
    assert_eq!(delivered_changes(&service, &id).await, expected);
}

#[tokio::test]
async fn sends_a_list_change_on_only_one_stream_of_a_session() {
    let server = common::server();
    let service = server.clone().into_service(HttpConfig::new());
    let id = open(&service).await;
    initialized(&service, &id).await;
    let mut older = opened(&service, &id).await;
    let mut newer = opened(&service, &id).await;
    let reading = tokio::spawn(async move {
        let (newer, older) = tokio::join!(newer.frame(), older.frame());
        (newer.unwrap().unwrap().into_data().unwrap(), older.is_none())
    });
    tokio::task::yield_now().await;
    server.tools().add(tool("later", async || "later")).unwrap();
    let (data, older_ended) = common::within("the notice", reading).await.unwrap();
    assert_eq!(std::str::from_utf8(&data).unwrap().matches("list_changed").count(), 1);
    assert!(older_ended);
}

#[tokio::test]
async fn merges_unread_list_changes_until_a_stream_opens() {
    let server = Server::builder("test", "1.0")
        .tool(tool("first", async || ""))
        .prompt(prompt("first", async || ""))
        .resource(resource("test://a", async || ""))
        .build();
    let service = server.clone().into_service(HttpConfig::new());
    let id = open(&service).await;
    initialized(&service, &id).await;
    subscribe(&service, &id, "test://a").await;
    // Twice: before the first reader, and between two.
    for _ in 0..2 {
        for _ in 0..300 {
            server.tools().add(tool("later", async || "later")).unwrap();
            server.tools().remove("later");
            server.notify().resource_updated("test://a");
        }
        server.notify().prompts_changed();
        let mut stream = opened(&service, &id).await;
        let mut read = String::new();
        while !read.contains("prompts/list_changed") {
            let data = common::within("the pending notifications", stream.frame())
                .await
                .unwrap()
                .unwrap()
                .into_data()
                .unwrap();
            read.push_str(std::str::from_utf8(&data).unwrap());
        }
        for notice in ["tools/list_changed", "resources/updated", "prompts/list_changed"] {
            assert_eq!(read.matches(notice).count(), 1, "{read}");
        }
    }
}

async fn subscribe(service: &McpService, session: &str, uri: &str) {
    let answer = send(service, common::legacy(Some(session), "resources/subscribe", json!({ "uri": uri }))).await;
    assert_eq!(answer.json()["result"], json!({}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replaced_streams_lose_no_list_change_and_no_wake_up() {
    // Each change concerns another resource, so that changes are not merged.
    let server = Server::builder("test", "1.0")
        .resource(resource("x:0", async || ""))
        .limits(|limits| limits.subscribed_uris = CHANGES)
        .build();
    // A keep-alive would wake a forgotten stream, so the test disables it.
    let service = server.clone().into_service(HttpConfig::new().keep_alive(Duration::from_secs(3600)));
    let id = open(&service).await;
    initialized(&service, &id).await;
    for at in 0..CHANGES {
        subscribe(&service, &id, &format!("x:{at}")).await;
    }
    let (mut sent, mut received) = (0, 0);
    for _ in 0..CHANGES / 2 {
        // Both clients open the stream at the same time. One of them replaces the other.
        let read = || {
            let (service, id) = (service.clone(), id.clone());
            tokio::spawn(async move { notices(opened(&service, &id).await.frame().await) })
        };
        let (mut one, mut other) = (read(), read());
        change(&server, &mut sent);
        let (first, rest) = common::within("a notice, or the end of a stream", async {
            tokio::select! { first = &mut one => (first.unwrap(), other), first = &mut other => (first.unwrap(), one) }
        })
        .await;
        if first > 0 {
            // The waiting client receives the next change or was replaced.
            change(&server, &mut sent);
        }
        received += first + common::within("a notice for the other stream, or its end", rest).await.unwrap();
    }
    while received < sent {
        let stream = opened(&service, &id).await.frame().await;
        received += notices(stream);
    }
    assert_eq!(received, sent);
}

/// The maximum number of changes in a test.
const CHANGES: usize = 2000;

fn change(server: &Server, sent: &mut usize) {
    server.notify().resource_updated(&format!("x:{sent}"));
    *sent += 1;
}

/// How many notices a frame brought; none at the end of a stream.
fn notices<E: std::fmt::Debug>(frame: Option<Result<http_body::Frame<bytes::Bytes>, E>>) -> usize {
    let data = frame.map(|frame| frame.unwrap().into_data().unwrap()).unwrap_or_default();
    std::str::from_utf8(&data).unwrap().matches("resources/updated").count()
}
