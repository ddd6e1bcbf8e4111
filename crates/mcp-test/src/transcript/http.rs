//! A client of the HTTP endpoint. It sends each message as a POST with the headers of its revision.

use std::{collections::HashMap, future::poll_fn, pin::Pin, task::Poll};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use mcp_protocol::{ProtocolVersion, RequestId, meta::keys, method};
use mcp_schema::header::{HeaderParam, header_params};
use mcp_server_core::Server;
use mcp_server_http::{Body, HttpConfig, HttpServer as _, McpService};
use mcp_transport::BoxFuture;
use serde_json::Value;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::{AbortHandle, JoinSet},
};

use super::client::{Client, Received, parse};

const SESSION_ID: &str = "mcp-session-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";

/// A message or an error, with the session that the response opened.
type Delivery = (Result<Received, String>, Option<String>);

pub(super) struct Http {
    service: McpService,
    session: Option<Session>,
    /// The mirrored parameters of listed tools.
    params: HashMap<String, Vec<HeaderParam>>,
    /// Stateless requests with an open response. Closing the response cancels the request.
    open: HashMap<RequestId, AbortHandle>,
    tasks: JoinSet<()>,
    sender: Option<UnboundedSender<Delivery>>,
    receiver: UnboundedReceiver<Delivery>,
}

struct Session {
    id: String,
    version: Option<ProtocolVersion>,
}

impl Http {
    pub(super) fn new(server: Server) -> Self {
        let (sender, receiver) = unbounded_channel();
        Self {
            service: server.into_service(HttpConfig::new()),
            session: None,
            params: HashMap::new(),
            open: HashMap::new(),
            tasks: JoinSet::new(),
            sender: Some(sender),
            receiver,
        }
    }

    async fn post(&mut self, text: String, value: Option<&Value>) -> Result<(), String> {
        let name = value.and_then(|value| value["method"].as_str());
        let params = value.map_or(&Value::Null, |value| &value["params"]);
        if name == Some("notifications/cancelled")
            && let Ok(id) = serde_json::from_value::<RequestId>(params["requestId"].clone())
            && let Some(request) = self.open.remove(&id)
        {
            request.abort();
            return Ok(());
        }
        let version = params["_meta"][keys::PROTOCOL_VERSION].as_str();
        let mut request = Request::builder().method(Method::POST).uri("/mcp").header(header::HOST, "localhost");
        for (name, value) in [("content-type", "application/json"), ("accept", "application/json, text/event-stream")] {
            request = request.header(name, value);
        }
        match (version, name) {
            (Some(version), Some(name)) => {
                for (header, value) in self.mirrored(version, name, params) {
                    request = request.header(header, value);
                }
            }
            _ => request = self.in_session(request, name),
        }
        let request = request.body(Full::new(Bytes::from(text))).map_err(|error| error.to_string())?;

        let id = value.filter(|_| name.is_some()).map(|value| &value["id"]).filter(|id| !id.is_null());
        let Some(id) = id else {
            let response = self.service.handle(request).await;
            let is_accepted = response.status() == 202;
            read(response, self.sender()?).await;
            if name == Some("notifications/initialized") && is_accepted {
                self.listen().await?;
            }
            return Ok(());
        };
        let (service, sender) = (self.service.clone(), self.sender()?);
        let mut response: Pin<Box<dyn Future<Output = ()> + Send>> =
            Box::pin(async move { read(service.handle(request).await, sender).await });
        // The first poll runs here: the server accepts this message before the next one.
        if poll_fn(|cx| Poll::Ready(response.as_mut().poll(cx).is_pending())).await {
            let task = self.tasks.spawn(response);
            if let (Some(_), Ok(id)) = (version, serde_json::from_value(id.clone())) {
                self.open.insert(id, task);
            }
        }
        Ok(())
    }

    /// Returns the headers that mirror a stateless request.
    fn mirrored(&self, version: &str, name: &str, params: &Value) -> Vec<(String, String)> {
        let mut headers =
            vec![(PROTOCOL_VERSION.to_owned(), encoded(version)), ("mcp-method".to_owned(), encoded(name))];
        if let Some(member) = method::mirrored_name_param(name)
            && let Some(named) = params[member].as_str()
        {
            headers.push(("mcp-name".to_owned(), encoded(named)));
            for param in self.params.get(named).into_iter().flatten().filter(|_| name == "tools/call") {
                if let Some(text) = param.argument(&params["arguments"]).and_then(|argument| param.text(argument)) {
                    headers.push((param.header_name(), encoded(&text)));
                }
            }
        }
        headers
    }

