//! Calls whose created task is the outcome, and the questions of such a task.

use std::{sync::Arc, time::Duration};

use mcp_client::{
    Client, Handler, InputContext, Round,
    protocol::{
        ClientCapabilities, ElicitResult, ElicitationCapability, FormElicitParams, JsonObject, ProtocolVersion,
        RpcError, TaskSupport,
    },
    transport::BoxFuture,
};
use mcp_server::prelude::*;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::common::{builder, connected, start, tool_result};

const LEGACY: ProtocolVersion = ProtocolVersion::V2025_11_25;
const MODERN: ProtocolVersion = ProtocolVersion::V2026_07_28;
const SOON: Duration = Duration::from_secs(20);

fn created(version: ProtocolVersion) -> Value {
    let mut task = json!({ "taskId": "t", "status": "working", "createdAt": "a", "lastUpdatedAt": "b", "later": 1 });
    if version.has_extensions() {
        task["resultType"] = "task".into();
        return task;
    }
    json!({ "task": task })
}

#[tokio::test(start_paused = true)]
async fn a_created_task_is_the_outcome_of_a_call_that_accepts_it() {
    for version in [LEGACY, MODERN] {
        for accepts in [true, false] {
            let (client, mut peer, _peers) = connected(version).await;
            let params = json!({ "name": "t", "task": { "ttl": 1, "later": 2 } });
            let call = client.request_raw("tools/call", params.clone()).raw_result().raw_inputs().raw_task(accepts);
            let call = start(call);
            let request = peer.recv().await;
            let meta = &request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            let declared = meta["extensions"].get("io.modelcontextprotocol/tasks").is_some();
            assert_eq!(declared, accepts && version.has_extensions(), "{version} {accepts}");
            let expected = if version.has_core_tasks() { &params["task"] } else { &Value::Null };
            assert_eq!(&request["params"]["task"], expected, "the caller decides about the parameter");
            let result = if accepts { created(version) } else { tool_result("done") };
            peer.answer(request["id"].clone(), result.clone()).await;
            let (is_task, bytes) = match call.await.unwrap().unwrap() {
                Round::Task(created) => (true, created.into_result().into_bytes()),
                Round::Complete(result) => (false, result.into_bytes()),
                Round::InputRequired(_) => panic!("the server asks for nothing"),
            };
            assert_eq!(is_task, accepts, "{version}");
            assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), result);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_required_task_passes_without_a_second_attempt() {
    let (client, mut peer, _peers) = connected(MODERN).await;
    let call = start(client.request_raw("tools/call", json!({ "name": "t" })).raw_inputs().raw_task(false));
    let request = peer.recv().await;
    let extension = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let error = json!({ "code": -32021, "message": "tasks", "data": { "requiredCapabilities": extension } });
    peer.refuse(request["id"].clone(), error).await;
    assert_eq!(call.await.unwrap().unwrap_err().rpc().unwrap().code.0, -32021);
}

/// Answers forms with the call that the question belongs to.
struct Named;

impl Handler for Named {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new().with_elicitation(ElicitationCapability::new())
    }

    fn elicit(&self, form: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        let call = form.call().map(|call| call.method().to_owned()).unwrap_or_default();
        Box::pin(async move { Ok(ElicitResult::accept(JsonObject::new().with("name", call))) })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

#[tokio::test]
async fn a_question_of_a_relayed_task_waits_for_the_request_for_its_result() {
    let ask = async |inputs: Inputs| Ok::<_, ToolError>(inputs.elicit::<Answer>("name", "Name?").await?.name);
    let server =
        Server::builder("s", "1").versions([LEGACY]).tool(tool("ask", ask).task(TaskSupport::Required)).build();
    let client: Client = builder().handler(Named).connect(&server).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let call = client.request_raw("tools/call", json!({ "name": "ask", "task": {} })).raw_inputs().raw_task(true);
        let Round::Task(created) = timeout(SOON, call.into_future()).await.unwrap().unwrap() else {
            panic!("the tool runs as a task")
        };
        let created: Value = serde_json::from_slice(created.result().bytes()).unwrap();
        ids.push(created["task"]["taskId"].clone());
    }
    let asked = async {
        for id in &ids {
            while client.request_raw("tasks/get", json!({ "taskId": id })).await.unwrap()["status"] != "input_required"
            {
                sleep(Duration::from_millis(5)).await;
            }
        }
    };
    timeout(SOON, asked).await.unwrap();
    for id in ids.iter().rev() {
        let result = client.request_raw("tasks/result", json!({ "taskId": id })).answers(Arc::new(Named));
        let result = timeout(SOON, result.into_future()).await.unwrap().unwrap();
        assert_eq!(result["content"][0]["text"], "tasks/result");
    }
}
