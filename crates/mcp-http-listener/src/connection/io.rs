//! The byte stream of one connection, as hyper sees it.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::{lingering_close::LingeringClose, request_tracker::RequestTracker};
use crate::tcp::Duplex;

/// A stream whose first bytes can be read again, that ends at a shutdown, and whose close waits for the client.
///
/// - At a shutdown the stream ends when no request is open. Bytes that have arrived by then are not a whole head, so the
///   server has not begun to work on them.
/// - The close waits for a bounded time if the client still sends a body.
#[derive(Debug)]
pub(super) struct ConnectionIo<S> {
    /// Bytes that were read already, and that the next reads return.
    prefix: Bytes,
    stream: S,
    tracker: Arc<RequestTracker>,
    /// Set when everything is written and the client still sends.
    lingering: Option<LingeringClose>,
}

impl<S> ConnectionIo<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { prefix: Bytes::new(), stream, tracker: Arc::default(), lingering: None }
    }

    /// Puts bytes back in front of the bytes that follow.
    pub(super) fn rewind(&mut self, prefix: Bytes) {
        self.prefix = prefix;
    }

    pub(super) fn tracker(&self) -> Arc<RequestTracker> {
        self.tracker.clone()
    }
}

impl<S: Duplex> Duplex for ConnectionIo<S> {
    fn socket(&self) -> Option<&TcpStream> {
        self.stream.socket()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ConnectionIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.prefix.is_empty() {
            let count = self.prefix.len().min(into.remaining());
            into.put_slice(&self.prefix.split_to(count));
            if self.prefix.is_empty() {
                // Releases the memory behind the prefix.
                self.prefix = Bytes::new();
            }
            return Poll::Ready(Ok(()));
        }
        if self.tracker.is_finished() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ConnectionIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingering.is_none() {
            let closed = ready!(Pin::new(&mut this.stream).poll_shutdown(cx));
            if closed.is_err() || !this.tracker.has_unread_body() {
                return Poll::Ready(closed);
            }
        }
        this.lingering.get_or_insert_with(LingeringClose::new).poll(cx, &mut this.stream).map(Ok)
    }
}
