//! The access rule of a server holds for each method and each HTTP verb, and a batch with a denied member has no effect.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_protocol::method::RequestName;
use mcp_server_core::{Server, ServerBuilder, prompt, resource, template, tool};
use mcp_server_http::{HttpServer, McpService};
use serde_json::{Value, json};

use crate::{
    authentication::{bearer, challenges, config},
    common::{self, initialize, legacy, listen, notification, request, send, settle, sse, stateless, within},
};

type Made = Request<Full<Bytes>>;

/// A server whose handlers and notification hook count their runs.
fn counting(runs: &Arc<AtomicUsize>) -> ServerBuilder {
    let count = || {
        let runs = runs.clone();
        async move || {
            runs.fetch_add(1, Ordering::SeqCst);
            "secret"
        }
    };
    let notified = runs.clone();
    Server::builder("secret", "1")
        .instructions("secret")
        .tool(tool("count", count()))
        .resource(resource("secret://r", count()))
        .prompt(prompt("count", count()))
        .on_notification(move |_| {
            notified.fetch_add(1, Ordering::SeqCst);
            async {}
        })
}

fn post(headers: &[(&str, &str)], message: &Value) -> Made {
    request(Method::POST, &[&common::BASE[..], headers].concat(), message.to_string())
}

fn initialize_2025_03_26() -> Made {
    let client = json!({ "name": "t", "version": "1" });
    legacy(None, "initialize", json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client }))
}

/// Sends a request of a caller. A stream is opened and not read.
async fn status(service: &McpService, token: Option<&str>, made: Made) -> (StatusCode, Vec<String>, String) {
    let made = token.map_or_else(|| made.clone(), |token| bearer(token, made.clone()));
    let response = service.handle(made).await;
    if response.headers().get("content-type").is_some_and(|value| value == "text/event-stream") {
        return (response.status(), Vec::new(), String::new());
    }
    let (parts, body) = response.into_parts();
    let body = within("the answer", body.collect()).await.unwrap().to_bytes();
    let answer = common::Answer { status: parts.status, headers: parts.headers, body };
    (answer.status, challenges(&answer), String::from_utf8_lossy(&answer.body).into_owned())
}

/// Returns a request of each method and each HTTP verb for the sessions of a principal.
fn requests(session: &str, old: &str, messages: &str) -> Vec<(String, Made)> {
    let tool = json!({ "name": "count" });
    let uri = json!({ "uri": "secret://r" });
    let complete = json!({
        "ref": { "type": "ref/resource", "uri": "secret://{id}" }, "argument": { "name": "id", "value": "" }
    });
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let methods = [
        ("tools/list", json!({})),
        ("tools/call", tool.clone()),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", uri.clone()),
        ("prompts/list", json!({})),
        ("prompts/get", tool),
        ("completion/complete", complete),
    ];
    let stateless_only = [("server/discover", json!({})), ("subscriptions/listen", filter)];
    let session_only = [
        (
            "initialize",
            json!({
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" }
            }),
        ),
        ("ping", json!({})),
        ("logging/setLevel", json!({ "level": "debug" })),
        ("resources/subscribe", uri.clone()),
        ("resources/unsubscribe", uri),
    ];
    let mut all = Vec::new();
    for (method, params) in methods.iter().chain(&stateless_only) {
        all.push((format!("stateless {method}"), stateless(method, params.clone(), &[])));
    }
    for (method, params) in methods.iter().chain(&session_only) {
        let named = Some(session).filter(|_| *method != "initialize");
        all.push((format!("session {method}"), legacy(named, method, params.clone())));
    }
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/custom" });
    let of_session = [("mcp-session-id", session)];
    let of_old = [("mcp-session-id", old)];
    let stateless_notice = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "notifications/custom")];
    let ping = json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" });
    let mut stream_post = sse::post(messages, &ping);
    stream_post.headers_mut().insert("accept", "application/json".parse().unwrap());
    let resumed = [("accept", "text/event-stream"), ("mcp-session-id", session), ("last-event-id", "x")];
    all.extend([
        ("notification".to_owned(), post(&of_session, &notice)),
        ("initialized".to_owned(), notification(session, "notifications/initialized", json!({}))),
        ("cancelled".to_owned(), notification(session, "notifications/cancelled", json!({ "requestId": 9 }))),
        ("stateless notification".to_owned(), post(&stateless_notice, &notice)),
        ("response".to_owned(), post(&of_session, &json!({ "jsonrpc": "2.0", "id": 1, "result": {} }))),
        ("batch of requests".to_owned(), post(&of_old, &json!([ping]))),
        ("batch of notifications".to_owned(), post(&of_old, &json!([notice]))),
        (
            "batch of unknown methods".to_owned(),
            post(&of_old, &json!([notice, { "jsonrpc": "2.0", "id": 1, "method": "x" }])),
        ),
        ("GET".to_owned(), listen(session)),
        ("GET with an event id".to_owned(), request(Method::GET, &resumed, "")),
        ("GET of HTTP+SSE".to_owned(), sse::get()),
        ("POST of HTTP+SSE".to_owned(), stream_post),
        ("DELETE".to_owned(), request(Method::DELETE, &of_session, "")),
    ]);
    all
}

