//! Resumed streams of a session: no event is lost, repeated or sent to another stream.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_server_core::{Context, Progress, Server, tool};
use mcp_server_http::{Body, HttpConfig, HttpServer, McpService};
use serde_json::{Value, json};

use crate::common::{self, initialize, initialized, legacy, legacy_as, open, request, send, within};

/// One event as a client reads it.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) id: String,
    retry: bool,
    pub(crate) message: Option<Value>,
}

impl Event {
    pub(crate) fn method(&self) -> &str {
        self.message.as_ref().map_or("", |message| message["method"].as_str().unwrap_or("response"))
    }
}

/// Removes the complete events from the received bytes.
pub(crate) fn take_events(read: &mut BytesMut) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(end) = read.windows(2).position(|window| window == b"\n\n") {
        let text = String::from_utf8(read.split_to(end + 2).to_vec()).unwrap();
        let field = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let Some(data) = field("data: ") else { continue };
        let message = (!data.is_empty()).then(|| serde_json::from_str(&data).unwrap());
        events.push(Event { id: field("id: ").unwrap_or_default(), retry: field("retry: ").is_some(), message });
    }
    events
}

pub(crate) fn resume(session: &str, last: &str) -> Request<Full<Bytes>> {
    let headers = [("accept", "text/event-stream"), ("mcp-session-id", session), ("last-event-id", last)];
    request(Method::GET, &headers, "")
}

/// The events of a body until it ends.
async fn rest(body: Body) -> Vec<Event> {
    let bytes = within("the end of a stream", body.collect()).await.unwrap().to_bytes();
    take_events(&mut BytesMut::from(&bytes[..]))
}

/// Returns the next events of an open stream.
async fn next(body: &mut Body) -> Vec<Event> {
    let bytes = within("an event", body.frame()).await.unwrap().unwrap().into_data().unwrap();
    take_events(&mut BytesMut::from(&bytes[..]))
}

fn talker() -> Server {
    let talk = async |progress: Progress| {
        for step in 0..600_u32 {
            progress.report(f64::from(step), None, None).await;
        }
        "done"
    };
    let polled = async |context: Context| {
        context.close_stream();
        "found later"
    };
    Server::builder("test", "1.0").tool(tool("talk", talk)).tool(tool("polled", polled)).build()
}

pub(crate) fn talk(id: u64, session: &str) -> Request<Full<Bytes>> {
    legacy_as(id, Some(session), "tools/call", json!({ "name": "talk", "_meta": { "progressToken": id } }))
}

pub(crate) fn steps(events: &[Event]) -> Vec<u64> {
    let progress = events.iter().filter_map(|event| event.message.as_ref()?["params"]["progress"].as_f64());
    progress.map(|step| step as u64).collect()
}

#[tokio::test]
async fn a_reader_receives_all_messages_of_a_call_with_many_notifications() {
    let service = talker().into_service(HttpConfig::new());
    let session = open(&service).await;
    let events = rest(service.handle(talk(1, &session)).await.into_body()).await;
    assert!(events[0].message.is_none() && events[0].retry && !events[0].id.is_empty());
    assert!(steps(&events).into_iter().eq(0..600));
    assert_eq!(events.last().unwrap().method(), "response");
    // Every id is another, but for the one that opens the stream and names the same place as none of them.
    let ids: std::collections::HashSet<_> = events.iter().map(|event| &event.id).collect();
    assert_eq!(ids.len(), events.len());
    // The client resumes twice after an event in the middle. It receives the same later events each time.
    for _ in 0..2 {
        let at = events.len() - 100;
        let again = rest(service.handle(resume(&session, &events[at].id)).await.into_body()).await;
        let ids = |events: &[Event]| events.iter().map(|event| event.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&again[1..]), ids(&events[at + 1..]));
    }
}

