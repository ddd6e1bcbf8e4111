//! Calls that become tasks, in both dialects and without task support.
#![expect(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_client::{
    Client, ClientBuilder, TaskOrResult,
    protocol::{ElicitResult, JsonObject, Meta, ProtocolVersion, tasks::TaskStatus},
};
use mcp_server::{
    prelude::*,
    tasks::{TaskPolicy, TaskSupport},
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::common::{Peer, builder, connected, start, tool_result, wait_until};

pub(crate) const MODERN: ProtocolVersion = ProtocolVersion::V2026_07_28;
pub(crate) const CORE: ProtocolVersion = ProtocolVersion::V2025_11_25;

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// Tools that support tasks. `gated` ends when the test opens the gate.
fn server(version: ProtocolVersion) -> (Server, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let gated = gate.clone();
    let gated = move || {
        let gate = gated.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            "through"
        }
    };
    let server = Server::builder("real", "1")
        .versions([version])
        .tool(tool("plain", async || "plain"))
        .tool(tool("gated", gated).task(TaskSupport::Optional).task_policy(TaskPolicy::Immediately))
        .tool(tool("must", async || "must").task(TaskSupport::Required))
        .tool(tool("fail", async || Err::<String, _>(ToolError::new("no luck"))).task(TaskSupport::Required))
        .tool(
            tool("greet", async |inputs: Inputs| {
                let name: Name = inputs.elicit("name", "Who?").await?;
                Ok::<_, ToolError>(format!("Hello, {}!", name.name))
            })
            .task(TaskSupport::Required),
        )
        .build();
    (server, gate)
}

