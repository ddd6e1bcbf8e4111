//! The health endpoint.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use http::{Method, StatusCode};
use mcp_server_http::{HttpConfig, HttpServer};

use crate::common::{self, Answer, send, server, socket::serve};

fn health_request(method: Method, headers: &[(&str, &str)]) -> http::Request<http_body_util::Full<bytes::Bytes>> {
    let mut request = common::request(method, headers, "");
    *request.uri_mut() = "/health".parse().unwrap();
    request
}

#[track_caller]
fn check(answer: &Answer, status: StatusCode, body: &str) {
    assert_eq!(answer.status, status);
    assert_eq!(answer.body, body);
    assert_eq!(
        (answer.header("content-type"), answer.header("cache-control")),
        (Some("application/json"), Some("no-store"))
    );
}

#[tokio::test]
async fn the_health_endpoint_succeeds_until_shutdown() {
    let server = server();
    let service = server.clone().into_service(HttpConfig::new().health("health").readiness("/ready"));
    let ready = || {
        let mut request = common::request(Method::GET, &[], "");
        *request.uri_mut() = "/ready".parse().unwrap();
        request
    };
    check(&send(&service, ready()).await, StatusCode::OK, r#"{"status":"ok"}"#);
    check(&send(&service, health_request(Method::GET, &[])).await, StatusCode::OK, r#"{"status":"ok"}"#);
    check(&send(&service, health_request(Method::HEAD, &[])).await, StatusCode::OK, "");
    server.shutdown();
    let unavailable = StatusCode::SERVICE_UNAVAILABLE;
    check(&send(&service, health_request(Method::GET, &[])).await, unavailable, r#"{"status":"shutting down"}"#);
    check(&send(&service, health_request(Method::HEAD, &[])).await, unavailable, "");
    check(&send(&service, ready()).await, unavailable, r#"{"status":"shutting down"}"#);
}

#[tokio::test]
async fn the_health_endpoint_is_guarded_and_disabled_by_default() {
    let endpoint = serve(&server(), HttpConfig::new().health("/health")).await;
    assert_eq!(endpoint.exchange(health_request(Method::GET, &[])).await.status, StatusCode::OK);
    assert_eq!(
        endpoint.exchange(health_request(Method::GET, &[("host", "evil.example")])).await.status,
        StatusCode::FORBIDDEN
    );
    let foreign = [("origin", "https://evil.example")];
    assert_eq!(endpoint.exchange(health_request(Method::GET, &foreign)).await.status, StatusCode::FORBIDDEN);
    let post = endpoint.exchange(health_request(Method::POST, &[])).await;
    assert_eq!((post.status, post.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, Some("GET, HEAD, OPTIONS")));
    let endpoint = serve(&server(), HttpConfig::new()).await;
    assert_eq!(endpoint.exchange(health_request(Method::GET, &[])).await.status, StatusCode::NOT_FOUND);
}
