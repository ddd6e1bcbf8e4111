//! No credential of a caller is in a log record, in `Debug`, in a response, or in the data of a handler.
//!
//! The test has a program of its own, because it collects the log records of the whole process.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use mcp_auth::{
    ApiKeys, AuthRequest, Authenticated, Authenticator, Basic, BearerTokens, BoxFuture, Chain, Jwt, Rejection,
    hash_password,
};
use mcp_protocol::{Challenge, Principal};
use mcp_server_core::{Context, Extension, Server, tool};
use mcp_server_http::{HttpConfig, HttpServer, RequestParts};

mod log_text;

use self::log_text::LogText;

/// An authenticator whose panic quotes the credentials.
struct Panics;

impl Authenticator for Panics {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async move { panic!("no user has the key {:?}", request.headers.get("x-api-key")) })
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::new("ApiKey")]
    }
}

#[tokio::test]
async fn credentials_are_in_no_log_record_response_or_handler() {
    let records = LogText::default();
    let writer = records.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let server = Server::builder("test", "1")
        .tool(tool("show", async |Extension(parts): Extension<RequestParts>, context: Context| {
            format!("{parts:?} {:?} {:?} {:?}", parts.headers, parts.extensions, context.principal())
        }))
        .tool(tool("admin", async || "done").requires_scopes(["admin"]))
        .build();
    let digest = hash_password("hunter2-password").unwrap();
    let auth = Chain::new()
        .with(BearerTokens::new().token("hunter2-token", Principal::new("ann")).unwrap())
        .with(Jwt::hs256("https://as.example", b"hunter2-secret-hunter2-secret-32").unwrap())
        .with(ApiKeys::new().key("hunter2-key", Principal::new("ann")).unwrap())
        .with(Basic::new("test").user("ann", &digest, Principal::new("ann")).unwrap());
    let config = HttpConfig::new().public_url("https://mcp.example.com/mcp").authenticate(auth);
    let mut shown = format!("{config:?}");
    let service = server.clone().into_service(config);
    shown += &format!("{service:?}");
    let encoded = BASE64_STANDARD.encode("ann:hunter2-password");
    let wrong = BASE64_STANDARD.encode("ann:hunter2-wrong");
    let mut reached = 0;
    for (name, value) in [
        ("authorization", "Bearer hunter2-token".to_owned()),
        ("authorization", "Bearer hunter2-other".to_owned()),
        ("authorization", "Bearer hunter2 hunter2".to_owned()),
        ("authorization", "hunter2".to_owned()),
        ("x-api-key", "hunter2-key".to_owned()),
        ("x-api-key", "hunter2-other".to_owned()),
        ("authorization", format!("Basic {encoded}")),
        ("authorization", format!("Basic {wrong}")),
    ] {
        for tool in ["show", "admin"] {
            let message = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","_meta":{{
                "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
            );
            let request = Request::post("/mcp")
                .header(header::HOST, "localhost")
                .header(header::CONTENT_TYPE, "application/json")
                .header(header::ACCEPT, "application/json, text/event-stream")
                .header("mcp-protocol-version", "2026-07-28")
                .header("mcp-method", "tools/call")
                .header("mcp-name", tool)
                .header(name, &value);
            let response = service.handle(request.body(Full::new(bytes::Bytes::from(message))).unwrap()).await;
            reached += usize::from(response.status().is_success());
            shown += &format!("{response:?}");
            let body: bytes::Bytes = response.into_body().collect().await.unwrap().to_bytes();
            shown += std::str::from_utf8(&body).unwrap();
        }
    }
    assert_eq!(reached, 3, "{shown}");
    let config = HttpConfig::new().public_url("https://mcp.example.com/mcp").authenticate(Panics);
    let request = Request::post("/mcp").header(header::HOST, "localhost").header("x-api-key", "hunter2-key");
    let request = request
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream");
    let response = server.into_service(config).handle(request.body(Full::new(bytes::Bytes::new())).unwrap()).await;
    assert_eq!(response.status(), 503);
    shown += &records.text();
    assert!(shown.contains("an authenticator panicked"), "{shown}");
    assert!(shown.contains("tools/call") && shown.contains("insufficient_scope"), "{shown}");
    for secret in ["hunter2", &encoded, &wrong, &digest] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
}
