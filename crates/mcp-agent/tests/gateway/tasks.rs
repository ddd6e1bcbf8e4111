//! Tools that run as tasks, through a gateway, in all four cells.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_agent::{Gateway, Host, ServerOptions, ServerState};
use mcp_client::{Client, Handler, InputContext, Reconnect, Round, TaskHandle};
use mcp_protocol::{
    ClientCapabilities, ElicitResult, ElicitationCapability, FormElicitParams, JsonObject, ProtocolVersion, RpcError,
    TaskSupport,
    tasks::{TaskStatus, ext},
};
use mcp_server::{
    ServerBuilder,
    prelude::*,
    source::{
        Source, SourceCall, SourceDefinition, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult,
    },
    tasks::TaskPolicy,
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};

use crate::common::{Pipe, REVISIONS, SOON, cells, client, connect, connect_as, gateway, over_http, raw, served};

const V25: ProtocolVersion = ProtocolVersion::V2025_11_25;

/// A server whose tool `build` ends when the semaphore has a permit.
fn server(version: ProtocolVersion, support: TaskSupport, permits: &Arc<Semaphore>) -> Server {
    with_tools(builder(version), support, permits)
}

fn with_tools(builder: ServerBuilder<()>, support: TaskSupport, permits: &Arc<Semaphore>) -> Server {
    let permits = Arc::clone(permits);
    let build = move || {
        let permits = Arc::clone(&permits);
        async move {
            permits.acquire().await.unwrap().forget();
            "built"
        }
    };
    builder.tool(tool("build", build).task(support)).tool(tool("plain", async || "done")).build()
}

fn builder(version: ProtocolVersion) -> ServerBuilder<()> {
    Server::builder("s", "1")
        .versions([version])
        .task_policy(TaskPolicy::Immediately)
        .limits(|limits| limits.tasks.poll_interval = Duration::from_millis(20))
}

fn with_extension() -> ClientCapabilities {
    ClientCapabilities::new().with_extension(ext::IDENTIFIER, JsonObject::new())
}

/// Starts a task, and returns its handle.
async fn start(client: &Client, tool: &str) -> TaskHandle {
    let started = timeout(SOON, client.call_tool(tool, ()).as_task().into_future()).await.unwrap().unwrap();
    started.task().expect("the call became a task").clone()
}

async fn result(task: &TaskHandle) -> String {
    timeout(SOON, task.result()).await.unwrap().unwrap().text()
}

#[tokio::test]
async fn a_client_receives_the_result_of_a_tool_that_runs_as_a_task() {
    for (down, up) in cells() {
        for support in [TaskSupport::Optional, TaskSupport::Required] {
            let build = tool("build", async || "built").task(support);
            let server = Server::builder("s", "1").versions([up]).tool(build).build();
            let client = connect(gateway(&[("s", &server)]).await, down).await;
            let result = timeout(SOON, client.call_tool("s__build", ()).into_future()).await.unwrap();
            assert_eq!(result.unwrap().text(), "built", "{down} to {up}, {support:?}");
        }
    }
}

