//! Calls that ask while a request for the result of a task waits on the same connection.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::Arc;

use mcp_agent::{Gateway, Host, ServerOptions, Sharing};
use mcp_client::{Client, Handler, InputContext, Round};
use mcp_protocol::{
    ClientCapabilities, ElicitParams, ElicitResult, ElicitationCapability, FormElicitParams, InputRequest, JsonObject,
    ProtocolVersion, RpcError,
};
use mcp_server::{
    Server,
    source::{Source, SourceCall, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult},
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};

use crate::common::{Pipe, SOON, client, complete, page, raw};

const VERSION: ProtocolVersion = ProtocolVersion::V2025_11_25;
const TASK: &str = r#"{"taskId":"up-1","status":"working","ttl":null,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"}"#;

/// A server with a task that does not end, and with a tool that asks.
struct Asking {
    /// Has a permit for each request for the result of the task.
    results: Arc<Semaphore>,
}

impl Source for Asking {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page([
            r#"{"name":"build","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}"#,
            r#"{"name":"ask","inputSchema":{"type":"object"}}"#,
        ])
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        if call.name() == "build" {
            let created = SourceResult::new(format!(r#"{{"task":{TASK}}}"#), VERSION);
            return Box::pin(std::future::ready(Ok(SourceOutcome::Task(created))));
        }
        Box::pin(async move {
            let schema = JsonObject::new().with("type", "object").with("properties", json!({}));
            let form = ElicitParams::Form(FormElicitParams::new("Name?", schema));
            let answer = call.ask(InputRequest::elicit(&form).unwrap()).await?;
            let text = answer["content"]["name"].to_string();
            complete(json!({ "content": [{ "type": "text", "text": text }] }).to_string(), VERSION).await
        })
    }

    fn get_task(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(std::future::ready(Ok(SourceResult::new(TASK, VERSION))))
    }

    fn task_result(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        self.results.add_permits(1);
        Box::pin(std::future::pending())
    }
}

struct User;

impl Handler for User {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new().with_elicitation(ElicitationCapability::new().with_form())
    }

    fn elicit(&self, _form: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async { Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada"))) })
    }
}

async fn ask(client: &Client) -> Result<String, RpcError> {
    let result = raw(client, "tools/call", json!({ "name": "s__ask" })).await?;
    Ok(result["content"][0]["text"].as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_call_asks_while_a_request_for_the_result_of_a_task_waits() {
    for sharing in [Sharing::Principal, Sharing::Session] {
        for has_asked in [false, true] {
            let results = Arc::new(Semaphore::new(0));
            let source = Asking { results: Arc::clone(&results) };
            let server = Server::builder::<()>("s", "1").versions([VERSION]).source(source).build();
            let options = ServerOptions::new().sharing(sharing);
            let host =
                Host::builder("gateway", "1").server_with("s", Pipe::new(server), options).start().await.unwrap();
            let gateway = Gateway::builder(host).build().unwrap().versions([VERSION]).build();
            let client = client().handler(User).connect(&gateway).await.unwrap();
            client.list_tools().await.unwrap();
            if has_asked {
                // The gateway learns that the questions of this server name no call.
                assert_eq!(ask(&client).await.unwrap(), "\"Ada\"");
            }
            let build = client.request_raw("tools/call", json!({ "name": "s__build", "task": {} }));
            let Round::Task(created) = build.raw_inputs().raw_task(true).await.unwrap() else {
                panic!("the tool runs as a task")
            };
            let created: Value = serde_json::from_slice(created.result().bytes()).unwrap();
            let id = created["task"]["taskId"].clone();
            let other = client.clone();
            let waiting = tokio::spawn(async move {
                let params = json!({ "taskId": id });
                other.request_raw("tasks/result", params).total_timeout(None).idle_timeout(None).await
            });
            timeout(SOON, results.acquire()).await.unwrap().unwrap().forget();
            for _ in 0..2 {
                assert_eq!(ask(&client).await.as_deref(), Ok("\"Ada\""), "{sharing:?}, {has_asked}");
            }
            assert!(!waiting.is_finished());
            waiting.abort();
        }
    }
}
