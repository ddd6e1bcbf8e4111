//! One connection of our own listener: HTTP/1.1 or HTTP/2, whichever its first bytes speak, within the limits on time.

use std::{convert::Infallible, io, pin::pin, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use http_body::Body as HttpBody;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_protocol::RpcError;
use mcp_server_core::ShuttingDown;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    time::timeout,
};

use crate::{
    Body, McpService, flow::OpenStreams, gather::Gathered, linger::Watched, respond, tasks::Tasks, wire::Wire,
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
pub(crate) async fn serve<S>(stream: Wire<S>, service: McpService)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let path: Arc<str> = service.inner.config.path.as_str().into();
    let mut shutdown = service.inner.server.shutting_down();
    let sniffed = tokio::select! {
        sniffed = timeout(HEAD_TIMEOUT, sniff(stream)) => sniffed,
        () = &mut shutdown => return,
    };
    let outcome = match sniffed {
        Ok(Ok((stream, Protocol::Http1))) => serve_http1(stream, service, path, shutdown).await,
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
async fn sniff<S: AsyncRead + Unpin>(mut stream: Wire<S>) -> io::Result<(Wire<S>, Protocol)> {
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
    stream.rewind(start.freeze());
    Ok((stream, protocol))
}

async fn serve_http1<S>(
    stream: Wire<S>,
    service: McpService,
    path: Arc<str>,
    shutdown: ShuttingDown,
) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let traffic = stream.traffic();
    let counted = traffic.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (service, path, open, traffic) = (service.clone(), path.clone(), counted.open(), counted.clone());
        // Boxed, because it is large, and the room for it would stay as long as the answer goes on.
        Box::pin(async move {
            let request = request.map(|body| Watched::new(body, traffic));
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
    let patience = service.inner.config.write_timeout;
    // Ends the requests with the connection.
    let tasks = Tasks::default();
    let open = OpenStreams::default();
    let counted = open.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (service, path, open) = (service.clone(), path.clone(), counted.clone());
        // Boxed, because it is large, and the room for it would stay as long as the answer goes on.
        Box::pin(async move {
            let open = open.enter();
            let answer = at_path(&service, &path, request).await;
            Ok::<_, Infallible>(answer.map(|body| Gathered::over(body, open)))
        })
    });
    let connection = http2::Builder::new(tasks.spawner())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_send_buf_size(BUFFER)
        .max_header_list_size(BUFFER as u32)
        .keep_alive_interval(PING)
        .keep_alive_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        outcome = &mut connection => return outcome,
        () = shutdown => {
            connection.as_mut().graceful_shutdown();
            return connection.await;
        }
        () = open.watch(patience, |task| tasks.end(task)) => {}
        () = open.none_for(HEAD_TIMEOUT) => {
            connection.as_mut().graceful_shutdown();
            // A client that does not answer the farewell is not waited for; one whose call crossed it is.
            tokio::select! {
                outcome = &mut connection => return outcome,
                () = open.none_for(HEAD_TIMEOUT) => return Ok(()),
                () = open.watch(patience, |task| tasks.end(task)) => {}
            }
        }
    }
    tracing::debug!("a connection is closed whose client leaves an answer unread that cannot be reset");
    connection.as_mut().graceful_shutdown();
    // Others on the same connection, which may be somebody else's behind a proxy, have as long to end.
    timeout(patience, connection).await.unwrap_or(Ok(()))
}

async fn at_path<B>(service: &McpService, path: &str, request: Request<B>) -> Response<Body>
where
    B: HttpBody<Data = Bytes, Error = hyper::Error> + Send,
{
    let asked = request.uri().path();
    if asked == path || service.inner.config.other_paths().any(|other| other == asked) {
        return service.handle(request).await;
    }
    if let Err(refused) = service.inner.admit(&request) {
        return refused;
    }
    respond::refusal(StatusCode::NOT_FOUND, &RpcError::invalid_request(format!("the endpoint is {path}")))
}

#[cfg(test)]
mod tests {
    use mcp_server_core::{Progress, Server, tool};
    use tokio::{
        io::{AsyncWriteExt, DuplexStream},
        time::Instant,
    };

    use super::*;
    use crate::HttpConfig;

    fn connect(server: &Server) -> DuplexStream {
        let (near, far) = tokio::io::duplex(1 << 16);
        let service = McpService::new(server.clone(), HttpConfig::new());
        tokio::spawn(serve(Wire::new(far), service));
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

    /// A call of the newest revision.
    fn call(tool: &str) -> Request<http_body_util::Full<Bytes>> {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","_meta":{{
                "progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28",
                "io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
        );
        let request = Request::post("http://localhost/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool);
        request.body(http_body_util::Full::from(body)).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn http2_serves_a_call_that_crosses_the_farewell() {
        let long = async || {
            tokio::time::sleep(Duration::from_secs(50)).await;
            "served"
        };
        let server = Server::builder("test", "1").tool(tool("long", long)).build();
        // What the server says is read late, as over a long way.
        let (mut near, far) = tokio::io::duplex(1 << 16);
        let mut toward = connect(&server);
        let way = tokio::spawn(async move {
            let (mut from, mut to) = (vec![0; 1 << 16], vec![0; 1 << 16]);
            loop {
                tokio::select! {
                    read = near.read(&mut from) => match read {
                        Ok(1..) => toward.write_all(&from[..read.unwrap()]).await.unwrap(),
                        _ => return,
                    },
                    read = toward.read(&mut to) => match read {
                        Ok(1..) => {
                            let said = to[..read.unwrap()].to_vec();
                            tokio::time::sleep(Duration::from_secs(1)).await;
                            near.write_all(&said).await.unwrap();
                        }
                        _ => return,
                    },
                }
            }
        });
        let client = hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), TokioIo::new(far));
        let (mut sender, connection) = client.await.unwrap();
        tokio::spawn(connection);
        // The farewell is said by then, and not read.
        tokio::time::sleep(Duration::from_millis(30_500)).await;
        let answer = sender.send_request(call("long")).await.unwrap().into_body();
        let answer = http_body_util::BodyExt::collect(answer).await.unwrap().to_bytes();
        assert!(answer.windows(6).any(|text| text == b"served"), "{answer:?}");
        way.abort();
    }

