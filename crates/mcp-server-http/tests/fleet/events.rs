//! The streams of a session at any node: each event arrives once and in order.

use std::sync::Mutex;

use mcp_server_core::{Context, Progress, tool};
use tokio::sync::Notify;

use super::{outage::Fragile, *};
use crate::{
    common::{legacy_as, listen, settle},
    resume::resume,
};

/// A tool that reports a number for each permit, and ends after the last.
#[derive(Clone, Default)]
pub(crate) struct Counter {
    pub(crate) permits: Arc<Notify>,
    pub(crate) sent: Arc<Mutex<Vec<f64>>>,
}

impl Counter {
    pub(crate) fn build(&self, builder: ServerBuilder) -> ServerBuilder {
        let counter = self.clone();
        builder.tool(tool("count", async move |progress: Progress| {
            for number in 1..=20u32 {
                counter.permits.notified().await;
                progress.report(f64::from(number), Some(20.0), "").await;
                counter.sent.lock().unwrap().push(f64::from(number));
            }
            "counted"
        }))
    }
}

pub(crate) fn count(session: &str) -> Request<Full<Bytes>> {
    let params = json!({ "name": "count", "arguments": {}, "_meta": { "progressToken": "t" } });
    legacy_as(1, Some(session), "tools/call", params)
}

#[tokio::test]
async fn a_client_resumes_at_any_node_and_receives_each_event_once_and_in_order() {
    let counter = Counter::default();
    let fleet = Fleet::new(3, |builder| counter.build(builder));
    let session = fleet.open(json!({})).await;
    let (node, call) = (fleet.next().clone(), count(&session));
    counter.permits.notify_one();
    let response = node.handle(call).await;
    assert_eq!(response.status(), StatusCode::OK);
    let mut stream = response.into_body();
    let (mut last, mut received) = (String::new(), Vec::new());
    let mut result = None;
    while result.is_none() {
        let events = next_events(&mut stream).await;
        let has_message = events.iter().any(|event| event.message.is_some());
        for event in events {
            last.clone_from(&event.id);
            match event.message {
                Some(message) if message["method"] == "notifications/progress" => {
                    received.push(message["params"]["progress"].as_f64().unwrap());
                }
                Some(message) => result = Some(message["result"]["content"][0]["text"].clone()),
                None => {}
            }
        }
        if has_message && result.is_none() {
            // The connection breaks after each event. The next event is written while no connection is open.
            drop(stream);
            counter.permits.notify_one();
            settle().await;
            let resumed = fleet.next().handle(resume(&session, &last)).await;
            assert_eq!(resumed.status(), StatusCode::OK);
            stream = resumed.into_body();
        }
    }
    let all: Vec<f64> = (1..=20).map(f64::from).collect();
    assert_eq!((received, result.unwrap()), (all, json!("counted")));
    assert!(last.ends_with("-end"), "{last}");
    // The stream has ended.
    let answer = fleet.send(resume(&session, &last)).await;
    assert!(answer.events().is_empty(), "{answer:?}");
}

#[tokio::test]
async fn a_replay_from_any_event_is_the_same_at_each_node() {
    let counter = Counter::default();
    let fleet = Fleet::new(2, |builder| counter.build(builder));
    let session = fleet.open(json!({})).await;
    let (node, call) = (fleet.next().clone(), count(&session));
    let calling = tokio::spawn(async move { send(&node, call).await });
    while counter.sent.lock().unwrap().len() < 20 {
        counter.permits.notify_one();
        tokio::task::yield_now().await;
    }
    let whole = within("the answer", calling).await.unwrap();
    let events = take_events(&mut BytesMut::from(&whole.body[..]));
    // The opening, the notifications and the response.
    assert_eq!(events.len(), 22, "{events:?}");
    for (at, event) in events.iter().enumerate() {
        for node in &fleet.nodes {
            let replay = send(node, resume(&session, &event.id)).await;
            let replayed = take_events(&mut BytesMut::from(&replay.body[..]));
            let rest: Vec<_> = events[at + 1..].iter().map(|event| (&event.id, &event.message)).collect();
            let replayed = replayed.iter().filter(|event| event.message.is_some());
            assert_eq!(replayed.map(|event| (&event.id, &event.message)).collect::<Vec<_>>(), rest, "{at}");
        }
    }
    for foreign in ["00000000-1-1", "x", &format!("{}-0", &events[0].id)] {
        assert_eq!(fleet.send(resume(&session, foreign)).await.status, StatusCode::BAD_REQUEST, "{foreign}");
    }
}

