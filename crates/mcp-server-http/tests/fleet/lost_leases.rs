//! A node that loses its lease, and a node whose store fails: no call runs twice, and no response is lost.

use std::{
    pin::Pin,
    sync::atomic::AtomicBool,
    task::{Context, Waker},
};

use mcp_server_core::{Progress, tool};
use mcp_store::{KeyValue as _, Log as _};
use tokio::sync::Semaphore;

use super::{
    events::{Counter, count},
    outage::{Fault, Fragile},
    *,
};
use crate::{
    common::{SetOnDrop, legacy_as, settle, socket::serve, stateless},
    resume::resume,
};

fn call(session: &str, name: &str) -> Request<Full<Bytes>> {
    let params = json!({ "name": name, "arguments": {}, "_meta": { "progressToken": 1 } });
    legacy_as(2, Some(session), "tools/call", params)
}

fn is_stopped(message: &Value) -> bool {
    message["id"] == 2 && message["error"]["data"]["reason"] == "node_unavailable"
}

#[tokio::test(start_paused = true)]
async fn a_node_that_loses_its_lease_ends_its_calls_before_other_nodes_do() {
    let memory = MemoryStore::new();
    let first = Arc::new(Fragile::of(memory.clone()));
    let is_over = Arc::new(AtomicBool::new(false));
    let build = |builder: ServerBuilder| {
        let is_over = is_over.clone();
        builder.tool(tool("hang", async move |progress: Progress| {
            let _guard = SetOnDrop(is_over.clone());
            progress.report(1.0, None, "").await;
            std::future::pending::<()>().await;
        }))
    };
    let fleet = Fleet::of_stores(vec![first.clone(), Arc::new(memory)], HttpConfig::new(), build);
    let session = fleet.open(json!({})).await;
    let mut stream = fleet.nodes[0].handle(call(&session, "hang")).await.into_body();
    let last = next_events(&mut stream).await.pop().unwrap().id;
    first.set_failing(true);
    let mut resumed = fleet.nodes[1].handle(resume(&session, &last)).await.into_body();
    next_events(&mut resumed).await;
    let ended = loop {
        let message = next_message(&mut resumed).await;
        if message.get("id").is_some() {
            break message;
        }
    };
    assert!(is_stopped(&ended), "{ended}");
    assert!(is_over.load(Ordering::SeqCst), "the call still runs");
    // Its own connection ended too.
    while !next_events(&mut stream).await.is_empty() {}
    first.set_failing(false);
    tokio::time::sleep(Duration::from_secs(15)).await;
    for node in &fleet.nodes {
        let replay = send(node, resume(&session, &last)).await.events();
        assert_eq!(replay.last(), Some(&ended), "{replay:?}");
    }
    // The node serves new calls under its next lease.
    let mut stream = fleet.nodes[0].handle(call(&session, "hang")).await.into_body();
    let last = next_events(&mut stream).await.pop().unwrap().id;
    drop(stream);
    let mut resumed = fleet.nodes[1].handle(resume(&session, &last)).await.into_body();
    assert!(!next_events(&mut resumed).await.is_empty());
}

#[tokio::test]
async fn a_server_that_shuts_down_releases_its_lease() {
    let store = Arc::new(MemoryStore::new());
    let server = Server::builder("fleet", "1.0").store(store.clone()).build();
    let endpoint = serve(&server, HttpConfig::new()).await;
    endpoint.open().await;
    let leases = async || store.list("mcp/fleet/node/", None, 10).await.unwrap().entries.len();
    assert_eq!(leases().await, 1);
    server.shutdown();
    endpoint.ended().await.unwrap();
    // The process may end now, although the server exists.
    assert_eq!(leases().await, 0);
}

