//! HTTPS: the certificate of the server, its renewal, and the handshake of a connection.

use std::{
    convert::Infallible,
    error::Error,
    fmt, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::{Mutex, MutexGuard, RwLock};
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::CertifiedKey,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    client_certificate::{self, ClientCertificate, ClientCertificates, Unusable},
    security::Security,
    tcp::Duplex,
};

/// The certificate chain and the private key of a server.
///
/// The server offers HTTP/2 and HTTP/1.1 on one port, over TLS 1.3 and TLS 1.2. Clones share the certificate.
///
/// A certificate from files is renewed while the server runs. The listener checks every ten seconds whether the files
/// have changed. [`TlsConfig::reload`] reads them at once. Open connections keep the certificate of their handshake.
/// If the new files do not match each other, for example during a renewal, the server logs a warning, keeps the former
/// certificate and checks again later.
///
/// # Example
///
/// ```
/// use mcp_http_listener::TlsConfig;
///
/// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates")).unwrap();
/// let tls = TlsConfig::from_files("first.pem", "first-key.pem")?;
/// // The listener has a clone: mcp_http_listener::serve(listener, app).tls(tls.clone())
/// tls.reload()?;
/// # Ok::<(), mcp_http_listener::TlsError>(())
/// ```
#[derive(Clone)]
pub struct TlsConfig {
    config: Arc<ServerConfig>,
    certificate: Arc<Certificate>,
    files: Option<Arc<Files>>,
    has_client_certificates: bool,
}

/// The files of a certificate.
#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    /// The state of the files at the last successful read.
    seen: Mutex<Stamp>,
}

/// Identifies the content of the two files: the time of the last change and the length of each.
type Stamp = [Option<(SystemTime, u64)>; 2];

/// The current certificate.
#[derive(Debug)]
struct Certificate(RwLock<Arc<CertifiedKey>>);

/// The interval of the checks for changed files.
const WATCH_INTERVAL: Duration = Duration::from_secs(10);

/// The time limit of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The size limit of a PEM file in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The names of the two PEM contents in errors.
const CERTIFICATE: &str = "certificate";
const KEY: &str = "private key";
/// The name of the PEM with authorities in errors.
const AUTHORITY: &str = "certificate of an authority";

