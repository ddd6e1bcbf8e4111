//! Malformed bodies: the server rejects each with a readable error and serves the next client.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use crate::common;
use crate::common::{Answer, initialized, open, request, send, service};
use bytes::Bytes;
use http::{Method, StatusCode};
use mcp_server_http::McpService;
use serde_json::json;

const LEGACY: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hé\u0000"}}}"#;

fn modern() -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}
    });
    let params = json!({ "name": "echo", "arguments": { "text": "hi" }, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
}

/// Sends a body as a legacy and as a stateless client would.
async fn both(service: &McpService, session: &str, body: &[u8]) -> [Answer; 2] {
    let mut headers = common::BASE.to_vec();
    headers.push(("mcp-session-id", session));
    let old = send(service, request(Method::POST, &headers, Bytes::copy_from_slice(body))).await;
    headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")]);
    let new = send(service, request(Method::POST, &headers, Bytes::copy_from_slice(body))).await;
    [old, new]
}

/// A response is an empty 202 or a JSON-RPC message with the reason.
fn assert_readable(answer: &Answer, body: &[u8]) {
    let shown = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
    assert!(answer.status.as_u16() < 500, "{shown}: {answer:?}");
    if answer.status == StatusCode::ACCEPTED {
        assert!(answer.body.is_empty(), "{shown}: {answer:?}");
        return;
    }
    let message = answer.json();
    assert_eq!(message["jsonrpc"], "2.0", "{shown}");
    if let Some(error) = message.get("error") {
        assert!(error["code"].is_i64() && !error["message"].as_str().unwrap().is_empty(), "{shown}: {message}");
    } else {
        assert!(message["result"].is_object(), "{shown}: {message}");
    }
}

async fn assert_still_serving(service: &McpService, session: &str) {
    let [old, _] = both(service, session, LEGACY.as_bytes()).await;
    let [_, new] = both(service, session, modern().as_bytes()).await;
    for (answer, text) in [(old, "hé\0"), (new, "hi")] {
        assert_eq!((answer.status, &answer.json()["result"]["content"][0]["text"]), (StatusCode::OK, &json!(text)));
    }
}

#[tokio::test]
async fn rejects_malformed_messages_with_the_matching_code() {
    let service = service();
    let session = open(&service).await;
    initialized(&service, &session).await;
    let nested = |open: &str, close: &str, depth| format!("{}{}", open.repeat(depth), close.repeat(depth));
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}}}}}"#, nested("[", "]", 200));
    let id = |id: String| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).into_bytes();
    let cases: Vec<(&str, Vec<u8>, i64)> = vec![
        ("nothing", b"".to_vec(), -32700),
        ("blanks", b" \r\n\t".to_vec(), -32700),
        ("truncated", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"meth".to_vec(), -32700),
        ("trailing", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} {}".to_vec(), -32700),
        ("invalid UTF-8", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\xff\"}".to_vec(), -32700),
        ("byte order mark", b"\xef\xbb\xbf{}".to_vec(), -32700),
        ("UTF-16", b"\xff\xfe{\0}\0".to_vec(), -32700),
        ("NUL", b"\0\0\0".to_vec(), -32700),
        ("NUL in a text", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\0ng\"}".to_vec(), -32700),
        ("nested too deep", deep.into_bytes(), -32700),
        ("only brackets", nested("[", "]", 100_000).into_bytes(), -32700),
        ("only braces", "{\"a\":".repeat(100_000).into_bytes(), -32700),
        ("a text", b"\"ping\"".to_vec(), -32600),
        ("null", b"null".to_vec(), -32600),
        ("a batch", b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]".to_vec(), -32600),
        ("other version", b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}".to_vec(), -32600),
        (
            "two methods",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"method\":\"tools/list\"}".to_vec(),
            -32600,
        ),
        ("two ids", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}".to_vec(), -32600),
        ("null id", id("null".into()), -32600),
        ("fraction as id", id("1.5".into()), -32600),
        ("object as id", id("{}".into()), -32600),
        ("huge number as id", id("9".repeat(400)), -32600),
        ("endless number as id", id("1e999".into()), -32600),
        ("long text as id", id(format!("{:?}", "x".repeat(257))), -32600),
        ("very long text as id", id(format!("{:?}", "x".repeat(1 << 20))), -32600),
        ("method of another type", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}".to_vec(), -32600),
        ("result and error", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}".to_vec(), -32600),
    ];
    for (what, body, code) in cases {
        for answer in both(&service, &session, &body).await {
            assert_eq!(
                (answer.status, answer.error_code()),
                (StatusCode::BAD_REQUEST, Some(code)),
                "{what}: {answer:?}"
            );
            assert!(answer.body.len() < 2000, "the response repeats the whole {what}");
        }
    }
    assert_still_serving(&service, &session).await;
}

