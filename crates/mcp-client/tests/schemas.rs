//! Checks the messages of a client in each revision against the schema of that revision. `MCP_SCHEMAS` names the
//! folder of the schemas.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    collections::{BTreeSet, HashMap},
    io::Write as _,
};

use mcp_client::{
    Client, Error, InputContext,
    protocol::{
        CallToolParams, CompleteParams, CompletionArgument, CompletionContext, CompletionReference,
        CreateMessageParams, CreateMessageResult, ElicitAction, ElicitResult, FormElicitParams, Icon, JsonObject,
        LoggingLevel, Meta, ProtocolVersion, Root, RpcError, SamplingBlock, SubscriptionFilter, UrlElicitParams,
        method::CallTool, tasks::TaskMetadata,
    },
};
use mcp_test::schemas::{ProtocolSchemas, SCHEMAS_VARIABLE};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::common::{Peer, builder, discovery, initialized, scripted, start, tool_result};

/// Methods that clients may send and this client does not send.
const NEVER: &[&str] = &[
    // This client does not accept tasks.
    "CancelTaskResult",
    "CreateTaskResult",
    "GetTaskPayloadResult",
    "GetTaskResult",
    "ListTasksResult",
    "TaskStatusNotification",
];

/// A message of the client, and the method of the server request that it answers.
type Spoken = Vec<(Option<String>, Value)>;

/// A server that answers every request, sends every request of its revision, and stores the received messages.
struct Played {
    peer: Peer,
    version: ProtocolVersion,
    spoken: Spoken,
    pending: HashMap<i64, &'static str>,
    calls: usize,
}

impl Played {
    fn start(peer: Peer, version: ProtocolVersion) -> JoinHandle<Spoken> {
        let mut played = Self { peer, version, spoken: Vec::new(), pending: HashMap::new(), calls: 0 };
        tokio::spawn(async move {
            while let Some(message) = played.peer.next().await {
                played.take(message).await;
            }
            played.spoken
        })
    }

    async fn take(&mut self, message: Value) {
        let (method, id) = (message["method"].as_str().map(str::to_owned), message["id"].clone());
        let answered = method.is_none().then(|| self.pending.remove(&id.as_i64().unwrap()).unwrap().to_owned());
        self.spoken.push((answered, message));
        match method.as_deref() {
            Some("server/discover") if self.version.has_handshake() => {
                // The client sends the probe before the peers agree on a revision.
                self.spoken.pop();
                self.peer.refuse(id, json!({ "code": -32601, "message": "what?" })).await;
            }
            Some("tools/call") => self.called(id).await,
            Some(method) if !id.is_null() => {
                let result = self.result(method);
                if method == "subscriptions/listen" {
                    let params = json!({
                        "notifications": {}, "_meta": { "io.modelcontextprotocol/subscriptionId": id },
                    });
                    self.peer.notify("notifications/subscriptions/acknowledged", params).await;
                } else {
                    self.peer.answer(id, result).await;
                }
            }
            _ => {}
        }
    }

    /// The first call is answered after questions, the second one as a task, the third one never, the fourth plainly.
    async fn called(&mut self, id: Value) {
        self.calls += 1;
        let is_modern = self.version.has_input_required();
        match self.calls {
            1 if is_modern => {
                let required = json!({
                    "resultType": "input_required", "requestState": "s",
                    "inputRequests": {
                        "form": { "method": "elicitation/create", "params": form() },
                        "url": { "method": "elicitation/create", "params": url(false) },
                        "model": { "method": "sampling/createMessage", "params": sampling() },
                        "roots": { "method": "roots/list" },
                    },
                });
                self.peer.answer(id, required).await;
                // The answers are in the repeated call.
                self.calls = 0;
                self.version_of_answers().await;
            }
            1 => {
                let mut questions = vec![("ping", json!({})), ("roots/list", json!({}))];
                questions.push(("sampling/createMessage", sampling()));
                if self.version.has_elicitation() {
                    questions.push(("elicitation/create", form()));
                }
                if self.version.has_elicitation_modes() {
                    questions.push(("elicitation/create", url(true)));
                }
                for (n, (method, mut params)) in (1000..).zip(questions) {
                    params["_meta"] = json!({ "progressToken": n });
                    self.pending.insert(n, method);
                    self.peer.send(json!({ "jsonrpc": "2.0", "id": n, "method": method, "params": params })).await;
                }
                while !self.pending.is_empty() {
                    let message = self.peer.recv().await;
                    Box::pin(self.take(message)).await;
                }
                self.peer.answer(id, tool_result("asked")).await;
            }
            2 if self.version.has_core_tasks() => {
                self.peer.answer(id, json!({ "task": task("completed") })).await;
            }
            3 => {}
            _ => self.peer.answer(id, tool_result("done")).await,
        }
    }

