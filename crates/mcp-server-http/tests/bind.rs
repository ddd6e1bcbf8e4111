//! Addresses of a server: loopback without configuration, other addresses only with allowed hosts.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use crate::common;
use std::net::SocketAddr;

use crate::common::{socket::serve, within};
use mcp_server_core::Server;
use mcp_server_http::{HttpConfig, HttpError, HttpServer};
use tokio::net::TcpListener;

async fn listener(address: &str) -> TcpListener {
    TcpListener::bind(address).await.unwrap()
}

#[tokio::test]
async fn rejects_a_public_address_without_allowed_hosts() {
    let server = common::server();
    let refused = within("the refusal", server.serve_http_on(listener("0.0.0.0:0").await, HttpConfig::new())).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, HttpError::HostsRequired(address) if address.ip().is_unspecified()), "{error:?}");
    assert!(error.to_string().contains("allowed_hosts"), "{error}");
    // Allowed origins are not allowed hosts.
    let config = HttpConfig::new().allowed_origins(["https://app.example.com"]);
    let refused = within("the refusal", server.serve_http_on(listener("0.0.0.0:0").await, config)).await;
    assert!(matches!(refused, Err(HttpError::HostsRequired(_))));
    let refused = within("the refusal", server.serve_http("0.0.0.0:0")).await;
    assert!(matches!(refused, Err(HttpError::HostsRequired(_))));
}

#[tokio::test]
async fn a_public_address_serves_the_allowed_hosts() {
    let server = common::server();
    let listener = listener("0.0.0.0:0").await;
    let port = listener.local_addr().unwrap().port();
    let config = HttpConfig::new().allowed_hosts(["mcp.example.com"]);
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve_http_on(listener, config).await }
    });
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    for (host, status) in [("mcp.example.com", "202"), ("evil.example", "403"), ("192.0.2.1", "403")] {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             mcp-protocol-version: 2026-07-28\r\ncontent-length: 33\r\n\r\n{}",
            r#"{"jsonrpc":"2.0","method":"nope"}"#
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within("an answer", stream.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
    }
    server.shutdown();
    within("the end", serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_address_in_use_is_an_error_with_the_address_and_the_reason() {
    let endpoint = serve(&common::server(), HttpConfig::new()).await;
    let error = within("the error", common::server().serve_http(endpoint.address)).await.unwrap_err();
    assert_eq!(error.to_string(), format!("the server cannot listen on {}", endpoint.address));
    assert!(matches!(error, HttpError::Bind { address, .. } if address == endpoint.address), "{error:?}");
    // A `main` that returns the error prints this form.
    let printed = format!("{error:?}");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(printed, format!("the server cannot listen on {}: {source}", endpoint.address));
    assert_eq!(
        std::error::Error::source(&error).unwrap().downcast_ref::<std::io::Error>().unwrap().kind(),
        std::io::ErrorKind::AddrInUse
    );
}

#[tokio::test]
async fn an_invalid_address_is_an_error() {
    for address in ["localhost", "127.0.0.1:99999"] {
        let error = within("the error", common::server().serve_http(address)).await.unwrap_err();
        assert!(matches!(error, HttpError::Resolve { .. }), "{error:?}");
        let message = format!("the address {address:?} to listen on cannot be resolved");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(error.to_string(), message);
        assert!(!cause.is_empty());
    }
}

#[tokio::test]
async fn reports_the_bound_address_when_it_listens() {
    let server = common::server();
    let (address_sender, mut addresses) = tokio::sync::mpsc::unbounded_channel();
    let config = HttpConfig::new().path("/there").ignore_signals().on_listening(move |address| {
        // A client can connect after the report.
        let connected = std::net::TcpStream::connect(address);
        address_sender.send((address, connected.is_ok())).unwrap();
    });
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve_http_with("127.0.0.1:0", config).await }
    });
    let (address, connected) = within("the address", addresses.recv()).await.unwrap();
    assert!(address.port() != 0 && connected);
    let taken = Server::builder("test", "1").build().serve_http_with(address, HttpConfig::new()).await;
    assert!(matches!(taken, Err(HttpError::Bind { .. })), "{taken:?}");
    server.shutdown();
    within("the end", serving).await.unwrap().unwrap();
    assert!(addresses.recv().await.is_none(), "the callback runs once");
}
