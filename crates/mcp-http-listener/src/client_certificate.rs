//! Certificates of clients.

use std::{fmt, sync::Arc};

use rustls::{
    RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

/// The certificate of the client of a TLS connection, in the extensions of each request.
///
/// The listener adds it if [`TlsConfig::client_certificates`](crate::TlsConfig::client_certificates) demands certificates and the
/// client has one. The handshake has verified the certificate: one of the configured authorities issued it, it is valid
/// now, and the client has its key. The application decides which certificates it accepts. The listener does not check
/// revocation lists.
///
/// ```
/// use axum::{Router, extract::Request, routing::get};
/// use mcp_http_listener::ClientCertificate;
///
/// async fn length(request: Request) -> String {
///     let certificate = request.extensions().get::<ClientCertificate>();
///     certificate.map_or("no certificate".to_owned(), |certificate| format!("{} bytes", certificate.der().len()))
/// }
///
/// let app: Router = Router::new().route("/", get(length));
/// # let _ = app;
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCertificate(Arc<[u8]>);

impl ClientCertificate {
    pub(crate) fn new(certificate: &CertificateDer<'_>) -> Self {
        Self(Arc::from(&**certificate))
    }

    /// Returns the certificate (X.509 in DER). Its SHA-256 is the thumbprint `x5t#S256` of RFC 8705.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ClientCertificate {
    /// Shows the length only, because a certificate can name a person.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientCertificate({} bytes)", self.0.len())
    }
}

/// Whether clients need a certificate.
///
/// ```
/// use mcp_http_listener::ClientCertificates;
///
/// assert_ne!(ClientCertificates::Optional, ClientCertificates::Required);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientCertificates {
    /// A client may have no certificate. A wrong certificate ends the handshake.
    Optional,
    /// A client without a certificate cannot connect.
    Required,
}

/// The reason for which authorities cannot be used.
pub(crate) enum Unusable {
    Pem(Option<rustls::pki_types::pem::Error>),
    Certificate(Box<dyn std::error::Error + Send + Sync>),
}

/// Returns the verifier of certificates that these authorities (PEM) issued.
pub(crate) fn verifier(
    authorities: &[u8],
    demand: ClientCertificates,
    provider: CryptoProvider,
) -> Result<Arc<dyn ClientCertVerifier>, Unusable> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authorities) {
        let certificate = certificate.map_err(|error| Unusable::Pem(Some(error)))?;
        roots.add(certificate).map_err(|error| Unusable::Certificate(error.into()))?;
    }
    if roots.is_empty() {
        return Err(Unusable::Pem(None));
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider));
    let builder = match demand {
        ClientCertificates::Optional => builder.allow_unauthenticated(),
        ClientCertificates::Required => builder,
    };
    let verifier = builder.build().map_err(|error| Unusable::Certificate(error.into()))?;
    Ok(verifier)
}