    async fn version_of_answers(&mut self) {
        let message = self.peer.recv().await;
        assert_eq!(message["params"]["requestState"], "s");
        let id = message["id"].clone();
        self.spoken.push((None, message));
        self.calls = 1;
        self.peer.answer(id, tool_result("asked")).await;
    }

    fn result(&self, method: &str) -> Value {
        let mut result = match method {
            "server/discover" => discovery(&[self.version.as_str()]),
            "initialize" => initialized(self.version.as_str()),
            "tools/list" => {
                let schema = json!({ "type": "object" });
                json!({ "tools": [{ "name": "t", "inputSchema": schema, "execution": { "taskSupport": "optional" } }] })
            }
            "resources/list" => json!({ "resources": [] }),
            "resources/templates/list" => json!({ "resourceTemplates": [] }),
            "resources/read" => json!({ "contents": [] }),
            "prompts/list" => json!({ "prompts": [], "nextCursor": null }),
            "prompts/get" => json!({ "messages": [] }),
            "completion/complete" => json!({ "completion": { "values": [] } }),
            "tasks/list" => json!({ "tasks": [task("working")] }),
            "tasks/get" | "tasks/cancel" => task("completed"),
            "tasks/result" => tool_result("done"),
            _ => json!({}),
        };
        if method == "initialize" || method == "server/discover" {
            result["capabilities"]["completions"] = json!({});
            result["capabilities"]["logging"] = json!({});
            if self.version.has_core_tasks() {
                result["capabilities"]["tasks"] =
                    json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
            }
        } else if self.version.has_result_type() {
            result["resultType"] = json!("complete");
        }
        result
    }
}

fn task(status: &str) -> Value {
    let now = "2025-11-25T00:00:00Z";
    json!({ "taskId": "k", "status": status, "createdAt": now, "lastUpdatedAt": now, "ttl": 1000, "pollInterval": 20 })
}

fn form() -> Value {
    let properties = json!({ "name": { "type": "string" } });
    json!({ "message": "Who?", "requestedSchema": { "type": "object", "properties": properties } })
}

fn url(is_named: bool) -> Value {
    let mut url = json!({ "mode": "url", "message": "Go.", "url": "https://example.com" });
    if is_named {
        url["elicitationId"] = json!("e");
    }
    url
}

fn sampling() -> Value {
    json!({ "messages": [], "maxTokens": 5 })
}

/// A client with all capabilities and full answers.
async fn open(version: ProtocolVersion) -> (Client, JoinHandle<Spoken>) {
    let (connector, mut peers) = scripted();
    let builder = builder()
        .versions([version])
        .title("Test")
        .description("A client that tests.")
        .website_url("https://example.com")
        .icon(Icon::new("https://example.com/icon.png"))
        .experimental("x", JsonObject::new())
        .extension("com.example/x", JsonObject::new())
        .log_level(LoggingLevel::Info)
        .tasks()
        .roots([Root::new("file:///work").with_name("work")])
        .on_elicit(async |input: InputContext<FormElicitParams>| {
            input.progress(1.0, Some(2.0), Some("thinking"));
            Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada")))
        })
        .on_elicit_url(async |_: InputContext<UrlElicitParams>| Ok(ElicitResult::new(ElicitAction::Accept)))
        .on_sample_with_tools(async |input: InputContext<CreateMessageParams>| {
            input.progress(1.0, None, Some("thinking"));
            let mut result = CreateMessageResult::new("a-model", "42");
            let audio = json!({ "type": "audio", "data": "AAE=", "mimeType": "audio/wav" });
            let used = json!({ "type": "tool_use", "id": "u", "name": "t", "input": {} });
            for block in [audio, used] {
                let block: SamplingBlock = serde_json::from_value(block).unwrap();
                result.content.0.push(block);
            }
            Ok::<_, RpcError>(result)
        });
    // The client probes a server of this revision only if it supports another revision.
    let connecting = start(builder.connect(connector));
    let played = Played::start(peers.next().await, version);
    (connecting.await.unwrap().unwrap(), played)
}

