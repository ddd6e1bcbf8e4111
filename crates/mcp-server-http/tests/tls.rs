//! TLS: a client that checks the certificate, both protocols on one port, and certificates that are renewed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::{fs, path::Path, sync::Arc, time::Duration};

use http::StatusCode;
use mcp_server_http::{HttpConfig, HttpServer, TlsConfig};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::common::{
    self,
    http2::Http2,
    server,
    socket::{Site, Wire},
    within,
};

const FIRST: (&str, &str) = (include_str!("certificates/first.pem"), include_str!("certificates/first-key.pem"));
const SECOND: (&str, &str) = (include_str!("certificates/second.pem"), include_str!("certificates/second-key.pem"));

async fn serve(tls: TlsConfig, config: HttpConfig) -> Site {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = server();
    Site::of(address, tokio::spawn(async move { server.serve_https_on(listener, tls, config.signals(false)).await }))
}

/// A connection of a client that trusts this certificate and nothing else.
async fn connect(site: &Site, trusted: &str, alpn: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    within("a handshake", TlsConnector::from(Arc::new(config)).connect(name, site.stream().await)).await
}

fn echo() -> http::Request<http_body_util::Full<bytes::Bytes>> {
    common::stateless("tools/call", json!({ "name": "echo", "arguments": { "text": "hi" } }), &[])
}

#[tokio::test]
async fn both_protocols_are_served_on_one_port() {
    let site = serve(TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap(), HttpConfig::new()).await;
    for (offered, chosen) in
        [(&["h2", "http/1.1"][..], Some("h2")), (&["http/1.1"], Some("http/1.1")), (&["h2"], Some("h2")), (&[], None)]
    {
        let stream = connect(&site, FIRST.0, offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen.map(str::as_bytes), "{offered:?}");
        let answer = if chosen == Some("h2") {
            Http2::connect(stream).await.ask(echo()).await
        } else {
            let mut wire = Wire::over(stream);
            wire.send(echo()).await;
            wire.answer().await
        };
        assert_eq!(answer.status, StatusCode::OK, "{offered:?}");
        assert_eq!(answer.json()["result"]["content"][0]["text"], "hi");
    }
    let refused = connect(&site, FIRST.0, &["spdy/3"]).await.unwrap_err();
    assert!(refused.to_string().contains("NoApplicationProtocol"), "{refused}");
    assert!(connect(&site, SECOND.0, &[]).await.is_err(), "a client that trusts another certificate");
}

#[tokio::test]
async fn a_certificate_is_replaced_while_connections_stay_open() {
    let tls = TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap();
    let site = serve(tls.clone(), HttpConfig::new()).await;
    let mut before = Wire::over(connect(&site, FIRST.0, &[]).await.unwrap());
    let error = tls.replace_pem(SECOND.0, FIRST.1).unwrap_err();
    assert_eq!(error.to_string(), "the certificate or its key is not usable");
    connect(&site, FIRST.0, &[]).await.unwrap();
    tls.replace_pem(SECOND.0, SECOND.1).unwrap();
    connect(&site, SECOND.0, &[]).await.unwrap();
    connect(&site, FIRST.0, &[]).await.unwrap_err();
    before.send(echo()).await;
    assert_eq!(before.answer().await.status, StatusCode::OK);
}

fn put(folder: &Path, pair: (&str, &str)) {
    fs::write(folder.join("cert.pem"), pair.0).unwrap();
    fs::write(folder.join("key.pem"), pair.1).unwrap();
}

