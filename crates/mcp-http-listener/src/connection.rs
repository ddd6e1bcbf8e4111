//! One connection: HTTP/1.1 or HTTP/2 by its first bytes, with a limit on each wait.
//!
//! `hyper_util::server::conn::auto` does not replace the protocol detection here, for three reasons. It sets no time
//! limit on the first bytes. It does not report the detected protocol, and the two protocols need different rules for
//! idle connections and stalled answers. Its connection holds the state of both protocols, which costs memory for each
//! idle connection. `hyper_util::server::graceful` does not replace the drain: it cannot drop partial requests.

mod io;
mod lingering_close;
mod open_streams;
mod request_body;
mod request_tracker;
mod response_body;
mod stream_tasks;
#[cfg(test)]
mod tests;

use std::{convert::Infallible, error::Error, future::poll_fn, pin::pin, time::Duration};

use bytes::BytesMut;
use http::{Request, Response};
use http_body::Body;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

pub use self::request_body::{RequestBody, RequestBodyError};
use self::{io::ConnectionIo, open_streams::OpenStreams, response_body::ResponseBody, stream_tasks::StreamTasks};
use crate::tcp::Duplex;

/// The time limit for the head of a request, and for a connection without an open request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The buffer size of a connection in each direction. A request whose head does not fit is answered 431.
const BUFFER: usize = 128 << 10;

/// The first bytes of every HTTP/2 connection (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The most open requests of one HTTP/2 connection.
const STREAMS: u32 = 128;

/// The interval of pings on an HTTP/2 connection.
const PING: Duration = Duration::from_secs(30);

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// Serves a connection until the client closes it, or until the open requests have ended after a shutdown.
pub(crate) async fn serve<I, S, B>(stream: I, service: S, write_timeout: Duration, shutdown: CancellationToken)
where
    I: Duplex,
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let detected = tokio::select! {
        detected = timeout(HEAD_TIMEOUT, detect(ConnectionIo::new(stream))) => detected,
        () = shutdown.cancelled() => return,
    };
    let outcome = match detected {
        Ok(Ok((stream, Protocol::Http1))) => serve_http1(stream, service, shutdown).await,
        // Boxed, because this future is large and most connections use HTTP/1.1.
        Ok(Ok((stream, Protocol::Http2))) => Box::pin(serve_http2(stream, service, write_timeout, shutdown)).await,
        Ok(Err(error)) => return tracing::debug!(%error, "a connection failed before its first request"),
        Err(_) => return tracing::debug!("a connection without a request was closed"),
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Reads until the bytes show the protocol.
async fn detect<I: AsyncRead + Unpin>(mut stream: ConnectionIo<I>) -> std::io::Result<(ConnectionIo<I>, Protocol)> {
    let mut prefix = BytesMut::with_capacity(4 << 10);
    let protocol = loop {
        // After an early end of the stream, hyper's HTTP/1.1 reader reports the error.
        let is_end = stream.read_buf(&mut prefix).await? == 0;
        let compared = prefix.len().min(PREFACE.len());
        if is_end || prefix[..compared] != PREFACE[..compared] {
            break Protocol::Http1;
        }
        if compared == PREFACE.len() {
            break Protocol::Http2;
        }
    };
    stream.rewind(prefix.freeze());
    Ok((stream, protocol))
}

async fn call<S, B>(mut service: S, request: Request<RequestBody>) -> Response<B>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
{
    let Ok(()) = poll_fn(|cx| service.poll_ready(cx)).await;
    let Ok(response) = service.call(request).await;
    response
}

async fn serve_http1<I, S, B>(
    stream: ConnectionIo<I>,
    service: S,
    shutdown: CancellationToken,
) -> Result<(), hyper::Error>
where
    I: Duplex,
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    let tracker = stream.tracker();
    let requests = tracker.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let open = requests.open();
        let request = request.map(|body| RequestBody::http1(body, requests.clone()));
        let answer = call(service.clone(), request);
        async move { Ok::<_, Infallible>(answer.await.map(|body| ResponseBody::http1(body, open))) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        outcome = &mut connection => outcome,
        () = shutdown.cancelled() => {
            tracker.shut_down();
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

async fn serve_http2<I, S, B>(
    stream: ConnectionIo<I>,
    service: S,
    write_timeout: Duration,
    shutdown: CancellationToken,
) -> Result<(), hyper::Error>
where
    I: Duplex,
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    // Pings and resets must not wait behind megabytes of answers in the kernel. The stall of a stream is measured by the
    // data that the kernel accepts.
    stream.limit_unsent_data();
    // Aborts the tasks of the requests when the connection ends.
    let tasks = StreamTasks::default();
    let streams = OpenStreams::default();
    let entered = streams.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (service, streams) = (service.clone(), entered.clone());
        async move {
            let stream = streams.enter();
            let answer = call(service, request.map(RequestBody::http2)).await;
            Ok::<_, Infallible>(answer.map(|body| ResponseBody::http2(body, stream)))
        }
    });
    let connection = http2::Builder::new(tasks.executor())
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
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            return connection.await;
        }
        () = streams.abort_stalled(write_timeout, |task| tasks.abort(task)) => {}
        () = streams.wait_idle(HEAD_TIMEOUT) => {
            connection.as_mut().graceful_shutdown();
            // The client's next request may cross the GOAWAY frame. The connection serves that request. It closes if the
            // client does not answer the GOAWAY.
            tokio::select! {
                outcome = &mut connection => return outcome,
                () = streams.wait_idle(HEAD_TIMEOUT) => return Ok(()),
                () = streams.abort_stalled(write_timeout, |task| tasks.abort(task)) => {}
            }
        }
    }
    tracing::debug!("a connection is closed because its client stopped reading an answer that cannot be reset");
    connection.as_mut().graceful_shutdown();
    // The other requests of the connection get the same time to end. Behind a proxy they belong to other clients.
    timeout(write_timeout, connection).await.unwrap_or(Ok(()))
}
