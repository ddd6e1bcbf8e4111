//! Tasks in the store and on other nodes, also when the creating or ending request is dropped.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    future::Future,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use mcp_protocol::{CallToolResult, ProtocolVersion};
use mcp_server_core::{Context, Inputs, NewTask, Server, TaskPolicy, TaskSupport, ToolError, tool};
use mcp_store::PubSub as _;
use mcp_transport::Transport as _;
use serde_json::json;
use tokio::sync::{Notify, mpsc::unbounded_channel};

use crate::{
    input_client::Name,
    json_client::{Client, code_and_text, request_with_scope},
    stalling_store::StallingStore,
    tasks_fixture::{Jobs, call, declared, made, of, wait_for},
};

/// Polls a future once and drops it.
fn drop_halfway(future: impl Future) {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(std::pin::pin!(future).poll(&mut cx), Poll::Pending), "the store is not stalled");
}

fn node(store: &StallingStore) -> Server {
    Server::builder("jobs", "1").store(Arc::new(store.clone())).standalone_tasks().build()
}

async fn client(server: &Server) -> Client {
    Client::connect_with(server, ProtocolVersion::LATEST, declared()).await
}

#[tokio::test]
async fn stores_the_end_of_a_task_although_its_caller_disconnects() {
    let store = StallingStore::of("/task/");
    let (here, there) = (node(&store), node(&store));
    let mut client = client(&there).await;
    for (end, status) in [("dropped", "failed"), ("finished halfway", "completed"), ("failed halfway", "failed")] {
        let task = here.tasks().create(NewTask::for_local()).await.unwrap();
        let id = json!(task.id());
        assert_eq!(client.result("tasks/get", of(&id)).await["status"], "working", "{end}");
        store.is_stalled.send_replace(true);
        match end {
            "dropped" => drop(task),
            "finished halfway" => drop_halfway(task.finish(CallToolResult::text("done"))),
            _ => drop_halfway(task.fail(mcp_protocol::RpcError::internal("no"))),
        }
        store.is_stalled.send_replace(false);
        wait_for(&mut client, &id, status).await;
    }
}

#[tokio::test]
async fn stores_a_cancellation_although_its_request_is_dropped() {
    let store = StallingStore::of("/task/");
    let mut jobs = Jobs::with(|builder| builder.store(Arc::new(store.clone())));
    let (mut here, mut there) = (jobs.modern().await, client(&node(&store)).await);
    let id = made(&mut here, "hold").await;
    store.is_stalled.send_replace(true);
    let mut params = of(&id);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared();
    drop_halfway(request_with_scope(&jobs.server, "tasks/cancel", params, |scope| scope.local()));
    stops(&mut jobs).await;
    store.is_stalled.send_replace(false);
    wait_for(&mut here, &id, "cancelled").await;
    wait_for(&mut there, &id, "cancelled").await;
}

/// Waits until the tool `hold` ended.
async fn stops(jobs: &mut Jobs) {
    let ended = async { while jobs.seen.recv().await.expect("the tool runs") != "fired" {} };
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("the tool did not end");
}

#[tokio::test(start_paused = true)]
async fn a_handler_receives_a_remote_cancellation_whose_response_was_lost() {
    for gives_up in [true, false] {
        let store = StallingStore::of("/task/").losing_responses();
        let node = || Jobs::with(|builder| builder.store(Arc::new(store.clone())));
        let (mut first, second) = (node(), node());
        let (mut here, mut there) = (first.modern().await, second.modern().await);
        let id = made(&mut here, "hold").await;
        store.is_stalled.send_replace(true);
        let mut params = of(&id);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared();
        let serving = request_with_scope(&second.server, "tasks/cancel", params, |scope| scope.local());
        if gives_up {
            let given_up = tokio::time::timeout(Duration::from_secs(1), serving).await;
            assert!(given_up.is_err(), "the store is not stalled");
            store.is_stalled.send_replace(false);
        } else {
            // The store takes longer than the caller waits.
            drop(serving.await);
            store.is_stalled.send_replace(false);
            there.result("tasks/cancel", of(&id)).await;
        }
        stops(&mut first).await;
    }
}

#[tokio::test]
async fn a_handler_receives_a_remote_cancellation_whose_event_was_lost() {
    let mut store = StallingStore::of("none");
    store.drops_cancellations = true;
    let node = || Jobs::with(|builder| builder.store(Arc::new(store.clone())));
    let (mut first, second) = (node(), node());
    let (mut here, mut there) = (first.modern().await, second.modern().await);
    let id = made(&mut here, "hold").await;
    there.result("tasks/cancel", of(&id)).await;
    store.publish("mcp/jobs/notices", (*b"what no node can read").into()).await.unwrap();
    stops(&mut first).await;
    wait_for(&mut here, &id, "cancelled").await;
}

