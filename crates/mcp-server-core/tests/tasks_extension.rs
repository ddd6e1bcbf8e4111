//! Tasks of the extension `io.modelcontextprotocol/tasks`: the server decides, and `tasks/get` contains the result.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_protocol::{Principal, ProtocolVersion};
use mcp_server_core::{TaskPolicy, TaskSupport, tool};
use mcp_store::MemoryStore;
use serde_json::{Value, json};

use crate::{
    common::event,
    json_client::{Client, code_and_text, refused, request_with_scope},
    tasks_fixture::{Jobs, QUICK, call, declared, made, make, of, wait_for},
};

/// The result without its metadata.
fn ack() -> Value {
    json!({ "resultType": "complete" })
}

fn bare(mut result: Value) -> Value {
    result.as_object_mut().unwrap().remove("_meta");
    result
}

#[tokio::test(start_paused = true)]
async fn a_quick_call_returns_its_result_and_a_slow_one_becomes_a_task() {
    let jobs = Jobs::new();
    let mut client = jobs.modern().await;
    for (tool, text) in [("quick", "quick"), ("plain", "plain")] {
        let result = client.result("tools/call", json!({ "name": tool, "task": { "ttl": 5 } })).await;
        assert_eq!((&result["resultType"], &result["content"][0]["text"]), (&json!("complete"), &json!(text)));
        assert!(result.get("taskId").is_none() && result.get("task").is_none());
    }
    let start = tokio::time::Instant::now();
    let created = client.result("tools/call", call("gated")).await;
    assert_eq!(start.elapsed(), QUICK);
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
    assert_eq!((&created["ttlMs"], &created["pollIntervalMs"]), (&json!(300_000), &json!(1000)));
    for absent in ["task", "ttl", "pollInterval", "result", "error", "inputRequests", "requestState"] {
        assert!(created.get(absent).is_none(), "{created}");
    }
    let id = &created["taskId"];
    let working = client.result("tasks/get", of(id)).await;
    assert_eq!((&working["resultType"], &working["statusMessage"]), (&json!("complete"), &json!("waiting")));
    jobs.gate.add_permits(1);
    let done = wait_for(&mut client, id, "completed").await;
    let result = json!({ "content": [{ "type": "text", "text": "through" }], "resultType": "complete" });
    assert_eq!(done["result"], result);

    // A required task is a task, even if the call is quick.
    let id = made(&mut client, "must").await;
    assert_eq!(wait_for(&mut client, &id, "completed").await["result"]["content"][0]["text"], "must");
}

