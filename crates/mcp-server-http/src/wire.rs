//! The bytes of one connection, which waits for no client for ever: for one that stopped reading until a limit, for one
//! that sent a part of a request until the server shuts down, for one that was answered before it had sent all a while.

use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

use crate::linger::Lingering;

/// A stream whose writes fail once nothing could be written for a while. While a client reads nothing, whatever answers it
/// is not polled either, so that no other timer could notice. It lies below TLS, which takes bytes that it has no room to
/// send, and sends them when it is flushed or shut down.
#[derive(Debug)]
pub(crate) struct TimedWrites<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write waits.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedWrites<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, until: None }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.until = None;
            return outcome;
        }
        let limit = self.limit;
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        until.as_mut().poll(cx).map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
    }
}

/// A stream of which the start can be read again, and of which nothing more is read once the server shuts down, while no
/// request is open: what has come by then is no request yet. Its end waits for a client of which a body was cut off.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    /// What was read already, and is read again.
    start: Bytes,
    stream: S,
    traffic: Arc<Traffic>,
    /// Once all is said, and the client is not done.
    lingering: Option<Lingering>,
}

impl<S> Wire<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { start: Bytes::new(), stream, traffic: Arc::default(), lingering: None }
    }

    /// Gives back what was read, before what follows.
    pub(crate) fn rewind(&mut self, start: Bytes) {
        self.start = start;
    }

    pub(crate) fn traffic(&self) -> Arc<Traffic> {
        self.traffic.clone()
    }
}

/// What goes on over a connection.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    requests: AtomicUsize,
    is_ending: AtomicBool,
    /// A body was not read to its end.
    is_cut_off: AtomicBool,
}

impl Traffic {
    /// Counts a request until its answer is written.
    pub(crate) fn open(self: &Arc<Self>) -> OpenRequest {
        self.requests.fetch_add(1, Ordering::AcqRel);
        OpenRequest(self.clone())
    }

    /// No request is begun any more. Whoever polls the connection has to do so once after this.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    /// Notes that a body is not read to its end.
    pub(crate) fn cut_off(&self) {
        self.is_cut_off.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.is_ending.load(Ordering::Acquire) && self.requests.load(Ordering::Acquire) == 0
    }
}

/// A request whose answer is not written yet.
#[derive(Debug)]
pub(crate) struct OpenRequest(Arc<Traffic>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedWrites<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedWrites<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.watch(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.start.is_empty() {
            let count = self.start.len().min(into.remaining());
            into.put_slice(&self.start.split_to(count));
            if self.start.is_empty() {
                // The memory behind it goes with it.
                self.start = Bytes::new();
            }
            return Poll::Ready(Ok(()));
        }
        if self.traffic.is_over() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
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
            if closed.is_err() || !this.traffic.is_cut_off.load(Ordering::Acquire) {
                return Poll::Ready(closed);
            }
        }
        this.lingering.get_or_insert_with(Lingering::new).poll(cx, &mut this.stream).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_fails_when_nobody_reads_and_goes_on_when_somebody_does() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = TimedWrites::new(near, Duration::from_secs(30));
        near.write_all(b"full").await.unwrap();
        let slowly = async {
            let mut read = Vec::new();
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_secs(29)).await;
                read.push(far.read_u8().await.unwrap());
            }
            read
        };
        let (written, read) = tokio::join!(near.write_all(b"more"), slowly);
        written.unwrap();
        assert_eq!(read, b"full");
        let error = near.write_all(b"!").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
