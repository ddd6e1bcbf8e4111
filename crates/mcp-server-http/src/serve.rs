//! From a server to the network: a listener of its own, or a service for somebody else's.

use std::{fmt, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use mcp_server_core::Server;
use mcp_transport::signal;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, ToSocketAddrs, lookup_host},
    sync::Semaphore,
    task::JoinSet,
    time::MissedTickBehavior,
};

#[cfg(feature = "tls")]
use crate::TlsConfig;
use crate::{
    HttpConfig, McpService,
    chain::chain,
    connection, guard,
    sessions::SWEEP,
    wire::{TimedWrites, Wire},
};

/// Why a server could not be put on the network.
#[non_exhaustive]
pub enum HttpError {
    /// The address is not loopback, and nobody said under which names the server may be reached there.
    HostsRequired(SocketAddr),
    /// The address names nothing that can be listened on.
    Resolve {
        /// The address, as it was given.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The address cannot be listened on.
    Bind {
        /// Where the server was to listen.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The listener does not know its own address.
    Listener(io::Error),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostsRequired(address) => {
                write!(f, "{address} is not a loopback address: name the hosts that it serves (`allowed_hosts`)")
            }
            Self::Resolve { address, .. } => write!(f, "the address {address} to listen on cannot be resolved"),
            Self::Bind { address, .. } => write!(f, "{address} cannot be listened on"),
            Self::Listener(_) => f.write_str("the listener has no address"),
        }
    }
}

impl fmt::Debug for HttpError {
    /// The message and its causes, since that is what a program prints whose `main` returns the error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        chain(self, f)
    }
}

impl std::error::Error for HttpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Resolve { source, .. } | Self::Bind { source, .. } | Self::Listener(source) => Some(source),
            Self::HostsRequired(_) => None,
        }
    }
}

mod sealed {
    #[expect(unnameable_types, reason = "nobody else implements it")]
    pub trait Sealed {}
    impl Sealed for mcp_server_core::Server {}
}

