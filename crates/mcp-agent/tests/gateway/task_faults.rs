//! Tasks that ask, that do not end, and that are requested by several clients at once.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{Gateway, Host, ServerOptions};
use mcp_client::{Client, transport::Connect};
use mcp_protocol::{
    ClientCapabilities, ElicitParams, ElicitationCapability, FormElicitParams, InputRequest, JsonObject,
    ProtocolVersion, RpcError, tasks::ext,
};
use mcp_server::{
    Server,
    source::{Source, SourceCall, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult},
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};
use tokio::{
    sync::Barrier,
    time::{Instant, timeout},
};

use crate::common::{REVISIONS, SOON, cells, client, gateway, over_http, page};

/// The states of a task.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Works,
    /// It asks when a client requests its result. Two states are sent at the same time.
    Asks,
    /// Each state has other questions.
    AsksWithoutEnd,
    /// As [`Kind::AsksWithoutEnd`]. Another question has the key of the first one.
    AsksTwice,
}

/// A server with one task.
struct Tasks {
    kind: Kind,
    states: Barrier,
    results: Arc<AtomicUsize>,
    keys: AtomicUsize,
}

pub(crate) fn question() -> InputRequest {
    let schema = JsonObject::new().with("type", "object").with("properties", json!({}));
    InputRequest::elicit(&ElicitParams::Form(FormElicitParams::new("Name?", schema))).unwrap()
}

impl Tasks {
    fn of(kind: Kind, version: ProtocolVersion) -> (Server, Arc<AtomicUsize>) {
        let results = Arc::<AtomicUsize>::default();
        let (states, keys) = (Barrier::new(2), AtomicUsize::new(0));
        let source = Self { kind, states, results: Arc::clone(&results), keys };
        (Server::builder::<()>("s", "1").versions([version]).source(source).build(), results)
    }

    fn state(&self, version: ProtocolVersion) -> Value {
        let mut task = json!({
            "taskId": "up-1", "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "status": if self.kind == Kind::Works { "working" } else { "input_required" },
        });
        let times = if version.has_extensions() { ["ttlMs", "pollIntervalMs"] } else { ["ttl", "pollInterval"] };
        (task[times[0]], task[times[1]]) = (Value::Null, json!(60_000));
        if version.has_extensions() && matches!(self.kind, Kind::AsksWithoutEnd | Kind::AsksTwice) {
            let first = self.keys.fetch_add(100, Ordering::Relaxed);
            task["inputRequests"] = (first..first + 100).map(|key| (key.to_string(), json!(question()))).collect();
        }
        task
    }
}

