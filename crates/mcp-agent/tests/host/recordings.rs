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
    Host, HostBuilder, ServerState,
    config::ServerDefinition,
    record::{Recorder, Recording},
};
use mcp_client::{Handler, InputContext, transport::BoxFuture};
use mcp_protocol::{
    ClientCapabilities, ElicitResult, ElicitationCapability, FormElicitParams, JsonObject, ProtocolVersion, RpcError,
};
use mcp_server::{http::HttpConfig, prelude::*};
use serde_json::json;
use tokio::{net::TcpListener, time::timeout};

use crate::common::{TEST_TIMEOUT, names, server};

#[derive(Deserialize, JsonSchema)]
struct Order {
    what: String,
}

#[derive(Deserialize, JsonSchema)]
struct Login {
    user: String,
    password: String,
}

/// A shop that asks for the size, and whose calls are counted.
fn shop(version: ProtocolVersion, calls: &Arc<AtomicUsize>) -> Server {
    let calls = Arc::clone(calls);
    let order = tool("order", move |inputs: Inputs, Args(Order { what }): Args<Order>| {
        calls.fetch_add(1, Ordering::Relaxed);
        async move {
            let Order { what: size } = inputs.elicit("size", format!("How large is the {what}?")).await?;
            Ok::<_, ToolError>(format!("{size} {what}"))
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
        Box::pin(async { Ok(ElicitResult::accept(JsonObject::new().with("what", "small"))) })
    }
}

fn builder() -> HostBuilder {
    Host::builder("test", "1").handlers(|_| Arc::new(Small))
}

/// Runs a host with lists, calls, questions and answers. Returns what it saw.
async fn run(builder: HostBuilder, password: &str) -> Vec<String> {
    let host = builder.start().await.unwrap();
    let mut seen = names(&host);
    seen.push(host.call("shop:order", json!({ "what": "cup" })).await.unwrap().text());
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
