//! Servers, hosts and clients of the tests.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]
#![allow(dead_code, reason = "each file of tests uses a part of this")]

use std::{
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_agent::{Gateway, GatewayBuilder, Host};
use mcp_client::{
    Client, ClientBuilder, OpenTransport,
    transport::{BoxFuture, Connect, Transport, TransportError, ndjson::Ndjson},
};
use mcp_protocol::{Principal, ProtocolVersion, RpcError};
use mcp_server::{
    Caller,
    prelude::*,
    source::{SourceDefinition, SourceOutcome, SourcePage, SourceResult},
};
use mcp_test::peer::{Reply, ScriptedServer};
use mcp_transport::memory::duplex;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Notify, Semaphore, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// The longest wait of a test.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// A revision with sessions, and the stateless revision.
pub(crate) const REVISIONS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

/// The four cells: the revision of the client, and the revision of the server.
pub(crate) fn cells() -> impl Iterator<Item = (ProtocolVersion, ProtocolVersion)> {
    REVISIONS.into_iter().flat_map(|down| REVISIONS.map(|up| (down, up)))
}

/// Starts a host with these servers, and returns the builder of its gateway.
pub(crate) async fn gateway(servers: &[(&str, &Server)]) -> GatewayBuilder {
    let mut host = Host::builder("gateway", "1");
    for (name, server) in servers {
        host = host.server(*name, *server);
    }
    Gateway::builder(host.start().await.unwrap())
}

pub(crate) fn client() -> ClientBuilder {
    Client::builder("client", "1")
}

/// Connects a client of a revision to a gateway.
pub(crate) async fn connect(gateway: GatewayBuilder, version: ProtocolVersion) -> Client {
    let server = gateway.build().unwrap().versions([version]).build();
    let client = client().connect(&server).await.unwrap();
    assert_eq!(client.version(), version);
    client
}

/// Connects an authenticated client.
pub(crate) async fn connect_as(server: &Server, user: &str) -> Client {
    connect_client_as(client(), server, user).await
}

/// Connects an authenticated client with settings.
pub(crate) async fn connect_client_as(client: ClientBuilder, server: &Server, user: &str) -> Client {
    let (ours, theirs) = duplex(64);
    let (server, caller) = (server.clone(), Caller::remote().principal(Some(Arc::new(Principal::new(user)))));
    tokio::spawn(async move { server.serve_as(theirs, caller).await });
    client.connect(OpenTransport::new(ours)).await.unwrap()
}

/// Sends a raw request, and returns its result.
pub(crate) async fn raw(client: &Client, method: &'static str, params: Value) -> Result<Value, RpcError> {
    let sent = client.request_raw(method, params).raw_result().into_future();
    let result = timeout(SOON, sent).await.unwrap().map_err(|error| error.rpc().unwrap().clone())?;
    Ok(serde_json::from_slice(result.bytes()).unwrap())
}

/// Runs a future beside calls of a healthy tool. The clock must be paused: it advances only while each task waits for a time, so a call
/// that takes no time does not wait for the future. Returns the number of the calls.
pub(crate) async fn beside_healthy<T>(
    client: &Client,
    tool: &'static str,
    faulty: impl Future<Output = T>,
) -> (T, usize) {
    const INTERVAL: Duration = Duration::from_millis(50);
    let mut faulty = pin!(faulty);
    let (mut done, mut calls) = (None, 0);
    loop {
        let began = Instant::now();
        let mut call = pin!(client.call_tool(tool, ()).into_future());
        let called = loop {
            tokio::select! {
                biased;
                result = &mut faulty, if done.is_none() => done = Some(result),
                called = &mut call => break called,
            }
        };
        called.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO, "a healthy server answers at once");
        calls += 1;
        if let Some(done) = done {
            return (done, calls);
        }
        tokio::select! {
            biased;
            result = &mut faulty => done = Some(result),
            () = sleep(INTERVAL) => {}
        }
    }
}

/// Returns the page of a source with these definitions.
pub(crate) fn page<'a>(
    definitions: impl IntoIterator<Item = &'a str>,
) -> BoxFuture<'static, Result<SourcePage, RpcError>> {
    let page = SourcePage::new(definitions.into_iter().map(|json| SourceDefinition::new(json.to_owned()).unwrap()));
    Box::pin(std::future::ready(Ok(page)))
}

/// Returns a result of a source.
pub(crate) fn complete(
    json: impl Into<String>,
    version: ProtocolVersion,
) -> BoxFuture<'static, Result<SourceOutcome, RpcError>> {
    let result = SourceResult::new(json.into(), version);
    Box::pin(std::future::ready(Ok(SourceOutcome::Complete(result))))
}

