//! A client of the Streamable HTTP endpoint, without a socket.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt, Full};
use mcp_server_core::Server;
use mcp_server_http::{Body, HttpConfig, HttpServer, McpService};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::AbortHandle,
};

/// A connection of a client. Every message is a POST, and the received messages are queued in order.
pub(crate) struct HttpConnection {
    service: McpService,
    session: Option<String>,
    sender: UnboundedSender<Bytes>,
    received: UnboundedReceiver<Bytes>,
    /// The running requests by id.
    running: HashMap<i64, AbortHandle>,
}

/// The members that headers mirror.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Params {
    name: Option<String>,
    uri: Option<String>,
    #[serde(default, rename = "_meta")]
    meta: HashMap<String, serde_json::Value>,
}

impl HttpConnection {
    pub(crate) fn open(server: &Server) -> Self {
        let (sender, received) = unbounded_channel();
        let service = server.clone().into_service(HttpConfig::new());
        Self { service, session: None, sender, received, running: HashMap::new() }
    }

    pub(crate) async fn send(&mut self, message: String) {
        let read: Message<'_> = serde_json::from_str(&message).unwrap();
        let params: Params = read.params.map(|params| serde_json::from_str(params.get()).unwrap()).unwrap_or_default();
        let version = params.meta.get("io.modelcontextprotocol/protocolVersion").and_then(|version| version.as_str());
        let name = params.name.or(params.uri);
        let mut post = Request::post("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(version) = version {
            post = post.header("mcp-protocol-version", version).header("mcp-method", read.method.as_deref().unwrap());
            if let Some(name) = &name {
                post = post.header("mcp-name", name);
            }
        } else if let Some(session) = &self.session {
            post = post.header("mcp-session-id", session);
        }
        let post = post.body(Full::new(Bytes::from(message.clone()))).unwrap();
        let Some(id) = read.id.filter(|_| read.method.is_some()).map(|id| id.get().parse().unwrap()) else {
            let status = self.service.handle(post).await.status();
            assert_eq!(status, http::StatusCode::ACCEPTED);
            return;
        };
        if read.method.as_deref() == Some("initialize") {
            let response = self.service.handle(post).await;
            self.session = Some(response.headers()["mcp-session-id"].to_str().unwrap().to_owned());
            return forward(response.into_body(), &self.sender).await;
        }
        let (service, sender) = (self.service.clone(), self.sender.clone());
        let running = tokio::spawn(async move { forward(service.handle(post).await.into_body(), &sender).await });
        self.running.insert(id, running.abort_handle());
    }

    pub(crate) async fn receive(&mut self) -> Bytes {
        self.received.recv().await.unwrap()
    }

    /// Cancels a request. In 2026-07-28 the client closes its stream.
    pub(crate) async fn cancel(&mut self, id: i64) {
        self.running.remove(&id).unwrap().abort();
        tokio::task::yield_now().await;
    }
}

/// Extracts the messages of a JSON response or an event stream.
async fn forward(mut body: Body, sender: &UnboundedSender<Bytes>) {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        read.extend_from_slice(&frame.unwrap().into_data().unwrap());
        while let Some(end) = read.windows(2).position(|window| window == b"\n\n") {
            let event = read.split_to(end + 2);
            let data = event[..].split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data: "));
            if let Some(data) = data.filter(|data| !data.is_empty()) {
                sender.send(Bytes::copy_from_slice(data)).ok();
            }
        }
    }
    if !read.is_empty() {
        sender.send(read.freeze()).ok();
    }
}
