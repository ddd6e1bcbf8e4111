//! New connections: TCP, TLS or a Unix socket, with bounded time.

use std::{fmt, io, sync::Arc, time::Duration};

use mcp_store::StoreError;
use parking_lot::Mutex;
use redis::{ProtocolVersion, RedisConnectionInfo};
use rustls::{
    ClientConfig,
    crypto::{CryptoProvider, ring},
    pki_types::ServerName,
};
use rustls_platform_verifier::Verifier;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpSocket, TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::options::{Address, Protocol, RedisOptions};

/// The time limit of one attempt to connect, with the handshake and the check of the settings.
const CONNECT_TIME: Duration = Duration::from_secs(2);

/// The bytes that the system sends ahead of the server. The default of several megabytes hides the progress of a slow transfer.
const SEND_BUFFER: u32 = 256 << 10;

/// A connection of any kind.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Opens connections to one server, or to the node of its cluster that has the namespace.
pub(crate) struct Dialer {
    address: Address,
    /// The URL of the server without credentials, for errors.
    url: String,
    /// The node to which the server has redirected the commands of the namespace.
    redirect: Mutex<Option<(String, u16)>>,
    tls: Option<TlsConnector>,
    /// A key of the namespace. Its node of a cluster is the node of all keys of the namespace.
    pub(crate) key: String,
    /// The credentials, the database and the protocol of each connection.
    pub(crate) info: RedisConnectionInfo,
}

impl Dialer {
    /// Returns a dialer for the namespace of `key`.
    ///
    /// # Errors
    /// [Invalid](StoreError::is_invalid) if the options exclude each other, or TLS cannot be set up.
    pub(crate) fn new(options: &RedisOptions, key: String) -> Result<Self, StoreError> {
        let tls = match &options.address {
            _ if !options.tls => None,
            Address::Unix(_) => return Err(StoreError::invalid("a Unix socket of redis has no TLS")),
            Address::Tcp(host, _) => {
                ServerName::try_from(host.as_str()).map_err(|error| {
                    StoreError::invalid(format!("the host {host:?} is not a name for TLS")).with_source(error)
                })?;
                let config = tls(options)
                    .map_err(|error| StoreError::invalid("TLS to redis cannot be set up").with_source(error))?;
                Some(TlsConnector::from(Arc::new(config)))
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
        Ok(Self {
            address: options.address.clone(),
            url: options.to_string(),
            redirect: Mutex::new(None),
            tls,
            key,
            info,
        })
    }

    /// Opens the next connections to another node of the cluster, at the address `host:port` of a redirection. Returns
    /// false if the text is not such an address, or the options name a Unix socket.
    pub(crate) fn redirect(&self, address: &str) -> bool {
        let Address::Tcp(own, _) = &self.address else { return false };
        let Some((host, port)) = address.rsplit_once(':') else { return false };
        let Ok(port) = port.parse() else { return false };
        // An empty host is the host of the server that redirects.
        let host = if host.is_empty() { own } else { host };
        *self.redirect.lock() = Some((host.to_owned(), port));
        true
    }

    /// Forgets a redirection, because its node cannot be used.
    pub(crate) fn reset(&self) {
        *self.redirect.lock() = None;
    }

    /// Returns the URL of the server without credentials.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the error of a server that closed a new connection.
    pub(crate) fn closed(&self) -> StoreError {
        let hint = if self.tls.is_some() { "" } else { "; a port with TLS needs rediss://" };
        StoreError::unavailable(format!("redis at {} closed the connection{hint}", self.url))
    }

    /// Runs an attempt to connect within the time limit.
    pub(crate) async fn in_time<T>(
        &self,
        attempt: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        timeout(CONNECT_TIME, attempt).await.unwrap_or_else(|_| {
            let (url, hint) = (&self.url, if self.tls.is_some() { "; a port without TLS needs redis://" } else { "" });
            let text = format!("redis at {url} did not accept a connection in {CONNECT_TIME:?}{hint}");
            Err(StoreError::unavailable(text))
        })
    }

    /// Opens a connection. The caller bounds the time ([`Dialer::in_time`]).
    pub(crate) async fn open(&self) -> Result<Box<dyn Io>, StoreError> {
        self.open_stream().await.map_err(|error| {
            StoreError::unavailable(format!("redis is not reachable at {}", self.url)).with_source(error)
        })
    }

    async fn open_stream(&self) -> io::Result<Box<dyn Io>> {
        let redirect = self.redirect.lock().clone();
        let (host, port) = match (redirect, &self.address) {
            (Some(node), _) => node,
            (None, Address::Tcp(host, port)) => (host.clone(), *port),
            #[cfg(unix)]
            (None, Address::Unix(path)) => return Ok(Box::new(tokio::net::UnixStream::connect(path).await?)),
            #[cfg(not(unix))]
            (None, Address::Unix(_)) => return Err(io::Error::from(io::ErrorKind::Unsupported)),
        };
        let stream = connect(&host, port).await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            Some(connector) => {
                let name = ServerName::try_from(host).map_err(io::Error::other)?;
                Box::new(connector.connect(name, stream).await?)
            }
            None => Box::new(stream),
        })
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").field("address", &self.address).field("tls", &self.tls.is_some()).finish()
    }
}

/// Connects to the first address of a host that accepts the connection.
async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in lookup_host((host, port)).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_send_buffer_size(SEND_BUFFER)?;
        match socket.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
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
