//! A peer that a test controls, and helpers to connect to it.
#![allow(dead_code, reason = "every test file uses a part of this")]
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

pub(crate) mod scripted_site;
pub(crate) mod transports;

use std::time::Duration;

use mcp_client::{
    Client, ClientBuilder,
    protocol::ProtocolVersion,
    transport::{
        BoxFuture, Connect, Frame, FrameSender, Route, Transport, TransportError,
        memory::{MemoryTransport, duplex},
        recv,
    },
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
    time::timeout,
};

/// The longest wait of a test. A paused clock skips it.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A connector that hands each connection to the test as a [`Peer`].
pub(crate) struct Scripted {
    peers: UnboundedSender<Peer>,
}

pub(crate) struct Peers(UnboundedReceiver<Peer>);

pub(crate) fn scripted() -> (Scripted, Peers) {
    let (sender, receiver) = unbounded_channel();
    (Scripted { peers: sender }, Peers(receiver))
}

impl Connect for Scripted {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        let (ours, theirs) = duplex(64);
        let peer = Peer { sender: theirs.sender(), transport: theirs };
        let given = self.peers.send(peer).map_err(|_| TransportError::closed());
        Box::pin(std::future::ready(given.map(|()| Box::new(ours) as Box<dyn Transport>)))
    }

    fn describe(&self) -> String {
        "the script".into()
    }
}

impl Peers {
    /// The next connection that is opened.
    pub(crate) async fn next(&mut self) -> Peer {
        timeout(HOUR, self.0.recv()).await.expect("no client connected").expect("the connector was dropped")
    }
}

/// The server's end of a connection.
pub(crate) struct Peer {
    transport: MemoryTransport,
    sender: Arc<dyn FrameSender>,
}

impl Peer {
    pub(crate) async fn recv(&mut self) -> Value {
        self.next().await.expect("the client has closed the connection")
    }

    /// The next message, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let frame = timeout(HOUR, recv(&mut self.transport)).await.expect("the client sent no message")?;
        let message: Value = serde_json::from_slice(&frame.unwrap().message).unwrap();
        assert_eq!(message["jsonrpc"], "2.0");
        Some(message)
    }

    /// The next message, which is this request: its id.
    pub(crate) async fn expect(&mut self, method: &str) -> Value {
        let message = self.recv().await;
        assert_eq!(message["method"], method, "{message}");
        message["id"].clone()
    }

    pub(crate) async fn raw(&self, text: impl Into<String>) {
        self.sender.send(Frame::new(text.into().into_bytes())).await.unwrap();
    }

    pub(crate) async fn send(&self, message: Value) {
        self.raw(message.to_string()).await;
    }

    pub(crate) async fn answer(&self, id: Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    }

    pub(crate) async fn refuse(&self, id: Value, error: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Sends a notification on the stream of a request.
    pub(crate) async fn notify_on(&self, request: &Value, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let route = Route::Request(serde_json::from_value(request.clone()).unwrap());
        self.sender.send(Frame::new(message.to_string()).with_route(route)).await.unwrap();
    }

    /// Sends a request and returns the response.
    pub(crate) async fn exchange(&mut self, id: Value, method: &str, params: Value) -> Value {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        let answer = self.recv().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Opens a session of this revision. The client has no other pending request.
    pub(crate) async fn open(&mut self, version: &str) -> Value {
        let mut first = self.recv().await;
        if first["method"] == "server/discover" {
            self.refuse(first["id"].clone(), json!({ "code": -32601, "message": "what?" })).await;
            first = self.recv().await;
        }
        assert_eq!(first["method"], "initialize", "{first}");
        self.answer(first["id"].clone(), initialized(version)).await;
        self.expect("notifications/initialized").await;
        first["params"].clone()
    }

    /// Answers `server/discover`.
    pub(crate) async fn discovered(&mut self) -> Value {
        let request = self.recv().await;
        assert_eq!(request["method"], "server/discover", "{request}");
        self.answer(request["id"].clone(), discovery(&["2026-07-28"])).await;
        request
    }

    /// Opens in the era of a revision.
    pub(crate) async fn open_any(&mut self, version: ProtocolVersion) {
        if version.has_handshake() {
            self.open(version.as_str()).await;
        } else {
            self.discovered().await;
        }
    }

    /// Closes the connection without a message.
    pub(crate) fn close(self) {
        drop(self);
    }
}

pub(crate) fn initialized(version: &str) -> Value {
    json!({
        "protocolVersion": version,
        "capabilities": { "tools": {}, "resources": { "subscribe": true }, "prompts": {}, "logging": {} },
        "serverInfo": { "name": "script", "version": "1" },
    })
}

pub(crate) fn discovery(versions: &[&str]) -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": { "tools": {}, "resources": { "subscribe": true }, "prompts": {} },
        "ttlMs": 0, "cacheScope": "private",
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "script", "version": "1" } },
    })
}

/// A tool result with this text.
pub(crate) fn tool_result(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

pub(crate) fn builder() -> ClientBuilder {
    Client::builder("test", "1")
}

/// A client and the server's end of its connection, in the era of a revision.
pub(crate) async fn connected(version: ProtocolVersion) -> (Client, Peer, Peers) {
    connected_as(builder(), version).await
}

pub(crate) async fn connected_as(builder: ClientBuilder, version: ProtocolVersion) -> (Client, Peer, Peers) {
    let (connector, mut peers) = scripted();
    let connecting = tokio::spawn(builder.connect(connector));
    let mut peer = peers.next().await;
    peer.open_any(version).await;
    let client = connecting.await.unwrap().unwrap();
    assert_eq!(client.version(), version);
    (client, peer, peers)
}

/// Spawns a future, so that the test can wait for it later.
pub(crate) fn start<F>(future: F) -> JoinHandle<F::Output>
where
    F: IntoFuture,
    F::IntoFuture: Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future.into_future())
}

/// Yields until the condition is true.
pub(crate) async fn wait_until(mut holds: impl FnMut() -> bool) {
    for _ in 0..100_000 {
        if holds() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the condition stayed false");
}
