//! Requests about the tasks of a process that has ended: none of them reaches the next process, which gives its tasks the same ids.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use mcp_agent::{Gateway, Host};
use mcp_client::{Client, Round, transport::Connect};
use mcp_protocol::{
    ClientCapabilities, ErrorCode, JsonObject, ProtocolVersion, RpcError, SubscriptionFilter,
    tasks::{TaskStatus, ext},
};
use mcp_server::{
    Server,
    inputs::StateKeys,
    source::{Source, SourceCall, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult},
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};

use crate::common::{Processes, REVISIONS, SOON, client, connect, page, raw};

/// A process whose tasks have the ids `T0`, `T1` and so on.
#[derive(Clone)]
struct Numbering {
    version: ProtocolVersion,
    /// The users of the tasks of this process, with the states of their tasks.
    tasks: Arc<Mutex<Vec<(String, TaskStatus)>>>,
    events: Events,
}

/// The events of all processes of a server.
#[derive(Clone)]
struct Events {
    /// Has a permit for each created task.
    created: Arc<Semaphore>,
    /// Has a permit for each request that waits for a result.
    waiting: Arc<Semaphore>,
    /// Each further process has a completed task of `ada` from its start.
    has_task_of_ada: Arc<AtomicBool>,
}

impl Numbering {
    fn several(version: ProtocolVersion) -> (Processes, Events) {
        let [created, waiting] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
        let events = Events { created, waiting, has_task_of_ada: Arc::default() };
        let of_processes = events.clone();
        let start = move |_| {
            let events = of_processes.clone();
            let has_task = events.has_task_of_ada.load(Ordering::SeqCst);
            let tasks = has_task.then(|| ("ada".to_owned(), TaskStatus::Completed)).into_iter().collect();
            let source = Self { version, tasks: Arc::new(Mutex::new(tasks)), events };
            Server::builder::<()>("s", "1").versions([version]).source(source).build()
        };
        (Processes::new(start), events)
    }

    fn result(user: &str) -> Value {
        json!({ "content": [{ "type": "text", "text": user }] })
    }

    fn state(&self, number: usize) -> Option<Value> {
        let (user, status) = self.tasks.lock().unwrap().get(number)?.clone();
        let mut state = json!({
            "taskId": format!("T{number}"), "status": status,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
        });
        // The servers of 2026-07-28 omit the type of each result.
        if self.version.has_core_tasks() {
            (state["ttl"], state["pollInterval"]) = (Value::Null, json!(20));
        } else {
            (state["ttlMs"], state["pollIntervalMs"]) = (Value::Null, json!(20));
            if status == TaskStatus::Completed {
                state["result"] = Self::result(&user);
            }
        }
        Some(state)
    }

    /// Changes the task of a call. Returns its state.
    fn of(&self, call: &SourceCall, change: impl FnOnce(&mut TaskStatus)) -> Result<Value, RpcError> {
        let number = call.name().strip_prefix('T').and_then(|number| number.parse().ok()).unwrap();
        if let Some((_, status)) = self.tasks.lock().unwrap().get_mut(number) {
            change(status);
        }
        self.state(number).ok_or_else(|| RpcError::invalid_params("the process has no such task"))
    }

    fn answer(&self, result: Result<Value, RpcError>) -> BoxFuture<'static, Result<SourceResult, RpcError>> {
        let version = self.version;
        Box::pin(std::future::ready(result.map(|result| SourceResult::new(result.to_string(), version))))
    }
}

impl Source for Numbering {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page([r#"{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}"#])
    }

    /// Creates a task. That of the user `slow` does not end.
    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let params: Value = serde_json::from_str(call.params().get()).unwrap();
        let user = params["arguments"]["user"].as_str().unwrap().to_owned();
        let status = if user == "slow" { TaskStatus::Working } else { TaskStatus::Completed };
        let number = {
            let mut tasks = self.tasks.lock().unwrap();
            tasks.push((user, status));
            tasks.len() - 1
        };
        let mut created = self.state(number).unwrap();
        if self.version.has_core_tasks() {
            created = json!({ "task": created });
        } else {
            created["resultType"] = json!("task");
        }
        self.events.created.add_permits(1);
        let created = SourceResult::new(created.to_string(), self.version);
        Box::pin(std::future::ready(Ok(SourceOutcome::Task(created))))
    }

