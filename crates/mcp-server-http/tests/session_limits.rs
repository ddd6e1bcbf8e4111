//! The limit of the sessions of one principal: both transports and adopted sessions count.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use http::{Method, StatusCode};
use mcp_server_http::{HttpConfig, HttpServer};
use serde_json::json;

use crate::{
    authentication::{bearer, config, server},
    common::{self, Answer, initialize, legacy, listen, notification, request, send, settle, sse},
};

const ERROR: &str = "too many sessions are open, try again later";

fn is_full(answer: &Answer) -> bool {
    let is_refused = answer.status == StatusCode::SERVICE_UNAVAILABLE && answer.header("retry-after") == Some("10");
    is_refused && answer.json()["error"]["message"] == ERROR
}

#[tokio::test]
async fn sessions_and_streams_of_one_principal_share_a_limit() {
    let service = server().into_service(config().max_sessions_per_principal(3).sse("/sse", "/messages"));
    let open = async |token: &str| send(&service, bearer(token, initialize())).await;
    let stream = async |token: &str| service.handle(bearer(token, sse::get())).await;
    let first = open("ann").await;
    assert_eq!((first.status, open("ann").await.status), (StatusCode::OK, StatusCode::OK));
    let held = stream("ann").await;
    assert_eq!((held.status(), service.open_sessions()), (StatusCode::OK, 3));
    assert!(is_full(&open("ann").await));
    assert_eq!(stream("ann").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    // Other principals have a limit of their own.
    let other = stream("bob").await;
    assert_eq!((other.status(), open("bob").await.status), (StatusCode::OK, StatusCode::OK));
    // The end of a stream frees its place for a session, and the end of a session frees its place for a stream.
    drop(held);
    settle().await;
    assert_eq!(open("ann").await.status, StatusCode::OK);
    assert!(is_full(&open("ann").await));
    let id = first.header("mcp-session-id").unwrap().to_owned();
    let end = bearer("ann", request(Method::DELETE, &[("mcp-session-id", &id)], ""));
    assert_eq!(send(&service, end).await.status, StatusCode::NO_CONTENT);
    let held = stream("ann").await;
    assert_eq!((held.status(), service.open_sessions()), (StatusCode::OK, 5));
}

#[tokio::test]
async fn a_principal_at_its_limit_adopts_no_anonymous_session() {
    let service = server().into_service(config().allow_anonymous().max_sessions_per_principal(1));
    let own = send(&service, bearer("ann", initialize())).await.header("mcp-session-id").unwrap().to_owned();
    let anonymous = common::open(&service).await;
    let ping = || legacy(Some(&anonymous), "ping", json!({}));
    for refused in [
        ping(),
        notification(&anonymous, "notifications/initialized", json!({})),
        listen(&anonymous),
        request(Method::DELETE, &[("mcp-session-id", &anonymous)], ""),
    ] {
        let named = format!("{} {:?}", refused.method(), refused.body());
        assert!(is_full(&send(&service, bearer("ann", refused)).await), "{named}");
    }
    // An `initialize` needs no place for the session that it names.
    let mut reopened = initialize();
    reopened.headers_mut().insert("mcp-session-id", anonymous.parse().unwrap());
    assert_eq!(send(&service, bearer("ann", reopened)).await.status, StatusCode::BAD_REQUEST);
    // The session remains anonymous, so another principal can adopt it.
    assert_eq!(send(&service, ping()).await.status, StatusCode::OK);
    assert_eq!(send(&service, bearer("bob", ping())).await.status, StatusCode::OK);
    assert_eq!(send(&service, bearer("ann", ping())).await.status, StatusCode::NOT_FOUND);
    // An adopted session counts.
    assert!(is_full(&send(&service, bearer("bob", initialize())).await));
    let second = common::open(&service).await;
    assert!(is_full(&send(&service, bearer("bob", legacy(Some(&second), "ping", json!({})))).await));
    // A free place allows the adoption.
    let end = bearer("ann", request(Method::DELETE, &[("mcp-session-id", &own)], ""));
    assert_eq!(send(&service, end).await.status, StatusCode::NO_CONTENT);
    assert_eq!(send(&service, bearer("ann", legacy(Some(&second), "ping", json!({})))).await.status, StatusCode::OK);
}

#[tokio::test]
async fn anonymous_callers_have_half_of_the_sessions() {
    let service = server().into_service(config().allow_anonymous().max_sessions(6).sse("/sse", "/messages"));
    let first = common::open(&service).await;
    common::open(&service).await;
    let held = service.handle(sse::get()).await;
    assert_eq!((held.status(), service.open_sessions()), (StatusCode::OK, 3));
    assert!(is_full(&send(&service, initialize()).await));
    assert_eq!(service.handle(sse::get()).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    // A known principal still has room.
    assert_eq!(send(&service, bearer("ann", initialize())).await.status, StatusCode::OK);
    // An adopted session is not anonymous any more.
    let adopted = bearer("ann", legacy(Some(&first), "ping", json!({})));
    assert_eq!(send(&service, adopted).await.status, StatusCode::OK);
    common::open(&service).await;
    assert!(is_full(&send(&service, initialize()).await));
    // The limit of all sessions still holds for known principals.
    assert_eq!(send(&service, bearer("bob", initialize())).await.status, StatusCode::OK);
    assert!(is_full(&send(&service, bearer("bob", initialize())).await));
    // Without known principals, anonymous callers have all sessions.
    let open = common::server().into_service(HttpConfig::new().max_sessions(2));
    common::open(&open).await;
    common::open(&open).await;
    assert!(is_full(&send(&open, initialize()).await));
}