#[tokio::test]
async fn a_dropped_creation_of_a_task_leaves_nothing_behind() {
    let store = StallingStore::of("/task/");
    let shared = Arc::new(store.clone());
    let server = Server::builder("node", "1")
        .store(shared)
        .standalone_tasks()
        .limits(|limits| limits.tasks.per_principal = 1)
        .build();
    store.is_stalled.send_replace(true);
    drop_halfway(server.tasks().create(NewTask::for_local()));
    store.is_stalled.send_replace(false);
    let task = server.tasks().create(NewTask::for_local()).await.unwrap();
    let mut client = Client::connect(&server, ProtocolVersion::V2025_11_25).await;
    for _ in 0..1000 {
        let listed = client.result("tasks/list", json!({})).await["tasks"].clone();
        if listed.as_array().unwrap().len() == 1 {
            assert_eq!(listed[0]["taskId"], task.id());
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the record of a task that is none stays");
}

/// Tasks that have ended, and a server that knows them from the store.
async fn ended(store: &StallingStore, count: usize) -> (Server, serde_json::Value) {
    let (here, there) = (node(store), node(store));
    let mut ids = Vec::new();
    for _ in 0..count {
        let task = here.tasks().create(NewTask::for_local()).await.unwrap();
        ids.push(task.id().to_owned());
        task.finish(CallToolResult::text("done")).await;
    }
    (there, json!({ "notifications": { "taskIds": ids } }))
}

#[tokio::test]
async fn a_stream_can_end_during_a_store_request() {
    let store = StallingStore::of("/task/");
    let (server, filter) = ended(&store, 1).await;
    let mut client = client(&server).await;
    store.is_stalled.send_replace(true);
    let stream = client.start("subscriptions/listen", filter).await;
    client.result("server/discover", json!({})).await;
    server.shutdown();
    assert!(client.response(stream).await["result"].is_object());
}

#[tokio::test]
async fn reads_the_result_of_a_task_only_when_it_is_sent() {
    let store = StallingStore::of("/task/");
    let (server, mut filter) = ended(&store, 3).await;
    filter["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared();
    let (near, mut far) = mcp_transport::memory::duplex(1);
    let serving = tokio::spawn(async move {
        request_with_scope(&server, "subscriptions/listen", filter, |scope| scope.local().sink(near.sender())).await
    });
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
    // The client has not read the acknowledgement, so the status of the first task waits.
    assert_eq!(store.gets.load(Ordering::SeqCst), 3 + 1);
    for n in 0..4 {
        let frame = tokio::time::timeout(Duration::from_secs(10), mcp_transport::recv(&mut far)).await;
        let message: serde_json::Value = serde_json::from_slice(&frame.unwrap().unwrap().unwrap().message).unwrap();
        assert_eq!(message["params"]["status"] == "completed", n > 0, "{message}");
    }
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn sends_the_status_later_when_the_store_is_unavailable() {
    let store = StallingStore::of("/task/");
    let (server, mut filter) = ended(&store, 2).await;
    filter["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared();
    let (near, mut far) = mcp_transport::memory::duplex(1);
    let serving = server.clone();
    let serving = tokio::spawn(async move {
        request_with_scope(&serving, "subscriptions/listen", filter, |scope| scope.local().sink(near.sender())).await
    });
    // The client has not read the acknowledgement, so the status of the first task waits. The store fails before the
    // second one.
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.is_stalled.send_replace(true);
    for n in 0..2 {
        let frame = mcp_transport::recv(&mut far).await.unwrap().unwrap();
        let message: serde_json::Value = serde_json::from_slice(&frame.message).unwrap();
        assert_eq!(message["params"]["status"] == "completed", n > 0, "{message}");
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    store.is_stalled.send_replace(false);
    let frame = tokio::time::timeout(Duration::from_secs(60), mcp_transport::recv(&mut far)).await;
    let message: serde_json::Value = serde_json::from_slice(&frame.unwrap().unwrap().unwrap().message).unwrap();
    assert_eq!(message["params"]["status"], "completed", "{message}");
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn rejects_a_stream_whose_tasks_cannot_be_read_in_time() {
    let store = StallingStore::of("/task/");
    let (server, filter) = ended(&store, 3).await;
    let mut client = client(&server).await;
    store.is_stalled.send_replace(true);
    let start = tokio::time::Instant::now();
    let stream = client.start("subscriptions/listen", filter).await;
    assert_eq!(client.response(stream).await["error"]["code"], -32603);
    assert_eq!(start.elapsed().as_secs_f32().round(), 5.0);
}

#[tokio::test(start_paused = true)]
async fn results_have_a_budget_that_expired_tasks_release() {
    let server = Server::builder("large", "1")
        .task_policy(TaskPolicy::Immediately)
        .limits(|limits| limits.tasks.result_bytes = 3000)
        .tool(tool("large", async || "x".repeat(2000)).task(TaskSupport::Required))
        .tool(tool("small", async || "x").task(TaskSupport::Required))
        .build();
    let mut client = client(&server).await;
    let (first, second) = (made(&mut client, "large").await, made(&mut client, "large").await);
    let ended = [wait_for_end(&mut client, &first).await, wait_for_end(&mut client, &second).await];
    let completed = ended.iter().position(|task| task["status"] == "completed").unwrap();
    let failed = &ended[1 - completed];
    assert_eq!(
        code_and_text(&failed["error"]),
        (-32603, "the server has no room to keep the result of this task"),
        "{ended:?}"
    );
    let small = made(&mut client, "small").await;
    wait_for(&mut client, &small, "completed").await;
    tokio::time::sleep(Duration::from_secs(301)).await;
    let third = made(&mut client, "large").await;
    wait_for(&mut client, &third, "completed").await;
}

#[tokio::test]
async fn always_stores_small_results() {
    let jobs = Jobs::with(|builder| builder.limits(|limits| limits.tasks.result_bytes = 1));
    let mut client = jobs.modern().await;
    let id = made(&mut client, "hold").await;
    client.result("tasks/cancel", of(&id)).await;
    wait_for(&mut client, &id, "cancelled").await;
    let id = made(&mut client, "must").await;
    wait_for(&mut client, &id, "completed").await;
}

async fn wait_for_end(client: &mut Client, id: &serde_json::Value) -> serde_json::Value {
    for _ in 0..1000 {
        let task = client.result("tasks/get", of(id)).await;
        if task["status"] != "working" {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the task does not end");
}

#[tokio::test]
async fn rejects_a_task_for_a_finished_call() {
    let (went_on, mut seen) = unbounded_channel();
    let server = Server::builder("late", "1")
        .tool(
            tool("late", move |context: Context| {
                let went_on = went_on.clone();
                async move {
                    let (over, wait) = tokio::sync::oneshot::channel::<()>();
                    tokio::spawn(async move {
                        let _ = wait.await;
                        went_on.send(context.detach().await).ok();
                    });
                    drop(over);
                    "done"
                }
            })
            .task_policy(TaskPolicy::After(Duration::from_secs(60)))
            .task(TaskSupport::Optional),
        )
        .build();
    let mut client = client(&server).await;
    assert_eq!(client.result("tools/call", call("late")).await["content"][0]["text"], "done");
    let is_task = tokio::time::timeout(Duration::from_secs(10), seen.recv()).await.expect("an answer");
    assert_eq!(is_task, Some(false));
}

#[tokio::test]
async fn input_requests_during_task_creation_belong_to_the_task() {
    let store = StallingStore::of("/task/");
    let input_allowed = Arc::new(Notify::new());
    let wait = input_allowed.clone();
    let server = Server::builder("helped", "1")
        .store(Arc::new(store.clone()))
        .tool(
            tool("helped", move |inputs: Inputs| {
                let wait = wait.clone();
                async move {
                    let helper = tokio::spawn(async move {
                        wait.notified().await;
                        inputs.elicit::<Name>("name", "Name?").await
                    });
                    let Name { name } = helper.await.map_err(|_| ToolError::new("no helper"))??;
                    Ok::<_, ToolError>(format!("Hello, {name}!"))
                }
            })
            .task_policy(TaskPolicy::After(Duration::from_millis(1)))
            .task(TaskSupport::Optional),
        )
        .build();
    store.is_stalled.send_replace(true);
    let mut client = client(&server).await;
    let call = client.start("tools/call", call("helped")).await;
    // The store still delays the record, so the task does not exist yet.
    for _ in 0..1000 {
        if store.usage() > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(store.usage() > 0);
    input_allowed.notify_one();
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
    store.is_stalled.send_replace(false);
    let created = client.response(call).await;
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let id = created["result"]["taskId"].clone();
    wait_for(&mut client, &id, "input_required").await;
    let answer = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    client.result("tasks/update", json!({ "taskId": id, "inputResponses": answer })).await;
    let done = wait_for(&mut client, &id, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "Hello, Ada!");
}

#[tokio::test(start_paused = true)]
async fn an_unlimited_ttl_becomes_a_long_one() {
    let server = Server::builder("long", "1")
        .standalone_tasks()
        .limits(|limits| {
            limits.tasks.max_ttl = Duration::MAX;
            limits.inputs.state = Duration::MAX;
        })
        .build();
    let task = server.tasks().create(NewTask::for_local().ttl(Duration::MAX)).await.unwrap();
    let mut client = client(&server).await;
    assert_eq!(client.result("tasks/get", of(&json!(task.id()))).await["status"], "working");
    assert!(task.finish(CallToolResult::text("done")).await);
}
