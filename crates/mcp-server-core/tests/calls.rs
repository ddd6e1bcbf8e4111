//! Typed handlers, called without a transport.

use mcp_protocol::ErrorCode;
use mcp_server_core::{Args, Json, Server, State, ToolError, prompt, resource, template, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Add two numbers.
#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

async fn add(State(base): State<i64>, Args(Add { a, b }): Args<Add>) -> Json<Sum> {
    Json(Sum { sum: base + a + b })
}

async fn parse(Args(Add { a, .. }): Args<Add>) -> Result<String, ToolError> {
    let number: i8 = a.to_string().parse()?;
    Ok(number.to_string())
}

#[derive(Deserialize, JsonSchema)]
struct File {
    path: String,
}

fn server() -> Server {
    Server::builder("test", "1.0")
        .tool(tool("add", add).read_only())
        .tool(tool("parse", parse))
        .tool(tool("panics", async || -> String { panic!("secret") }))
        .resource(resource("config://app/settings", async || "settings").mime_type("text/plain"))
        .resource_template(template("file:///{+path}", async |Args(File { path }): Args<File>| path))
        .prompt(prompt("review", async |Args(File { path }): Args<File>| format!("Review {path}")))
        .with_state(10_i64)
        .build()
}

#[tokio::test]
async fn a_typed_tool_returns_structured_content() {
    let result = server().call_tool("add", json!({ "a": 1, "b": 2 })).await.unwrap();
    assert_eq!(result.structured_content, Some(json!({ "sum": 13 })));
    assert_eq!(result.content[0].as_text(), Some(r#"{"sum":13}"#));
}

#[tokio::test]
async fn a_handler_remains_callable_as_a_function() {
    let Json(Sum { sum }) = add(State(10), Args(Add { a: 1, b: 2 })).await;
    assert_eq!(sum, 13);
    assert!(parse(Args(Add { a: 1000, b: 0 })).await.is_err());
}

#[tokio::test]
async fn invalid_arguments_are_a_tool_error_with_their_location() {
    let result = server().call_tool("add", json!({ "a": "1" })).await.unwrap();
    assert!(result.is_error);
    let text = result.content[0].as_text().unwrap();
    assert!(text.contains("/a") && text.contains('b'), "{text}");
}

#[tokio::test]
async fn errors_and_panics_disclose_no_details() {
    for (tool, arguments) in [("parse", json!({ "a": 1000, "b": 0 })), ("panics", json!({}))] {
        let result = server().call_tool(tool, arguments).await.unwrap();
        assert!(result.is_error);
        let text = result.content[0].as_text().unwrap();
        assert!(text.contains("reference") && !text.contains("secret") && !text.contains("number"), "{text}");
    }
}

#[tokio::test]
async fn an_unknown_tool_is_a_protocol_error() {
    let error = server().call_tool("nope", json!({})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
    assert_eq!(error.message, "Unknown tool: nope");
}

#[tokio::test]
async fn reads_resources_templates_and_prompts() {
    let server = server();
    let read = server.read_resource("config://app/settings").await.unwrap();
    assert_eq!(read.contents[0].as_text(), Some("settings"));
    assert_eq!(read.contents[0].uri, "config://app/settings");
    assert_eq!(read.contents[0].mime_type.as_deref(), Some("text/plain"));
    let read = server.read_resource("file:///etc/hosts%20x").await.unwrap();
    assert_eq!(read.contents[0].as_text(), Some("etc/hosts x"));
    let missing = server.read_resource("none://x").await.unwrap_err();
    assert_eq!(missing.data, Some(json!({ "uri": "none://x" })));
    let got = server.get_prompt("review", [("path", "a.rs")]).await.unwrap();
    assert_eq!(got.messages[0].content.as_text(), Some("Review a.rs"));
    let error = server.get_prompt("review", [("other", "x")]).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
    assert!(error.message.contains("path"), "{}", error.message);
}
