//! A server whose tools run as tasks and wait for the test, with helpers to create and read tasks.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_protocol::{ProtocolVersion, RpcError};
use mcp_server_core::{Context, Inputs, Progress, Server, ServerBuilder, TaskPolicy, TaskSupport, ToolError, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{
    Semaphore,
    mpsc::{UnboundedReceiver, unbounded_channel},
};

use crate::{common::Dropped, json_client::Client};

/// The capabilities of a client with the tasks extension and elicitation.
pub(crate) fn declared() -> Value {
    json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Age {
    age: u8,
}

/// A server, and the strings to its tools.
pub(crate) struct Jobs {
    pub(crate) server: Server,
    /// Releases the tool `gated`.
    pub(crate) gate: Arc<Semaphore>,
    /// The events of the tool `hold`: `entered`, `dropped`, `fired`.
    pub(crate) seen: UnboundedReceiver<&'static str>,
}

/// Calls become tasks after this time, where the server decides.
pub(crate) const QUICK: Duration = Duration::from_millis(100);

impl Jobs {
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub(crate) fn with(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let permits = gate.clone();
        let (events, seen) = unbounded_channel();
        let hold = move |context: Context| {
            let events = events.clone();
            async move {
                let _guard = Dropped(events.clone());
                let (cancelled, fired) = (context.cancelled(), events.clone());
                tokio::spawn(async move {
                    cancelled.await;
                    fired.send("fired").ok();
                });
                events.send("entered").ok();
                std::future::pending::<()>().await;
            }
        };
        let gated = move |progress: Progress| {
            let permits = permits.clone();
            async move {
                progress.report(1.0, Some(2.0), "waiting").await;
                permits.acquire().await.unwrap().forget();
                progress.report(2.0, Some(2.0), "through").await;
                "through"
            }
        };
        let builder = Server::builder("jobs", "1")
            .task_policy(TaskPolicy::After(QUICK))
            .tool(tool("plain", async || "plain"))
            .tool(tool("quick", async || "quick").task(TaskSupport::Optional))
            .tool(tool("must", async || "must").task(TaskSupport::Required))
            .tool(tool("gated", gated).task(TaskSupport::Optional))
            .tool(tool("hold", hold).long_running())
            .tool(tool("fails", async || Err::<(), _>(ToolError::new("it failed"))).long_running())
            .tool(
                tool("breaks", async || {
                    Err::<(), _>(ToolError::protocol(RpcError::internal("it broke").with_data(json!({ "part": 7 }))))
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
            .tool(
                tool("asks_two", async |inputs: Inputs| -> Result<String, ToolError> {
                    let (name, age) =
                        tokio::join!(inputs.elicit::<Name>("name", "Name?"), inputs.elicit::<Age>("age", "Age?"));
                    Ok(format!("{} is {}", name?.name, age?.age))
                })
                .long_running(),
            )
            .tool(
                tool("asks_first", async |inputs: Inputs, context: Context| -> Result<String, ToolError> {
                    let Name { name } = inputs.elicit("name", "Name?").await?;
                    let is_task = context.detach().await;
                    Ok(format!("{name} {is_task}"))
                })
                .task(TaskSupport::Optional),
            );
        Self { server: change(builder).build(), gate, seen }
    }

    pub(crate) async fn legacy(&self) -> Client {
        Client::connect_with(&self.server, ProtocolVersion::V2025_11_25, json!({ "elicitation": {} })).await
    }

    pub(crate) async fn modern(&self) -> Client {
        Client::connect_with(&self.server, ProtocolVersion::LATEST, declared()).await
    }
}

pub(crate) fn call(tool: &str) -> Value {
    json!({ "name": tool })
}

/// A call that requests a task (2025-11-25).
pub(crate) fn as_task(tool: &str) -> Value {
    json!({ "name": tool, "task": { "ttl": 60_000 } })
}

pub(crate) fn of(id: &Value) -> Value {
    json!({ "taskId": id })
}

/// Creates a task in a session. Returns its id.
pub(crate) async fn make(client: &mut Client, tool: &str) -> Value {
    client.result("tools/call", as_task(tool)).await["task"]["taskId"].take()
}

/// Creates a task of the extension. Returns its id.
pub(crate) async fn made(client: &mut Client, tool: &str) -> Value {
    let mut result = client.result("tools/call", call(tool)).await;
    assert_eq!(result["resultType"], "task", "{result}");
    result["taskId"].take()
}

/// Looks at a task until it has a status.
pub(crate) async fn wait_for(client: &mut Client, id: &Value, status: &str) -> Value {
    for _ in 0..1000 {
        let task = client.result("tasks/get", of(id)).await;
        if task["status"] == status {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the task never gets {status}");
}

pub(crate) fn without(mut value: Value, members: &[&str]) -> Value {
    value.as_object_mut().unwrap().retain(|member, _| !members.contains(&member.as_str()));
    value
}
