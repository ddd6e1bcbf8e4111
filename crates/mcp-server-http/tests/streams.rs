//! Event streams: keep-alives, limits, one stream for each message, and the end after the response.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use crate::common;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::common::{initialized, legacy, listen, open, opened, send, socket::serve, stateless, within};
use bytes::Bytes;
use http_body_util::BodyExt;
use mcp_server_core::{Context, Progress, Server, tool};
use mcp_server_http::{Body, HttpConfig, HttpServer};
use serde_json::{Value, json};
use tokio::time::Instant;

async fn frame(body: &mut Body) -> Option<Bytes> {
    Some(within("a frame", body.frame()).await?.unwrap().into_data().unwrap())
}

#[tokio::test(start_paused = true)]
async fn sends_keep_alives_on_a_quiet_stream_of_a_session() {
    for (config, seconds) in [(HttpConfig::new(), 15), (HttpConfig::new().keep_alive(Duration::from_secs(2)), 2)] {
        let service = common::server().into_service(config);
        let session = open(&service).await;
        let mut stream = opened(&service, &session).await;
        let start = Instant::now();
        for beat in 1..=3 {
            assert_eq!(frame(&mut stream).await.unwrap(), ": keep-alive\n\n");
            assert_eq!(start.elapsed(), Duration::from_secs(seconds * beat));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_session_restarts_the_interval_of_keep_alives() {
    let server = common::server();
    let service = server.clone().into_service(HttpConfig::new());
    let session = open(&service).await;
    initialized(&service, &session).await;
    let mut stream = opened(&service, &session).await;
    let start = Instant::now();
    tokio::time::sleep(Duration::from_secs(5)).await;
    server.tools().add(tool("later", async || "later")).unwrap();
    let event = frame(&mut stream).await.unwrap();
    assert!(event.windows(12).any(|window| window == b"list_changed"), "{event:?}");
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    for seconds in [20, 35] {
        assert_eq!(frame(&mut stream).await.unwrap(), ": keep-alive\n\n");
        assert_eq!(start.elapsed(), Duration::from_secs(seconds));
    }
}

#[tokio::test(start_paused = true)]
async fn sends_keep_alives_on_a_quiet_call_until_it_answers() {
    let quiet_for_40 = async |progress: Progress| {
        progress.report(1.0, None, None).await;
        tokio::time::sleep(Duration::from_secs(40)).await;
        "done"
    };
    let server = Server::builder("test", "1.0").tool(tool("silent", quiet_for_40)).build();
    let service = server.into_service(HttpConfig::new());
    let params = || json!({ "name": "silent", "_meta": { "progressToken": 1 } });
    let session = open(&service).await;
    for request in [legacy(Some(&session), "tools/call", params()), stateless("tools/call", params(), &[])] {
        let text = send(&service, request).await.body;
        let parts = std::str::from_utf8(&text).unwrap().trim_end().split("\n\n");
        let parts: Vec<_> = parts.filter(|part| !part.ends_with("data: ")).collect();
        assert_eq!(parts.len(), 4, "{parts:?}");
        assert!(parts[0].contains("notifications/progress"), "{parts:?}");
        assert_eq!(parts[1..3], [": keep-alive"; 2]);
        assert!(parts[3].contains("\"result\""), "{parts:?}");
    }
}

#[tokio::test]
async fn messages_of_a_call_are_only_on_its_own_stream() {
    let service = common::service();
    let (session, other) = (open(&service).await, open(&service).await);
    initialized(&service, &session).await;
    initialized(&service, &other).await;
    let own = opened(&service, &session).await;
    let foreign = opened(&service, &other).await;
    let params = json!({ "name": "progress", "_meta": { "progressToken": "own" } });
    let events = send(&service, legacy(Some(&session), "tools/call", params)).await.events();
    let kinds: Vec<_> = events.iter().map(|event| event["method"].as_str().unwrap_or("response")).collect();
    assert_eq!(kinds, ["notifications/progress", "notifications/progress", "response"]);
    assert!(events[..2].iter().all(|event| event["params"]["progressToken"] == "own"));
    for (id, stream) in [(&session, own), (&other, foreign)] {
        send(&service, common::request(http::Method::DELETE, &[("mcp-session-id", id)], "")).await;
        assert_eq!(stream.collect().await.unwrap().to_bytes().len(), 0);
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_response_despite_later_messages() {
    let later = async |context: Context| {
        let progress = context.progress();
        progress.report(1.0, None, None).await;
        tokio::spawn(async move {
            loop {
                progress.report(2.0, None, None).await;
                tokio::task::yield_now().await;
            }
        });
        "done"
    };
    let service = Server::builder("test", "1.0").tool(tool("later", later)).build().into_service(HttpConfig::new());
    let params = json!({ "name": "later", "_meta": { "progressToken": 1 } });
    let mut events = send(&service, stateless("tools/call", params, &[])).await.events();
    let last = events.pop().unwrap();
    assert_eq!((&last["id"], &last["result"]["content"][0]["text"]), (&json!(1), &json!("done")));
    // The events before it are notifications of this request, and no requests.
    assert!(!events.is_empty());
    for event in events {
        assert_eq!((&event["method"], event.get("id")), (&json!("notifications/progress"), None));
        assert_eq!(event["params"]["progressToken"], 1);
    }
}

#[tokio::test]
async fn an_unread_stream_blocks_its_writers_and_loses_nothing() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = sent.clone();
    // The work runs in its own task, so that only the queue can delay it.
    let talk = move |context: Context| {
        let sent = counter.clone();
        async move {
            let talking = tokio::spawn(async move {
                for step in 0..2000_u32 {
                    context.progress().report(f64::from(step), None, None).await;
                    sent.fetch_add(1, Ordering::SeqCst);
                }
            });
            talking.await.unwrap();
            "done"
        }
    };
    let service = Server::builder("test", "1.0").tool(tool("talk", talk)).build().into_service(HttpConfig::new());
    let params = json!({ "name": "talk", "_meta": { "progressToken": 1 } });
    let mut stream = service.handle(stateless("tools/call", params, &[])).await.into_body();
    // Without a reader the writer stops at the bound of the queue.
    for _ in 0..5000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(sent.load(Ordering::SeqCst), 256);
    let mut text = Vec::new();
    while let Some(data) = frame(&mut stream).await {
        assert!(data.len() < 256 * 256, "{}", data.len());
        text.extend_from_slice(&data);
    }
    let text = String::from_utf8(text).unwrap();
    let steps: Vec<u64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str::<Value>(data).unwrap())
        .filter_map(|event| event["params"]["progress"].as_f64().map(|step| step as u64))
        .collect();
    assert!(steps.iter().copied().eq(0..2000), "{} steps", steps.len());
    assert!(text.contains("\"result\""));
}

#[tokio::test]
async fn closes_the_stream_of_a_client_that_stops_reading_without_delaying_others() {
    struct Gone(tokio::sync::mpsc::UnboundedSender<()>);
    impl Drop for Gone {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    const PIECE: usize = 64 << 10;
    let sent = Arc::new(AtomicUsize::new(0));
    let (gone, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let counter = sent.clone();
    let flood = move |progress: Progress| {
        let (sent, gone) = (counter.clone(), Gone(gone.clone()));
        async move {
            let _gone = gone;
            let text = "x".repeat(PIECE);
            for step in 0_u32.. {
                progress.report(f64::from(step), None, text.as_str()).await;
                sent.fetch_add(PIECE, Ordering::SeqCst);
            }
        }
    };
    let server =
        Server::builder("test", "1.0").tool(tool("flood", flood)).tool(tool("quick", async || "quick")).build();
    let endpoint = serve(&server, HttpConfig::new().write_timeout(Duration::from_millis(500))).await;
    let mut connection = endpoint.connect().await;
    connection.send(stateless("tools/call", json!({ "name": "flood", "_meta": { "progressToken": 1 } }), &[])).await;
    assert_eq!(connection.head().await.unwrap().0, 200);
    // The client stops reading. The server answers others, then closes the connection and cancels the work.
    let others = async {
        let mut answered = 0;
        while ended.try_recv().is_err() {
            let answer = endpoint.exchange(stateless("tools/call", json!({ "name": "quick" }), &[])).await;
            assert_eq!(answer.json()["result"]["content"][0]["text"], "quick");
            answered += 1;
        }
        answered
    };
    assert!(within("the end of the call", others).await > 0);
    // The messages fit into the system's buffers and the queue.
    assert!(sent.load(Ordering::SeqCst) < 64 << 20, "{}", sent.load(Ordering::SeqCst));
}

#[tokio::test]
async fn streams_disable_buffering_in_proxies() {
    let service = common::service();
    let session = open(&service).await;
    let get = service.handle(listen(&session)).await;
    let params = json!({ "name": "progress", "_meta": { "progressToken": 1 } });
    let post = service.handle(stateless("tools/call", params, &[])).await;
    for response in [get, post] {
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), "text/event-stream");
        assert_eq!(header("x-accel-buffering"), "no");
        assert!(header("cache-control").contains("no-cache"));
        assert!(!response.headers().contains_key("mcp-session-id"));
    }
}
