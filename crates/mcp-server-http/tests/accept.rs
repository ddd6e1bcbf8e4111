//! `Accept` and `Content-Type`: the required values, and the lenient endpoint for clients that list fewer values.

use crate::common;
use crate::common::{Answer, initialize, legacy, open, request, send, service, stateless};
use http::{Method, StatusCode};
use mcp_server_http::{HttpConfig, HttpServer, McpService};
use serde_json::json;

async fn list(service: &McpService, accept: &str) -> Answer {
    send(service, stateless("tools/list", json!({}), &[("accept", accept)])).await
}

async fn call_progress(service: &McpService, accept: &str) -> Answer {
    let params = json!({ "name": "progress", "_meta": { "progressToken": 1 } });
    send(service, stateless("tools/call", params, &[("accept", accept)])).await
}

#[tokio::test]
async fn rejects_a_post_that_does_not_accept_json_and_event_streams() {
    let service = service();
    for (accept, status) in [
        ("application/json, text/event-stream", 200),
        ("text/event-stream;q=0.5, application/json;q=0.1", 200),
        ("text/event-stream, application/json", 200),
        ("*/*", 200),
        ("application/*, text/*", 200),
        ("-", 200),
        ("application/json", 406),
        ("text/event-stream", 406),
        ("text/html", 406),
        ("application/json;q=0, */*", 406),
        ("application/jsonx, text/event-streams", 406),
        ("", 406),
    ] {
        let answer = list(&service, accept).await;
        assert_eq!(answer.status.as_u16(), status, "{accept:?}");
        if status == 406 {
            assert!(answer.json()["error"]["message"].as_str().unwrap().contains("text/event-stream"), "{answer:?}");
        } else {
            // The kind of response determines its form. The order of the accepted types does not.
            assert_eq!(answer.header("content-type"), Some("application/json"), "{accept:?}");
        }
    }
}

#[tokio::test]
async fn a_lenient_endpoint_answers_in_the_accepted_content_type() {
    let service = common::server().into_service(HttpConfig::new().lenient_accept());
    let quiet = list(&service, "application/json").await;
    assert_eq!((quiet.status, quiet.header("content-type")), (StatusCode::OK, Some("application/json")));
    // Without a stream the server drops the progress and sends only the response.
    let spoke = call_progress(&service, "application/json").await;
    assert_eq!(spoke.json()["result"]["content"][0]["text"], "done");

    let quiet = list(&service, "text/event-stream").await;
    assert_eq!(quiet.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(quiet.events()[0]["result"]["tools"][0]["name"], "echo");
    assert_eq!(quiet.events().len(), 1);
    assert_eq!(call_progress(&service, "text/event-stream").await.events().len(), 3);

    assert_eq!(list(&service, "text/html").await.status, StatusCode::NOT_ACCEPTABLE);
    // A rejection has a status and a JSON body.
    let unknown = send(&service, stateless("no/such", json!({}), &[("accept", "text/event-stream")])).await;
    assert_eq!((unknown.status, unknown.error_code()), (StatusCode::NOT_FOUND, Some(-32601)));
}

#[tokio::test]
async fn opens_a_session_for_a_client_that_accepts_only_event_streams() {
    let service = common::server().into_service(HttpConfig::new().lenient_accept());
    let accepting = |mut request: http::Request<_>| {
        request.headers_mut().insert("accept", "text/event-stream".parse().unwrap());
        request
    };
    let opened = send(&service, accepting(initialize())).await;
    assert_eq!(opened.events()[0]["result"]["protocolVersion"], "2025-11-25");
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let call = json!({ "name": "echo", "arguments": { "text": "hi" } });
    let answer = send(&service, accepting(legacy(Some(&session), "tools/call", call))).await;
    assert_eq!(answer.events()[0]["result"]["content"][0]["text"], "hi");
    let notice =
        send(&service, accepting(common::notification(&session, "notifications/initialized", json!({})))).await;
    assert_eq!((notice.status, notice.body.len()), (StatusCode::ACCEPTED, 0));
}

#[tokio::test]
async fn rejects_a_get_that_does_not_accept_event_streams() {
    let service = service();
    let session = open(&service).await;
    for (accept, status) in [("text/event-stream", 200), ("*/*", 200), ("application/json", 406), ("text/html", 406)] {
        let get = request(Method::GET, &[("accept", accept), ("mcp-session-id", &session)], "");
        let response = service.handle(get).await;
        assert_eq!(response.status().as_u16(), status, "{accept}");
    }
}

#[tokio::test]
async fn rejects_a_body_without_the_json_content_type() {
    let service = service();
    for (content_type, status) in [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("APPLICATION/JSON", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("-", 415),
    ] {
        // A form on another page can send the first three types without a preflight.
        let answer = send(&service, stateless("tools/list", json!({}), &[("content-type", content_type)])).await;
        assert_eq!(answer.status.as_u16(), status, "{content_type}");
    }
}

#[tokio::test]
async fn answers_notifications_with_202_and_an_empty_body() {
    let service = service();
    let session = open(&service).await;
    let mut headers = common::BASE.to_vec();
    headers.push(("mcp-session-id", &session));
    for body in [
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/nobody/knows" }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "gone" } }),
        json!({ "jsonrpc": "2.0", "id": 99, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": 99, "error": { "code": -1, "message": "no" } }),
    ] {
        let answer = send(&service, request(Method::POST, &headers, body.to_string())).await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::ACCEPTED, 0), "{body}");
    }
}
