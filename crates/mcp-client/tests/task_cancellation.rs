//! The cancellation of tasks whose call was dropped, and of calls that cannot become a task.

use std::time::Duration;

use mcp_client::{Client, Limits, TaskOrResult, protocol::ProtocolVersion, transport::BoxFuture};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    common::{Peer, builder, connected, start, wait_until},
    tasks::{CORE, MODERN, becomes_a_task, core, detailed, list, task_call, with_tasks},
};

/// The result with which the server creates the task `t1`.
fn created(version: ProtocolVersion) -> Value {
    let mut created = detailed("working", json!({}));
    match version.has_core_tasks() {
        true => created = json!({ "task": core("working") }),
        false => created["resultType"] = "task".into(),
    }
    created
}

/// Receives the cancellation of the task `t1`. Returns its id.
async fn expect_task_cancellation(peer: &mut Peer, context: &str) -> Value {
    let cancelled = peer.recv().await;
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["taskId"]),
        (&json!("tasks/cancel"), &json!("t1")),
        "{context}: {cancelled}"
    );
    cancelled["id"].clone()
}

/// A call that the test polls and drops itself.
type OwnCall = BoxFuture<'static, Result<(), mcp_client::Error>>;

/// Returns a call with or without the request for a task.
fn call(client: &Client, as_task: bool) -> OwnCall {
    let call = client.call_tool("t", ());
    match as_task {
        true => {
            let call = call.as_task();
            Box::pin(async { call.await.map(|_: TaskOrResult| ()) })
        }
        false => Box::pin(async { call.await.map(|_| ()) }),
    }
}

