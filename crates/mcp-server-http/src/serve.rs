//! From a server to the network: our own listener, or a service for another one.

use std::{
    convert::Infallible,
    fmt,
    future::{Future, IntoFuture},
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response, StatusCode};
use mcp_http_listener::RequestBody;
#[cfg(feature = "tls")]
use mcp_http_listener::TlsConfig;
use mcp_protocol::RpcError;
use mcp_server_core::Server;
use mcp_transport::signal;
use tokio::{
    net::{TcpListener, ToSocketAddrs, lookup_host},
    time::MissedTickBehavior,
};

use crate::{
    Body, HttpConfig, McpService,
    answer::{respond, vectored::VectoredBody},
    legacy::sessions::SWEEP,
    request::guard,
};

/// Why a server could not be put on the network.
#[derive(Debug)]
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
        serve(self, listener, config, |serving| serving).await
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
        serve(self, listener, config, |serving| serving.tls(tls)).await
    }

    #[track_caller]
    fn into_router(self, config: HttpConfig) -> axum::Router {
        let service = McpService::new(self, config);
        let config = &service.inner.endpoint.config;
        let router = axum::Router::new().route_service(&config.path, service.clone());
        config.other_paths().fold(router, |router, path| router.route_service(path, service.clone()))
    }

    #[track_caller]
    fn into_service(self, config: HttpConfig) -> McpService {
        McpService::new(self, config)
    }
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

async fn serve(
    server: &Server,
    listener: TcpListener,
    config: HttpConfig,
    with_tls: impl FnOnce(Serving) -> Serving,
) -> Result<(), HttpError> {
    let address = listener.local_addr().map_err(HttpError::Listener)?;
    check_hosts(address, &config)?;
    let signals = config.signals;
    config.on_listening.call(address);
    let service = McpService::new(server.clone(), config);
    // Drops after the listener: calls of sessions outlive their connections, but not the endpoint.
    let _ending = EndSessions(service.clone());
    let serving = with_tls(listening(&service, listener));
    let serving = async {
        tokio::select! {
            () = serving.into_future() => {}
            never = sweep_sessions(&service) => match never {},
        }
    };
    if signals {
        signal::until_terminated(serving, || server.shutdown()).await;
    } else {
        serving.await;
    }
    Ok(())
}

type Serving = mcp_http_listener::Serve<AtConfiguredPaths>;

fn listening(service: &McpService, listener: TcpListener) -> Serving {
    let (server, config) = (&service.inner.endpoint.server, &service.inner.endpoint.config);
    mcp_http_listener::serve(listener, AtConfiguredPaths(service.clone()))
        .max_connections(config.connections)
        .write_timeout(config.write_timeout)
        .shutdown_deadline(config.shutdown_deadline)
        .with_graceful_shutdown(server.shutting_down())
}

/// Ends expired sessions also while the server receives no requests.
async fn sweep_sessions(service: &McpService) -> Infallible {
    let mut sweeping = tokio::time::interval(SWEEP);
    sweeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        sweeping.tick().await;
        service.inner.legacy.sessions.tick();
    }
}

/// Ends the sessions when serving ends.
struct EndSessions(McpService);

impl Drop for EndSessions {
    fn drop(&mut self) {
        self.0.inner.legacy.end();
    }
}

/// The endpoint on our own listener: only the configured paths exist.
#[derive(Clone)]
struct AtConfiguredPaths(McpService);

impl AtConfiguredPaths {
    async fn handle(self, request: Request<RequestBody>) -> Response<VectoredBody> {
        self.answer(request).await.map(VectoredBody)
    }

    async fn answer(&self, request: Request<RequestBody>) -> Response<Body> {
        let endpoint = &self.0.inner.endpoint;
        let (requested, path) = (request.uri().path(), &*endpoint.config.path);
        if requested == path || endpoint.config.other_paths().any(|other| other == requested) {
            return self.0.handle(request).await;
        }
        if let Err(refused) = endpoint.admit(&request) {
            return refused;
        }
        respond::refusal(StatusCode::NOT_FOUND, &RpcError::invalid_request(format!("the endpoint is {path}")))
    }
}

impl tower_service::Service<Request<RequestBody>> for AtConfiguredPaths {
    type Response = Response<VectoredBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<VectoredBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        // Boxed, because this future is large, and an answer that streams would keep its memory.
        let service = self.clone();
        Box::pin(async move { Ok(service.handle(request).await) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::Full;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sessions_expire_without_requests() {
        let service = McpService::new(Server::builder("test", "1").build(), HttpConfig::new());
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
            "protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        let request = Request::post("/mcp").header("host", "localhost").header("content-type", "application/json");
        service.handle(request.body(Full::<bytes::Bytes>::from(initialize)).unwrap()).await;
        assert_eq!(service.inner.legacy.sessions.listed(), 1);
        let swept = tokio::time::timeout(Duration::from_secs(60), sweep_sessions(&service)).await;
        assert!(swept.is_err());
        assert_eq!(service.inner.legacy.sessions.listed(), 0);
    }
}
