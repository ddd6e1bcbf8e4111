//! Oversized, slow and excess requests are rejected early with the matching status.

use crate::common;
use std::{
    collections::HashSet,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use crate::common::{open, send, socket::serve, stateless};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::{Body, Frame, SizeHint};
use mcp_server_http::{HttpConfig, HttpServer, McpService};
use serde_json::json;
use tokio::time::Instant;

/// A body with or without a declared length. The function returns its chunks.
struct Fed<F> {
    declared: Option<u64>,
    next: F,
}

impl<F: FnMut() -> Poll<Option<Result<Bytes, &'static str>>> + Unpin> Body for Fed<F> {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        (self.next)().map(|next| next.map(|next| next.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.declared.map(SizeHint::with_exact).unwrap_or_default()
    }
}

async fn feed(
    service: &McpService,
    declared: Option<u64>,
    next: impl FnMut() -> Poll<Option<Result<Bytes, &'static str>>> + Unpin + Send,
) -> StatusCode {
    let (parts, _) = stateless("tools/list", json!({}), &[]).into_parts();
    service.handle(Request::from_parts(parts, Fed { declared, next })).await.status()
}

#[tokio::test]
async fn rejects_a_body_declared_too_large_without_reading_it() {
    let limit = 4 << 20;
    let status = feed(&common::service(), Some(limit + 1), || unreachable!("the body is not read")).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn reads_a_body_of_unknown_length_up_to_the_limit() {
    let mut chunks = 0;
    let status = feed(&common::service(), None, || {
        chunks += 1;
        Poll::Ready(Some(Ok(Bytes::from(vec![b' '; 1 << 20]))))
    })
    .await;
    assert_eq!((status, chunks), (StatusCode::PAYLOAD_TOO_LARGE, 5));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_arrives_times_out() {
    for (config, seconds) in [(HttpConfig::new(), 30), (HttpConfig::new().body_timeout(Duration::from_secs(2)), 2)] {
        let start = Instant::now();
        let status = feed(&common::server().into_service(config), None, || Poll::Pending).await;
        assert_eq!((status, start.elapsed().as_secs()), (StatusCode::REQUEST_TIMEOUT, seconds));
    }
}

#[tokio::test]
async fn a_truncated_body_is_a_bad_request() {
    let status = feed(&common::service(), None, || Poll::Ready(Some(Err("reset")))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn answers_a_slow_body_with_408() {
    let config = HttpConfig::new().body_timeout(Duration::from_millis(50));
    let endpoint = serve(&common::server(), config).await;
    let mut connection = endpoint.connect().await;
    connection
        .write("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{")
        .await;
    assert_eq!(connection.answer().await.status, StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn answers_a_large_body_with_413_before_it_is_sent() {
    let endpoint = serve(&common::server(), HttpConfig::new()).await;
    for length in ["4194305", "99999999999999"] {
        let mut connection = endpoint.connect().await;
        connection
            .write(format!(
                "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\n\
             content-length: {length}\r\n\r\n"
            ))
            .await;
        // The server sent no `100 Continue` before it.
        assert_eq!(connection.answer().await.status, StatusCode::PAYLOAD_TOO_LARGE, "{length}");
    }
    let mut connection = endpoint.connect().await;
    connection.write("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n").await;
    connection.write("transfer-encoding: chunked\r\n\r\n400001\r\n").await;
    connection.write_some(&vec![b' '; 0x40_0001]).await;
    assert_eq!(connection.answer().await.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_client_that_sends_a_whole_rejected_body_receives_the_reason() {
    let endpoint = serve(&common::server(), HttpConfig::new()).await;
    let length = 8 << 20;
    let head = |rest: &str| format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{rest}\r\n");
    let json = "content-type: application/json\r\n";
    let declared = head(&format!("{json}content-length: {length}\r\n"));
    let chunked = head(&format!("{json}transfer-encoding: chunked\r\n")) + &format!("{length:x}\r\n");
    let mistyped = head(&format!("content-type: text/plain\r\ncontent-length: {length}\r\n"));
    for (head, status) in [(declared, 413), (chunked, 413), (mistyped, 415)] {
        let mut connection = endpoint.connect().await;
        connection.write(head).await;
        // The server reads the rest of the body, so that a connection reset does not discard the response.
        connection.write(vec![b' '; length]).await;
        assert_eq!(connection.answer().await.status.as_u16(), status);
        // The server sends nothing after the response and closes the connection.
        assert!(connection.closes_silently().await);
    }
}

#[tokio::test]
async fn answers_431_to_a_header_value_above_the_limit_for_every_name() {
    let service = common::service();
    let ours = ["mcp-name", "mcp-session-id", "mcp-param-region", "authorization", "last-event-id"];
    for name in ours.into_iter().chain(["cookie", "accept", "user-agent", "x-other"]) {
        let limit = if name == "authorization" { 16 << 10 } else { 8 << 10 };
        for (length, is_rejected) in [(limit, false), (limit + 1, true)] {
            let mut post = stateless("tools/list", json!({}), &[]);
            let value = http::HeaderValue::try_from("x".repeat(length)).unwrap();
            post.headers_mut().insert(name, value.clone());
            let mut get = common::request(http::Method::GET, &common::BASE, "");
            get.headers_mut().insert(name, value);
            for request in [post, get] {
                let method = request.method().clone();
                let status = send(&service, request).await.status;
                let is_431 = status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                assert_eq!(is_431, is_rejected, "{method} {name} {length}: {status}");
            }
        }
    }
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_rejected_before_the_header_limit() {
    let service = common::service();
    let long = "x".repeat(8193);
    let origin = "http://localhost:5173";
    for (name, value, status) in [
        ("origin", origin, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        ("origin", "https://evil.example", StatusCode::FORBIDDEN),
        ("origin", &long, StatusCode::FORBIDDEN),
        ("host", "evil.example", StatusCode::FORBIDDEN),
        ("host", &long, StatusCode::FORBIDDEN),
    ] {
        let mut request = stateless("tools/list", json!({}), &[("x-other", &long)]);
        request.headers_mut().insert(name, value.parse().unwrap());
        let answer = send(&service, request).await;
        assert_eq!(answer.status, status, "{name}: {}", &value[..value.len().min(40)]);
        // Only a page of an allowed origin may read the answer.
        let is_shared = status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        assert_eq!(answer.header("access-control-allow-origin"), is_shared.then_some(origin));
    }
}

#[tokio::test]
async fn answers_a_huge_head_with_431_without_affecting_other_connections() {
    let endpoint = serve(&common::server(), HttpConfig::new()).await;
    let mut many = String::from("POST /mcp HTTP/1.1\r\nhost: localhost\r\n");
    for number in 0..200 {
        many.push_str(&format!("x-{number}: y\r\n"));
    }
    let long = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\nmcp-name: {}\r\n\r\n", "x".repeat(300_000));
    for head in [many + "\r\n", long] {
        let mut connection = endpoint.connect().await;
        connection.write_some(head.as_bytes()).await;
        assert_eq!(connection.answer().await.status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    assert_eq!(endpoint.exchange(stateless("tools/list", json!({}), &[])).await.status, StatusCode::OK);
}

#[tokio::test]
async fn session_ids_are_random_printable_and_unique() {
    let service = common::service();
    let mut seen = HashSet::new();
    for _ in 0..500 {
        let id = open(&service).await;
        let random = id.strip_prefix("mcp_").unwrap();
        assert_eq!(random.len(), 32);
        assert!(id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{id}");
        // No half of two ids is the same, as it would be with a counter or a clock in them.
        assert!(seen.insert(random[..16].to_owned()) && seen.insert(random[16..].to_owned()), "{id}");
    }
}

#[tokio::test]
async fn a_client_cannot_choose_or_revive_a_session_id() {
    let service = common::service();
    let mut chosen = common::initialize();
    chosen.headers_mut().insert("mcp-session-id", "mcp_00000000000000000000000000000001".parse().unwrap());
    let answer = send(&service, chosen).await;
    assert_eq!((answer.status, answer.header("mcp-session-id")), (StatusCode::NOT_FOUND, None));
}

#[tokio::test]
async fn connections_above_the_limit_wait_for_a_permit() {
    let endpoint = serve(&common::server(), HttpConfig::new().max_connections(2)).await;
    let (mut first, mut second, mut third) =
        (endpoint.connect().await, endpoint.connect().await, endpoint.connect().await);
    let list = || stateless("tools/list", json!({}), &[]);
    for connection in [&mut first, &mut second] {
        connection.send(list()).await;
        assert_eq!(connection.answer().await.status, StatusCode::OK);
    }
    third.send(list()).await;
    let answered = Arc::new(AtomicUsize::new(0));
    let waiting = {
        let answered = answered.clone();
        tokio::spawn(async move {
            let answer = third.answer().await;
            answered.fetch_add(1, Ordering::SeqCst);
            answer.status
        })
    };
    first.send(list()).await;
    assert_eq!(first.answer().await.status, StatusCode::OK);
    assert_eq!(answered.load(Ordering::SeqCst), 0);
    drop(first);
    assert_eq!(common::within("the third answer", waiting).await.unwrap(), StatusCode::OK);
}