/// Polls a call until the server has done its part.
async fn poll_during<T>(call: &mut OwnCall, part: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        _ = call => panic!("the call ended"),
        done = part => done,
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_task_call_is_cancelled_at_once_if_it_cannot_become_a_task() {
    for &version in ProtocolVersion::ALL {
        // The server supports no tasks.
        let (client, mut peer, _peers) = connected(version).await;
        let mut dropped = call(&client, true);
        let id = poll_during(&mut dropped, peer.expect("tools/call")).await;
        let since = Instant::now();
        drop(dropped);
        let cancelled = peer.recv().await;
        assert_eq!(cancelled["method"], "notifications/cancelled", "{version}: {cancelled}");
        assert_eq!(cancelled["params"]["requestId"], id, "{version}");
        assert_eq!(since.elapsed(), Duration::ZERO, "{version}");
        assert_eq!(client.pending(), 0, "{version}");
    }
    // The server supports tasks, but the tool does not.
    let (client, mut peer) = with_tasks(builder(), CORE).await;
    let mut dropped = call(&client, true);
    poll_during(&mut dropped, async {
        let id = peer.expect("tools/list").await;
        peer.answer(id, json!({ "tools": [{ "name": "t", "inputSchema": {} }] })).await;
        peer.expect("tools/call").await;
    })
    .await;
    let since = Instant::now();
    drop(dropped);
    peer.expect("notifications/cancelled").await;
    assert_eq!(since.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_if_its_call_is_dropped_before_it_reads_the_result() {
    for version in [CORE, MODERN] {
        for as_task in [true, false] {
            let context = format!("{version}, as_task: {as_task}");
            let (client, mut peer) = with_tasks(builder().tasks(), version).await;
            if version.has_core_tasks() {
                let listing = start(client.list_tools());
                list(&mut peer).await;
                listing.await.unwrap().unwrap();
            }
            let mut dropped = call(&client, as_task);
            let id = poll_during(&mut dropped, peer.expect("tools/call")).await;
            peer.answer(id, created(version)).await;
            wait_until(|| client.pending() == 0).await;
            drop(dropped);
            let id = expect_task_cancellation(&mut peer, &context).await;
            peer.answer(id, core("cancelled")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_a_task_that_the_server_creates_after_the_drop_of_its_call() {
    for version in [CORE, MODERN] {
        for is_explicit in [true, false] {
            let (client, mut peer) = with_tasks(builder(), version).await;
            let mut dropped = call(&client, true);
            let id = poll_during(&mut dropped, task_call(&mut peer, version)).await;
            drop(dropped);
            let closing = start(async move {
                if is_explicit {
                    client.close().await;
                }
            });
            tokio::time::sleep(Duration::from_secs(1)).await;
            peer.answer(id, created(version)).await;
            let id = expect_task_cancellation(&mut peer, version.as_str()).await;
            peer.answer(id, core("cancelled")).await;
            assert!(peer.next().await.is_none(), "{version}");
            closing.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_the_cancellation_of_the_task_of_a_dropped_call() {
    for version in [CORE, MODERN] {
        let (client, mut peer) = with_tasks(builder().tasks(), version).await;
        let mut dropped = call(&client, false);
        poll_during(&mut dropped, async {
            becomes_a_task(&mut peer, version).await;
            peer.expect("tasks/get").await;
        })
        .await;
        drop(dropped);
        let closing = start(async move { client.close().await });
        peer.expect("notifications/cancelled").await;
        let id = expect_task_cancellation(&mut peer, version.as_str()).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!closing.is_finished(), "{version}");
        peer.answer(id, core("cancelled")).await;
        // The client does not cancel its `tasks/cancel` request.
        assert!(peer.next().await.is_none(), "{version}");
        closing.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn closing_waits_a_bounded_time_for_the_cancellation_of_tasks() {
    for version in [CORE, MODERN] {
        for is_dropped in [true, false] {
            let (client, mut peer) = with_tasks(builder(), version).await;
            let mut call = call(&client, true);
            let _id = poll_during(&mut call, task_call(&mut peer, version)).await;
            let running = (!is_dropped).then(|| start(call));
            let since = Instant::now();
            client.close().await;
            let (limit, waited) = (Limits::default().close, since.elapsed());
            assert!((limit..=limit * 2).contains(&waited), "{version}, is_dropped: {is_dropped}: {waited:?}");
            if let Some(running) = running {
                assert!(running.await.unwrap().unwrap_err().is_closed(), "{version}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn closing_cancels_the_task_that_a_running_call_becomes() {
    for version in [CORE, MODERN] {
        for as_task in [true, false] {
            let context = format!("{version}, as_task: {as_task}");
            let (client, mut peer) = with_tasks(builder().tasks(), version).await;
            let listing = start(client.list_tools());
            list(&mut peer).await;
            listing.await.unwrap().unwrap();
            // No call owns a task yet.
            let running = start(call(&client, as_task));
            let id = peer.expect("tools/call").await;
            let closing = start(async move { client.close().await });
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(!closing.is_finished(), "{context}");
            peer.answer(id, created(version)).await;
            let id = expect_task_cancellation(&mut peer, &context).await;
            peer.answer(id, core("cancelled")).await;
            assert!(peer.next().await.is_none(), "{context}");
            closing.await.unwrap();
            assert!(running.await.unwrap().unwrap_err().is_closed(), "{context}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_requests_that_cannot_become_a_task() {
    let builder = || builder().tasks().on_elicit(async |_| std::future::pending().await);
    // A request that is not a tool call.
    let (client, mut peer) = with_tasks(builder(), MODERN).await;
    let listing = start(client.list_tools());
    peer.expect("tools/list").await;
    assert_closes_at_once(&client, "a list").await;
    assert!(listing.await.unwrap().unwrap_err().is_closed());
    // A call whose input requests wait for the user.
    let (client, mut peer) = with_tasks(builder(), MODERN).await;
    let _asking = start(client.call_tool("t", ()));
    let id = peer.expect("tools/call").await;
    let form = json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
    let questions = json!({ "k": { "method": "elicitation/create", "params": form } });
    peer.answer(id, json!({ "resultType": "input_required", "inputRequests": questions })).await;
    wait_until(|| client.pending() == 0).await;
    assert_closes_at_once(&client, "an input request").await;
    // A task that a handle owns.
    let (client, mut peer) = with_tasks(builder(), CORE).await;
    let starting = start(client.call_tool("t", ()).on_progress(|_| {}).as_task());
    let id = task_call(&mut peer, CORE).await;
    peer.answer(id, created(CORE)).await;
    let started = starting.await.unwrap().unwrap();
    assert_closes_at_once(&client, "a handle").await;
    assert!(started.task().is_some());
    assert!(peer.next().await.is_none());
}

async fn assert_closes_at_once(client: &Client, context: &str) {
    let since = Instant::now();
    client.close().await;
    assert_eq!(since.elapsed(), Duration::ZERO, "{context}");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_task_reaches_its_call_while_the_client_closes() {
    for version in [CORE, MODERN] {
        let (client, mut peer) = with_tasks(builder().tasks(), version).await;
        let call = start(client.call_tool("t", ()));
        becomes_a_task(&mut peer, version).await;
        let status = peer.expect("tasks/get").await;
        let closing = start(async move { client.close().await });
        let cancel = expect_task_cancellation(&mut peer, version.as_str()).await;
        // The task failed before the server received the cancellation.
        let error = json!({ "code": -32603, "message": "the disk is full" });
        if version.has_core_tasks() {
            peer.answer(status, core("failed")).await;
            let result = peer.expect("tasks/result").await;
            peer.refuse(result, error).await;
        } else {
            peer.answer(status, detailed("failed", json!({ "error": error }))).await;
        }
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.rpc().map(|error| &*error.message), Some("the disk is full"), "{version}: {error}");
        peer.answer(cancel, core("failed")).await;
        closing.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_the_result_of_a_task_fails_as_closed_if_the_close_cancels_the_task() {
    for status in ["cancelled", "failed"] {
        let (client, mut peer) = with_tasks(builder().tasks(), CORE).await;
        let call = start(client.call_tool("t", ()));
        becomes_a_task(&mut peer, CORE).await;
        let id = peer.expect("tasks/get").await;
        peer.answer(id, core("input_required")).await;
        let result = peer.expect("tasks/result").await;
        let closing = start(async move { client.close().await });
        let cancel = expect_task_cancellation(&mut peer, status).await;
        peer.refuse(result, json!({ "code": -32603, "message": "the task has no result" })).await;
        let id = peer.expect("tasks/get").await;
        // The close waits for the status of the task.
        peer.answer(cancel, core(status)).await;
        peer.answer(id, core(status)).await;
        let error = call.await.unwrap().unwrap_err();
        match status {
            "cancelled" => assert!(error.is_closed(), "{error}"),
            _ => assert_eq!(error.rpc().map(|error| &*error.message), Some("the task has no result"), "{error}"),
        }
        closing.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_the_server_creates_while_the_client_closes_is_cancelled() {
    for version in [CORE, MODERN] {
        let (client, mut peer) = with_tasks(builder().tasks(), version).await;
        let first = start(client.call_tool("t", ()));
        becomes_a_task(&mut peer, version).await;
        peer.expect("tasks/get").await;
        let second = start(client.call_tool("t", ()));
        let request = peer.expect("tools/call").await;
        let closing = start(async move { client.close().await });
        let cancel = expect_task_cancellation(&mut peer, version.as_str()).await;
        let late = created(version).to_string().replace("\"t1\"", "\"t2\"");
        peer.answer(request, serde_json::from_str(&late).unwrap()).await;
        let cancelled = peer.recv().await;
        assert_eq!(
            (&cancelled["method"], &cancelled["params"]["taskId"]),
            (&json!("tasks/cancel"), &json!("t2")),
            "{version}: {cancelled}"
        );
        peer.answer(cancel, core("cancelled")).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!closing.is_finished(), "{version}");
        peer.answer(cancelled["id"].clone(), core("cancelled")).await;
        closing.await.unwrap();
        for call in [first, second] {
            assert!(call.await.unwrap().unwrap_err().is_closed(), "{version}");
        }
    }
}
