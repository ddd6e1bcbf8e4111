//! A server that leads to the gateway itself, and that shows it by the metadata of requests alone.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{Gateway, Host};
use mcp_client::{
    Client,
    transport::{Connect, Transport, TransportError, ndjson::Ndjson},
};
use mcp_protocol::{ErrorCode, Meta, RpcError};
use mcp_server::{
    CacheHint, Server,
    inputs::StateKeys,
    source::{Source, SourceCall, SourceList, SourceOutcome, SourcePage},
    tool,
};
use mcp_transport::BoxFuture;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    sync::{Barrier, watch},
    time::timeout,
};

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
        assert!(error.message.starts_with("the request came back to this gateway"), "{down} to {up}: {error}");
        let data = json!({ "server": "s", "code": -32600, "data": { "reason": "gateway_loop" } });
        assert_eq!(error.data.as_ref(), Some(&data), "{down} to {up}: {error}");
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

/// Connects to a server by a pipe. The client receives the first declaration of the server when the other server has declared too.
#[derive(Clone)]
struct Together {
    server: watch::Sender<Option<Server>>,
    declared: Arc<Barrier>,
    is_first: Arc<AtomicBool>,
}

impl Together {
    fn new(declared: &Arc<Barrier>) -> Self {
        let is_first = Arc::new(AtomicBool::new(true));
        Self { server: watch::Sender::default(), declared: Arc::clone(declared), is_first }
    }
}

impl Connect for Together {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let together = self.clone();
        tokio::spawn(async move {
            let mut server = together.server.subscribe();
            let server = server.wait_for(Option::is_some).await.unwrap().clone().unwrap();
            let (near, far) = tokio::io::duplex(1 << 16);
            tokio::spawn(async move {
                let (reader, writer) = tokio::io::split(far);
                drop(server.serve(Ndjson::new(reader, writer)).await);
            });
            let (mut from_client, mut to_client) = tokio::io::split(theirs);
            let (from_server, mut to_server) = tokio::io::split(near);
            let up = tokio::io::copy(&mut from_client, &mut to_server);
            let down = async {
                let mut lines = BufReader::new(from_server).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    let is_declaration = line.contains("supportedVersions") || line.contains("serverInfo");
                    if is_declaration && together.is_first.swap(false, Ordering::SeqCst) {
                        together.declared.wait().await;
                    }
                    if to_client.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                        return;
                    }
                }
            };
            let _ = tokio::join!(up, down);
        });
        let (reader, writer) = tokio::io::split(ours);
        Box::pin(async { Ok(Box::new(Ndjson::new(reader, writer)) as Box<dyn Transport>) })
    }

    fn describe(&self) -> String {
        "a pipe".to_owned()
    }
}

#[tokio::test]
async fn two_gateways_that_reach_each_other_at_the_same_moment_do_not_serve_each_other() {
    for version in REVISIONS {
        let declared = Arc::new(Barrier::new(2));
        let pipes = [(); 2].map(|()| Together::new(&declared));
        let start = async |other: &Together, discovery: CacheHint| {
            let local = Server::builder("local", "1").tool(tool("t", async || "t")).build();
            let host = Host::builder("gateway", "1").start_limit(Duration::from_millis(10));
            let host = host.server("local", &local).server("other", other.clone()).start().await.unwrap();
            let builder = Gateway::builder(host);
            let gateway = builder.gateway();
            (gateway, builder.build().unwrap().versions([version]).discover_cache(discovery).build())
        };
        // The client of a gateway keeps the first declaration of the other one, which has no cycle yet.
        let kept = CacheHint::private(Duration::from_secs(3600));
        let gateways = [start(&pipes[1], CacheHint::NONE).await, start(&pipes[0], kept).await];
        for (pipe, (_, server)) in pipes.iter().zip(&gateways) {
            pipe.server.send_replace(Some(server.clone()));
        }
        for (observed, server) in &gateways {
            let mut changes = observed.host().catalog_changes();
            let found = changes.wait_for(|_| !observed.circular_servers().is_empty());
            timeout(SOON, found).await.unwrap_or_else(|_| panic!("{version}")).unwrap();
            let client = client().connect(server).await.unwrap();
            let tools = client.list_tools().await.unwrap();
            assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["local__t"], "{version}");
        }
    }
}
