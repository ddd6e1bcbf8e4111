//! The builder and the accept loop of the listener.

use std::{
    convert::Infallible,
    fmt,
    future::{Future, IntoFuture},
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use http_body::Body;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

#[cfg(feature = "tls")]
use crate::tls::TlsConfig;
use crate::{
    connection::{self, BoxError, RequestBody},
    peer::{PeerAddr, WithExtension},
    security::{Cleartext, Security},
    tcp::Duplex,
    write_timeout::WriteTimeout,
};

/// Serves a tower service on a listener. Await the returned [`Serve`] to start.
///
/// `service` receives each request of each connection. An `axum::Router` is such a service. The listener clones the
/// service for each request.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use axum::{Router, routing::get};
/// use tokio::net::TcpListener;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let app = Router::new().route("/hello", get(async || "Hello!"));
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// let serving = mcp_http_listener::serve(listener, app)
///     .write_timeout(Duration::from_secs(60))
///     .max_connections(1_000)
///     .with_graceful_shutdown(async {
///         let _ = stopped.await;
///     });
/// # stop.send(()).unwrap();
/// serving.await;
/// # Ok(())
/// # }
/// ```
pub fn serve<S>(listener: TcpListener, service: S) -> Serve<S> {
    let limits = Limits {
        connections: 20_000,
        write_timeout: Duration::from_secs(30),
        shutdown_deadline: Duration::from_secs(10),
        has_peers: false,
    };
    Serve {
        listener,
        service,
        limits,
        shutdown: None,
        #[cfg(feature = "tls")]
        tls: None,
    }
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    connections: usize,
    write_timeout: Duration,
    shutdown_deadline: Duration,
    /// Whether requests have the address of their peer.
    has_peers: bool,
}

/// A listener that is configured and not started. Returned by [`serve`].
///
/// Await it to serve. It completes after a graceful shutdown, or never if no shutdown is configured. Dropping the
/// future closes the listener and all connections.
///
/// ```
/// use std::time::Duration;
///
/// use axum::{Router, routing::get};
/// use tokio::net::TcpListener;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), std::io::Error> {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let address = listener.local_addr()?;
/// let serving = mcp_http_listener::serve(listener, Router::new().route("/", get(async || "Hello!")))
///     .max_connections(100)
///     .write_timeout(Duration::from_secs(10))
///     .shutdown_deadline(Duration::from_secs(5))
///     .with_graceful_shutdown(std::future::ready(()));
/// // The signal has completed, so the listener closes at once.
/// serving.await;
/// assert!(tokio::net::TcpStream::connect(address).await.is_err());
/// # Ok(())
/// # }
/// ```
#[must_use = "a listener does nothing until it is awaited"]
pub struct Serve<S> {
    listener: TcpListener,
    service: S,
    limits: Limits,
    shutdown: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    #[cfg(feature = "tls")]
    tls: Option<TlsConfig>,
}

impl<S> Serve<S> {
    /// Sets how long a client may leave an answer unread. 30 seconds by default.
    ///
    /// Progress of the client restarts this time. On Linux and Android, progress means that the kernel of the client
    /// acknowledges more data. A stalled client is detected after this time, and at most an eighth later.
    ///
    /// The kernel of a client with a full receive buffer does not report each byte that the client reads. It accepts and
    /// acknowledges data in steps: on Linux about 1/16 of the receive buffer, at least one TCP segment. Across a network
    /// that is a few KiB, so a client that reads 1 KB/s is served. On the loopback interface segments are large and a step
    /// is up to 128 KiB, so a client has to read 5 KB/s for the default of 30 seconds. Over HTTP/2 a step is the
    /// client's own window update, usually half of its flow-control window. On other systems than Linux and Android the send
    /// buffer of the kernel adds to the step.
    ///
    /// Over HTTP/1.1 the connection closes after this time. Over HTTP/2 the stream of the answer is reset, and the other
    /// streams continue. The last 16 KiB of an answer cannot be reset alone: if a client leaves them unread for twice this
    /// time, the connection closes. Other requests of that connection have this time to end.
    ///
    /// # Panics
    /// If `limit` is zero.
    #[track_caller]
    pub fn write_timeout(mut self, limit: Duration) -> Self {
        assert!(!limit.is_zero(), "`write_timeout` is zero: no answer could be written");
        self.limits.write_timeout = limit;
        self
    }

    /// Sets how many connections may be open. 20,000 by default. Further connections wait in the backlog of the listener.
    ///
    /// # Panics
    /// If `count` is zero.
    #[track_caller]
    pub fn max_connections(mut self, count: usize) -> Self {
        assert!(count > 0, "`max_connections` is zero: no client could connect");
        self.limits.connections = count;
        self
    }

    /// Starts a graceful shutdown when `signal` completes.
    ///
    /// The listener then closes. Idle connections and connections with a partial request close at once. Open requests may
    /// end until [`Serve::shutdown_deadline`].
    pub fn with_graceful_shutdown(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Some(Box::pin(signal));
        self
    }

    /// Sets how long open requests may run after a shutdown began. 10 seconds by default. Zero closes their connections at
    /// once.
    pub fn shutdown_deadline(mut self, limit: Duration) -> Self {
        self.limits.shutdown_deadline = limit;
        self
    }

    /// Adds the address of the peer to the extensions of each request, as [`PeerAddr`]. By default requests have no address.
    ///
    /// ```
    /// use axum::{Extension, Router, routing::get};
    /// use mcp_http_listener::PeerAddr;
    /// use tokio::net::TcpListener;
    ///
    /// # async fn example() -> std::io::Result<()> {
    /// let app = Router::new().route("/", get(async |Extension(PeerAddr(address))| format!("{address}")));
    /// let listener = TcpListener::bind("127.0.0.1:8080").await?;
    /// mcp_http_listener::serve(listener, app).peer_addresses().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn peer_addresses(mut self) -> Self {
        self.limits.has_peers = true;
        self
    }

    /// Serves HTTPS with a certificate. The client chooses HTTP/2 or HTTP/1.1 by ALPN.
    ///
    /// A client has ten seconds for the handshake. A connection counts against [`Serve::max_connections`] from its start.
    /// While the listener runs, it checks every ten seconds whether the files of the certificate have changed.
    ///
    /// ```
    /// use mcp_http_listener::TlsConfig;
    /// use tokio::net::TcpListener;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates"))?;
    /// # let (app, stop) = (axum::Router::new(), std::future::ready(()));
    /// let tls = TlsConfig::from_files("first.pem", "first-key.pem")?;
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// mcp_http_listener::serve(listener, app).tls(tls).with_graceful_shutdown(stop).await;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: TlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }
}

