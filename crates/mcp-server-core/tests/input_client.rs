//! A client that answers input requests in each revision, over memory.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{collections::VecDeque, time::Duration};

use mcp_server_core::Server;
use mcp_transport::{
    Frame, Transport,
    memory::{MemoryTransport, duplex},
    recv,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Name {
    pub(crate) name: String,
}

/// The answers of the client to the input requests: method, then result or error.
pub(crate) type Answers = Vec<(&'static str, Value)>;

pub(crate) struct Client {
    transport: MemoryTransport,
    version: &'static str,
    capabilities: Value,
    next: i64,
    /// The received input requests, in order.
    pub(crate) input_requests: Vec<Value>,
}

pub(crate) const ALL: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

impl Client {
    pub(crate) async fn connect(server: &Server, version: &'static str, capabilities: Value) -> Self {
        let (transport, far) = duplex(64);
        let server = server.clone();
        tokio::spawn(async move { server.serve(far).await });
        let mut client = Self { transport, version, capabilities, next: 0, input_requests: Vec::new() };
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
        self.transport.sender().send(Frame::new(message.to_string())).await.unwrap();
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
        let message = tokio::time::timeout(Duration::from_secs(3600), recv(&mut self.transport)).await;
        serde_json::from_slice(&message.unwrap().unwrap().unwrap().message).unwrap()
    }

    /// Makes a call, answers its input requests, and returns the response.
    async fn call(&mut self, method: &str, params: Value, answers: Answers) -> Value {
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
