//! HTTPS: certificates, and the handshake of a connection.

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
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    chain::chain,
    serve::{Duplex, Security},
};

/// What a server proves its name with: a chain of certificates and its key. HTTP/2 and HTTP/1.1 are offered on one port,
/// over TLS 1.3 and 1.2. Clones share the certificate.
///
/// A certificate that was read from files is renewed while the server runs: [`HttpServer::serve_https`] looks every ten
/// seconds whether the files have changed, and [`TlsConfig::reload`] reads them at once. Connections that are open keep
/// what they were opened with. Files that do not fit each other, such as halfway through a renewal, are reported and
/// looked at again; the former certificate serves until then.
///
/// [`HttpServer::serve_https`]: crate::HttpServer::serve_https
#[derive(Clone)]
pub struct TlsConfig {
    config: Arc<ServerConfig>,
    certificate: Arc<Certificate>,
    files: Option<Arc<Files>>,
}

/// Where a certificate comes from.
#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    /// What they were when they were last read with success.
    seen: Mutex<Stamp>,
}

/// What tells that a file is another one: the time of its last change, and its length.
type Stamp = [Option<(SystemTime, u64)>; 2];

/// The certificate of the moment.
#[derive(Debug)]
struct Certificate(RwLock<Arc<CertifiedKey>>);

/// How often it is looked whether the files have changed.
const WATCH: Duration = Duration::from_secs(10);

/// How long a client may take to agree on keys.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The most bytes that a PEM file may have.
const FILE: u64 = 1 << 20;

/// What a PEM is to hold.
const CERTIFICATE: &str = "certificate";
/// What the other one is to hold.
const KEY: &str = "private key";

impl TlsConfig {
    /// Reads a chain of certificates, the server's own first, and its private key (PKCS #8, PKCS #1 or SEC1), each from
    /// a PEM file of 1 MiB at most.
    ///
    /// # Errors
    /// When a file cannot be read, is too large or holds no such thing, or the key is not that of the certificate.
    pub fn from_files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let files = Files { certificate: certificate.into(), key: key.into(), seen: Mutex::default() };
        let config = Self::with(files.read()?)?;
        Ok(Self { files: Some(Arc::new(files)), ..config })
    }

    /// The same from memory. [`TlsConfig::replace_pem`] renews it.
    ///
    /// # Errors
    /// When there is no certificate or no key in it, or they do not fit each other.
    pub fn from_pem(certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<Self, TlsError> {
        Self::with(parse(certificate.as_ref(), key.as_ref())?)
    }

    /// Reads the files again, at once. Blocks while it reads. Does nothing for what came from memory.
    ///
    /// # Errors
    /// As [`TlsConfig::from_files`]; the former certificate stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        if let Some(files) = &self.files {
            self.certificate.replace(files.read()?);
        }
        Ok(())
    }

    /// Puts another certificate in the place of the former one, until files that changed are read again.
    ///
    /// # Errors
    /// As [`TlsConfig::from_pem`]; the former certificate stays.
    pub fn replace_pem(&self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<(), TlsError> {
        self.certificate.replace(parse(certificate.as_ref(), key.as_ref())?);
        Ok(())
    }

    fn with(key: CertifiedKey) -> Result<Self, TlsError> {
        let certificate = Arc::new(Certificate(RwLock::new(Arc::new(key))));
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::refused)?
            .with_no_client_auth()
            .with_cert_resolver(certificate.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), certificate, files: None })
    }

    /// Follows the files, for ever.
    pub(crate) async fn watch(&self) -> Infallible {
        if self.files.is_none() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(WATCH).await;
            let again = self.clone();
            // A task that fails means that the runtime goes down.
            let _ = tokio::task::spawn_blocking(move || again.follow()).await;
        }
    }

    fn follow(&self) {
        if self.files.as_ref().is_none_or(|files| !files.have_changed()) {
            return;
        }
        match self.reload() {
            Ok(()) => tracing::info!("the certificate was read again"),
            Err(error) => {
                let source = error.source().map(ToString::to_string);
                tracing::warn!(%error, source, "a changed certificate is not used");
            }
        }
    }
}

impl Security for TlsConfig {
    type Stream<S: Duplex> = TlsStream<S>;

    async fn secure<S: Duplex>(&self, stream: S) -> Option<TlsStream<S>> {
        let shaking = TlsAcceptor::from(self.config.clone()).accept(stream);
        match tokio::time::timeout(HANDSHAKE, shaking).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a handshake failed");
                None
            }
            Err(_) => {
                tracing::debug!("a handshake took too long");
                None
            }
        }
    }
}

impl fmt::Debug for TlsConfig {
    /// Leaves out the key.
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
        // Before they are read: what changes meanwhile is found the next time.
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

/// Why a certificate cannot be used.
pub struct TlsError {
    kind: Kind,
    /// The files, where it came from files.
    place: Option<String>,
}

enum Kind {
    File { path: PathBuf, error: io::Error },
    Pem { what: &'static str, error: Option<rustls::pki_types::pem::Error> },
    Refused(rustls::Error),
}

impl TlsError {
    fn refused(error: rustls::Error) -> Self {
        Kind::Refused(error).into()
    }

    /// The same error, which names the file that is to blame.
    fn within(self, files: &Files) -> Self {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        let place = match &self.kind {
            // It names its file already.
            Kind::File { .. } => None,
            Kind::Pem { what, .. } if *what == CERTIFICATE => Some(format!("`{certificate}`")),
            Kind::Pem { .. } => Some(format!("`{key}`")),
            Kind::Refused(_) => Some(format!("`{certificate}` and `{key}`")),
        };
        Self { place, ..self }
    }
}

impl From<Kind> for TlsError {
    fn from(kind: Kind) -> Self {
        Self { kind, place: None }
    }
}

impl fmt::Debug for TlsError {
    /// The message and its causes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        chain(self, f)
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
            Kind::Pem { what, error: None } => write!(f, "the PEM holds no {what}"),
            Kind::Refused(_) => f.write_str("the certificate or its key is not usable"),
        }
    }
}

impl Error for TlsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            Kind::File { error, .. } => Some(error),
            Kind::Pem { error, .. } => error.as_ref().map(|error| error as _),
            Kind::Refused(error) => Some(error),
        }
    }
}

/// The one provider of cryptography, whatever else in the process uses rustls.
fn provider() -> CryptoProvider {
    ring::default_provider()
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut bytes = Vec::new();
    // One byte more than may be there tells a file that is too large from one that just fits.
    let read = fs::File::open(path).and_then(|file| file.take(FILE + 1).read_to_end(&mut bytes));
    let read = read.and_then(|length| {
        let is_whole = length as u64 <= FILE;
        is_whole.then_some(bytes).ok_or_else(|| io::Error::other(format!("it is larger than {FILE} bytes")))
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

    /// The certificate of the tests.
    pub(crate) fn config() -> TlsConfig {
        TlsConfig::from_pem(CERTIFICATE, include_str!("../tests/certificates/first-key.pem")).unwrap()
    }

    /// A client that trusts it, over any stream.
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