#[tokio::test]
async fn a_call_continues_after_a_lost_connection_and_reports_evicted_events_once() {
    let service = talker().into_service(HttpConfig::new());
    let session = open(&service).await;
    let mut stream = service.handle(talk(1, &session)).await.into_body();
    let first = next(&mut stream).await;
    drop(stream);
    // Waits for the response, so that the eviction is complete.
    let found = within("the answer", async {
        loop {
            let mut stream = service.handle(resume(&session, &first[0].id)).await.into_body();
            let mut events = next(&mut stream).await;
            events.extend(next(&mut stream).await);
            drop(stream);
            let told = events.iter().any(|event| event.method() == "notifications/replay_truncated");
            if told {
                return rest(service.handle(resume(&session, &first[0].id)).await.into_body()).await;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let told = found.iter().filter(|event| event.method() == "notifications/replay_truncated").count();
    assert_eq!((told, found[1].method()), (1, "notifications/replay_truncated"));
    let steps = steps(&found);
    assert_eq!(steps.last(), Some(&599));
    assert!(steps.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{steps:?}");
    assert_eq!(found.last().unwrap().method(), "response");
    // A client that resumes after the notification does not receive it again.
    let again = rest(service.handle(resume(&session, &found[1].id)).await.into_body()).await;
    assert!(again.iter().all(|event| event.method() != "notifications/replay_truncated"));
    assert_eq!(again.len(), found.len() - 1);
}

#[tokio::test]
async fn a_call_that_closes_its_stream_answers_after_the_client_reconnects() {
    let service = talker().into_service(HttpConfig::new());
    let session = open(&service).await;
    let call = legacy(Some(&session), "tools/call", json!({ "name": "polled" }));
    let mut events = rest(service.handle(call).await.into_body()).await;
    // The response may come before the end of the connection. The client finds it in both cases.
    assert!(events[0].retry && events[0].message.is_none());
    events.extend(rest(service.handle(resume(&session, &events[0].id)).await.into_body()).await);
    let answer = events.last().unwrap().message.clone().unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "found later");
}

#[tokio::test]
async fn rejects_event_ids_of_another_session() {
    let service = talker().into_service(HttpConfig::new());
    let (session, other) = (open(&service).await, open(&service).await);
    let own = rest(service.handle(talk(1, &session)).await.into_body()).await;
    let foreign = rest(service.handle(talk(1, &other)).await.into_body()).await;
    let last = own.last().unwrap().id.clone();
    let (before, beyond) = (&own[own.len() - 2].id, last.replace("-1-end", "-1-25a"));
    assert!(before.ends_with("-1-258") && last != beyond, "{before} {last}");
    let capital = format!("{last}-0");
    for id in [&*foreign[5].id, "", "x", "1-1", "0-0-0", &beyond, &capital, &last.replace("-1-", "-2-"), "-1--1"] {
        let answer = send(&service, resume(&session, id)).await;
        assert_eq!((answer.status, answer.error_code()), (StatusCode::BAD_REQUEST, Some(-32600)), "{id}");
    }
    // The id of another session does not give access.
    let mut theirs = resume(&session, &foreign[5].id);
    theirs.headers_mut().insert("mcp-session-id", "mcp_0".parse().unwrap());
    assert_eq!(send(&service, theirs).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_resumed_stream_has_no_events_of_other_streams() {
    let server = talker();
    let service = server.clone().into_service(HttpConfig::new());
    let session = open(&service).await;
    initialized(&service, &session).await;
    let first = rest(service.handle(talk(1, &session)).await.into_body()).await;
    server.tools().add(tool("later", async || "later")).unwrap();
    let again = rest(service.handle(resume(&session, &first[first.len() - 10].id)).await.into_body()).await;
    assert_eq!(again.len(), 10);
    assert!(again.iter().all(|event| !event.method().contains("list_changed")));
    let mut standalone = common::opened(&service, &session).await;
    let events = next(&mut standalone).await;
    assert_eq!(events.iter().map(Event::method).collect::<Vec<_>>(), ["notifications/tools/list_changed"]);
}

#[tokio::test]
async fn deleting_a_session_closes_all_its_streams() {
    let service = common::service();
    let session = open(&service).await;
    let call = json!({ "name": "forever" });
    let waiting = service.handle(common::listen(&session)).await.into_body();
    let calls = service.handle(legacy(Some(&session), "tools/call", call));
    let ending = async {
        tokio::task::yield_now().await;
        send(&service, request(Method::DELETE, &[("mcp-session-id", &session)], "")).await
    };
    let (call, ended) = within("the end", async { tokio::join!(calls, ending) }).await;
    assert_eq!(ended.status, StatusCode::NO_CONTENT);
    assert!(rest(call.into_body()).await.is_empty());
    assert!(rest(waiting).await.iter().all(|event| event.message.is_none()));
    let answer = send(&service, resume(&session, "0-0-0")).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert_eq!(service.open_sessions(), 0);
}

#[tokio::test]
async fn older_revisions_get_event_ids_but_no_events_without_data() {
    let service = talker().into_service(HttpConfig::new());
    for version in ["2025-03-26", "2025-06-18"] {
        let params = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" }
        });
        let opened = send(&service, legacy(None, "initialize", params)).await;
        let session = opened.header("mcp-session-id").unwrap();
        let events = rest(service.handle(talk(1, session)).await.into_body()).await;
        assert_eq!(events.len(), 601, "{version}");
        assert!(events.iter().all(|event| event.message.is_some() && !event.id.is_empty() && !event.retry));
        // In these revisions a handler cannot close the stream of its call.
        let polled = legacy(Some(session), "tools/call", json!({ "name": "polled" }));
        assert_eq!(send(&service, polled).await.json()["result"]["content"][0]["text"], "found later");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_abandoned_sessions_leak_nothing() {
    let service: McpService = common::server().into_service(HttpConfig::new());
    let (mut opened, mut refused) = (0, 0);
    for count in 0..100_000 {
        match service.handle(initialize()).await.status() {
            StatusCode::OK => opened += 1,
            StatusCode::SERVICE_UNAVAILABLE => refused += 1,
            other => panic!("{other}"),
        }
        if count % 1000 == 0 {
            assert!(service.open_sessions() <= 10_000);
            tokio::time::advance(Duration::from_secs(2)).await;
        }
    }
    assert!(opened > 50_000 && refused > 0, "{opened} {refused}");
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(service.open_sessions(), 0);
}

#[tokio::test(start_paused = true)]
async fn waits_five_seconds_for_a_stalled_reader_and_then_reports_evicted_events() {
    let (ended, mut end) = tokio::sync::watch::channel(None);
    let talk_on = move |progress: Progress| {
        let ended = ended.clone();
        async move {
            let mut pauses = Vec::new();
            for step in 0..600_u32 {
                let start = tokio::time::Instant::now();
                progress.report(f64::from(step), None, None).await;
                pauses.extend(Some(start.elapsed()).filter(|pause| !pause.is_zero()));
            }
            ended.send_replace(Some(pauses));
            "done"
        }
    };
    let service = Server::builder("test", "1.0").tool(tool("talk", talk_on)).build().into_service(HttpConfig::new());
    let session = open(&service).await;
    let mut stream = service.handle(talk(1, &session)).await.into_body();
    let first = next(&mut stream).await;
    assert!(first[0].message.is_none() && first[0].retry);
    // The reader stays connected and does not read until the handler has finished.
    let pauses = within("the end of the call", end.wait_for(Option::is_some)).await.unwrap().clone().unwrap();
    assert_eq!(pauses, [Duration::from_secs(5)]);
    let events = rest(stream).await;
    let told: Vec<_> =
        (0..events.len()).filter(|at| events[*at].method() == "notifications/replay_truncated").collect();
    assert_eq!(told, [0], "one notification before the stored events");
    assert_eq!(events[0].message.as_ref().unwrap()["params"], json!({}));
    let steps = steps(&events);
    assert_eq!((steps.len() + 2, steps.last()), (events.len(), Some(&599)));
    assert!(steps.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{steps:?}");
    assert_eq!(events.last().unwrap().method(), "response");
    // The notification has its own event id. A client that resumes after it receives the later events only.
    let again = rest(service.handle(resume(&session, &events[0].id)).await.into_body()).await;
    let ids = |events: &[Event]| events.iter().map(|event| event.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&again[1..]), ids(&events[1..]));
}
