//! Serving over HTTP: on our own listener, as an axum router, or as a tower service.

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
    answer::{cors, respond, vectored::VectoredBody},
    endpoint::FLUSH,
    legacy::sessions::SWEEP,
    request::guard,
};

/// The error of a server that cannot serve an address.
///
/// `Debug` writes the error with its sources on one line, because a program whose `main` returns the error prints this
/// form.
///
/// ```
/// use mcp_server_core::Server;
/// use mcp_server_http::{HttpError, HttpServer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let server = Server::builder("example", "1.0.0").build();
/// // The default configuration allows loopback hosts only.
/// assert!(matches!(server.serve_http("0.0.0.0:0").await, Err(HttpError::HostsRequired(_))));
/// # }
/// ```
#[non_exhaustive]
pub enum HttpError {
    /// The address is not a loopback address, and the configuration names no hosts
    /// ([`HttpConfig::allowed_hosts`]).
    HostsRequired(SocketAddr),
    /// The address cannot be resolved.
    Resolve {
        /// The address as the caller wrote it.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The server cannot listen on the address.
    Bind {
        /// The resolved address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The listener does not report its own address.
    Listener(io::Error),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostsRequired(address) => {
                write!(f, "{address} is not a loopback address: name the hosts that it serves (`allowed_hosts`)")
            }
            Self::Resolve { address, .. } => write!(f, "the address {address} to listen on cannot be resolved"),
            Self::Bind { address, .. } => write!(f, "the server cannot listen on {address}"),
            Self::Listener(_) => f.write_str("the listener has no address"),
        }
    }
}

impl fmt::Debug for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
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

/// Serves a server on a listener. Await the returned [`Serve`] to start.
///
/// The server runs until [`Server::shutdown`] is called or the process receives SIGTERM, SIGINT or Ctrl-C
/// ([`HttpConfig::ignore_signals`]). See [`HttpServer`] for the shutdown and for callers with a principal.
///
/// ```
/// use mcp_server_core::Server;
/// use mcp_server_http::{HttpConfig, HttpError};
/// use tokio::net::TcpListener;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder("example", "1.0.0").build();
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let serving = mcp_server_http::serve(listener, server.clone()).config(HttpConfig::new().path("/tools"));
/// # server.shutdown();
/// serving.await?;
/// # Ok(())
/// # }
/// ```
pub fn serve(listener: TcpListener, server: Server) -> Serve {
    Serve {
        listener,
        server,
        config: HttpConfig::new(),
        #[cfg(feature = "tls")]
        tls: None,
    }
}

/// A server on a listener that is configured and not started. Returned by [`serve`].
#[derive(Debug)]
#[must_use = "a server does nothing until it is awaited"]
pub struct Serve {
    listener: TcpListener,
    server: Server,
    config: HttpConfig,
    #[cfg(feature = "tls")]
    tls: Option<TlsConfig>,
}

impl Serve {
    /// Sets the configuration of the endpoint and of the listener. [`serve`] has an example.
    pub fn config(mut self, config: HttpConfig) -> Self {
        self.config = config;
        self
    }

    /// Serves HTTPS. HTTP/2 and HTTP/1.1 share the port, and the client chooses by ALPN.
    ///
    /// ```no_run
    /// # async fn example(listener: tokio::net::TcpListener, server: mcp_server_core::Server) -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = mcp_server_http::TlsConfig::from_files("cert.pem", "key.pem")?;
    /// mcp_server_http::serve(listener, server).tls(tls).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A client has ten seconds for the handshake. A connection counts against
    /// [`max_connections`](HttpConfig::max_connections) from its start.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    async fn run(self) -> Result<(), HttpError> {
        let Self { listener, server, config, .. } = self;
        let address = listener.local_addr().map_err(HttpError::Listener)?;
        check_hosts(address, &config)?;
        let has_signals = config.has_signals;
        config.on_listening.call(address);
        let service = McpService::new(server.clone(), config);
        // Dropped after the listener: calls of sessions may outlive their connections, but not the endpoint.
        let _end_sessions = EndSessions(service.clone());
        let serving = on_listener(&service, listener);
        #[cfg(feature = "tls")]
        let serving = match self.tls {
            Some(tls) => serving.tls(tls),
            None => serving,
        };
        let serving = async {
            tokio::select! {
                () = serving.into_future() => {}
                never = sweep_sessions(&service) => match never {},
            }
        };
        if has_signals {
            signal::until_terminated(serving, || server.shutdown()).await;
        } else {
            serving.await;
        }
        Ok(())
    }
}

