//! Tasks of 2025-11-25: the client requests a task, waits for its result, and lists and cancels tasks.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_protocol::ProtocolVersion;
use mcp_server_core::{Server, TaskPolicy, TaskSupport, tool};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    common::event,
    json_client::{Client, code_and_text, names},
    tasks_fixture::{Jobs, as_task, call, declared, made, make, of, wait_for, without},
};

const RELATED: &str = "io.modelcontextprotocol/related-task";

#[tokio::test]
async fn each_revision_declares_tasks_in_its_own_form() {
    let jobs = Jobs::new();
    let tasks = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&jobs.server, version).await;
        let capabilities = client.opening["capabilities"].clone();
        let (core, extension) = (version.has_core_tasks(), version.has_extensions());
        assert_eq!(capabilities.get("tasks"), core.then_some(&tasks), "{version}");
        let declared = capabilities["extensions"].get("io.modelcontextprotocol/tasks");
        assert_eq!(declared, extension.then_some(&json!({})), "{version}");
        for tool in client.list("tools/list", "tools").await {
            let support = match tool["name"].as_str().unwrap() {
                "plain" => Value::Null,
                "must" => "required".into(),
                _ => "optional".into(),
            };
            assert_eq!(tool["execution"]["taskSupport"], if core { support } else { Value::Null }, "{version} {tool}");
        }
    }
}

#[tokio::test]
async fn a_server_without_tasks_ignores_them() {
    let server = Server::builder("plain", "1").tool(tool("plain", async || "plain")).build();
    let mut client = Client::connect(&server, ProtocolVersion::V2025_11_25).await;
    assert!(client.opening["capabilities"].get("tasks").is_none());
    let result = client.result("tools/call", as_task("plain")).await;
    assert_eq!(result["content"][0]["text"], "plain");
    for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"] {
        assert_eq!(client.error(method, json!({ "taskId": "t" })).await["code"], -32601, "{method}");
    }
}

#[tokio::test]
async fn a_task_remains_reachable_after_its_tool_is_removed() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::LATEST] {
        let gate = Arc::new(Semaphore::new(0));
        let permits = gate.clone();
        let slow = move || {
            let permits = permits.clone();
            async move {
                permits.acquire().await.unwrap().forget();
                "through"
            }
        };
        let server = Server::builder("one", "1")
            .task_policy(TaskPolicy::Immediately)
            .tool(tool("slow", slow).task(TaskSupport::Optional))
            .build();
        let mut client = Client::connect_with(&server, version, declared()).await;
        let id = match version.has_core_tasks() {
            true => make(&mut client, "slow").await,
            false => made(&mut client, "slow").await,
        };
        // No tool supports tasks.
        assert!(server.tools().remove("slow"));
        assert_eq!(client.result("tasks/get", of(&id)).await["status"], "working", "{version}");
        gate.add_permits(1);
        wait_for(&mut client, &id, "completed").await;
        client.request("tasks/cancel", of(&id)).await;
        assert_eq!(client.result("tasks/get", of(&id)).await["status"], "completed", "{version}");
    }
}

#[tokio::test]
async fn runs_a_tool_as_a_task_if_allowed_or_required() {
    let jobs = Jobs::new();
    for version in ProtocolVersion::ALL.iter().copied().filter(|version| version.has_handshake()) {
        let core = version.has_core_tasks();
        let mut client = Client::connect(&jobs.server, version).await;
        for (params, expected) in [
            (call("plain"), "plain"),
            (as_task("plain"), if core { "-32601" } else { "plain" }),
            (call("quick"), "quick"),
            (as_task("quick"), if core { "task" } else { "quick" }),
            (call("must"), if core { "-32601" } else { "must" }),
            (as_task("must"), if core { "task" } else { "must" }),
            (json!({ "name": "quick", "task": { "ttl": -1 } }), if core { "-32602" } else { "quick" }),
            (json!({ "name": "quick", "task": "yes" }), if core { "-32602" } else { "quick" }),
        ] {
            let response = client.request("tools/call", params.clone()).await;
            let got = match (&response["error"]["code"], &response["result"]["task"]) {
                (Value::Number(code), _) => code.to_string(),
                (_, Value::Object(_)) => "task".into(),
                _ => response["result"]["content"][0]["text"].as_str().unwrap().to_owned(),
            };
            assert_eq!(got, expected, "{version} {params}: {response}");
        }
    }
}

