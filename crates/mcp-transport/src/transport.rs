//! The traits of transports, their senders and their connectors.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use mcp_protocol::RequestId;

use crate::{Frame, TransportError, TrySendError};

/// A boxed `Send` future: the return type of asynchronous methods in object-safe traits.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A bidirectional channel of [`Frame`]s to one peer. The value itself receives, and [`Transport::sender`] sends.
///
/// After an error a transport may continue: an oversized line loses only itself, and an error of one request
/// ([`TransportError::request`]) ends only that request. So callers receive until `None`.
pub trait Transport: Send + 'static {
    /// Polls for the next inbound frame; `None` after the end. Cancel safe.
    ///
    /// [`recv`] is the same as a future.
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>>;

    /// Returns the sending half. Any task can use it, also after the receiving half is dropped.
    fn sender(&self) -> Arc<dyn FrameSender>;
}

/// The sending half of a [`Transport`].
///
/// The transport itself holds one sender. When the last sender is dropped, the transport closes.
pub trait FrameSender: Send + Sync + 'static {
    /// Waits for capacity in the bounded queue, then queues the frame. If the future is dropped earlier, nothing is
    /// queued.
    ///
    /// # Errors
    /// [`TransportError::is_closed`] when the transport is closed, or the error that ended it. A frame that cannot be
    /// sent on this transport is rejected with a [lasting](TransportError::is_lasting) error, and the transport
    /// continues.
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>>;

    /// Queues the frame without waiting.
    ///
    /// # Errors
    /// Gives the frame back when the queue is full, when the transport is closed, or when the frame cannot be sent on
    /// it.
    fn try_send(&self, frame: Frame) -> Result<(), TrySendError>;

    /// Waits until the queue has capacity for a message of `len` bytes. Another task can use the capacity first, so
    /// [`FrameSender::try_send`] can still fail.
    ///
    /// # Errors
    /// The errors of [`FrameSender::send`].
    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>>;

    /// Ends the stream of a request after its queued frames. Does nothing when requests have no streams.
    fn close(&self, id: &RequestId);

    /// Whether each request has its own stream, as over Streamable HTTP. A client then cancels a request of
    /// 2026-07-28 by closing the stream, and otherwise by a notification. Default: `false`.
    fn has_request_streams(&self) -> bool {
        false
    }

    /// Returns a future that completes when the peer opens its receiving stream. `None` when the peer can receive now.
    /// An HTTP session has no receiving stream until its client opens it.
    fn unread(&self) -> Option<BoxFuture<'_, ()>> {
        None
    }

    /// Rejects further frames, writes the queued frames and closes. The caller sets the timeout: if the future is
    /// dropped, the transport finishes on its own.
    ///
    /// # Errors
    /// The error that prevented the writing of a queued frame.
    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>>;

    /// Returns the last lines that the peer wrote beside its messages, oldest first: the standard error of a child
    /// process. Empty for other transports.
    fn diagnostics(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the maximum time of [`FrameSender::shutdown`], if the transport limits it. A child process for example
    /// is killed after a time. Default: `None`.
    fn shutdown_within(&self) -> Option<Duration> {
        None
    }
}

/// A connector: opens transports to one peer, for the first connection and for each reconnection.
pub trait Connect: Send + Sync + 'static {
    /// Opens a new transport.
    ///
    /// # Errors
    /// The reason why the peer cannot be reached.
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>>;

    /// Returns a short name of the peer for logs and errors. It holds no secrets.
    fn describe(&self) -> String;
}

/// Receives the next inbound frame of a transport; `None` after the end. Cancel safe.
///
/// # Errors
/// See [`Transport::poll_recv`].
pub async fn recv<T: Transport + ?Sized>(transport: &mut T) -> Option<Result<Frame, TransportError>> {
    poll_fn(|cx| transport.poll_recv(cx)).await
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        (**self).poll_recv(cx)
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        (**self).sender()
    }
}
