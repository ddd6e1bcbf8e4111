//! The endpoint over HTTPS. The tests of `mcp-http-listener` cover certificates and handshakes.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::Arc;

use http::StatusCode;
use mcp_auth::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection};
use mcp_protocol::{Challenge, Principal};
use mcp_server_http::{
    HttpConfig, HttpServer, TlsConfig,
    listener::{ClientCertificate, ClientCertificates},
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;

use crate::common::{
    self,
    http2::Http2,
    server,
    socket::{Connection, Endpoint},
    within,
};

const CERTIFICATE: &str = include_str!("certificates/first.pem");
const KEY: &str = include_str!("certificates/first-key.pem");

fn echo() -> http::Request<http_body_util::Full<bytes::Bytes>> {
    common::stateless("tools/call", json!({ "name": "echo", "arguments": { "text": "hi" } }), &[])
}

#[tokio::test]
async fn serves_http1_and_http2_on_one_port() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (server, tls) = (server(), TlsConfig::from_pem(CERTIFICATE, KEY).unwrap());
    let config = HttpConfig::new().ignore_signals();
    let endpoint =
        Endpoint::of(address, tokio::spawn(async move { server.serve_https_on(listener, tls, config).await }));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap()).unwrap();
    for protocol in ["h2", "http/1.1"] {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, endpoint.stream().await);
        let stream = within("a handshake", connecting).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
        let answer = if protocol == "h2" {
            Http2::connect(stream).await.exchange(echo()).await
        } else {
            let mut connection = Connection::over(stream);
            connection.send(echo()).await;
            connection.answer().await
        };
        assert_eq!(answer.status, StatusCode::OK, "{protocol}");
        assert_eq!(answer.json()["result"]["content"][0]["text"], "hi");
    }
}

/// Authenticates the owner of one certificate.
struct Certificates(CertificateDer<'static>);

impl Authenticator for Certificates {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        let certificate = request.extensions.and_then(|extensions| extensions.get::<ClientCertificate>());
        Box::pin(async move {
            match certificate.ok_or(Rejection::Missing)?.der() == &*self.0 {
                true => Ok(Authenticated::new(Principal::new("ann").with_scheme("Certificate"))),
                false => Err(Rejection::Forbidden),
            }
        })
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::new("Certificate")]
    }

    fn request_headers(&self) -> Vec<http::HeaderName> {
        Vec::new()
    }
}

#[tokio::test]
async fn an_authenticator_reads_the_certificate_of_the_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
    let tls = TlsConfig::from_pem(CERTIFICATE, KEY).unwrap();
    let tls = tls.client_certificates(CERTIFICATE, ClientCertificates::Optional).unwrap();
    let config = HttpConfig::new().ignore_signals().authenticate(Certificates(certificate.clone()));
    let server = crate::authentication::server();
    let endpoint =
        Endpoint::of(address, tokio::spawn(async move { server.serve_https_on(listener, tls, config).await }));
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    for (has_certificate, status) in [(true, StatusCode::OK), (false, StatusCode::UNAUTHORIZED)] {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots.clone());
        let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
        let config = match has_certificate {
            true => config.with_client_auth_cert(vec![certificate.clone()], key).unwrap(),
            false => config.with_no_client_auth(),
        };
        let name = ServerName::try_from("localhost").unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, endpoint.stream().await);
        let mut connection = Connection::over(within("a handshake", connecting).await.unwrap());
        connection.send(common::stateless("tools/call", json!({ "name": "who" }), &[])).await;
        let answer = connection.answer().await;
        assert_eq!(answer.status, status);
        if has_certificate {
            assert_eq!(answer.json()["result"]["content"][0]["text"], "ann");
        }
    }
}