/// Connects to a server by a pipe, whose messages have no other relation than their ids, as over stdio.
#[derive(Clone)]
pub(crate) struct Pipe(Server, Arc<Notify>);

impl Pipe {
    pub(crate) fn new(server: Server) -> Self {
        Self(server, Arc::default())
    }

    /// Ends all connections at once, as the end of a process does.
    pub(crate) fn kill(&self) {
        self.1.notify_waiters();
    }
}

impl Connect for Pipe {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let Self(server, killed) = self.clone();
        tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(theirs);
            tokio::select! {
                served = server.serve(Ndjson::new(reader, writer)) => drop(served),
                () = killed.notified() => {}
            }
        });
        let (reader, writer) = tokio::io::split(ours);
        Box::pin(async { Ok(Box::new(Ndjson::new(reader, writer)) as Box<dyn Transport>) })
    }

    fn describe(&self) -> String {
        "a pipe".to_owned()
    }
}

/// Connects to a server when the semaphore has a permit.
#[derive(Clone)]
pub(crate) struct Late(pub(crate) Pipe, pub(crate) Arc<Semaphore>);

impl Connect for Late {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async {
            drop(self.1.acquire().await);
            self.0.connect().await
        })
    }

    fn describe(&self) -> String {
        "a server that starts late".to_owned()
    }
}

/// Starts a server of its own for each connection, as a command does. The messages have no other relation than their ids.
#[derive(Clone)]
pub(crate) struct Processes {
    start: Arc<dyn Fn(usize) -> Server + Send + Sync>,
    ends: Arc<Mutex<Vec<CancellationToken>>>,
    running: watch::Sender<usize>,
    is_stuck: Arc<AtomicBool>,
}

impl Processes {
    /// `start` receives the number of the process.
    pub(crate) fn new(start: impl Fn(usize) -> Server + Send + Sync + 'static) -> Self {
        let running = watch::Sender::default();
        Self { start: Arc::new(start), ends: Arc::default(), running, is_stuck: Arc::default() }
    }

    /// Returns the number of processes that were started.
    pub(crate) fn started(&self) -> usize {
        self.ends.lock().unwrap().len()
    }

    /// Waits until this number of processes run.
    pub(crate) async fn until_running(&self, number: usize) {
        let mut running = self.running.subscribe();
        timeout(SOON, running.wait_for(|running| *running == number)).await.unwrap().unwrap();
    }

    /// Ends a process.
    pub(crate) fn kill(&self, number: usize) {
        self.ends.lock().unwrap()[number].cancel();
    }

    /// Lets further processes start without an answer.
    pub(crate) fn stick(&self) {
        self.is_stuck.store(true, Ordering::SeqCst);
    }
}

impl Connect for Processes {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        if self.is_stuck.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        let end = CancellationToken::new();
        let number = {
            let mut ends = self.ends.lock().unwrap();
            ends.push(end.clone());
            ends.len() - 1
        };
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (server, running) = ((self.start)(number), self.running.clone());
        running.send_modify(|running| *running += 1);
        tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(theirs);
            drop(end.run_until_cancelled(server.serve(Ndjson::new(reader, writer))).await);
            running.send_modify(|running| *running -= 1);
        });
        let (reader, writer) = tokio::io::split(ours);
        Box::pin(async { Ok(Box::new(Ndjson::new(reader, writer)) as Box<dyn Transport>) })
    }

    fn describe(&self) -> String {
        "a process".to_owned()
    }

    fn starts_process(&self) -> bool {
        true
    }
}

/// Serves a server over HTTP on a free port, and returns its URL.
pub(crate) async fn over_http(server: Server) -> String {
    served(server).await.0
}

/// Serves a server over HTTP on a free port. Returns its URL, and the task that serves.
pub(crate) async fn served(server: Server) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { drop(server.serve_http_on(listener, HttpConfig::new()).await) });
    (format!("http://{address}/mcp"), serving)
}

/// A scripted server of the session era with one tool.
pub(crate) fn scripted(tool: &str) -> ScriptedServer {
    let tools = json!({ "tools": [{ "name": tool, "inputSchema": { "type": "object" } }] });
    ScriptedServer::for_revision(ProtocolVersion::V2025_11_25)
        .on("notifications/initialized", Reply::silence())
        .on("resources/list", Reply::result(json!({ "resources": [] })))
        .on("resources/templates/list", Reply::result(json!({ "resourceTemplates": [] })))
        .on("prompts/list", Reply::result(json!({ "prompts": [] })))
        .on("tools/list", Reply::result(tools))
}