/// The ways of a [`Server`] onto the network; `Server` alone implements it.
///
/// What begins with `serve_` is a listener of our own: only the configured paths exist, TCP_NODELAY is set, connections
/// are bounded. It serves until [`Server::shutdown`] is called or the process is asked to end (SIGTERM, SIGINT, Ctrl-C;
/// see [`HttpConfig::signals`]). Then it accepts nothing new, cuts off requests of which only a part has come, and gives
/// open requests the shutdown deadline to end; a second signal ends it at once. Dropping the future ends everything.
///
/// What begins with `into_` is served by somebody else, who calls [`Server::shutdown`] when the application is to end, so
/// that the streams that would never end by themselves do.
///
/// Who calls is for a layer around those: the [`Principal`](mcp_protocol::Principal), or an `Arc` of it, that it puts among
/// the extensions of the HTTP request is the caller. Scopes are checked against it; its sessions, their streams, its tasks
/// and what it was asked are its own, and to any other caller they do not exist. A request without one is nobody's.
pub trait HttpServer: sealed::Sealed {
    /// Serves `http://addr/mcp` with the default configuration.
    ///
    /// # Errors
    /// When the address cannot be listened on, or is not a loopback address.
    fn serve_http(
        &self,
        addr: impl ToSocketAddrs + fmt::Debug + Send,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Serves an address.
    ///
    /// # Errors
    /// When the address cannot be listened on, or is not a loopback address and no hosts are allowed.
    fn serve_http_with(
        &self,
        addr: impl ToSocketAddrs + fmt::Debug + Send,
        config: HttpConfig,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Serves a listener that is there already.
    ///
    /// # Errors
    /// When the listener's address is not a loopback address and no hosts are allowed.
    fn serve_http_on(
        &self,
        listener: TcpListener,
        config: HttpConfig,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Serves `https://addr/mcp` with the default configuration. HTTP/2 and HTTP/1.1 share the port, and the client
    /// chooses. A handshake has ten seconds, and counts as a connection.
    ///
    /// # Errors
    /// As [`HttpServer::serve_http`].
    #[cfg(feature = "tls")]
    fn serve_https(
        &self,
        addr: impl ToSocketAddrs + fmt::Debug + Send,
        tls: TlsConfig,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Serves an address over TLS.
    ///
    /// # Errors
    /// As [`HttpServer::serve_http_with`].
    #[cfg(feature = "tls")]
    fn serve_https_with(
        &self,
        addr: impl ToSocketAddrs + fmt::Debug + Send,
        tls: TlsConfig,
        config: HttpConfig,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Serves a listener that is there already over TLS.
    ///
    /// # Errors
    /// As [`HttpServer::serve_http_on`].
    #[cfg(feature = "tls")]
    fn serve_https_on(
        &self,
        listener: TcpListener,
        tls: TlsConfig,
        config: HttpConfig,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// An axum router with the endpoint at the configured path, and what else was configured, to merge into an application. Whoever serves it should set
    /// TCP_NODELAY, without which small answers wait for acknowledgements, bound the time that the head of a request
    /// takes, and call [`Server::shutdown`] at the end.
    ///
    /// # Panics
    /// When two settings claim one path.
    #[track_caller]
    fn into_router(self, config: HttpConfig) -> axum::Router;

    /// The endpoint as a tower service, for any other stack; it answers on every path (see
    /// [`McpService::handle`]). What holds for whoever serves
    /// [`HttpServer::into_router`] holds here too.
    ///
    /// # Panics
    /// When two settings claim one path.
    #[track_caller]
    fn into_service(self, config: HttpConfig) -> McpService;
}

impl HttpServer for Server {
    async fn serve_http(&self, addr: impl ToSocketAddrs + fmt::Debug + Send) -> Result<(), HttpError> {
        self.serve_http_with(addr, HttpConfig::new()).await
    }

    async fn serve_http_with(
        &self,
        addr: impl ToSocketAddrs + fmt::Debug + Send,
        config: HttpConfig,
    ) -> Result<(), HttpError> {
        let listener = listen(addr).await?;
        self.serve_http_on(listener, config).await
    }

    async fn serve_http_on(&self, listener: TcpListener, config: HttpConfig) -> Result<(), HttpError> {
        serve(self, listener, config, Cleartext).await
    }

    #[cfg(feature = "tls")]
    async fn serve_https(&self, addr: impl ToSocketAddrs + fmt::Debug + Send, tls: TlsConfig) -> Result<(), HttpError> {
        self.serve_https_with(addr, tls, HttpConfig::new()).await
    }

    #[cfg(feature = "tls")]
    async fn serve_https_with(
        &self,
        addr: impl ToSocketAddrs + fmt::Debug + Send,
        tls: TlsConfig,
        config: HttpConfig,
    ) -> Result<(), HttpError> {
        let listener = listen(addr).await?;
        self.serve_https_on(listener, tls, config).await
    }

    #[cfg(feature = "tls")]
    async fn serve_https_on(&self, listener: TcpListener, tls: TlsConfig, config: HttpConfig) -> Result<(), HttpError> {
        tokio::select! {
            served = serve(self, listener, config, tls.clone()) => served,
            never = tls.watch() => match never {},
        }
    }

    #[track_caller]
    fn into_router(self, config: HttpConfig) -> axum::Router {
        let service = McpService::new(self, config);
        let config = &service.inner.config;
        let router = axum::Router::new().route_service(&config.path, service.clone());
        config.other_paths().fold(router, |router, path| router.route_service(path, service.clone()))
    }

    #[track_caller]
    fn into_service(self, config: HttpConfig) -> McpService {
        McpService::new(self, config)
    }
}

async fn next_stream(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    // Small answers must not wait for the acknowledgement of earlier ones.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Listens on the first of the addresses that can be listened on.
async fn listen(addr: impl ToSocketAddrs + fmt::Debug + Send) -> Result<TcpListener, HttpError> {
    let given = format!("{addr:?}");
    let addresses = match lookup_host(addr).await {
        Ok(addresses) => addresses,
        Err(source) => return Err(HttpError::Resolve { address: given, source }),
    };
    let nothing = io::Error::new(io::ErrorKind::InvalidInput, "it stands for no address at all");
    let mut failed = HttpError::Resolve { address: given, source: nothing };
    for address in addresses {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(source) => failed = HttpError::Bind { address, source },
        }
    }
    Err(failed)
}

/// Beyond the loopback address somebody has to say under which names the server may be reached.
fn check_hosts(address: SocketAddr, config: &HttpConfig) -> Result<(), HttpError> {
    let is_open = config.any_host || !config.allowed_hosts.is_empty();
    if guard::is_loopback_address(address.ip()) || is_open { Ok(()) } else { Err(HttpError::HostsRequired(address)) }
}

async fn serve<S: Security>(
    server: &Server,
    listener: TcpListener,
    config: HttpConfig,
    security: S,
) -> Result<(), HttpError> {
    let address = listener.local_addr().map_err(HttpError::Listener)?;
    check_hosts(address, &config)?;
    let signals = config.signals;
    config.on_listening.call(address);
    let serving = accept(McpService::new(server.clone(), config), listener, security);
    if signals {
        signal::until_terminated(serving, || server.shutdown()).await;
    } else {
        serving.await;
    }
    Ok(())
}

/// What bytes come and go by.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Duplex for S {}

/// What lies between the connection and HTTP.
pub(crate) trait Security: Clone + Send + 'static {
    /// The stream that HTTP is spoken on.
    type Stream<S: Duplex>: Duplex;

    /// Agrees with the client on it, within a time; `None` when that failed.
    fn secure<S: Duplex>(&self, stream: S) -> impl Future<Output = Option<Self::Stream<S>>> + Send;
}

/// Nothing.
#[derive(Clone)]
struct Cleartext;

impl Security for Cleartext {
    type Stream<S: Duplex> = S;

    async fn secure<S: Duplex>(&self, stream: S) -> Option<S> {
        Some(stream)
    }
}

async fn accept<S: Security>(service: McpService, listener: TcpListener, security: S) {
    let (server, config) = (&service.inner.server, &service.inner.config);
    let places = Arc::new(Semaphore::new(config.connections.min(Semaphore::MAX_PERMITS)));
    let deadline = config.shutdown_deadline;
    let _ending = EndSessions(service.clone());
    let mut shutdown = server.shutting_down();
    let mut connections = JoinSet::new();
    let mut sweeping = tokio::time::interval(SWEEP);
    sweeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while connections.try_join_next().is_some() {}
        let next = async {
            // The semaphore is never closed.
            let place = places.clone().acquire_owned().await.ok();
            (place, next_stream(&listener).await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            // Also when nobody comes.
            _ = sweeping.tick() => {
                service.inner.sessions.tick();
                continue;
            }
            () = &mut shutdown => break,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                // Out of files, most likely: others have to close before the next try makes sense.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (service, security) = (service.clone(), security.clone());
        connections.spawn(async move {
            // Made in here: a future that is moved in has its room twice.
            converse(service, stream, security).await;
            drop(place);
        });
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(deadline, drained).await.is_err() {
        tracing::warn!("requests that did not end by the shutdown deadline were cut off");
    }
}

/// Serves one connection.
async fn converse<S: Security>(service: McpService, stream: impl Duplex, security: S) {
    let stream = TimedWrites::new(stream, service.inner.config.write_timeout);
    let secured = tokio::select! {
        secured = security.secure(stream, ) => secured,
        () = service.inner.server.shutting_down() => None,
    };
    if let Some(stream) = secured {
        connection::serve(Wire::new(stream), service).await;
    }
}

/// Ends the sessions when serving ends, however it ends: their calls outlive their connections, but not the server.
struct EndSessions(McpService);

impl Drop for EndSessions {
    fn drop(&mut self) {
        self.0.inner.end();
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tokio::{io::AsyncWriteExt as _, time::Instant};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sessions_expire_while_nobody_comes() {
        let service = McpService::new(Server::builder("test", "1").build(), HttpConfig::new());
        let listener = listen("127.0.0.1:0").await.unwrap();
        let serving = tokio::spawn(accept(service.clone(), listener, Cleartext));
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
            "protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        let request =
            http::Request::post("/mcp").header("host", "localhost").header("content-type", "application/json");
        service.handle(request.body(Full::<bytes::Bytes>::from(initialize)).unwrap()).await;
        assert_eq!(service.inner.sessions.listed(), 1);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(service.inner.sessions.listed(), 0);
        serving.abort();
    }

    /// Waits for the end of a connection whose client asked for much and reads nothing.
    async fn leave_unread(client: impl Duplex, serving: impl Future<Output = ()>) -> Duration {
        let (mut client, start) = (client, Instant::now());
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"large","_meta":{
            "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
        let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
            accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
            mcp-method: tools/call\r\nmcp-name: large\r\n";
        let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        let asking = async {
            client.write_all(request.as_bytes()).await.unwrap();
            client.flush().await.unwrap();
        };
        let day = Duration::from_secs(24 * 3600);
        let ended = tokio::time::timeout(day, async { tokio::join!(asking, serving) }).await;
        assert!(ended.is_ok(), "the connection is still there");
        let took = start.elapsed();
        // It was there all the time.
        drop(client);
        took
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_reading_is_cut_off_whatever_lies_between() {
        let large = async || "x".repeat(40 << 10);
        let server = Server::builder("test", "1").tool(mcp_server_core::tool("large", large)).build();
        let service = McpService::new(server, HttpConfig::new().write_timeout(Duration::from_secs(20)));
        let (client, far) = tokio::io::duplex(4 << 10);
        let took = leave_unread(client, converse(service.clone(), far, Cleartext)).await;
        assert_eq!(took.as_secs(), 20);
        #[cfg(feature = "tls")]
        {
            let (client, far) = tokio::io::duplex(4 << 10);
            let serving = tokio::spawn(converse(service, far, crate::tls::tests::config()));
            let client = crate::tls::tests::connect(client).await;
            let took = leave_unread(client, async { serving.await.unwrap() }).await;
            assert_eq!(took.as_secs(), 20);
        }
    }

    #[tokio::test]
    async fn small_answers_are_not_held_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connected, accepted) = tokio::join!(TcpStream::connect(address), next_stream(&listener));
        assert!(connected.is_ok() && accepted.unwrap().nodelay().unwrap());
    }
}