/// Returns a request of each method in both eras, also of methods that the server does not serve.
fn requests_of_all_methods(session: &str) -> Vec<(String, Made)> {
    let names = RequestName::ALL.iter().map(|name| name.as_str()).chain(["unknown/method"]);
    names
        .flat_map(|method| {
            let params = || json!({ "name": "x", "uri": "x", "taskId": "x" });
            [
                (format!("stateless {method}"), stateless(method, params(), &[])),
                (format!("session {method}"), legacy(Some(session), method, params())),
            ]
        })
        .collect()
}

#[tokio::test]
async fn each_method_and_verb_needs_the_scopes_of_the_server() {
    let runs = Arc::default();
    let of_template = template("secret://{id}", async || "secret").complete("id", async || vec!["secret"]);
    let server = counting(&runs).resource_template(of_template).dynamic_tools().requires_scopes(["admin"]).build();
    let service = server.clone().into_service(config().allow_anonymous().sse("/sse", "/messages").health("/health"));
    let open = async |made| send(&service, bearer("ann", made)).await.header("mcp-session-id").unwrap().to_owned();
    let (session, old) = (open(initialize()).await, open(initialize_2025_03_26()).await);
    let mut stream = service.handle(bearer("ann", sse::get())).await.into_body();
    let first = within("the endpoint", stream.frame()).await.unwrap().unwrap().into_data().unwrap();
    let first = std::str::from_utf8(&first).unwrap();
    let messages = first.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned();
    let open_sessions = service.open_sessions();
    for (token, expected, error) in [
        (None, StatusCode::UNAUTHORIZED, ""),
        // The principal of the sessions, with a token that lacks the scope.
        (Some("exchange"), StatusCode::FORBIDDEN, r#"error="insufficient_scope", "#),
        (Some("bob"), StatusCode::FORBIDDEN, r#"error="insufficient_scope", "#),
    ] {
        let all = requests(&session, &old, &messages).into_iter().chain(requests_of_all_methods(&session));
        for (name, made) in all {
            let (status, challenges, body) = status(&service, token, made).await;
            // The session of another principal is unknown.
            let is_unknown =
                status == StatusCode::NOT_FOUND && token != Some("exchange") && !name.starts_with("stateless");
            assert!(status == expected || is_unknown, "{name} of {token:?}: {status} {body}");
            assert!(!body.contains("secret"), "{name} of {token:?}: {body}");
            if !is_unknown {
                let named = format!(r#"Bearer {error}scope="admin", "#);
                assert!(challenges.iter().any(|one| one.starts_with(&named)), "{name} of {token:?}: {challenges:?}");
            }
        }
    }
    settle().await;
    assert_eq!((runs.load(Ordering::SeqCst), service.open_sessions()), (0, open_sessions));
    for (name, made) in requests(&session, &old, &messages) {
        let (status, _, body) = status(&service, Some("ann"), made).await;
        let is_invalid = name == "GET with an event id" && status == StatusCode::BAD_REQUEST;
        assert!(status.is_success() || is_invalid, "{name}: {status} {body}");
    }
    settle().await;
    assert!(runs.load(Ordering::SeqCst) > 0);
    // These requests have no caller.
    for (method, path, expected) in [(Method::OPTIONS, "/mcp", 204), (Method::GET, "/health", 200)] {
        let mut made = request(method, &[], "");
        *made.uri_mut() = path.parse().unwrap();
        assert_eq!(send(&service, made).await.status.as_u16(), expected, "{path}");
    }
}

#[tokio::test]
async fn sessionless_clients_need_the_scopes_of_the_server() {
    let runs = Arc::default();
    let service = counting(&runs).requires_scopes(["admin"]).build().into_service(config().sessionless());
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/custom" });
    for made in [initialize(), legacy(None, "tools/list", json!({})), post(&[], &notice)] {
        let named = format!("{:?}", made.body());
        let (refused, challenges, body) = status(&service, Some("bob"), made.clone()).await;
        assert_eq!(refused, StatusCode::FORBIDDEN, "{named}");
        assert!(challenges[0].contains("insufficient_scope") && !body.contains("secret"), "{named} {body}");
        assert!(status(&service, Some("ann"), made).await.0.is_success(), "{named}");
    }
}

#[tokio::test]
async fn no_member_of_a_batch_with_a_denied_member_has_an_effect() {
    let runs = Arc::default();
    let service = counting(&runs).tool(tool("admin", async || "done").requires_scopes(["admin"])).build();
    let service = service.into_service(config());
    let opened = send(&service, bearer("bob", initialize_2025_03_26())).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let batch = |members: Value| bearer("bob", post(&[("mcp-session-id", &session)], &members));
    let call =
        |id: u64, tool: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool } });
    let read = json!({ "jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": { "uri": "secret://r" } });
    let get = json!({ "jsonrpc": "2.0", "id": 4, "method": "prompts/get", "params": { "name": "count" } });
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/custom" });
    for members in [
        json!([call(1, "count"), read, get, notice, call(2, "admin")]),
        json!([call(2, "admin"), call(1, "count"), read, get, notice]),
    ] {
        let refused = send(&service, batch(members)).await;
        assert_eq!((refused.status, &refused.json()["id"]), (StatusCode::FORBIDDEN, &Value::Null));
        settle().await;
        assert_eq!(runs.load(Ordering::SeqCst), 0);
    }
    // The same members run without the denied member.
    let allowed = send(&service, batch(json!([call(1, "count"), read, get, notice]))).await;
    assert_eq!((allowed.status, allowed.json().as_array().map(Vec::len)), (StatusCode::OK, Some(3)));
    settle().await;
    assert_eq!(runs.load(Ordering::SeqCst), 4);
}
