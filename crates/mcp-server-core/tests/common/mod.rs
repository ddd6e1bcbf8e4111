//! A client in memory, its messages, and tools that wait for a signal of the test.
#![allow(dead_code, reason = "every test file uses a part of this")]
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    future::pending,
    sync::{Arc, OnceLock},
    time::Duration,
};

use mcp_server_core::{Caller, ServeError, Server, ToolRoute, tool};
use mcp_transport::{
    Frame, FrameSender, Transport,
    memory::{MemoryTransport, duplex},
    recv,
};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
    time::timeout,
};
use tracing::{
    Dispatch,
    subscriber::{DefaultGuard, NoSubscriber},
};

/// Every revision that opens with `initialize`.
pub(crate) const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// A connection to a server, seen from the client.
pub(crate) struct Connection {
    transport: MemoryTransport,
    /// A message that was received ahead.
    ahead: Option<Frame>,
    sender: Arc<dyn FrameSender>,
    pub(crate) served: JoinHandle<Result<(), ServeError>>,
    /// The time limit of a message. A paused clock skips it.
    pub(crate) message_timeout: Duration,
}

impl Connection {
    pub(crate) fn connect(server: &Server) -> Self {
        Self::with_capacity(server, 256)
    }

    /// Each direction has a queue of this many messages.
    pub(crate) fn with_capacity(server: &Server, capacity: usize) -> Self {
        Self::over(server, Caller::local(), capacity)
    }

    pub(crate) fn connect_as(server: &Server, caller: Caller) -> Self {
        Self::over(server, caller, 256)
    }

    fn over(server: &Server, caller: Caller, capacity: usize) -> Self {
        let (ours, theirs) = duplex(capacity);
        let server = server.clone();
        let served = tokio::spawn(async move { server.serve_as(theirs, caller).await });
        Self { sender: ours.sender(), transport: ours, ahead: None, served, message_timeout: HOUR }
    }

    pub(crate) async fn bytes(&self, bytes: Vec<u8>) {
        let sent = timeout(self.message_timeout, self.sender.send(Frame::new(bytes))).await;
        sent.expect("the server does not read").unwrap();
    }

    pub(crate) async fn text(&self, text: impl Into<String>) {
        self.bytes(text.into().into_bytes()).await;
    }

    pub(crate) async fn send(&self, message: Value) {
        self.text(message.to_string()).await;
    }

    /// Receives the next message, which must be valid JSON-RPC and not a request.
    pub(crate) async fn recv(&mut self) -> Value {
        self.next().await.expect("the connection has ended")
    }

    /// The next message, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let frame = match self.ahead.take() {
            Some(frame) => frame,
            None => {
                let frame = timeout(self.message_timeout, recv(&mut self.transport)).await;
                frame.expect("the server does not answer")?.unwrap()
            }
        };
        let message: Value = serde_json::from_slice(&frame.message).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        let members = ["method", "result", "error"].map(|member| message.get(member).is_some());
        assert_eq!(members.iter().filter(|given| **given).count(), 1, "{message}");
        assert!(message.get("method").is_none() || message.get("id").is_none(), "a request: {message}");
        if let Some(error) = message.get("error") {
            assert!(error["code"].is_i64() && !error["message"].as_str().unwrap().is_empty(), "{message}");
        }
        Some(message)
    }

    /// Whether a message waits to be read.
    pub(crate) fn has_more(&mut self) -> bool {
        if self.ahead.is_none() {
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            if let std::task::Poll::Ready(frame) = self.transport.poll_recv(&mut cx) {
                self.ahead = frame.map(Result::unwrap);
            }
        }
        self.ahead.is_some()
    }

    /// Sends a request; the very next message is its response.
    pub(crate) async fn exchange(&mut self, request: Value) -> Value {
        let id = request["id"].clone();
        self.send(request).await;
        let response = self.recv().await;
        assert_eq!(response["id"], id, "{response}");
        response
    }

    /// Opens a legacy session: the result of `initialize`.
    pub(crate) async fn open(&mut self, version: &str) -> Value {
        let response = self.exchange(initialize(version)).await;
        self.send(notification("notifications/initialized", json!({}))).await;
        response["result"].clone()
    }

    /// Checks that no message is pending: the next message is the response to a ping. All tasks have run before.
    pub(crate) async fn quiet(&mut self) {
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
        let fence = self.exchange(legacy("fence", "ping", json!({}))).await;
        assert!(fence.get("result").is_some(), "{fence}");
    }

    /// Closes the client. Returns the messages until the server closes the connection.
    pub(crate) async fn close(mut self) -> Vec<Value> {
        self.sender.shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(message) = self.next().await {
            rest.push(message);
        }
        timeout(self.message_timeout, self.served).await.expect("the server did not stop").unwrap().unwrap();
        rest
    }
}

/// Sets a subscriber for this thread. A second subscriber exists in the process, so that `tracing` does not cache the
/// interest of a callsite for all threads.
pub(crate) fn subscribe(subscriber: impl Into<Dispatch>) -> DefaultGuard {
    static OTHER: OnceLock<Dispatch> = OnceLock::new();
    OTHER.get_or_init(|| Dispatch::new(NoSubscriber::new()));
    tracing::dispatcher::set_default(&subscriber.into())
}

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn legacy(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

pub(crate) fn initialize(version: &str) -> Value {
    let params = json!({
        "protocolVersion": version,
        "capabilities": { "roots": {} },
        "clientInfo": { "name": "legacy-client", "version": "1" },
    });
    legacy("open", "initialize", params)
}

/// A request of 2026-07-28. `params._meta` adds to the metadata, and a `null` removes a member.
pub(crate) fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "modern-client", "version": "2" },
    });
    if let Some(Value::Object(more)) = params.get("_meta") {
        for (key, value) in more {
            meta[key] = value.clone();
        }
    }
    meta.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    params["_meta"] = meta;
    legacy(id, method, params)
}

pub(crate) fn call(name: &str) -> Value {
    json!({ "name": name, "arguments": {} })
}

pub(crate) fn cancel(id: impl Into<Value>) -> Value {
    notification("notifications/cancelled", json!({ "requestId": id.into(), "reason": "enough" }))
}

pub(crate) fn code(response: &Value) -> Option<i64> {
    response["error"]["code"].as_i64()
}

pub(crate) fn text_of(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {response}"))
}

/// The tool `hold`, which never returns, and its events: `entered`, then `dropped` when its future is dropped.
pub(crate) fn hold() -> (ToolRoute, UnboundedReceiver<&'static str>) {
    let (events, seen) = unbounded_channel();
    let route = tool("hold", move || {
        let events = events.clone();
        async move {
            let _guard = Dropped(events.clone());
            events.send("entered").ok();
            pending::<()>().await;
        }
    });
    (route, seen)
}

/// The tool `slow`: ten seconds.
pub(crate) fn slow() -> ToolRoute {
    tool("slow", async || {
        tokio::time::sleep(Duration::from_secs(10)).await;
        "slow"
    })
}

/// Sends an event on drop.
pub(crate) struct Dropped(pub(crate) UnboundedSender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send("dropped").ok();
    }
}

/// Receives the next event within the time limit.
pub(crate) async fn event(seen: &mut UnboundedReceiver<&'static str>) -> &'static str {
    timeout(HOUR, seen.recv()).await.expect("no event in time").expect("all senders of events were dropped")
}
