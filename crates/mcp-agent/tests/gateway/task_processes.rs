//! The tasks of a server with several processes, which number their tasks alike: each request reaches the process of its task.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::{Arc, Mutex};

use mcp_agent::{Gateway, Host, ServerOptions};
use mcp_client::{Client, Round, transport::Connect};
use mcp_protocol::{
    ClientCapabilities, ElicitResult, ElicitationCapability, JsonObject, ProtocolVersion, RpcError, tasks::ext,
};
use mcp_server::{
    Server,
    source::{Source, SourceCall, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult},
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};

use crate::common::{Processes, REVISIONS, SOON, client, complete, page, raw};

const LEGACY: ProtocolVersion = REVISIONS[0];

/// A process of the server. Its first task has the id `T0`.
#[derive(Clone)]
struct Process {
    number: usize,
    /// The users of its tasks.
    tasks: Arc<Mutex<Vec<String>>>,
    waiting: Waiting,
    /// Its list of tasks has further pages without an end, which have no tasks.
    is_endless: bool,
}

/// The calls that wait: each has a permit of `begun`, and ends with a permit of `end`.
#[derive(Clone)]
struct Waiting {
    begun: Arc<Semaphore>,
    end: Arc<Semaphore>,
}

impl Process {
    /// Returns the processes of a server. Their waiting calls are known to the test.
    fn several() -> (Processes, Waiting) {
        Self::several_with(|_| false)
    }

    fn several_with(is_endless: fn(usize) -> bool) -> (Processes, Waiting) {
        let waiting = Waiting { begun: Arc::new(Semaphore::new(0)), end: Arc::new(Semaphore::new(0)) };
        let of_processes = waiting.clone();
        let start = move |number| {
            let (waiting, is_endless) = (of_processes.clone(), is_endless(number));
            let source = Self { number, tasks: Arc::default(), waiting, is_endless };
            Server::builder::<()>("s", "1").versions([LEGACY]).source(source).build()
        };
        (Processes::new(start), waiting)
    }

    fn state(number: usize) -> Value {
        json!({
            "taskId": format!("T{number}"), "status": "completed", "ttl": null,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
        })
    }

    /// Returns the number and the user of the task of a request.
    fn task(&self, call: &SourceCall) -> Result<(usize, String), RpcError> {
        let number = call.name().strip_prefix('T').and_then(|number| number.parse::<usize>().ok());
        let tasks = self.tasks.lock().unwrap();
        let found = number.and_then(|number| Some((number, tasks.get(number)?.clone())));
        found.ok_or_else(|| RpcError::invalid_params("the process has no such task"))
    }

    fn answer(result: Result<Value, RpcError>) -> BoxFuture<'static, Result<SourceResult, RpcError>> {
        Box::pin(std::future::ready(result.map(|result| SourceResult::new(result.to_string(), LEGACY))))
    }
}

impl Source for Process {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page([
            r#"{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}"#,
            r#"{"name":"wait","inputSchema":{"type":"object"}}"#,
        ])
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        if call.name() == "job" {
            let params: Value = serde_json::from_str(call.params().get()).unwrap();
            let mut tasks = self.tasks.lock().unwrap();
            tasks.push(params["arguments"]["user"].as_str().unwrap().to_owned());
            let created = json!({ "task": Self::state(tasks.len() - 1) });
            let created = SourceResult::new(created.to_string(), LEGACY);
            return Box::pin(std::future::ready(Ok(SourceOutcome::Task(created))));
        }
        Box::pin(async move {
            self.waiting.begun.add_permits(1);
            self.waiting.end.acquire().await.unwrap().forget();
            complete(r#"{"content":[]}"#, LEGACY).await
        })
    }

    fn get_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Self::answer(self.task(&call).map(|(number, _)| Self::state(number)))
    }

    fn task_result(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let text = |text: String| json!({ "content": [{ "type": "text", "text": text }] });
        Self::answer(self.task(&call).map(|(_, user)| text(format!("{user} {}", self.number))))
    }

    fn list_tasks(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let page: Option<usize> = call.cursor().map(|cursor| cursor.parse().unwrap());
        let tasks = if page.is_none() { self.tasks.lock().unwrap().len() } else { 0 };
        let mut list = json!({ "tasks": (0..tasks).map(Self::state).collect::<Vec<_>>() });
        if self.is_endless {
            list["nextCursor"] = json!(page.map_or(0, |page| page + 1).to_string());
        }
        Self::answer(Ok(list))
    }
}

/// Returns the capabilities of the clients, with the extension for tasks. Calls with equal capabilities share processes.
fn declared() -> ClientCapabilities {
    let forms = ElicitationCapability::new();
    ClientCapabilities::new().with_elicitation(forms).with_extension(ext::IDENTIFIER, JsonObject::new())
}

/// Starts a task of a user, and returns its id.
async fn start(client: &Client, user: &str) -> String {
    let params = json!({ "name": "s__job", "arguments": { "user": user }, "task": {} });
    let call = client.request_raw("tools/call", params).raw_result().capabilities(declared()).raw_inputs();
    let Round::Task(created) = timeout(SOON, call.raw_task(true).into_future()).await.unwrap().unwrap() else {
        panic!("the tool runs as a task")
    };
    let created: Value = serde_json::from_slice(created.result().bytes()).unwrap();
    let task = created.get("task").unwrap_or(&created);
    task["taskId"].as_str().unwrap().to_owned()
}

