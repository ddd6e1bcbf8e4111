//! Rejected requests of the session era, and the unchanged session.

use crate::common;
use crate::common::{legacy, open, request, send, service};
use http::{Method, StatusCode};
use serde_json::json;

#[tokio::test]
async fn rejections_describe_the_reason_in_json() {
    let service = service();
    let session = open(&service).await;
    let sse = ("accept", "text/event-stream");
    let unknown = ("mcp-session-id", "mcp_gone");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let post = |extra: &[(&str, &str)]| {
        let mut headers = common::BASE.to_vec();
        headers.extend(extra);
        request(Method::POST, &headers, ping.clone())
    };
    let mine = ("mcp-session-id", session.as_str());
    let version = ("mcp-protocol-version", "1999-01-01");
    for (what, request, status, expected_text) in [
        ("POST, gone", post(&[unknown]), 404, "Unknown Mcp-Session-Id"),
        ("GET, gone", request(Method::GET, &[sse, unknown], ""), 404, "Unknown Mcp-Session-Id"),
        ("DELETE, gone", request(Method::DELETE, &[unknown], ""), 404, "Unknown Mcp-Session-Id"),
        ("POST, none", post(&[]), 400, "or send MCP-Protocol-Version: 2026-07-28 and the revision in `_meta`"),
        ("GET, none", request(Method::GET, &[sse], ""), 400, "Mcp-Session-Id"),
        ("DELETE, none", request(Method::DELETE, &[], ""), 400, "Mcp-Session-Id"),
        ("POST, version", post(&[mine, version]), 400, "Bad MCP-Protocol-Version: 1999-01-01. Supported: 2026-07-28, "),
        ("GET, version", request(Method::GET, &[sse, mine, version], ""), 400, "Bad MCP-Protocol-Version: 1999-01-01"),
        ("DELETE, version", request(Method::DELETE, &[mine, version], ""), 400, "Bad MCP-Protocol-Version"),
        ("GET, accept", request(Method::GET, &[mine, ("accept", "text/html")], ""), 406, "text/event-stream"),
    ] {
        let answer = send(&service, request).await;
        assert_eq!((answer.status.as_u16(), answer.error_code()), (status, Some(-32600)), "{what}: {answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{what}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(expected_text), "{what}: {answer:?}");
        // The error carries the request id if the server could parse it.
        let id = what.starts_with("POST").then(|| json!(1));
        assert_eq!(answer.json().get("id").cloned(), id, "{what}: {answer:?}");
    }
    // None of that ended the session.
    assert_eq!(send(&service, post(&[mine])).await.status, StatusCode::OK);
}

#[tokio::test]
async fn another_version_header_does_not_change_the_revision_of_a_session() {
    let service = service();
    let session = open(&service).await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut ping = legacy(Some(&session), "ping", json!({}));
        ping.headers_mut().insert("mcp-protocol-version", version.parse().unwrap());
        let answer = send(&service, ping).await;
        assert_eq!((answer.status, answer.header("mcp-protocol-version")), (StatusCode::OK, Some("2025-11-25")));
    }
}

#[tokio::test]
async fn negotiates_each_session_revision_and_answers_unknown_ones_with_the_newest() {
    let service = service();
    for (offered, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let params =
            json!({ "protocolVersion": offered, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let answer = send(&service, legacy(None, "initialize", params)).await;
        assert_eq!(answer.json()["result"]["protocolVersion"], given);
        assert_eq!(answer.header("mcp-protocol-version"), Some(given));
        // Without a version header, the revision of the session applies.
        let session = answer.header("mcp-session-id").unwrap();
        let mut list = legacy(Some(session), "tools/list", json!({}));
        list.headers_mut().remove("mcp-protocol-version");
        assert_eq!(send(&service, list).await.header("mcp-protocol-version"), Some(given));
    }
}

#[tokio::test]
async fn a_session_id_does_not_bypass_a_guard() {
    let service = service();
    let session = open(&service).await;
    for (name, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
        let mut ping = legacy(Some(&session), "ping", json!({}));
        ping.headers_mut().insert(name, value.parse().unwrap());
        assert_eq!(send(&service, ping).await.status, StatusCode::FORBIDDEN);
    }
}
