//! A JSON client in memory, requests with a custom scope, and helpers to read responses.
#![allow(dead_code, reason = "every test file uses a part of this")]
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::time::Duration;

use mcp_protocol::{Message, ProtocolVersion, RpcError};
use mcp_server_core::{
    Server,
    engine::{Engine as _, Era, Refusal, Scope, StatelessCall},
};
use mcp_transport::{
    Frame, Transport,
    memory::{MemoryTransport, duplex},
    recv,
};
use serde_json::{Value, json};

/// The time limit of a message.
const DEADLINE: Duration = Duration::from_secs(10);

/// A client of one revision that knows no types: requests and answers are JSON.
pub(crate) struct Client {
    transport: MemoryTransport,
    version: ProtocolVersion,
    capabilities: Value,
    next_id: i64,
    /// Members that every modern request has in its `_meta`.
    pub(crate) meta: Value,
    /// The result of `initialize`, or of `server/discover`.
    pub(crate) opening: Value,
    /// The received notifications that the test has not read yet.
    pub(crate) notifications: Vec<Value>,
}

impl Client {
    /// Connects in a revision and opens a session where the revision has one.
    pub(crate) async fn connect(server: &Server, version: ProtocolVersion) -> Self {
        Self::connect_with(server, version, json!({})).await
    }

    /// The same for a client that can do something.
    pub(crate) async fn connect_with(server: &Server, version: ProtocolVersion, capabilities: Value) -> Self {
        let (near, far) = duplex(64);
        let server = server.clone();
        tokio::spawn(async move { server.serve(far).await });
        let mut client = Self {
            transport: near,
            version,
            capabilities: capabilities.clone(),
            next_id: 1,
            meta: json!({}),
            opening: Value::Null,
            notifications: Vec::new(),
        };
        if version.has_handshake() {
            let info = json!({ "name": "kit", "version": "1" });
            let params =
                json!({ "protocolVersion": version.as_str(), "capabilities": capabilities, "clientInfo": info });
            client.opening = client.result("initialize", params).await;
            assert_eq!(client.opening["protocolVersion"], version.as_str());
            client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        } else {
            client.opening = client.result("server/discover", json!({})).await;
        }
        client
    }

    /// The result of a request; panics when it is an error.
    pub(crate) async fn result(&mut self, method: &str, params: Value) -> Value {
        let mut response = self.request(method, params).await;
        assert!(response["error"].is_null(), "{method}: {response}");
        response["result"].take()
    }

    /// The error of a request; panics when it has a result.
    pub(crate) async fn error(&mut self, method: &str, params: Value) -> Value {
        let mut response = self.request(method, params).await;
        assert!(response["result"].is_null(), "{method}: {response}");
        response["error"].take()
    }

    /// Sends a request. [`Client::response`] waits for its response.
    pub(crate) async fn start(&mut self, method: &str, mut params: Value) -> i64 {
        self.describe(&mut params);
        let id = self.next_id;
        self.next_id += 1;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// Waits for the response to a sent request. Other messages are stored.
    pub(crate) async fn response(&mut self, id: i64) -> Value {
        loop {
            let message = self.receive().await;
            if message["id"] == id {
                return message;
            }
            self.notifications.push(message);
        }
    }

    fn describe(&self, params: &mut Value) {
        if self.version.is_stateless() {
            params["_meta"] = self.meta.clone();
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = self.version.as_str().into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
    }

    /// The whole response to a request.
    pub(crate) async fn request(&mut self, method: &str, mut params: Value) -> Value {
        self.describe(&mut params);
        let id = self.next_id;
        self.next_id += 1;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let message = self.receive().await;
            if message["id"] == id {
                return message;
            }
            assert!(message["id"].is_null(), "{message}");
            self.notifications.push(message);
        }
    }

    /// Waits for a notification of a method and removes it.
    pub(crate) async fn notification(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.notifications.iter().position(|message| message["method"] == method) {
                return self.notifications.remove(at);
            }
            let message = self.receive().await;
            self.notifications.push(message);
        }
    }

    /// The member of a list, all pages of it.
    pub(crate) async fn list(&mut self, method: &str, member: &str) -> Vec<Value> {
        let mut entries = Vec::new();
        let mut params = json!({});
        loop {
            let mut page = self.result(method, params).await;
            entries.append(page[member].as_array_mut().unwrap());
            match page["nextCursor"].take() {
                Value::Null => return entries,
                cursor => params = json!({ "cursor": cursor }),
            }
        }
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.transport.sender().send(Frame::new(message.to_string())).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let frame = tokio::time::timeout(DEADLINE, recv(&mut self.transport)).await.expect("no message in time");
        serde_json::from_slice(&frame.unwrap().unwrap().message).unwrap()
    }
}

/// Runs one stateless request with a scope that the caller changes.
pub(crate) async fn request_with_scope(
    server: &Server,
    method: &str,
    mut params: Value,
    change: impl FnOnce(Scope) -> Scope,
) -> Result<Value, Refusal> {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = ProtocolVersion::LATEST.as_str().into();
    if params["_meta"]["io.modelcontextprotocol/clientCapabilities"].is_null() {
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let Message::Request(request) = Message::parse(text.as_bytes()).unwrap() else { panic!("not a request: {text}") };
    let Ok(Era::Stateless(meta)) = Era::of(&request) else { panic!("not modern: {text}") };
    let call = StatelessCall::read(&meta)?.supported(server)?;
    let prepared = server.prepare(&request, change(Scope::stateless(call)))?;
    let reply = prepared.run().await.expect("the request is not cancelled");
    Ok(serde_json::from_slice(&reply.payload.into_bytes()).unwrap())
}

/// The code of an error and its sentence.
pub(crate) fn code_and_text(error: &Value) -> (i64, &str) {
    (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap())
}

/// The error inside a refusal that is no lack of scopes.
pub(crate) fn refused(refusal: Refusal) -> RpcError {
    match refusal {
        Refusal::Error(error) => error,
        other => panic!("{other:?}"),
    }
}

/// The names in a list, in order.
pub(crate) fn names(entries: &[Value], member: &str) -> Vec<String> {
    entries.iter().map(|entry| entry[member].as_str().unwrap().to_owned()).collect()
}
