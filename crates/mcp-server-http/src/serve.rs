//! From a server to the network: a listener of its own, or a service for somebody else's.

use std::{convert::Infallible, fmt, future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use http::{Request, Response, StatusCode};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_protocol::RpcError;
use mcp_server_core::Server;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, ToSocketAddrs},
    sync::Semaphore,
    task::JoinSet,
};

use crate::{Body, HttpConfig, McpService, gather::Gathered, guard, respond, stall::Stalling};

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

    /// An axum router with the endpoint at the configured path, to merge into an application. Whoever serves it should set
    /// TCP_NODELAY, as [`HttpServer::serve_http_with`] does: without it small answers wait for acknowledgements.
    fn into_router(self, config: HttpConfig) -> axum::Router;

    /// The endpoint as a tower service, for any other stack; it answers on every path.
    fn into_service(self, config: HttpConfig) -> McpService;
}

impl HttpServer for Server {
    async fn serve_http(&self, addr: impl ToSocketAddrs + Send) -> Result<(), HttpError> {
        let listener = TcpListener::bind(addr).await?;
        let server = self.clone();
        let mut serving = pin!(self.serve_http_with(listener, HttpConfig::new()));
        tokio::select! {
            served = &mut serving => return served,
            () = mcp_transport::stdio::terminated() => server.shutdown(),
        }
        serving.await
    }

    async fn serve_http_with(&self, listener: TcpListener, config: HttpConfig) -> Result<(), HttpError> {
        let address = listener.local_addr()?;
        let is_open = config.any_host || !config.allowed_hosts.is_empty();
        if !guard::is_loopback_address(address.ip()) && !is_open {
            return Err(HttpError::HostsRequired(address));
        }
        accept(self, listener, config).await;
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

/// How long the head of a request may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes that one connection buffers in each direction; the head of a request has to fit, or is answered 431.
const BUFFER: usize = 128 << 10;

async fn accept(server: &Server, listener: TcpListener, config: HttpConfig) {
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
        let connection = serve_connection(stream, service.clone(), path.clone(), shutdown.clone());
        connections.spawn(async move {
            connection.await;
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

async fn serve_connection(
    stream: Stalling<impl AsyncRead + AsyncWrite + Unpin>,
    service: McpService,
    path: Arc<str>,
    shutdown: tokio_util::sync::CancellationToken,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (service, path) = (service.clone(), path.clone());
        async move { Ok::<_, Infallible>(at_path(&service, &path, request).await.map(Gathered)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let outcome = tokio::select! {
        outcome = &mut connection => outcome,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn at_path(service: &McpService, path: &str, request: Request<Incoming>) -> Response<Body> {
    if request.uri().path() == path {
        return service.handle(request).await;
    }
    respond::refusal(StatusCode::NOT_FOUND, &RpcError::invalid_request(format!("the endpoint is {path}")))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
        time::Instant,
    };

    use super::*;

    fn connect(server: &Server) -> DuplexStream {
        let (near, far) = tokio::io::duplex(1 << 16);
        let service = McpService::new(server.clone(), HttpConfig::new());
        let stream = Stalling::new(far, Duration::from_secs(30));
        tokio::spawn(serve_connection(stream, service, "/mcp".into(), server.shutdown_token()));
        near
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_sends_no_request_is_closed() {
        let server = Server::builder("test", "1").build();
        for sent in ["", "POST /mcp HTTP/1.1\r\nhost: loc", "OPTIONS /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
            let mut client = connect(&server);
            client.write_all(sent.as_bytes()).await.unwrap();
            let start = Instant::now();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).await.unwrap();
            assert_eq!(start.elapsed().as_secs(), HEAD_TIMEOUT.as_secs(), "{sent:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_closes_a_connection_that_sent_nothing_at_once() {
        let server = Server::builder("test", "1").build();
        let mut client = connect(&server);
        // Both sides had their turn before the end.
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.shutdown();
        let start = Instant::now();
        assert_eq!(client.read_to_end(&mut Vec::new()).await.unwrap(), 0);
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
