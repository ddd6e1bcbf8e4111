//! A connection that reads one stream of a session: the stream of a call, or the standalone stream. The client may resume
//! either after its connection broke.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use mcp_protocol::{RequestId, RpcError};
use mcp_server_core::{ShuttingDown, engine::Reply};
use mcp_transport::sse;
use tokio::time::Instant;

use super::{
    event_log::{Failure, Place, STANDALONE},
    sessions::{HttpSession, Open},
};
use crate::{
    answer::{
        body::EventStream,
        stream::{KeepAlive, StreamEnd},
    },
    config::HttpConfig,
};

/// A reader of a stream.
pub(crate) struct Listening {
    session: Arc<HttpSession>,
    stream: u64,
    number: u64,
    /// The request whose stream this is, if the connection is its response.
    request: Option<RequestId>,
    /// The first event of the connection.
    opening: Option<Bytes>,
    keep_alive: KeepAlive,
    /// Ends the standalone stream at a shutdown, because nothing else ends it.
    shutdown: Option<ShuttingDown>,
    /// Ends the connection with the authentication of its client. The client resumes the stream with fresh credentials.
    end: StreamEnd,
    _open: Open,
}

impl Listening {
    /// Reads a stream from the position where its last reader stopped.
    pub(crate) fn new(session: Arc<HttpSession>, stream: u64, config: &HttpConfig) -> Self {
        Self::open(session, stream, None, config)
    }

    /// Reads a stream after a position.
    pub(crate) fn after(session: Arc<HttpSession>, place: Place, config: &HttpConfig) -> Self {
        Self::open(session, place.stream, Some(place.seq), config)
    }

    /// Sets the request that the connection answers.
    pub(crate) fn answering(mut self, request: Option<RequestId>) -> Self {
        self.request = request;
        self
    }

    /// Ends the standalone stream when `shutdown` completes.
    pub(crate) fn end_at_shutdown(mut self, shutdown: ShuttingDown) -> Self {
        if self.stream == STANDALONE {
            self.shutdown = Some(shutdown);
        }
        self
    }

    /// Ends the connection at this time.
    pub(crate) fn end_at(mut self, end: Option<Instant>) -> Self {
        self.end = StreamEnd::at(end);
        self
    }

    fn open(session: Arc<HttpSession>, stream: u64, after: Option<u64>, config: &HttpConfig) -> Self {
        let log = &session.log;
        let is_removed = !log.knows(stream) && !log.has_failed(stream);
        let (number, place) = log.attach(stream, after);
        // The first event of a shared stream is in the log, because its position is known when the store has it.
        let mut opening = (session.session.version().has_sse_polling() && !log.is_shared()).then(|| {
            let retry = Duration::max(config.retry_delay, Duration::from_millis(1));
            sse::Event::priming(&log.id(place)).with_retry(retry).encode()
        });
        if is_removed && let Some(lost) = log.lost(place) {
            let opened = opening.unwrap_or_default();
            opening = Some([opened, lost].concat().into());
        }
        let open = session.open();
        Self {
            stream,
            number,
            request: None,
            opening,
            keep_alive: KeepAlive::new(config.keep_alive),
            shutdown: None,
            end: StreamEnd::default(),
            _open: open,
            session,
        }
    }

    /// Returns the last event of a call whose client cannot resume its stream: an error without an event id.
    fn error(&mut self) -> Option<Bytes> {
        let (text, is_retryable) = match self.session.log.failure(self.stream, self.number)? {
            Failure::Cancelled => ("the call was cancelled, because the shared store did not take its messages", true),
            Failure::ResponseLost => ("the response is lost, because the shared store did not take it", false),
        };
        self.session.log.detach(self.stream, self.number);
        let data = serde_json::json!({ "reason": "store_unavailable", "retryable": is_retryable });
        let reply = Reply::error(self.request.as_ref(), &RpcError::internal(text).with_data(data));
        Some(sse::Event::new(&reply.payload.into_bytes()).with_event("message").encode())
    }
}

impl EventStream for Listening {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if let Some(opening) = this.opening.take() {
            return Poll::Ready(Some(opening));
        }
        if let Some(shutdown) = &mut this.shutdown
            && Pin::new(shutdown).poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        if this.end.poll_over(cx) {
            return Poll::Ready(None);
        }
        if let Poll::Ready(events) = this.session.log.poll_take(this.stream, this.number, cx) {
            this.keep_alive.restart();
            return Poll::Ready(events.or_else(|| this.error()));
        }
        this.keep_alive.poll(cx).map(Some)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.session.log.detach(self.stream, self.number);
    }
}
