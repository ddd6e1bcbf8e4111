//! Recorded runs of a host, and their replay without servers.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{
    Caller, Host, HostBuilder, ServerOptions, ServerState,
    config::{Endpoint, ServerDefinition},
    record::{Recorder, Recording},
};
use mcp_client::{
    Handler, InputContext,
    transport::{BoxFuture, Connect},
};
use mcp_protocol::{
    ClientCapabilities, ElicitResult, ElicitationCapability, FormElicitParams, JsonObject, ProtocolVersion, RpcError,
};
use mcp_server::{http::HttpConfig, prelude::*};
use serde_json::json;
use tokio::{net::TcpListener, time::timeout};

use crate::common::{TEST_TIMEOUT, names, scripted, server, text};

#[derive(Deserialize, JsonSchema)]
struct Order {
    item: String,
}

#[derive(Deserialize, JsonSchema)]
struct Login {
    user: String,
    password: String,
}

/// A shop that asks for the size, and whose calls are counted.
fn shop(version: ProtocolVersion, calls: &Arc<AtomicUsize>) -> Server {
    let calls = Arc::clone(calls);
    let order = tool("order", move |inputs: Inputs, Args(Order { item }): Args<Order>| {
        calls.fetch_add(1, Ordering::Relaxed);
        async move {
            let Order { item: size } = inputs.elicit("size", format!("How large is the {item}?")).await?;
            Ok::<_, ToolError>(format!("{size} {item}"))
        }
    });
    let login = tool("login", async |Args(Login { user, password }): Args<Login>| format!("{user} {}", password.len()));
    Server::builder("shop", "1")
        .versions([version])
        .tool(order)
        .tool(login)
        .resource(resource("config://app", async || "dark"))
        .prompt(prompt("review", async || "Review it."))
        .build()
}

struct Small;

impl Handler for Small {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new().with_elicitation(ElicitationCapability::new())
    }

    fn elicit(&self, _: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async { Ok(ElicitResult::accept(JsonObject::new().with("item", "small"))) })
    }
}

fn builder() -> HostBuilder {
    Host::builder("test", "1").handlers(|_| Arc::new(Small))
}

/// Runs a host with lists, calls, questions and answers. Returns the texts that it received.
async fn run(builder: HostBuilder, password: &str) -> Vec<String> {
    let host = builder.start().await.unwrap();
    let mut seen = names(&host);
    seen.push(host.call("shop:order", json!({ "item": "cup" })).await.unwrap().text());
    seen.push(host.call("shop:login", json!({ "user": "ada", "password": password })).await.unwrap().text());
    seen.push(host.call("other:t", ()).await.unwrap().text());
    let contents = host.read("shop", "config://app").await.unwrap();
    seen.push(contents.contents[0].as_text().unwrap().to_owned());
    seen.push(format!("{:?}", host.prompt("shop:review", ()).await.unwrap().messages.len()));
    timeout(TEST_TIMEOUT, host.shutdown()).await.unwrap();
    seen
}

#[tokio::test]
async fn a_run_of_a_host_replays_without_servers() {
    let directory = tempfile::tempdir().unwrap();
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let path = directory.path().join(format!("{version}.jsonl"));
        let calls = Arc::default();
        let recorder = Recorder::create(&path).unwrap();
        let servers = builder()
            .server("other", &server("other", &["t"]))
            .server("shop", &shop(version, &calls))
            .record(recorder.clone());
        let recorded = run(servers, "hunter2").await;
        recorder.finish().unwrap();
        assert!(recorded.contains(&"small cup".to_owned()) && recorded.contains(&"ada 7".to_owned()), "{recorded:?}");
        let made = calls.load(Ordering::Relaxed);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("hunter2") && text.contains("[redacted]"));

        // The password of the replay is another one, and the recorded one is not in the file.
        let recording = Recording::load(&path).unwrap();
        assert_eq!(run(builder().replay(recording.clone()), "another").await, recorded, "{version}");
        assert_eq!((recording.differences(), recording.missing()), (vec![], vec![]), "{version}");
        assert_eq!(calls.load(Ordering::Relaxed), made, "no server ran");
    }
}

#[tokio::test]
async fn a_replay_reports_calls_that_the_recording_does_not_have() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.jsonl");
    let recorder = Recorder::create(&path).unwrap();
    let host = builder().server("s", &server("s", &["a", "b"])).record(recorder.clone()).start().await.unwrap();
    host.call("s:a", ()).await.unwrap();
    host.shutdown().await;
    recorder.finish().unwrap();

    let recording = Recording::load(&path).unwrap();
    // A server that is not in the recording fails alone, and no program starts.
    let unknown = ServerDefinition::stdio("unknown", "no-such-program");
    let host = builder().definition(&unknown).replay(recording.clone()).start().await.unwrap();
    assert_eq!(host.status("unknown").unwrap().state, ServerState::Failed);
    assert!(host.status("unknown").unwrap().reason.unwrap().contains("no further connection"));
    assert_eq!(host.call("s:a", ()).await.unwrap().text(), "a");
    let error = host.call("s:b", ()).await.unwrap_err().to_string();
    assert!(error.contains("the recording has no further request"), "{error}");
    assert_eq!((recording.differences().len(), recording.missing().len()), (1, 0));
}