impl TlsConfig {
    /// Reads a certificate chain and a private key from two PEM files.
    ///
    /// The chain begins with the certificate of the server. The key is PKCS #8, PKCS #1 or SEC1. Each file may have 1 MiB.
    ///
    /// # Errors
    /// If a file cannot be read, is too large or does not contain the expected PEM, or if the key does not match the
    /// certificate.
    pub fn from_files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let files = Files { certificate: certificate.into(), key: key.into(), seen: Mutex::default() };
        let config = Self::with(files.read()?)?;
        Ok(Self { files: Some(Arc::new(files)), ..config })
    }

    /// Reads a certificate chain and a private key from PEM in memory. [`TlsConfig::replace_pem`] renews them.
    ///
    /// ```
    /// use mcp_http_listener::TlsConfig;
    ///
    /// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates")).unwrap();
    /// let certificate = std::fs::read("first.pem")?;
    /// let key = std::fs::read("first-key.pem")?;
    /// assert!(TlsConfig::from_pem(&certificate, &key).is_ok());
    /// assert!(TlsConfig::from_pem(&key, &certificate).is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the PEM has no certificate or no key, or if the key does not match the certificate.
    pub fn from_pem(certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<Self, TlsError> {
        Self::with(parse(certificate.as_ref(), key.as_ref())?)
    }

    /// Reads the files again. This call blocks on the file system. It does nothing for a certificate from memory.
    ///
    /// # Errors
    /// The errors of [`TlsConfig::from_files`]. The former certificate then stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        if let Some(files) = &self.files {
            self.certificate.replace(files.read()?);
        }
        Ok(())
    }

    /// Replaces the certificate. If the certificate came from files that change later, the files replace it again.
    ///
    /// ```
    /// use std::fs;
    ///
    /// use mcp_http_listener::TlsConfig;
    ///
    /// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates")).unwrap();
    /// let tls = TlsConfig::from_pem(fs::read("first.pem")?, fs::read("first-key.pem")?)?;
    /// tls.replace_pem(fs::read("second.pem")?, fs::read("second-key.pem")?)?;
    /// // The key does not match the certificate, so the second certificate stays in use.
    /// assert!(tls.replace_pem(fs::read("first.pem")?, fs::read("second-key.pem")?).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`TlsConfig::from_pem`]. The former certificate then stays in use.
    pub fn replace_pem(&self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<(), TlsError> {
        self.certificate.replace(parse(certificate.as_ref(), key.as_ref())?);
        Ok(())
    }

    fn with(key: CertifiedKey) -> Result<Self, TlsError> {
        let certificate = Arc::new(Certificate(RwLock::new(Arc::new(key))));
        let config = server_config(certificate.clone(), WebPkiClientVerifier::no_client_auth())?;
        Ok(Self { config: Arc::new(config), certificate, files: None, has_client_certificates: false })
    }

    /// Demands certificates from clients. One of these authorities (PEM) must have issued the certificate of a client. Each
    /// request has the certificate in its extensions, as [`ClientCertificate`]. By default the server demands none.
    ///
    /// ```
    /// use mcp_http_listener::{ClientCertificates, TlsConfig};
    ///
    /// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates")).unwrap();
    /// let authorities = std::fs::read("second.pem")?;
    /// let tls = TlsConfig::from_files("first.pem", "first-key.pem")?
    ///     .client_certificates(authorities, ClientCertificates::Required)?;
    /// # let _ = tls;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the PEM has no certificate, or a certificate cannot be an authority.
    pub fn client_certificates(
        self,
        authorities: impl AsRef<[u8]>,
        demand: ClientCertificates,
    ) -> Result<Self, TlsError> {
        let verifier = client_certificate::verifier(authorities.as_ref(), demand, provider());
        let verifier = verifier.map_err(|unusable| match unusable {
            Unusable::Pem(error) => Kind::Pem { what: AUTHORITY, error },
            Unusable::Certificate(error) => Kind::Authority(error),
        })?;
        let config = server_config(self.certificate.clone(), verifier)?;
        Ok(Self { config: Arc::new(config), has_client_certificates: true, ..self })
    }

    /// Whether the handshake asks clients for certificates ([`client_certificates`](Self::client_certificates)).
    #[must_use]
    pub fn has_client_certificates(&self) -> bool {
        self.has_client_certificates
    }

    fn reload_if_changed(&self) {
        if self.files.as_ref().is_none_or(|files| !files.have_changed()) {
            return;
        }
        match self.reload() {
            Ok(()) => tracing::info!("the certificate was reloaded"),
            Err(error) => {
                let source = error.source().map(ToString::to_string);
                tracing::warn!(%error, source, "the changed certificate cannot be used");
            }
        }
    }
}

fn server_config(
    certificate: Arc<Certificate>,
    verifier: Arc<dyn ClientCertVerifier>,
) -> Result<ServerConfig, TlsError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::refused)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

impl Security for TlsConfig {
    type Stream<S: Duplex> = TlsStream<S>;
    type Extension = ClientCertificate;

    fn extension<S: Duplex>(stream: &TlsStream<S>) -> Option<ClientCertificate> {
        stream.get_ref().1.peer_certificates()?.first().map(ClientCertificate::new)
    }

    async fn secure<S: Duplex>(&self, stream: S) -> Option<TlsStream<S>> {
        let handshake = TlsAcceptor::from(self.config.clone()).accept(stream);
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
            Err(_) => {
                tracing::debug!("a TLS handshake timed out");
                None
            }
        }
    }

    /// Reloads the files whenever they change.
    async fn maintain(&self) -> Infallible {
        if self.files.is_none() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(WATCH_INTERVAL).await;
            let config = self.clone();
            // The task fails only if the runtime shuts down.
            let _ = tokio::task::spawn_blocking(move || config.reload_if_changed()).await;
        }
    }
}

impl<S: Duplex> Duplex for TlsStream<S> {
    fn socket(&self) -> Option<&TcpStream> {
        self.get_ref().0.socket()
    }
}

impl fmt::Debug for TlsConfig {
    /// Omits the private key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.files.as_ref().map(|files| (&files.certificate, &files.key));
        f.debug_struct("TlsConfig").field("files", &files).finish_non_exhaustive()
    }
}

impl Certificate {
    fn replace(&self, key: CertifiedKey) {
        *self.0.write() = Arc::new(key);
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().clone())
    }
}

