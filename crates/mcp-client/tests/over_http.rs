//! Behaviour specific to HTTP: streams, sessions and headers, against a real server in every revision.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{error::Error as _, future::pending, time::Duration};

use mcp_client::{Client, Reconnect, State, Update, protocol::ProtocolVersion};
use mcp_server::{
    prelude::*,
    tasks::{TaskPolicy, TaskSupport},
};
use serde_json::json;
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
    time::timeout,
};

use crate::common::{builder, start};

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Deserialize, JsonSchema)]
struct Echo {
    #[schemars(extend("x-mcp-header" = "Text"))]
    text: String,
}

/// Reports its drop.
struct Dropped(UnboundedSender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send("dropped").ok();
    }
}

fn server(version: ProtocolVersion) -> (Server, UnboundedReceiver<&'static str>) {
    let (events, seen) = unbounded_channel();
    let server = Server::builder("real", "1")
        .versions([version])
        .tool(tool("echo", async |Args(Echo { text }): Args<Echo>| text))
        .tool(tool("hold", move || {
            let events = events.clone();
            async move {
                let _guard = Dropped(events.clone());
                events.send("entered").ok();
                pending::<()>().await;
            }
        }))
        .tool(tool("job", async || "done").task(TaskSupport::Optional).task_policy(TaskPolicy::Immediately))
        .resource(resource("config://app", async || "dark"))
        .build();
    (server, seen)
}

async fn serve(server: &Server, address: &str) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = server.clone();
    let serving = tokio::spawn(async move { server.serve_http_on(listener, HttpConfig::new()).await.unwrap() });
    (address, serving)
}

async fn connect(server: &Server) -> Client {
    let (address, _serving) = serve(server, "127.0.0.1:0").await;
    builder().connect(format!("http://{address}/mcp")).await.unwrap()
}

async fn event(seen: &mut UnboundedReceiver<&'static str>) -> &'static str {
    timeout(TEST_TIMEOUT, seen.recv()).await.expect("nothing happens").unwrap()
}

#[tokio::test]
async fn receives_list_changes() {
    for &version in ProtocolVersion::ALL {
        let (server, _seen) = server(version);
        let client = connect(&server).await;
        let mut subscription = client.subscribe(["config://app"]).await.unwrap();
        server.notify().resource_updated("config://app");
        let update = timeout(TEST_TIMEOUT, subscription.next()).await.expect("nothing changes").unwrap().unwrap();
        assert_eq!(update, Update::ResourceUpdated { uri: "config://app".into() }, "{version}");
        drop(subscription);
        // Other calls continue during and after it.
        assert_eq!(client.call_tool("echo", json!({ "text": "on" })).await.unwrap().text(), "on", "{version}");
        client.close().await;
    }
}

#[tokio::test]
async fn a_dropped_call_ends_on_the_server() {
    for &version in ProtocolVersion::ALL {
        let (server, mut seen) = server(version);
        let client = connect(&server).await;
        let call = start(client.call_tool("hold", ()));
        assert_eq!(event(&mut seen).await, "entered");
        call.abort();
        assert_eq!(event(&mut seen).await, "dropped", "{version}");
        assert_eq!(client.pending(), 0);
        assert!(client.call_tool("hold", ()).idle_timeout(Duration::from_millis(50)).await.unwrap_err().is_timeout());
        assert_eq!((event(&mut seen).await, event(&mut seen).await), ("entered", "dropped"), "{version}");
    }
}

#[tokio::test]
async fn mirrors_arguments_with_and_without_a_listing() {
    for &version in ProtocolVersion::ALL {
        let (server, _seen) = server(version);
        for lists in [true, false] {
            let client = connect(&server).await;
            if lists {
                client.list_tools().await.unwrap();
            }
            let text = " größer\n";
            let echoed = client.call_tool("echo", json!({ "text": text })).await.unwrap();
            assert_eq!(echoed.text(), text, "{version}");
        }
    }
}

#[tokio::test]
async fn runs_calls_as_tasks_when_possible() {
    for &version in ProtocolVersion::ALL {
        let (server, _seen) = server(version);
        let client = connect(&server).await;
        let started = client.call_tool("job", ()).as_task().await.unwrap();
        assert_eq!(started.task().is_some(), version.has_core_tasks() || version.has_extensions(), "{version}");
        let result = timeout(TEST_TIMEOUT, started.result()).await.expect("the task does not end").unwrap();
        assert_eq!(result.text(), "done", "{version}");
    }
}

#[tokio::test]
async fn runs_many_calls_concurrently() {
    for &version in ProtocolVersion::ALL {
        let (server, _seen) = server(version);
        let client = connect(&server).await;
        let calls: Vec<_> =
            (0..32).map(|n| start(client.call_tool("echo", json!({ "text": n.to_string() })))).collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap().unwrap().text(), n.to_string(), "{version}");
        }
        assert_eq!(client.pending(), 0);
    }
}

