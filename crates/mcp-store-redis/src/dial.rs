//! New connections: TCP, TLS or a Unix socket, with bounded time.

use std::{fmt, io, sync::Arc};

use mcp_store::StoreError;
use redis::{ProtocolVersion, RedisConnectionInfo};
use rustls::{
    ClientConfig,
    crypto::{CryptoProvider, ring},
    pki_types::ServerName,
};
use rustls_platform_verifier::Verifier;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::options::{Address, Protocol, RedisOptions};

/// A connection of any kind.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Opens connections to one server.
pub(crate) struct Dialer {
    address: Address,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The credentials, the database and the protocol of each connection.
    pub(crate) info: RedisConnectionInfo,
}

impl Dialer {
    /// Returns a dialer.
    ///
    /// # Errors
    /// [Invalid](StoreError::is_invalid) if the options exclude each other, or TLS cannot be set up.
    pub(crate) fn new(options: &RedisOptions) -> Result<Self, StoreError> {
        let tls = match &options.address {
            _ if !options.tls => None,
            Address::Unix(_) => return Err(StoreError::invalid("a Unix socket of redis has no TLS")),
            Address::Tcp(host, _) => {
                let name = ServerName::try_from(host.clone()).map_err(|error| {
                    StoreError::invalid(format!("the host {host:?} is not a name for TLS")).with_source(error)
                })?;
                let config = tls(options)
                    .map_err(|error| StoreError::invalid("TLS to redis cannot be set up").with_source(error))?;
                Some((TlsConnector::from(Arc::new(config)), name))
            }
        };
        // Each command of the handshake needs a permission, so the connection does not name its library.
        let mut info = RedisConnectionInfo::default().set_skip_set_lib_name().set_db(options.database.into());
        info = info.set_protocol(match options.protocol {
            Protocol::Resp2 => ProtocolVersion::RESP2,
            Protocol::Resp3 => ProtocolVersion::RESP3,
        });
        if let Some(username) = &options.username {
            info = info.set_username(username);
        }
        if let Some(password) = &options.password {
            info = info.set_password(password);
        }
        Ok(Self { address: options.address.clone(), tls, info })
    }

    /// Opens a connection. The caller bounds the time.
    pub(crate) async fn open(&self) -> io::Result<Box<dyn Io>> {
        let stream = match &self.address {
            Address::Tcp(host, port) => TcpStream::connect((host.as_str(), *port)).await?,
            #[cfg(unix)]
            Address::Unix(path) => return Ok(Box::new(tokio::net::UnixStream::connect(path).await?)),
            #[cfg(not(unix))]
            Address::Unix(_) => return Err(io::Error::from(io::ErrorKind::Unsupported)),
        };
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            Some((connector, name)) => Box::new(connector.connect(name.clone(), stream).await?),
            None => Box::new(stream),
        })
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").field("address", &self.address).field("tls", &self.tls.is_some()).finish()
    }
}

fn tls(options: &RedisOptions) -> Result<ClientConfig, rustls::Error> {
    let provider: Arc<CryptoProvider> = ring::default_provider().into();
    let verifier = if options.roots.is_empty() {
        Verifier::new(provider.clone())?
    } else {
        Verifier::new_with_extra_roots(options.roots.iter().cloned(), provider.clone())?
    };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    // `dangerous` is how rustls names any verifier but its own; this one asks the system.
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    match options.identity.clone() {
        Some(identity) => builder.with_client_auth_cert(identity.chain, identity.key),
        None => Ok(builder.with_no_client_auth()),
    }
}
