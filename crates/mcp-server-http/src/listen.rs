//! The stream of a legacy session that carries what nobody asked for: notices, and later requests of the server.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::{
    sessions::{HttpSession, Open},
    stream::{Silence, events},
};

/// An open GET stream.
pub(crate) struct Listening {
    session: Arc<HttpSession>,
    number: u64,
    silence: Silence,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
    _open: Open,
}

impl Listening {
    pub(crate) fn new(
        session: Arc<HttpSession>,
        keep_alive: Duration,
        shutdown: WaitForCancellationFutureOwned,
    ) -> Self {
        let number = session.listen();
        // An older stream of this session looks again, sees that it was replaced, and ends.
        session.outbox.wake();
        Self { number, silence: Silence::new(keep_alive), shutdown: Box::pin(shutdown), _open: session.open(), session }
    }

    pub(crate) fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if !this.session.is_listener(this.number) || this.shutdown.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        if let Poll::Ready(messages) = this.session.outbox.poll_take(cx) {
            this.silence.broken();
            return Poll::Ready(messages.map(|messages| events(messages).into()));
        }
        this.silence.poll(cx).map(Some)
    }
}
