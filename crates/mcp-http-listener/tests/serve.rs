//! The listener as a whole: routers, connection limits and graceful shutdown.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::time::Duration;

use http::StatusCode;
use mcp_http_listener::{PeerAddr, Serve};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket},
};

use crate::common::{BUFFER, Http1, LARGE, TestServer, ask_http2, within};

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
async fn requests_have_the_address_of_their_peer_if_configured() {
    let peer = async |peer: Option<axum::Extension<PeerAddr>>| {
        peer.map_or("none".to_owned(), |axum::Extension(PeerAddr(address))| address.to_string())
    };
    for is_configured in [false, true] {
        let app = axum::Router::new().route("/", axum::routing::get(peer));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = mcp_http_listener::serve(listener, app);
        let serve = if is_configured { serve.peer_addresses() } else { serve };
        let serving = tokio::spawn(serve.into_future());
        for is_http2 in [false, true] {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let own = stream.local_addr().unwrap().to_string();
            let (_, answer) =
                if is_http2 { ask_http2(stream).await } else { Http1::over(stream).await.get_root().await };
            assert_eq!(answer, if is_configured { own } else { "none".to_owned() });
        }
        serving.abort();
    }
}

#[tokio::test]
async fn a_connection_above_the_limit_waits_for_another_to_close() {
    let server = TestServer::with(|serve| serve.max_connections(1)).await;
    let mut first = Http1::over(server.connect().await).await;
    assert_eq!(first.get_root().await.0, StatusCode::OK);
    let mut second = Http1::over(server.connect().await).await;
    let pending = tokio::spawn(async move { second.get_root().await });
    // Another listener on the same thread serves later connections meanwhile. A listener without a limit would do so too.
    let other = TestServer::with(|serve| serve).await;
    for _ in 0..8 {
        assert_eq!(Http1::over(other.connect().await).await.get_root().await.0, StatusCode::OK);
    }
    assert!(!pending.is_finished(), "the listener served a connection above the limit");
    drop(first);
    assert_eq!(within("an answer", pending).await.unwrap().0, StatusCode::OK);
}

#[tokio::test]
async fn a_shutdown_waits_for_open_requests_and_closes_idle_connections() {
    let mut server = TestServer::with(|serve| serve).await;
    let mut idle = server.connect().await;
    let mut busy = Http1::over(server.connect().await).await;
    let pending = tokio::spawn(async move { busy.get("/wait").await });
    within("the request", server.service.waiting.notified()).await;
    server.shut_down();
    assert_eq!(within("the end", idle.read(&mut [0; 16])).await.unwrap(), 0);
    server.service.release.notify_one();
    assert_eq!(pending.await.unwrap().unwrap(), (StatusCode::OK, "released".into()));
    server.ended().await;
}

#[tokio::test]
async fn the_shutdown_deadline_closes_connections_with_open_requests() {
    let mut server = TestServer::with(|serve| serve.shutdown_deadline(Duration::from_millis(50))).await;
    let mut busy = Http1::over(server.connect().await).await;
    let pending = tokio::spawn(async move { busy.get("/wait").await });
    within("the request", server.service.waiting.notified()).await;
    server.shut_down();
    server.ended().await;
    assert!(pending.await.unwrap().is_err());
}

#[tokio::test]
async fn a_client_that_stops_reading_loses_the_connection() {
    let server = TestServer::with(|serve| serve.write_timeout(Duration::from_millis(50)).max_connections(1)).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(BUFFER).unwrap();
    let mut stalled = socket.connect(server.address).await.unwrap();
    stalled.write_all(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    stalled.read_u8().await.unwrap();
    // The listener serves this connection when it has closed the other connection.
    let mut next = Http1::over(server.connect().await).await;
    assert_eq!(next.get_root().await.0, StatusCode::OK);
    let mut rest = Vec::new();
    // The kernel may report the closed connection as an error after the bytes that it has received.
    let _ = within("the end of the answer", stalled.read_to_end(&mut rest)).await;
    assert!(rest.len() < LARGE, "{}", rest.len());
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
