//! Parts that several targets share: a server without a socket, requests to its endpoint, and servers that answer with any bytes. Other
//! parts damage copies of valid texts, and limit the CPU time.

mod clock;
pub mod loopback;
pub mod peer;
mod time;

use std::{
    cell::OnceCell,
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use mcp_protocol::{JsonObject, mirror};
use mcp_schema::elicitation::Form;
use mcp_server_core::{Inputs, Progress, Server, StateKeys, ToolError, prompt, resource, template, tool};
use mcp_server_http::{Body, HttpConfig, HttpServer, McpService};
use mcp_transport::sse::Decoder;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

pub use self::{
    clock::{isolated, isolated_with_sockets},
    time::{cpu_time, within_time},
};

/// The number of entries of each list of [`server`]. A page has two.
pub const ENTRIES: usize = 7;

thread_local! {
    static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() };
    static SERVER: OnceCell<Server> = const { OnceCell::new() };
}

/// Runs a future on the runtime of this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    RUNTIME.with(|runtime| {
        runtime.get_or_init(|| Builder::new_current_thread().enable_all().build().unwrap()).block_on(future)
    })
}

/// Returns the next JSON values of an input.
pub fn values<const N: usize>(data: &[u8]) -> Option<[Value; N]> {
    let mut values = serde_json::Deserializer::from_slice(data).into_iter::<Value>();
    let values: Vec<Value> = values.by_ref().take(N).collect::<Result<_, _>>().ok()?;
    values.try_into().ok()
}

/// Asserts that a value of the type has the same JSON after a round trip. Returns the value.
#[track_caller]
pub fn round_trip<T: Serialize + DeserializeOwned>(json: &[u8]) -> Option<T> {
    let value: T = serde_json::from_slice(json).ok()?;
    let written = serde_json::to_value(&value).unwrap();
    let again: T = serde_json::from_value(written.clone()).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(serde_json::to_value(&again).unwrap(), written);
    // The text can lose the last digit of a number: serde_json has an option for exact numbers.
    let text = written.to_string();
    serde_json::from_str::<T>(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    Some(value)
}

/// Damages a text. The first byte of the edits is their number, at most seven; each has a position in two bytes, and a byte. Returns
/// the damaged text and the rest of the data. The text can be equal to the original.
pub fn damaged<'d>(text: &str, data: &'d [u8]) -> Option<(String, &'d [u8])> {
    let (count, data) = data.split_first()?;
    let (edits, rest) = data.split_at_checked(usize::from(count % 8) * 3)?;
    let mut bytes = text.as_bytes().to_vec();
    for edit in edits.as_chunks::<3>().0 {
        let [high, low, byte] = *edit;
        let at = usize::from(u16::from_be_bytes([high, low])) % (bytes.len() + 1);
        match byte {
            0 => bytes.truncate(at),
            byte @ 1..128 if at < bytes.len() => bytes[at] = byte,
            byte => bytes.insert(at, byte & 127),
        }
    }
    Some((String::from_utf8(bytes).ok()?, rest))
}

/// Returns a secret that the input does not contain. The number distinguishes the secrets of an input.
///
/// The fuzzer learns constants from comparisons and writes them into its inputs. So the value depends on the input.
pub fn secret_for(input: &[u8], number: u8) -> String {
    let mut hasher = DefaultHasher::new();
    (input, number).hash(&mut hasher);
    let first = hasher.finish();
    first.hash(&mut hasher);
    format!("secret-{first:016x}{:016x}", hasher.finish())
}

/// Replaces the placeholders of a text.
pub fn expanded(text: &[u8], values: &[(&str, &str)]) -> Vec<u8> {
    let mut expanded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let found = values.iter().find(|(name, _)| rest.starts_with(name.as_bytes()));
        match found {
            Some((name, value)) => {
                expanded.extend_from_slice(value.as_bytes());
                rest = &rest[name.len()..];
            }
            None => {
                expanded.push(*first);
                rest = tail;
            }
        }
    }
    expanded
}

async fn text() -> &'static str {
    "text"
}

/// Returns a server with handlers of each kind.
pub fn server() -> Server {
    SERVER.with(|server| server.get_or_init(build).clone())
}

fn build() -> Server {
    let form = json!({
        "type": "object",
        "properties": { "name": { "type": "string", "maxLength": 8 }, "age": { "type": "integer", "minimum": 0 } },
        "required": ["name"],
    });
    let form = Form::parse(&form).unwrap();
    let ask = move |inputs: Inputs| {
        let form = form.clone();
        async move {
            let content = inputs.elicit_form("who", "Name?", &form).await?;
            inputs.elicit_url("pay", "Pay here.", "https://example.com/pay").await?;
            Ok::<_, ToolError>(Value::from(content).to_string())
        }
    };
    let steps = async |progress: Progress| {
        for step in 0..3_u32 {
            progress.report(f64::from(step), None, None).await;
        }
        "done"
    };
    let mut builder = Server::builder("fuzz", "1")
        .page_size(2)
        .state_keys(StateKeys::new([[7; 32]]))
        .tool(tool("ask", ask))
        .tool(tool("steps", steps));
    for number in 0..ENTRIES {
        builder = builder
            .resource(resource(format!("x://{number}"), text))
            .resource_template(template(format!("y://{number}/{{+path}}"), text).complete_from("path", ["a"]))
            .prompt(prompt(format!("p{number}"), text));
        if number >= 2 {
            builder = builder.tool(tool(format!("t{number}"), text));
        }
    }
    builder.build()
}

