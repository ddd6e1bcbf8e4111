//! The listener as a whole: routers, connection limits and graceful shutdown.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::time::{Duration, Instant};

use http::StatusCode;
use mcp_http_listener::Serve;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::common::{Http1, LARGE, Site, ask_http2, get_http2, within};

#[tokio::test]
async fn an_axum_router_is_served_over_both_protocols() {
    let app = axum::Router::new().route("/", axum::routing::get(async || "from axum"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(mcp_http_listener::serve(listener, app).into_future());
    let connect = async || tokio::net::TcpStream::connect(address).await.unwrap();
    let expected = (StatusCode::OK, "from axum".to_owned());
    assert_eq!(Http1::over(connect().await).await.get_root().await, expected);
    assert_eq!(ask_http2(connect().await).await, expected);
    serving.abort();
}

#[tokio::test]
async fn a_connection_above_the_limit_waits_for_another_to_close() {
    let site = Site::with(|serve| serve.max_connections(1)).await;
    let first = site.connect().await;
    let mut second = Http1::over(site.connect().await).await;
    let pending = tokio::spawn(async move { second.get_root().await });
    tokio::task::yield_now().await;
    assert!(!pending.is_finished());
    drop(first);
    assert_eq!(within("an answer", pending).await.unwrap().0, StatusCode::OK);
}

#[tokio::test]
async fn a_shutdown_waits_for_open_requests_and_closes_idle_connections() {
    let mut site = Site::with(|serve| serve).await;
    let mut idle = site.connect().await;
    let mut busy = Http1::over(site.connect().await).await;
    let pending = tokio::spawn(async move { busy.get("/wait").await });
    within("the request", site.service.waiting.notified()).await;
    site.shut_down();
    assert_eq!(within("the end", idle.read(&mut [0; 16])).await.unwrap(), 0);
    site.service.release.notify_one();
    assert_eq!(pending.await.unwrap().unwrap(), (StatusCode::OK, "released".into()));
    site.ended().await;
}

#[tokio::test]
async fn the_shutdown_deadline_closes_connections_with_open_requests() {
    let mut site = Site::with(|serve| serve.shutdown_deadline(Duration::from_millis(50))).await;
    let mut busy = Http1::over(site.connect().await).await;
    let pending = tokio::spawn(async move { busy.get("/wait").await });
    within("the request", site.service.waiting.notified()).await;
    site.shut_down();
    site.ended().await;
    assert!(pending.await.unwrap().is_err());
}

/// The kernel of the server buffers megabytes of an answer. Progress must not be measured by the space in that buffer.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_steady_slow_reader_receives_a_large_response_over_both_protocols() {
    let site = Site::with(|serve| serve.write_timeout(Duration::from_secs(1))).await;
    let http1 = async { Http1::over(slow_connection(&site).await).await.get("/large").await };
    let http2 = async { get_http2(slow_connection(&site).await, "/large").await };
    let (http1, http2) = tokio::join!(http1, http2);
    for (protocol, answer) in [("HTTP/1.1", http1), ("HTTP/2", http2)] {
        let (status, body) = answer.unwrap_or_else(|error| panic!("{protocol}: {error}"));
        assert_eq!((status, body.len()), (StatusCode::OK, LARGE), "{protocol}");
    }
}

/// Connects a client that reads 1.25 MB/s at most and has a small receive buffer.
#[cfg(target_os = "linux")]
async fn slow_connection(site: &Site) -> tokio::io::DuplexStream {
    use tokio::{io, net::TcpSocket, time::sleep};

    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let (mut from_server, mut to_server) = socket.connect(site.address).await.unwrap().into_split();
    let (near, far) = io::duplex(4 << 10);
    let (mut from_client, mut to_client) = io::split(far);
    tokio::spawn(async move { io::copy(&mut from_client, &mut to_server).await });
    tokio::spawn(async move {
        let mut piece = vec![0; 25 << 10];
        while let Ok(count @ 1..) = from_server.read(&mut piece).await {
            if to_client.write_all(&piece[..count]).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
        let _ = to_client.shutdown().await;
    });
    near
}

#[tokio::test]
async fn a_client_that_stops_reading_loses_the_connection() {
    let limit = Duration::from_millis(400);
    let site = Site::with(|serve| serve.write_timeout(limit).max_connections(1)).await;
    let mut stalled = site.connect().await;
    stalled.write_all(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let start = Instant::now();
    // The answer is longer than the buffers of both kernels, and this is its only byte that the client reads.
    stalled.read_u8().await.unwrap();
    let mut next = Http1::over(site.connect().await).await;
    assert_eq!(next.get_root().await.0, StatusCode::OK);
    assert!(start.elapsed() >= limit, "{:?}", start.elapsed());
    drop(stalled);
}

#[tokio::test]
async fn limits_of_zero_panic_with_the_name_of_the_setting() {
    type Set = fn(Serve<()>) -> Serve<()>;
    let cases: [(&str, Set); 2] = [
        ("write_timeout", |serve| serve.write_timeout(Duration::ZERO)),
        ("max_connections", |serve| serve.max_connections(0)),
    ];
    for (name, set) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let make = std::panic::AssertUnwindSafe(|| drop(set(mcp_http_listener::serve(listener, ()))));
        let panic = std::panic::catch_unwind(make).unwrap_err();
        let text = panic.downcast_ref::<&str>().unwrap();
        assert!(text.starts_with(&format!("`{name}` is zero: ")), "{text}");
    }
}
