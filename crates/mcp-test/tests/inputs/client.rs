//! A client that answers input requests in each revision, over each transport.

use std::{collections::VecDeque, fmt, time::Duration};

use bytes::Bytes;
use mcp_server_core::Server;
use mcp_transport::{Frame, Transport, memory, ndjson::Ndjson, recv};
use serde_json::{Value, json};

use crate::http::HttpConnection;

/// A revision over a transport.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    version: &'static str,
    transport: TransportKind,
}

#[derive(Debug, Clone, Copy)]
enum TransportKind {
    Memory,
    Ndjson,
    Http,
}

/// Returns each of the revisions over each transport.
pub(crate) fn setups(versions: &[&'static str]) -> impl Iterator<Item = Setup> {
    const TRANSPORTS: [TransportKind; 3] = [TransportKind::Memory, TransportKind::Ndjson, TransportKind::Http];
    versions.iter().flat_map(|version| TRANSPORTS.map(|transport| Setup { version, transport }))
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {:?}", self.version, self.transport)
    }
}

/// The connection of the client.
enum Connection {
    /// All messages share one stream.
    Stream(Box<dyn Transport>),
    Http(HttpConnection),
}

impl Connection {
    fn open(server: &Server, kind: TransportKind) -> Self {
        let served = server.clone();
        match kind {
            TransportKind::Memory => {
                let (near, far) = memory::duplex(64);
                tokio::spawn(async move { served.serve(far).await });
                Self::Stream(Box::new(near))
            }
            TransportKind::Ndjson => {
                let (near, far) = tokio::io::duplex(1 << 16);
                tokio::spawn(async move {
                    let (reader, writer) = tokio::io::split(far);
                    served.serve_io(reader, writer).await
                });
                let (reader, writer) = tokio::io::split(near);
                Self::Stream(Box::new(Ndjson::new(reader, writer)))
            }
            TransportKind::Http => Self::Http(HttpConnection::open(server)),
        }
    }

    async fn send(&mut self, message: String) {
        match self {
            Self::Stream(transport) => transport.sender().send(Frame::new(message)).await.unwrap(),
            Self::Http(connection) => connection.send(message).await,
        }
    }

    async fn receive(&mut self) -> Bytes {
        match self {
            Self::Stream(transport) => recv(transport).await.unwrap().unwrap().message,
            Self::Http(connection) => connection.receive().await,
        }
    }

    async fn cancel(&mut self, id: i64) {
        match self {
            Self::Stream(_) => {
                let params = json!({ "requestId": id });
                let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
                self.send(cancelled.to_string()).await;
            }
            Self::Http(connection) => connection.cancel(id).await,
        }
    }
}

/// The answers of the client to the input requests: method, then result or error.
pub(crate) type Answers = Vec<(&'static str, Value)>;

pub(crate) struct Client {
    connection: Connection,
    version: &'static str,
    capabilities: Value,
    next: i64,
    /// The received input requests, in order.
    pub(crate) input_requests: Vec<Value>,
}

pub(crate) const ALL: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

impl Client {
    pub(crate) async fn connect(server: &Server, setup: Setup, capabilities: Value) -> Self {
        let Setup { version, transport } = setup;
        let connection = Connection::open(server, transport);
        let mut client = Self { connection, version, capabilities, next: 0, input_requests: Vec::new() };
        if client.is_legacy() {
            let params = json!({
                "protocolVersion": version, "capabilities": client.capabilities,
                "clientInfo": { "name": "t", "version": "1" }
            });
            client.send("initialize", params).await;
            client.receive().await;
            client.write(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        }
        client
    }

    pub(crate) fn is_legacy(&self) -> bool {
        self.version != "2026-07-28"
    }

    pub(crate) async fn write(&mut self, message: Value) {
        self.write_text(message.to_string()).await;
    }

    pub(crate) async fn write_text(&mut self, message: String) {
        self.connection.send(message).await;
    }

    /// Cancels a request.
    pub(crate) async fn cancel(&mut self, id: i64) {
        self.connection.cancel(id).await;
    }

    pub(crate) async fn send(&mut self, method: &str, mut params: Value) -> i64 {
        self.next += 1;
        if !self.is_legacy() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.version,
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            });
        }
        self.write(json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params })).await;
        self.next
    }

    pub(crate) async fn receive(&mut self) -> Value {
        let message = tokio::time::timeout(Duration::from_secs(3600), self.connection.receive()).await;
        serde_json::from_slice(&message.unwrap()).unwrap()
    }

    /// Makes a call, answers its input requests, and returns the response.
    pub(crate) async fn call(&mut self, method: &str, params: Value, answers: Answers) -> Value {
        let mut answers: VecDeque<_> = answers.into();
        let mut answer = |request: &mut Vec<Value>, input_request: &Value| {
            request.push(input_request.clone());
            let (method, value) = answers.pop_front().expect("an unexpected input request");
            assert_eq!(input_request["method"], method);
            value
        };
        self.send(method, params.clone()).await;
        loop {
            let message = self.receive().await;
            if let Some(id) = message.get("id").filter(|_| message.get("method").is_some()) {
                assert!(self.is_legacy(), "a server of this revision sends no requests: {message}");
                let value = answer(&mut self.input_requests, &message);
                let outcome = if value.get("code").is_some() { "error" } else { "result" };
                self.write(json!({ "jsonrpc": "2.0", "id": id, outcome: value })).await;
            } else if message["result"]["resultType"] == "input_required" {
                let requests = message["result"]["inputRequests"].as_object().unwrap().clone();
                let mut again = params.clone();
                again["requestState"] = message["result"]["requestState"].clone();
                for (key, input_request) in &requests {
                    again["inputResponses"][key] = answer(&mut self.input_requests, input_request);
                }
                self.send(method, again).await;
            } else {
                return message;
            }
        }
    }

    pub(crate) async fn tool(&mut self, name: &str, answers: Answers) -> Value {
        self.call("tools/call", json!({ "name": name, "arguments": {} }), answers).await
    }
}

pub(crate) fn accept(content: Value) -> (&'static str, Value) {
    ("elicitation/create", json!({ "action": "accept", "content": content }))
}

pub(crate) fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"))
}

pub(crate) fn everything() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": {} })
}