#[tokio::test]
async fn the_result_request_waits_for_the_end_while_others_are_served() {
    let jobs = Jobs::new();
    let mut client = jobs.legacy().await;
    let created = client.result("tools/call", as_task("gated")).await;
    let task = &created["task"];
    assert_eq!(created.as_object().unwrap().len(), 1, "{created}");
    assert_eq!(
        (&task["status"], &task["ttl"], &task["pollInterval"]),
        (&json!("working"), &json!(60_000), &json!(1000))
    );
    assert_eq!(task["createdAt"], task["lastUpdatedAt"]);
    let id = task["taskId"].clone();
    assert!(id.as_str().unwrap().len() >= 32);

    let waiting = client.start("tasks/result", of(&id)).await;
    client.result("ping", json!({})).await;
    let working = client.result("tasks/get", of(&id)).await;
    assert_eq!((&working["status"], &working["statusMessage"]), (&json!("working"), &json!("waiting")));
    assert!(working.get("_meta").is_none());

    jobs.gate.add_permits(1);
    let expected = json!({
        "content": [{ "type": "text", "text": "through" }], "_meta": { RELATED: { "taskId": id } }
    });
    assert_eq!(client.response(waiting).await["result"], expected);
    assert_eq!(client.result("tasks/result", of(&id)).await, expected);
    let done = client.result("tasks/get", of(&id)).await;
    let moving = ["status", "lastUpdatedAt", "statusMessage"];
    assert_eq!(
        (&done["status"], without(done.clone(), &moving)),
        (&json!("completed"), without(task.clone(), &moving))
    );
}

#[tokio::test]
async fn a_failed_task_returns_the_result_of_the_call() {
    let jobs = Jobs::new();
    let mut client = jobs.legacy().await;
    let failed = make(&mut client, "fails").await;
    let result = client.result("tasks/result", of(&failed)).await;
    assert_eq!((&result["isError"], &result["content"][0]["text"]), (&json!(true), &json!("it failed")));
    assert_eq!(result["_meta"][RELATED]["taskId"], failed);
    let broken = make(&mut client, "breaks").await;
    let error = client.error("tasks/result", of(&broken)).await;
    assert_eq!(error, json!({ "code": -32603, "message": "it broke", "data": { "part": 7 } }));
    for id in [failed, broken] {
        assert_eq!(client.result("tasks/get", of(&id)).await["status"], "failed");
    }
}

#[tokio::test]
async fn cancelling_reaches_the_handler_before_the_response() {
    let mut jobs = Jobs::new();
    let mut client = jobs.legacy().await;
    let id = make(&mut client, "hold").await;
    assert_eq!(event(&mut jobs.seen).await, "entered");
    let waiting = client.start("tasks/result", of(&id)).await;
    let cancel = client.start("tasks/cancel", of(&id)).await;
    let mut first = client.response(cancel.min(waiting)).await;
    let mut second = match client.notifications.iter().position(|message| message["id"] == cancel) {
        Some(at) => client.notifications.remove(at),
        None => client.response(cancel).await,
    };
    if first["id"] == cancel {
        std::mem::swap(&mut first, &mut second);
    }
    assert_eq!(code_and_text(&first["error"]), (-32602, "Task cancelled"));
    assert_eq!((&second["result"]["status"], &second["result"]["taskId"]), (&json!("cancelled"), &id));
    let mut events = [event(&mut jobs.seen).await, event(&mut jobs.seen).await];
    events.sort_unstable();
    assert_eq!(events, ["dropped", "fired"]);
    assert_eq!(client.error("tasks/cancel", of(&id)).await["code"], -32602);
    assert_eq!(client.result("tasks/get", of(&id)).await["status"], "cancelled");

    let done = make(&mut client, "quick").await;
    client.result("tasks/result", of(&done)).await;
    assert_eq!(client.error("tasks/cancel", of(&done)).await["code"], -32602);
    assert_eq!(client.result("tasks/get", of(&done)).await["status"], "completed");
}

#[tokio::test]
async fn cancelling_the_request_does_not_cancel_the_task() {
    let mut jobs = Jobs::new();
    let mut client = jobs.legacy().await;
    let call = client.start("tools/call", as_task("hold")).await;
    let id = client.response(call).await["result"]["task"]["taskId"].clone();
    assert_eq!(event(&mut jobs.seen).await, "entered");
    for request in [call, client.start("tasks/result", of(&id)).await] {
        let params = json!({ "requestId": request });
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    }
    assert_eq!(client.result("tasks/get", of(&id)).await["status"], "working");
    assert!(jobs.seen.is_empty());
}

