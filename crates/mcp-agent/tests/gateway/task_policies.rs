//! The policies about tasks whose tool is not in the lists of the gateway. The clock of these tests is paused.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_agent::{
    Catalog, Gateway, Host, Names, ServerOptions,
    filter::{ToolFilter, ToolOverride},
    policy::Policy,
};
use mcp_client::{Client, transport::BoxFuture};
use mcp_protocol::{ProtocolVersion, RpcError};
use mcp_server::{
    Server,
    inputs::StateKeys,
    source::{Source, SourceCall, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult},
};
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};

use crate::common::{Late, Pipe, SOON, connect_as, page, raw};

const VERSION: ProtocolVersion = ProtocolVersion::V2025_11_25;
const SECOND: Duration = Duration::from_secs(1);
const TASK: &str = r#"{"taskId":"up-1","status":"working","ttl":null,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"}"#;

/// The names of the tools that a server lists; `None` if the list fails.
type Listed = Option<&'static [&'static str]>;

/// A server with one task. Its tools only read.
struct Tasks(Listed);

impl Source for Tasks {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let Some(names) = self.0 else {
            return Box::pin(std::future::ready(Err(RpcError::internal("the list fails"))));
        };
        let members = r#""inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"},"annotations":{"readOnlyHint":true}"#;
        let tools: Vec<_> = names.iter().map(|name| format!(r#"{{"name":"{name}",{members}}}"#)).collect();
        page(tools.iter().map(String::as_str))
    }

    fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let result = SourceResult::new(format!(r#"{{"task":{TASK}}}"#), VERSION);
        Box::pin(std::future::ready(Ok(SourceOutcome::Task(result))))
    }

    fn get_task(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(std::future::ready(Ok(SourceResult::new(TASK, VERSION))))
    }
}

/// Returns a server that starts when the semaphore has a permit.
fn starting_late(listed: Listed, permits: usize) -> Late {
    let server = Server::builder::<()>("s", "1").versions([VERSION]).source(Tasks(listed)).build();
    Late(Pipe::new(server), Arc::new(Semaphore::new(permits)))
}

/// Connects ada to a gateway in front of these servers. All gateways have the same keys.
async fn ada(servers: &[(&str, &Late)], names: Names, policy: &str) -> Client {
    let mut host = Host::builder("gateway", "1").start_limit(SECOND).policy(Policy::parse("p", policy).unwrap());
    for (name, server) in servers {
        host = host.server(*name, (*server).clone());
    }
    let gateway = Gateway::builder(host.start().await.unwrap()).names(names).state_keys(StateKeys::new([[1; 32]]));
    connect_as(&gateway.build().unwrap().versions([VERSION]).build(), "ada").await
}

/// Creates the task with the tool `t` of the server `s`, and returns its id.
async fn created() -> Value {
    let ada = ada(&[("s", &starting_late(Some(&["t"]), 1))], Names::Provider, "").await;
    let created = raw(&ada, "tools/call", json!({ "name": "s__t", "task": {} })).await.unwrap();
    created["task"]["taskId"].clone()
}

/// Returns whether the task is known to its caller.
async fn is_known(client: &Client, id: &Value) -> bool {
    match raw(client, "tasks/get", json!({ "taskId": id })).await {
        Ok(state) => state["taskId"] == *id,
        Err(error) => {
            assert_eq!((error.code.0, &*error.message), (-32602, "Task not found"));
            false
        }
    }
}

/// A server that removes its tool `t` during the call, before it creates the task. The semaphore has a permit when the task is created.
struct Removing {
    is_removed: AtomicBool,
    own: Arc<OnceLock<Server>>,
    creation: Arc<Semaphore>,
}

impl Source for Removing {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, list: SourceList, call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let names: &[_] = if self.is_removed.load(Ordering::SeqCst) { &["other"] } else { &["t"] };
        Box::pin(async move { Tasks(Some(names)).list(list, call).await })
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        Box::pin(async move {
            self.is_removed.store(true, Ordering::SeqCst);
            self.own.get().unwrap().notify().tools_changed();
            self.creation.acquire().await.unwrap().forget();
            Tasks(None).call_tool(call).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn the_id_of_a_task_names_a_tool_that_its_server_removes_before_it_creates_the_task() {
    let (own, creation) = (Arc::<OnceLock<Server>>::default(), Arc::new(Semaphore::new(0)));
    let source =
        Removing { is_removed: AtomicBool::new(false), own: Arc::clone(&own), creation: Arc::clone(&creation) };
    let server = Server::builder::<()>("s", "1").versions([VERSION]).source(source).build();
    let late = Late(Pipe::new(own.get_or_init(|| server).clone()), Arc::new(Semaphore::new(1)));
    let host = Host::builder("gateway", "1").server("s", late).start().await.unwrap();
    let mut changes = host.catalog_changes();
    let gateway = Gateway::builder(host).state_keys(StateKeys::new([[1; 32]])).build().unwrap();
    let first = connect_as(&gateway.versions([VERSION]).build(), "ada").await;
    let removal = async {
        let is_removed = |catalog: &Catalog| catalog.tools().iter().all(|tool| tool.original_name() == "other");
        timeout(SOON, changes.wait_for(is_removed)).await.unwrap().unwrap();
        creation.add_permits(1);
    };
    let call = raw(&first, "tools/call", json!({ "name": "s__t", "task": {} }));
    let (created, ()) = tokio::join!(call, removal);
    let id = created.unwrap()["task"]["taskId"].clone();
    for (denied, expected) in [("t", false), ("other", true)] {
        let policy = format!("[[rule]]\ntool = \"{denied}\"\neffect = \"deny\"\n");
        let ada = ada(&[("s", &starting_late(Some(&["other"]), 1))], Names::Provider, &policy).await;
        assert_eq!(is_known(&ada, &id).await, expected, "{denied}");
    }
}

const READS: &str = "default = \"deny\"\n[[rule]]\nannotation.read_only = true\neffect = \"allow\"\n";

#[tokio::test(start_paused = true)]
async fn the_policies_decide_about_the_name_of_a_tool_that_is_not_in_the_lists() {
    let id = created().await;
    let deny = |tool: &str| format!("[[rule]]\nserver = \"s\"\ntool = \"{tool}\"\neffect = \"deny\"\n");
    // Either the server has removed the tool, or another server has its raw name.
    for (has_removed, policy, expected) in [
        (true, deny("t"), false),
        (true, deny("other"), true),
        (true, READS.to_owned(), false),
        (false, deny("t"), false),
        (false, deny("other"), true),
        // The annotations of the tool are known.
        (false, READS.to_owned(), true),
    ] {
        let first = starting_late(Some(&["t"]), 1);
        let server = starting_late(Some(if has_removed { &["other"] } else { &["t"] }), 1);
        let servers = [("first", &first), ("s", &server)];
        let ada = ada(&servers, Names::Raw, &policy).await;
        assert_eq!(is_known(&ada, &id).await, expected, "{has_removed} {policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_policies_find_the_annotations_of_a_renamed_tool() {
    let renamed = ToolFilter::new().change("t", ToolOverride::new().name("renamed"));
    let ada = async |policy: &str| {
        let (server, options) = (starting_late(Some(&["t"]), 1), ServerOptions::new().filter(renamed.clone()));
        let host = Host::builder("gateway", "1").policy(Policy::parse("p", policy).unwrap());
        let host = host.server_with("s", server, options).start().await.unwrap();
        let gateway = Gateway::builder(host).state_keys(StateKeys::new([[1; 32]]));
        connect_as(&gateway.build().unwrap().versions([VERSION]).build(), "ada").await
    };
    let created = raw(&ada("").await, "tools/call", json!({ "name": "s__renamed", "task": {} })).await.unwrap();
    assert!(is_known(&ada(READS).await, &created["task"]["taskId"]).await);
}

#[tokio::test(start_paused = true)]
async fn a_task_of_a_denied_tool_is_unknown_also_while_the_tools_of_its_server_are_unknown() {
    const START: Duration = Duration::from_secs(3);
    let id = created().await;
    let deny = |what: &str| format!("[[rule]]\nprincipal = \"ada\"\n{what}\neffect = \"deny\"\n");
    let (all, tool, other) = (deny("server = \"s\""), deny("tool = \"t\""), deny("tool = \"other\""));
    let (listed, none, fails): (Listed, Listed, Listed) = (Some(&["t"]), Some(&[]), None);
    for (policy, lists, expected) in [
        // The request does not wait for the server.
        (&all, listed, (false, Duration::ZERO)),
        (&all, none, (false, Duration::ZERO)),
        (&all, fails, (false, Duration::ZERO)),
        (&tool, listed, (false, START)),
        (&tool, none, (false, START)),
        (&tool, fails, (false, START)),
        (&other, listed, (true, START)),
        (&other, none, (true, START)),
        (&other, fails, (true, START)),
        (&READS.to_owned(), listed, (true, START)),
        (&READS.to_owned(), none, (false, START)),
    ] {
        let server = starting_late(lists, 0);
        let ada = ada(&[("s", &server)], Names::Provider, policy).await;
        let began = Instant::now();
        let state = async { (is_known(&ada, &id).await, began.elapsed()) };
        let start = async {
            sleep(START).await;
            server.1.add_permits(16);
        };
        let (state, ()) = tokio::join!(state, start);
        assert_eq!(state, expected, "{policy} {lists:?}");
        // The server runs now.
        assert_eq!(is_known(&ada, &id).await, expected.0, "{policy} {lists:?}");
    }
}