#[tokio::test]
async fn a_call_waits_for_a_restarting_server() {
    for &version in ProtocolVersion::ALL {
        let (first, mut seen) = server(version);
        let (address, serving) = serve(&first, "127.0.0.1:0").await;
        let client = builder().connect(format!("http://{address}/mcp")).await.unwrap();
        client.list_tools().await.unwrap();
        first.shutdown();
        timeout(TEST_TIMEOUT, serving).await.expect("the server did not stop").unwrap();
        let mut states = client.states();
        let call = start(client.call_tool("echo", json!({ "text": "on" })).idle_timeout(TEST_TIMEOUT));
        let waits = states.wait_for(|state| matches!(state, State::Connecting { .. }));
        timeout(TEST_TIMEOUT, waits).await.expect("no client connected").unwrap();
        let (second, _seen) = server(version);
        let (_, _serving) = serve(&second, &address).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "on", "{version}");
        assert_eq!(client.state(), State::Ready);
        assert!(seen.try_recv().is_err());
    }
}

#[tokio::test]
async fn a_stopped_server_is_unreachable() {
    for &version in ProtocolVersion::ALL {
        for attempts in [0, 2, 8] {
            let (server, _seen) = server(version);
            let (address, serving) = serve(&server, "127.0.0.1:0").await;
            let policy = Reconnect::default().attempts(attempts).first(Duration::from_millis(20));
            let client = builder().reconnect(policy).connect(format!("http://{address}/mcp")).await.unwrap();
            client.list_tools().await.unwrap();
            server.shutdown();
            timeout(TEST_TIMEOUT, serving).await.expect("the server did not stop").unwrap();
            // Two attempts are over before the call is; eight are not.
            let limit = if attempts == 2 { TEST_TIMEOUT } else { Duration::from_millis(200) };
            let call = client.call_tool("echo", json!({ "text": "on" })).idle_timeout(limit);
            let error = timeout(TEST_TIMEOUT, call.into_future()).await.expect("it waits for ever").unwrap_err();
            assert!(error.is_unreachable() && error.is_retryable(), "{version}, {attempts}: {error:?}");
        }
    }
}

#[tokio::test]
async fn calls_a_restarted_server_again() {
    for &version in ProtocolVersion::ALL {
        let (first, _seen) = server(version);
        let (address, serving) = serve(&first, "127.0.0.1:0").await;
        let client = builder().connect(format!("http://{address}/mcp")).await.unwrap();
        assert_eq!(client.call_tool("echo", json!({ "text": "1" })).await.unwrap().text(), "1");
        first.shutdown();
        timeout(TEST_TIMEOUT, serving).await.expect("the server did not stop").unwrap();
        let (second, _seen) = server(version);
        let (_, _serving) = serve(&second, &address).await;
        let again =
            timeout(TEST_TIMEOUT, client.call_tool("echo", json!({ "text": "2" }))).await.expect("no client answered");
        assert_eq!(again.unwrap().text(), "2", "{version}");
    }
}

#[tokio::test]
async fn an_invalid_address_has_a_reason() {
    let error = Client::connect("https://[x/").await.unwrap_err();
    assert!(error.is_invalid_request());
    assert_eq!(error.to_string(), "the URL of the endpoint is invalid");
    assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("invalid IPv6 address"));
    for address in ["localhost:8080/mcp", "example.com/mcp", "127.0.0.1:3000"] {
        let error = Client::connect(address).await.unwrap_err();
        assert!(error.is_invalid_request(), "{address}: {error:?}");
        assert!(error.to_string().ends_with("begin it with `http://` or `https://`"), "{address}: {error}");
    }
}
