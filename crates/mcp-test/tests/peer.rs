//! Scripted peers follow their scripts.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use mcp_protocol::ProtocolVersion;
use mcp_test::peer::{Reply, ScriptedServer};
use mcp_transport::{Connect, Frame, Transport, recv};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const VERSION: ProtocolVersion = ProtocolVersion::V2025_11_25;
const DEADLINE: Duration = Duration::from_secs(10);

fn request(id: u64, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method})
}

async fn send(transport: &dyn Transport, message: &Value) {
    transport.sender().send(Frame::new(message.to_string())).await.unwrap();
}

/// Returns the next message. Text that is not JSON is a string, and an error or the end is null.
async fn next(transport: &mut Box<dyn Transport>) -> Value {
    match timeout(DEADLINE, recv(transport)).await.unwrap() {
        Some(Ok(frame)) => serde_json::from_slice(&frame.message)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&frame.message).into_owned())),
        Some(Err(_)) | None => Value::Null,
    }
}

#[tokio::test]
async fn uses_replies_in_order_and_repeats_the_last_one() {
    let server = ScriptedServer::for_revision(VERSION)
        .on("a", Reply::result(json!(1)).with_id(json!(99)))
        .on("a", Reply::result(json!(2)).twice())
        .on("a", Reply::raw("garbage\n").then(Reply::error(-1, "no").data(json!("why"))))
        .on("a", Reply::result(json!(4)).notify("n", json!({})).request(json!("r"), "q", json!({})))
        .on("b", Reply::silence())
        .on("c", Reply::large(100_000));
    let mut transport = server.connect().await.unwrap();
    send(&*transport, &request(0, "initialize")).await;
    assert_eq!(next(&mut transport).await["result"]["protocolVersion"], VERSION.as_str());
    send(&*transport, &request(1, "a")).await;
    assert_eq!(next(&mut transport).await, json!({"jsonrpc": "2.0", "id": 99, "result": 1}));
    send(&*transport, &request(2, "a")).await;
    for _ in 0..2 {
        assert_eq!(next(&mut transport).await["result"], 2);
    }
    send(&*transport, &request(3, "a")).await;
    assert_eq!(next(&mut transport).await, "garbage");
    assert_eq!(next(&mut transport).await["error"], json!({"code": -1, "message": "no", "data": "why"}));
    for id in 4..6 {
        send(&*transport, &request(id, "a")).await;
        assert_eq!(next(&mut transport).await["method"], "q");
        assert_eq!(next(&mut transport).await["method"], "n");
        assert_eq!(next(&mut transport).await["id"], id);
    }
    send(&*transport, &request(6, "b")).await;
    send(&*transport, &request(7, "c")).await;
    let text = next(&mut transport).await["result"]["content"][0]["text"].as_str().map(str::len);
    assert_eq!(text, Some(100_000));
    assert_eq!(server.wait_for("a", 5).await.len(), 5);
    assert_eq!(server.seen_of("b"), [request(6, "b")]);
}

