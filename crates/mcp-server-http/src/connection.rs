//! One connection of our own listener: HTTP/1.1 or HTTP/2, whichever its first bytes speak, within the limits on time.

use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use bytes::BytesMut;
use http::{Request, Response, StatusCode};
use hyper::{
    body::Incoming,
    rt::Executor,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_protocol::RpcError;
use mcp_server_core::ShuttingDown;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    sync::watch,
    task::JoinSet,
    time::timeout,
};

use crate::{
    Body, McpService,
    gather::Gathered,
    respond,
    rewound::Rewound,
    wire::{Traffic, Wire},
};

/// How long the head of a request may take to arrive, and how long a connection may stay without a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes that one connection buffers in each direction; the head of a request has to fit, or is answered 431.
const BUFFER: usize = 128 << 10;

/// The first bytes of every HTTP/2 connection (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Requests that one HTTP/2 connection may have open.
const STREAMS: u32 = 128;

/// How often an HTTP/2 client is asked whether it is still there.
const PING: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// Serves a connection until its client leaves, or the server shuts down and what is open has ended.
pub(crate) async fn serve<S>(stream: Wire<S>, service: McpService, path: Arc<str>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let traffic = stream.traffic();
    let mut shutdown = service.inner.server.shutting_down();
    let sniffed = tokio::select! {
        sniffed = timeout(HEAD_TIMEOUT, sniff(stream)) => sniffed,
        () = &mut shutdown => return,
    };
    let outcome = match sniffed {
        Ok(Ok((stream, Protocol::Http1))) => serve_http1(stream, &traffic, service, path, shutdown).await,
        // Boxed, because it is large, and most connections speak the other one.
        Ok(Ok((stream, Protocol::Http2))) => Box::pin(serve_http2(stream, service, path, shutdown)).await,
        Ok(Err(error)) => return tracing::debug!(%error, "a connection broke before its first request"),
        Err(_) => return tracing::debug!("a connection without a request was closed"),
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Reads until it is clear which protocol it is.
async fn sniff<S: AsyncRead + Unpin>(mut stream: S) -> io::Result<(Rewound<S>, Protocol)> {
    let mut start = BytesMut::with_capacity(4 << 10);
    let protocol = loop {
        // At its end hyper finds out by itself what that means.
        let is_over = stream.read_buf(&mut start).await? == 0;
        let compared = start.len().min(PREFACE.len());
        if is_over || start[..compared] != PREFACE[..compared] {
            break Protocol::Http1;
        }
        if compared == PREFACE.len() {
            break Protocol::Http2;
        }
    };
    Ok((Rewound::new(start.freeze(), stream), protocol))
}

async fn serve_http1<S>(
    stream: S,
    traffic: &Arc<Traffic>,
    service: McpService,
    path: Arc<str>,
    shutdown: ShuttingDown,
) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (service, path, open) = (service.clone(), path.clone(), traffic.open());
        // Boxed, because it is large, and the room for it would stay as long as the answer goes on.
        Box::pin(async move {
            let answer = at_path(&service, &path, request).await;
            Ok::<_, Infallible>(answer.map(|body| Gathered::new(body, open)))
        })
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        outcome = &mut connection => outcome,
        () = shutdown => {
            traffic.end();
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

async fn serve_http2<S>(
    stream: S,
    service: McpService,
    path: Arc<str>,
    shutdown: ShuttingDown,
) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    // Ends the requests with the connection.
    let tasks: Arc<Mutex<JoinSet<()>>> = Arc::default();
    let open = OpenStreams::default();
    let counted = open.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (service, path, open) = (service.clone(), path.clone(), counted.enter());
        // Boxed, because it is large, and the room for it would stay as long as the answer goes on.
        Box::pin(async move {
            let answer = at_path(&service, &path, request).await;
            Ok::<_, Infallible>(answer.map(|body| Gathered::new(body, open)))
        })
    });
    let connection = http2::Builder::new(Tasks(Arc::downgrade(&tasks)))
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_send_buf_size(BUFFER)
        .max_header_list_size(BUFFER as u32)
        .keep_alive_interval(PING)
        .keep_alive_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        outcome = &mut connection => outcome,
        () = shutdown => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = open.none_for(HEAD_TIMEOUT) => {
            connection.as_mut().graceful_shutdown();
            // A client that does not answer the farewell is not waited for.
            timeout(HEAD_TIMEOUT, connection).await.unwrap_or(Ok(()))
        }
    }
}