impl Files {
    fn read(&self) -> Result<CertifiedKey, TlsError> {
        // Taken before the read: the next check notices a change during the read.
        let stamp = self.stamp();
        let key = parse(&read(&self.certificate)?, &read(&self.key)?).map_err(|error| error.within(self))?;
        *self.seen() = stamp;
        Ok(key)
    }

    fn have_changed(&self) -> bool {
        let now = self.stamp();
        *self.seen() != now
    }

    fn stamp(&self) -> Stamp {
        [&self.certificate, &self.key].map(|path| {
            let data = fs::metadata(path).ok()?;
            Some((data.modified().ok()?, data.len()))
        })
    }

    fn seen(&self) -> MutexGuard<'_, Stamp> {
        self.seen.lock()
    }
}

/// The error of a certificate that cannot be used. Its message names the file.
///
/// ```
/// use mcp_http_listener::TlsConfig;
///
/// let error = TlsConfig::from_files("missing.pem", "missing-key.pem").unwrap_err();
/// assert!(error.to_string().contains("missing.pem"));
/// ```
#[derive(Debug)]
pub struct TlsError {
    kind: Kind,
    /// The names of the files, unless the certificate came from memory.
    place: Option<String>,
}

#[derive(Debug)]
enum Kind {
    File { path: PathBuf, error: io::Error },
    Pem { what: &'static str, error: Option<rustls::pki_types::pem::Error> },
    Refused(rustls::Error),
    Authority(Box<dyn Error + Send + Sync>),
}

impl TlsError {
    fn refused(error: rustls::Error) -> Self {
        Kind::Refused(error).into()
    }

    /// Adds the name of the file that caused the error.
    fn within(self, files: &Files) -> Self {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        let place = match &self.kind {
            // This error names its file already.
            Kind::File { .. } => None,
            Kind::Pem { what, .. } if *what == CERTIFICATE => Some(format!("`{certificate}`")),
            Kind::Pem { .. } => Some(format!("`{key}`")),
            Kind::Refused(_) => Some(format!("`{certificate}` and `{key}`")),
            Kind::Authority(_) => None,
        };
        Self { place, ..self }
    }
}

impl From<Kind> for TlsError {
    fn from(kind: Kind) -> Self {
        Self { kind, place: None }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        match &self.kind {
            Kind::File { path, .. } => write!(f, "`{}` cannot be read", path.display()),
            Kind::Pem { what, error: Some(_) } => write!(f, "the PEM of the {what} cannot be read"),
            Kind::Pem { what, error: None } => write!(f, "the PEM contains no {what}"),
            Kind::Refused(_) => f.write_str("the certificate or its key is not usable"),
            Kind::Authority(_) => write!(f, "the {AUTHORITY} is not usable"),
        }
    }
}

impl Error for TlsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            Kind::File { error, .. } => Some(error),
            Kind::Pem { error, .. } => error.as_ref().map(|error| error as _),
            Kind::Refused(error) => Some(error),
            Kind::Authority(error) => Some(&**error),
        }
    }
}

/// The crypto provider of this crate. Other crates in the process may use another one.
fn provider() -> CryptoProvider {
    ring::default_provider()
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    // One byte above the limit distinguishes a file that is too large from a file of exactly the limit.
    let read = fs::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
    let read = read.and_then(|length| {
        let is_whole = length as u64 <= MAX_FILE;
        is_whole.then_some(bytes).ok_or_else(|| io::Error::other(format!("the file is larger than {MAX_FILE} bytes")))
    });
    read.map_err(|error| Kind::File { path: path.to_owned(), error }.into())
}

fn parse(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, TlsError> {
    let bad = |what, error| TlsError::from(Kind::Pem { what, error });
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| bad(CERTIFICATE, Some(error)))?;
    if chain.is_empty() {
        return Err(bad(CERTIFICATE, None));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => bad(KEY, None),
        error => bad(KEY, Some(error)),
    })?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(TlsError::refused)
}

#[cfg(test)]
pub(crate) mod tests {
    use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
    use tokio_rustls::{TlsConnector, client};

    use super::*;

    const CERTIFICATE: &str = include_str!("../tests/certificates/first.pem");

    /// The configuration of the tests.
    pub(crate) fn config() -> TlsConfig {
        TlsConfig::from_pem(CERTIFICATE, include_str!("../tests/certificates/first-key.pem")).unwrap()
    }

    /// Connects a client that trusts this certificate.
    pub(crate) async fn connect<S: Duplex>(stream: S) -> client::TlsStream<S> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}