#[tokio::test]
async fn counts_and_breaks_connections() {
    let server = ScriptedServer::silent()
        .on("close", Reply::close())
        .on("cut", Reply::silence().cut(r#"{"jsonrpc":"2.0"}"#))
        .on("late", Reply::result(json!(1)).after(Duration::from_millis(1)));
    let mut transport = server.connect().await.unwrap();
    send(&*transport, &request(1, "close")).await;
    assert_eq!(next(&mut transport).await, Value::Null);
    drop(transport);
    server.wait_until_disconnected().await;
    let mut transport = server.connect().await.unwrap();
    send(&*transport, &request(1, "late")).await;
    assert_eq!(next(&mut transport).await["result"], 1);
    send(&*transport, &request(2, "cut")).await;
    assert_eq!(next(&mut transport).await, r#"{"jsonrp"#);
    assert_eq!(next(&mut transport).await, Value::Null);
    let mut transport = server.connect().await.unwrap();
    server.wait_for("cut", 1).await;
    send(&*transport, &request(3, "nothing")).await;
    server.wait_for("nothing", 1).await;
    server.crash();
    assert_eq!(next(&mut transport).await, Value::Null);
    assert_eq!(server.connections(), 3);
    server.wait_until_disconnected().await;
}

/// Sends one request on a new connection, and reads to the end of the connection.
async fn exchange(address: std::net::SocketAddr, method: &str, headers: &str, body: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = format!("{method} /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    socket.write_all((head + body).as_bytes()).await.unwrap();
    socket.shutdown().await.ok();
    let mut answer = String::new();
    timeout(DEADLINE, socket.read_to_string(&mut answer)).await.unwrap().ok();
    answer
}

/// Sends one request on a new connection, and reads until the response contains the text.
async fn read_until(address: std::net::SocketAddr, message: &Value, text: &str) -> String {
    let body = message.to_string();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = format!("POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    socket.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    while !answer.contains(text) {
        let mut some = [0; 4096];
        let read = timeout(DEADLINE, socket.read(&mut some)).await.unwrap().unwrap();
        assert!(read > 0, "the connection ended with {answer}");
        answer.push_str(std::str::from_utf8(&some[..read]).unwrap());
    }
    answer
}

#[tokio::test]
async fn serves_sessions_statuses_and_streams_over_http() {
    let server = ScriptedServer::for_revision(VERSION)
        .on("busy", Reply::status(503, "later").header("Retry-After", "3"))
        .on("stream", Reply::result(json!(1)).notify("n", json!({})).events_with_ids())
        .on("cut", Reply::silence().cut("half of this"))
        .on("garbage", Reply::raw("SSH-2.0\r\n"));
    let peer = server.listen().await.unwrap();
    let opened = read_until(peer.address(), &request(0, "initialize"), "protocolVersion").await;
    assert!(opened.contains("Mcp-Session-Id: scripted-1\r\n"), "{opened}");
    let busy = read_until(peer.address(), &request(1, "busy"), "later").await;
    assert!(busy.starts_with("HTTP/1.1 503 ") && busy.contains("Retry-After: 3\r\n"), "{busy}");
    let stream = read_until(peer.address(), &request(2, "stream"), "0\r\n\r\n").await;
    assert!(stream.contains("text/event-stream") && stream.contains("id: 1\n") && stream.contains("id: 2\n"));
    let cut = read_until(peer.address(), &request(3, "cut"), "half").await;
    assert!(!cut.contains("half of this"), "{cut}");
    read_until(peer.address(), &request(4, "garbage"), "SSH-2.0").await;

    peer.wait_for(5, |request| request.method == "POST").await;
    assert!(peer.requests()[4].calls("garbage") && peer.requests()[4].header("host") == Some("x"));
    let lost = exchange(peer.address(), "GET", "Mcp-Session-Id: scripted-0\r\n", "").await;
    assert!(lost.is_empty() || lost.starts_with("HTTP/1.1 404 "), "{lost}");
    peer.forget_sessions();
    let opened = read_until(peer.address(), &request(5, "initialize"), "scripted-2").await;
    assert!(opened.starts_with("HTTP/1.1 200 "));
    // The client has closed its half and gets no response. The server stores the request nevertheless.
    exchange(peer.address(), "DELETE", "Mcp-Session-Id: scripted-1\r\n", "").await;
    peer.wait_for(1, |request| request.method == "DELETE").await;
}

#[tokio::test]
async fn restarts_at_the_same_address() {
    let server = ScriptedServer::silent().on("a", Reply::result(json!(1)));
    let peer = server.listen().await.unwrap();
    assert!(read_until(peer.address(), &request(1, "a"), "result").await.contains("\"result\":1"));
    let mut idle = TcpStream::connect(peer.address()).await.unwrap();
    peer.wait_for(1, |request| request.calls("a")).await;
    while server.open_connections() == 0 {
        tokio::task::yield_now().await;
    }
    peer.stop().await;
    let mut rest = Vec::new();
    timeout(DEADLINE, idle.read_to_end(&mut rest)).await.unwrap().ok();
    server.wait_until_disconnected().await;
    assert!(TcpStream::connect(peer.address()).await.is_err());
    peer.start().unwrap();
    assert!(read_until(peer.address(), &request(2, "a"), "result").await.contains("\"id\":2"));
}
