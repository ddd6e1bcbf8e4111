//! The traits: a transport, its sending half, and a factory that opens transports.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use mcp_protocol::RequestId;

use crate::{Frame, TransportError, TrySendError};

/// A boxed future that may move between threads: what the methods of an object-safe asynchronous trait return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A bidirectional channel of [`Frame`]s to one peer. The value itself receives; [`Transport::sender`] sends.
///
/// A transport may refuse to carry on after an error, or go on (a line that is too long loses only itself; a fault that
/// names its request, [`TransportError::request`], ends only that request): callers receive until `None`.
pub trait Transport: Send + 'static {
    /// The next inbound frame; `None` after the end. Nothing is lost when the caller stops polling.
    ///
    /// [`recv`] makes a future of it.
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>>;

    /// The sending half: clonable, usable from any task, and alive after the receiving half is dropped.
    fn sender(&self) -> Arc<dyn FrameSender>;
}

/// The sending half of a [`Transport`].
///
/// When the last one of a transport is dropped (the transport itself holds one), the transport closes.
pub trait FrameSender: Send + Sync + 'static {
    /// Waits for room in the bounded queue, then queues the frame. Dropping the future before it is ready queues nothing.
    ///
    /// # Errors
    /// [`TransportError::is_closed`] when the transport is closed, and the fault that ended it when there was one. A frame that
    /// cannot travel on this transport is refused by a [lasting](TransportError::is_lasting) fault: the transport goes on.
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>>;

    /// Queues the frame without waiting.
    ///
    /// # Errors
    /// Gives the frame back when there is no room, when the transport is closed, or when the frame cannot travel on it.
    fn try_send(&self, frame: Frame) -> Result<(), TrySendError>;

    /// Waits until a message of `len` bytes may fit. Somebody else may be faster, so [`FrameSender::try_send`] can still find
    /// no room.
    ///
    /// # Errors
    /// As for [`FrameSender::send`].
    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>>;

    /// Ends the stream of one request, after what is queued for it. Does nothing where requests have no stream.
    fn close(&self, id: &RequestId);

    /// Whether each request has a stream of its own, as over Streamable HTTP: closing it is how a client cancels a request
    /// of 2026-07-28. Where there is one stream for everything, which is the default, a notice says so.
    fn has_request_streams(&self) -> bool {
        false
    }

    /// Where nobody reads what is sent for now, a future that resolves once somebody does: the stream of an HTTP session
    /// that its client has not opened. `None` while there is a reader, and always where one is part of the connection.
    fn unread(&self) -> Option<BoxFuture<'_, ()>> {
        None
    }

    /// Takes no more frames, hands what is queued to the system, and closes. The caller sets the bound: dropping the
    /// future leaves the transport to finish or to give up by itself.
    ///
    /// # Errors
    /// The fault that kept a queued frame from being written.
    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>>;

    /// Returns the last lines that the peer wrote to its standard error, oldest first. Empty for transports without a process.
    fn stderr(&self) -> Vec<String> {
        Vec::new()
    }

    /// How long [`FrameSender::shutdown`] takes at most, where the transport bounds that by itself: a child process has its time
    /// to end, and is made to. `None`, the default, where only the caller does.
    fn shutdown_within(&self) -> Option<Duration> {
        None
    }
}

/// Opens transports to one peer, as often as asked: what reconnection needs.
pub trait Connect: Send + Sync + 'static {
    /// Opens a fresh transport.
    ///
    /// # Errors
    /// Why the peer could not be reached.
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>>;

    /// A short name of the peer for logs and errors. It holds no secrets.
    fn describe(&self) -> String;
}

/// The next inbound frame of a transport; `None` after the end. Cancel safe.
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
