//! HTTPS: a client that checks the certificate, both protocols on one port, and certificates that are renewed.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{fs, path::Path, sync::Arc, time::Duration};

use http::StatusCode;
use mcp_http_listener::{ClientCertificates, Serve, TlsConfig, TlsError};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::common::{HelloService, Http1, TestServer, ask_http2, within};

const FIRST: (&str, &str) = (include_str!("certificates/first.pem"), include_str!("certificates/first-key.pem"));
const SECOND: (&str, &str) = (include_str!("certificates/second.pem"), include_str!("certificates/second-key.pem"));

async fn serve(tls: TlsConfig) -> TestServer {
    TestServer::with(|serve| serve.tls(tls)).await
}

async fn serve_one(tls: TlsConfig) -> TestServer {
    TestServer::with(|serve: Serve<HelloService>| serve.tls(tls).max_connections(1)).await
}

/// Connects a client that trusts only this certificate.
async fn connect(server: &TestServer, trusted: &str, alpn: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
    connect_with(server, trusted, alpn, None).await
}

/// Connects a client with a certificate.
async fn connect_with(
    server: &TestServer,
    trusted: &str,
    alpn: &[&str],
    own: Option<(&str, &str)>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    within("a handshake", TlsConnector::from(Arc::new(config)).connect(name, server.connect().await)).await
}

#[tokio::test]
async fn both_protocols_are_served_on_one_port() {
    let server = serve(TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap()).await;
    for (offered, chosen) in
        [(&["h2", "http/1.1"][..], Some("h2")), (&["http/1.1"], Some("http/1.1")), (&["h2"], Some("h2")), (&[], None)]
    {
        let stream = connect(&server, FIRST.0, offered).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen.map(str::as_bytes), "{offered:?}");
        let (status, text) =
            if chosen == Some("h2") { ask_http2(stream).await } else { Http1::over(stream).await.get_root().await };
        assert_eq!((status, &*text), (StatusCode::OK, "hello"), "{offered:?}");
    }
    let refused = connect(&server, FIRST.0, &["spdy/3"]).await.unwrap_err();
    assert!(refused.to_string().contains("NoApplicationProtocol"), "{refused}");
    assert!(connect(&server, SECOND.0, &[]).await.is_err(), "a client that trusts another certificate");
}

#[tokio::test]
async fn certificates_of_clients_are_verified() {
    for (demand, without) in [(ClientCertificates::Optional, true), (ClientCertificates::Required, false)] {
        let tls = TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap().client_certificates(SECOND.0, demand).unwrap();
        let server = serve(tls).await;
        for (own, is_accepted) in [(None, without), (Some(SECOND), true), (Some(FIRST), false)] {
            // With TLS 1.3 the client learns of the rejection when it reads.
            let answered = match connect_with(&server, FIRST.0, &[], own).await {
                Ok(mut stream) => {
                    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
                    let (mut text, sent) = (Vec::new(), stream.write_all(request).await);
                    let read = within("an answer", stream.read_to_end(&mut text)).await;
                    sent.is_ok() && read.is_ok() && text.starts_with(b"HTTP/1.1 200")
                }
                Err(_) => false,
            };
            assert_eq!(answered, is_accepted, "{demand:?} {}", own.is_some());
        }
    }
    let error = |authorities: &str| {
        let tls = TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap();
        tls.client_certificates(authorities, ClientCertificates::Required).unwrap_err().to_string()
    };
    assert_eq!(error(FIRST.1), "the PEM contains no certificate of an authority");
    let invalid = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(error(invalid), "the certificate of an authority is not usable");
}

#[tokio::test]
async fn a_certificate_is_replaced_while_connections_stay_open() {
    let tls = TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap();
    let server = serve(tls.clone()).await;
    let mut before = Http1::over(connect(&server, FIRST.0, &[]).await.unwrap()).await;
    let error = tls.replace_pem(SECOND.0, FIRST.1).unwrap_err();
    assert_eq!(error.to_string(), "the certificate or its key is not usable");
    connect(&server, FIRST.0, &[]).await.unwrap();
    tls.replace_pem(SECOND.0, SECOND.1).unwrap();
    connect(&server, SECOND.0, &[]).await.unwrap();
    connect(&server, FIRST.0, &[]).await.unwrap_err();
    assert_eq!(before.get_root().await.0, StatusCode::OK);
}

fn put(folder: &Path, pair: (&str, &str)) {
    fs::write(folder.join("cert.pem"), pair.0).unwrap();
    fs::write(folder.join("key.pem"), pair.1).unwrap();
}

