//! The lists of tasks of a gateway: a caller receives the tasks of its own credentials only, without those that a policy hides.

use std::{sync::Arc, time::Duration};

use mcp_agent::{
    Gateway, Host, ServerOptions, Sharing,
    policy::{Gate, PolicyFile},
};
use mcp_client::transport::{BoxFuture, Connect};
use mcp_protocol::{ElicitResult, ProtocolVersion, RpcError};
use mcp_server::{
    Server,
    source::{Source, SourceCall, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult},
};

use serde_json::json;

use crate::common::{Pipe, Processes, client, connect_as, page, raw};

const TASK: &str = r#"{"taskId":"up-1","status":"working","ttl":null,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"}"#;

/// A server whose list has the tasks of all callers of its credentials.
struct Tasks;

impl Source for Tasks {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page([
            r#"{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}"#,
            r#"{"name":"other","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}"#,
        ])
    }

    fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let result = SourceResult::new(format!(r#"{{"task":{TASK}}}"#), ProtocolVersion::V2025_11_25);
        Box::pin(std::future::ready(Ok(SourceOutcome::Task(result))))
    }

    fn get_task(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(std::future::ready(Ok(SourceResult::new(TASK, ProtocolVersion::V2025_11_25))))
    }

    fn list_tasks(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let json = format!(r#"{{"tasks":[{TASK}]}}"#);
        Box::pin(std::future::ready(Ok(SourceResult::new(json, ProtocolVersion::V2025_11_25))))
    }
}

#[tokio::test]
async fn a_caller_with_shared_credentials_receives_no_tasks_of_other_callers() {
    let version = ProtocolVersion::V2025_11_25;
    let server = || Server::builder::<()>("s", "1").versions([version]).source(Tasks).build();
    let of_ada: Arc<dyn Connect> = Arc::new(Pipe::new(server()));
    let options = ServerOptions::new().connector_of(move |name| (name == "ada").then(|| Arc::clone(&of_ada)));
    let host = Host::builder("gateway", "1").server_with("s", Pipe::new(server()), options).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([version]).build();
    for (user, tasks) in [("ada", 1), ("grace", 0)] {
        let client = connect_as(&gateway, user).await;
        assert!(client.list_tasks().await.unwrap().is_empty(), "no connection of {user} is open");
        client.call_tool("s__t", ()).as_task().await.unwrap();
        let listed = client.list_tasks().await.unwrap();
        assert_eq!(listed.len(), tasks, "{user}");
    }
}

#[tokio::test]
async fn a_task_of_a_tool_that_a_changed_policy_denies_is_unknown() {
    let version = ProtocolVersion::V2025_11_25;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.toml");
    std::fs::write(&path, "").unwrap();
    let file = PolicyFile::load(&path).unwrap();
    let server = Server::builder::<()>("s", "1").versions([version]).source(Tasks).build();
    let of_ada: Arc<dyn Connect> = Arc::new(Pipe::new(server.clone()));
    let options = ServerOptions::new().connector_of(move |_| Some(Arc::clone(&of_ada)));
    let host = Host::builder("gateway", "1").gate(Gate::new().policy_file(file.clone()));
    let host = host.server_with("s", Pipe::new(server), options).start().await.unwrap();
    let gateway = || Gateway::builder(host.clone()).build().unwrap().versions([version]).build();
    let ada = connect_as(&gateway(), "ada").await;
    let created = raw(&ada, "tools/call", json!({ "name": "s__t", "task": {} })).await.unwrap();
    let id = created["task"]["taskId"].clone();
    // This gateway has not created the task, and does not know its tool.
    let other = connect_as(&gateway(), "ada").await;
    for (denied, is_known, is_known_by_other) in [("other", true, true), ("t", false, true), ("*", false, false)] {
        std::fs::write(&path, format!("[[rule]]\ntool = \"{denied}\"\neffect = \"deny\"\n")).unwrap();
        file.reload().unwrap();
        let state = raw(&ada, "tasks/get", json!({ "taskId": id })).await;
        assert_eq!(state.as_ref().map(|state| &state["taskId"]).ok(), is_known.then_some(&id), "{denied}");
        if let Err(error) = state {
            assert_eq!((error.code.0, &*error.message), (-32602, "Task not found"), "{denied}");
            let result = raw(&ada, "tasks/result", json!({ "taskId": id })).await.unwrap_err();
            assert_eq!(result, error, "{denied}");
        }
        let listed = raw(&ada, "tasks/list", json!({})).await.unwrap();
        let expected: Vec<_> = is_known.then_some(&id).into_iter().collect();
        let ids: Vec<_> = listed["tasks"].as_array().unwrap().iter().map(|task| &task["taskId"]).collect();
        assert_eq!(ids, expected, "{denied}");
        let of_other = other.list_tasks().await.unwrap();
        assert_eq!(of_other.len(), usize::from(is_known_by_other), "{denied}");
    }
}

/// A server that does not answer requests for lists of tasks.
struct Hangs;

impl Source for Hangs {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page([r#"{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}"#])
    }

    fn list_tasks(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_available_delays_no_list() {
    let version = ProtocolVersion::V2025_11_25;
    let server = move |source: bool| {
        let builder = Server::builder::<()>("s", "1").versions([version]);
        if source { builder.source(Tasks).build() } else { builder.source(Hangs).build() }
    };
    let own = Processes::new(move |_| server(true));
    let stuck = Processes::new(move |_| server(true));
    stuck.stick();
    let hangs = Processes::new(move |_| server(false));
    // Each session has a process of its own, and no call needs that of this server.
    let unused = Processes::new(move |_| server(true));
    let of_session = || ServerOptions::new().sharing(Sharing::Session);
    let host = Host::builder("gateway", "1")
        .server("stuck", stuck.clone())
        .server("stuck2", stuck)
        .server_with("unused", unused.clone(), of_session())
        .server("hangs", hangs)
        .server("s", own);
    let host = host.start_limit(Duration::from_millis(100)).start().await.unwrap();
    let gateway = Gateway::builder(host).build().unwrap().versions([version]).build();
    // A client with capabilities has connections of its own.
    let client = client().on_elicit(async |_form| Ok(ElicitResult::decline())).connect(&gateway).await.unwrap();
    for name in ["s__t", "hangs__t"] {
        let call = client.request_raw("tools/call", json!({ "name": name, "task": {} })).raw_inputs().raw_task(true);
        // The connection of the caller is open from now on.
        let _ = call.await;
    }
    let started = unused.started();
    let began = tokio::time::Instant::now();
    let listed = raw(&client, "tasks/list", json!({})).await.unwrap();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "{listed}");
    assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(unused.started(), started, "a list starts no process");
}

/// Returns the cursor after that of a request; `None` at the end of the list.
type NextCursor = fn(Option<u32>) -> Option<u32>;

/// A server whose list of tasks has no tasks.
struct Pages(NextCursor);

impl Source for Pages {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools().with_tasks()
    }

    fn list(&self, _list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page([r#"{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}"#])
    }

    fn list_tasks(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let mut page = json!({ "tasks": [] });
        if let Some(next) = (self.0)(call.cursor().and_then(|cursor| cursor.parse().ok())) {
            page["nextCursor"] = next.to_string().into();
        }
        let result = SourceResult::new(page.to_string(), ProtocolVersion::V2025_11_25);
        Box::pin(std::future::ready(Ok(result)))
    }
}

#[tokio::test]
async fn the_endless_list_of_a_server_does_not_hide_the_tasks_of_other_servers() {
    const PAGES: usize = 256;
    let version = ProtocolVersion::V2025_11_25;
    let cases: [(NextCursor, usize); 4] = [
        (|_| Some(0), 2),
        (|sent| Some(1 - sent.unwrap_or_default()), PAGES),
        (|sent| Some(sent.map_or(0, |sent| sent + 1)), PAGES),
        (|sent| sent.map_or(Some(0), |sent| (sent < 8).then_some(sent + 1)), 10),
    ];
    for (next, expected) in cases {
        let server = Server::builder::<()>("s", "1").versions([version]).source(Tasks).build();
        let pages = move |_| Server::builder::<()>("s", "1").versions([version]).source(Pages(next)).build();
        let host = Host::builder("gateway", "1").server("pages", Processes::new(pages)).server("s", &server);
        let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([version]).build();
        let client = client().connect(&gateway).await.unwrap();
        let (mut params, mut count) = (json!({}), 0);
        let listed = loop {
            let page = raw(&client, "tasks/list", params).await.unwrap();
            count += 1;
            assert!(count <= PAGES, "the list does not end");
            let Some(cursor) = page.get("nextCursor") else { break page };
            assert_eq!(page["tasks"], json!([]), "{page}");
            params = json!({ "cursor": cursor });
        };
        assert_eq!((listed["tasks"].as_array().unwrap().len(), count), (1, expected));
    }
}
