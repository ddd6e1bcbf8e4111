//! Streams that share the event log of a session: a reader gets every message despite other streams.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use http_body_util::BodyExt;
use mcp_server_core::{Progress, Server, tool};
use mcp_server_http::{HttpConfig, HttpServer, McpService};
use serde_json::{Value, json};

use crate::common::{Answer, initialized, legacy_as, open, opened, settle, within};

async fn begin(service: &McpService, session: &str, id: u64, tool: &str) -> http::Response<mcp_server_http::Body> {
    let params = json!({ "name": tool, "_meta": { "progressToken": id } });
    service.handle(legacy_as(id, Some(session), "tools/call", params)).await
}

async fn rest(response: http::Response<mcp_server_http::Body>) -> Vec<Value> {
    let (parts, body) = response.into_parts();
    let body = within("the end of a stream", body.collect()).await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }.events()
}

/// Some words, and an answer.
fn chatty() -> Server {
    let large = async |progress: Progress| {
        progress.report(1.0, None, None).await;
        "x".repeat(600 << 10)
    };
    let nine = async |progress: Progress| {
        for step in 0..9_u32 {
            progress.report(f64::from(step), None, None).await;
        }
        "done"
    };
    let most = async |progress: Progress| {
        for step in 0..255_u32 {
            progress.report(f64::from(step), None, None).await;
        }
        std::future::pending::<()>().await;
        "never"
    };
    Server::builder("test", "1.0").tool(tool("large", large)).tool(tool("nine", nine)).tool(tool("most", most)).build()
}

#[tokio::test]
async fn concurrent_large_responses_reach_their_readers() {
    let service = chatty().into_service(HttpConfig::new());
    let session = open(&service).await;
    let mut responses = Vec::new();
    for id in 1..=4 {
        responses.push(begin(&service, &session, id, "large").await);
    }
    // All responses are ready before the client reads.
    settle().await;
    for (id, response) in (1..).zip(responses) {
        let events = rest(response).await;
        let methods: Vec<_> = events.iter().map(|event| event["method"].as_str().unwrap_or("response")).collect();
        assert_eq!(methods, ["notifications/progress", "response"]);
        assert_eq!(events[1]["id"], id);
        assert_eq!(events[1]["result"]["content"][0]["text"].as_str().unwrap().len(), 600 << 10);
    }
}

#[tokio::test(start_paused = true)]
async fn delivers_the_notifications_of_many_concurrent_calls() {
    let service = chatty().into_service(HttpConfig::new());
    let session = open(&service).await;
    let mut reading = tokio::task::JoinSet::new();
    for id in 1..=60 {
        let response = begin(&service, &session, id, "nine").await;
        reading.spawn(async move {
            settle().await;
            (id, rest(response).await)
        });
    }
    while let Some(read) = within("the next answer", reading.join_next()).await {
        let (id, events) = read.unwrap();
        let steps: Vec<_> = events[..9].iter().map(|event| event["params"]["progress"].as_f64().unwrap()).collect();
        assert_eq!((steps, &events[9]["id"]), ((0..9_u32).map(f64::from).collect(), &json!(id)));
        assert_eq!(events.len(), 10);
    }
}

#[tokio::test]
async fn list_changes_do_not_evict_messages_of_calls() {
    let server = chatty();
    let service = server.clone().into_service(HttpConfig::new());
    let session = open(&service).await;
    initialized(&service, &session).await;
    let mut standalone = opened(&service, &session).await;
    let mut call = begin(&service, &session, 1, "most").await.into_body();
    settle().await;
    for name in ["one", "two", "three"] {
        server.tools().add(tool(name, async || "later")).unwrap();
        settle().await;
    }
    let (mut text, mut count) = (String::new(), 0);
    while count < 255 {
        let events = within("an event", call.frame()).await.unwrap().unwrap().into_data().unwrap();
        text.push_str(std::str::from_utf8(&events).unwrap());
        assert!(!text.contains("truncated"), "{text}");
        count = text.matches("notifications/progress").count();
    }
    let notification = within("a notice", standalone.frame()).await.unwrap().unwrap().into_data().unwrap();
    assert!(std::str::from_utf8(&notification).unwrap().contains("notifications/tools/list_changed"));
}
