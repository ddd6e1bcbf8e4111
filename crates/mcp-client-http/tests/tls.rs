//! TLS: the trusted certificates, and the errors for others.

use std::{error::Error, sync::Arc, time::Duration};

use mcp_client_http::Http;
use mcp_server_core::{Extension, Server, tool};
use mcp_server_http::{HttpConfig, HttpServer, RequestParts, TlsConfig};
use mcp_transport::Route;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

use crate::{
    authorization::Attached,
    common::{
        MODERN, Peer,
        byte_server::{ByteServer, Handshake, ReceivedRequest, Reply},
        request_with,
    },
};

/// A server with a self-signed certificate for `name`, and the certificate in PEM.
async fn endpoint(name: &str) -> (ByteServer, String) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("https://{}", listener.local_addr().unwrap());
    let accept = move |stream: TcpStream| {
        let acceptor = acceptor.clone();
        Handshake(async move { acceptor.accept(stream).await.ok() })
    };
    let reply = |_, seen: &ReceivedRequest| if seen.method == "GET" { Reply::json("{}") } else { Reply::result(seen) };
    let endpoint = ByteServer::serve_on(listener, origin, reply, accept).await;
    (endpoint, made.cert.pem())
}

#[tokio::test]
async fn rejects_an_untrusted_certificate() {
    let (endpoint, _) = endpoint("127.0.0.1").await;
    let (_, other) = self::endpoint("127.0.0.1").await;
    // With a root of our own, so that a machine without any has one.
    let http = Http::new(endpoint.url()).unwrap().root_certificates(other).unwrap();
    let mut peer = Peer::open(&http).await;
    peer.request(MODERN, 1, "tools/list").await;
    let error = peer.fault(1).await;
    assert_eq!(error.to_string(), format!("cannot connect to `{}` securely", endpoint.origin));
    assert!(error.source().unwrap().to_string().contains("certificate"), "{:?}", error.source());
    assert!(endpoint.seen().is_empty());
}

#[tokio::test]
async fn rejects_a_certificate_for_another_name() {
    let (endpoint, pem) = endpoint("elsewhere.example").await;
    let mut peer = Peer::open(&Http::new(endpoint.url()).unwrap().root_certificates(pem).unwrap()).await;
    peer.request(MODERN, 1, "tools/list").await;
    assert!(peer.fault(1).await.to_string().ends_with("securely"));
}

#[tokio::test]
async fn requests_of_an_authorizer_trust_the_roots_of_the_endpoint() {
    let (endpoint, pem) = endpoint("127.0.0.1").await;
    let (_, other) = self::endpoint("127.0.0.1").await;
    let http = |pem: &str| Http::new(endpoint.url()).unwrap().root_certificates(pem).unwrap();
    // The authorizer requests a document of the same server before each request.
    let both = http(&other).root_certificates(&pem).unwrap().authorizer(Attached::default());
    let mut peer = Peer::open(&both).await;
    peer.request(MODERN, 1, "tools/list").await;
    assert_eq!(peer.next().await.unwrap().0, Route::Request(1.into()));
    let methods: Vec<String> = endpoint.seen().into_iter().map(|seen| seen.method).collect();
    assert_eq!(methods, ["GET", "POST"]);
    let mut peer = Peer::open(&http(&other).authorizer(Attached::default())).await;
    peer.request(MODERN, 1, "tools/list").await;
    assert!(peer.fault(1).await.is_unauthorized());
}

#[tokio::test]
async fn trusts_a_custom_root() {
    let (endpoint, pem) = endpoint("127.0.0.1").await;
    let http = Http::new(endpoint.url()).unwrap().root_certificates(pem).unwrap().bearer("hunter2").unwrap();
    let mut peer = Peer::open(&http).await;
    peer.request(MODERN, 1, "tools/list").await;
    assert_eq!(peer.next().await.unwrap().0, Route::Request(1.into()));
    assert_eq!(endpoint.seen()[0].header("authorization"), Some("Bearer hunter2"));
}

#[tokio::test]
async fn uses_http2_if_the_server_offers_it() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let tls = TlsConfig::from_pem(made.cert.pem(), made.signing_key.serialize_pem()).unwrap();
    let server = Server::builder("test", "1.0")
        .tool(tool("version", async |Extension(parts): Extension<RequestParts>| {
            // HTTP/1.1 has the host in a header, HTTP/2 in the place of the URL.
            if parts.headers.contains_key("host") { "1.1" } else { "2" }
        }))
        .build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { server.serve_https_on(listener, tls, HttpConfig::new()).await });
    let mut peer = Peer::open(&Http::new(url).unwrap().root_certificates(made.cert.pem()).unwrap()).await;
    for id in 0..8 {
        let mut params = serde_json::json!({ "name": "version", "_meta": {} });
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = serde_json::json!({});
        peer.send(request_with(MODERN, id, "tools/call", params)).await;
    }
    for _ in 0..8 {
        let (_, answer) = peer.next().await.unwrap();
        assert_eq!(answer["result"]["content"][0]["text"], "2", "{answer}");
    }
    serving.abort();
}

#[tokio::test]
async fn a_connect_to_a_server_without_tls_times_out() {
    let endpoint = ByteServer::serve(|_, seen| Reply::result(seen)).await;
    let (_, pem) = self::endpoint("127.0.0.1").await;
    let url = endpoint.url().replace("http:", "https:");
    let http = Http::new(url).unwrap().root_certificates(pem).unwrap().connect_timeout(Duration::from_millis(100));
    let mut peer = Peer::open(&http).await;
    peer.request(MODERN, 1, "tools/list").await;
    assert!(peer.fault(1).await.to_string().starts_with("cannot connect to"));
}

#[test]
fn rejects_roots_that_are_not_certificates() {
    for text in ["", "hello", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
        let error = Http::new("https://a.example").unwrap().root_certificates(text).unwrap_err();
        assert!(error.to_string().contains("root certificate"), "{text}: {error}");
    }
}
