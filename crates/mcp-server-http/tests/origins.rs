//! `Host`, `Origin` and CORS on every method, in both eras.

use crate::common;
use crate::common::{listen, open, request, send, socket::serve, stateless};
use http::{Method, StatusCode};
use mcp_server_http::{HttpConfig, HttpServer};
use serde_json::json;

const METHODS: [Method; 5] = [Method::POST, Method::GET, Method::DELETE, Method::OPTIONS, Method::PUT];

#[tokio::test]
async fn rejects_a_foreign_origin_or_host_for_every_method() {
    let service = common::service();
    let session = open(&service).await;
    for method in METHODS {
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost.evil.example"),
            ("host", "evil.example"),
            ("host", "localhost@evil.example"),
        ] {
            let mut headers = common::BASE.to_vec();
            headers.extend([("mcp-session-id", session.as_str()), (name, value)]);
            let answer = send(&service, request(method.clone(), &headers, "{}")).await;
            assert_eq!((answer.status, answer.error_code()), (StatusCode::FORBIDDEN, Some(-32600)), "{method} {value}");
            assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control")), "{answer:?}");
        }
    }
    // The session was not ended by the DELETE.
    assert_eq!(service.handle(listen(&session)).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn guards_unknown_paths_too() {
    let endpoint = serve(&common::server(), HttpConfig::new()).await;
    let local = "http://localhost:5173";
    for (headers, status, readable_by) in [
        (&[][..], StatusCode::NOT_FOUND, None),
        (&[("origin", local)], StatusCode::NOT_FOUND, Some(local)),
        (&[("host", "evil.example")], StatusCode::FORBIDDEN, None),
        (&[("origin", "https://evil.example")], StatusCode::FORBIDDEN, None),
    ] {
        let mut request = request(Method::POST, headers, "{}");
        *request.uri_mut() = "/elsewhere".parse().unwrap();
        let answer = endpoint.exchange(request).await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (status, readable_by), "{headers:?}");
    }
}

#[tokio::test]
async fn an_allowed_origin_can_read_every_response() {
    let service = common::server().into_service(HttpConfig::new().allowed_origins(["https://app.example.com:*"]));
    let with = |origin: &'static str| stateless("tools/list", json!({}), &[("origin", origin)]);
    for origin in ["https://app.example.com", "https://app.example.com:8443", "http://localhost:5173", "http://[::1]:3"]
    {
        let answer = send(&service, with(origin)).await;
        assert_eq!(answer.status, StatusCode::OK, "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        assert_eq!(answer.header("vary"), Some("origin"));
        let exposed = answer.header("access-control-expose-headers").unwrap();
        for name in ["mcp-session-id", "mcp-protocol-version", "www-authenticate"] {
            assert!(exposed.contains(name), "{exposed}");
        }
        assert_eq!(answer.header("access-control-allow-credentials"), None);
    }
    // A page can read rejections, too.
    let refused = send(&service, stateless("no/such", json!({}), &[("origin", "https://app.example.com")])).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
    assert_eq!(refused.header("access-control-allow-origin"), Some("https://app.example.com"));
    let without = send(&service, stateless("tools/list", json!({}), &[])).await;
    assert_eq!(without.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn a_preflight_allows_only_the_headers_of_clients() {
    let service = common::service();
    let headers = [
        ("origin", "http://localhost:5173"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "mcp-param-region, x-other, mcp-param-"),
    ];
    let answer = send(&service, request(Method::OPTIONS, &headers, "")).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::NO_CONTENT, 0));
    assert_eq!(answer.header("access-control-allow-methods"), Some("POST, GET, DELETE, OPTIONS"));
    let allowed: Vec<_> = answer.header("access-control-allow-headers").unwrap().split(", ").collect();
    for name in [
        "content-type",
        "accept",
        "mcp-session-id",
        "mcp-protocol-version",
        "last-event-id",
        "authorization",
        "mcp-method",
        "mcp-name",
        "mcp-param-region",
    ] {
        assert!(allowed.contains(&name), "{name}: {allowed:?}");
    }
    assert!(
        !allowed.contains(&"x-other") && !allowed.contains(&"mcp-param-") && !allowed.contains(&"*"),
        "{allowed:?}"
    );
    // Without an origin the response has no CORS headers.
    let plain = send(&service, request(Method::OPTIONS, &[], "")).await;
    assert_eq!((plain.status, plain.header("access-control-allow-methods")), (StatusCode::NO_CONTENT, None));
}

#[tokio::test]
async fn each_guard_can_be_disabled_separately() {
    let any_origin = common::server().into_service(HttpConfig::new().dangerous_allow_any_origin());
    let any_host = common::server().into_service(HttpConfig::new().dangerous_allow_any_host());
    let origin = || stateless("tools/list", json!({}), &[("origin", "https://evil.example")]);
    let host = || stateless("tools/list", json!({}), &[("host", "evil.example")]);
    assert_eq!(send(&any_origin, origin()).await.header("access-control-allow-origin"), Some("https://evil.example"));
    assert_eq!(send(&any_origin, host()).await.status, StatusCode::FORBIDDEN);
    assert_eq!(send(&any_host, host()).await.status, StatusCode::OK);
    assert_eq!(send(&any_host, origin()).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn serves_clients_without_an_origin_under_public_names() {
    let service = common::server().into_service(HttpConfig::new().allowed_hosts(["mcp.example.com"]));
    let call = |extra: &[(&str, &str)]| stateless("tools/list", json!({}), extra);
    assert_eq!(send(&service, call(&[("host", "mcp.example.com")])).await.status, StatusCode::OK);
    // A page on the visitor's own machine has no business with a public server.
    let local_page = call(&[("host", "mcp.example.com"), ("origin", "http://localhost:3000")]);
    assert_eq!(send(&service, local_page).await.status, StatusCode::FORBIDDEN);
    // A browser that omits the origin marks the request as cross-site.
    let crossing = call(&[("host", "mcp.example.com"), ("sec-fetch-site", "cross-site")]);
    assert_eq!(send(&service, crossing).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn exposes_no_session_id_to_foreign_origins() {
    let service = common::service();
    let session = open(&service).await;
    for method in METHODS {
        for headers in [&common::BASE[..], &[("accept", "text/event-stream")], &[("accept", "text/html")]] {
            let answer = send(&service, request(method.clone(), headers, "{}")).await;
            assert!(!format!("{answer:?}").contains(&session), "{method} {answer:?}");
        }
    }
    // The logs contain no session ids, too.
    assert!(!format!("{service:?}").contains(&session));
}
