//! The endpoint over HTTPS. The tests of `mcp-http-listener` cover certificates and handshakes.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::Arc;

use ::ring::{digest, hmac};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD as URL_SAFE, Engine as _};
use http::StatusCode;
use mcp_auth::{AuthRequest, Authenticated, Authenticator, BoxFuture, Jwt, Rejection};
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
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsConnector, client::TlsStream};

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
    let config = HttpConfig::new().ignore_signals().authenticate(Certificates(certificate));
    let server = crate::authentication::server();
    let endpoint =
        Endpoint::of(address, tokio::spawn(async move { server.serve_https_on(listener, tls, config).await }));
    for (has_certificate, status) in [(true, StatusCode::OK), (false, StatusCode::UNAUTHORIZED)] {
        let mut connection = connect(&endpoint, has_certificate).await;
        connection.send(common::stateless("tools/call", json!({ "name": "who" }), &[])).await;
        let answer = connection.answer().await;
        assert_eq!(answer.status, status);
        if has_certificate {
            assert_eq!(answer.json()["result"]["content"][0]["text"], "ann");
        }
    }
}

/// Connects a client, with or without the certificate.
async fn connect(endpoint: &Endpoint, has_certificate: bool) -> Connection<TlsStream<TcpStream>> {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let config = match has_certificate {
        true => config.with_client_auth_cert(vec![certificate], key).unwrap(),
        false => config.with_no_client_auth(),
    };
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, endpoint.stream().await);
    Connection::over(within("a handshake", connecting).await.unwrap())
}

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// Returns a token that is bound to a certificate (RFC 8705 §3.1).
fn bound_token(certificate: &[u8]) -> String {
    let thumbprint = URL_SAFE.encode(digest::digest(&digest::SHA256, certificate));
    let claims = json!({
        "iss": "https://as.example", "aud": "https://localhost/mcp", "sub": "ann", "exp": 4_000_000_000_u64,
        "cnf": { "x5t#S256": thumbprint },
    });
    let encode = |value: serde_json::Value| URL_SAFE.encode(value.to_string());
    let message = format!("{}.{}", encode(json!({ "alg": "HS256" })), encode(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), message.as_bytes());
    format!("{message}.{}", URL_SAFE.encode(tag))
}

#[tokio::test]
async fn a_token_that_is_bound_to_a_certificate_needs_a_connection_with_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = TlsConfig::from_pem(CERTIFICATE, KEY).unwrap();
    let tls = tls.client_certificates(CERTIFICATE, ClientCertificates::Optional).unwrap();
    let config = HttpConfig::new().ignore_signals().public_url("https://localhost/mcp");
    let config = config.authenticate(Jwt::hs256("https://as.example", SECRET));
    let server = crate::authentication::server();
    let endpoint =
        Endpoint::of(address, tokio::spawn(async move { server.serve_https_on(listener, tls, config).await }));
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
    for (name, bound_to, has_certificate, status) in [
        ("the owner", &*certificate, true, StatusCode::OK),
        ("a thief without a certificate", &*certificate, false, StatusCode::UNAUTHORIZED),
        ("a thief with another certificate", &b"the certificate of the owner"[..], true, StatusCode::UNAUTHORIZED),
        ("the owner again", &*certificate, true, StatusCode::OK),
    ] {
        let mut connection = connect(&endpoint, has_certificate).await;
        let authorization = format!("Bearer {}", bound_token(bound_to));
        let call = common::stateless("tools/call", json!({ "name": "who" }), &[("authorization", &authorization)]);
        connection.send(call).await;
        assert_eq!(connection.answer().await.status, status, "{name}");
    }
}

#[tokio::test]
async fn the_metadata_names_bound_tokens_if_the_listener_asks_for_certificates() {
    for (demand, expected) in [(Some(ClientCertificates::Optional), Some(true)), (None, None)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = TlsConfig::from_pem(CERTIFICATE, KEY).unwrap();
        let tls = demand.map_or(Ok(tls.clone()), |demand| tls.client_certificates(CERTIFICATE, demand)).unwrap();
        let config = HttpConfig::new().ignore_signals().public_url("https://localhost/mcp");
        let config = config.authenticate(Jwt::issuer("https://as.example"));
        let server = crate::authentication::server();
        let endpoint =
            Endpoint::of(address, tokio::spawn(async move { server.serve_https_on(listener, tls, config).await }));
        let mut connection = connect(&endpoint, false).await;
        let url = "/.well-known/oauth-protected-resource/mcp";
        connection
            .send(http::Request::get(url).header("host", "localhost").body(http_body_util::Full::default()).unwrap())
            .await;
        let answer = connection.answer().await;
        assert_eq!(answer.json()["tls_client_certificate_bound_access_tokens"].as_bool(), expected, "{demand:?}");
    }
}