#[tokio::test]
async fn a_call_becomes_a_task_whose_state_and_result_pass() {
    for (down, up) in cells() {
        for support in [TaskSupport::Optional, TaskSupport::Required] {
            let permits = Arc::new(Semaphore::new(0));
            let client = connect(gateway(&[("s", &server(up, support, &permits))]).await, down).await;
            client.list_tools().await.unwrap();
            let task = start(&client, "s__build").await;
            let state = task.status().await.unwrap();
            assert_eq!((state.status, &*state.task_id), (TaskStatus::Working, task.id()), "{down} to {up}");
            permits.add_permits(1);
            assert_eq!(result(&task).await, "built", "{down} to {up}, {support:?}");
            let again = client.task(task.id());
            assert_eq!(again.status().await.unwrap().status, TaskStatus::Completed, "{down} to {up}");
            assert_eq!(result(&again).await, "built", "{down} to {up}");
        }
    }
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn a_cancelled_task_ends_at_its_server() {
    for (down, up) in cells() {
        let permits = Arc::new(Semaphore::new(0));
        let client = connect(gateway(&[("s", &server(up, TaskSupport::Optional, &permits))]).await, down).await;
        client.list_tools().await.unwrap();
        let task = start(&client, "s__build").await;
        timeout(SOON, task.cancel()).await.unwrap().unwrap();
        let cancelled = async {
            while task.status().await.unwrap().status != TaskStatus::Cancelled {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(timeout(SOON, cancelled).await.is_ok(), "{down} to {up}");
        // Only the extension allows a cancellation that arrives too late.
        let again = task.cancel().await;
        assert_eq!(again.is_ok(), down.has_extensions(), "{down} to {up}: {again:?}");
        assert!(timeout(SOON, task.result()).await.unwrap().unwrap_err().is_cancelled(), "{down} to {up}");
    }
}

#[tokio::test]
async fn the_list_of_tasks_has_the_ids_of_created_tasks() {
    for up in REVISIONS {
        let permits = Arc::new(Semaphore::new(0));
        let (first, second) =
            (server(up, TaskSupport::Optional, &permits), server(up, TaskSupport::Optional, &permits));
        let client = connect(gateway(&[("a", &first), ("b", &second)]).await, V25).await;
        client.list_tools().await.unwrap();
        let mut started = Vec::new();
        for name in ["b__build", "a__build", "a__build"] {
            started.push(start(&client, name).await.id().to_owned());
        }
        let mut listed: Vec<_> = client.list_tasks().await.unwrap().into_iter().map(|task| task.task_id).collect();
        // A server of 2026-07-28 has no such list.
        if up.has_extensions() {
            started.clear();
        }
        started.sort();
        listed.sort();
        assert_eq!(listed, started, "{up}");
        let error = raw(&client, "tasks/list", json!({ "cursor": "[\"c\",null]" })).await.unwrap_err();
        assert_eq!(error.code.0, -32602);
    }
}

#[tokio::test]
async fn calls_that_do_not_fit_the_task_support_of_their_tool_fail_as_at_the_server_itself() {
    for (down, up) in cells() {
        let permits = Arc::new(Semaphore::new(1));
        let client = connect(gateway(&[("s", &server(up, TaskSupport::Required, &permits))]).await, down).await;
        let call = |params: Value| {
            let call = client.request_raw("tools/call", params).raw_result().raw_inputs().raw_task(false);
            async { timeout(SOON, call.into_future()).await.unwrap().map_err(|error| error.rpc().unwrap().clone()) }
        };
        let without = call(json!({ "name": "s__build" })).await;
        match (down.has_extensions(), up.has_extensions()) {
            (true, _) => assert_eq!(without.unwrap_err().code.0, -32021, "{down} to {up}"),
            (false, false) => assert_eq!(without.unwrap_err().code.0, -32601, "{down} to {up}"),
            // The server decides, so its tools have no task support that the client could see.
            (false, true) => assert!(matches!(without.unwrap(), Round::Complete(_)), "{down} to {up}"),
        }
        let plain = call(json!({ "name": "s__plain", "task": {} })).await;
        match (down.has_extensions(), up.has_extensions()) {
            (false, false) => assert_eq!(plain.unwrap_err().code.0, -32601, "{down} to {up}"),
            _ => assert!(matches!(plain.unwrap(), Round::Complete(_)), "{down} to {up}"),
        }
    }
}

#[tokio::test]
async fn the_member_task_of_a_call_is_rejected_for_a_server_without_tasks() {
    for up in REVISIONS {
        let server = Server::builder("s", "1").versions([up]).tool(tool("plain", async || "done")).build();
        let client = connect(gateway(&[("s", &server)]).await, V25).await;
        let tools = raw(&client, "tools/list", json!({})).await.unwrap();
        assert_eq!(tools["tools"][0].get("execution"), None, "{up}");
        let error = raw(&client, "tools/call", json!({ "name": "s__plain", "task": {} })).await.unwrap_err();
        assert_eq!(error.code.0, -32601, "{up}");
    }
}

#[tokio::test]
async fn the_tasks_of_other_users_and_forged_ids_are_unknown() {
    for (down, up) in cells() {
        let permits = Arc::new(Semaphore::new(0));
        let gateway = gateway(&[("s", &server(up, TaskSupport::Optional, &permits))]).await;
        let gateway = gateway.build().unwrap().versions([down]).build();
        let (ada, grace) = (connect_as(&gateway, "ada").await, connect_as(&gateway, "grace").await);
        ada.list_tools().await.unwrap();
        let task = start(&ada, "s__build").await;
        let mut forged = task.id().to_owned();
        forged.replace_range(60..61, if &forged[60..61] == "A" { "B" } else { "A" });
        let last = if down.has_extensions() { "tasks/update" } else { "tasks/result" };
        for method in ["tasks/get", "tasks/cancel", last] {
            let params = |id: &str| json!({ "taskId": id, "inputResponses": {} });
            let unknown = raw(&ada, method, params("unknown")).await.unwrap_err();
            assert_eq!(unknown.code.0, -32602, "{method} {unknown}");
            assert_eq!(raw(&grace, method, params(task.id())).await.unwrap_err(), unknown, "{down} to {up}: {method}");
            assert_eq!(raw(&ada, method, params(&forged)).await.unwrap_err(), unknown, "{down} to {up}: {method}");
        }
        assert_eq!(task.status().await.unwrap().status, TaskStatus::Working, "{down} to {up}");
        if !down.has_extensions() {
            assert!(grace.list_tasks().await.unwrap().is_empty(), "{up}");
        }
    }
}

/// Answers with a name.
struct User;

impl Handler for User {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new().with_elicitation(ElicitationCapability::new().with_form())
    }

    fn elicit(&self, form: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        let name = if form.message == "First name?" { "Ada" } else { "Lovelace" };
        Box::pin(async move { Ok(ElicitResult::accept(JsonObject::new().with("name", name))) })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

#[tokio::test]
async fn the_questions_of_a_task_reach_the_user() {
    for (down, up) in cells() {
        for is_http in [true, false] {
            let ask = async |inputs: Inputs, context: Context| {
                context.detach().await;
                let Answer { name: first } = inputs.elicit("first", "First name?").await?;
                let Answer { name: last } = inputs.elicit("last", "Last name?").await?;
                Ok::<_, ToolError>(format!("{first} {last}"))
            };
            let server = builder(up).tool(tool("ask", ask).task(TaskSupport::Required)).build();
            let host = Host::builder("gateway", "1");
            let host = match is_http {
                true => host.server("s", mcp_client::http::Http::new(over_http(server).await).unwrap()),
                false => host.server("s", &server),
            };
            let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([down]).build();
            let user = client().handler(User).connect(over_http(gateway).await).await.unwrap();
            user.list_tools().await.unwrap();
            let task = start(&user, "s__ask").await;
            assert_eq!(result(&task).await, "Ada Lovelace", "{down} to {up}, over HTTP: {is_http}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_lost_during_a_task_causes_an_error() {
    for (down, up) in cells() {
        let permits = Arc::new(Semaphore::new(0));
        let (url, serving) = served(server(up, TaskSupport::Optional, &permits)).await;
        let reconnect = Reconnect::default().attempts(1).first(Duration::from_millis(10));
        let host = Host::builder("gateway", "1").reconnect(reconnect).call_timeout(Duration::from_secs(2));
        let host = host.server("s", mcp_client::http::Http::new(url).unwrap()).start().await.unwrap();
        let client = connect(Gateway::builder(host), down).await;
        client.list_tools().await.unwrap();
        let task = start(&client, "s__build").await;
        serving.abort();
        drop(serving.await);
        let lost = async {
            loop {
                // An open connection ends later than the listener. The request lets other tasks run.
                if let Err(error) = task.status().await {
                    return error;
                }
            }
        };
        let error = timeout(SOON, lost).await.unwrap();
        let error = error.rpc().unwrap();
        assert_eq!(error.code.0, -32603, "{down} to {up}: {error}");
    }
}

#[tokio::test]
async fn a_cancelled_call_that_becomes_no_task_ends_at_its_server() {
    let version = ProtocolVersion::LATEST;
    let (runs, ended) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let slow = {
        let (runs, ended) = (Arc::clone(&runs), Arc::clone(&ended));
        move || {
            let (runs, ended) = (Arc::clone(&runs), Ended(Arc::clone(&ended)));
            async move {
                let _ended = ended;
                runs.add_permits(1);
                std::future::pending::<&str>().await
            }
        }
    };
    let client = connect(gateway(&[("s", &builder(version).tool(tool("slow", slow)).build())]).await, version).await;
    let call = client.request_raw("tools/call", json!({ "name": "s__slow", "arguments": {} })).raw_result();
    let call = tokio::spawn(call.capabilities(with_extension()).raw_inputs().into_future());
    timeout(SOON, runs.acquire()).await.unwrap().unwrap().forget();
    call.abort();
    timeout(SOON, ended.acquire()).await.unwrap().unwrap().forget();
}

/// Adds a permit when the call ends.
struct Ended(Arc<Semaphore>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_keeps_its_connection_until_the_end_of_its_lifetime() {
    const LIFETIME: Duration = Duration::from_secs(30 * 60);
    for (down, up) in cells() {
        let permits = Arc::new(Semaphore::new(0));
        let builder = builder(up).limits(|limits| limits.tasks.ttl = LIFETIME);
        let server = with_tools(builder, TaskSupport::Optional, &permits);
        let options = ServerOptions::new().idle_stop(Duration::from_secs(60));
        let host = Host::builder("gateway", "1").server_with("s", Pipe::new(server), options).start().await.unwrap();
        let client = connect(Gateway::builder(host.clone()), down).await;
        client.list_tools().await.unwrap();
        let task = start(&client, "s__build").await;
        // Longer than the idle time of a connection.
        tokio::time::sleep(LIFETIME / 2).await;
        permits.add_permits(1);
        assert_eq!(result(&task).await, "built", "{down} to {up}");
        tokio::time::sleep(LIFETIME).await;
        assert_eq!(host.status("s").unwrap().state, ServerState::Stopped, "{down} to {up}");
    }
}

/// Serves a task as JSON with members that the library does not know, in the dialect of its revision.
struct Raw;

const TOOL: &str = r#"{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}"#;

fn member(is_extension: bool) -> &'static str {
    if is_extension { r#""ttlMs":null,"pollIntervalMs":20"# } else { r#""ttl":null,"pollInterval":20"# }
}

fn task(call: &SourceCall, status: &str, more: &str) -> String {
    let times = r#""createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z""#;
    let members = member(call.context().version().has_extensions());
    format!(r#""taskId":"up-1","status":"{status}",{times},{members},"vendor":1.50{more}"#)
}

fn answer(call: &SourceCall, json: String) -> BoxFuture<'static, Result<SourceResult, RpcError>> {
    let result = SourceResult::new(json, call.context().version());
    Box::pin(std::future::ready(Ok(result)))
}

impl Source for Raw {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        Box::pin(std::future::ready(Ok(SourcePage::new([SourceDefinition::new(TOOL).unwrap()]))))
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        assert!(call.accepts_task());
        let task = task(&call, "working", "");
        let json = match call.context().version().has_extensions() {
            true => format!(r#"{{"resultType":"task",{task}}}"#),
            false => format!(r#"{{"task":{{{task}}},"later":[1]}}"#),
        };
        Box::pin(std::future::ready(Ok(SourceOutcome::Task(SourceResult::new(json, call.context().version())))))
    }

    fn get_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        assert_eq!(call.name(), "up-1");
        let json = match call.context().version().has_extensions() {
            true => {
                let result = r#","result":{"content":[],"vendor":2.50}"#;
                format!(r#"{{"resultType":"complete",{}}}"#, task(&call, "completed", result))
            }
            false => format!("{{{}}}", task(&call, "completed", "")),
        };
        answer(&call, json)
    }

    fn task_result(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let related = r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"up-1"},"a/b":1}"#;
        answer(&call, format!(r#"{{"content":[],"vendor":2.50,{related}}}"#))
    }
}

#[tokio::test]
async fn unknown_members_of_tasks_pass() {
    for (down, up) in cells() {
        let server = Server::builder::<()>("s", "1").versions([up]).source(Raw).build();
        let client = connect(gateway(&[("s", &server)]).await, down).await;
        let call = client.request_raw("tools/call", json!({ "name": "s__t", "task": { "ttl": 1000 } })).raw_result();
        let call = call.capabilities(with_extension()).raw_inputs().raw_task(true);
        let Round::Task(created) = timeout(SOON, call.into_future()).await.unwrap().unwrap() else {
            panic!("{down} to {up}: the call did not become a task")
        };
        let text = std::str::from_utf8(created.result().bytes()).unwrap();
        assert!(text.contains(r#""vendor":1.50"#) && !text.contains("up-1"), "{down} to {up}: {text}");
        let created: Value = serde_json::from_str(text).unwrap();
        let task = if down.has_extensions() { &created } else { &created["task"] };
        let (has_ttl, has_ttl_ms) = (task.get("ttl").is_some(), task.get("ttlMs").is_some());
        assert_eq!((has_ttl, has_ttl_ms), (!down.has_extensions(), down.has_extensions()), "{down} to {up}: {text}");
        let id = task["taskId"].as_str().unwrap();
        let params = || json!({ "taskId": id });
        let state = raw(&client, "tasks/get", params()).await.unwrap();
        assert_eq!((&state["taskId"], &state["vendor"]), (&task["taskId"], &json!(1.5)), "{down} to {up}: {state}");
        let result = match down.has_extensions() {
            true => state["result"].clone(),
            false => raw(&client, "tasks/result", params()).await.unwrap(),
        };
        assert_eq!(result["vendor"], 2.5, "{down} to {up}: {result}");
        let related = &result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
        match down.has_extensions() {
            true => assert!(related.is_null(), "{down} to {up}: {result}"),
            false => assert_eq!(related, id, "{down} to {up}: {result}"),
        }
        assert_eq!(result["_meta"]["a/b"], if up.has_extensions() { json!(null) } else { json!(1) }, "{result}");
    }
}
