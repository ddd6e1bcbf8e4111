//! From a server to the network: a listener of its own, or a service for somebody else's.

use std::{fmt, future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use mcp_server_core::Server;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, ToSocketAddrs},
    sync::Semaphore,
    task::JoinSet,
};

#[cfg(feature = "tls")]
use crate::TlsConfig;
use crate::{HttpConfig, McpService, connection, guard, stall::Stalling};

/// Why a server could not be put on the network.
#[derive(Debug)]
#[non_exhaustive]
pub enum HttpError {
    /// The address is not loopback, and nobody said under which names the server may be reached there.
    HostsRequired(SocketAddr),
    /// The address cannot be listened on.
    Io(io::Error),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostsRequired(address) => {
                write!(f, "{address} is not a loopback address: name the hosts that it serves (`allowed_hosts`)")
            }
            Self::Io(_) => f.write_str("the address cannot be listened on"),
        }
    }
}

impl std::error::Error for HttpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::HostsRequired(_) => None,
        }
    }
}

impl From<io::Error> for HttpError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The ways of a [`Server`] onto the network.
pub trait HttpServer {
    /// Serves `http://addr/mcp` with the default configuration, until [`Server::shutdown`] is called or the process is
    /// asked to end (SIGTERM, SIGINT).
    ///
    /// # Errors
    /// When the address cannot be listened on, or is not a loopback address.
    fn serve_http(&self, addr: impl ToSocketAddrs + Send) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Serves a listener until [`Server::shutdown`] is called. Open requests may then take the shutdown deadline to end.
    /// Only the configured path exists. Dropping the future ends everything.
    ///
    /// # Errors
    /// When the listener's address is not a loopback address and no hosts are allowed.
    fn serve_http_with(
        &self,
        listener: TcpListener,
        config: HttpConfig,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Serves `https://addr/mcp` with the default configuration, as [`HttpServer::serve_http`] does `http`. HTTP/2 and
    /// HTTP/1.1 share the port, and the client chooses.
    ///
    /// # Errors
    /// As [`HttpServer::serve_http`].
    #[cfg(feature = "tls")]
    fn serve_https(
        &self,
        addr: impl ToSocketAddrs + Send,
        tls: TlsConfig,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Serves a listener over TLS, as [`HttpServer::serve_http_with`] does without. A handshake has ten seconds, and
    /// counts as a connection.
    ///
    /// # Errors
    /// As [`HttpServer::serve_http_with`].
    #[cfg(feature = "tls")]
    fn serve_https_with(
        &self,
        listener: TcpListener,
        tls: TlsConfig,
        config: HttpConfig,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// An axum router with the endpoint at the configured path, to merge into an application. Whoever serves it should set
    /// TCP_NODELAY, as [`HttpServer::serve_http_with`] does: without it small answers wait for acknowledgements.
    fn into_router(self, config: HttpConfig) -> axum::Router;

    /// The endpoint as a tower service, for any other stack; it answers on every path.
    fn into_service(self, config: HttpConfig) -> McpService;
}

impl HttpServer for Server {
    async fn serve_http(&self, addr: impl ToSocketAddrs + Send) -> Result<(), HttpError> {
        let listener = TcpListener::bind(addr).await?;
        until_terminated(self, self.serve_http_with(listener, HttpConfig::new())).await
    }

    async fn serve_http_with(&self, listener: TcpListener, config: HttpConfig) -> Result<(), HttpError> {
        check_hosts(&listener, &config)?;
        accept(self, listener, config, Cleartext).await;
        Ok(())
    }

    #[cfg(feature = "tls")]
    async fn serve_https(&self, addr: impl ToSocketAddrs + Send, tls: TlsConfig) -> Result<(), HttpError> {
        let listener = TcpListener::bind(addr).await?;
        until_terminated(self, self.serve_https_with(listener, tls, HttpConfig::new())).await
    }

    #[cfg(feature = "tls")]
    async fn serve_https_with(
        &self,
        listener: TcpListener,
        tls: TlsConfig,
        config: HttpConfig,
    ) -> Result<(), HttpError> {
        check_hosts(&listener, &config)?;
        tokio::select! {
            () = accept(self, listener, config, tls.clone()) => {}
            () = tls.watch() => {}
        }
        Ok(())
    }

    fn into_router(self, config: HttpConfig) -> axum::Router {
        let path = config.path.clone();
        let service = McpService::new(self, config);
        axum::Router::new().route_service(&path, service)
    }

    fn into_service(self, config: HttpConfig) -> McpService {
        McpService::new(self, config)
    }
}

/// Serves until the process is asked to end, and then until that is done in good order.
async fn until_terminated(
    server: &Server,
    serving: impl Future<Output = Result<(), HttpError>>,
) -> Result<(), HttpError> {
    let mut serving = pin!(serving);
    tokio::select! {
        served = &mut serving => return served,
        () = mcp_transport::stdio::terminated() => server.shutdown(),
    }
    serving.await
}

/// Beyond the loopback address somebody has to say under which names the server may be reached.
fn check_hosts(listener: &TcpListener, config: &HttpConfig) -> Result<(), HttpError> {
    let address = listener.local_addr()?;
    let is_open = config.any_host || !config.allowed_hosts.is_empty();
    if guard::is_loopback_address(address.ip()) || is_open { Ok(()) } else { Err(HttpError::HostsRequired(address)) }
}

/// What lies between the connection and HTTP.
pub(crate) trait Security: Clone + Send + 'static {
    /// The stream that HTTP is spoken on.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send;

    /// Agrees with the client on it, within a time; `None` when that failed.
    fn secure(&self, stream: Stalling<TcpStream>) -> impl Future<Output = Option<Self::Stream>> + Send;
}

/// Nothing.
#[derive(Clone)]
struct Cleartext;

impl Security for Cleartext {
    type Stream = Stalling<TcpStream>;

    async fn secure(&self, stream: Stalling<TcpStream>) -> Option<Self::Stream> {
        Some(stream)
    }
}

async fn accept<S: Security>(server: &Server, listener: TcpListener, config: HttpConfig, security: S) {
    let places = Arc::new(Semaphore::new(config.connections.min(Semaphore::MAX_PERMITS)));
    let deadline = config.shutdown_deadline;
    let write_timeout = config.write_timeout;
    let path: Arc<str> = config.path.as_str().into();
    let service = McpService::new(server.clone(), config);
    let _ending = EndSessions(service.clone());
    let shutdown = server.shutdown_token();
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let next = async {
            // The semaphore is never closed.
            let place = places.clone().acquire_owned().await.ok();
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = shutdown.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                // Out of files, most likely: others have to close before the next try makes sense.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Small answers must not wait for the acknowledgement of earlier ones.
        let _ = stream.set_nodelay(true);
        let stream = Stalling::new(stream, write_timeout);
        let (security, service, path, shutdown) = (security.clone(), service.clone(), path.clone(), shutdown.clone());
        connections.spawn(async move {
            let secured = tokio::select! {
                secured = security.secure(stream) => secured,
                () = shutdown.cancelled() => None,
            };
            if let Some(stream) = secured {
                connection::serve(stream, service, path, shutdown).await;
            }
            drop(place);
        });
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(deadline, drained).await.is_err() {
        tracing::warn!("requests that did not end by the shutdown deadline were cut off");
    }
}

/// Ends the sessions when serving ends, however it ends: their calls outlive their connections, but not the server.
struct EndSessions(McpService);

impl Drop for EndSessions {
    fn drop(&mut self) {
        self.0.inner.sessions.clear();
    }
}
