//! Tests of a server on a system without random numbers: each request that needs them fails, and the server continues.

use std::sync::Arc;

use mcp_protocol::{ErrorCode, ProtocolVersion, TaskSupport};
use mcp_store::MemoryStore;
use mcp_transport::{Frame, Transport as _, memory::duplex, recv};
use serde_json::{Value, json};

use crate::{Inputs, NewTask, Server, ToolError, random::tests::exhaust, tool};

#[tokio::test]
async fn a_task_is_not_created() {
    let server = Server::builder("s", "1").standalone_tasks().build();
    let exhausted = exhaust();
    let error = server.tasks().create(NewTask::for_local()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::INTERNAL_ERROR);
    assert!(error.message.contains("(reference "), "{error}");
    drop(exhausted);
    let task = server.tasks().create(NewTask::for_local()).await.unwrap();
    assert!(task.finish(mcp_protocol::CallToolResult::text("done")).await);
}

#[tokio::test]
async fn a_call_with_inputs_is_answered_with_an_internal_error() {
    let server = Server::builder("s", "1").tool(tool("ask", async |_: Inputs| "answered")).build();
    let exhausted = exhaust();
    let error = server.call_tool("ask", json!({})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::INTERNAL_ERROR);
    assert!(error.message.contains("(reference "), "{error}");
    drop(exhausted);
    assert!(!server.call_tool("ask", json!({})).await.unwrap().is_error);
}

#[tokio::test]
async fn a_side_effect_does_not_begin() {
    let once = async |inputs: Inputs| {
        let _exhausted = exhaust();
        let effect = async || Err::<String, _>(ToolError::new("the side effect began"));
        inputs.once("effect", effect).await
    };
    let server = Server::builder("s", "1").tool(tool("once", once)).build();
    let result = server.call_tool("once", json!({})).await.unwrap();
    let text = result.content[0].as_text().unwrap();
    assert!(result.is_error && text.contains("(reference "), "{text}");
}

#[tokio::test]
async fn a_page_is_not_opened() {
    let open = async |inputs: Inputs| {
        let _exhausted = exhaust();
        let error = inputs.elicit_url("page", "Open it?", "https://example.com").await.unwrap_err();
        format!("{} {error}", error.is_fault())
    };
    let server = Server::builder("s", "1").tool(tool("open", open)).build();
    let (mut ours, theirs) = duplex(16);
    let served = tokio::spawn(async move { server.serve(theirs).await });
    let params = json!({ "protocolVersion": ProtocolVersion::V2025_11_25, "capabilities": { "elicitation": { "url": {} } },
        "clientInfo": { "name": "c", "version": "1" } });
    let mut text = String::new();
    for (id, method, params) in [(1, "initialize", params), (2, "tools/call", json!({ "name": "open" }))] {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        ours.sender().send(Frame::new(request.to_string())).await.unwrap();
        let answer: Value = serde_json::from_slice(&recv(&mut ours).await.unwrap().unwrap().message).unwrap();
        text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    }
    assert!(text.starts_with("true the server failed to create the input request"), "{text}");
    drop(ours);
    served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_node_of_a_fleet_starts_later() {
    let exhausted = exhaust();
    let keys = crate::StateKeys::new([[1; 32]]);
    let builder = Server::builder("s", "1").state_keys(keys).store(Arc::new(MemoryStore::new()));
    let server = builder.tool(tool("t", async || "done").task(TaskSupport::Optional)).build();
    server.notify().tools_changed();
    assert!(!server.data.publisher.is_connected());
    drop(exhausted);
    server.notify().tools_changed();
    assert!(server.data.publisher.is_connected());
}
