//! The log of a session in the store: its records, their life, and readers after lost records.

use mcp_protocol::LoggingLevel;
use mcp_store::{Log as _, PubSub as _, Retain};

use super::{
    events::{Counter, count},
    outage::{Fault, Fragile},
    *,
};
use crate::{
    common::{legacy, listen, settle},
    resume::resume,
};

fn ping(session: &str) -> Request<Full<Bytes>> {
    legacy(Some(session), "ping", json!({}))
}

/// Sends a log record on the standalone stream of all sessions of a node.
fn say(fleet: &Fleet, node: usize, text: &str) {
    fleet.servers[node].notify().log(LoggingLevel::Error, text);
}

/// Returns the texts of the events with a message.
fn texts(events: &[Event]) -> Vec<String> {
    let messages = events.iter().filter_map(|event| event.message.as_ref());
    messages
        .map(|message| match message["method"].as_str() {
            Some("notifications/message") => message["params"]["data"].as_str().unwrap().to_owned(),
            Some("notifications/progress") => message["params"]["progress"].to_string(),
            Some(method) => method.to_owned(),
            None => message["result"]["content"][0]["text"].as_str().unwrap_or("error").to_owned(),
        })
        .collect()
}

#[tokio::test]
async fn a_reader_passes_many_records_without_events() {
    let store = Arc::new(MemoryStore::new());
    let fleet = Fleet::with(2, store.clone(), HttpConfig::new(), |builder| builder);
    let session = fleet.open(json!({})).await;
    let mut stream = fleet.nodes[1].handle(listen(&session)).await.into_body();
    let opening = next_events(&mut stream).await.remove(0).id;
    for _ in 0..200 {
        // A newer version of the library may write other records.
        store.append(&events_of(&session), Arc::from([9]), None).await.unwrap();
    }
    say(&fleet, 0, "later");
    assert_eq!(next_message(&mut stream).await["params"]["data"], "later");
    let mut stream = fleet.nodes[0].handle(resume(&session, &opening)).await.into_body();
    next_events(&mut stream).await;
    assert_eq!(next_message(&mut stream).await["params"]["data"], "later");
}

