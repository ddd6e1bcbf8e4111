//! Servers and helpers of the tests.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]
#![allow(dead_code, reason = "each file of tests uses a part of this")]

use std::{sync::Arc, time::Duration};

use mcp_agent::{Host, ServerState};
use mcp_client::transport::{BoxFuture, Connect, Transport, TransportError};
use mcp_protocol::ProtocolVersion;
use mcp_server::{Server, tool};
use mcp_test::peer::{Reply, ScriptedServer};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};

/// The longest wait of a test.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A server with these tools, each of which returns its own name.
pub(crate) fn server(name: &str, tools: &[&'static str]) -> Server {
    let builder = Server::builder(name, "1");
    let tools = tools.iter().copied();
    tools.fold(builder, |builder, name| builder.tool(tool(name, move || async move { name }))).build()
}

/// A scripted server that lists these tools in one page.
pub(crate) fn scripted(tools: &[&str]) -> ScriptedServer {
    without_tools().on("tools/list", page(tools, None))
}

/// A scripted server that answers all lists except for that of its tools.
pub(crate) fn without_tools() -> ScriptedServer {
    ScriptedServer::for_revision(ProtocolVersion::V2025_11_25)
        .on("notifications/initialized", Reply::silence())
        .on("resources/list", Reply::result(json!({ "resources": [] })))
        .on("resources/templates/list", Reply::result(json!({ "resourceTemplates": [] })))
        .on("prompts/list", Reply::result(json!({ "prompts": [] })))
}

/// One page of tools.
pub(crate) fn page(tools: &[&str], next: Option<&str>) -> Reply {
    let tools: Vec<Value> =
        tools.iter().map(|name| json!({ "name": name, "inputSchema": { "type": "object" } })).collect();
    Reply::result(match next {
        Some(next) => json!({ "tools": tools, "nextCursor": next }),
        None => json!({ "tools": tools }),
    })
}

pub(crate) fn text(text: &str) -> Reply {
    Reply::result(json!({ "content": [{ "type": "text", "text": text }] }))
}

/// A connector that opens a connection only after a permit.
#[derive(Clone)]
pub(crate) struct Gated {
    inner: Arc<dyn Connect>,
    pub(crate) gate: Arc<Semaphore>,
}

pub(crate) fn gated(inner: impl Connect) -> Gated {
    Gated { inner: Arc::new(inner), gate: Arc::new(Semaphore::new(0)) }
}

impl Connect for Gated {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async {
            self.gate.acquire().await.map_err(|_| TransportError::closed())?.forget();
            self.inner.connect().await
        })
    }

    fn describe(&self) -> String {
        "a gated server".into()
    }
}

/// Waits until a server has this state.
pub(crate) async fn until_state(host: &Host, server: &str, state: ServerState) {
    let mut events = host.status_events();
    let found = timeout(TEST_TIMEOUT, async {
        while let Some(status) = events.next().await {
            if &*status.name == server && status.state == state {
                return;
            }
        }
        panic!("the host ended");
    });
    assert!(found.await.is_ok(), "{server} is not {state}: {:?}", host.status(server));
}

/// Returns the display names of all tools.
pub(crate) fn names(host: &Host) -> Vec<String> {
    host.catalog().tools().iter().map(|tool| tool.display_name().to_owned()).collect()
}

/// Waits until the catalog has exactly these tools, in this order.
pub(crate) async fn until_tools(host: &Host, expected: &[&str]) {
    let mut changes = host.catalog_changes();
    let has_tools = |catalog: &mcp_agent::Catalog| {
        catalog.tools().iter().map(|tool| tool.display_name()).eq(expected.iter().copied())
    };
    let found = timeout(TEST_TIMEOUT, changes.wait_for(has_tools)).await;
    assert!(found.is_ok(), "{:?}", names(host));
    found.unwrap().unwrap();
}