/// A folder for one test. Dropping it removes the folder.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcp-tls-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn config(&self) -> Result<TlsConfig, TlsError> {
        TlsConfig::from_files(self.0.join("cert.pem"), self.0.join("key.pem"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn reload_reads_the_files_and_keeps_the_certificate_on_error() {
    let folder = Folder::new("reload");
    put(&folder.0, FIRST);
    let tls = folder.config().unwrap();
    let server = serve(tls.clone()).await;
    put(&folder.0, (SECOND.0, FIRST.1));
    let error = tls.reload().unwrap_err().to_string();
    assert!(error.contains("cert.pem` and `") && error.contains("key.pem`: the certificate or its key"), "{error}");
    put(&folder.0, (SECOND.0, ""));
    let error = tls.reload().unwrap_err().to_string();
    assert!(error.ends_with("key.pem`: the PEM contains no private key"), "{error}");
    connect(&server, FIRST.0, &[]).await.unwrap();
    put(&folder.0, SECOND);
    tls.reload().unwrap();
    connect(&server, SECOND.0, &[]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn changed_files_are_reloaded() {
    let folder = Folder::new("watch");
    put(&folder.0, FIRST);
    let tls = folder.config().unwrap();
    let server = serve(tls.clone()).await;
    connect(&server, FIRST.0, &[]).await.unwrap();
    // The lengths differ, so the resolution of file times does not matter.
    assert_ne!(FIRST.0.len(), SECOND.0.len());
    put(&folder.0, SECOND);
    for _ in 0..100 {
        if connect(&server, SECOND.0, &[]).await.is_ok() {
            return;
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    panic!("the new certificate was not loaded");
}

#[test]
fn errors_name_the_invalid_part() {
    #[track_caller]
    fn check(certificate: &str, key: &str, expected: &str) {
        let error = TlsConfig::from_pem(certificate, key).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    check("", FIRST.1, "the PEM contains no certificate");
    check(
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
        FIRST.1,
        "the PEM of the certificate cannot be read",
    );
    check(FIRST.0, "", "the PEM contains no private key");
    check(FIRST.0, FIRST.0, "the PEM contains no private key");
    check(FIRST.0, SECOND.1, "the certificate or its key is not usable");
    let error = TlsConfig::from_files("/nonexistent/cert.pem", "/nonexistent/key.pem").unwrap_err();
    assert_eq!(error.to_string(), "`/nonexistent/cert.pem` cannot be read");
    assert!(std::error::Error::source(&error).is_some(), "{error:?}");
    assert!(!format!("{:?}", TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap()).contains("PRIVATE"));
}

#[test]
fn a_file_above_the_limit_is_rejected_and_not_truncated() {
    let folder = Folder::new("large");
    for (length, fits) in [(1 << 20, true), ((1 << 20) + 1, false)] {
        let padded = format!("{}{}", FIRST.0, "\n".repeat(length - FIRST.0.len()));
        put(&folder.0, (&padded, FIRST.1));
        let source = folder.config().err().map(|error| std::error::Error::source(&error).unwrap().to_string());
        assert_eq!(source.as_deref(), (!fits).then_some("the file is larger than 1048576 bytes"), "{length}");
    }
}

#[tokio::test]
async fn cleartext_fails_the_handshake_and_releases_the_permit() {
    let tls = TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap();
    let server = serve_one(tls).await;
    let mut plain = server.connect().await;
    plain.write_all(b"GET /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut received = Vec::new();
    // The server sends a TLS alert and no HTTP.
    let _ = within("the end", plain.read_to_end(&mut received)).await;
    assert!(received.first() == Some(&21) && !received.windows(4).any(|window| window == b"HTTP"), "{received:x?}");
    // The permit of the connection is free again.
    connect(&server, FIRST.0, &[]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handshake_times_out_after_ten_seconds() {
    let server = serve_one(TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap()).await;
    let mut silent = server.connect().await;
    let start = tokio::time::Instant::now();
    assert_eq!(within("the end", silent.read(&mut [0; 16])).await.unwrap(), 0);
    assert_eq!(start.elapsed().as_secs(), 10);
    connect(&server, FIRST.0, &[]).await.unwrap();
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_handshakes() {
    let mut server = serve(TlsConfig::from_pem(FIRST.0, FIRST.1).unwrap()).await;
    let mut silent = server.connect().await;
    // The listener accepts in order, so it has accepted the silent connection before this one.
    connect(&server, FIRST.0, &[]).await.unwrap();
    server.shut_down();
    assert_eq!(within("the end", silent.read(&mut [0; 16])).await.unwrap(), 0);
    server.ended().await;
}
