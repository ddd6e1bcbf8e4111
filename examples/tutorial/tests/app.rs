//! Tests of the application, without a port.

use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use mcp_server::prelude::HttpConfig;
use tower::ServiceExt as _;
use tutorial::{app::app, notes::Notes};

/// Sends a request to the application and returns the status.
async fn status(path: &str, token: Option<&str>) -> StatusCode {
    let app = app(tutorial::server(Notes::default()), HttpConfig::new(), "secret".into());
    let mut request = Request::get(path).header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    app.oneshot(request.body(Body::empty()).expect("the request is valid"))
        .await
        .expect("a router does not fail")
        .status()
}

#[tokio::test]
async fn only_the_mcp_server_requires_the_token() {
    assert_eq!(status("/", None).await, StatusCode::OK);
    assert_eq!(status("/health", None).await, StatusCode::OK);
    assert_eq!(status("/mcp", None).await, StatusCode::UNAUTHORIZED);
    assert_eq!(status("/mcp", Some("wrong")).await, StatusCode::UNAUTHORIZED);
    // The endpoint accepts the token. It rejects a GET request that names no session.
    assert_eq!(status("/mcp", Some("secret")).await, StatusCode::BAD_REQUEST);
    assert_eq!(status("/unknown", None).await, StatusCode::NOT_FOUND);
}