    type Client = hyper::client::conn::http2::SendRequest<http_body_util::Full<Bytes>>;

    /// A client with windows of its own choice, and its connection.
    async fn http2(server: &Server, stream: u32, all: u32) -> (Client, tokio::task::JoinHandle<hyper::Result<()>>) {
        let client = hyper::client::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
            .initial_stream_window_size(stream)
            .initial_connection_window_size(all)
            .handshake(TokioIo::new(connect(server)))
            .await;
        let (sender, connection) = client.unwrap();
        (sender, tokio::spawn(connection))
    }

    /// Asks every second until the connection takes no more, or so long; returns for how long it did.
    async fn use_for(sender: &mut Client, limit: Duration) -> Duration {
        let start = Instant::now();
        let mut used = Duration::ZERO;
        while used < limit && sender.ready().await.is_ok() && sender.send_request(call("quick")).await.is_ok() {
            used = start.elapsed();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        used
    }

    async fn text(response: Response<Incoming>) -> hyper::Result<String> {
        let body = http_body_util::BodyExt::collect(response.into_body()).await?.to_bytes();
        Ok(String::from_utf8(body.to_vec()).unwrap())
    }

    /// A server whose tool `late` takes so many seconds.
    fn talker(seconds: u64) -> Server {
        let flood = async |progress: Progress| {
            for step in 0..1000_u32 {
                progress.report(f64::from(step), None, &*"x".repeat(64 << 10)).await;
            }
            "all"
        };
        let late = move || async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            "still here"
        };
        Server::builder("test", "1")
            .tool(tool("late", late))
            .tool(tool("quick", async || "quick"))
            .tool(tool("medium", async || "x".repeat(8 << 10)))
            .tool(tool("large", async || "x".repeat(1 << 20)))
            .tool(tool("flood", flood))
            .build()
    }

    #[tokio::test(start_paused = true)]
    async fn http2_resets_the_stream_whose_answer_is_left_unread() {
        for name in ["large", "flood"] {
            let (mut sender, _connection) = http2(&talker(40), 1 << 16, 1 << 20).await;
            let start = Instant::now();
            let late = tokio::spawn(sender.send_request(call("late")));
            let unread = sender.send_request(call(name)).await.unwrap();
            assert_eq!(unread.status(), StatusCode::OK);
            let long = Duration::from_secs(120);
            assert!(use_for(&mut sender, long).await >= long, "{name} {:?}", start.elapsed());
            assert!(text(late.await.unwrap().unwrap()).await.unwrap().contains("still here"), "{name}");
            let reset = text(unread).await.unwrap_err();
            assert!(!reset.is_incomplete_message() && !reset.is_canceled(), "{name} {reset:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn http2_resets_no_stream_that_only_waits_for_another() {
        let (mut sender, _connection) = http2(&talker(0), 1 << 20, 1 << 16).await;
        let unread = sender.send_request(call("flood")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The window that both have is used up.
        let waiting = tokio::spawn(text(sender.send_request(call("quick")).await.unwrap()));
        tokio::time::sleep(Duration::from_millis(29_500)).await;
        assert!(!waiting.is_finished());
        // By now it is reset, and its client gives back what it used of the window.
        drop(unread);
        assert!(waiting.await.unwrap().unwrap().contains("quick"));
    }

    #[tokio::test(start_paused = true)]
    async fn http2_ends_a_connection_with_an_unread_answer_that_cannot_be_reset() {
        // A window that takes a part of an answer of one frame, which so is the last thing that its task has to do.
        let (mut sender, connection) = http2(&talker(50), 1 << 10, 1 << 20).await;
        let start = Instant::now();
        let unread = sender.send_request(call("medium")).await.unwrap();
        use_for(&mut sender, Duration::from_secs(30)).await;
        let late = tokio::spawn(sender.send_request(call("late")));
        use_for(&mut sender, Duration::from_secs(3600)).await;
        let used = start.elapsed();
        assert!((59..=66).contains(&used.as_secs()), "{used:?}");
        // What else was open has time to end.
        assert!(text(late.await.unwrap().unwrap()).await.unwrap().contains("still here"));
        let _ = connection.await;
        assert!((80..=96).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
        drop(unread);
    }

    #[tokio::test(start_paused = true)]
    async fn http2_waits_for_who_reads_slowly_or_has_nothing_to_read() {
        let (release, released) = tokio::sync::watch::channel(false);
        let hold = move |progress: Progress| {
            let mut released = released.clone();
            async move {
                progress.report(1.0, None, None).await;
                released.wait_for(|released| *released).await.unwrap();
                "x".repeat(1 << 20)
            }
        };
        let server = Server::builder("test", "1").tool(tool("hold", hold)).build();
        let (mut sender, _connection) = http2(&server, 1 << 16, 1 << 20).await;
        let mut body = sender.send_request(call("hold")).await.unwrap().into_body();
        // Not longer than a tool may take.
        tokio::time::sleep(Duration::from_secs(50)).await;
        release.send_replace(true);
        let mut length = 0;
        while let Some(frame) = http_body_util::BodyExt::frame(&mut body).await {
            length += frame.unwrap().into_data().unwrap().len();
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        assert!(length > 1 << 20);
    }
}
