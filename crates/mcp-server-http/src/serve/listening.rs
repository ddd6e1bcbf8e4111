//! A server on our listener: hosts, signals, expired sessions and the end of serving.

use std::{
    convert::Infallible,
    fmt,
    future::{Future, IntoFuture},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

#[cfg(feature = "tls")]
use mcp_http_listener::TlsConfig;
use mcp_server_core::Server;
use mcp_transport::signal;
use tokio::{net::TcpListener, time::MissedTickBehavior};

use super::{HttpError, paths::ConfiguredPaths};
#[cfg(doc)]
use crate::HttpServer;
use crate::{HttpConfig, McpService, endpoint::FLUSH, legacy::sessions::SWEEP, request::guard};

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
///
/// ```
/// use mcp_server_core::Server;
/// use mcp_server_http::{HttpConfig, Serve};
/// use tokio::net::TcpListener;
///
/// /// Returns the server of an application, with the settings that all deployments share.
/// fn configured(listener: TcpListener, server: Server) -> Serve {
///     mcp_server_http::serve(listener, server).config(HttpConfig::new().path("/tools").health("/health"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder("example", "1.0.0").build();
/// let serving = configured(TcpListener::bind("127.0.0.1:0").await?, server.clone());
/// server.shutdown();
/// serving.await?;
/// # Ok(())
/// # }
/// ```
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
        config.check().map_err(HttpError::Config)?;
        let address = listener.local_addr().map_err(HttpError::Listener)?;
        check_hosts(address, &config)?;
        #[cfg_attr(not(feature = "tls"), expect(unused_mut, reason = "only TLS has client certificates"))]
        let mut config = with_public_url(address, config)?;
        #[cfg(feature = "tls")]
        {
            config.has_client_certificates = self.tls.as_ref().is_some_and(TlsConfig::has_client_certificates);
        }
        let has_signals = config.has_signals;
        config.on_listening.call(address);
        let service = McpService::new(server.clone(), config).map_err(HttpError::Config)?;
        // Dropped after the listener: calls of sessions may outlive their connections, but not the endpoint.
        let end_sessions = EndSessions(service.clone());
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
            // Calls of sessions continue without their connections, and so do tasks.
            service.inner.listener.work_ended().await;
            drop(end_sessions);
        };
        if has_signals {
            signal::until_terminated(serving, || server.shutdown()).await;
        } else {
            serving.await;
        }
        // The runtime of the process may end next. A second signal ends the wait for tasks, and not the deletion of the lease.
        service.inner.listener.release().await;
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
/// ```
/// use std::future::IntoFuture;
///
/// use mcp_server_core::Server;
/// use mcp_server_http::Serving;
/// use tokio::net::TcpListener;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder("example", "1.0.0").build();
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let serving: Serving = mcp_server_http::serve(listener, server.clone()).into_future();
/// let task = tokio::spawn(serving);
/// server.shutdown();
/// task.await??;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`HttpError::Config`] if the configuration is invalid. If the listener has no loopback address: [`HttpError::HostsRequired`] without allowed hosts and without a public URL, and
/// [`HttpError::PublicUrlRequired`] with an authenticator and without a public URL.
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

/// Rejects an address beyond loopback unless the configuration names the hosts of the server.
fn check_hosts(address: SocketAddr, config: &HttpConfig) -> Result<(), HttpError> {
    let is_open = config.any_host || !config.allowed_hosts.is_empty() || config.public_url.is_some();
    if guard::is_loopback_address(address.ip()) || is_open { Ok(()) } else { Err(HttpError::HostsRequired(address)) }
}

/// Sets the public URL of an endpoint with an authenticator at a loopback address. Another address needs it in the
/// configuration.
fn with_public_url(address: SocketAddr, config: HttpConfig) -> Result<HttpConfig, HttpError> {
    if config.authenticator.is_none() || config.public_url.is_some() {
        return Ok(config);
    }
    if !guard::is_loopback_address(address.ip()) {
        return Err(HttpError::PublicUrlRequired(address));
    }
    let url = format!("http://{address}{}", config.path);
    Ok(config.public_url(url))
}

fn on_listener(service: &McpService, listener: TcpListener) -> mcp_http_listener::Serve<ConfiguredPaths> {
    let (server, config) = (&service.inner.endpoint.server, &service.inner.endpoint.config);
    let serving = mcp_http_listener::serve(listener, ConfiguredPaths(service.clone()));
    let serving = if config.failed_authentications.is_some() { serving.peer_addresses() } else { serving };
    serving
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
        service.inner.legacy.tick();
    }
}

/// Ends the sessions when serving ends.
struct EndSessions(McpService);

impl Drop for EndSessions {
    fn drop(&mut self) {
        self.0.inner.legacy.end();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Request;
    use http_body_util::Full;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sessions_expire_without_requests() {
        let service = McpService::new(Server::builder("test", "1").build(), HttpConfig::new()).unwrap();
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
