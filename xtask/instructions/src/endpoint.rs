//! The endpoint over HTTP without a socket: from a request to the bytes of its response.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use mcp_server::{
    auth::{ApiKeys, Introspection},
    http::{HttpConfig, HttpServer as _, McpService},
    prelude::*,
    protocol::Principal,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::{CALL, Failure, INITIALIZE, INITIALIZED, STATELESS_CALL, builder, check, server};

const SESSION: &str = "mcp-session-id";

/// The headers of a client.
fn headers(version: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("host", "127.0.0.1:8080"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", version),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
}

/// Sends a request. Returns the headers and the body of its response.
async fn send(
    service: &McpService,
    method: Method,
    headers: &HeaderMap,
    body: &'static str,
) -> Result<(StatusCode, HeaderMap, Bytes), Failure> {
    let (parts, body) = service.handle(request(method, headers, body)?).await.into_parts();
    Ok((parts.status, parts.headers, body.collect().await?.to_bytes()))
}

pub(crate) fn request(
    method: Method,
    headers: &HeaderMap,
    body: &'static str,
) -> Result<Request<Full<Bytes>>, Failure> {
    let mut request = Request::new(Full::new(Bytes::from_static(body.as_bytes())));
    *request.method_mut() = method;
    *request.uri_mut() = "http://127.0.0.1:8080/mcp".parse()?;
    request.headers_mut().clone_from(headers);
    Ok(request)
}

/// Opens a session. Returns the headers of its requests.
pub(crate) async fn open(service: &McpService) -> Result<HeaderMap, Failure> {
    let mut headers = headers("2025-11-25");
    let (_, opened, _) = send(service, Method::POST, &headers, INITIALIZE).await?;
    headers.insert(SESSION, opened.get(SESSION).ok_or("the server opened no session")?.clone());
    let (status, ..) = send(service, Method::POST, &headers, INITIALIZED).await?;
    if status != StatusCode::ACCEPTED {
        return Err(format!("the server answered {status}").into());
    }
    Ok(headers)
}

/// A call of a tool, in a session or in 2026-07-28.
pub(crate) fn calls(count: u32, is_stateless: bool) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let service = server().into_service(HttpConfig::new());
        let (headers, body) = if is_stateless {
            (stateless("tools/call", Some("echo")), STATELESS_CALL)
        } else {
            (open(&service).await?, CALL)
        };
        echoes(&service, &headers, body, count).await
    })
}

/// Sends a call of a tool again and again.
async fn echoes(service: &McpService, headers: &HeaderMap, body: &'static str, count: u32) -> Result<(), Failure> {
    for _ in 0..count {
        check(&send(service, Method::POST, headers, body).await?.2)?;
    }
    Ok(())
}

/// Headers of a request of 2026-07-28.
pub(crate) fn stateless(method: &'static str, name: Option<&'static str>) -> HeaderMap {
    let mut headers = headers("2026-07-28");
    headers.insert("mcp-method", HeaderValue::from_static(method));
    headers.extend(name.map(|name| (HeaderName::from_static("mcp-name"), HeaderValue::from_static(name))));
    headers
}

/// Sends the same request again and again. Each response has at least `least` bytes.
async fn repeat(
    service: &McpService,
    headers: &HeaderMap,
    body: &'static str,
    count: u32,
    least: usize,
) -> Result<(), Failure> {
    for _ in 0..count {
        let (parts, mut body) = service.handle(request(Method::POST, headers, body)?).await.into_parts();
        // The parts of a large body are not copied into one.
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        if parts.status != StatusCode::OK || length < least {
            return Err(format!("the server answered {} with {length} bytes", parts.status).into());
        }
    }
    Ok(())
}

/// The tools of the list.
const TOOLS: usize = 1_000;
/// The least bytes of a tool in the list.
const TOOL_BYTES: usize = 64;
const LIST: &str = r#"{"jsonrpc":"2.0","id":1000000001,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// A list of 1,000 tools, whose page the server has prepared at the first call.
pub(crate) fn lists(count: u32) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let names = (1..TOOLS).map(|number| format!("tool_{number:04}"));
        let server = names.fold(builder(), |builder, name| builder.tool(tool(name, crate::echo))).build();
        let service = server.into_service(HttpConfig::new());
        let headers = stateless("tools/list", None);
        repeat(&service, &headers, LIST, count.saturating_add(1), TOOLS * TOOL_BYTES).await
    })
}

/// Make a text of a size.
#[derive(Deserialize, JsonSchema)]
struct Big {
    /// The number of bytes.
    n: usize,
}

async fn big(Args(Big { n }): Args<Big>) -> String {
    "x".repeat(n)
}

const TEXT: usize = 1 << 20;
const TEXT_CALL: &str = r#"{"jsonrpc":"2.0","id":1000000001,"method":"tools/call","params":{"name":"big","arguments":{"n":1048576},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// A text of 1 MiB, which the server scans for characters that JSON escapes.
pub(crate) fn texts(count: u32) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let service = builder().tool(tool("big", big)).build().into_service(HttpConfig::new());
        repeat(&service, &stateless("tools/call", Some("big")), TEXT_CALL, count, TEXT).await
    })
}

const KEY: &str = "6f1c7a529d0b4a8eb1f32c5d8e7a9b04";

/// A call with an API key.
pub(crate) fn keys(count: u32) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let keys = ApiKeys::new().key(KEY, Principal::new("bench"));
        let service = server().into_service(HttpConfig::new().public_url(RESOURCE).authenticate(keys));
        let mut headers = stateless("tools/call", Some("echo"));
        headers.insert("x-api-key", HeaderValue::from_static(KEY));
        echoes(&service, &headers, STATELESS_CALL, count).await
    })
}

const ISSUER: &str = "https://as.example";
const RESOURCE: &str = "https://bench.example/mcp";

/// A call with a token whose introspection the server remembers from the first call.
pub(crate) fn tokens(count: u32) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let issuing = tokio::spawn(introspect(listener));
        let introspection = Introspection::endpoint(ISSUER, &url, "bench", "secret")?;
        let config =
            HttpConfig::new().public_url(RESOURCE).authenticate(introspection.remember_for(Duration::from_secs(3_600)));
        let service = server().into_service(config);
        let mut headers = stateless("tools/call", Some("echo"));
        headers.insert("authorization", HeaderValue::from_static("Bearer 6f1c7a529d0b4a8eb1f32c5d8e7a9b046f1c7a52"));
        echoes(&service, &headers, STATELESS_CALL, count.saturating_add(1)).await?;
        issuing.abort();
        Ok(())
    })
}

/// Answers each introspection: the token is active.
async fn introspect(listener: TcpListener) {
    let body = format!(r#"{{"active":true,"iss":"{ISSUER}","sub":"bench","aud":"{RESOURCE}","exp":4102444800}}"#);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    while let Ok((mut stream, _)) = listener.accept().await {
        // The request is small, and the answer does not depend on it.
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
    }
}

/// A session that opens and ends.
pub(crate) fn sessions(count: u32) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let service = server().into_service(HttpConfig::new());
        for _ in 0..count {
            let headers = open(&service).await?;
            let (status, ..) = send(&service, Method::DELETE, &headers, "").await?;
            if !status.is_success() || service.open_sessions() != 0 {
                return Err(format!("the session did not end: {status}").into());
            }
        }
        Ok(())
    })
}