    fn in_session(&self, mut request: http::request::Builder, name: Option<&str>) -> http::request::Builder {
        let Some(session) = self.session.as_ref().filter(|_| name != Some("initialize")) else { return request };
        request = request.header(SESSION_ID, &session.id);
        match session.version.filter(|version| version.has_version_header()) {
            Some(version) => request.header(PROTOCOL_VERSION, version.as_str()),
            None => request,
        }
    }

    /// Opens the GET stream of the session.
    async fn listen(&mut self) -> Result<(), String> {
        let request = Request::builder().uri("/mcp").header(header::HOST, "localhost");
        let request = self.in_session(request.header(header::ACCEPT, "text/event-stream"), None);
        let request = request.body(Full::<Bytes>::default()).map_err(|error| error.to_string())?;
        let response = self.service.handle(request).await;
        if response.status() != 200 {
            return Err(format!("GET returned the status {}", response.status()));
        }
        self.tasks.spawn(read(response, self.sender()?));
        Ok(())
    }

    fn sender(&self) -> Result<UnboundedSender<Delivery>, String> {
        self.sender.clone().ok_or_else(|| "the client has closed the connection".to_owned())
    }

    /// Stores the session and the mirrored parameters for the following messages.
    fn learn(&mut self, message: &Value, session: Option<String>) {
        if let Ok(id) = serde_json::from_value::<RequestId>(message["id"].clone())
            && message.get("method").is_none()
        {
            self.open.remove(&id);
        }
        let result = &message["result"];
        if let Some(id) = session {
            let version = result["protocolVersion"].as_str().and_then(ProtocolVersion::parse);
            self.session = Some(Session { id, version });
        }
        for tool in result["tools"].as_array().into_iter().flatten() {
            if let (Some(name), Ok(params)) = (tool["name"].as_str(), header_params(&tool["inputSchema"])) {
                self.params.insert(name.to_owned(), params);
            }
        }
    }
}

impl Client for Http {
    fn send<'a>(&'a mut self, text: String, value: Option<&'a Value>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.post(text, value))
    }

    fn recv(&mut self) -> BoxFuture<'_, Option<Result<Received, String>>> {
        Box::pin(async move {
            let (received, session) = self.receiver.recv().await?;
            if let Ok(received) = &received {
                self.learn(&received.message, session);
            }
            Some(received)
        })
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            if self.session.is_some() {
                let request = Request::builder().method(Method::DELETE).uri("/mcp").header(header::HOST, "localhost");
                let request = self.in_session(request, None).body(Full::<Bytes>::default());
                let response = self.service.handle(request.map_err(|error| error.to_string())?).await;
                if !response.status().is_success() {
                    return Err(format!("DELETE returned the status {}", response.status()));
                }
            }
            self.sender = None;
            Ok(())
        })
    }
}

/// Reads a response to its end: one message, an event stream, or an empty body.
async fn read(response: Response<Body>, sender: UnboundedSender<Delivery>) {
    let status = response.status().as_u16();
    let session = text_of(response.headers(), SESSION_ID);
    let is_stream = text_of(response.headers(), "content-type").is_some_and(|kind| kind == "text/event-stream");
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    // The body of a server in this process does not fail.
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        bytes.extend_from_slice(&data);
        while is_stream && let Some(end) = bytes.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = bytes.drain(..end + 2).collect();
            let data = data_of(&event);
            // Keep-alive comments and events without data are not messages.
            if !data.is_empty() && sender.send((parse(&data, Some(status)), session.clone())).is_err() {
                return;
            }
        }
    }
    if !bytes.is_empty() {
        // A closed receiver means that the replay has already failed.
        let _ = sender.send((parse(&bytes, Some(status)), session));
    }
}

/// Returns the data of a server-sent event.
pub(super) fn data_of(event: &[u8]) -> Vec<u8> {
    let lines = event.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
    let lines: Vec<&[u8]> = lines.map(|line| line.strip_prefix(b" ").unwrap_or(line)).collect();
    lines.join(&b'\n')
}

fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Encodes a header value as 2026-07-28 requires: plain if that is safe, otherwise base64 with markers.
fn encoded(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && value.trim() == value
        && !(value.starts_with("=?base64?") && value.ends_with("?="));
    if is_plain { value.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_only_unsafe_header_values() {
        for (value, expected) in [
            ("plain text", "plain text"),
            ("", ""),
            ("ü", "=?base64?w7w=?="),
            (" a", "=?base64?IGE=?="),
            ("=?base64?w7w=?=", "=?base64?PT9iYXNlNjQ/dzd3PT89?="),
        ] {
            assert_eq!(encoded(value), expected);
        }
    }

    #[test]
    fn joins_the_data_lines_of_an_event() {
        assert_eq!(data_of(b"event: message\ndata: {\"a\":\ndata:1}\n\n"), b"{\"a\":\n1}");
        assert_eq!(data_of(b": keep-alive\n\n"), b"");
    }
}
