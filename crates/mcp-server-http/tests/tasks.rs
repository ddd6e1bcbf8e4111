//! Tasks over HTTP: headers that mirror the id, callers that cannot be told apart, questions on the stream of the result.

use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt;
use mcp_server_core::{Inputs, Server, TaskSupport, ToolError, tool};
use mcp_server_http::{HttpConfig, HttpServer, McpService};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::common::{legacy, legacy_as, open, request, send, stateless, within};

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

fn service() -> McpService {
    Server::builder("tasks", "1")
        .tool(tool("must", async || "must").task(TaskSupport::Required))
        .tool(
            tool("forever", async || {
                std::future::pending::<()>().await;
            })
            .long_running(),
        )
        .tool(
            tool("asks", async |inputs: Inputs| -> Result<String, ToolError> {
                let Name { name } = inputs.elicit("name", "Name?").await?;
                Ok(format!("Hello, {name}!"))
            })
            .long_running(),
        )
        .build()
        .into_service(HttpConfig::new())
}

fn declared(mut params: Value) -> Value {
    let capabilities = json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    params["_meta"] = json!({ "io.modelcontextprotocol/clientCapabilities": capabilities });
    params
}

#[tokio::test]
async fn the_header_repeats_the_id_of_the_task() {
    let service = service();
    let call = stateless("tools/call", declared(json!({ "name": "forever" })), &[]);
    let created = within("the task", send(&service, call)).await.json()["result"].clone();
    assert_eq!(created["resultType"], "task");
    let id = created["taskId"].as_str().unwrap();
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = || declared(json!({ "taskId": id, "inputResponses": {} }));
        for (name, status, code) in [("-", 400, Some(-32020)), ("other", 400, Some(-32020)), (id, 200, None)] {
            let answer = send(&service, stateless(method, params(), &[("mcp-name", name)])).await;
            assert_eq!((answer.status.as_u16(), answer.error_code()), (status, code), "{method} {name}");
        }
    }
}

#[tokio::test]
async fn a_client_that_knows_no_tasks_is_refused_before_the_tool_runs() {
    let service = service();
    for (method, params, name) in
        [("tools/call", json!({ "name": "must" }), "must"), ("tasks/get", json!({ "taskId": "t" }), "t")]
    {
        let answer = send(&service, stateless(method, params, &[("mcp-name", name)])).await;
        assert_eq!((answer.status, answer.error_code()), (StatusCode::BAD_REQUEST, Some(-32021)), "{method}");
    }
}

#[tokio::test]
async fn callers_that_cannot_be_told_apart_get_no_list() {
    let service = service();
    let session = open(&service).await;
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" }
    });
    let opening = send(&service, legacy(None, "initialize", params)).await.json();
    let tasks = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
    assert_eq!(opening["result"]["capabilities"]["tasks"], tasks);
    let list = send(&service, legacy(Some(&session), "tasks/list", json!({}))).await;
    assert_eq!(list.error_code(), Some(-32601));
    // Who knows the id has the task, in whatever session.
    let made = send(&service, legacy(Some(&session), "tools/call", json!({ "name": "must", "task": {} }))).await;
    let id = made.json()["result"]["task"]["taskId"].clone();
    let other = open(&service).await;
    let result = send(&service, legacy(Some(&other), "tasks/result", json!({ "taskId": id }))).await;
    assert_eq!(result.json()["result"]["content"][0]["text"], "must");
}

#[tokio::test]
async fn a_question_goes_on_the_stream_of_the_request_for_the_result() {
    let service = service();
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "t", "version": "1" },
    });
    let opening = send(&service, legacy(None, "initialize", params)).await;
    let session = opening.header("mcp-session-id").unwrap().to_owned();
    let made = send(&service, legacy(Some(&session), "tools/call", json!({ "name": "asks", "task": {} }))).await;
    let id = made.json()["result"]["task"]["taskId"].clone();
    for _ in 0..1000 {
        let task = send(&service, legacy(Some(&session), "tasks/get", json!({ "taskId": id }))).await.json();
        if task["result"]["status"] == "input_required" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let response = service.handle(legacy_as(9, Some(&session), "tasks/result", json!({ "taskId": id }))).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let mut text = String::new();
    let question = loop {
        let frame = within("the question", body.frame()).await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut messages = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        if let Some(question) = messages.find(|message| message["method"] == "elicitation/create") {
            break question;
        }
    };
    assert_eq!(question["params"]["_meta"]["io.modelcontextprotocol/related-task"], json!({ "taskId": id }));
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }).to_string();
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-session-id", &session),
    ];
    let taken = send(&service, request(http::Method::POST, &headers, answer)).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    let rest = within("the result", body.collect()).await.unwrap().to_bytes();
    let rest = std::str::from_utf8(&rest).unwrap();
    assert!(rest.contains("Hello, Ada!") && rest.contains("\"id\":9"), "{rest}");
}
