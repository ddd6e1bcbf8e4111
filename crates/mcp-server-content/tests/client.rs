//! A client over a transport in memory, whose requests and results are JSON.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::time::Duration;

use mcp_protocol::ProtocolVersion;
use mcp_server_core::Server;
use mcp_transport::{
    Frame, Transport,
    memory::{MemoryTransport, duplex},
    recv,
};
use serde_json::{Value, json};

/// The time that a client waits for a message.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A client of one revision.
pub(crate) struct Client {
    transport: MemoryTransport,
    version: ProtocolVersion,
    next_id: i64,
    /// The result of `initialize`, or of `server/discover`.
    pub(crate) opening: Value,
    /// The notifications that the client received, and that no test took yet.
    pub(crate) notifications: Vec<Value>,
}

impl Client {
    /// Connects in a revision, and opens a session if the revision has one.
    pub(crate) async fn connect(server: &Server, version: ProtocolVersion) -> Self {
        let (near, far) = duplex(64);
        let server = server.clone();
        tokio::spawn(async move { server.serve(far).await });
        let mut client = Self { transport: near, version, next_id: 1, opening: Value::Null, notifications: Vec::new() };
        if version.has_handshake() {
            let info = json!({ "name": "kit", "version": "1" });
            let params = json!({ "protocolVersion": version.as_str(), "capabilities": {}, "clientInfo": info });
            client.opening = client.result("initialize", params).await;
            assert_eq!(client.opening["protocolVersion"], version.as_str());
            client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        } else {
            client.opening = client.result("server/discover", json!({})).await;
        }
        client
    }

    /// Returns the result of a request. Panics when the response is an error.
    pub(crate) async fn result(&mut self, method: &str, params: Value) -> Value {
        let mut response = self.request(method, params).await;
        assert!(response["error"].is_null(), "{method}: {response}");
        response["result"].take()
    }

    /// Returns the error of a request. Panics when the response is a result.
    pub(crate) async fn error(&mut self, method: &str, params: Value) -> Value {
        let mut response = self.request(method, params).await;
        assert!(response["result"].is_null(), "{method}: {response}");
        response["error"].take()
    }

    fn describe(&self, params: &mut Value) {
        if self.version.is_stateless() {
            params["_meta"] = json!({});
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = self.version.as_str().into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
    }

    /// Sends a request and returns the whole response.
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

    /// Waits for a notification of a method, and removes it from `notifications`.
    pub(crate) async fn notification(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.notifications.iter().position(|message| message["method"] == method) {
                return self.notifications.remove(at);
            }
            let message = self.receive().await;
            self.notifications.push(message);
        }
    }

    /// Returns all entries of a paged list. `member` is the name of the list in the results.
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
        let frame =
            tokio::time::timeout(TIMEOUT, recv(&mut self.transport)).await.expect("the server sent no message in time");
        serde_json::from_slice(&frame.unwrap().unwrap().message).unwrap()
    }
}

/// Returns the code and the message of an error.
pub(crate) fn code_and_text(error: &Value) -> (i64, &str) {
    (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap())
}

/// Returns one member of each entry, in order.
pub(crate) fn names(entries: &[Value], member: &str) -> Vec<String> {
    entries.iter().map(|entry| entry[member].as_str().unwrap().to_owned()).collect()
}