#[tokio::test]
async fn a_listener_that_shuts_down_waits_for_running_tasks() {
    let (store, gate) = (Arc::new(MemoryStore::new()), Arc::new(Semaphore::new(0)));
    let build = || {
        let gate = gate.clone();
        let wait = async move || gate.acquire().await.map(|_| "through").unwrap();
        Server::builder("fleet", "1.0").store(store.clone()).tool(tool("gated", wait).long_running()).build()
    };
    let (server, other) = (build(), build().into_service(HttpConfig::new()));
    let endpoint = serve(&server, HttpConfig::new()).await;
    let capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let request = |method: &str, mut params: Value, name: &str| {
        params["_meta"] = json!({ "io.modelcontextprotocol/clientCapabilities": capabilities });
        stateless(method, params, &[("mcp-name", name)])
    };
    let call = request("tools/call", json!({ "name": "gated" }), "gated");
    let created = send(&server.clone().into_service(HttpConfig::new()), call).await.json();
    let id = created["result"]["taskId"].as_str().unwrap();
    server.shutdown();
    let mut ended = std::pin::pin!(endpoint.ended());
    assert_waits(ended.as_mut()).await;
    gate.add_permits(1);
    ended.await.unwrap();
    let task = send(&other, request("tasks/get", json!({ "taskId": id }), id)).await.json();
    assert_eq!(task["result"]["status"], "completed", "{task}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_shuts_down_finishes_the_calls_whose_clients_resumed_at_another_node() {
    // The call ends in the grace period, or after it.
    for (time, end) in [(8, 8), (60, 10)] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let build = || {
            let work = async move |progress: Progress| {
                progress.report(1.0, None, "").await;
                tokio::time::sleep(Duration::from_secs(time)).await;
                "worked"
            };
            Server::builder("fleet", "1.0").store(store.clone()).tool(tool("work", work)).build()
        };
        let (server, other) = (build(), build().into_service(HttpConfig::new()));
        let node = server.clone().into_service(HttpConfig::new());
        let fleet = Fleet { nodes: vec![node, other], servers: Vec::new(), next: AtomicUsize::new(0) };
        let session = fleet.open(json!({})).await;
        let mut stream = fleet.nodes[0].handle(call(&session, "work")).await.into_body();
        let last = next_events(&mut stream).await.pop().unwrap().id;
        drop(stream);
        let start = tokio::time::Instant::now();
        server.shutdown();
        let stopping = async {
            server.ended().await;
            start.elapsed().as_secs()
        };
        let resumed = send(&fleet.nodes[1], resume(&session, &last));
        let (stopped_after, resumed) = tokio::join!(stopping, resumed);
        let ended = resumed.events().pop().unwrap();
        assert_eq!(stopped_after, end, "{ended}");
        match end {
            8 => assert_eq!(ended["result"]["content"][0]["text"], "worked"),
            _ => assert_eq!(ended["error"]["data"], json!({ "reason": "server_shutdown", "retryable": true })),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_router_that_is_dropped_in_a_shutdown_finishes_the_calls_of_its_sessions() {
    let build = |builder: ServerBuilder| {
        builder.tool(tool("work", async |progress: Progress| {
            progress.report(1.0, None, "").await;
            tokio::time::sleep(Duration::from_secs(8)).await;
            "worked"
        }))
    };
    let mut fleet = Fleet::new(2, build);
    let session = fleet.open(json!({})).await;
    let mut stream = fleet.nodes[0].handle(call(&session, "work")).await.into_body();
    let last = next_events(&mut stream).await.pop().unwrap().id;
    drop(stream);
    fleet.servers[0].shutdown();
    drop(fleet.nodes.remove(0));
    let resumed = send(&fleet.nodes[0], resume(&session, &last));
    let ((), resumed) = tokio::join!(fleet.servers[0].ended(), resumed);
    let ended = resumed.events().pop().unwrap();
    assert_eq!(ended["result"]["content"][0]["text"], "worked", "{ended}");
}

#[tokio::test]
async fn a_listener_that_shuts_down_waits_for_the_calls_of_sessions() {
    let (store, gate) = (Arc::new(MemoryStore::new()), Arc::new(Semaphore::new(0)));
    let build = || {
        let gate = gate.clone();
        let wait = async move |progress: Progress| {
            progress.report(1.0, None, "").await;
            gate.acquire().await.map(|_| "through").unwrap()
        };
        Server::builder("fleet", "1.0").store(store.clone()).tool(tool("gated", wait)).build()
    };
    let (server, other) = (build(), build().into_service(HttpConfig::new()));
    let endpoint = serve(&server, HttpConfig::new()).await;
    let session = endpoint.open().await;
    let mut connection = endpoint.connect().await;
    connection.send(call(&session, "gated")).await;
    connection.head().await.unwrap();
    let mut read = BytesMut::new();
    let last = loop {
        read.extend_from_slice(&connection.chunk().await.unwrap());
        if let Some(event) = take_events(&mut read).pop() {
            break event.id;
        }
    };
    drop(connection);
    server.shutdown();
    let mut ended = std::pin::pin!(endpoint.ended());
    assert_waits(ended.as_mut()).await;
    gate.add_permits(1);
    ended.await.unwrap();
    let replay = send(&other, resume(&session, &last)).await.events();
    assert_eq!(replay.last().unwrap()["result"]["content"][0]["text"], "through", "{replay:?}");
}

#[tokio::test(start_paused = true)]
async fn a_response_behind_the_end_of_its_stream_is_rejected() {
    let counter = Counter::default();
    let store = Arc::new(MemoryStore::new());
    let fleet = Fleet::with(2, store.clone(), HttpConfig::new(), |builder| counter.build(builder));
    let session = fleet.open(json!({})).await;
    counter.permits.notify_one();
    let mut stream = fleet.nodes[0].handle(count(&session)).await.into_body();
    let last = next_events(&mut stream).await.pop().unwrap().id;
    let writers = events_of(&session).replace("/events", "/writer/");
    let writers = store.list(&writers, None, 10).await.unwrap().entries;
    let [(_, lease)] = &writers[..] else { panic!("one writer: {}", writers.len()) };
    let lease = format!("mcp/fleet/node/{}", String::from_utf8_lossy(lease));
    // The store has lost the lease, and the node does not know it yet.
    assert!(store.delete(&lease).await.unwrap());
    let mut resumed = fleet.nodes[1].handle(resume(&session, &last)).await.into_body();
    let mut messages = Vec::new();
    loop {
        let events = next_events(&mut resumed).await;
        if events.is_empty() {
            break;
        }
        messages.extend(events.into_iter().filter_map(|event| event.message));
    }
    assert_eq!(messages.last().unwrap()["error"]["data"]["reason"], "node_unavailable", "{messages:?}");
    for _ in 0..40 {
        counter.permits.notify_one();
        settle().await;
    }
    let records = store.read_after(&events_of(&session), 0, 1000).await.unwrap().records;
    let has = |text: &str| records.iter().any(|record| String::from_utf8_lossy(&record.data).contains(text));
    assert!(has("notifications/progress") && !has("counted"), "the log has a response behind the end of its stream");
}

#[tokio::test(start_paused = true)]
async fn an_outage_loses_no_response_and_reports_lost_notifications_once() {
    let store = Arc::new(Fragile::default());
    let fleet = Fleet::with(2, store.clone(), HttpConfig::new(), |builder| {
        // The outage is shorter than the lease.
        builder.limits(|limits| limits.node.lease = Duration::from_secs(10)).tool(tool(
            "chatty",
            async |progress: Progress| {
                progress.report(0.0, None, "").await;
                tokio::time::sleep(Duration::from_millis(10)).await;
                for number in 1..=400u32 {
                    progress.report(f64::from(number), None, "").await;
                }
                "told"
            },
        ))
    });
    let session = fleet.open(json!({})).await;
    let mut stream = fleet.nodes[0].handle(call(&session, "chatty")).await.into_body();
    let last = next_events(&mut stream).await.pop().unwrap().id;
    store.set_failing(true);
    tokio::time::sleep(Duration::from_secs(6)).await;
    while !next_events(&mut stream).await.is_empty() {}
    store.set_failing(false);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let replay = send(&fleet.nodes[1], resume(&session, &last)).await.events();
    let (mut numbers, mut reports, mut answer) = (Vec::new(), 0, None);
    for message in &replay {
        match message["method"].as_str() {
            Some("notifications/progress") => numbers.push(message["params"]["progress"].as_f64().unwrap()),
            Some("notifications/replay_truncated") => reports += 1,
            _ => answer = Some(message),
        }
    }
    assert_eq!(reports, 1);
    assert!(numbers.is_sorted() && (1..400).contains(&numbers.len()), "{numbers:?}");
    let answer = answer.expect("the response");
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(2), &json!("told")));
    assert_eq!(replay.last(), Some(answer));
}

/// Returns the last message of a stream that ends.
async fn last_message(stream: &mut Body, last_id: &mut String) -> Option<Value> {
    let mut message = None;
    loop {
        let events = next_events(stream).await;
        if events.is_empty() {
            return message;
        }
        for event in events {
            *last_id = event.id;
            message = event.message;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_an_answer_ends_within_six_seconds_of_its_node() {
    // A node is killed, and its client resumes at another node. Or it only loses the store, and ends its connections.
    let resumed = [Some(0), Some(400), Some(1000), None];
    let faults = [Fault::Silent, Fault::Away].into_iter().flat_map(|fault| resumed.map(|resumed| (fault, resumed)));
    for ((fault, resumed), at) in faults.flat_map(|fault| [0, 250, 500, 900].map(|at| (fault, at))) {
        let case = format!("{fault:?} {at} ms after a renewal, resumed after {resumed:?} ms");
        let memory = MemoryStore::new();
        let first = Arc::new(Fragile::of(memory.clone()));
        let fleet = Fleet::of_stores(vec![first.clone(), Arc::new(memory)], HttpConfig::new(), questions::build);
        let session = fleet.open(json!({ "elicitation": {} })).await;
        let mut stream = fleet.nodes[0].handle(questions::ask(2, &session)).await.into_body();
        let mut last = loop {
            let event = next_events(&mut stream).await.pop().unwrap();
            if event.message.is_some_and(|message| message["method"] == "elicitation/create") {
                break event.id;
            }
        };
        tokio::time::sleep(Duration::from_millis(10_000 + at)).await;
        first.set_fault(fault);
        let start = tokio::time::Instant::now();
        match resumed {
            Some(delay) => {
                drop(stream);
                tokio::time::sleep(Duration::from_millis(delay)).await;
            }
            None => {
                assert_eq!(last_message(&mut stream, &mut last).await, None, "{case}");
                // The first event of the stream has this delay.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        let mut stream = fleet.nodes[1].handle(resume(&session, &last)).await.into_body();
        let ended = last_message(&mut stream, &mut last).await;
        assert!(ended.as_ref().is_some_and(is_stopped), "{case}: {ended:?}");
        assert!(start.elapsed() < Duration::from_secs(6), "{case}: {:?}", start.elapsed());
    }
}

/// Checks that a listener waits for running work.
async fn assert_waits<T>(mut ended: Pin<&mut impl Future<Output = T>>) {
    for _ in 0..100 {
        settle().await;
        let polled = ended.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the listener does not wait for the work");
    }
}