/// Returns an endpoint without sessions.
pub fn service() -> McpService {
    server().into_service(HttpConfig::new().sse("/sse", "/messages").health("/health"))
}

/// The answer of the endpoint.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The received part of the body. A stream has no more bytes for now.
    pub body: Vec<u8>,
    /// Whether the body is complete.
    pub is_complete: bool,
}

impl Answer {
    /// Returns a header; an empty text if it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the messages of the body: its JSON, or the data of its events.
    pub fn messages(&self) -> Vec<Vec<u8>> {
        if !self.header("content-type").starts_with("text/event-stream") {
            return Vec::from([self.body.clone()]);
        }
        let mut decoder = Decoder::new(16 << 20);
        decoder.feed(Bytes::copy_from_slice(&self.body));
        let events = std::iter::from_fn(|| decoder.next_event()).map(|event| event.unwrap().data.to_vec());
        events.filter(|data| !data.is_empty()).collect()
    }

    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a request and reads its body to the end.
pub async fn send_to_end(service: &McpService, request: Request<Full<Bytes>>) -> Answer {
    let (parts, body) = service.handle(request).await.into_parts();
    let body = body.collect().await.unwrap_or_else(|error| panic!("the body failed: {error}"));
    let body = body.to_bytes().to_vec();
    Answer { status: parts.status, headers: parts.headers, body, is_complete: true }
}

/// Sends a request and reads its body, until the body has ended or is idle.
pub async fn send(service: &McpService, request: Request<Full<Bytes>>) -> Answer {
    let (parts, body) = service.handle(request).await.into_parts();
    let (body, is_complete) = read(body).await;
    Answer { status: parts.status, headers: parts.headers, body, is_complete }
}

async fn read(mut body: Body) -> (Vec<u8>, bool) {
    let idle = async || {
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
    };
    let mut bytes = Vec::new();
    loop {
        tokio::select! {
            biased;
            frame = body.frame() => match frame {
                Some(Ok(frame)) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(error)) => panic!("the body failed: {error}"),
                None => return (bytes, true),
            },
            () = idle() => return (bytes, false),
        }
    }
}

/// Returns a request; `None` if a part cannot be sent.
pub fn request(method: &[u8], target: &[u8], headers: &[(&[u8], &[u8])], body: &[u8]) -> Option<Request<Full<Bytes>>> {
    let mut request = Request::new(Full::new(Bytes::copy_from_slice(body)));
    *request.method_mut() = Method::from_bytes(method).ok()?;
    *request.uri_mut() = Uri::try_from(target).ok()?;
    for (name, value) in headers {
        let (name, value) = (HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
        request.headers_mut().append(name, value);
    }
    Some(request)
}

const BASE: [(&[u8], &[u8]); 3] = [
    (b"host", b"localhost"),
    (b"content-type", b"application/json"),
    (b"accept", b"application/json, text/event-stream"),
];

/// Returns a request of 2026-07-28.
pub fn stateless(method: &str, mut params: JsonObject) -> Request<Full<Bytes>> {
    let capabilities = json!({ "elicitation": { "form": {}, "url": {} } });
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    params.insert("_meta".to_owned(), meta);
    let name = params.get("name").and_then(Value::as_str).map(|name| mirror::encode(name).into_owned());
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let mut headers = BASE.to_vec();
    headers.extend([(&b"mcp-protocol-version"[..], &b"2026-07-28"[..]), (b"mcp-method", method.as_bytes())]);
    if let Some(name) = &name {
        headers.push((b"mcp-name", name.as_bytes()));
    }
    request(b"POST", b"/mcp", &headers, body.as_bytes()).unwrap()
}

/// Returns a POST of a session.
pub fn in_session(session: &str, message: &Value) -> Request<Full<Bytes>> {
    let mut headers = BASE.to_vec();
    if !session.is_empty() {
        headers.extend([(&b"mcp-session-id"[..], session.as_bytes()), (b"mcp-protocol-version", b"2025-11-25")]);
    }
    request(b"POST", b"/mcp", &headers, message.to_string().as_bytes()).unwrap()
}

/// Opens a session of 2025-11-25, and returns its id.
pub async fn open(service: &McpService) -> String {
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "f", "version": "1" } });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let answer = send(service, in_session("", &message)).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    let session = answer.header("mcp-session-id").to_owned();
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(send(service, in_session(&session, &ready)).await.status, StatusCode::ACCEPTED);
    session
}
