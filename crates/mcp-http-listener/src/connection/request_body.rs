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