#[tokio::test]
async fn returns_an_id_at_the_size_limit_unchanged() {
    let service = service();
    let session = open(&service).await;
    for id in
        [json!("x".repeat(256)), json!(i64::MAX), json!(i64::MIN), json!(0), json!(""), json!("1"), json!("\u{0}\"\\é")]
    {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string();
        let mut headers = common::BASE.to_vec();
        headers.push(("mcp-session-id", &session));
        let answer = send(&service, request(Method::POST, &headers, body)).await;
        assert_eq!((answer.status, &answer.json()["id"]), (StatusCode::OK, &id));
    }
}

#[tokio::test]
async fn answers_every_truncated_and_every_damaged_message() {
    let service = service();
    let session = open(&service).await;
    for message in [LEGACY.to_owned(), modern()] {
        let bytes = message.as_bytes();
        for end in 0..bytes.len() {
            for answer in both(&service, &session, &bytes[..end]).await {
                assert_readable(&answer, &bytes[..end]);
            }
        }
        for at in 0..bytes.len() {
            for byte in [0, b'"', b'{', b'}', b'[', b'\\', b'9', 0xff] {
                let mut damaged = bytes.to_vec();
                damaged[at] = byte;
                for answer in both(&service, &session, &damaged).await {
                    assert_readable(&answer, &damaged);
                }
            }
        }
    }
    assert_still_serving(&service, &session).await;
}

#[tokio::test]
async fn answers_random_bytes() {
    let service = service();
    let session = open(&service).await;
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    const TOKENS: [&str; 14] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"jsonrpc\"",
        "\"2.0\"",
        "\"id\"",
        "1",
        "\"method\"",
        "\"ping\"",
        "\"params\"",
        "null",
    ];
    for round in 0..2000 {
        let length = next() % 40;
        let body: Vec<u8> = if round % 2 == 0 {
            (0..length).map(|_| next().to_le_bytes()[3]).collect()
        } else {
            (0..length).flat_map(|_| TOKENS[(next() % 14) as usize].bytes()).collect()
        };
        for answer in both(&service, &session, &body).await {
            assert_readable(&answer, &body);
        }
    }
    assert_still_serving(&service, &session).await;
}

#[tokio::test]
async fn rejects_params_of_the_wrong_type() {
    let service = service();
    let session = open(&service).await;
    for (method, params) in [
        ("tools/call", json!({})),
        ("tools/call", json!({ "name": 7 })),
        ("tools/call", json!({ "name": "echo", "arguments": "text" })),
        ("tools/call", json!({ "name": "x".repeat(100_000) })),
        ("tools/list", json!({ "cursor": 7 })),
        ("tools/list", json!({ "cursor": "x".repeat(100_000) })),
        ("logging/setLevel", json!({ "level": "loud" })),
        ("initialize", json!({ "protocolVersion": 1 })),
    ] {
        let session = (method != "initialize").then_some(session.as_str());
        let answer = send(&service, common::legacy(session, method, params.clone())).await;
        assert_eq!((answer.status, answer.error_code()), (StatusCode::OK, Some(-32602)), "{method} {answer:?}");
        assert!(answer.body.len() < 2000, "{method}");
    }
    assert_still_serving(&service, &session).await;
}

#[tokio::test]
async fn a_panicking_handler_does_not_affect_other_calls() {
    let server = mcp_server_core::Server::builder("test", "1.0")
        .tool(mcp_server_core::tool("panics", async || -> String { panic!("a secret") }))
        .build();
    let service = mcp_server_http::HttpServer::into_service(server, mcp_server_http::HttpConfig::new());
    for _ in 0..100 {
        let answer = send(&service, common::stateless("tools/call", json!({ "name": "panics" }), &[])).await;
        assert_eq!((answer.status, &answer.json()["result"]["isError"]), (StatusCode::OK, &json!(true)));
        assert!(!String::from_utf8_lossy(&answer.body).contains("secret"));
    }
}