fn eliciting_builder() -> ClientBuilder {
    builder().on_elicit(async |_| Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada"))))
}

async fn connect(version: ProtocolVersion) -> (Client, Arc<Semaphore>) {
    let (server, gate) = server(version);
    (eliciting_builder().connect(server).await.unwrap(), gate)
}

#[tokio::test(start_paused = true)]
async fn runs_a_call_as_a_task_if_the_tool_allows_it() {
    for &version in ProtocolVersion::ALL {
        let (client, gate) = connect(version).await;
        let has_tasks = version.has_core_tasks() || version.has_extensions();
        let done = client.call_tool("plain", ()).as_task().await.unwrap();
        assert!(matches!(done, TaskOrResult::Result(_)), "{version}");
        assert_eq!(done.result().await.unwrap().text(), "plain");

        let starting = client.call_tool("gated", ()).as_task().ttl(Duration::from_secs(60));
        if !has_tasks {
            gate.add_permits(1);
            assert_eq!(starting.await.unwrap().result().await.unwrap().text(), "through", "{version}");
            continue;
        }
        let started = starting.await.unwrap();
        let task = started.task().unwrap();
        assert_eq!(task.status().await.unwrap().status, TaskStatus::Working, "{version}");
        // Another handle continues the task by its id.
        let again = client.task(task.id());
        let waiting = start(async move { again.result().await });
        gate.add_permits(1);
        assert_eq!(waiting.await.unwrap().unwrap().text(), "through", "{version}");
        assert_eq!(started.result().await.unwrap().text(), "through");
    }
}

#[tokio::test(start_paused = true)]
async fn awaits_a_task_only_tool_as_a_call() {
    for &version in ProtocolVersion::ALL {
        let (client, _gate) = connect(version).await;
        // In 2025-11-25 only the list declares the task support of a tool.
        client.list_tools().await.unwrap();
        assert_eq!(client.call_tool("must", ()).await.unwrap().text(), "must", "{version}");
        let failed = client.call_tool("fail", ()).await.unwrap();
        assert!(failed.is_error() && failed.text() == "no luck", "{version}");
        if version.has_elicitation() {
            assert_eq!(client.call_tool("greet", ()).await.unwrap().text(), "Hello, Ada!", "{version}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_may_turn_any_call_into_a_task_if_allowed() {
    let (server, gate) = server(MODERN);
    let client = builder().tasks().connect(&server).await.unwrap();
    let call = start(client.call_tool("gated", ()));
    tokio::time::sleep(Duration::from_secs(100)).await;
    gate.add_permits(1);
    assert_eq!(call.await.unwrap().unwrap().text(), "through");
    // The remaining time of the call limits the task.
    let late = client.call_tool("gated", ()).total_timeout(Duration::from_secs(5)).await;
    assert!(late.unwrap_err().is_timeout());
    assert_eq!(client.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn cancels_a_task() {
    for version in [CORE, MODERN] {
        let (client, _gate) = connect(version).await;
        let started = client.call_tool("gated", ()).as_task().await.unwrap();
        let task = started.task().unwrap().clone();
        let waiting = start(async move { started.result().await });
        tokio::time::sleep(Duration::from_secs(3)).await;
        task.cancel().await.unwrap();
        assert_eq!(task.status().await.unwrap().status, TaskStatus::Cancelled, "{version}");
        assert!(waiting.await.unwrap().unwrap_err().is_cancelled(), "{version}");
        let unknown = client.task("nothing").status().await.unwrap_err();
        assert_eq!(unknown.rpc().unwrap().code.0, -32602, "{version}");
        if version.has_core_tasks() {
            assert_eq!(client.list_tasks().await.unwrap().len(), 1);
        } else {
            assert!(client.list_tasks().await.unwrap_err().is_unsupported());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_outlives_its_handle_and_the_connection() {
    let (server, gate) = server(MODERN);
    let client = builder().connect(&server).await.unwrap();
    let started = client.call_tool("gated", ()).as_task().await.unwrap();
    let id = started.task().unwrap().id().to_owned();
    drop((started, client));
    let client = builder().connect(&server).await.unwrap();
    let task = client.task(id);
    assert_eq!(task.status().await.unwrap().status, TaskStatus::Working);
    client.reconnect();
    gate.add_permits(1);
    assert_eq!(task.result().await.unwrap().text(), "through");
}

pub(crate) fn detailed(status: &str, more: Value) -> Value {
    let mut task = json!({
        "resultType": "complete", "taskId": "t1", "status": status, "createdAt": "a", "lastUpdatedAt": "b",
        "ttlMs": null, "pollIntervalMs": 500,
    });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

#[tokio::test(start_paused = true)]
async fn answers_each_input_request_once_and_respects_the_poll_interval() {
    let (connector, mut peers) = crate::common::scripted();
    let connecting = start(eliciting_builder().tasks().connect(connector));
    let mut peer = peers.next().await;
    let request = peer.recv().await;
    let mut discovery = crate::common::discovery(&["2026-07-28"]);
    discovery["capabilities"]["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
    peer.answer(request["id"].clone(), discovery).await;
    let client = connecting.await.unwrap().unwrap();

    let call = start(client.call_tool("t", ()));
    let request = peer.recv().await;
    let declared = &request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
    assert_eq!(*declared, json!({ "io.modelcontextprotocol/tasks": {} }));
    let mut created = detailed("working", json!({}));
    created["resultType"] = "task".into();
    peer.answer(request["id"].clone(), created).await;
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let question = json!({ "method": "elicitation/create", "params": { "message": "?", "requestedSchema": schema } });
    let required = detailed("input_required", json!({ "inputRequests": { "k": question } }));
    for n in 0..3 {
        let before = tokio::time::Instant::now();
        let look = peer.recv().await;
        assert_eq!((&look["method"], &look["params"]["taskId"]), (&json!("tasks/get"), &json!("t1")));
        assert_eq!(before.elapsed(), Duration::from_millis(500));
        peer.answer(look["id"].clone(), required.clone()).await;
        if n == 0 {
            let update = peer.recv().await;
            assert_eq!(update["method"], "tasks/update");
            assert_eq!(update["params"]["inputResponses"]["k"]["content"]["name"], "Ada");
            peer.answer(update["id"].clone(), json!({ "resultType": "complete" })).await;
        }
    }
    let id = peer.expect("tasks/get").await;
    peer.answer(id, detailed("completed", json!({ "result": tool_result("done") }))).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_task_without_permission_is_an_invalid_response() {
    let (client, mut peer, _peers) = connected(MODERN).await;
    let call = start(client.call_tool("t", ()));
    let id = peer.expect("tools/call").await;
    let mut created = detailed("working", json!({}));
    created["resultType"] = "task".into();
    peer.answer(id, created).await;
    assert!(call.await.unwrap().unwrap_err().is_invalid_response());
}

/// A server whose task states the test controls.
pub(crate) async fn with_tasks(client: ClientBuilder, version: ProtocolVersion) -> (Client, Peer) {
    let (connector, mut peers) = crate::common::scripted();
    let connecting = start(client.versions([version]).connect(connector));
    let mut peer = peers.next().await;
    let request = peer.recv().await;
    if version.has_handshake() {
        let mut initialized = crate::common::initialized(version.as_str());
        initialized["capabilities"]["tasks"] = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
        peer.answer(request["id"].clone(), initialized).await;
        peer.expect("notifications/initialized").await;
    } else {
        let mut discovery = crate::common::discovery(&[version.as_str()]);
        discovery["capabilities"]["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
        peer.answer(request["id"].clone(), discovery).await;
    }
    let client = connecting.await.unwrap().unwrap();
    (client, peer)
}

/// A task as 2025-11-25 shows it.
pub(crate) fn core(status: &str) -> Value {
    json!({ "taskId": "t1", "status": status, "createdAt": "a", "lastUpdatedAt": "b", "ttl": null, "pollInterval": 500 })
}

/// Lists a tool that requires a task. Only 2025-11-25 declares this in the list.
pub(crate) async fn list(peer: &mut Peer) {
    let id = peer.expect("tools/list").await;
    let tool = json!({ "name": "t", "inputSchema": {}, "execution": { "taskSupport": "required" } });
    peer.answer(id, json!({ "tools": [tool] })).await;
}

/// Receives a tool call that requests a task. Returns its id.
pub(crate) async fn task_call(peer: &mut Peer, version: ProtocolVersion) -> Value {
    if version.has_core_tasks() {
        list(peer).await;
    }
    peer.expect("tools/call").await
}

/// Starts the task of a call. Returns the request.
pub(crate) async fn becomes_a_task(peer: &mut Peer, version: ProtocolVersion) -> Value {
    let mut request = peer.recv().await;
    if version.has_core_tasks() {
        // The client has not listed the tools yet.
        peer.refuse(request["id"].clone(), json!({ "code": -32601, "message": "a task and nothing else" })).await;
        list(peer).await;
        request = peer.recv().await;
        assert_eq!(request["params"]["task"], json!({}));
        peer.answer(request["id"].clone(), json!({ "task": core("working") })).await;
    } else {
        let mut created = detailed("working", json!({}));
        created["resultType"] = "task".into();
        peer.answer(request["id"].clone(), created).await;
    }
    request
}

fn slow_user() -> ClientBuilder {
    builder().tasks().on_elicit(async |_| {
        tokio::time::sleep(Duration::from_secs(100)).await;
        Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada")))
    })
}

#[tokio::test(start_paused = true)]
async fn user_time_does_not_count_towards_the_timeout_of_a_task() {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let question = json!({ "message": "?", "requestedSchema": schema });
    for version in [CORE, MODERN] {
        let (client, mut peer) = with_tasks(slow_user(), version).await;
        let call = start(client.call_tool("t", ()).total_timeout(Duration::from_secs(5)));
        becomes_a_task(&mut peer, version).await;
        let look = peer.expect("tasks/get").await;
        if version.has_core_tasks() {
            peer.answer(look, core("input_required")).await;
            let waiting = peer.expect("tasks/result").await;
            peer.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": question })).await;
            let answer = loop {
                let message = peer.recv().await;
                match message["method"].as_str() {
                    Some("tasks/get") => peer.answer(message["id"].clone(), core("input_required")).await,
                    _ => break message,
                }
            };
            assert_eq!(answer["result"]["content"]["name"], "Ada");
            peer.answer(waiting, tool_result("done")).await;
        } else {
            let request = json!({ "k": { "method": "elicitation/create", "params": question } });
            peer.answer(look, detailed("input_required", json!({ "inputRequests": request }))).await;
            let update = peer.expect("tasks/update").await;
            peer.answer(update, json!({ "resultType": "complete" })).await;
            let look = peer.expect("tasks/get").await;
            peer.answer(look, detailed("completed", json!({ "result": tool_result("done") }))).await;
        }
        assert_eq!(call.await.unwrap().unwrap().text(), "done", "{version}");

        // The time that the server takes does count.
        let call = start(client.call_tool("t", ()).total_timeout(Duration::from_secs(5)));
        let request = peer.expect("tools/call").await;
        let mut created = detailed("working", json!({}));
        created["resultType"] = "task".into();
        created["task"] = core("working");
        peer.answer(request, created).await;
        let began = tokio::time::Instant::now();
        let working = async {
            loop {
                let request = peer.recv().await;
                if request["method"] == "tasks/cancel" {
                    // The time is over.
                    return std::future::pending().await;
                }
                let look = request["id"].clone();
                let working = if version.has_core_tasks() { core("working") } else { detailed("working", json!({})) };
                peer.answer(look, working).await;
            }
        };
        let error = tokio::select! {
            outcome = call => outcome.unwrap().unwrap_err(),
            () = working => unreachable!(),
        };
        assert!(error.is_timeout() && error.to_string().contains("the task took longer than 5s"), "{version}: {error}");
        assert_eq!(began.elapsed().as_secs(), 5, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_call_includes_the_listing_of_tools() {
    let (client, mut peer) = with_tasks(builder(), CORE).await;
    let began = tokio::time::Instant::now();
    let call = client.call_tool("t", ()).total_timeout(Duration::from_secs(10));
    let calling = tokio::spawn(async move { call.as_task().await.map(drop) });
    peer.expect("tools/list").await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains("tools/call took longer than 10s"), "{error}");
    assert_eq!(began.elapsed().as_secs(), 10);
    // The client sends no poll request without a waiting caller.
    peer.expect("notifications/cancelled").await;
    drop(client);
    assert!(peer.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_task_keeps_the_options_of_its_call() {
    for version in [CORE, MODERN] {
        for is_handle in [false, true] {
            let (client, mut peer) = with_tasks(slow_user(), version).await;
            let reports = Arc::new(std::sync::Mutex::new(Vec::new()));
            let sink = reports.clone();
            let call = client
                .call_tool("t", ())
                .idle_timeout(Duration::from_secs(2))
                .meta(Meta::new().with("example.com/k", 1))
                .on_progress(move |notice| sink.lock().unwrap().push(notice.progress));
            let awaiting =
                tokio::spawn(async move { if is_handle { call.as_task().await?.result().await } else { call.await } });
            if is_handle && version.has_core_tasks() {
                list(&mut peer).await;
            }
            let request = if is_handle && version.has_core_tasks() {
                let request = peer.recv().await;
                peer.answer(request["id"].clone(), json!({ "task": core("working") })).await;
                request
            } else {
                becomes_a_task(&mut peer, version).await
            };
            for n in 1..=2 {
                let look = peer.recv().await;
                assert_eq!(look["params"]["_meta"]["example.com/k"], 1, "{version}");
                if version.has_core_tasks() {
                    let token = &request["params"]["_meta"]["progressToken"];
                    peer.notify("notifications/progress", json!({ "progressToken": token, "progress": n })).await;
                }
                let working = if version.has_core_tasks() { core("working") } else { detailed("working", json!({})) };
                if n == 1 {
                    peer.answer(look["id"].clone(), working).await;
                }
            }
            // The second poll is never answered, and the time limit of the call applies.
            let began = tokio::time::Instant::now();
            let error = awaiting.await.unwrap().unwrap_err();
            assert!(error.is_timeout() && error.to_string().contains("tasks/get took longer than 2s"), "{error}");
            assert_eq!(began.elapsed().as_secs(), 2, "{version}");
            let expected: &[f64] = if version.has_core_tasks() { &[1.0, 2.0] } else { &[] };
            assert_eq!(*reports.lock().unwrap(), expected, "{version}");
            peer.expect("notifications/cancelled").await;
            if !is_handle {
                let id = peer.expect("tasks/cancel").await;
                peer.answer(id, json!({ "resultType": "complete" })).await;
            }
            wait_until(|| client.pending() == 0).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_call_cancels_its_task() {
    for version in [CORE, MODERN] {
        for way in ["drop", "token", "total_timeout", "timeout"] {
            let (client, mut peer) = with_tasks(builder().tasks(), version).await;
            let token = CancellationToken::new();
            let mut call = client.call_tool("t", ()).cancelled_by(token.clone().cancelled_owned());
            match way {
                "total_timeout" => call = call.total_timeout(Duration::from_millis(800)),
                "timeout" => call = call.idle_timeout(Duration::from_millis(800)),
                _ => {}
            }
            let call = start(call);
            becomes_a_task(&mut peer, version).await;
            peer.expect("tasks/get").await;
            match way {
                "drop" => call.abort(),
                "token" => token.cancel(),
                _ => assert!(call.await.unwrap().unwrap_err().is_timeout(), "{version}"),
            }
            peer.expect("notifications/cancelled").await;
            let cancellation = peer.recv().await;
            assert_eq!(
                (&cancellation["method"], &cancellation["params"]["taskId"]),
                (&json!("tasks/cancel"), &json!("t1")),
                "{way}"
            );
            // Without a response the client cancels it at the time limit.
            peer.expect("notifications/cancelled").await;
            wait_until(|| client.pending() == 0).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_created_after_its_call_was_dropped_is_cancelled() {
    for version in [CORE, MODERN] {
        let (client, mut peer) = with_tasks(builder(), version).await;
        let call = tokio::spawn(client.call_tool("t", ()).as_task().into_future());
        let id = task_call(&mut peer, version).await;
        call.abort();
        assert!(call.await.is_err());
        let created = match version.has_core_tasks() {
            true => json!({ "task": core("working") }),
            false => {
                let mut created = detailed("working", json!({}));
                created["resultType"] = "task".into();
                created
            }
        };
        peer.answer(id, created).await;
        let cancelled = peer.recv().await;
        assert_eq!(
            (&cancelled["method"], &cancelled["params"]["taskId"]),
            (&json!("tasks/cancel"), &json!("t1")),
            "{version}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn cancels_a_dropped_task_call_that_has_no_response() {
    for version in [CORE, MODERN] {
        let (client, mut peer) = with_tasks(builder(), version).await;
        let call = tokio::spawn(client.call_tool("t", ()).as_task().into_future());
        let id = task_call(&mut peer, version).await;
        call.abort();
        let cancelled = peer.recv().await;
        assert_eq!(
            (&cancelled["method"], &cancelled["params"]["requestId"]),
            (&json!("notifications/cancelled"), &id),
            "{version}"
        );
        wait_until(|| client.pending() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_that_is_dropped_early_closes_the_client() {
    for version in [CORE, MODERN] {
        let (client, mut peer) = with_tasks(builder().tasks(), version).await;
        let call = start(client.call_tool("t", ()));
        becomes_a_task(&mut peer, version).await;
        peer.expect("tasks/get").await;
        // The server does not answer `tasks/cancel`.
        tokio::time::timeout(Duration::from_millis(10), client.close()).await.unwrap_err();
        client.close().await;
        assert_eq!(client.state(), mcp_client::State::Closed, "{version}");
        assert!(call.await.unwrap().unwrap_err().is_closed(), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_the_client_cancels_the_tasks_that_its_calls_wait_for() {
    for version in [CORE, MODERN] {
        let (client, mut peer) = with_tasks(builder().tasks(), version).await;
        let call = start(client.call_tool("t", ()));
        becomes_a_task(&mut peer, version).await;
        peer.expect("tasks/get").await;
        let closing = tokio::spawn(async move { client.close().await });
        let cancelled = peer.recv().await;
        assert_eq!(
            (&cancelled["method"], &cancelled["params"]["taskId"]),
            (&json!("tasks/cancel"), &json!("t1")),
            "{version}"
        );
        peer.answer(cancelled["id"].clone(), core("cancelled")).await;
        assert!(call.await.unwrap().unwrap_err().is_closed(), "{version}");
        closing.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn does_not_cancel_a_finished_task() {
    for version in [CORE, MODERN] {
        for status in ["completed", "failed", "cancelled"] {
            let (client, mut peer) = with_tasks(builder().tasks(), version).await;
            let call = start(client.call_tool("t", ()));
            becomes_a_task(&mut peer, version).await;
            let look = peer.expect("tasks/get").await;
            let error = json!({ "code": -32603, "message": "no" });
            if version.has_core_tasks() {
                peer.answer(look, core(status)).await;
                let result = peer.expect("tasks/result").await;
                match status {
                    "completed" => peer.answer(result, tool_result("done")).await,
                    _ => peer.refuse(result, error).await,
                }
            } else {
                peer.answer(look, detailed(status, json!({ "result": tool_result("done"), "error": error }))).await;
            }
            assert_eq!(call.await.unwrap().is_ok(), status == "completed", "{version}");
            let listed = start(client.list_prompts());
            peer.expect("prompts/list").await;
            drop(listed);
        }
    }
}