async fn at_path(service: &McpService, path: &str, request: Request<Incoming>) -> Response<Body> {
    let asked = request.uri().path();
    if asked == path || service.inner.config.other_paths().any(|other| other == asked) {
        return service.handle(request).await;
    }
    if let Err(refused) = service.inner.admit(&request) {
        return refused;
    }
    respond::refusal(StatusCode::NOT_FOUND, &RpcError::invalid_request(format!("the endpoint is {path}")))
}

/// The requests of an HTTP/2 connection that are open.
#[derive(Clone, Default)]
struct OpenStreams(Arc<watch::Sender<usize>>);

impl OpenStreams {
    fn enter(&self) -> OpenStream {
        self.0.send_modify(|count| *count += 1);
        OpenStream(self.clone())
    }

    /// Waits until there was none for so long.
    async fn none_for(&self, limit: Duration) {
        let mut count = self.0.subscribe();
        // The sender is in `self`, so that nothing here fails.
        while count.wait_for(|count| *count == 0).await.is_ok()
            && timeout(limit, count.wait_for(|count| *count > 0)).await.is_ok()
        {}
    }
}

/// One of them, until it is dropped.
pub(crate) struct OpenStream(OpenStreams);

impl std::fmt::Debug for OpenStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenStream")
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// Runs the requests of an HTTP/2 connection as tasks that end with it.
#[derive(Clone)]
struct Tasks(Weak<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, future: F) {
        // Without the connection there is nobody to run it for.
        let Some(tasks) = self.0.upgrade() else { return };
        let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(future);
    }
}

#[cfg(test)]
mod tests {
    use mcp_server_core::Server;
    use tokio::{
        io::{AsyncWriteExt, DuplexStream},
        time::Instant,
    };

    use super::*;
    use crate::HttpConfig;

    fn connect(server: &Server) -> DuplexStream {
        let (near, far) = tokio::io::duplex(1 << 16);
        let service = McpService::new(server.clone(), HttpConfig::new());
        tokio::spawn(serve(Wire::new(far, Duration::from_secs(30)), service, "/mcp".into()));
        near
    }

    /// The preface, and settings that change nothing.
    const HTTP2: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0";

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_sends_no_request_is_closed() {
        let server = Server::builder("test", "1").build();
        for sent in [
            "",
            "P",
            "PRI * HTTP/2.0\r\n\r\nSM",
            "POST /mcp HTTP/1.1\r\nhost: loc",
            "OPTIONS /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n",
        ] {
            let mut client = connect(&server);
            client.write_all(sent.as_bytes()).await.unwrap();
            let start = Instant::now();
            let mut rest = Vec::new();
            client.read_to_end(&mut rest).await.unwrap();
            assert_eq!(start.elapsed().as_secs(), HEAD_TIMEOUT.as_secs(), "{sent:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn http2_without_a_request_is_told_to_go_and_not_waited_for() {
        let server = Server::builder("test", "1").build();
        let mut client = connect(&server);
        client.write_all(HTTP2.as_bytes()).await.unwrap();
        let start = Instant::now();
        let mut said = Vec::new();
        client.read_to_end(&mut said).await.unwrap();
        // A frame of type 7 (GOAWAY) on the connection, whose last stream is not settled yet.
        let goaway = b"\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0";
        assert!(said.windows(goaway.len()).any(|window| window == goaway), "{said:x?}");
        assert!((30..=60).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_closes_a_connection_that_sent_no_whole_head_at_once() {
        for sent in [
            "",
            "PRI * HTTP/2.0\r\n",
            "POST /mcp HTTP/1.1\r\nhost: loc",
            "OPTIONS /mcp HTTP/1.1\r\nhost: localhost\r\n\r\nPOST /m",
        ] {
            let server = Server::builder("test", "1").build();
            let mut client = connect(&server);
            client.write_all(sent.as_bytes()).await.unwrap();
            // Both sides had their turn before the end.
            tokio::time::sleep(Duration::from_secs(1)).await;
            server.shutdown();
            let start = Instant::now();
            client.read_to_end(&mut Vec::new()).await.unwrap();
            assert_eq!(start.elapsed(), Duration::ZERO, "{sent:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_refuses_a_request_whose_body_is_not_there_at_once() {
        let server = Server::builder("test", "1").build();
        let mut client = connect(&server);
        let head =
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
        client.write_all(head.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.shutdown();
        let start = Instant::now();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
}