    fn get_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        self.answer(self.of(&call, |_| ()))
    }

    fn task_result(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let state = self.of(&call, |_| ());
        let user = self.tasks.lock().unwrap().first().map(|(user, _)| user.clone()).unwrap_or_default();
        if state.as_ref().is_ok_and(|state| state["status"] == "working") {
            self.events.waiting.add_permits(1);
            return Box::pin(std::future::pending());
        }
        self.answer(state.map(|_| Self::result(&user)))
    }

    fn cancel_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let state = self.of(&call, |status| *status = TaskStatus::Cancelled);
        self.answer(state.map(|state| if self.version.has_core_tasks() { state } else { json!({}) }))
    }

    fn update_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        self.answer(self.of(&call, |_| ()).map(|_| json!({})))
    }
}

/// Returns a gateway in front of a server, with keys that other gateways share.
async fn gateway(processes: &Processes, down: ProtocolVersion) -> Server {
    let connector: Arc<dyn Connect> = Arc::new(processes.clone());
    let host = Host::builder("gateway", "1").server("s", connector).start().await.unwrap();
    let gateway = Gateway::builder(host).state_keys(StateKeys::new([[7; 32]]));
    gateway.build().unwrap().versions([down]).build()
}

/// Starts a task of a user, and returns its id.
async fn start(client: &Client, user: &str) -> String {
    let params = json!({ "name": "s__job", "arguments": { "user": user }, "task": {} });
    let tasks = ClientCapabilities::new().with_extension(ext::IDENTIFIER, JsonObject::new());
    let call = client.request_raw("tools/call", params).raw_result().capabilities(tasks).raw_inputs();
    let Round::Task(created) = timeout(SOON, call.raw_task(true).into_future()).await.unwrap().unwrap() else {
        panic!("the tool runs as a task")
    };
    let created: Value = serde_json::from_slice(created.result().bytes()).unwrap();
    created.get("task").unwrap_or(&created)["taskId"].as_str().unwrap().to_owned()
}

fn kill(processes: &Processes) {
    (0..processes.started()).for_each(|number| processes.kill(number));
}

/// Sends a request about a task. A subscription returns whether the stream follows the task.
async fn request(client: &Client, method: &'static str, id: &str) -> Result<Value, RpcError> {
    if method == "subscriptions/listen" {
        let listening = client.listen(SubscriptionFilter::new().with_tasks([id])).into_future();
        let subscription = timeout(SOON, listening).await.unwrap().unwrap();
        return Ok(json!(!subscription.honoured().task_ids.is_empty()));
    }
    let mut params = json!({ "taskId": id });
    if method == "tasks/update" {
        params["inputResponses"] = json!({});
    }
    raw(client, method, params).await
}

/// The methods of a client of a revision, with the user of the task. A request for the result of a running task waits.
fn methods(down: ProtocolVersion) -> &'static [(&'static str, &'static str)] {
    match down == REVISIONS[0] {
        true => &[("tasks/get", "grace"), ("tasks/result", "grace"), ("tasks/cancel", "slow")],
        false => &[
            ("tasks/get", "grace"),
            ("tasks/update", "slow"),
            ("subscriptions/listen", "slow"),
            ("tasks/cancel", "slow"),
        ],
    }
}

