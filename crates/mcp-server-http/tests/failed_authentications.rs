//! The limit of failed authentications for each address.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use bytes::Bytes;
use http::{HeaderName, Request, StatusCode, header};
use http_body_util::Full;
use mcp_auth::{ApiKeys, AuthRequest, Authenticated, Authenticator, BearerTokens, BoxFuture, Chain, Jwt, Rejection};
use mcp_protocol::{Challenge, Principal, auth::Secret};
use mcp_server_http::{HttpConfig, HttpServer, McpService, listener::PeerAddr};
use serde_json::json;
use tracing::{Dispatch, subscriber::NoSubscriber};

use crate::{
    authentication::{Tokens, bearer, config, server},
    common::{send, socket, stateless},
    log_text::LogText,
};

const MINUTE: Duration = Duration::from_secs(60);

fn service() -> McpService {
    server().into_service(config().max_failed_authentications(3, MINUTE))
}

fn call() -> Request<Full<Bytes>> {
    stateless("tools/call", json!({"name": "who"}), &[])
}

/// Sends a call from an address, and returns its status.
async fn status(service: &McpService, peer: &str, token: &str) -> u16 {
    let mut request = if token.is_empty() { call() } else { bearer(token, call()) };
    request.extensions_mut().insert(PeerAddr(SocketAddr::new(peer.parse().unwrap(), 40_000)));
    send(service, request).await.status.as_u16()
}

#[tokio::test(start_paused = true)]
async fn an_address_with_too_many_failures_is_refused_for_a_time() {
    let service = service();
    let [attacker, other] = ["192.0.2.1", "192.0.2.2"];
    for (token, expected) in [("wrong1", 401), ("malformed", 400), ("wrong2", 401), ("wrong3", 429), ("ann", 429)] {
        assert_eq!(status(&service, attacker, token).await, expected, "{token}");
    }
    assert_eq!(status(&service, other, "ann").await, 200);
    assert_eq!(status(&service, other, "wrong").await, 401);
    let mut refused = bearer("wrong4", call());
    refused.extensions_mut().insert(PeerAddr(SocketAddr::new(attacker.parse().unwrap(), 1)));
    let refused = send(&service, refused).await;
    assert_eq!((refused.status, refused.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, Some("20")));
    assert_eq!((refused.header("www-authenticate"), refused.header("cache-control")), (None, Some("no-store")));
    assert_eq!(refused.json()["error"]["message"], "too many authentications failed");
    // A client can still learn how to authenticate.
    assert_eq!(status(&service, attacker, "").await, 401);
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(status(&service, attacker, "ann").await, 200);
    assert_eq!(status(&service, attacker, "wrong5").await, 401);
    assert_eq!(status(&service, attacker, "wrong6").await, 429);
    // The credentials that were accepted since the first failure stay usable.
    assert_eq!(status(&service, attacker, "ann").await, 200);
    assert_eq!(status(&service, attacker, "bob").await, 429);
}

#[tokio::test(start_paused = true)]
async fn rejections_of_known_callers_and_repeated_outages_do_not_count() {
    let service = service();
    for token in ["ann", "expired", "forbidden", "fresh", "away", "panic", ""] {
        for _ in 0..5 {
            assert_ne!(status(&service, "192.0.2.1", token).await, 429, "{token}");
        }
    }
    assert_eq!(status(&service, "192.0.2.1", "wrong").await, 401);
}

/// An authenticator whose identity provider does not respond. It names its header twice.
struct Outage;

