//! Tasks for work outside of a call.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::time::Duration;

use mcp_protocol::{CallToolResult, Principal, ProtocolVersion, RpcError};
use mcp_server_core::{Context, NewTask, Server, StandaloneTask, ToolError, tool};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::{
    json_client::{Client, code_and_text},
    tasks_fixture::{call, declared, of},
};

/// A server whose tool `start` passes a task to an external worker and returns its id.
fn server() -> (Server, UnboundedReceiver<StandaloneTask>) {
    let (hand, taken) = unbounded_channel();
    let start = move |context: Context| {
        let hand = hand.clone();
        async move {
            let task = NewTask::for_caller(&context).ttl(Duration::from_secs(10)).message("queued");
            let task = context.server().tasks().create(task).await.map_err(ToolError::protocol)?;
            let id = task.id().to_owned();
            hand.send(task).ok();
            Ok::<_, ToolError>(id)
        }
    };
    let server = Server::builder("outside", "1").standalone_tasks().tool(tool("start", start)).build();
    (server, taken)
}

#[tokio::test(start_paused = true)]
async fn an_external_worker_reports_and_completes_a_task() {
    let (server, mut taken) = server();
    let mut client = Client::connect_with(&server, ProtocolVersion::LATEST, declared()).await;
    assert_eq!(client.opening["capabilities"]["extensions"], json!({ "io.modelcontextprotocol/tasks": {} }));
    for (end, status) in [("finish", "completed"), ("fail", "failed"), ("drop", "failed"), ("expire", "")] {
        let id = client.result("tools/call", call("start")).await["content"][0]["text"].clone();
        let task = taken.recv().await.unwrap();
        let queued = client.result("tasks/get", of(&id)).await;
        assert_eq!((&queued["status"], &queued["statusMessage"]), (&json!("working"), &json!("queued")));
        assert_eq!(queued["ttlMs"], 10_000);
        task.progress("half");
        assert_eq!(client.result("tasks/get", of(&id)).await["statusMessage"], "half");
        match end {
            "finish" => assert!(task.finish(CallToolResult::text("here you are")).await),
            "fail" => assert!(task.fail(RpcError::internal("no")).await),
            "drop" => drop(task),
            _ => {
                task.cancelled().await;
                assert_eq!(code_and_text(&client.error("tasks/get", of(&id)).await), (-32602, "Task not found"));
                assert!(!task.finish(CallToolResult::text("too late")).await);
                continue;
            }
        }
        let ended = client.result("tasks/get", of(&id)).await;
        assert_eq!(ended["status"], status, "{end}: {ended}");
        assert_eq!(ended.get("result").is_some(), end == "finish", "{ended}");
        assert_eq!(ended.get("error").is_some(), end != "finish", "{ended}");
    }
}

#[tokio::test]
async fn a_cancellation_reaches_the_external_worker() {
    let (server, mut taken) = server();
    let mut client = Client::connect(&server, ProtocolVersion::V2025_11_25).await;
    let id = client.result("tools/call", call("start")).await["content"][0]["text"].clone();
    let task = taken.recv().await.unwrap();
    assert_eq!(client.result("tasks/cancel", of(&id)).await["status"], "cancelled");
    task.cancelled().await;
    task.progress("going on");
    assert!(!task.fail(RpcError::internal("too late")).await);
    assert_eq!(client.result("tasks/get", of(&id)).await["status"], "cancelled");
}

#[tokio::test]
async fn a_task_of_a_principal_is_hidden_from_others() {
    let (server, _taken) = server();
    let task = server.tasks().create(NewTask::for_principal(&Principal::new("ada"))).await.unwrap();
    let mut client = Client::connect_with(&server, ProtocolVersion::LATEST, declared()).await;
    assert_eq!(client.error("tasks/get", of(&json!(task.id()))).await["code"], -32602);
    let own = server.tasks().create(NewTask::for_local()).await.unwrap();
    assert_eq!(client.result("tasks/get", of(&json!(own.id()))).await["status"], "working");
    assert!(!format!("{own:?}").contains(own.id()));
    own.finish(CallToolResult::text("done")).await;
    task.finish(CallToolResult::text("done")).await;
}

#[tokio::test(start_paused = true)]
async fn running_tasks_end_with_the_server() {
    let (server, mut taken) = server();
    let mut client = Client::connect_with(&server, ProtocolVersion::LATEST, declared()).await;
    client.result("tools/call", call("start")).await;
    let task = taken.recv().await.unwrap();
    server.shutdown();
    task.cancelled().await;
    assert!(!task.finish(CallToolResult::text("too late")).await);
}
