//! Invalid parameters: the error names the method, the location and the expected type, in both eras.
#![allow(clippy::needless_pass_by_value, reason = "tables are read by value")]

use std::time::Duration;

use mcp_server_core::{Server, TaskSupport, prompt, resource, template, tool};
use serde_json::{Value, json};

use crate::common::{Connection, initialize, legacy, modern};

fn server() -> Server {
    Server::builder("test", "1")
        .tool(tool("t", async || "x").task(TaskSupport::Optional))
        .resource(resource("x://a", async || "a"))
        .prompt(
            prompt("p", async || "hello").complete_from("a", ["b"]).arguments([mcp_protocol::PromptArgument::new("a")]),
        )
        .build()
}

/// Of both eras, unless the method is of one of them.
fn cases() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("tools/list", json!({ "cursor": 7 }), "`/cursor`: invalid type: integer `7`, expected a string"),
        ("tools/call", json!({}), "missing field `name`"),
        ("tools/call", json!({ "name": ["t"] }), "`/name`: invalid type: array, expected a string"),
        (
            "tools/call",
            json!({ "name": "t", "arguments": [1] }),
            "`/arguments`: invalid type: array, expected an object",
        ),
        ("resources/read", json!({}), "missing field `uri`"),
        ("resources/read", json!({ "uri": 7 }), "`/uri`: invalid type: integer `7`, expected a string"),
        (
            "prompts/get",
            json!({ "name": "p", "arguments": { "a": 1 } }),
            "`/arguments/a`: invalid type: integer `1`, expected a string",
        ),
        ("completion/complete", json!({ "ref": { "type": "ref/prompt", "name": "p" } }), "missing field `argument`"),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "a", "value": 1 } }),
            "`/argument/value`: invalid type: integer `1`, expected a string",
        ),
    ]
}

fn tasks() -> Vec<(&'static str, Value, &'static str)> {
    ["tasks/get", "tasks/cancel"]
        .into_iter()
        .flat_map(|method| {
            [
                (method, json!({}), "missing field `taskId`"),
                (method, json!({ "taskId": 7 }), "`/taskId`: invalid type: integer `7`, expected a string"),
            ]
        })
        .collect()
}

fn assert_error(response: &Value, method: &str, expected_text: &str) {
    let error = &response["error"];
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!(-32602), &json!(format!("{method}: {expected_text}"))),
        "{response}"
    );
}

#[tokio::test(start_paused = true)]
async fn errors_of_stateless_requests_name_the_location() {
    let mut connection = Connection::connect(&server());
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } } });
    let modern_only = [
        ("subscriptions/listen", json!({}), "missing field `notifications`"),
        (
            "subscriptions/listen",
            json!({ "notifications": [] }),
            "`/notifications`: invalid type: array, expected an object",
        ),
        (
            "subscriptions/listen",
            json!({ "notifications": { "resourceSubscriptions": [7] } }),
            "`/notifications/resourceSubscriptions/0`: invalid type: integer `7`, expected a string",
        ),
        (
            "subscriptions/listen",
            json!({ "notifications": { "toolsListChanged": "yes" } }),
            "`/notifications/toolsListChanged`: invalid type: string \"yes\", expected a boolean",
        ),
        (
            "tasks/update",
            json!({ "taskId": "t", "inputResponses": [] }),
            "`/inputResponses`: invalid type: array, expected an object",
        ),
    ];
    for (method, mut params, expected_text) in cases().into_iter().chain(tasks()).chain(modern_only) {
        params["_meta"] = meta.clone();
        let response = connection.exchange(modern(1, method, params)).await;
        assert_error(&response, method, expected_text);
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_session_requests_name_the_location() {
    let mut connection = Connection::connect(&server());
    for (member, wrong, expected_text) in [
        ("protocolVersion", json!(7), "`/protocolVersion`: invalid type: integer `7`, expected a string"),
        ("capabilities", json!([]), "`/capabilities`: invalid type: array, expected an object"),
        ("clientInfo", json!("me"), "`/clientInfo`: invalid type: string \"me\", expected an object"),
        (
            "clientInfo",
            json!({ "name": 1, "version": "1" }),
            "`/clientInfo/name`: invalid type: integer `1`, expected a string",
        ),
    ] {
        let mut request = initialize("2025-11-25");
        request["params"][member] = wrong;
        let response = connection.exchange(request).await;
        assert_error(&response, "initialize", expected_text);
    }
    connection.open("2025-11-25").await;
    let legacy_only = [
        ("resources/subscribe", json!({}), "missing field `uri`"),
        ("resources/unsubscribe", json!({ "uri": [] }), "`/uri`: invalid type: array, expected a string"),
        ("logging/setLevel", json!({ "level": 1 }), "`/level`: expected a string"),
        ("tasks/result", json!({ "taskId": {} }), "`/taskId`: invalid type: object, expected a string"),
    ];
    for (method, params, expected_text) in cases().into_iter().chain(tasks()).chain(legacy_only) {
        let response = connection.exchange(legacy(1, method, params)).await;
        assert_error(&response, method, expected_text);
    }
}

#[tokio::test(start_paused = true)]
async fn error_texts_contain_an_escaped_excerpt_of_an_unknown_name() {
    let stalled = template("y://{name}", async || std::future::pending::<String>().await);
    let server = Server::builder("test", "1").tool(tool("t", async || "x")).resource_template(stalled).prompt(
        prompt("p", async || "x").complete_from("a", ["b"]).arguments([mcp_protocol::PromptArgument::new("a")]),
    );
    let server = server.limits(|limits| limits.read_timeout = Duration::from_nanos(59_999_871_234)).build();
    let mut connection = Connection::connect(&server);
    let long = |start: &str| format!("{start}{}", "é".repeat(200));
    let cut = |start: &str| format!("{start}{}…", "é".repeat(128 - start.len()));
    let complete = |argument: &str| json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": argument, "value": "" } });
    let cases = [
        ("tools/call", json!({ "name": "a\n\u{202e}b" }), r"Unknown tool: a\n\u{202e}b".to_owned()),
        ("tools/call", json!({ "name": long("") }), format!("Unknown tool: {}", cut(""))),
        ("prompts/get", json!({ "name": "a\nb" }), r"Unknown prompt: a\nb".to_owned()),
        ("completion/complete", complete("a\nb"), r"the prompt `p` has no argument `a\nb` to complete".to_owned()),
        ("resources/read", json!({ "uri": "x://a\nb" }), r"Resource not found: x://a\nb".to_owned()),
        ("resources/read", json!({ "uri": long("x://") }), format!("Resource not found: {}", cut("x://"))),
        (
            "resources/read",
            json!({ "uri": long("y://") }),
            format!("the resource `{}` took longer than 60s", cut("y://")),
        ),
    ];
    for (method, params, expected_text) in cases {
        let response = connection.exchange(modern(1, method, params)).await;
        assert_eq!(response["error"]["message"], expected_text, "{method}");
    }
}