impl<S> fmt::Debug for Serve<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve").field("listener", &self.listener).field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl<S, B> IntoFuture for Serve<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Output = ();
    type IntoFuture = Serving;

    fn into_future(self) -> Serving {
        let Self { listener, service, limits, shutdown, .. } = self;
        let shutdown = shutdown.unwrap_or_else(|| Box::pin(std::future::pending()));
        #[cfg(feature = "tls")]
        if let Some(tls) = self.tls {
            return Serving(Box::pin(run(listener, service, limits, shutdown, tls)));
        }
        Serving(Box::pin(run(listener, service, limits, shutdown, Cleartext)))
    }
}

/// The future of a running listener. Created by awaiting [`Serve`].
///
/// ```
/// use std::future::IntoFuture;
///
/// use mcp_http_listener::Serving;
/// use tokio::net::TcpListener;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), std::io::Error> {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let serving: Serving = mcp_http_listener::serve(listener, axum::Router::new()).into_future();
/// let task = tokio::spawn(serving);
/// // The end of the task closes the listener and its connections.
/// task.abort();
/// assert!(task.await.unwrap_err().is_cancelled());
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing until they are polled"]
pub struct Serving(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Future for Serving {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").finish_non_exhaustive()
    }
}

/// Serves until a shutdown has ended, and maintains the certificate of TLS meanwhile.
async fn run<S, B, Sec>(
    listener: TcpListener,
    service: S,
    limits: Limits,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
    security: Sec,
) where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    Sec: Security,
{
    tokio::select! {
        () = accept(listener, service, limits, shutdown, security.clone()) => {}
        never = security.maintain() => match never {},
    }
}

