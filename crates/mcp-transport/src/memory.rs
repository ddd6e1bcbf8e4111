//! A pair of connected transports in memory. Frames move with their routes and hints.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};

use mcp_protocol::RequestId;
use tokio::task::coop;

use crate::{
    BoxFuture, Frame, FrameSender, Transport, TransportError, TrySendError,
    queue::{Queue, TryPushError},
};

/// Returns two connected transports. Each direction queues up to `capacity` frames (at least one).
///
/// ```
/// use mcp_transport::{Frame, Transport, memory::duplex, recv};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_transport::TransportError> {
/// let (mut client, mut server) = duplex(16);
/// client.sender().send(Frame::new("request")).await?;
/// assert_eq!(recv(&mut server).await.unwrap()?.message, "request");
/// server.sender().send(Frame::new("response")).await?;
/// assert_eq!(recv(&mut client).await.unwrap()?.message, "response");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn duplex(capacity: usize) -> (MemoryTransport, MemoryTransport) {
    let capacity = u32::try_from(capacity).unwrap_or(MAX_CAPACITY).min(MAX_CAPACITY);
    let (there, back) = (Arc::new(Queue::new(capacity)), Arc::new(Queue::new(capacity)));
    (MemoryTransport::new(Arc::clone(&back), Arc::clone(&there)), MemoryTransport::new(there, back))
}

/// One end of [`duplex`].
///
/// After this end is dropped, frames of the peer are rejected. The peer reads the end of the stream when the senders
/// of this end are dropped too.
///
/// ```
/// use mcp_transport::{
///     Frame, Transport,
///     memory::{MemoryTransport, duplex},
///     recv,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_transport::TransportError> {
/// let (client, mut server): (MemoryTransport, MemoryTransport) = duplex(16);
/// let sender = server.sender();
/// drop(client);
/// assert!(sender.send(Frame::new("response")).await.unwrap_err().is_closed());
/// assert!(recv(&mut server).await.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MemoryTransport {
    inbound: Arc<Queue<Frame>>,
    sender: Arc<MemorySender>,
}

/// More frames than fit into memory, and less than the maximum of a semaphore.
const MAX_CAPACITY: u32 = 1 << 28;

impl MemoryTransport {
    fn new(inbound: Arc<Queue<Frame>>, outbound: Arc<Queue<Frame>>) -> Self {
        Self { inbound, sender: Arc::new(MemorySender { outbound }) }
    }
}

impl Transport for MemoryTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        let budget = ready!(coop::poll_proceed(cx));
        let frame = ready!(self.inbound.poll_pop(cx));
        budget.made_progress();
        Poll::Ready(frame.map(Ok))
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.sender.clone()
    }
}

impl Drop for MemoryTransport {
    fn drop(&mut self) {
        self.inbound.abort(TransportError::closed());
    }
}

#[derive(Debug)]
struct MemorySender {
    outbound: Arc<Queue<Frame>>,
}

impl FrameSender for MemorySender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(self.outbound.push(1, frame))
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        self.outbound.try_push(1, frame).map_err(|error| match error {
            TryPushError::Full(frame) => TrySendError::Full(frame),
            TryPushError::Closed(frame) => TrySendError::Closed(frame),
        })
    }

    fn ready(&self, _len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(self.outbound.ready(1))
    }

    fn close(&self, _id: &RequestId) {}

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        self.outbound.close(TransportError::closed());
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Drop for MemorySender {
    fn drop(&mut self) {
        self.outbound.close(TransportError::closed());
    }
}
