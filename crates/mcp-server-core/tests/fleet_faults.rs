//! Faults between the nodes of a fleet: an end that the store has not accepted, lost messages, and nodes with other versions.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_protocol::{CallToolResult, ProtocolVersion};
use mcp_server_core::{
    Caller, NewTask, Server,
    engine::{Engine as _, Peer},
    resource, tool,
};
use mcp_store::{KeyValue as _, MemoryStore, SealKeys, SealedStore};
use mcp_transport::{Transport as _, memory::duplex, recv};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    common::subscribe,
    cut_store::{CutStore, Link},
    fleet_tasks::{asked_at_another_node, listen, next_status, two},
    json_client::{Client, code_and_text},
    log_text::LogText,
    tasks_fixture::{Jobs, as_task, call, made, of, wait_for},
};

const BUSY: (i64, &str) = (-32603, "busy: the shared store is unavailable, try again later");

#[tokio::test(start_paused = true)]
async fn a_task_shows_no_end_before_the_store_has_accepted_it() {
    for (outage, at_other_nodes, expected) in [(1, "working", "completed"), (12, "failed", "failed")] {
        let (_store, mut here, mut there) = two().await;
        let id = made(&mut here.client, "gated").await;
        let mut stream = here.jobs.modern().await;
        listen(&mut stream, &id).await;
        next_status(&mut stream).await;
        here.cut.set(Link::Down);
        here.jobs.gate.add_permits(1);
        sleep(Duration::from_secs(outage)).await;
        for method in ["tasks/get", "tasks/cancel"] {
            assert_eq!(code_and_text(&here.client.error(method, of(&id)).await), BUSY, "{method}");
        }
        assert_eq!(there.get(&id).await["status"], at_other_nodes);
        stream.result("server/discover", json!({})).await;
        let shown: Vec<_> = stream.notifications.drain(..).map(|message| message["params"]["status"].clone()).collect();
        assert!(shown.iter().all(|status| *status == "working"), "{shown:?}");
        here.cut.set(Link::Up);
        let shown = next_status(&mut stream).await;
        assert!(shown.starts_with(expected), "{shown}");
        for place in [&mut here, &mut there] {
            assert_eq!(place.get(&id).await["status"], expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_task_waits_for_space_in_a_full_store() {
    let (_store, mut here, mut there) = two().await;
    let id = made(&mut here.client, "gated").await;
    here.cut.set(Link::Full);
    here.jobs.gate.add_permits(1);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(there.get(&id).await["status"], "working");
    let error = here.client.error("tasks/get", of(&id)).await;
    assert_eq!(code_and_text(&error), BUSY);
    here.cut.set(Link::Up);
    wait_for(&mut here.client, &id, "completed").await;
    drop(here);
    // The end is stored, so a stopped node does not change it.
    sleep(Duration::from_secs(30)).await;
    assert_eq!(there.get(&id).await["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_the_end_of_a_quick_task_whose_request_was_cancelled() {
    let (store, mut here, _there) = two().await;
    made(&mut here.client, "must").await;
    here.cut.set(Link::Slow(Duration::from_secs(1)));
    let request = here.client.start("tools/call", call("must")).await;
    // The store has the creation of the task, and not yet its end.
    sleep(Duration::from_millis(1500)).await;
    let cancelled =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": request } });
    here.client.send(cancelled).await;
    sleep(Duration::from_millis(1)).await;
    let listener = here.jobs.server.listener(Duration::ZERO);
    here.jobs.server.shutdown();
    listener.work_ended().await;
    let tasks = records(&store, "/task/").await;
    assert_eq!(tasks.len(), 2);
    let has_end = |(_, bytes): &(String, Arc<[u8]>)| String::from_utf8_lossy(bytes).contains("\"outcome\"");
    assert!(tasks.iter().all(has_end), "{tasks:?}");
}

#[tokio::test(start_paused = true)]
async fn ends_of_tasks_that_are_not_stored_are_logged_once_in_thirty_seconds() {
    let log = LogText::default();
    let writer = log.clone();
    let _guard = subscribe(tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish());
    let (_store, mut here, _there) = two().await;
    for _ in 0..20 {
        made(&mut here.client, "gated").await;
    }
    here.cut.set(Link::Down);
    here.jobs.gate.add_permits(20);
    sleep(Duration::from_secs(25)).await;
    let lines = log.text().lines().filter(|line| line.contains("the end of a task is not stored yet")).count();
    assert_eq!(lines, 1, "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn a_full_store_has_the_errors_of_an_unavailable_store() {
    // A node keeps its lease in a full store at first, and then loses it.
    for time in [0, 10] {
        let (store, mut here, mut there) = two().await;
        let (dead, running) = (made(&mut here.client, "hold").await, made(&mut there.client, "hold").await);
        let mut legacy = there.jobs.legacy().await;
        here.cut.set(Link::Stalled);
        sleep(Duration::from_secs(5)).await;
        there.cut.set(Link::Full);
        sleep(Duration::from_secs(time)).await;
        // No write is necessary to show that the node of the task stopped.
        let shown = there.get(&dead).await;
        assert_eq!((&shown["status"], &shown["error"]["data"]["reason"]), (&json!("failed"), &json!("node_stopped")));
        let has_end = |(_, bytes): &(String, Arc<[u8]>)| String::from_utf8_lossy(bytes).contains("node_stopped");
        assert!(!records(&store, "/task/").await.iter().any(has_end));
        for (method, params) in
            [("tasks/cancel", of(&dead)), ("tasks/cancel", of(&running)), ("tools/call", as_task("hold"))]
        {
            let client = if method == "tools/call" { &mut legacy } else { &mut there.client };
            let error = client.error(method, params).await;
            assert_eq!(code_and_text(&error), BUSY, "{method} after {time} s");
            assert_eq!(error["data"]["retryAfterMs"], 1000, "{method} after {time} s");
        }
        there.cut.set(Link::Up);
        assert_eq!(there.get(&dead).await["status"], "failed");
        assert!(records(&store, "/task/").await.iter().any(has_end));
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_task_is_stored_although_the_store_lost_its_creation() {
    let (store, mut here, mut there) = two().await;
    let id = made(&mut here.client, "gated").await;
    let (key, _) = records(&store, "/task/").await.remove(0);
    assert!(store.delete(&key).await.unwrap());
    here.jobs.gate.add_permits(1);
    wait_for(&mut here.client, &id, "completed").await;
    assert_eq!(there.get(&id).await["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_task_without_an_end_fails_if_its_node_does_not_know_it() {
    let (store, mut here, mut there) = two().await;
    let held = made(&mut here.client, "hold").await;
    let (key, bytes) = records(&store, "/task/").await.remove(0);
    // The node stored this record after it had given up the creation.
    let held_id = held.as_str().unwrap();
    let (start, last) = held_id.split_at(held_id.len() - 1);
    let late = format!("{start}{}", if last == "0" { "1" } else { "0" });
    let text = std::str::from_utf8(&bytes).unwrap().replace(held_id, &late);
    let key = key.replace(held_id, &late);
    store.put(&key, text.into_bytes().into(), Some(Duration::from_secs(600))).await.unwrap();
    let task = there.get(&json!(late)).await;
    assert_eq!((&task["status"], &task["error"]["data"]["retryable"]), (&json!("failed"), &json!(true)));
    assert_eq!(there.get(&held).await["status"], "working");
}

/// Returns the records whose keys contain a text.
async fn records(store: &MemoryStore, part: &str) -> Vec<(String, Arc<[u8]>)> {
    let page = store.list("", None, 1000).await.unwrap();
    page.entries.into_iter().filter(|(key, _)| key.contains(part)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stream_repeats_the_request_for_a_state_that_was_lost_between_nodes() {
    let (store, here, mut there) = two().await;
    let task = here.jobs.server.tasks().create(NewTask::for_local().message("queued")).await.unwrap();
    let id = json!(task.id());
    listen(&mut there.client, &id).await;
    assert_eq!(next_status(&mut there.client).await, "working queued");
    let mut record: Value = serde_json::from_slice(&records(&store, "/task/").await[0].1).unwrap();
    record["message"] = json!("compiling");
    let view = json!([[{ "record": record, "questions": {}, "awaits_input": false, "version": 1 }]]);
    let asked = AtomicUsize::new(0);
    here.jobs.server.node().unwrap().handle("task/states", move |_| {
        let is_lost = asked.fetch_add(1, Ordering::SeqCst) == 0;
        let reply = if is_lost { json!(null) } else { view.clone() };
        async move { serde_json::to_vec(&reply).unwrap() }
    });
    task.progress("compiling");
    assert_eq!(next_status(&mut there.client).await, "working compiling");
}

#[tokio::test(start_paused = true)]
async fn the_application_receives_no_success_for_a_task_that_another_node_ended() {
    let (_store, here, mut there) = two().await;
    for is_cancelled in [false, true] {
        let task = here.jobs.server.tasks().create(NewTask::for_local()).await.unwrap();
        let id = json!(task.id());
        assert_eq!(there.get(&id).await["status"], "working");
        if is_cancelled {
            // The message to the node of the task is lost.
            here.cut.set(Link::Deaf);
            there.client.result("tasks/cancel", of(&id)).await;
        }
        assert_eq!(task.finish(CallToolResult::text("done")).await, !is_cancelled);
    }
}

/// Sends the answer to the question that a client has received.
async fn answer(client: &mut Client, question: &Value) {
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
}

#[tokio::test(start_paused = true)]
async fn a_question_that_was_lost_between_nodes_is_sent_again() {
    let (_here, there, mut client, id) = asked_at_another_node().await;
    there.cut.set(Link::Deaf);
    let waiting = client.start("tasks/result", of(&id)).await;
    sleep(Duration::from_secs(1)).await;
    there.cut.set(Link::Up);
    let question = client.notification("elicitation/create").await;
    answer(&mut client, &question).await;
    assert_eq!(client.response(waiting).await["result"]["content"][0]["text"], "Hello, Ada!");
}

#[tokio::test(start_paused = true)]
async fn a_question_reaches_a_node_that_had_no_lease_at_first() {
    let (_here, there, mut client, id) = asked_at_another_node().await;
    // Work that holds the lost lease delays the next one.
    let _held = there.jobs.server.node().unwrap().lease().await.unwrap();
    there.cut.set(Link::Down);
    sleep(Duration::from_secs(11)).await;
    there.cut.set(Link::Up);
    let waiting = client.start("tasks/result", of(&id)).await;
    sleep(Duration::from_secs(15)).await;
    let question = client.notification("elicitation/create").await;
    answer(&mut client, &question).await;
    assert_eq!(client.response(waiting).await["result"]["content"][0]["text"], "Hello, Ada!");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_between_nodes_is_sent_again() {
    for (link, outage) in [(Link::Down, 1), (Link::Deaf, 4)] {
        let (_here, there, mut client, id) = asked_at_another_node().await;
        let waiting = client.start("tasks/result", of(&id)).await;
        let question = client.notification("elicitation/create").await;
        there.cut.set(link);
        answer(&mut client, &question).await;
        sleep(Duration::from_secs(outage)).await;
        there.cut.set(Link::Up);
        assert_eq!(client.response(waiting).await["result"]["content"][0]["text"], "Hello, Ada!", "{link:?}");
        assert!(client.notifications.iter().all(|message| message["method"] != "elicitation/create"), "{link:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_other_node_cannot_read_is_an_error() {
    let (_store, mut here, mut there) = two().await;
    let node = here.jobs.server.node().unwrap().clone();
    for kind in ["task/answer", "task/cancel"] {
        // A node of another version cannot read the body.
        node.handle(kind, |_| async { b"null".to_vec() });
    }
    let asks = made(&mut here.client, "asks").await;
    wait_for(&mut here.client, &asks, "input_required").await;
    let error = there.client.error("tasks/update", json!({ "taskId": asks, "inputResponses": {} })).await;
    assert_eq!(code_and_text(&error), (-32603, "the node of this work does not support the request"));
    let hold = made(&mut here.client, "hold").await;
    there.client.result("tasks/cancel", of(&hold)).await;
    // The bus delivers the cancellation.
    while here.jobs.seen.recv().await != Some("fired") {}
}

#[tokio::test]
async fn a_list_of_tasks_has_all_pages_in_a_sealed_store() {
    let store = Arc::new(SealedStore::new(Arc::new(MemoryStore::new()), SealKeys::new([1; 32], [[2; 32]])));
    let jobs = || {
        Jobs::with(|builder| builder.store(store.clone()).standalone_tasks().limits(|limits| limits.page_entries = 3))
    };
    let (here, there) = (jobs(), jobs());
    let mut created = Vec::new();
    for _ in 0..10 {
        let task = here.server.tasks().create(NewTask::for_local()).await.unwrap();
        created.push(json!(task.id()));
        task.finish(CallToolResult::text("done")).await;
    }
    let mut legacy = there.legacy().await;
    let listed = legacy.list("tasks/list", "tasks").await;
    assert_eq!(listed.len(), created.len());
    for id in &created {
        assert!(listed.iter().any(|task| task["taskId"] == *id && task["status"] == "completed"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_reaches_the_other_nodes_soon_after_a_long_outage() {
    let (store, tools) = (MemoryStore::new(), json!({ "notifications": { "toolsListChanged": true } }));
    for is_sender_cut in [true, false] {
        let [(here, cut_here), (there, cut_there)] = [0, 1].map(|_| {
            let cut = CutStore::to(&store);
            let server = Server::builder("changes", "1").tool(tool("t", async || "t")).store(Arc::new(cut.clone()));
            (server.build(), cut)
        });
        let mut client = Client::connect(&there, ProtocolVersion::LATEST).await;
        client.start("subscriptions/listen", tools.clone()).await;
        client.notification("notifications/subscriptions/acknowledged").await;
        sleep(Duration::from_secs(1)).await;
        let cut = if is_sender_cut { cut_here } else { cut_there };
        cut.set(Link::Down);
        here.notify().tools_changed();
        sleep(Duration::from_secs(40)).await;
        cut.set(Link::Up);
        let start = Instant::now();
        if !is_sender_cut {
            // The connection is replaced, as the store reports it.
            here.notify().tools_changed();
        }
        client.notification("notifications/tools/list_changed").await;
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_node_that_adopts_a_session_sends_the_changes_that_a_stopped_node_may_have_had() {
    let server = Server::builder("adopts", "1").resource(resource("x:a", async || "a")).build();
    let all =
        [json!(["notifications/resources/list_changed", null]), json!(["notifications/resources/updated", "x:a"])];
    for (subscriptions, expected) in [(json!(["x:a"]), &all[..]), (json!([]), &[])] {
        let (near, mut far) = duplex(64);
        let state = json!({
            "version": "2025-11-25",
            "clientInfo": { "name": "t", "version": "1" },
            "clientCapabilities": {},
            "isInitialized": true,
            "logLevel": null,
            "subscriptions": subscriptions,
        });
        let state = serde_json::from_value(state).unwrap();
        let caller = Caller::remote().session_id("session");
        let session = server.restore_session(&state, &caller, &Peer::new(near.sender(), 1)).unwrap();
        for expected in expected {
            let frame = timeout(Duration::from_secs(10), recv(&mut far)).await.unwrap().unwrap().unwrap();
            let message: Value = serde_json::from_slice(&frame.message).unwrap();
            assert_eq!(json!([message["method"], message["params"]["uri"]]), *expected);
        }
        drop((session, near));
        assert!(recv(&mut far).await.is_none(), "{subscriptions}");
    }
}