#[tokio::test]
async fn clients_without_the_extension_get_no_tasks() {
    let jobs = Jobs::new();
    let legacy_only = json!({ "tasks": { "requests": { "tools": { "call": {} } } } });
    for capabilities in [json!({}), legacy_only, json!({ "extensions": { "com.example/other": {} } })] {
        let mut client = Client::connect_with(&jobs.server, ProtocolVersion::LATEST, capabilities).await;
        assert_eq!(client.result("tools/call", call("quick")).await["content"][0]["text"], "quick");
        jobs.gate.add_permits(1);
        assert_eq!(client.result("tools/call", call("gated")).await["content"][0]["text"], "through");
        let required = json!({ "requiredCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } } });
        for (method, params) in [
            ("tools/call", call("must")),
            ("tasks/get", json!({})),
            ("tasks/update", json!({ "taskId": 7 })),
            ("tasks/cancel", json!({ "taskId": "t" })),
        ] {
            let error = client.error(method, params).await;
            assert_eq!((&error["code"], &error["data"]), (&json!(-32021), &required), "{method}");
        }
    }
    // A call without a client requires no capability.
    assert_eq!(jobs.server.call_tool("must", json!({})).await.unwrap().content[0].as_text(), Some("must"));
}

#[tokio::test]
async fn the_methods_of_the_older_revision_are_unknown() {
    let jobs = Jobs::new();
    let mut client = jobs.modern().await;
    for method in ["tasks/result", "tasks/list"] {
        assert_eq!(client.error(method, json!({ "taskId": "t" })).await["code"], -32601, "{method}");
    }
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let error = client.error(method, json!({ "taskId": "t", "inputResponses": {} })).await;
        assert_eq!(code_and_text(&error), (-32602, "Task not found"), "{method}");
    }
    assert_eq!(client.error("tasks/update", json!({ "taskId": "t" })).await["code"], -32602);
}

#[tokio::test]
async fn only_a_json_rpc_error_fails_a_task() {
    let jobs = Jobs::new();
    let mut client = jobs.modern().await;
    let id = made(&mut client, "fails").await;
    let failed = wait_for(&mut client, &id, "completed").await;
    assert_eq!((&failed["result"]["isError"], failed.get("error")), (&json!(true), None));
    let id = made(&mut client, "breaks").await;
    let broken = wait_for(&mut client, &id, "failed").await;
    assert_eq!(broken["error"], json!({ "code": -32603, "message": "it broke", "data": { "part": 7 } }));
    assert!(broken.get("result").is_none());
}

#[tokio::test]
async fn a_cancellation_notifies_the_handler_without_dropping_it() {
    let mut jobs = Jobs::new();
    let mut client = jobs.modern().await;
    let id = made(&mut client, "hold").await;
    assert_eq!(event(&mut jobs.seen).await, "entered");
    for _ in 0..2 {
        assert_eq!(bare(client.result("tasks/cancel", of(&id)).await), ack());
        let cancelled = client.result("tasks/get", of(&id)).await;
        assert_eq!(cancelled["status"], "cancelled");
        assert!(cancelled.get("result").is_none() && cancelled.get("error").is_none());
    }
    let mut events = [event(&mut jobs.seen).await, event(&mut jobs.seen).await];
    events.sort_unstable();
    assert_eq!(events, ["dropped", "fired"]);
    let id = made(&mut client, "fails").await;
    wait_for(&mut client, &id, "completed").await;
    assert_eq!(bare(client.result("tasks/cancel", of(&id)).await), ack());
    assert_eq!(client.result("tasks/get", of(&id)).await["status"], "completed");
}

fn update(id: &Value, answers: Value) -> Value {
    json!({ "taskId": id, "inputResponses": answers })
}

fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

#[tokio::test]
async fn accepts_answers_one_by_one_while_the_handler_waits() {
    let jobs = Jobs::new();
    let mut client = jobs.modern().await;
    let id = made(&mut client, "asks_two").await;
    let waiting = wait_for(&mut client, &id, "input_required").await;
    let keys = |task: &Value| task["inputRequests"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&waiting), ["age", "name"]);
    assert_eq!(waiting["inputRequests"]["name"]["method"], "elicitation/create");
    assert_eq!(waiting["inputRequests"]["name"]["params"]["message"], "Name?");

    let unknown = update(&id, json!({ "other": accept(json!({})) }));
    assert_eq!(bare(client.result("tasks/update", unknown).await), ack());
    assert_eq!(keys(&client.result("tasks/get", of(&id)).await), ["age", "name"]);
    let first = update(&id, json!({ "name": accept(json!({ "name": "Ada" })) }));
    assert_eq!(bare(client.result("tasks/update", first.clone()).await), ack());
    let rest = client.result("tasks/get", of(&id)).await;
    assert_eq!((&rest["status"], keys(&rest)), (&json!("input_required"), vec!["age".to_owned()]));

    // The server repeats a rejected input request with a new key.
    client.result("tasks/update", update(&id, json!({ "age": accept(json!({ "age": "old" })) }))).await;
    let again = wait_for(&mut client, &id, "input_required").await;
    assert_eq!(keys(&again), ["age#2"]);
    client.result("tasks/update", first).await;
    client.result("tasks/update", update(&id, json!({ "age": accept(json!({ "age": 1 })) }))).await;
    assert_eq!(keys(&client.result("tasks/get", of(&id)).await), ["age#2"]);
    client.result("tasks/update", update(&id, json!({ "age#2": accept(json!({ "age": 36 })) }))).await;
    let done = wait_for(&mut client, &id, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "Ada is 36");
    assert!(done.get("inputRequests").is_none());
    assert_eq!(bare(client.result("tasks/update", update(&id, json!({}))).await), ack());
}

