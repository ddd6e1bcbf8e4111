//! The results of tasks that ask, at a server of the session era, for a client of 2026-07-28. The clock of these tests is paused.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_client::Client;
use mcp_protocol::{JsonObject, ProtocolVersion, RpcError};
use mcp_server::{
    Server,
    source::{Source, SourceCall, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult},
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::{
    common::{REVISIONS, SOON, client, gateway, page},
    task_faults::{question, raw, start},
};

const VERSION: ProtocolVersion = REVISIONS[0];
/// More than the parked calls of a principal.
const TASKS: usize = 65;

/// A server whose tasks ask once, and end with the answer.
#[derive(Clone)]
struct Tasks {
    /// The status of each task.
    statuses: Arc<Mutex<Vec<&'static str>>>,
    /// The number of requests for results.
    results: Arc<Mutex<usize>>,
    /// It has a permit for each completed task.
    completed: Arc<Semaphore>,
}

impl Tasks {
    fn new() -> Self {
        Self { statuses: Arc::default(), results: Arc::default(), completed: Arc::new(Semaphore::new(0)) }
    }

    fn server(&self) -> Server {
        Server::builder::<()>("s", "1").versions([VERSION]).source(self.clone()).build()
    }

    fn number(call: &SourceCall) -> usize {
        call.name().strip_prefix("up-").unwrap().parse().unwrap()
    }

    fn state(&self, task: usize) -> Value {
        json!({
            "taskId": format!("up-{task}"), "status": self.statuses.lock().unwrap()[task], "ttl": null,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
        })
    }

    /// Returns the state of the task of a request.
    fn answer(&self, call: &SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let state = self.state(Self::number(call));
        let is_known = state["status"] != "forgotten";
        let unknown = || RpcError::invalid_params("the task is unknown");
        let state = is_known.then(|| SourceResult::new(state.to_string(), VERSION)).ok_or_else(unknown);
        Box::pin(std::future::ready(state))
    }
}

impl Source for Tasks {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page([r#"{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}"#])
    }

    fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let task = {
            let mut statuses = self.statuses.lock().unwrap();
            statuses.push("input_required");
            statuses.len() - 1
        };
        let created = SourceResult::new(json!({ "task": self.state(task) }).to_string(), VERSION);
        Box::pin(std::future::ready(Ok(SourceOutcome::Task(created))))
    }

    fn get_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        self.answer(&call)
    }

    fn cancel_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        self.statuses.lock().unwrap()[Self::number(&call)] = "cancelled";
        self.answer(&call)
    }

    fn task_result(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(async move {
            let task = Self::number(&call);
            *self.results.lock().unwrap() += 1;
            if self.statuses.lock().unwrap()[task] == "input_required" {
                call.ask(question()).await?;
                self.statuses.lock().unwrap()[task] = "completed";
                self.completed.add_permits(1);
            }
            let link = json!({ "type": "resource_link", "uri": format!("file:///{task}"), "name": "report" });
            Ok(SourceResult::new(json!({ "content": [link] }).to_string(), VERSION))
        })
    }
}

/// Starts a task, and answers its question. Returns the id of the completed task.
async fn completed(client: &Client, tasks: &Tasks) -> Value {
    let (id, question) = asked(client).await;
    let responses = JsonObject::new().with(question, json!({ "action": "accept", "content": {} }));
    raw(client, "tasks/update", json!({ "taskId": id, "inputResponses": responses })).await.unwrap();
    timeout(SOON, tasks.completed.acquire()).await.unwrap().unwrap().forget();
    id
}

/// Starts a task. Returns its id, and the key of its question.
async fn asked(client: &Client) -> (Value, String) {
    let id = start(client).await;
    let state = timeout(SOON, raw(client, "tasks/get", json!({ "taskId": id }))).await.unwrap().unwrap();
    let questions = state["inputRequests"].as_object().unwrap();
    assert_eq!(questions.len(), 1, "{state}");
    (id, questions.keys().next().unwrap().clone())
}

async fn client_of(tasks: &Tasks) -> Client {
    let gateway = gateway(&[("s", &tasks.server())]).await.build().unwrap().versions([REVISIONS[1]]).build();
    client().connect(&gateway).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_parked_request_of_a_task_ends_with_the_task() {
    let tasks = Tasks::new();
    let client = client_of(&tasks).await;
    for task in 0..TASKS {
        let id = completed(&client, &tasks).await;
        let state = raw(&client, "tasks/get", json!({ "taskId": id })).await.unwrap();
        assert_eq!(state["status"], "completed", "{state}");
        assert_eq!(state["result"]["content"][0]["name"], "report", "{state}");
        // The state has the result of the parked request.
        assert_eq!(*tasks.results.lock().unwrap(), task + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_task_names_its_server_once_in_each_uri() {
    let tasks = Tasks::new();
    let client = client_of(&tasks).await;
    let id = completed(&client, &tasks).await;
    // The result of the parked request, and that of a further request.
    for results in 1..3 {
        let state = raw(&client, "tasks/get", json!({ "taskId": id })).await.unwrap();
        assert_eq!(state["result"]["content"][0]["uri"], "mcp://s/file:///0", "{state}");
        assert_eq!(*tasks.results.lock().unwrap(), results);
    }
}

#[tokio::test(start_paused = true)]
async fn the_parked_request_of_a_task_ends_with_its_cancellation() {
    let tasks = Tasks::new();
    let client = client_of(&tasks).await;
    for _ in 0..TASKS {
        let (id, _) = asked(&client).await;
        // The client requests no further state.
        raw(&client, "tasks/cancel", json!({ "taskId": id })).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_parked_request_of_a_task_that_its_server_forgets_ends() {
    let tasks = Tasks::new();
    let client = client_of(&tasks).await;
    for task in 0..TASKS {
        let (id, _) = asked(&client).await;
        tasks.statuses.lock().unwrap()[task] = "forgotten";
        let error = raw(&client, "tasks/get", json!({ "taskId": id })).await.unwrap_err();
        assert_eq!(error.code.0, -32602, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_parked_request_of_a_completed_task_ends_soon_without_a_request_for_the_state() {
    let tasks = Tasks::new();
    let client = client_of(&tasks).await;
    for _ in 1..TASKS {
        completed(&client, &tasks).await;
    }
    sleep(Duration::from_secs(31)).await;
    asked(&client).await;
}
