//! The connection for topics: its start, its received messages, and the check that the server responds.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_core::Stream;
use mcp_store::StoreError;
use redis::{
    Msg,
    aio::{PubSub, PubSubSink, PubSubStream},
};
use tokio::{
    task::unconstrained,
    time::{sleep, timeout},
};

use crate::{
    dial::Dialer,
    link::{HEARTBEAT, connect_error},
    meter::{Meter, Metered},
};

/// The received messages. The queue of the connection is unbounded, so the meter bounds the bytes that it reads.
pub(super) struct Incoming {
    stream: PubSubStream,
    meter: Arc<Meter>,
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

/// Connects to the server, within the time limit.
pub(super) async fn connect(dialer: &Dialer) -> Result<(PubSubSink, Incoming), StoreError> {
    let attempt = async {
        let stream = dialer.open().await?;
        let (stream, meter) = Metered::new(stream);
        let (sink, stream) =
            PubSub::new(&dialer.info, stream).await.map_err(|error| connect_error(dialer, error))?.split();
        Ok((sink, Incoming { stream, meter }))
    };
    dialer.in_time(attempt).await
}

/// Returns when the server does not respond in time.
pub(super) async fn heartbeat(mut sink: PubSubSink, limit: Duration) {
    loop {
        sleep(HEARTBEAT).await;
        if !matches!(timeout(limit, sink.ping::<redis::Value>()).await, Ok(Ok(_))) {
            return;
        }
    }
}
