//! A small server, and requests to its endpoint without a socket.
#![allow(dead_code, reason = "every test file uses a part of this")]
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

pub(crate) mod http2;
pub(crate) mod observed_server;
pub(crate) mod socket;
pub(crate) mod sse;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_server_core::{Args, Context, Progress, Server, tool};
use mcp_server_http::{HttpConfig, HttpServer, McpService};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Echo {
    pub(crate) text: String,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Region {
    #[schemars(extend("x-mcp-header" = "Region"))]
    pub(crate) region: String,
}

pub(crate) fn server() -> Server {
    Server::builder("test", "1.0")
        .tool(tool("echo", async |Args(Echo { text }): Args<Echo>| text))
        .tool(tool("region", async |Args(Region { region }): Args<Region>| region))
        .tool(tool("progress", async |progress: Progress| {
            progress.report(1.0, Some(2.0), "half").await;
            progress.report(2.0, Some(2.0), "whole").await;
            "done"
        }))
        .tool(tool("forever", async |context: Context| {
            context.cancelled().await;
            "never"
        }))
        .tool(tool("slow", async || {
            tokio::time::sleep(Duration::from_secs(20)).await;
            "slow"
        }))
        .build()
}

pub(crate) fn service() -> McpService {
    server().into_service(HttpConfig::new())
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The data of the events of a stream.
    pub(crate) fn events(&self) -> Vec<Value> {
        assert_eq!(self.header("content-type"), Some("text/event-stream"));
        let text = std::str::from_utf8(&self.body).unwrap();
        text.split("\n\n")
            .filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")))
            // The first event of a stream of 2025-11-25 has an id and no data.
            .filter(|data| !data.is_empty())
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }

    pub(crate) fn error_code(&self) -> Option<i64> {
        self.json()["error"]["code"].as_i64()
    }
}

pub(crate) fn request(method: Method, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri("/mcp");
    let mut has_host = false;
    for (name, value) in headers {
        has_host |= *name == "host";
        request = request.header(*name, *value);
    }
    if !has_host {
        request = request.header("host", "localhost");
    }
    request.body(Full::new(body.into())).unwrap()
}

pub(crate) async fn send(service: &McpService, request: Request<Full<Bytes>>) -> Answer {
    let response = service.handle(request).await;
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }
}

pub(crate) const BASE: [(&str, &str); 2] =
    [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];

/// A stateless request with its headers in order.
pub(crate) fn stateless(method: &str, params: Value, extra: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut params = params;
    let meta = params["_meta"].as_object().cloned().unwrap_or_default();
    let mut all = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (key, value) in meta {
        all[key] = value;
    }
    params["_meta"] = all;
    let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let mut headers = BASE.to_vec();
    headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)]);
    if !name.is_empty() {
        headers.push(("mcp-name", &name));
    }
    for (key, value) in extra {
        headers.retain(|(known, _)| known != key);
        headers.push((key, value));
    }
    headers.retain(|(_, value)| *value != "-");
    request(Method::POST, &headers, body)
}

/// A request of a legacy session.
pub(crate) fn legacy(session: Option<&str>, method: &str, params: Value) -> Request<Full<Bytes>> {
    legacy_as(1, session, method, params)
}

/// A request of a session with its own id.
pub(crate) fn legacy_as(id: u64, session: Option<&str>, method: &str, params: Value) -> Request<Full<Bytes>> {
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
    let mut headers = BASE.to_vec();
    if let Some(session) = session {
        headers.push(("mcp-session-id", session));
        headers.push(("mcp-protocol-version", "2025-11-25"));
    }
    request(Method::POST, &headers, body)
}

pub(crate) fn initialize() -> Request<Full<Bytes>> {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" }
    });
    legacy(None, "initialize", params)
}

pub(crate) async fn open(service: &McpService) -> String {
    let answer = send(service, initialize()).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.header("mcp-session-id").unwrap().to_owned()
}

/// Sends `notifications/initialized`, so that the session receives changes.
pub(crate) async fn initialized(service: &McpService, session: &str) {
    let answer = send(service, notification(session, "notifications/initialized", json!({}))).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::ACCEPTED, 0));
}

pub(crate) fn notification(session: &str, method: &str, params: Value) -> Request<Full<Bytes>> {
    let mut headers = BASE.to_vec();
    headers.push(("mcp-session-id", session));
    request(Method::POST, &headers, json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string())
}

/// A GET for the stream of a session.
pub(crate) fn listen(session: &str) -> Request<Full<Bytes>> {
    request(Method::GET, &[("accept", "text/event-stream"), ("mcp-session-id", session)], "")
}

/// Opens the stream of a session of 2025-11-25 and reads its first event.
pub(crate) async fn opened(service: &McpService, session: &str) -> mcp_server_http::Body {
    let mut stream = service.handle(listen(session)).await.into_body();
    let first = within("the opening", stream.frame()).await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"id: ") && first.ends_with(b"\nretry: 1000\ndata: \n\n"), "{first:?}");
    stream
}

/// Yields until all other tasks of a single-threaded runtime have run.
pub(crate) async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

/// Sets a flag when it is dropped.
pub(crate) struct SetOnDrop(pub(crate) Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The longest that a test waits for something that has to happen.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(20), future).await;
    waited.unwrap_or_else(|_| panic!("{what} did not happen"))
}