/// Sends every kind of message.
async fn use_every_method(client: &Client, version: ProtocolVersion) -> Result<(), Error> {
    client.list_tools().await?;
    let meta = Meta::new().with("com.example/k", 1);
    let pending = client.call_tool("t", json!({ "a": 1 })).meta(meta).on_progress(|_| {}).await?;
    assert_eq!(pending.text(), "asked", "{version}");
    let task = client.call_tool("t", ()).as_task().await?;
    assert_eq!(task.task().is_some(), version.has_core_tasks(), "{version}");
    if let Some(task) = task.task() {
        task.status().await?;
        task.result().await?;
        task.cancel().await?;
        client.list_tasks().await?;
    }
    let mut params = CallToolParams::new("t");
    params.task = Some(TaskMetadata::new());
    // The server does not answer this call, and the test drops it.
    let dropped = client.request::<CallTool>(&params).idle_timeout(std::time::Duration::from_secs(1)).await;
    assert!(dropped.unwrap_err().is_timeout(), "{version}");
    client.request::<CallTool>(&params).await?;
    client.list_resources().await?;
    client.list_resource_templates().await?;
    client.list_prompts().cursor("c").page().await?;
    client.read_resource("a:b").await?;
    client.get_prompt("p", [("k", "v")]).await?;
    let reference = json!({ "type": "ref/prompt", "name": "p", "title": "P" });
    let reference: CompletionReference = serde_json::from_value(reference).unwrap();
    let mut params = CompleteParams::new(reference, CompletionArgument::new("k", "v"));
    params.context = Some(CompletionContext::new([("other".to_owned(), "known".to_owned())].into()));
    client.complete_with(&params).await?;
    client.set_log_level(LoggingLevel::Debug).await?;
    client.ping().await?;
    client.roots().unwrap().add(Root::new("file:///other"))?;
    let filter = SubscriptionFilter::lists().with_resources(["a:b"]);
    drop(client.listen(filter).await?);
    // The cancellation of the dropped call comes before the next message.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    client.ping().await
}

#[tokio::test(start_paused = true)]
async fn client_messages_match_the_schemas_of_their_revisions() {
    let schemas = ProtocolSchemas::from_env().unwrap();
    if schemas.is_none() {
        log_line(&format!(
            "SKIPPED: no message was checked against a schema, because {SCHEMAS_VARIABLE} names no folder"
        ));
    }
    let mut problems = Vec::new();
    for &version in ProtocolVersion::ALL {
        let (client, played) = open(version).await;
        use_every_method(&client, version).await.unwrap_or_else(|error| panic!("{version}: {error}"));
        client.close().await;
        let spoken = played.await.unwrap();
        let text: String = spoken.iter().map(|(_, message)| message.to_string()).collect();
        assert_eq!(text.contains("\"context\":{\"arguments\""), version.has_completion_context(), "{version}");
        assert_eq!(text.contains("\"description\":\"A client"), version.has_icons(), "{version}");
        assert_eq!(text.contains("\"elicitation\":{"), version.has_elicitation(), "{version}");
        assert_eq!(text.contains("\"task\":{}"), version.has_core_tasks(), "{version}");
        let Some(schemas) = &schemas else { continue };
        let mut seen = BTreeSet::new();
        for (answered, message) in &spoken {
            match schemas.check_message(version, answered.as_deref(), message) {
                Ok(definitions) => seen.extend(definitions),
                Err(error) => problems.push(error.to_string()),
            }
        }
        log_line(&format!("{version}: {}", seen.iter().cloned().collect::<Vec<_>>().join(", ")));
        let owed = schemas.client_definitions(version);
        let owed: Vec<_> =
            owed.iter().filter(|name| !seen.contains(*name) && !NEVER.contains(&name.as_str())).collect();
        if !owed.is_empty() {
            problems.push(format!("{version}: nothing is said of {owed:?}"));
        }
    }
    assert!(problems.is_empty(), "{} problems, among them\n{}", problems.len(), problems.join("\n\n"));
}

/// Writes to stderr past the capture of the test harness, so that the log shows the checked messages.
fn log_line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
