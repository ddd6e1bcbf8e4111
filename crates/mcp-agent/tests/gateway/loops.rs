//! A server that leads to the gateway itself, and that shows it by the metadata of requests alone.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use mcp_agent::{Gateway, Host};
use mcp_client::Client;
use mcp_protocol::{ErrorCode, Meta, RpcError};
use mcp_server::{
    Server,
    inputs::StateKeys,
    source::{Source, SourceCall, SourceList, SourceOutcome, SourcePage},
    tool,
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::common::{Pipe, REVISIONS, SOON, cells, client, complete, page};

/// A server that declares no gateway. It forwards each call with its metadata to the client of another server.
#[derive(Clone, Default)]
struct Forwarding {
    target: Arc<OnceLock<Client>>,
    calls: Arc<AtomicUsize>,
    /// The error of the last call.
    error: Arc<OnceLock<RpcError>>,
}

impl Source for Forwarding {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page((list == SourceList::Tools).then_some(r#"{"name":"t","inputSchema":{"type":"object"}}"#))
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let params: Value = serde_json::from_str(call.params().get()).unwrap();
            let meta = Meta::new().with("mcp-gateway/hops", params["_meta"]["mcp-gateway/hops"].clone());
            let sent = self.target.get().unwrap().request_raw("tools/call", json!({ "name": "s__t", "arguments": {} }));
            match timeout(SOON, sent.raw_result().meta(meta).into_future()).await.unwrap() {
                Ok(result) => complete(String::from_utf8(result.bytes().to_vec()).unwrap(), result.version()).await,
                Err(error) => Err(self.error.get_or_init(|| error.rpc().unwrap().clone()).clone()),
            }
        })
    }
}

#[tokio::test]
async fn a_gateway_rejects_a_request_that_comes_back_through_a_server_that_declares_no_gateway() {
    for (down, up) in cells() {
        let forwarding = Forwarding::default();
        let server = Server::builder::<()>("s", "1").versions([up]).source(forwarding.clone()).build();
        let host = Host::builder("gateway", "1").server("s", Pipe::new(server)).start().await.unwrap();
        let builder = Gateway::builder(host);
        let observed = builder.gateway();
        let gateway = builder.build().unwrap().versions([down]).build();
        let inner = client().connect(&gateway).await.unwrap();
        assert!(forwarding.target.set(inner).is_ok());
        let user = client().connect(&gateway).await.unwrap();
        let called = timeout(SOON, user.call_tool("s__t", ()).into_future()).await.unwrap().unwrap_err();
        let error = called.rpc().unwrap();
        // The client of the loop receives no error about its own request.
        assert_eq!(error.code, ErrorCode::INTERNAL_ERROR, "{down} to {up}: {error}");
        assert!(error.message.contains("the request came back to this gateway"), "{down} to {up}: {error}");
        assert_eq!(error.data.as_ref().unwrap()["server"], "s", "{down} to {up}: {error}");
        assert_eq!(forwarding.error.get().unwrap().code, ErrorCode::INVALID_REQUEST, "{down} to {up}");
        assert_eq!(forwarding.calls.load(Ordering::SeqCst), 1, "{down} to {up}");
        // The lists of the server show no gateway.
        assert!(observed.circular_servers().is_empty(), "{down} to {up}");
    }
}

#[tokio::test]
async fn a_server_that_leads_to_the_gateway_itself_has_no_part_in_its_instructions() {
    let keys = |key: u8| StateKeys::new([[key; 32]]);
    let server =
        |name: &str, text: &str| Server::builder(name, "1").instructions(text).tool(tool("t", async || "t")).build();
    // The nodes of a fleet have common keys, and lead to each other.
    for (key, expected) in [(1, "# local\n\n> Use t."), (2, "# local\n\n> Use t.\n\n# node\n\n> Ask the node.")] {
        let host = Host::builder("gateway", "1").server("behind", &server("behind", "Ask the node."));
        let node = Gateway::builder(host.start().await.unwrap()).state_keys(keys(key)).build().unwrap().build();
        let host = Host::builder("gateway", "1").server("local", &server("local", "Use t.")).server("node", &node);
        let host = host.start().await.unwrap();
        for version in REVISIONS {
            let gateway = Gateway::builder(host.clone()).state_keys(keys(1)).build().unwrap();
            let client = client().connect(&gateway.versions([version]).build()).await.unwrap();
            assert_eq!(client.negotiated().instructions.as_deref(), Some(expected), "{version} {key}");
        }
    }
}