impl IntoFuture for Serve {
    type Output = Result<(), HttpError>;
    type IntoFuture = Serving;

    fn into_future(self) -> Serving {
        Serving(Box::pin(self.run()))
    }
}

/// The future of a running server. Created by awaiting [`Serve`].
///
/// Dropping it closes the listener, all connections and all sessions.
///
/// # Errors
/// [`HttpError::HostsRequired`] if the listener has no loopback address and the configuration names no hosts.
#[must_use = "futures do nothing until they are polled"]
pub struct Serving(Pin<Box<dyn Future<Output = Result<(), HttpError>> + Send>>);

impl Future for Serving {
    type Output = Result<(), HttpError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").finish_non_exhaustive()
    }
}

mod sealed {
    #[expect(unnameable_types, reason = "other crates must not implement it")]
    pub trait Sealed {}
    impl Sealed for mcp_server_core::Server {}
}

/// Methods of [`Server`] that serve it over HTTP. Only `Server` implements this trait.
///
/// # Our listener
///
/// The methods `serve_http…` and `serve_https…` are short forms of [`serve`]. The listener serves only the configured
/// paths, limits the number of connections and sets TCP_NODELAY.
///
/// A shutdown begins when the application calls [`Server::shutdown`] or the process receives SIGTERM, SIGINT or Ctrl-C.
/// The listener then closes and rejects partial requests. Open requests may end within
/// [`shutdown_deadline`](HttpConfig::shutdown_deadline). After it the server answers each call that still runs with an
/// error. A second signal ends everything at once, and so does dropping the future.
///
/// # Other listeners
///
/// The methods `into_router` and `into_service` return parts for another HTTP server. The application has to call
/// [`Server::shutdown`] when it ends, because some streams end only then. The listener of this crate also serves the whole
/// application: see [`listener::serve`](crate::listener::serve).
///
/// # Callers
///
/// A layer around the endpoint can authenticate callers. It inserts a [`Principal`](mcp_protocol::Principal), or an `Arc`
/// of one, into the extensions of the HTTP request. The server checks scopes against this principal. Sessions, their
/// streams, tasks and input requests belong to their principal and do not exist for other callers. A request without a
/// principal is anonymous.
///
/// Add such a layer with `Router::route_layer`. With `Router::layer`, it would also answer unknown paths of the application
/// after `Router::merge`.
pub trait HttpServer: sealed::Sealed {
    /// Serves `http://addr/mcp` with the default configuration.
    ///
    /// ```no_run
    /// use mcp_server_core::Server;
    /// use mcp_server_http::{HttpError, HttpServer};
    ///
    /// # async fn example() -> Result<(), HttpError> {
    /// let server = Server::builder("example", "1.0.0").build();
    /// server.serve_http("127.0.0.1:8080").await
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the server cannot listen on the address, or if the address is not a loopback address.
    fn serve_http(
        &self,
        addr: impl ToSocketAddrs + fmt::Debug + Send,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Serves an address with a configuration.
    ///
    /// ```no_run
    /// use mcp_server_core::Server;
    /// use mcp_server_http::{HttpConfig, HttpError, HttpServer};
    ///
    /// # async fn example(server: Server) -> Result<(), HttpError> {
    /// let config = HttpConfig::new().allowed_hosts(["mcp.example.com"]);
    /// server.serve_http_with("0.0.0.0:8080", config).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the server cannot listen on the address, or if the address is not a loopback address and the configuration names
    /// no hosts.
    fn serve_http_with(
        &self,
        addr: impl ToSocketAddrs + fmt::Debug + Send,
        config: HttpConfig,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Serves a listener with a configuration.
    ///
    /// ```no_run
    /// use mcp_server_core::Server;
    /// use mcp_server_http::{HttpConfig, HttpServer};
    ///
    /// # async fn example(server: Server) -> Result<(), Box<dyn std::error::Error>> {
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    /// server.serve_http_on(listener, HttpConfig::new()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the listener has no loopback address and the configuration names no hosts.
    fn serve_http_on(
        &self,
        listener: TcpListener,
        config: HttpConfig,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Serves `https://addr/mcp` with the default configuration (see [`Serve::tls`]).
    ///
    /// ```no_run
    /// use mcp_server_core::Server;
    /// use mcp_server_http::{HttpServer, TlsConfig};
    ///
    /// # async fn example(server: Server) -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = TlsConfig::from_files("cert.pem", "key.pem")?;
    /// server.serve_https("127.0.0.1:8443", tls).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`HttpServer::serve_http`].
    #[cfg(feature = "tls")]
    fn serve_https(
        &self,
        addr: impl ToSocketAddrs + fmt::Debug + Send,
        tls: TlsConfig,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Serves an address over TLS with a configuration (see [`Serve::tls`]).
    ///
    /// ```no_run
    /// use mcp_server_core::Server;
    /// use mcp_server_http::{HttpConfig, HttpServer, TlsConfig};
    ///
    /// # async fn example(server: Server) -> Result<(), Box<dyn std::error::Error>> {
    /// let tls = TlsConfig::from_files("cert.pem", "key.pem")?;
    /// let config = HttpConfig::new().allowed_hosts(["mcp.example.com"]);
    /// server.serve_https_with("0.0.0.0:443", tls, config).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`HttpServer::serve_http_with`].
    #[cfg(feature = "tls")]
    fn serve_https_with(
        &self,
        addr: impl ToSocketAddrs + fmt::Debug + Send,
        tls: TlsConfig,
        config: HttpConfig,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Serves a listener over TLS with a configuration (see [`Serve::tls`]).
    ///
    /// ```no_run
    /// use mcp_server_core::Server;
    /// use mcp_server_http::{HttpConfig, HttpServer, TlsConfig};
    ///
    /// # async fn example(server: Server, tls: TlsConfig) -> Result<(), Box<dyn std::error::Error>> {
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    /// server.serve_https_on(listener, tls, HttpConfig::new()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`HttpServer::serve_http_on`].
    #[cfg(feature = "tls")]
    fn serve_https_on(
        &self,
        listener: TcpListener,
        tls: TlsConfig,
        config: HttpConfig,
    ) -> impl Future<Output = Result<(), HttpError>> + Send;

    /// Returns an axum router with the endpoint at the configured paths, to merge into an application.
    ///
    /// Serve the application with [`listener::serve`](crate::listener::serve) for the limits of our listener. Another
    /// server should set TCP_NODELAY, and a time limit for the head of a request. Call [`Server::shutdown`] at the end.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use mcp_server_core::Server;
    /// use mcp_server_http::{HttpConfig, HttpServer, listener};
    ///
    /// # async fn example() -> std::io::Result<()> {
    /// let server = Server::builder("example", "1.0.0").build();
    /// let app = Router::new()
    ///     .route("/", get(async || "Hello!"))
    ///     .merge(server.clone().into_router(HttpConfig::new()));
    /// let tcp = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    /// listener::serve(tcp, app).with_graceful_shutdown(server.shutting_down()).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If two settings of the configuration use one path.
    #[track_caller]
    fn into_router(self, config: HttpConfig) -> axum::Router;

    /// Returns the endpoint as a tower service for any other HTTP server.
    ///
    /// The service answers on every path (see [`McpService::handle`]). The advice of [`HttpServer::into_router`] holds here
    /// too.
    ///
    /// ```
    /// use mcp_server_core::Server;
    /// use mcp_server_http::{HttpConfig, HttpServer};
    ///
    /// let service = Server::builder("example", "1.0.0").build().into_service(HttpConfig::new());
    /// assert_eq!(service.open_sessions(), 0);
    /// ```
    ///
    /// # Panics
    /// If two settings of the configuration use one path.
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
        self.serve_http_on(bind(addr).await?, config).await
    }

    async fn serve_http_on(&self, listener: TcpListener, config: HttpConfig) -> Result<(), HttpError> {
        serve(listener, self.clone()).config(config).await
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
        self.serve_https_on(bind(addr).await?, tls, config).await
    }

    #[cfg(feature = "tls")]
    async fn serve_https_on(&self, listener: TcpListener, tls: TlsConfig, config: HttpConfig) -> Result<(), HttpError> {
        serve(listener, self.clone()).config(config).tls(tls).await
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

/// Listens on the first of the resolved addresses that works.
async fn bind(addr: impl ToSocketAddrs + fmt::Debug + Send) -> Result<TcpListener, HttpError> {
    let text = format!("{addr:?}");
    let addresses = match lookup_host(addr).await {
        Ok(addresses) => addresses,
        Err(source) => return Err(HttpError::Resolve { address: text, source }),
    };
    let nothing = io::Error::new(io::ErrorKind::InvalidInput, "the name resolves to no address");
    let mut failed = HttpError::Resolve { address: text, source: nothing };
    for address in addresses {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(source) => failed = HttpError::Bind { address, source },
        }
    }
    Err(failed)
}

/// Rejects an address beyond loopback unless the configuration names the hosts of the server.
fn check_hosts(address: SocketAddr, config: &HttpConfig) -> Result<(), HttpError> {
    let is_open = config.any_host || !config.allowed_hosts.is_empty();
    if guard::is_loopback_address(address.ip()) || is_open { Ok(()) } else { Err(HttpError::HostsRequired(address)) }
}

fn on_listener(service: &McpService, listener: TcpListener) -> mcp_http_listener::Serve<ConfiguredPaths> {
    let (server, config) = (&service.inner.endpoint.server, &service.inner.endpoint.config);
    mcp_http_listener::serve(listener, ConfiguredPaths(service.clone()))
        .max_connections(config.connections)
        .write_timeout(config.write_timeout)
        .shutdown_deadline(config.shutdown_deadline.saturating_add(FLUSH))
        .with_graceful_shutdown(server.shutting_down())
}

/// Ends expired sessions while the server receives no requests.
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

/// The endpoint on our listener, where only the configured paths exist.
#[derive(Clone)]
struct ConfiguredPaths(McpService);

impl ConfiguredPaths {
    async fn answer(&self, request: Request<RequestBody>) -> Response<Body> {
        let endpoint = &self.0.inner.endpoint;
        let (requested, path) = (request.uri().path(), &*endpoint.config.path);
        if requested == path || endpoint.config.other_paths().any(|other| other == requested) {
            return self.0.handle(request).await;
        }
        if let Err(refused) = endpoint.admit(&request) {
            return refused;
        }
        let error = RpcError::invalid_request(format!("the endpoint is {path}"));
        let mut refused = respond::refusal(StatusCode::NOT_FOUND, &error);
        cors::share(&mut refused, guard::origin_of(request.headers()).cloned());
        refused
    }
}

impl tower_service::Service<Request<RequestBody>> for ConfiguredPaths {
    type Response = Response<VectoredBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<VectoredBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        // Boxed, because this future is large, and an answer that streams would keep its memory.
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await.map(VectoredBody)) })
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