#[tokio::test]
async fn a_declined_or_timed_out_input_request_fails_in_the_handler() {
    let jobs = Jobs::new();
    let mut client = jobs.modern().await;
    let id = made(&mut client, "asks").await;
    wait_for(&mut client, &id, "input_required").await;
    client.result("tasks/update", update(&id, json!({ "name": { "action": "decline" } }))).await;
    let declined = wait_for(&mut client, &id, "completed").await;
    assert_eq!(declined["result"]["content"][0]["text"], "the user declined");
    let id = made(&mut client, "asks").await;
    wait_for(&mut client, &id, "input_required").await;
    client.result("tasks/cancel", of(&id)).await;
    let cancelled = client.result("tasks/get", of(&id)).await;
    assert_eq!((&cancelled["status"], cancelled.get("inputRequests")), (&json!("cancelled"), None));
}

#[tokio::test]
async fn settles_input_requests_before_the_task_is_created() {
    let jobs = Jobs::new();
    let mut client = jobs.modern().await;
    let waiting = client.result("tools/call", call("asks_first")).await;
    assert_eq!(waiting["resultType"], "input_required");
    assert!(waiting.get("taskId").is_none());
    let mut params = call("asks_first");
    params["inputResponses"] = json!({ "name": accept(json!({ "name": "Ada" })) });
    params["requestState"] = waiting["requestState"].clone();
    let created = client.result("tools/call", params.clone()).await;
    assert_eq!((&created["resultType"], created.get("requestState")), (&json!("task"), None));
    let done = wait_for(&mut client, &created["taskId"], "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "Ada true");

    let mut other = Client::connect_with(&jobs.server, ProtocolVersion::LATEST, json!({ "elicitation": {} })).await;
    assert_eq!(other.result("tools/call", params).await["content"][0]["text"], "Ada false");
}

#[tokio::test(start_paused = true)]
async fn a_task_sends_no_messages_of_its_own() {
    let jobs = Jobs::new();
    let mut client = jobs.modern().await;
    client.meta = json!({ "progressToken": "p", "io.modelcontextprotocol/logLevel": "debug" });
    let id = made(&mut client, "gated").await;
    let before = client.notifications.len();
    assert_eq!(before, 1, "progress before the call is a task");
    jobs.gate.add_permits(1);
    wait_for(&mut client, &id, "completed").await;
    assert_eq!(client.notifications.len(), before, "{:?}", client.notifications);
}

#[tokio::test]
async fn a_task_belongs_to_its_caller_and_requires_the_scopes_of_its_tool() {
    let jobs = Jobs::with(|builder| {
        let route = tool("guarded", async || "guarded").task(TaskSupport::Required);
        builder.tool(route.task_policy(TaskPolicy::Immediately).requires_scopes(["jobs"]))
    });
    let request = async |method: &str, mut params: Value, caller: Option<Principal>| {
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared();
        request_with_scope(&jobs.server, method, params, |scope| scope.principal(caller.map(Arc::new))).await
    };
    let ada = || Some(Principal::new("ada").with_scopes(["jobs"]));
    let created = request("tools/call", call("guarded"), ada()).await.unwrap();
    let id = &created["result"]["taskId"];
    let bob = Some(Principal::new("bob").with_scopes(["jobs"]));
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        for other in [bob.clone(), Some(Principal::new("local").with_scopes(["jobs"])), None] {
            let answer = request(method, update(id, json!({})), other).await.unwrap();
            assert_eq!(code_and_text(&answer["error"]), (-32602, "Task not found"), "{method}");
        }
        let poor = request(method, update(id, json!({})), Some(Principal::new("ada"))).await.unwrap();
        assert_eq!(poor["error"]["data"]["requiredScopes"], json!(["jobs"]), "{method}");
        let answer = request(method, update(id, json!({})), ada()).await.unwrap();
        assert!(answer.get("error").is_none(), "{method}: {answer}");
    }
    assert!(refused(request("tasks/get", json!({}), ada()).await.unwrap_err()).code.to_string() == "-32602");
}