impl Authenticator for Outage {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        let has_token = request.headers.contains_key(header::AUTHORIZATION);
        let outage = Rejection::Unavailable { retry_after: Duration::from_secs(1) };
        Box::pin(async move { Err(if has_token { outage } else { Rejection::Missing }) })
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::bearer()]
    }

    fn request_headers(&self) -> Vec<HeaderName> {
        vec![header::AUTHORIZATION, header::AUTHORIZATION]
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_does_not_hide_guesses() {
    let tokens = BearerTokens::new().token("right", Principal::new("ann")).unwrap();
    let config = config().authenticate(Chain::new().with(tokens).with(Outage)).max_failed_authentications(3, MINUTE);
    let service = server().into_service(config);
    // A client that repeats its request with one token receives the outage.
    for _ in 0..100 {
        assert_eq!(status(&service, "192.0.2.1", "mine").await, 503);
    }
    let mut checked = 0;
    while status(&service, "192.0.2.1", &format!("guess-{checked}")).await == 503 {
        checked += 1;
        assert!(checked < 100, "guesses are not limited");
    }
    // The address may send ten different tokens for each of the three failures, and `mine` was the first.
    assert_eq!(checked, 29);
    assert_eq!(status(&service, "192.0.2.1", "right").await, 429);
    assert_eq!(status(&service, "192.0.2.1", "mine").await, 503);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(status(&service, "192.0.2.1", "right").await, 200);
}

#[tokio::test(start_paused = true)]
async fn an_outage_does_not_count_against_honest_callers() {
    let is_away = Arc::new(AtomicBool::new(true));
    let keys = |is_away: &Arc<AtomicBool>| {
        let is_away = Arc::clone(is_away);
        BearerTokens::new().verify_with(move |token: Secret| {
            let (is_away, is_known) = (is_away.load(Ordering::SeqCst), token.expose().starts_with("user-"));
            async move {
                match is_away {
                    true => Err(Rejection::Unavailable { retry_after: Duration::from_secs(1) }),
                    false => Ok(is_known.then(|| Principal::new(token.expose()))),
                }
            }
        })
    };
    let config = config().authenticate(keys(&is_away)).max_failed_authentications(3, MINUTE);
    let service = server().into_service(config);
    for user in 0..30 {
        assert_eq!(status(&service, "192.0.2.1", &format!("user-{user}")).await, 503, "{user}");
    }
    is_away.store(false, Ordering::SeqCst);
    tokio::time::advance(Duration::from_secs(2)).await;
    for user in 0..30 {
        assert_eq!(status(&service, "192.0.2.1", &format!("user-{user}")).await, 200, "{user}");
    }
    // The address still has all its failures.
    for (token, expected) in [("a", 401), ("b", 401), ("c", 401), ("d", 429), ("user-0", 200)] {
        assert_eq!(status(&service, "192.0.2.1", token).await, expected, "{token}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_header_that_an_authenticator_names_twice_counts_as_one() {
    let service = server().into_service(config().authenticate(Outage).max_failed_authentications(3, MINUTE));
    for _ in 0..10 {
        assert_eq!(status(&service, "192.0.2.1", "mine").await, 503);
    }
}

#[tokio::test(start_paused = true)]
async fn callers_without_failures_are_not_limited() {
    let service = service();
    for _ in 0..100 {
        assert_eq!(status(&service, "192.0.2.1", "ann").await, 200);
    }
}

#[tokio::test]
async fn there_is_no_limit_by_default_and_without_addresses() {
    let without_addresses = service();
    for service in [&without_addresses, &server().into_service(config())] {
        for _ in 0..10 {
            assert_eq!(send(service, bearer("wrong", call())).await.status, StatusCode::UNAUTHORIZED);
        }
    }
}

#[tokio::test]
async fn the_listener_adds_the_addresses() {
    let keys = ApiKeys::new().key("right", Principal::new("ann"));
    let config = config().authenticate(keys).allowed_hosts(["127.0.0.1"]).max_failed_authentications(2, MINUTE);
    let server = server();
    let endpoint = socket::serve(&server, config).await;
    for (key, expected) in [("wrong", 401), ("wrong", 401), ("wrong", 429), ("right", 429)] {
        let mut request = call();
        request.headers_mut().insert("x-api-key", key.parse().unwrap());
        assert_eq!(endpoint.exchange(request).await.status.as_u16(), expected, "{key}");
    }
    server.shutdown();
    endpoint.ended().await.unwrap();
}

#[test]
fn a_limit_of_zero_is_refused() {
    for (count, per) in [(0, MINUTE), (1, Duration::ZERO)] {
        let config = config().max_failed_authentications(count, per);
        assert!(config.check().is_err(), "{count} {per:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn guesses_beside_a_forged_token_count() {
    let secret = b"0123456789abcdef0123456789abcdef";
    let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let claims = r#"{"iss":"https://as.example","aud":"https://mcp.example.com/mcp","sub":"x","exp":1}"#;
    let forged = format!("{}.{}.{}", encode(r#"{"alg":"HS256"}"#), encode(claims), encode("forged"));
    let chain = || {
        Chain::new()
            .with(Jwt::hs256("https://as.example", secret).unwrap())
            .with(ApiKeys::new().key("right", Principal::new("ann")).unwrap())
    };
    // A provider of tokens that is away hides the wrong key, too.
    for (name, token) in [("forged", &*forged), ("expired", "expired"), ("away", "away"), ("fresh", "fresh")] {
        let config = match name {
            "forged" => config().authenticate(chain()),
            _ => config().authenticate(Chain::new().with(Tokens).with(chain())),
        };
        let service = server().into_service(config.max_failed_authentications(3, MINUTE));
        let mut seen = Vec::new();
        for key in ["a", "b", "c", "right"] {
            let mut request = bearer(token, call());
            request.headers_mut().insert("x-api-key", key.parse().unwrap());
            request.extensions_mut().insert(PeerAddr(SocketAddr::from(([192, 0, 2, 1], 1))));
            seen.push(send(&service, request).await.status.as_u16());
        }
        assert_eq!(seen.pop(), Some(429), "{name}");
        assert!(!seen.contains(&429) && !seen.contains(&200), "{name}: {seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn guesses_beside_valid_credentials_count() {
    let tokens = |token: &str| BearerTokens::new().token(token, Principal::new(token)).unwrap();
    let keys = ApiKeys::new().key("right", Principal::new("key")).unwrap();
    let config = config().authenticate(Chain::new().with(keys).with(tokens("other")).with(tokens("valid")));
    let service = server().into_service(config.max_failed_authentications(3, MINUTE));
    let status = async |key: Option<&str>| {
        let mut request = bearer("valid", call());
        if let Some(key) = key {
            request.headers_mut().insert("x-api-key", key.parse().unwrap());
        }
        request.extensions_mut().insert(PeerAddr(SocketAddr::from(([192, 0, 2, 1], 1))));
        send(&service, request).await.status.as_u16()
    };
    // A provider before that of the token rejects the token, but one header has one credential.
    for _ in 0..10 {
        assert_eq!(status(None).await, 200);
    }
    for (key, expected) in [("a", 200), ("b", 200), ("c", 200), ("d", 429), ("right", 429)] {
        assert_eq!(status(Some(key)).await, expected, "{key}");
    }
    // A client that sends the same two credentials with each request was counted once.
    for _ in 0..10 {
        assert_eq!(status(Some("a")).await, 200);
    }
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(status(Some("right")).await, 200);
    assert_eq!(status(Some("e")).await, 200);
    assert_eq!(status(Some("f")).await, 429);
}

#[test]
fn a_limit_without_an_authenticator_is_logged() {
    // A second subscriber, so that `tracing` does not cache the interest of a callsite for all threads.
    let _other = Dispatch::new(NoSubscriber::new());
    for (config, expected) in [
        (HttpConfig::new().max_failed_authentications(3, MINUTE), true),
        (config().max_failed_authentications(3, MINUTE), false),
        (HttpConfig::new(), false),
    ] {
        let records = LogText::default();
        let writer = records.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, || drop(server().into_service(config)));
        let text = records.text();
        assert_eq!(
            text.contains("`max_failed_authentications` has no effect without `authenticate`"),
            expected,
            "{text}"
        );
    }
}
