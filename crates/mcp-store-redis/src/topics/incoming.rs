//! The received messages of a connection.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;
use redis::{Msg, aio::PubSubStream};
use tokio::task::unconstrained;

use crate::meter::Meter;

/// The received messages. The queue of the connection is unbounded, so the meter bounds the bytes that it reads.
pub(super) struct Incoming {
    pub(super) stream: PubSubStream,
    pub(super) meter: Arc<Meter>,
}

impl Incoming {
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Msg>> {
        let message = Pin::new(&mut self.stream).poll_next(context);
        if message.is_pending() {
            // The caller is unconstrained, so the queue is empty.
            self.meter.reset();
        }
        message
    }

    /// Returns the next message that has arrived already, without a wait and without a yield to other tasks.
    pub(super) async fn ready(&mut self) -> Option<Msg> {
        unconstrained(poll_fn(|context| match self.poll(context) {
            Poll::Ready(message) => Poll::Ready(message),
            Poll::Pending => Poll::Ready(None),
        }))
        .await
    }
}
