//! Tasks over HTTP: mirrored ids, anonymous callers, and input requests on the stream of the result.

#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{future::Future, time::Duration};

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
async fn the_mirrored_header_repeats_the_task_id() {
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
async fn rejects_a_client_without_the_task_capability_before_the_tool_runs() {
    let service = service();
    for (method, params, name) in
        [("tools/call", json!({ "name": "must" }), "must"), ("tasks/get", json!({ "taskId": "t" }), "t")]
    {
        let answer = send(&service, stateless(method, params, &[("mcp-name", name)])).await;
        assert_eq!((answer.status, answer.error_code()), (StatusCode::BAD_REQUEST, Some(-32021)), "{method}");
    }
}

#[tokio::test]
async fn anonymous_callers_get_no_task_list() {
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
    // The task id gives access to the task from every session.
    let made = send(&service, legacy(Some(&session), "tools/call", json!({ "name": "must", "task": {} }))).await;
    let id = made.json()["result"]["task"]["taskId"].clone();
    let other = open(&service).await;
    let result = send(&service, legacy(Some(&other), "tasks/result", json!({ "taskId": id }))).await;
    assert_eq!(result.json()["result"]["content"][0]["text"], "must");
}

/// Opens a session whose client has these capabilities.
async fn open_with(service: &McpService, capabilities: Value) -> String {
    let info = json!({ "name": "t", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info });
    let opening = send(service, legacy(None, "initialize", params)).await;
    opening.header("mcp-session-id").unwrap().to_owned()
}

/// Creates a task with an input request, and waits for the request.
async fn task_awaiting_input(service: &McpService, session: &str) -> Value {
    let made = send(service, legacy(Some(session), "tools/call", json!({ "name": "asks", "task": {} }))).await;
    let id = made.json()["result"]["task"]["taskId"].clone();
    for _ in 0..1000 {
        let task = send(service, legacy(Some(session), "tasks/get", json!({ "taskId": id }))).await.json();
        if task["result"]["status"] == "input_required" {
            return id;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the task does not ask");
}

/// A result request whose stream the test reads incrementally.
struct Waiting {
    body: mcp_server_http::Body,
    text: String,
}

impl Waiting {
    async fn start(service: &McpService, request: u64, session: &str, task: &Value) -> Self {
        let params = json!({ "taskId": task });
        let response = within("the answer", service.handle(legacy_as(request, Some(session), "tasks/result", params)));
        let response = response.await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), text: String::new() }
    }

    async fn question(&mut self) -> Value {
        loop {
            let frame = within("the question", self.body.frame()).await.unwrap().unwrap();
            self.text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
            let data = self.text.lines().filter_map(|line| line.strip_prefix("data: "));
            let mut messages = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
            if let Some(question) = messages.find(|message| message["method"] == "elicitation/create") {
                return question;
            }
        }
    }

    async fn rest(self) -> String {
        let rest = within("the result", self.body.collect()).await.unwrap().to_bytes();
        std::str::from_utf8(&rest).unwrap().to_owned()
    }
}

/// Posts a message that is no request, in a session.
async fn post_message(service: &McpService, session: &str, message: Value) {
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-session-id", session),
    ];
    let taken = send(service, request(http::Method::POST, &headers, message.to_string())).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
}

async fn answer(service: &McpService, session: &str, question: &Value) {
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    post_message(service, session, json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
}

#[tokio::test]
async fn sends_an_input_request_on_the_stream_of_the_result_request() {
    let service = service();
    let session = open_with(&service, json!({ "elicitation": {} })).await;
    let id = task_awaiting_input(&service, &session).await;
    let mut waiting = Waiting::start(&service, 9, &session, &id).await;
    let question = waiting.question().await;
    assert_eq!(question["params"]["_meta"]["io.modelcontextprotocol/related-task"], json!({ "taskId": id }));
    answer(&service, &session, &question).await;
    let rest = waiting.rest().await;
    assert!(rest.contains("Hello, Ada!") && rest.contains("\"id\":9"), "{rest}");
}

#[tokio::test]
async fn the_session_that_requests_the_result_answers_the_input_request() {
    let service = service();
    let able = json!({ "elicitation": {} });
    let (maker, other) = (open_with(&service, able.clone()).await, open_with(&service, able).await);
    let id = task_awaiting_input(&service, &maker).await;
    // The server skips a stream whose client does not support the input request.
    let unable = open_with(&service, json!({})).await;
    let mut request = Box::pin(service.handle(legacy_as(8, Some(&unable), "tasks/result", json!({ "taskId": id }))));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(request.as_mut().poll(&mut cx).is_pending());
    let mut waiting = Waiting::start(&service, 9, &other, &id).await;
    let question = waiting.question().await;
    answer(&service, &other, &question).await;
    assert!(waiting.rest().await.contains("Hello, Ada!"));
    let result = within("the result", request).await.into_body().collect().await.unwrap().to_bytes();
    let result = std::str::from_utf8(&result).unwrap();
    assert!(result.contains("Hello, Ada!") && !result.contains("elicitation"), "{result}");
}

#[tokio::test]
async fn repeats_an_input_request_when_its_carrier_request_ends() {
    let service = service();
    let able = json!({ "elicitation": {} });
    let (first, second) = (open_with(&service, able.clone()).await, open_with(&service, able).await);
    let id = task_awaiting_input(&service, &first).await;
    let mut waiting = Waiting::start(&service, 9, &first, &id).await;
    let lost = waiting.question().await;
    let cancelled = json!({ "requestId": 9 });
    post_message(
        &service,
        &first,
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled }),
    )
    .await;
    // The next stream receives the input request. When its session ends, the one after it does.
    let mut waiting = Waiting::start(&service, 10, &first, &id).await;
    let again = waiting.question().await;
    assert_eq!(again["params"], lost["params"]);
    assert_ne!(again["id"], lost["id"]);
    let closed = send(&service, request(http::Method::DELETE, &[("mcp-session-id", &first)], "")).await;
    assert!(closed.status.is_success(), "{closed:?}");
    let mut waiting = Waiting::start(&service, 9, &second, &id).await;
    let question = waiting.question().await;
    answer(&service, &second, &question).await;
    assert!(waiting.rest().await.contains("Hello, Ada!"));
}

#[tokio::test]
async fn a_stream_sends_the_status_of_a_declared_task() {
    let service = service();
    let created = send(&service, stateless("tools/call", declared(json!({ "name": "must" })), &[])).await.json();
    let id = &created["result"]["taskId"];
    let listen = json!({ "notifications": { "taskIds": [id] } });
    let refused = send(&service, stateless("subscriptions/listen", listen.clone(), &[])).await;
    assert_eq!((refused.status, refused.error_code()), (StatusCode::BAD_REQUEST, Some(-32021)));
    let response = service.handle(stateless("subscriptions/listen", declared(listen), &[])).await;
    let mut body = response.into_body();
    let mut read = String::new();
    while !read.contains("notifications/tasks\"") {
        let frame = within("a task", body.frame()).await.unwrap().unwrap().into_data().unwrap();
        read.push_str(std::str::from_utf8(&frame).unwrap());
    }
    let told = |data: &str| serde_json::from_str::<Value>(data).unwrap();
    let told: Vec<Value> = read.lines().filter_map(|line| line.strip_prefix("data: ")).map(told).collect();
    assert_eq!(told[0]["params"]["notifications"], json!({ "taskIds": [id] }));
    assert_eq!((&told[1]["params"]["taskId"], &told[1]["params"]["status"]), (id, &json!("completed")));
}
