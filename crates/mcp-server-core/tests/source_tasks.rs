//! Sources whose calls become tasks: the checks of the server, and the requests about tasks.

use mcp_protocol::{Principal, ProtocolVersion, RpcError};
use mcp_server_core::{
    Server,
    source::{
        Source, SourceCall, SourceDefinition, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult,
    },
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};

use crate::json_client::Client;

const V18: ProtocolVersion = ProtocolVersion::V2025_06_18;
const V25: ProtocolVersion = ProtocolVersion::V2025_11_25;
const LATEST: ProtocolVersion = ProtocolVersion::LATEST;

type Answer = BoxFuture<'static, Result<SourceResult, RpcError>>;

/// A source with a tool for each task support. The tool `pushy` returns a task also to callers that accept none, and `wrong`
/// returns a task in another form.
struct Jobs(SourceFeatures);

fn task(version: ProtocolVersion) -> Value {
    let task = json!({ "taskId": "t", "status": "working", "createdAt": "a", "lastUpdatedAt": "b", "vendor": 1 });
    match version.has_extensions() {
        true => {
            let mut task = task;
            task["resultType"] = "task".into();
            task
        }
        false => json!({ "task": task }),
    }
}

impl Source for Jobs {
    fn features(&self) -> SourceFeatures {
        self.0
    }

