//! The endpoint as a part of an axum application.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::Arc;

use crate::{
    authentication, common,
    common::{Answer, initialize, legacy, stateless},
};
use axum::{
    Router,
    body::Body,
    extract::{Request as AxumRequest, State},
    middleware::{Next, from_fn},
    routing::get,
};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_server_core::{Extension, Server, tool};
use mcp_server_http::{HttpConfig, HttpServer, RequestParts};
use serde_json::json;
use tower_service::Service;

async fn call_router(app: &mut Router, path: &str, request: Request<Full<bytes::Bytes>>) -> Answer {
    let (mut parts, body) = request.into_parts();
    parts.uri = path.parse().unwrap();
    let response = app.call(Request::from_parts(parts, Body::new(body))).await.unwrap();
    let (parts, body) = response.into_parts();
    Answer { status: parts.status, headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
}

fn plain(method: &str) -> Request<Full<bytes::Bytes>> {
    Request::builder().method(method).header("host", "localhost").body(Full::default()).unwrap()
}

#[tokio::test]
async fn merges_into_a_router_with_other_routes() {
    let server = common::server();
    let mut app = Router::new()
        .route("/health", get(async |State(text): State<&'static str>| text))
        .with_state("well")
        .merge(server.into_router(HttpConfig::new().path("/api/mcp")));
    assert_eq!(call_router(&mut app, "/health", plain("GET")).await.body, "well");
    assert_eq!(call_router(&mut app, "/api/mcp", stateless("tools/list", json!({}), &[])).await.status, StatusCode::OK);
    // The router passes all methods on, so that a session opens, works and ends.
    let session = call_router(&mut app, "/api/mcp", initialize()).await.header("mcp-session-id").unwrap().to_owned();
    let ping = call_router(&mut app, "/api/mcp", legacy(Some(&session), "ping", json!({}))).await;
    assert_eq!(ping.json()["result"], json!({}));
    let mut end = plain("DELETE");
    end.headers_mut().insert("mcp-session-id", session.parse().unwrap());
    assert_eq!(call_router(&mut app, "/api/mcp", end).await.status, StatusCode::NO_CONTENT);
    assert_eq!(call_router(&mut app, "/api/mcp", plain("OPTIONS")).await.status, StatusCode::NO_CONTENT);
    assert_eq!(
        call_router(&mut app, "/api/mcp", plain("PUT")).await.header("allow"),
        Some("POST, GET, DELETE, OPTIONS")
    );
    for path in ["/mcp", "/api", "/api/mcp/more"] {
        assert_eq!(
            call_router(&mut app, path, stateless("tools/list", json!({}), &[])).await.status,
            StatusCode::NOT_FOUND
        );
    }
    // The guards of the endpoint are the endpoint's own.
    let foreign = stateless("tools/list", json!({}), &[("origin", "https://evil.example")]);
    assert_eq!(call_router(&mut app, "/api/mcp", foreign).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_metadata_router_holds_the_document_and_not_the_server() {
    let used = Arc::new(());
    let held = used.clone();
    let tool = tool("held", async move || format!("{held:?}"));
    let server = Server::builder("test", "1").tool(tool).build();
    let config = authentication::config();
    let mut app = server.metadata_router(&config);
    drop(server);
    assert_eq!(Arc::strong_count(&used), 1);
    let path = "/.well-known/oauth-protected-resource/mcp";
    let foreign = Request::get(path).header("host", "evil.example").body(Full::default()).unwrap();
    for (request, path, status) in [
        (plain("GET"), path, StatusCode::OK),
        (plain("POST"), path, StatusCode::METHOD_NOT_ALLOWED),
        (foreign, path, StatusCode::FORBIDDEN),
        (stateless("tools/list", json!({}), &[]), "/mcp", StatusCode::NOT_FOUND),
    ] {
        assert_eq!(call_router(&mut app, path, request).await.status, status);
    }
    // An endpoint without an authenticator has no document.
    assert!(!common::server().metadata_router(&HttpConfig::new()).has_routes());
}

#[tokio::test]
async fn nests_in_a_router_and_shares_it_with_another_server() {
    let named = |name: &'static str| Server::builder(name, "1").tool(tool("who", async move || name)).build();
    let mut app = Router::new()
        .nest("/one", named("one").into_router(HttpConfig::new()))
        .nest("/two", named("two").into_router(HttpConfig::new()));
    for name in ["one", "two"] {
        let call = stateless("tools/call", json!({ "name": "who" }), &[]);
        let answer = call_router(&mut app, &format!("/{name}/mcp"), call).await;
        assert_eq!(answer.json()["result"]["content"][0]["text"], name);
    }
    // The other server does not know the session.
    let session = call_router(&mut app, "/one/mcp", initialize()).await.header("mcp-session-id").unwrap().to_owned();
    let foreign = call_router(&mut app, "/two/mcp", legacy(Some(&session), "ping", json!({}))).await;
    assert_eq!(foreign.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_handler_receives_the_head_of_its_request() {
    #[derive(Clone)]
    struct Attached(&'static str);
    let show = async |Extension(parts): Extension<RequestParts>| {
        let attached = parts.extensions.get::<Attached>().unwrap().0;
        format!("{} {} {attached}", parts.uri, parts.headers["x-tenant"].to_str().unwrap())
    };
    let server = Server::builder("test", "1").tool(tool("show", show)).build();
    let mut app = server.into_router(HttpConfig::new());
    let mut call = stateless("tools/call", json!({ "name": "show" }), &[("x-tenant", "acme")]);
    call.extensions_mut().insert(Attached("by a layer"));
    let answer = call_router(&mut app, "/mcp?key=1", call).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "/mcp?key=1 acme by a layer");
}

#[tokio::test]
async fn the_service_answers_on_any_path_without_poll_ready() {
    let mut service = common::service();
    let mut request = stateless("tools/list", json!({}), &[]);
    *request.uri_mut() = "/anything".parse().unwrap();
    std::future::poll_fn(|cx| Service::<Request<Full<bytes::Bytes>>>::poll_ready(&mut service, cx)).await.unwrap();
    assert_eq!(service.call(request).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_route_layer_leaves_unknown_paths_to_the_application() {
    let reject = async |_: AxumRequest, _: Next| StatusCode::UNAUTHORIZED;
    let mcp = || common::server().into_router(HttpConfig::new().health("/mcp/health"));
    let app = |mcp: Router| Router::new().route("/", get(async || "well")).merge(mcp);
    // The guides warn of `layer`: after `merge` it also answers the paths that no route has.
    for (name, mut app, unknown) in [
        ("route_layer", app(mcp().route_layer(from_fn(reject))), StatusCode::NOT_FOUND),
        ("layer", app(mcp().layer(from_fn(reject))), StatusCode::UNAUTHORIZED),
    ] {
        let call = || stateless("tools/list", json!({}), &[]);
        assert_eq!(call_router(&mut app, "/mcp", call()).await.status, StatusCode::UNAUTHORIZED, "{name}");
        assert_eq!(call_router(&mut app, "/mcp/health", plain("GET")).await.status, StatusCode::UNAUTHORIZED, "{name}");
        assert_eq!(call_router(&mut app, "/", plain("GET")).await.status, StatusCode::OK, "{name}");
        assert_eq!(call_router(&mut app, "/unknown", plain("GET")).await.status, unknown, "{name}");
    }
}