#[tokio::test]
async fn the_stream_of_a_session_receives_messages_of_other_nodes() {
    let fleet = Fleet::new(2, |builder| {
        builder.tool(tool("log", async |context: Context| {
            context.server().notify().log(mcp_protocol::LoggingLevel::Error, "unasked");
        }))
    });
    let session = fleet.open(json!({})).await;
    let call = || legacy_as(1, Some(&session), "tools/call", json!({ "name": "log", "arguments": {} }));
    let mut last = None;
    for (reader, caller) in [(0, 1), (1, 0), (0, 1), (1, 1)] {
        let request = last.as_deref().map_or_else(|| listen(&session), |last| resume(&session, last));
        let mut stream = fleet.nodes[reader].handle(request).await.into_body();
        next_events(&mut stream).await;
        assert_eq!(send(&fleet.nodes[caller], call()).await.status, StatusCode::OK);
        let event = next_events(&mut stream).await.remove(0);
        assert_eq!(event.message.unwrap()["params"]["data"], "unasked");
        last = Some(event.id);
    }
    // A client without a position continues behind the last reader.
    settle().await;
    assert_eq!(send(&fleet.nodes[0], call()).await.status, StatusCode::OK);
    settle().await;
    let mut stream = fleet.nodes[1].handle(resume(&session, &last.unwrap())).await.into_body();
    next_events(&mut stream).await;
    assert_eq!(next_events(&mut stream).await.len(), 1);
    drop(stream);
    settle().await;
    let mut stream = fleet.nodes[0].handle(listen(&session)).await.into_body();
    next_events(&mut stream).await;
    assert_eq!(send(&fleet.nodes[1], call()).await.status, StatusCode::OK);
    assert_eq!(next_events(&mut stream).await.len(), 1);
}

#[tokio::test]
async fn a_newer_reader_at_another_node_ends_the_older() {
    let fleet = Fleet::new(2, |builder| builder);
    let session = fleet.open(json!({})).await;
    let mut older = fleet.nodes[0].handle(listen(&session)).await.into_body();
    next_events(&mut older).await;
    let mut newer = fleet.nodes[1].handle(listen(&session)).await.into_body();
    next_events(&mut newer).await;
    assert!(next_events(&mut older).await.is_empty());
    fleet.servers[0].notify().log(mcp_protocol::LoggingLevel::Error, "later");
    assert_eq!(next_message(&mut newer).await["params"]["data"], "later");
}

#[tokio::test]
async fn a_node_that_shuts_down_hands_its_sessions_over() {
    let counter = Counter::default();
    let fleet = Fleet::new(2, |builder| counter.build(builder));
    let session = fleet.open(json!({})).await;
    let mut stream = fleet.nodes[0].handle(listen(&session)).await.into_body();
    let opening = next_events(&mut stream).await.remove(0).id;
    fleet.servers[0].shutdown();
    assert!(next_events(&mut stream).await.is_empty());
    let answer = send(&fleet.nodes[0], common::legacy(Some(&session), "ping", json!({}))).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    let mut stream = fleet.nodes[1].handle(resume(&session, &opening)).await.into_body();
    next_events(&mut stream).await;
    fleet.servers[1].notify().log(mcp_protocol::LoggingLevel::Error, "after");
    assert_eq!(next_message(&mut stream).await["params"]["data"], "after");
    let answer = send(&fleet.nodes[1], common::legacy(Some(&session), "ping", json!({}))).await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn no_event_is_sent_before_the_store_has_it() {
    let counter = Counter::default();
    let store = Arc::new(Fragile::default());
    let fleet = Fleet::with(2, store.clone(), HttpConfig::new(), |builder| counter.build(builder));
    let session = fleet.open(json!({})).await;
    counter.permits.notify_one();
    let mut stream = fleet.nodes[0].handle(count(&session)).await.into_body();
    let first = next_events(&mut stream).await;
    store.set_failing(true);
    counter.permits.notify_one();
    settle().await;
    // The connection ends without the event. The client resumes it when the store works again.
    assert!(next_events(&mut stream).await.is_empty());
    assert_eq!(counter.sent.lock().unwrap().len(), 2);
    let last = &first.last().unwrap().id;
    assert_eq!(send(&fleet.nodes[0], resume(&session, last)).await.status, StatusCode::SERVICE_UNAVAILABLE);
    store.set_failing(false);
    tokio::time::sleep(Duration::from_secs(15)).await;
    let mut stream = fleet.nodes[1].handle(resume(&session, last)).await.into_body();
    next_events(&mut stream).await;
    assert_eq!(next_message(&mut stream).await["params"]["progress"], 2.0);
}