#[tokio::test(start_paused = true)]
async fn limits_the_tasks_of_a_caller_until_they_expire() {
    let mut jobs = Jobs::with(|builder| builder.limits(|limits| limits.tasks.per_principal = 2));
    let mut client = jobs.modern().await;
    for _ in 0..2 {
        made(&mut client, "hold").await;
        assert_eq!(event(&mut jobs.seen).await, "entered");
    }
    let refused = client.error("tools/call", call("must")).await;
    assert!(code_and_text(&refused).1.starts_with("too many tasks"), "{refused}");
    // A tool that need not be a task is called as ever.
    jobs.gate.add_permits(1);
    assert_eq!(client.result("tools/call", call("gated")).await["content"][0]["text"], "through");
    assert_eq!(client.result("tools/call", call("fails")).await["isError"], true);
    // No other caller interferes.
    let mut params = call("must");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared();
    let ada = Arc::new(Principal::new("ada"));
    let other =
        request_with_scope(&jobs.server, "tools/call", params, |scope| scope.principal(Some(ada))).await.unwrap();
    assert_eq!(other["result"]["resultType"], "task");
    tokio::time::sleep(Duration::from_secs(301)).await;
    made(&mut client, "must").await;
}

#[tokio::test]
async fn task_records_outlive_the_node_that_created_them() {
    let store = Arc::new(MemoryStore::new());
    let mut first = Jobs::with(|builder| builder.store(store.clone()));
    let second = Jobs::with(|builder| builder.store(store.clone()));
    let (mut here, mut there) = (first.modern().await, second.modern().await);
    let done = made(&mut here, "fails").await;
    let expected = wait_for(&mut here, &done, "completed").await;
    assert_eq!(there.result("tasks/get", of(&done)).await, expected);
    let id = made(&mut here, "hold").await;
    assert_eq!(event(&mut first.seen).await, "entered");
    assert_eq!(there.result("tasks/get", of(&id)).await["status"], "working");
    drop((here, first));
    assert_eq!(there.result("tasks/get", of(&id)).await["status"], "working");
    assert_eq!(bare(there.result("tasks/cancel", of(&id)).await), ack());
    assert_eq!(there.result("tasks/get", of(&id)).await["status"], "cancelled");
    // The other revision sees the same tasks.
    let mut legacy = second.legacy().await;
    let result = legacy.result("tasks/result", of(&done)).await;
    assert_eq!((&result["isError"], result.get("resultType")), (&json!(true), None));
    assert_eq!(legacy.result("tasks/get", of(&done)).await["status"], "failed");
    assert_eq!(legacy.result("tasks/list", json!({})).await["tasks"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_cancellation_on_another_node_reaches_the_handler() {
    let store = Arc::new(MemoryStore::new());
    let mut first = Jobs::with(|builder| builder.store(store.clone()));
    let second = Jobs::with(|builder| builder.store(store.clone()));
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::LATEST] {
        let mut here = Client::connect_with(&first.server, version, declared()).await;
        let mut there = Client::connect_with(&second.server, version, declared()).await;
        let id = match version.has_core_tasks() {
            true => make(&mut here, "hold").await,
            false => made(&mut here, "hold").await,
        };
        assert_eq!(event(&mut first.seen).await, "entered");
        there.result("tasks/cancel", of(&id)).await;
        let ended = async { [event(&mut first.seen).await, event(&mut first.seen).await] };
        let mut events = tokio::time::timeout(Duration::from_secs(30), ended).await.expect("the handler did not end");
        events.sort_unstable();
        assert_eq!(events, ["dropped", "fired"], "{version}");
        for client in [&mut here, &mut there] {
            wait_for(client, &id, "cancelled").await;
        }
    }
}
