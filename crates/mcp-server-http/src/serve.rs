//! Serving over HTTP: on our own listener, as an axum router, or as a tower service.

mod error;
mod listening;
mod paths;

use std::{fmt, future::Future, io, sync::Arc};

use axum::{extract::Request, routing::any};
use mcp_auth::ConfigError;
#[cfg(feature = "tls")]
use mcp_http_listener::TlsConfig;
use mcp_server_core::Server;
use tokio::net::{TcpListener, ToSocketAddrs, lookup_host};

use crate::{HttpConfig, McpService, endpoint::MetadataEndpoint};

pub use self::{
    error::HttpError,
    listening::{Serve, Serving, serve},
};

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
/// error. The listener also waits for running tasks and for calls of sessions without a connection until this deadline. Then it
/// waits until the store has their ends, for two seconds at most. A second signal ends everything at once, and so does dropping the future.
///
/// # Other listeners
///
/// The methods `into_router` and `into_service` return parts for another HTTP server. The application has to call
/// [`Server::shutdown`] when it ends, because some streams end only then. It then waits for [`Server::ended`], so that
/// running tasks end in an orderly way. The listener of this crate also serves the whole
/// application: see [`listener::serve`](crate::listener::serve).
///
/// # Callers
///
/// [`HttpConfig::authenticate`] authenticates callers. Instead, a layer around the endpoint can do it. It inserts a [`Principal`](mcp_protocol::Principal), or an `Arc`
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
    /// server should set TCP_NODELAY, and a time limit for the head of a request. Call [`Server::shutdown`] at the end, and
    /// then await [`Server::ended`].
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
    /// If the configuration is invalid ([`HttpConfig::check`]), or there is an authenticator without a public URL. If the settings
    /// are read at run time, call [`try_into_router`](Self::try_into_router).
    #[track_caller]
    fn into_router(self, config: HttpConfig) -> axum::Router;

    /// Returns the router of the endpoint, or the error of an invalid configuration. [`into_router`](Self::into_router) describes it.
    ///
    /// ```
    /// use mcp_auth::Jwt;
    /// use mcp_server_core::Server;
    /// use mcp_server_http::{HttpConfig, HttpServer};
    ///
    /// let server = Server::builder("example", "1.0.0").build();
    /// let config = HttpConfig::new().authenticate(Jwt::issuer("https://as.example"));
    /// let error = server.try_into_router(config).unwrap_err();
    /// assert!(error.to_string().starts_with("`authenticate` needs `public_url`"));
    /// ```
    ///
    /// # Errors
    /// If the configuration is invalid ([`HttpConfig::check`]), or there is an authenticator without a public URL.
    fn try_into_router(self, config: HttpConfig) -> Result<axum::Router, ConfigError>;

    /// Returns a router with the metadata document of RFC 9728 alone, for an application that nests the endpoint.
    ///
    /// The document belongs at the root of the host, and `Router::nest` moves all paths of a router. The router of
    /// [`into_router`](Self::into_router) already has the document for an application that does not nest.
    ///
    /// ```
    /// use mcp_auth::Jwt;
    /// use mcp_server_core::Server;
    /// use mcp_server_http::{HttpConfig, HttpServer};
    ///
    /// let server = Server::builder("example", "1.0.0").build();
    /// let config = HttpConfig::new()
    ///     .public_url("https://example.com/team/mcp")
    ///     .authenticate(Jwt::issuer("https://as.example"));
    /// let app = axum::Router::new()
    ///     .merge(server.metadata_router(&config))
    ///     .nest("/team", server.into_router(config));
    /// # let _: axum::Router = app;
    /// ```
    ///
    /// # Panics
    /// If the configuration is invalid ([`HttpConfig::check`]), or there is an authenticator without a public URL. If the settings
    /// are read at run time, call [`try_metadata_router`](Self::try_metadata_router).
    #[track_caller]
    fn metadata_router(&self, config: &HttpConfig) -> axum::Router;

    /// Returns the router of the metadata document, or the error of an invalid configuration. [`metadata_router`](Self::metadata_router) describes it.
    ///
    /// # Errors
    /// If the configuration is invalid ([`HttpConfig::check`]), or there is an authenticator without a public URL.
    fn try_metadata_router(&self, config: &HttpConfig) -> Result<axum::Router, ConfigError>;

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
    /// If the configuration is invalid ([`HttpConfig::check`]), or there is an authenticator without a public URL. If the settings
    /// are read at run time, call [`try_into_service`](Self::try_into_service).
    #[track_caller]
    fn into_service(self, config: HttpConfig) -> McpService;

    /// Returns the tower service of the endpoint, or the error of an invalid configuration. [`into_service`](Self::into_service) describes it.
    ///
    /// # Errors
    /// If the configuration is invalid ([`HttpConfig::check`]), or there is an authenticator without a public URL.
    fn try_into_service(self, config: HttpConfig) -> Result<McpService, ConfigError>;
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
        configured(self.try_into_router(config))
    }

    fn try_into_router(self, config: HttpConfig) -> Result<axum::Router, ConfigError> {
        let service = McpService::new(self, config)?;
        let endpoint = &service.inner.endpoint;
        let router = axum::Router::new().route_service(&endpoint.config.path, service.clone());
        let metadata = endpoint.auth.metadata_paths().iter().map(String::as_str);
        let paths = endpoint.config.other_paths().chain(metadata);
        Ok(paths.fold(router, |router, path| router.route_service(path, service.clone())))
    }

    #[track_caller]
    fn metadata_router(&self, config: &HttpConfig) -> axum::Router {
        configured(self.try_metadata_router(config))
    }

    fn try_metadata_router(&self, config: &HttpConfig) -> Result<axum::Router, ConfigError> {
        let endpoint = Arc::new(MetadataEndpoint::new(self, config)?);
        Ok(endpoint.paths().iter().fold(axum::Router::new(), |router, path| {
            let endpoint = endpoint.clone();
            router.route(path, any(async move |request: Request| endpoint.answer(&request).map(axum::body::Body::new)))
        }))
    }

    #[track_caller]
    fn into_service(self, config: HttpConfig) -> McpService {
        configured(self.try_into_service(config))
    }

    fn try_into_service(self, config: HttpConfig) -> Result<McpService, ConfigError> {
        McpService::new(self, config)
    }
}

/// Returns a part with a valid configuration.
///
/// # Panics
/// If the configuration is invalid.
#[track_caller]
fn configured<T>(part: Result<T, ConfigError>) -> T {
    part.unwrap_or_else(|error| panic!("{error}"))
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
