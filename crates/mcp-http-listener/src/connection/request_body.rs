//! The body of a request.

use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::request_tracker::RequestTracker;

/// The body of a request that the listener received.
///
/// If the service drops the body before its end, an HTTP/1.1 connection closes after the answer. The listener then
/// discards what the client still sends, for a bounded time, so that the client can read the answer.
///
/// A service that returns the body of the request:
///
/// ```
/// use std::{convert::Infallible, future::IntoFuture};
///
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::{BodyExt, Full};
/// use mcp_http_listener::{RequestBody, serve};
/// use tokio::{
///     io::{AsyncReadExt, AsyncWriteExt},
///     net::{TcpListener, TcpStream},
/// };
///
/// async fn echo(request: Request<RequestBody>) -> Result<Response<Full<Bytes>>, Infallible> {
///     let body = request.into_body().collect().await.map(|body| body.to_bytes());
///     Ok(Response::new(Full::new(body.unwrap_or_else(|_| "incomplete".into()))))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), std::io::Error> {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let mut client = TcpStream::connect(listener.local_addr()?).await?;
/// tokio::spawn(serve(listener, tower::service_fn(echo)).into_future());
///
/// client.write_all(b"POST / HTTP/1.0\r\nContent-Length: 6\r\n\r\nHello!").await?;
/// let mut response = String::new();
/// client.read_to_string(&mut response).await?;
/// assert!(response.ends_with("\r\n\r\nHello!"), "{response}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RequestBody {
    body: Incoming,
    is_finished: bool,
    /// The connection of an HTTP/1.1 request.
    tracker: Option<Arc<RequestTracker>>,
}

impl RequestBody {
    pub(super) fn http1(body: Incoming, tracker: Arc<RequestTracker>) -> Self {
        Self { body, is_finished: false, tracker: Some(tracker) }
    }

    pub(super) fn http2(body: Incoming) -> Self {
        Self { body, is_finished: false, tracker: None }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(tracker) = &self.tracker
            && !self.is_finished
            && !self.body.is_end_stream()
        {
            tracker.set_unread_body();
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.is_finished |= !matches!(frame, Some(Ok(_)));
        Poll::Ready(frame.map(|frame| frame.map_err(RequestBodyError)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The error of a request body that the client did not send completely, or that violates HTTP.
///
/// The client sends a malformed chunk:
///
/// ```
/// use std::{convert::Infallible, future::IntoFuture};
///
/// use http::{Request, Response, StatusCode};
/// use http_body_util::{BodyExt, Empty};
/// use mcp_http_listener::{RequestBody, RequestBodyError, serve};
/// use tokio::{
///     io::{AsyncReadExt, AsyncWriteExt},
///     net::{TcpListener, TcpStream},
/// };
///
/// fn status(error: &RequestBodyError) -> StatusCode {
///     tracing::debug!(%error, "the body is invalid");
///     StatusCode::BAD_REQUEST
/// }
///
/// async fn discard(request: Request<RequestBody>) -> Result<Response<Empty<bytes::Bytes>>, Infallible> {
///     let body = request.into_body().collect().await;
///     let mut response = Response::new(Empty::new());
///     *response.status_mut() = body.map_or_else(|error| status(&error), |_| StatusCode::OK);
///     Ok(response)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), std::io::Error> {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let mut client = TcpStream::connect(listener.local_addr()?).await?;
/// tokio::spawn(serve(listener, tower::service_fn(discard)).into_future());
///
/// client.write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n").await?;
/// let mut response = String::new();
/// client.read_to_string(&mut response).await?;
/// assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RequestBodyError(hyper::Error);

impl fmt::Display for RequestBodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for RequestBodyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