#[tokio::test]
async fn a_request_about_a_task_reaches_no_other_process() {
    for (down, up) in crate::common::cells() {
        for (method, user) in methods(down) {
            let case = format!("{down} {up} {method}");
            let (processes, events) = Numbering::several(up);
            let [grace, other] = [gateway(&processes, down).await, gateway(&processes, down).await]
                .map(|gateway| async move { client().connect(&gateway).await.unwrap() });
            let (grace, other) = (grace.await, other.await);
            let id = start(&grace, user).await;
            let answer = request(&grace, method, &id).await.unwrap();
            let is_typed = down == REVISIONS[1] && *method != "subscriptions/listen";
            assert_eq!(answer.get("resultType"), is_typed.then_some(&json!("complete")), "{case}");
            assert_ne!(answer, false, "{case}");
            // The other gateway has the same keys, and processes of its own.
            start(&other, "ada").await;
            let unreachable = |answer: Result<Value, RpcError>| match answer {
                Ok(answer) => assert_eq!(answer, false, "{case}"),
                Err(error) => {
                    // Both gateways are in this program, so the other one reports an ended process too.
                    let data = json!({ "server": "s", "reason": "connection_ended" });
                    assert_eq!((error.code, error.data), (ErrorCode::INVALID_PARAMS, Some(data)), "{case}");
                }
            };
            unreachable(request(&other, method, &id).await);
            events.has_task_of_ada.store(true, Ordering::SeqCst);
            kill(&processes);
            // The first request can precede the notice of the end.
            for _ in 0..2 {
                unreachable(request(&grace, method, &id).await);
            }
        }
    }
}

#[tokio::test]
async fn the_wait_of_a_gateway_for_a_task_ends_with_the_process() {
    // A client before the tasks waits for the result of its call.
    for down in [ProtocolVersion::V2025_03_26, ProtocolVersion::V2025_06_18] {
        let (processes, events) = Numbering::several(REVISIONS[0]);
        let connector: Arc<dyn Connect> = Arc::new(processes.clone());
        let host = Host::builder("gateway", "1").server("s", connector).start().await.unwrap();
        let grace = connect(Gateway::builder(host), down).await;
        let call = tokio::spawn(async move {
            raw(&grace, "tools/call", json!({ "name": "s__job", "arguments": { "user": "slow" } })).await
        });
        timeout(SOON, events.created.acquire()).await.unwrap().unwrap().forget();
        events.has_task_of_ada.store(true, Ordering::SeqCst);
        kill(&processes);
        let ended = timeout(SOON, call).await.unwrap().unwrap();
        let error = ended.unwrap_err();
        assert_eq!(error.code, ErrorCode::INTERNAL_ERROR, "{down}: {error}");
        assert_eq!(error.data, Some(json!({ "server": "s", "retryable": false })), "{down}");
    }
}

#[tokio::test]
async fn a_request_that_waits_for_a_result_ends_with_the_process_of_the_task() {
    let down = REVISIONS[0];
    for up in REVISIONS {
        let (processes, events) = Numbering::several(up);
        let grace = client().connect(&gateway(&processes, down).await).await.unwrap();
        let id = start(&grace, "slow").await;
        let waiting = tokio::spawn(async move { request(&grace, "tasks/result", &id).await });
        if up == down {
            timeout(SOON, events.waiting.acquire()).await.unwrap().unwrap().forget();
        }
        events.has_task_of_ada.store(true, Ordering::SeqCst);
        kill(&processes);
        let error = timeout(SOON, waiting).await.unwrap().unwrap().unwrap_err();
        let data = json!({ "server": "s", "reason": "connection_ended" });
        assert_eq!((&*error.message, error.data), ("Task not found", Some(data)), "{up}");
    }
}

#[tokio::test]
async fn a_cursor_of_a_list_of_tasks_names_no_number_of_a_connection() {
    let (processes, _events) = Numbering::several(REVISIONS[0]);
    let host = Host::builder("gateway", "1").server("s", Arc::new(processes.clone()) as Arc<dyn Connect>);
    let grace = connect(Gateway::builder(host.start().await.unwrap()), REVISIONS[0]).await;
    for cursor in [r#"["s",7,null]"#, r#"["s","7",null]"#, r#"["t",null,null]"#, "s"] {
        let error = raw(&grace, "tasks/list", json!({ "cursor": cursor })).await.unwrap_err();
        assert_eq!((error.code, &*error.message), (ErrorCode::INVALID_PARAMS, "the cursor is not valid: list again"));
    }
    let listed = raw(&grace, "tasks/list", json!({ "cursor": r#"["s",null,null]"# })).await.unwrap();
    assert_eq!(listed, json!({ "tasks": [] }));
}