#[tokio::test(start_paused = true)]
async fn readers_and_quiet_sessions_add_no_records() {
    let store = Arc::new(MemoryStore::new());
    let fleet = Fleet::with(2, store.clone(), HttpConfig::new(), |builder| builder);
    let session = fleet.open(json!({})).await;
    let read = async || {
        let mut stream = fleet.next().handle(listen(&session)).await.into_body();
        next_events(&mut stream).await;
        drop(stream);
        settle().await;
    };
    read().await;
    read().await;
    say(&fleet, 0, "one");
    settle().await;
    for _ in 0..100 {
        read().await;
        tokio::time::advance(Duration::from_secs(200)).await;
        assert_eq!(fleet.send(ping(&session)).await.status, StatusCode::OK);
        settle().await;
    }
    assert_eq!(store.read_after(&events_of(&session), 0, 1000).await.unwrap().records.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_log_lives_as_long_as_the_session_at_any_node() {
    let fleet = Fleet::new(2, |builder| builder);
    let session = fleet.open(json!({})).await;
    let mut stream = fleet.nodes[0].handle(listen(&session)).await.into_body();
    next_events(&mut stream).await;
    say(&fleet, 0, "one");
    let last = next_events(&mut stream).await.remove(0).id;
    drop(stream);
    // The only node with events stops. Its lease and its session expire.
    fleet.servers[0].shutdown();
    for _ in 0..8 {
        tokio::time::advance(Duration::from_secs(600)).await;
        assert_eq!(send(&fleet.nodes[1], ping(&session)).await.status, StatusCode::OK);
        settle().await;
    }
    let mut stream = fleet.nodes[1].handle(resume(&session, &last)).await.into_body();
    next_events(&mut stream).await;
    say(&fleet, 1, "two");
    assert_eq!(next_message(&mut stream).await["params"]["data"], "two");
}

#[tokio::test]
async fn a_position_of_a_lost_log_is_reported() {
    let store = Arc::new(MemoryStore::new());
    let fleet = Fleet::with(2, store.clone(), HttpConfig::new(), |builder| builder);
    let session = fleet.open(json!({})).await;
    let mut stream = fleet.nodes[0].handle(listen(&session)).await.into_body();
    next_events(&mut stream).await;
    let mut last = String::new();
    for text in ["one", "two", "three"] {
        say(&fleet, 0, text);
        last = next_events(&mut stream).await.remove(0).id;
    }
    drop(stream);
    assert!(store.delete_log(&events_of(&session)).await.unwrap());
    let mut stream = fleet.nodes[1].handle(resume(&session, &last)).await.into_body();
    next_events(&mut stream).await;
    assert_eq!(next_message(&mut stream).await["method"], "notifications/replay_truncated");
    say(&fleet, 1, "four");
    assert_eq!(next_message(&mut stream).await["params"]["data"], "four");
}

#[tokio::test(start_paused = true)]
async fn a_reader_continues_after_a_rollback_of_the_store() {
    let counter = Counter::default();
    let store = Arc::new(MemoryStore::new());
    let fleet = Fleet::with(2, store.clone(), HttpConfig::new(), |builder| counter.build(builder));
    let session = fleet.open(json!({})).await;
    let events = events_of(&session);
    counter.permits.notify_one();
    let mut stream = fleet.nodes[0].handle(count(&session)).await.into_body();
    let first = next_events(&mut stream).await.remove(0).id;
    drop(stream);
    let mut stream = fleet.nodes[1].handle(resume(&session, &first)).await.into_body();
    next_events(&mut stream).await;
    let mut received = next_events(&mut stream).await;
    for _ in 0..3 {
        counter.permits.notify_one();
        received.extend(next_events(&mut stream).await);
    }
    assert_eq!(texts(&received), ["1", "2", "3", "4"]);
    // The node of the call knows that its stream is open.
    tokio::time::sleep(Duration::from_secs(5)).await;
    // The store loses its last records, and the messages meanwhile.
    let records = store.read_after(&events, 0, 1000).await.unwrap().records;
    store.delete_log(&events).await.unwrap();
    for record in &records[..records.len() - 2] {
        store.append(&events, record.data.clone(), None).await.unwrap();
    }
    for _ in 0..2 {
        store.publish(&events, Arc::from(*b"+")).await.unwrap();
    }
    settle().await;
    received.clear();
    while texts(&received).last().is_none_or(|last| last != "counted") {
        counter.permits.notify_one();
        settle().await;
        // The comments of a quiet stream restart the limit of an event.
        let next = tokio::time::timeout(Duration::from_secs(60), next_events(&mut stream)).await;
        received.extend(next.expect("an event"));
    }
    let mut expected: Vec<_> = (5..=20).map(|number| number.to_string()).collect();
    expected.insert(0, "notifications/replay_truncated".to_owned());
    expected.push("counted".to_owned());
    assert_eq!(texts(&received), expected);
}

#[tokio::test(start_paused = true)]
async fn an_event_does_not_wait_for_a_node_that_does_not_reply() {
    let counter = Counter::default();
    let memory = MemoryStore::new();
    let first = Arc::new(Fragile::of(memory.clone()));
    let fleet = Fleet::of_stores(vec![first.clone(), Arc::new(memory.clone())], HttpConfig::new(), |builder| {
        counter.build(builder)
    });
    let session = fleet.open(json!({})).await;
    counter.permits.notify_one();
    let mut stream = fleet.nodes[0].handle(count(&session)).await.into_body();
    let last = next_events(&mut stream).await.pop().unwrap().id;
    drop(stream);
    // The node of the call stores its events, and does not reply.
    first.set_fault(Fault::Mute);
    let mut stream = fleet.nodes[1].handle(resume(&session, &last)).await.into_body();
    next_events(&mut stream).await;
    // The reader read the log after three seconds, and reads it again three seconds later.
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    counter.permits.notify_one();
    settle().await;
    memory.publish(&events_of(&session), Arc::from(*b"+")).await.unwrap();
    let start = tokio::time::Instant::now();
    next_message(&mut stream).await;
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_append_that_takes_effect_late_is_not_repeated() {
    let counter = Counter::default();
    let store = Arc::new(Fragile::default());
    let fleet = Fleet::with(2, store.clone(), HttpConfig::new(), |builder| counter.build(builder));
    let session = fleet.open(json!({})).await;
    counter.permits.notify_one();
    let mut stream = fleet.nodes[0].handle(count(&session)).await.into_body();
    let first = next_events(&mut stream).await.remove(0).id;
    store.set_fault(Fault::LateAppend);
    while counter.sent.lock().unwrap().len() < 20 {
        counter.permits.notify_one();
        settle().await;
    }
    let replay = send(&fleet.nodes[1], resume(&session, &first)).await;
    let replayed = texts(&take_events(&mut BytesMut::from(&replay.body[..])));
    let mut expected: Vec<_> = (1..=20).map(|number| number.to_string()).collect();
    expected.push("counted".to_owned());
    assert_eq!(replayed, expected);
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_end_is_lost_ends_with_a_report() {
    let counter = Counter::default();
    let store = Arc::new(MemoryStore::new());
    let fleet = Fleet::with(2, store.clone(), HttpConfig::new(), |builder| counter.build(builder));
    let session = fleet.open(json!({})).await;
    counter.permits.notify_one();
    let mut stream = fleet.nodes[0].handle(count(&session)).await.into_body();
    let first = next_events(&mut stream).await.remove(0).id;
    drop(stream);
    settle().await;
    store.trim(&events_of(&session), Retain::all().records(0)).await.unwrap();
    // The call runs, so its stream continues behind the lost events.
    let mut stream = fleet.nodes[1].handle(resume(&session, &first)).await.into_body();
    next_events(&mut stream).await;
    let mut received = next_events(&mut stream).await;
    while texts(&received).last().unwrap() != "counted" {
        counter.permits.notify_one();
        settle().await;
        received.extend(next_events(&mut stream).await);
    }
    let mut expected: Vec<_> = (2..=20).map(|number| number.to_string()).collect();
    expected.insert(0, "notifications/replay_truncated".to_owned());
    expected.push("counted".to_owned());
    assert_eq!(texts(&received), expected);
    // The call has ended, and its response is lost. Another stream has never existed.
    store.trim(&events_of(&session), Retain::all().records(0)).await.unwrap();
    let tag = first.split('-').next().unwrap();
    for id in [&first, &format!("{tag}-700000001-1"), &format!("{tag}-1-1")] {
        for node in &fleet.nodes {
            let replay = within("the end of the stream", send(node, resume(&session, id))).await;
            let events = take_events(&mut BytesMut::from(&replay.body[..]));
            assert_eq!(texts(&events), ["notifications/replay_truncated"], "{id}");
            let last = &events.last().unwrap().id;
            assert!(last.ends_with("-end"), "{last}");
            assert!(send(node, resume(&session, last)).await.events().is_empty());
        }
    }
}

#[tokio::test]
async fn a_new_reader_without_a_position_continues_after_an_open_reader() {
    let fleet = Fleet::new(2, |builder| builder);
    let session = fleet.open(json!({})).await;
    let mut older: Vec<Body> = Vec::new();
    for (round, node) in [0, 1, 1, 0].into_iter().enumerate() {
        // The client has left the older connection, and the server does not know it.
        let mut stream = fleet.nodes[node].handle(listen(&session)).await.into_body();
        next_events(&mut stream).await;
        for text in ["a", "b", "c"].map(|text| format!("{text}{round}")) {
            say(&fleet, 0, &text);
            assert_eq!(next_message(&mut stream).await["params"]["data"], text);
        }
        older.push(stream);
    }
    older.pop();
    for mut stream in older {
        assert!(next_events(&mut stream).await.is_empty());
    }
}