    fn find(&self, _list: SourceList, name: &str, _caller: Option<&Principal>) -> Option<SourceDefinition> {
        let support = match name {
            "plain" => json!({ "name": name, "inputSchema": {} }),
            "unknown" => return None,
            "must" => json!({ "name": name, "inputSchema": {}, "execution": { "taskSupport": "required" } }),
            _ => json!({ "name": name, "inputSchema": {}, "execution": { "taskSupport": "optional" } }),
        };
        SourceDefinition::of(&support).ok()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        Box::pin(std::future::ready(Ok(SourcePage::new([]))))
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let version = call.context().version();
        let outcome = if call.name() == "wrong" {
            SourceOutcome::Task(SourceResult::new(r#"{"content":[]}"#, version))
        } else if call.accepts_task() || call.name() == "pushy" {
            SourceOutcome::Task(SourceResult::new(task(version).to_string(), version))
        } else {
            SourceOutcome::Complete(SourceResult::new(r#"{"content":[]}"#, V25))
        };
        Box::pin(std::future::ready(Ok(outcome)))
    }

    fn get_task(&self, call: SourceCall) -> Answer {
        answer(&call)
    }

    fn task_result(&self, call: SourceCall) -> Answer {
        let json = r#"{"resultType":"complete","content":[],"structuredContent":[1]}"#;
        assert_eq!(call.name(), "t");
        Box::pin(std::future::ready(Ok(SourceResult::new(json, LATEST))))
    }

    fn list_tasks(&self, call: SourceCall) -> Answer {
        answer(&call)
    }

    fn cancel_task(&self, call: SourceCall) -> Answer {
        answer(&call)
    }

    fn update_task(&self, call: SourceCall) -> Answer {
        answer(&call)
    }
}

/// Returns the method, the name and the cursor.
fn answer(call: &SourceCall) -> Answer {
    let json = json!({ "method": call.method(), "id": call.name(), "cursor": call.cursor() });
    Box::pin(std::future::ready(Ok(SourceResult::new(json.to_string(), V25))))
}

fn server(features: SourceFeatures) -> Server {
    Server::builder::<()>("jobs", "1").source(Jobs(features)).build()
}

const WITH_TASKS: SourceFeatures = SourceFeatures::NONE.with_tools().with_tasks();

async fn connect(server: &Server, version: ProtocolVersion, declares: bool) -> Client {
    let extension = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    Client::connect_with(server, version, if declares { extension } else { json!({}) }).await
}

#[tokio::test]
async fn a_call_becomes_a_task_only_for_a_caller_that_accepts_it() {
    let server = server(WITH_TASKS);
    let with = json!({ "ttl": 5 });
    for (version, declares, tool, task, expected) in [
        (V25, false, "may", Some(&with), "task"),
        (V25, false, "may", None, "result"),
        (V25, false, "must", Some(&with), "task"),
        (V25, false, "must", None, "-32601"),
        (V25, false, "plain", Some(&with), "-32601"),
        (V25, false, "unknown", Some(&with), "task"),
        (V25, false, "may", Some(&json!(7)), "-32602"),
        (V25, false, "pushy", None, "-32603"),
        (V25, false, "wrong", Some(&with), "-32603"),
        (LATEST, true, "may", None, "task"),
        (LATEST, true, "must", None, "task"),
        (LATEST, true, "plain", None, "result"),
        (LATEST, true, "unknown", None, "task"),
        (LATEST, true, "wrong", None, "-32603"),
        (LATEST, false, "may", Some(&with), "result"),
        (LATEST, false, "must", None, "-32021"),
        (LATEST, false, "pushy", None, "-32603"),
        (V18, true, "must", Some(&with), "result"),
    ] {
        let mut client = connect(&server, version, declares).await;
        let mut params = json!({ "name": tool });
        if let Some(task) = task {
            params["task"] = task.clone();
        }
        let response = client.request("tools/call", params).await;
        let result = &response["result"];
        let created = if version.has_extensions() { result } else { &result["task"] };
        let seen = match response["error"]["code"].as_i64() {
            Some(code) => code.to_string(),
            None if created["vendor"] == 1 => "task".to_owned(),
            None => "result".to_owned(),
        };
        assert_eq!(seen, expected, "{version} {declares} {tool} {task:?}: {response}");
    }
    // A call without a client requires no capability.
    assert!(server.call_tool("must", json!({})).await.is_ok());
}

#[tokio::test]
async fn requests_about_tasks_reach_the_source() {
    let server = server(WITH_TASKS);
    for (version, methods) in [
        (V25, &["tasks/get", "tasks/list", "tasks/cancel"][..]),
        (LATEST, &["tasks/get", "tasks/cancel", "tasks/update"]),
    ] {
        let mut client = connect(&server, version, true).await;
        let capabilities = &client.opening["capabilities"];
        let declared = match version.has_extensions() {
            true => &capabilities["extensions"]["io.modelcontextprotocol/tasks"],
            false => &capabilities["tasks"]["list"],
        };
        assert_eq!(declared, &json!({}), "{version}");
        for method in methods {
            let params = json!({ "taskId": "t", "inputResponses": {}, "cursor": "c" });
            let result = client.result(method, params).await;
            assert_eq!(result["method"], *method);
            let (id, cursor) = if *method == "tasks/list" { ("", json!("c")) } else { ("t", Value::Null) };
            assert_eq!((&result["id"], &result["cursor"]), (&json!(id), &cursor), "{version} {method}");
            assert_eq!(result.get("resultType").is_some(), version.has_result_type());
        }
        let error = client.error("tasks/get", json!({})).await;
        assert_eq!(error["code"], -32602, "{version}");
    }
    // The result has the form of 2025-11-25.
    let mut client = connect(&server, V25, false).await;
    let result = client.result("tasks/result", json!({ "taskId": "t" })).await;
    assert_eq!(result, json!({ "content": [{ "type": "text", "text": "[1]" }] }));
    let error = connect(&server, LATEST, false).await.error("tasks/get", json!({ "taskId": "t" })).await;
    assert_eq!(error["code"], -32021);
}

#[tokio::test]
async fn a_source_without_tasks_declares_none_and_ignores_the_parameter() {
    let server = server(SourceFeatures::NONE.with_tools());
    for version in [V25, LATEST] {
        let mut client = connect(&server, version, true).await;
        assert!(client.opening["capabilities"].get("tasks").is_none());
        assert!(client.opening["capabilities"].get("extensions").is_none());
        for tool in ["plain", "must"] {
            let result = client.result("tools/call", json!({ "name": tool, "task": 7 })).await;
            assert_eq!(result["content"], json!([]), "{version} {tool}");
        }
        let error = client.error("tasks/get", json!({ "taskId": "t" })).await;
        assert_eq!(error["code"], -32601, "{version}");
    }
}