/// A folder of its own for one test, gone afterwards.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcp-tls-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn config(&self) -> Result<TlsConfig, mcp_server_http::TlsError> {
        TlsConfig::from_files(self.0.join("cert.pem"), self.0.join("key.pem"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn files_are_read_again_when_asked_and_a_bad_pair_changes_nothing() {
    let folder = Folder::new("reload");
    put(&folder.0, FIRST);
    let tls = folder.config().unwrap();
    let site = serve(tls.clone(), HttpConfig::new()).await;
    put(&folder.0, (SECOND.0, FIRST.1));
    let error = tls.reload().unwrap_err().to_string();
    assert!(error.contains("cert.pem` and `") && error.contains("key.pem`: the certificate or its key"), "{error}");
    put(&folder.0, (SECOND.0, ""));
    let error = format!("{:?}", tls.reload().unwrap_err());
    assert!(error.ends_with("key.pem`: the PEM holds no private key"), "{error}");
    connect(&site, FIRST.0, &[]).await.unwrap();
    put(&folder.0, SECOND);
    tls.reload().unwrap();
    connect(&site, SECOND.0, &[]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn files_that_change_are_found_by_the_server() {
    let folder = Folder::new("watch");
    put(&folder.0, FIRST);
    let tls = folder.config().unwrap();
    let watched = tls.clone();
    let site = serve(watched, HttpConfig::new()).await;
    connect(&site, FIRST.0, &[]).await.unwrap();
    // The lengths differ, so that the clock of the file system does not matter.
    assert_ne!(FIRST.0.len(), SECOND.0.len());
    put(&folder.0, SECOND);
    for _ in 0..100 {
        if connect(&site, SECOND.0, &[]).await.is_ok() {
            return;
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    panic!("the new certificate was not found");
}

#[test]
fn what_cannot_be_used_is_told() {
    #[track_caller]
    fn check(certificate: &str, key: &str, expected: &str) {
        let error = TlsConfig::from_pem(certificate, key).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    check("", FIRST.1, "the PEM holds no certificate");
    check(
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
        FIRST.1,
        "the PEM of the certificate cannot be read",
    );
    check(FIRST.0, "", "the PEM holds no private key");
    check(FIRST.0, FIRST.0, "the PEM holds no private key");
    check(FIRST.0, SECOND.1, "the certificate or its key is not usable");
    let error = TlsConfig::from_files("/nonexistent/cert.pem", "/nonexistent/key.pem").unwrap_err();
    assert_eq!(error.to_string(), "`/nonexistent/cert.pem` cannot be read");
    assert!(format!("{error:?}").starts_with("`/nonexistent/cert.pem` cannot be read: "), "{error:?}");
    assert!(!format!("{:?}", TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap()).contains("PRIVATE"));
}

#[test]
fn a_file_above_the_limit_is_refused_and_not_cut() {
    let folder = Folder::new("large");
    for (length, fits) in [(1 << 20, true), ((1 << 20) + 1, false)] {
        let padded = format!("{}{}", FIRST.0, "\n".repeat(length - FIRST.0.len()));
        put(&folder.0, (&padded, FIRST.1));
        let source = folder.config().err().map(|error| std::error::Error::source(&error).unwrap().to_string());
        assert_eq!(source.as_deref(), (!fits).then_some("it is larger than 1048576 bytes"), "{length}");
    }
}

#[tokio::test]
async fn cleartext_ends_a_handshake_and_gives_its_place_back() {
    let tls = TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap();
    let site = serve(tls, HttpConfig::new().max_connections(1)).await;
    let mut plain = site.stream().await;
    plain.write_all(b"GET /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    // An alert, and no HTTP.
    let _ = within("the end", plain.read_to_end(&mut said)).await;
    assert!(said.first() == Some(&21) && !said.windows(4).any(|window| window == b"HTTP"), "{said:x?}");
    // The one place is free again.
    connect(&site, FIRST.0, &[]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handshake_has_ten_seconds() {
    let site = serve(TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap(), HttpConfig::new().max_connections(1)).await;
    let mut silent = site.stream().await;
    let start = tokio::time::Instant::now();
    assert_eq!(within("the end", silent.read(&mut [0; 16])).await.unwrap(), 0);
    assert_eq!(start.elapsed().as_secs(), 10);
    connect(&site, FIRST.0, &[]).await.unwrap();
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_handshakes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = server();
    let tls = TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap();
    let serving = server.clone();
    let site = Site::of(
        address,
        tokio::spawn(async move { serving.serve_https_on(listener, tls, HttpConfig::new().signals(false)).await }),
    );
    let mut silent = site.stream().await;
    // Served, so that the silent one, which came before, is being served too.
    connect(&site, FIRST.0, &[]).await.unwrap();
    server.shutdown();
    assert_eq!(within("the end", silent.read(&mut [0; 16])).await.unwrap(), 0);
    site.ended().await.unwrap();
}