#[tokio::test]
async fn lists_fifty_tasks_per_page_oldest_first() {
    let jobs = Jobs::new();
    let mut client = jobs.legacy().await;
    let mut made = Vec::new();
    for _ in 0..60 {
        made.push(make(&mut client, "quick").await.as_str().unwrap().to_owned());
    }
    let first = client.result("tasks/list", json!({})).await;
    assert_eq!(first["tasks"].as_array().unwrap().len(), 50);
    let listed = client.list("tasks/list", "tasks").await;
    assert_eq!(names(&listed, "taskId"), made);
    let got = client.result("tasks/get", of(&json!(made[0]))).await;
    assert_eq!(without(listed[0].clone(), &["status"]), without(got, &["status"]));
    for cursor in ["x", "", "dGFza18", &"A".repeat(5000)] {
        assert_eq!(client.error("tasks/list", json!({ "cursor": cursor })).await["code"], -32602, "{cursor}");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_expire_after_their_ttl_and_unknown_ids_get_the_same_error() {
    let mut jobs = Jobs::new();
    let mut client = jobs.legacy().await;
    for (requested, ttl) in [(json!({}), 300_000), (json!({ "ttl": 1000 }), 1000), (json!({ "ttl": 1e12 }), 3_600_000)]
    {
        let task = client.result("tools/call", json!({ "name": "hold", "task": requested })).await["task"].clone();
        assert_eq!(task["ttl"], ttl);
        assert_eq!(event(&mut jobs.seen).await, "entered");
        let id = &task["taskId"];
        tokio::time::advance(Duration::from_millis(ttl - 10)).await;
        assert_eq!(client.result("tasks/get", of(id)).await["status"], "working");
        tokio::time::advance(Duration::from_millis(20)).await;
        let unknown = client.error("tasks/get", of(id)).await;
        assert_eq!(code_and_text(&unknown), (-32602, "Task not found"));
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            let long = json!("x".repeat(10_000));
            for id in [id, &json!(""), &json!("task_0"), &json!("../x"), &long] {
                assert_eq!(client.error(method, of(id)).await, unknown, "{method} {id}");
            }
        }
        let mut events = [event(&mut jobs.seen).await, event(&mut jobs.seen).await];
        events.sort_unstable();
        assert_eq!(events, ["dropped", "fired"]);
    }
    assert_eq!(client.result("tasks/list", json!({})).await["tasks"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_task_may_exceed_the_timeout_of_a_call() {
    let jobs = Jobs::new();
    let mut client = jobs.legacy().await;
    let id = make(&mut client, "gated").await;
    tokio::time::sleep(Duration::from_secs(59)).await;
    let plain = client.start("tools/call", call("gated")).await;
    let waiting = client.start("tasks/result", json!({ "taskId": id })).await;
    // A call and the first task have a time limit of one minute. The second task has the limit of tasks.
    let later = client.result("tools/call", json!({ "name": "gated", "task": {} })).await["task"]["taskId"].clone();
    let response = client.response(waiting).await;
    assert_eq!(code_and_text(&response["error"]), (-32602, "Task not found"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let response = client.response(plain).await;
    assert_eq!(response["result"]["isError"], true, "{response}");
    tokio::time::sleep(Duration::from_secs(120)).await;
    jobs.gate.add_permits(1);
    assert_eq!(client.result("tasks/result", of(&later)).await["content"][0]["text"], "through");
}

#[tokio::test]
async fn sends_an_input_request_of_a_task_through_the_session() {
    let jobs = Jobs::new();
    let mut client = jobs.legacy().await;
    let id = make(&mut client, "asks").await;
    let question = client.notification("elicitation/create").await;
    assert_eq!(question["params"]["message"], "Name?");
    assert_eq!(question["params"]["_meta"][RELATED]["taskId"], id);
    assert_eq!(client.result("tasks/get", of(&id)).await["status"], "input_required");
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
    let result = client.result("tasks/result", of(&id)).await;
    assert_eq!(result["content"][0]["text"], "Hello, Ada!");
    let mut statuses = Vec::new();
    while statuses.last() != Some(&json!("completed")) {
        let status = client.notification("notifications/tasks/status").await["params"].clone();
        assert_eq!(status["taskId"], id);
        assert!(status.get("_meta").is_none() && status["createdAt"].is_string(), "{status}");
        statuses.push(status["status"].clone());
    }
    assert_eq!(statuses, ["input_required", "working", "completed"]);
}

#[tokio::test]
async fn sends_an_input_request_to_the_session_that_replaced_the_first_one() {
    let jobs = Jobs::new();
    let mut client = jobs.legacy().await;
    let id = make(&mut client, "asks").await;
    let lost = client.notification("elicitation/create").await;
    let info = json!({ "name": "kit", "version": "2" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} }, "clientInfo": info });
    client.result("initialize", params).await;
    let waiting = client.start("tasks/result", of(&id)).await;
    let question = client.notification("elicitation/create").await;
    assert_ne!(question["id"], lost["id"]);
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
    assert_eq!(client.response(waiting).await["result"]["content"][0]["text"], "Hello, Ada!");
}

#[tokio::test]
async fn progress_continues_after_the_response_and_carries_the_task_id() {
    let jobs = Jobs::new();
    let mut client = jobs.legacy().await;
    let mut params = as_task("gated");
    params["_meta"] = json!({ "progressToken": "p" });
    let id = client.result("tools/call", params).await["task"]["taskId"].clone();
    wait_for(&mut client, &id, "working").await;
    jobs.gate.add_permits(1);
    for progress in [1, 2] {
        let params = client.notification("notifications/progress").await["params"].clone();
        assert_eq!((&params["progress"], &params["progressToken"]), (&json!(progress), &json!("p")));
        assert_eq!(params["_meta"][RELATED]["taskId"], id);
    }
}