/// Returns the user and the process of the result of a task.
async fn result_of(client: &Client, id: &str) -> Result<String, RpcError> {
    let params = || json!({ "taskId": id });
    let state = raw(client, "tasks/get", params()).await?;
    let result = match state.get("result") {
        Some(result) => result.clone(),
        None => raw(client, "tasks/result", params()).await?,
    };
    Ok(result["content"][0]["text"].as_str().unwrap().to_owned())
}

/// Returns the ids of all pages of the tasks of a client.
async fn listed(client: &Client) -> Vec<String> {
    let (mut ids, mut params) = (Vec::new(), json!({}));
    loop {
        let page = raw(client, "tasks/list", params).await.unwrap();
        ids.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].as_str().unwrap().to_owned()));
        let Some(cursor) = page.get("nextCursor") else { return ids };
        // The number of a connection is sealed.
        let (server, _, _): (String, Option<String>, Option<String>) =
            serde_json::from_str(cursor.as_str().unwrap()).unwrap();
        assert_eq!(server, "s");
        params = json!({ "cursor": cursor });
    }
}

#[tokio::test]
async fn a_request_about_a_task_reaches_the_process_of_the_task_alone() {
    for down in REVISIONS {
        let (processes, waiting) = Process::several();
        let connector: Arc<dyn Connect> = Arc::new(processes.clone());
        let options = ServerOptions::new().asks();
        let host = Host::builder("gateway", "1").server_with("s", connector, options).start().await.unwrap();
        let gateway = Gateway::builder(host).build().unwrap().versions([down]).build();
        let user = async || {
            let user = client().on_elicit(async |_form| Ok(ElicitResult::decline()));
            user.connect(&gateway).await.unwrap()
        };
        let (ada, grace) = (user().await, user().await);
        let other = grace.clone();
        let call = tokio::spawn(async move { raw(&other, "tools/call", json!({ "name": "s__wait" })).await });
        timeout(SOON, waiting.begun.acquire()).await.unwrap().unwrap().forget();
        // The call of the other user runs in the first process for calls.
        let of_ada = start(&ada, "ada").await;
        assert_eq!(result_of(&ada, &of_ada).await.as_deref(), Ok("ada 2"), "{down}");
        waiting.end.add_permits(1);
        call.await.unwrap().unwrap();
        // The process is free soon after the result of its call.
        let mut of_grace = Vec::new();
        let is_elsewhere = async {
            loop {
                of_grace.push(start(&grace, "grace").await);
                if result_of(&grace, of_grace.last().unwrap()).await.unwrap() != "grace 2" {
                    break;
                }
            }
        };
        timeout(SOON, is_elsewhere).await.unwrap();
        let (all, of_grace) = (of_grace.len(), of_grace.pop().unwrap());
        assert_eq!(processes.started(), 3, "{down}");
        for _ in 0..2 {
            assert_eq!(result_of(&ada, &of_ada).await.as_deref(), Ok("ada 2"), "{down}");
            assert_eq!(result_of(&grace, &of_grace).await.as_deref(), Ok("grace 1"), "{down}");
        }
        if down == LEGACY {
            // A client without a principal is the same caller, also with other capabilities.
            let plain = client().connect(&gateway).await.unwrap();
            assert_eq!(listed(&plain).await.len(), all + 1);
            let listed = listed(&ada).await;
            assert!(listed.len() == all + 1 && listed.contains(&of_ada) && listed.contains(&of_grace), "{listed:?}");
        }
        let mut cursor = None;
        if down == LEGACY {
            cursor = raw(&ada, "tasks/list", json!({})).await.unwrap().get("nextCursor").cloned();
            assert!(cursor.is_some());
        }
        // A new process must not have the tasks of the former one.
        processes.kill(2);
        let lost = async {
            loop {
                match result_of(&ada, &of_ada).await {
                    Err(error) => return error,
                    Ok(result) => assert_eq!(result, "ada 2", "{down}"),
                }
            }
        };
        let lost = timeout(SOON, lost).await.unwrap();
        let data = json!({ "server": "s", "reason": "connection_ended" });
        assert_eq!((&*lost.message, lost.data), ("Task not found", Some(data)), "{down}");
        if let Some(cursor) = cursor {
            let next = raw(&ada, "tasks/list", json!({ "cursor": cursor })).await.unwrap();
            assert_eq!(next, json!({ "tasks": [] }), "the cursor names the process that has ended");
        }
        assert_eq!(result_of(&grace, &of_grace).await.as_deref(), Ok("grace 1"), "{down}");
    }
}

#[tokio::test]
async fn the_endless_list_of_a_process_does_not_hide_the_tasks_of_another_process() {
    // The first process lists the tools. A call that waits takes a process of its own.
    let (processes, waiting) = Process::several_with(|number| number == 1);
    let connector: Arc<dyn Connect> = Arc::new(processes);
    let host = Host::builder("gateway", "1").server_with("s", connector, ServerOptions::new().asks());
    let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([LEGACY]).build();
    let user = client().on_elicit(async |_form| Ok(ElicitResult::decline())).connect(&gateway).await.unwrap();
    let other = user.clone();
    let call = tokio::spawn(async move { raw(&other, "tools/call", json!({ "name": "s__wait" })).await });
    timeout(SOON, waiting.begun.acquire()).await.unwrap().unwrap().forget();
    let id = start(&user, "ada").await;
    assert_eq!(result_of(&user, &id).await.as_deref(), Ok("ada 2"));
    assert_eq!(listed(&user).await, [id]);
    waiting.end.add_permits(1);
    call.await.unwrap().unwrap();
}