impl Source for Tasks {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page([r#"{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}"#])
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let version = call.context().version();
        let mut task = self.state(version);
        task["status"] = json!("working");
        let result = match version.has_extensions() {
            true => {
                task["resultType"] = json!("task");
                task
            }
            false => json!({ "task": task }),
        };
        let result = SourceResult::new(result.to_string(), version);
        Box::pin(std::future::ready(Ok(SourceOutcome::Task(result))))
    }

    fn get_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(async move {
            let version = call.context().version();
            if self.kind == Kind::Asks {
                self.states.wait().await;
            }
            let mut state = self.state(version);
            if version.has_extensions() {
                state["resultType"] = json!("complete");
            }
            let mut state = state.to_string();
            if self.kind == Kind::AsksTwice {
                // The created task has the keys below 100.
                let hidden = r#""inputRequests":{"100":{"method":"roots/list"},"#;
                state = state.replace(r#""inputRequests":{"#, hidden);
            }
            Ok(SourceResult::new(state, version))
        })
    }

    fn task_result(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(async move {
            self.results.fetch_add(1, Ordering::Relaxed);
            if self.kind == Kind::Asks {
                call.ask(question()).await?;
            }
            std::future::pending().await
        })
    }

    fn update_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let result = SourceResult::new(r#"{"resultType":"complete"}"#, call.context().version());
        Box::pin(std::future::ready(Ok(result)))
    }
}

fn capabilities() -> ClientCapabilities {
    ClientCapabilities::new()
        .with_elicitation(ElicitationCapability::new().with_form())
        .with_extension(ext::IDENTIFIER, JsonObject::new())
}

/// Sends a request without a time limit, and returns its result.
pub(crate) async fn raw(client: &Client, method: &'static str, params: Value) -> Result<Value, RpcError> {
    let sent =
        client.request_raw(method, params).raw_result().capabilities(capabilities()).answers(Arc::new(User::new()));
    match sent.total_timeout(None).idle_timeout(None).raw_inputs().raw_task(true).await {
        Ok(mcp_client::Round::Complete(result)) => Ok(serde_json::from_slice(result.bytes()).unwrap()),
        Ok(mcp_client::Round::Task(created)) => Ok(serde_json::from_slice(created.result().bytes()).unwrap()),
        Ok(_) => panic!("{method} asks"),
        Err(error) => Err(error.rpc().unwrap_or_else(|| panic!("{error}")).clone()),
    }
}

/// Starts the task, and returns its id.
pub(crate) async fn start(client: &Client) -> Value {
    let created = raw(client, "tools/call", json!({ "name": "s__t", "task": {} })).await.unwrap();
    created.get("task").unwrap_or(&created)["taskId"].clone()
}

#[tokio::test]
async fn two_requests_for_the_state_of_a_task_park_one_request_for_its_result() {
    let (server, results) = Tasks::of(Kind::Asks, REVISIONS[0]);
    let gateway = gateway(&[("s", &server)]).await.build().unwrap().versions([REVISIONS[1]]).build();
    let client = client().connect(&gateway).await.unwrap();
    let id = start(&client).await;
    let state = || raw(&client, "tasks/get", json!({ "taskId": id }));
    let (one, other) = timeout(SOON, async { tokio::join!(state(), state()) }).await.unwrap();
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!(one["inputRequests"].as_object().unwrap().len(), 1, "{one}");
    assert_eq!(one["inputRequests"], other["inputRequests"]);
    assert_eq!(results.load(Ordering::Relaxed), 1);
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn requests_for_the_state_of_a_task_wait_together_for_its_first_question() {
    // The task has the status of a task that asks, and its request for the result receives no question.
    let (server, results) = Tasks::of(Kind::AsksWithoutEnd, REVISIONS[0]);
    let gateway = gateway(&[("s", &server)]).await.build().unwrap().versions([REVISIONS[1]]).build();
    let client = client().connect(&gateway).await.unwrap();
    let id = start(&client).await;
    for parked in 1..3 {
        let began = Instant::now();
        let state = || raw(&client, "tasks/get", json!({ "taskId": id }));
        let states = timeout(SOON, async { tokio::join!(state(), state(), state(), state()) }).await.unwrap();
        for state in <[_; 4]>::from(states) {
            assert_eq!(state.unwrap()["inputRequests"], json!({}));
        }
        assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
        assert_eq!(results.load(Ordering::Relaxed), parked);
    }
}

/// Answers a form when four forms are open.
struct User(Barrier);

impl User {
    fn new() -> Self {
        Self(Barrier::new(4))
    }
}

impl mcp_client::Handler for User {
    fn capabilities(&self) -> ClientCapabilities {
        capabilities()
    }

    fn elicit(
        &self,
        _form: mcp_client::InputContext<FormElicitParams>,
    ) -> BoxFuture<'_, Result<mcp_protocol::ElicitResult, RpcError>> {
        Box::pin(async {
            self.0.wait().await;
            Ok(mcp_protocol::ElicitResult::accept(JsonObject::new()))
        })
    }
}

// The clock is paused. It advances only while each task waits for a time.
#[tokio::test(start_paused = true)]
async fn a_request_for_the_result_of_a_task_that_does_not_end_is_bounded() {
    for (down, up) in cells().filter(|(down, _)| down.has_core_tasks()) {
        let kinds: &[(Kind, &str)] = match up.has_extensions() {
            true => &[(Kind::Works, "still runs"), (Kind::AsksWithoutEnd, "too many input requests")],
            false => &[(Kind::Works, "still runs")],
        };
        for (kind, expected) in kinds {
            let (server, _) = Tasks::of(*kind, up);
            let gateway = gateway(&[("s", &server)]).await.build().unwrap().versions([down]).build();
            // A state has 100 questions. The client receives them in two parts: 64 at the same time, and then 36.
            let client = client().handler(User::new()).connect(&gateway).await.unwrap();
            let id = start(&client).await;
            let waiting = raw(&client, "tasks/result", json!({ "taskId": id }));
            let error = timeout(Duration::from_secs(7200), waiting).await.unwrap().unwrap_err();
            assert_eq!(error.code.0, -32603, "{up} {error}");
            assert!(error.message.contains(expected), "{up} {error}");
            if *kind == Kind::Works {
                assert_eq!(error.data.unwrap()["retryable"], true, "{up}");
            }
        }
    }
}

#[tokio::test]
async fn a_question_of_a_task_that_its_client_did_not_declare_does_not_pass() {
    let version = REVISIONS[1];
    let (server, _) = Tasks::of(Kind::AsksWithoutEnd, version);
    let gateway = gateway(&[("s", &server)]).await.build().unwrap().versions([version]).build();
    let client = client().connect(&gateway).await.unwrap();
    let id = start(&client).await;
    let without_forms = ClientCapabilities::new().with_extension(ext::IDENTIFIER, JsonObject::new());
    for (declared, passes) in [(capabilities(), true), (without_forms, false)] {
        let state = client.request_raw("tasks/get", json!({ "taskId": id })).raw_result().capabilities(declared);
        let state = timeout(SOON, state.raw_inputs().into_future()).await.unwrap();
        match passes {
            true => assert!(matches!(state.unwrap(), mcp_client::Round::Complete(_))),
            false => {
                let error = state.unwrap_err().rpc().unwrap().clone();
                assert_eq!(error.code.0, -32603);
                assert!(error.message.contains("did not declare"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn the_client_reads_the_questions_of_a_task_that_the_gateway_checked() {
    let (server, _) = Tasks::of(Kind::AsksTwice, REVISIONS[1]);
    let gateway = gateway(&[("s", &server)]).await.build().unwrap().versions([REVISIONS[1]]).build();
    let client = client().connect(&gateway).await.unwrap();
    let id = start(&client).await;
    let state = client.request_raw("tasks/get", json!({ "taskId": id })).raw_result().capabilities(capabilities());
    let state = timeout(SOON, state.raw_inputs().into_future()).await.unwrap();
    let mcp_client::Round::Complete(state) = state.unwrap() else { panic!("the server returns a state") };
    let state = std::str::from_utf8(state.bytes()).unwrap();
    assert!(state.contains("elicitation/create") && !state.contains("roots/list"), "{state}");
}

#[tokio::test]
async fn the_id_of_a_task_does_not_lead_to_another_server_with_the_name() {
    for (down, up) in cells() {
        // Each server has the task `up-1`.
        let serve = async || {
            let url = over_http(Tasks::of(Kind::Works, up).0).await;
            Arc::new(mcp_client::http::Http::new(&url).unwrap()) as Arc<dyn Connect>
        };
        let host = Host::builder("gateway", "1").server("s", serve().await).start().await.unwrap();
        let gateway = Gateway::builder(host.clone()).build().unwrap().versions([down]).build();
        let client = client().connect(&gateway).await.unwrap();
        let request = async |method, id: &Value| {
            let params = json!({ "taskId": id, "inputResponses": {} });
            timeout(SOON, raw(&client, method, params)).await.unwrap().map(drop)
        };
        let id = start(&client).await;
        request("tasks/get", &id).await.unwrap();
        host.replace("s", serve().await, ServerOptions::new()).await.unwrap();
        let third = if down.has_extensions() { "tasks/update" } else { "tasks/result" };
        for method in ["tasks/get", "tasks/cancel", third] {
            let unknown = request(method, &json!("forged")).await.unwrap_err();
            assert_eq!(request(method, &id).await, Err(unknown), "{down} to {up}: {method}");
        }
        let other = start(&client).await;
        assert_ne!(other, id, "{down} to {up}");
        request("tasks/get", &other).await.unwrap();
    }
}
