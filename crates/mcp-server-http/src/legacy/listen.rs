//! One connection that reads one stream of a legacy session: the answer to a call, what nobody asked for, or either again
//! after its connection broke.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use mcp_server_core::ShuttingDown;
use mcp_transport::sse;

use super::{
    event_log::{Place, STANDALONE},
    sessions::{HttpSession, Open},
};
use crate::{
    answer::{body::EventStream, stream::Silence},
    config::HttpConfig,
};

/// An open stream.
pub(crate) struct Listening {
    session: Arc<HttpSession>,
    stream: u32,
    number: u64,
    /// What comes before everything else.
    opening: Option<Bytes>,
    silence: Silence,
    /// Ends a stream that nothing else would end.
    shutdown: Option<ShuttingDown>,
    _open: Open,
}

impl Listening {
    /// Reads a stream from where its last reader stopped.
    pub(crate) fn new(session: Arc<HttpSession>, stream: u32, config: &HttpConfig) -> Self {
        Self::open(session, stream, None, config)
    }

    /// Reads a stream strictly after a place.
    pub(crate) fn after(session: Arc<HttpSession>, place: Place, config: &HttpConfig) -> Self {
        Self::open(session, place.stream, Some(place.seq), config)
    }

    /// The same stream, which ends when this fires.
    pub(crate) fn until(mut self, shutdown: ShuttingDown) -> Self {
        if self.stream == STANDALONE {
            self.shutdown = Some(shutdown);
        }
        self
    }

    fn open(session: Arc<HttpSession>, stream: u32, after: Option<u64>, config: &HttpConfig) -> Self {
        let log = &session.log;
        let is_forgotten = !log.knows(stream);
        let (number, place) = log.attach(stream, after);
        let mut opening = session.session.version().has_sse_polling().then(|| {
            let retry = Duration::max(config.retry_delay, Duration::from_millis(1));
            sse::Event::priming(&log.id(place)).with_retry(retry).encode()
        });
        if is_forgotten && let Some(lost) = log.lost(place) {
            let opened = opening.unwrap_or_default();
            opening = Some([opened, lost].concat().into());
        }
        let open = session.open();
        Self { stream, number, opening, silence: Silence::new(config.keep_alive), shutdown: None, _open: open, session }
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
        if let Poll::Ready(events) = this.session.log.poll_take(this.stream, this.number, cx) {
            this.silence.broken();
            return Poll::Ready(events);
        }
        this.silence.poll(cx).map(Some)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.session.log.detach(self.stream, self.number);
    }
}
