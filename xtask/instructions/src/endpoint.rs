//! The endpoint over HTTP without a socket: from a request to the bytes of its response.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use mcp_server::http::{HttpConfig, HttpServer as _, McpService};

use crate::{CALL, Failure, INITIALIZE, INITIALIZED, STATELESS_CALL, check, server};

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
    let mut request = Request::new(Full::new(Bytes::from_static(body.as_bytes())));
    *request.method_mut() = method;
    *request.uri_mut() = "http://127.0.0.1:8080/mcp".parse()?;
    request.headers_mut().clone_from(headers);
    let (parts, body) = service.handle(request).await.into_parts();
    Ok((parts.status, parts.headers, body.collect().await?.to_bytes()))
}

/// Opens a session. Returns the headers of its requests.
async fn open(service: &McpService) -> Result<HeaderMap, Failure> {
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
            let mut headers = headers("2026-07-28");
            headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
            headers.insert("mcp-name", HeaderValue::from_static("echo"));
            (headers, STATELESS_CALL)
        } else {
            (open(&service).await?, CALL)
        };
        for _ in 0..count {
            check(&send(&service, Method::POST, &headers, body).await?.2)?;
        }
        Ok(())
    })
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
