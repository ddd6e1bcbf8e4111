//! The progress, the log records and the states of running tasks reach the session whose call became the task.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::{Arc, Mutex};

use mcp_agent::{Gateway, Host};
use mcp_client::{Client, Notifications, Round, TaskProgress};
use mcp_protocol::{LoggingLevel, LoggingMessageParams, Meta, ProgressParams, ProtocolVersion, RpcError};
use mcp_server::{
    Server,
    source::{Source, SourceCall, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult, TaskNotifier},
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json, value::RawValue};
use tokio::time::timeout;

use crate::common::{Pipe, SOON, client, over_http, page};

const VERSION: ProtocolVersion = ProtocolVersion::V2025_11_25;

/// A server whose tasks the test moves on.
#[derive(Default, Clone)]
pub(crate) struct Tasks(Arc<Mutex<Vec<TaskNotifier>>>);

fn state(id: &str, status: &str) -> String {
    let times = r#""createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z""#;
    format!(r#"{{"taskId":"{id}","status":"{status}","ttl":null,{times},"vendor":1.50}}"#)
}

impl Tasks {
    pub(crate) fn with<T>(&self, task: usize, notify: impl FnOnce(&TaskNotifier) -> T) -> T {
        notify(&self.0.lock().unwrap()[task])
    }

    pub(crate) fn change(&self, task: usize, status: &str) {
        let state: Box<RawValue> = serde_json::from_str(&state(&format!("up-{task}"), status)).unwrap();
        self.with(task, |notifier| notifier.status(&state));
    }
}

impl Source for Tasks {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page([r#"{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}"#])
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let mut tasks = self.0.lock().unwrap();
        let id = format!("up-{}", tasks.len());
        tasks.push(call.task_notifier(&id).unwrap());
        let created = format!(r#"{{"task":{}}}"#, state(&id, "working"));
        Box::pin(async move {
            call.forward_progress(ProgressParams::new(0, 1.0)).await;
            Ok(SourceOutcome::Task(SourceResult::new(created, VERSION)))
        })
    }
}

/// Starts a task. Returns its id, and its progress.
pub(crate) async fn start(client: &Client) -> (String, TaskProgress) {
    let call = client.request_raw("tools/call", json!({ "name": "s__t", "task": {} })).on_progress(drop);
    let Round::Task(created) = timeout(SOON, call.raw_inputs().raw_task(true).into_future()).await.unwrap().unwrap()
    else {
        panic!("the tool runs as a task")
    };
    let json: Value = serde_json::from_slice(created.result().bytes()).unwrap();
    (json["task"]["taskId"].as_str().unwrap().to_owned(), created.take_progress().unwrap())
}

/// Returns the parameters of the next notification with a method.
pub(crate) async fn next(notices: &mut Notifications, method: &str) -> String {
    let found = async {
        loop {
            let notice = notices.next().await.unwrap();
            if notice.method() == method {
                return notice.raw_params().unwrap().get().to_owned();
            }
        }
    };
    timeout(SOON, found).await.unwrap()
}

#[tokio::test]
async fn the_notifications_of_a_task_reach_its_session_until_the_task_ends() {
    for is_http in [false, true] {
        let tasks = Tasks::default();
        let server = Server::builder::<()>("s", "1").versions([VERSION]).source(tasks.clone()).build();
        let host = Host::builder("gateway", "1");
        let host = match is_http {
            true => host.server("s", mcp_client::http::Http::new(over_http(server).await).unwrap()),
            false => host.server("s", Pipe::new(server)),
        };
        let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([VERSION]).build();
        let (client, other) = (client().connect(&gateway).await.unwrap(), client().connect(&gateway).await.unwrap());
        client.list_tools().await.unwrap();
        let (mut notices, mut of_other) = (client.notifications(), other.notifications());
        let (id, mut progress) = start(&client).await;
        assert!(!id.contains("up-0"));

        let meta = Meta::new().with("com.example/a", 1).with("io.modelcontextprotocol/related-task", "up-0");
        let mut notice = ProgressParams::new(0, 2.5).with_total(4.0).with_message("half").with_meta(meta);
        notice.extra.insert("vendor".to_owned(), json!({ "n": 1 }));
        tasks.with(0, |notifier| notifier.progress(notice));
        let received = timeout(SOON, progress.next()).await.unwrap().unwrap();
        assert_eq!((received.progress, received.total, received.message.as_deref()), (2.5, Some(4.0), Some("half")));
        assert_eq!(received.extra["vendor"], json!({ "n": 1 }));
        let meta = received.meta.unwrap();
        assert_eq!((meta.related_task(), &meta["com.example/a"]), (Some(&*id), &json!(1)));

        tasks.with(0, |notifier| notifier.log(LoggingMessageParams::new(LoggingLevel::Debug, "too low")));
        tasks.with(0, |notifier| notifier.log(LoggingMessageParams::new(LoggingLevel::Error, "step")));
        let record: Value = serde_json::from_str(&next(&mut notices, "notifications/message").await).unwrap();
        assert_eq!(record["data"], "step");
        assert_eq!(record["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], *id);

        for status in ["input_required", "completed"] {
            tasks.change(0, status);
            let text = next(&mut notices, "notifications/tasks/status").await;
            assert_eq!(text, state(&id, status), "over HTTP: {is_http}");
        }

        // The task has ended, so its token is not valid any more. Another task has notifications of its own.
        let (second, mut of_second) = start(&client).await;
        tasks.with(0, |notifier| notifier.progress(ProgressParams::new(0, 9.0)));
        tasks.with(1, |notifier| notifier.progress(ProgressParams::new(0, 3.0)));
        assert_eq!(timeout(SOON, of_second.next()).await.unwrap().unwrap().progress, 3.0);
        tasks.change(1, "working");
        assert_eq!(next(&mut notices, "notifications/tasks/status").await, state(&second, "working"));
        assert!(timeout(std::time::Duration::ZERO, progress.next()).await.is_err());
        assert!(timeout(std::time::Duration::ZERO, of_other.next()).await.is_err(), "another session");
    }
}

/// The status of the tasks of a server, which the test sets.
#[derive(Clone)]
struct Status(Arc<Mutex<&'static str>>);

impl Status {
    fn new(status: &'static str) -> Self {
        Self(Arc::new(Mutex::new(status)))
    }

    fn set(&self, status: &'static str) {
        *self.0.lock().unwrap() = status;
    }
}

/// A server whose tasks have a status of the test. A request for a result fails at once.
struct Staged(Tasks, Status);

impl Source for Staged {
    fn features(&self) -> SourceFeatures {
        self.0.features()
    }

    fn list(&self, list: SourceList, call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        self.0.list(list, call)
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        self.0.call_tool(call)
    }

    fn get_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let state = SourceResult::new(state(call.name(), *self.1.0.lock().unwrap()), VERSION);
        Box::pin(std::future::ready(Ok(state)))
    }

    fn task_result(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(std::future::ready(Err(RpcError::internal("the server is busy"))))
    }
}

#[tokio::test]
async fn a_final_state_ends_the_notifications_of_a_task() {
    let tasks = Tasks::default();
    let server = Server::builder::<()>("s", "1")
        .versions([VERSION])
        .source(Staged(tasks.clone(), Status::new("completed")))
        .build();
    let host = Host::builder("gateway", "1").server("s", Pipe::new(server)).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([VERSION]).build();
    let client = client().connect(&gateway).await.unwrap();
    client.list_tools().await.unwrap();
    let (id, mut progress) = start(&client).await;
    // The progress before the final state is not lost.
    tasks.with(0, |notifier| notifier.progress(ProgressParams::new(0, 2.0)));
    client.request_raw("tasks/get", json!({ "taskId": id })).await.unwrap();
    assert_eq!(timeout(SOON, progress.next()).await.unwrap().unwrap().progress, 2.0);
    tasks.with(0, |notifier| notifier.progress(ProgressParams::new(0, 3.0)));
    let (_, mut of_second) = start(&client).await;
    tasks.with(1, |notifier| notifier.progress(ProgressParams::new(0, 2.0)));
    assert_eq!(timeout(SOON, of_second.next()).await.unwrap().unwrap().progress, 2.0);
    assert!(timeout(std::time::Duration::ZERO, progress.next()).await.is_err());
}

#[tokio::test]
async fn an_error_of_a_request_for_the_result_does_not_end_the_notifications_of_a_task_that_works() {
    let (tasks, status) = (Tasks::default(), Status::new("working"));
    let source = Staged(tasks.clone(), status.clone());
    let server = Server::builder::<()>("s", "1").versions([VERSION]).source(source).build();
    let host = Host::builder("gateway", "1").server("s", Pipe::new(server)).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([VERSION]).build();
    let client = client().connect(&gateway).await.unwrap();
    client.list_tools().await.unwrap();
    let (id, mut progress) = start(&client).await;
    let result = async || client.request_raw("tasks/result", json!({ "taskId": id })).await.map(drop).unwrap_err();
    assert_eq!(result().await.rpc().unwrap().message, "the server is busy");
    tasks.with(0, |notifier| notifier.progress(ProgressParams::new(0, 2.0)));
    assert_eq!(timeout(SOON, progress.next()).await.unwrap().unwrap().progress, 2.0);

    // The task has failed, so the error is its result.
    status.set("failed");
    assert_eq!(result().await.rpc().unwrap().message, "the server is busy");
    let (_, mut of_second) = start(&client).await;
    tasks.with(0, |notifier| notifier.progress(ProgressParams::new(0, 3.0)));
    tasks.with(1, |notifier| notifier.progress(ProgressParams::new(0, 2.0)));
    assert_eq!(timeout(SOON, of_second.next()).await.unwrap().unwrap().progress, 2.0);
    assert!(timeout(std::time::Duration::ZERO, progress.next()).await.is_err());
}
