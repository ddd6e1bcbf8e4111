//! Tests of the application, without a port.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use axum_app::{app, logins::Logins, notes};
use mcp_server::prelude::HttpConfig;
use serde_json::{Value, json};
use tower::ServiceExt as _;

const VERSION: &str = "2026-07-28";

fn start() -> Router {
    let all = notes::Notes::default();
    let logins = Logins::new(&[("ada", "lovelace"), ("grace", "hopper")]).unwrap();
    app(notes::server(all.clone()), logins, all, HttpConfig::new().public_url("http://127.0.0.1:8080/mcp"))
}

async fn send(app: &Router, request: Request<Body>) -> (StatusCode, String) {
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// Sends a request to a route of the application.
async fn route(app: &Router, method: &str, path: &str, authorization: &str) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:8080");
    send(app, request.header("authorization", authorization).body(Body::empty()).unwrap()).await
}

/// Calls a tool.
async fn call(app: &Router, token: &str, tool: &str, arguments: Value) -> (StatusCode, String) {
    let meta =
        json!({ "io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let request = Request::post("/mcp")
        .header("host", "127.0.0.1:8080")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", VERSION)
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
        .header("authorization", format!("Bearer {token}"));
    send(app, request.body(Body::from(body.to_string())).unwrap()).await
}

#[tokio::test]
async fn the_users_of_the_application_use_the_mcp_server_with_their_logins() {
    let app = start();
    // `ada:lovelace` and `grace:hopper` in Base64.
    let (status, ada) = route(&app, "POST", "/login", "Basic YWRhOmxvdmVsYWNl").await;
    assert_eq!((status, ada.len()), (StatusCode::OK, 64));
    let (_, grace) = route(&app, "POST", "/login", "Basic Z3JhY2U6aG9wcGVy").await;
    assert_ne!(ada, grace);

    let (status, body) = call(&app, &ada, "add_note", json!({ "text": "buy lemons" })).await;
    assert!(status == StatusCode::OK && body.contains("ada has 1 notes."), "{status} {body}");
    // The page of the application and the tools have the same notes, each for its user.
    let bearer = format!("Bearer {ada}");
    assert_eq!(route(&app, "GET", "/notes", &bearer).await, (StatusCode::OK, "buy lemons".to_owned()));
    assert!(call(&app, &ada, "list_notes", json!({})).await.1.contains("buy lemons"));
    let (status, body) = call(&app, &grace, "list_notes", json!({})).await;
    assert!(status == StatusCode::OK && !body.contains("lemons"), "{status} {body}");
    let (_, body) = call(&app, &ada, "add_note", json!({ "text": "x".repeat(1_001) })).await;
    assert!(body.contains("the note has 1001 bytes"), "{body}");

    // A logout ends the access to both.
    assert_eq!(route(&app, "POST", "/logout", &bearer).await.0, StatusCode::NO_CONTENT);
    assert_eq!(route(&app, "GET", "/notes", &bearer).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(call(&app, &ada, "list_notes", json!({})).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(call(&app, &grace, "list_notes", json!({})).await.0, StatusCode::OK);
}

#[tokio::test]
async fn wrong_passwords_and_tokens_reach_neither_routes_nor_tools() {
    let app = start();
    // `ada:hopper` in Base64.
    for authorization in ["Basic YWRhOmhvcHBlcg==", "Bearer x", ""] {
        assert_eq!(route(&app, "POST", "/login", authorization).await.0, StatusCode::UNAUTHORIZED, "{authorization}");
    }
    assert_eq!(route(&app, "GET", "/notes", "Bearer x").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(route(&app, "POST", "/logout", "").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(call(&app, "x", "list_notes", json!({})).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(route(&app, "GET", "/", "").await.0, StatusCode::OK);
}