async fn accept<S, B, Sec>(
    listener: TcpListener,
    service: S,
    limits: Limits,
    mut shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
    security: Sec,
) where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    Sec: Security,
{
    let permits = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let shutting_down = CancellationToken::new();
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let next = async {
            // The semaphore is never closed.
            let permit = permits.clone().acquire_owned().await.ok();
            (permit, next_stream(&listener).await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            () = &mut shutdown => break,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                // The likely cause is the limit of open files. The pause gives connections time to close.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let extension = limits.has_peers.then_some(PeerAddr(address));
        let service = WithExtension { service: service.clone(), extension };
        let (security, shutting_down) = (security.clone(), shutting_down.clone());
        connections.spawn(async move {
            // The future is created inside the task: moving it in would reserve its size twice.
            serve_stream(stream, service, limits.write_timeout, shutting_down, security).await;
            drop(permit);
        });
    }
    drop(listener);
    shutting_down.cancel();
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.shutdown_deadline, drained).await.is_err() {
        tracing::warn!("connections with requests that ran past the shutdown deadline were closed");
    }
}

async fn next_stream(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, address) = listener.accept().await?;
    // Without TCP_NODELAY, small answers wait for the acknowledgement of earlier ones.
    let _ = stream.set_nodelay(true);
    Ok((stream, address))
}

/// Serves one accepted stream.
async fn serve_stream<S, B, Sec>(
    stream: impl Duplex,
    service: S,
    write_timeout: Duration,
    shutdown: CancellationToken,
    security: Sec,
) where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    Sec: Security,
{
    let stream = WriteTimeout::new(stream, write_timeout);
    let secured = tokio::select! {
        secured = security.secure(stream) => secured,
        () = shutdown.cancelled() => None,
    };
    if let Some(stream) = secured {
        let service = WithExtension { service, extension: Sec::extension(&stream) };
        connection::serve(stream, service, write_timeout, shutdown).await;
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tokio::{
        io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
        time::Instant,
    };

    use super::*;

    /// Sends a request for a large answer, reads nothing, and returns how long the connection stays open.
    async fn leave_answer_unread(
        mut client: impl AsyncRead + AsyncWrite + Unpin,
        serving: impl Future<Output = ()>,
    ) -> Duration {
        let start = Instant::now();
        let request = async {
            client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
            client.flush().await.unwrap();
        };
        let day = Duration::from_secs(24 * 3600);
        let ended = tokio::time::timeout(day, async { tokio::join!(request, serving) }).await;
        assert!(ended.is_ok(), "the connection is still open");
        let took = start.elapsed();
        // The client kept the connection open until here.
        drop(client);
        took
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_reading_loses_the_connection_with_and_without_tls() {
        let large = tower::service_fn(async |_: Request<RequestBody>| {
            Ok::<_, Infallible>(Response::new(Full::<bytes::Bytes>::from("x".repeat(40 << 10))))
        });
        let limit = Duration::from_secs(20);
        let (client, far) = tokio::io::duplex(4 << 10);
        let serving = serve_stream(far, large, limit, CancellationToken::new(), Cleartext);
        assert_eq!(leave_answer_unread(client, serving).await, limit);
        #[cfg(feature = "tls")]
        {
            let (client, far) = tokio::io::duplex(4 << 10);
            let tls = crate::tls::tests::config();
            let serving = tokio::spawn(serve_stream(far, large, limit, CancellationToken::new(), tls));
            let client = crate::tls::tests::connect(client).await;
            assert_eq!(leave_answer_unread(client, async { serving.await.unwrap() }).await, limit);
        }
    }

    #[tokio::test]
    async fn accepted_streams_send_small_responses_without_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connected, accepted) = tokio::join!(TcpStream::connect(address), next_stream(&listener));
        assert!(connected.is_ok() && accepted.unwrap().0.nodelay().unwrap());
    }
}