#[tokio::test]
async fn configured_secrets_are_not_in_a_recording() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run.jsonl");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let leaking = Server::builder("leaking", "1").tool(tool("leak", async || "the key is s3cret-value!")).build();
    let serving = tokio::spawn(async move { leaking.serve_http_on(listener, HttpConfig::new()).await });
    let recorder = Recorder::create(&path).unwrap();
    let definition = ServerDefinition::http("s", &url).header("Authorization", "Bearer s3cret-value");
    let host = builder().definition(&definition).record(recorder.clone()).start().await.unwrap();
    assert_eq!(host.call("s:leak", ()).await.unwrap().text(), "the key is s3cret-value!");
    timeout(Duration::from_secs(20), host.shutdown()).await.unwrap();
    recorder.finish().unwrap();
    serving.abort();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("s3cret") && text.contains("the key is [redacted]!"), "{text}");
}

#[tokio::test]
async fn the_connections_of_principals_are_recorded_and_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let common = scripted(&["t"]).on("tools/call", text("common"));
    let of_ada = scripted(&["t"]).on("tools/call", text("ada"));
    let connector: Arc<dyn Connect> = Arc::new(of_ada.clone());
    let options =
        ServerOptions::new().connector_of(move |principal| (principal == "ada").then(|| Arc::clone(&connector)));
    let call = async |host: &Host| {
        crate::common::until_tools(host, &["s:t"]).await;
        let host = host.for_caller(Caller::new().principal("ada"));
        host.call("s:t", ()).await.unwrap().text()
    };
    let path = directory.path().join("run.jsonl");
    let recorder = Recorder::create(&path).unwrap();
    let host = Host::builder("test", "1").record(recorder.clone());
    let host = host.server_with("s", common.clone(), options.clone()).start().await.unwrap();
    assert_eq!(call(&host).await, "ada");
    host.replace("s", Arc::new(common.clone()), options.clone()).await.unwrap();
    assert_eq!(call(&host).await, "ada");
    assert!(host.remove("s").await);
    host.add("s", Arc::new(common.clone()), options.clone()).unwrap();
    assert_eq!(call(&host).await, "ada");
    host.shutdown().await;
    recorder.finish().unwrap();
    let made = (common.connections(), of_ada.connections());
    assert_eq!(made, (3, 3));

    let recording = Recording::load(&path).unwrap();
    let host = Host::builder("test", "1").replay(recording.clone());
    let host = host.server_with("s", common.clone(), options.clone()).start().await.unwrap();
    assert_eq!(call(&host).await, "ada");
    host.replace("s", Arc::new(common.clone()), options.clone()).await.unwrap();
    assert_eq!(call(&host).await, "ada");
    assert!(host.remove("s").await);
    host.add("s", Arc::new(common.clone()), options).unwrap();
    assert_eq!(call(&host).await, "ada");
    host.shutdown().await;
    assert_eq!((common.connections(), of_ada.connections()), made, "the replay opens no connection");
    assert_eq!((recording.differences(), recording.missing()), (vec![], vec![]));
}

#[tokio::test]
async fn inherited_variables_arguments_and_queries_are_not_in_a_recording() {
    let directory = tempfile::tempdir().unwrap();
    // Cargo sets this variable for each test.
    let inherited = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let mut child = ServerDefinition::stdio("child", "no-such-program").args(["--token", "of-args", "--port", "8080"]);
    let Endpoint::Stdio(stdio) = &mut child.endpoint else { unreachable!() };
    stdio.inherited_env.insert("CARGO_MANIFEST_DIR".to_owned());
    let url = "https://user:of-user@search.example/mcp?api_key=of-query&mode=fast";
    let remote = ServerDefinition::http("remote", url);
    for (definition, secrets) in [(child, vec!["of-args", inherited.as_str()]), (remote, vec!["of-user", "of-query"])] {
        let path = directory.path().join(format!("{}.jsonl", definition.name));
        let recorder = Recorder::create(&path).unwrap();
        let host = builder().record(recorder.clone()).start().await.unwrap();
        let said = format!("{} 8080 fast", secrets.join(" "));
        let leaking = scripted(&["leak"]).on("tools/call", text(&said));
        host.add_definition_with(&definition, Arc::new(leaking)).unwrap();
        let name = format!("{}:leak", definition.name);
        let ready = host.client(&definition.name);
        timeout(TEST_TIMEOUT, ready).await.unwrap().unwrap();
        assert_eq!(host.call(name, ()).await.unwrap().text(), said);
        host.shutdown().await;
        recorder.finish().unwrap();
        let recorded = std::fs::read_to_string(&path).unwrap();
        assert!(recorded.contains("[redacted] [redacted] 8080 fast"), "{recorded}");
        assert!(secrets.iter().all(|secret| !recorded.contains(secret)), "{recorded}");
    }
}
