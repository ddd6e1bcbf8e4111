//! A client of HTTP+SSE on a socket.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_server_http::{Body, McpService};
use serde_json::{Value, json};

use super::{
    request,
    socket::{Connection, Endpoint},
};

pub(crate) const STREAM: &str = "/sse";

/// One stream, and the place that it names.
pub(crate) struct Client<'a> {
    http_endpoint: &'a Endpoint,
    connection: Connection,
    buffer: String,
    pub(crate) endpoint: String,
}

pub(crate) fn get() -> Request<Full<Bytes>> {
    let mut get = request(Method::GET, &[("accept", "text/event-stream")], "");
    *get.uri_mut() = STREAM.parse().unwrap();
    get
}

pub(crate) fn post(endpoint: &str, message: &Value) -> Request<Full<Bytes>> {
    let mut post = request(Method::POST, &[("content-type", "application/json")], message.to_string());
    *post.uri_mut() = endpoint.parse().unwrap();
    post
}

fn initialize_params(version: &str, capabilities: Value) -> Value {
    let client = json!({ "name": "t", "version": "1" });
    json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": client })
}

/// Removes the first whole event from a buffer, and returns its type and its data.
fn take_event(buffer: &mut String) -> Option<(String, String)> {
    while let Some(end) = buffer.find("\n\n") {
        let event: String = buffer.drain(..end + 2).collect();
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        if let (Some(kind), Some(data)) = (field("event: "), field("data: ")) {
            return Some((kind, data));
        }
    }
    None
}

impl<'a> Client<'a> {
    /// Opens a stream and reads its first event.
    pub(crate) async fn open(http_endpoint: &'a Endpoint) -> Self {
        let mut connection = http_endpoint.connect().await;
        connection.send(get()).await;
        let (status, headers) = connection.head().await.unwrap();
        assert_eq!((status, headers["content-type"].to_str().unwrap()), (StatusCode::OK, "text/event-stream"));
        let mut client = Self { http_endpoint, connection, buffer: String::new(), endpoint: String::new() };
        let (kind, data) = client.event().await.unwrap();
        assert_eq!(kind, "endpoint");
        client.endpoint = data;
        client
    }

    /// The type and the data of the next event; `None` at the end of the stream.
    pub(crate) async fn event(&mut self) -> Option<(String, String)> {
        loop {
            if let Some(event) = take_event(&mut self.buffer) {
                return Some(event);
            }
            self.buffer.push_str(std::str::from_utf8(&self.connection.chunk().await?).unwrap());
        }
    }

    /// The next message; `None` at the end of the stream.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        let (kind, data) = self.event().await?;
        assert_eq!(kind, "message");
        Some(serde_json::from_str(&data).unwrap())
    }

    pub(crate) async fn send(&self, message: Value) {
        let answer = self.http_endpoint.exchange(post(&self.endpoint, &message)).await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::ACCEPTED, 0), "{answer:?}");
    }

    /// A request, and the next message.
    pub(crate) async fn exchange(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        let answer = self.message().await.unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Opens the session of the stream. Returns the result of `initialize`.
    pub(crate) async fn initialize(&mut self, version: &str, capabilities: Value) -> Value {
        let answer = self.exchange(0, "initialize", initialize_params(version, capabilities)).await;
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        answer["result"].clone()
    }
}

/// A client of HTTP+SSE without a socket, for tests on a paused clock.
pub(crate) struct LocalClient {
    service: McpService,
    stream: Body,
    buffer: String,
    endpoint: String,
}

impl LocalClient {
    /// Opens a stream and its session.
    pub(crate) async fn open(service: &McpService, version: &str) -> Self {
        let stream = service.handle(get()).await.into_body();
        let mut client = Self { service: service.clone(), stream, buffer: String::new(), endpoint: String::new() };
        client.endpoint = client.event().await.unwrap().1;
        let params = initialize_params(version, json!({}));
        client.send(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await;
        assert_eq!(client.message().await.unwrap()["id"], 0);
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    async fn event(&mut self) -> Option<(String, String)> {
        loop {
            if let Some(event) = take_event(&mut self.buffer) {
                return Some(event);
            }
            let piece = self.stream.frame().await?.unwrap().into_data().unwrap();
            self.buffer.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// The next message; `None` at the end of the stream.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        Some(serde_json::from_str(&self.event().await?.1).unwrap())
    }

    pub(crate) async fn send(&self, message: Value) {
        let answer = super::send(&self.service, post(&self.endpoint, &message)).await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::ACCEPTED, 0), "{answer:?}");
    }
}
