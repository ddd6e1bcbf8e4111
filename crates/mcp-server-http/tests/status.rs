//! The status route.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use http::{Method, Request, StatusCode};
use mcp_auth::ApiKeys;
use mcp_protocol::Principal;
use mcp_server_http::{HttpConfig, HttpServer};
use serde_json::json;

use crate::common::{self, send, server, socket::serve};

fn request(method: Method, headers: &[(&str, &str)]) -> Request<http_body_util::Full<bytes::Bytes>> {
    let mut request = common::request(method, headers, "");
    *request.uri_mut() = "/status".parse().unwrap();
    request
}

fn config() -> HttpConfig {
    HttpConfig::new().status("/status", |caller| {
        let is_operator = caller.is_none_or(|caller| caller.subject == "ops");
        is_operator.then(|| json!({ "caller": caller.map(|caller| &caller.subject) }))
    })
}

#[tokio::test]
async fn the_status_is_a_document_of_the_application() {
    let server = server();
    let service = server.clone().into_service(config());
    let answer = send(&service, request(Method::GET, &[])).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.body, r#"{"caller":null}"#);
    assert_eq!(
        (answer.header("content-type"), answer.header("cache-control")),
        (Some("application/json"), Some("no-store"))
    );
    let answer = send(&service, request(Method::HEAD, &[])).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.body, "");
    let post = send(&service, request(Method::POST, &[])).await;
    assert_eq!((post.status, post.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, Some("GET, HEAD, OPTIONS")));
    server.shutdown();
    assert_eq!(send(&service, request(Method::GET, &[])).await.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn the_status_is_guarded_and_disabled_by_default() {
    let endpoint = serve(&server(), config()).await;
    assert_eq!(endpoint.exchange(request(Method::GET, &[])).await.status, StatusCode::OK);
    for foreign in [("host", "evil.example"), ("origin", "https://evil.example")] {
        assert_eq!(endpoint.exchange(request(Method::GET, &[foreign])).await.status, StatusCode::FORBIDDEN);
    }
    let endpoint = serve(&server(), HttpConfig::new()).await;
    assert_eq!(endpoint.exchange(request(Method::GET, &[])).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_status_has_the_authentication_of_the_endpoint() {
    let keys = ApiKeys::new().key("ops-key", Principal::new("ops")).unwrap();
    let keys = keys.key("ann-key", Principal::new("ann")).unwrap();
    let config = config().public_url("http://localhost/mcp").authenticate(keys);
    let service = server().into_service(config);
    for (headers, status) in [
        (&[][..], StatusCode::UNAUTHORIZED),
        (&[("x-api-key", "wrong")], StatusCode::UNAUTHORIZED),
        (&[("x-api-key", "ann-key")], StatusCode::FORBIDDEN),
        (&[("x-api-key", "ops-key")], StatusCode::OK),
    ] {
        let answer = send(&service, request(Method::GET, headers)).await;
        assert_eq!(answer.status, status, "{headers:?}");
        assert_eq!(answer.body == r#"{"caller":"ops"}"#, status == StatusCode::OK, "{headers:?}");
    }
}

#[test]
fn the_status_needs_a_path_of_its_own() {
    let config = config().health("/status");
    assert!(config.check().unwrap_err().to_string().contains("`health` and `status` are both `/status`"));
}
