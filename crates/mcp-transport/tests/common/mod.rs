//! Readers and writers with special behaviour.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A reader that returns some bytes, and then the error of a reset connection.
pub(crate) struct Broken(Option<&'static [u8]>);

impl Broken {
    pub(crate) fn after(bytes: &'static [u8]) -> Self {
        Self(Some(bytes))
    }
}

impl AsyncRead for Broken {
    fn poll_read(mut self: Pin<&mut Self>, _cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.0.take() {
            Some(bytes) => {
                buf.put_slice(bytes);
                Ok(())
            }
            None => Err(io::ErrorKind::ConnectionReset.into()),
        })
    }
}

/// A writer that counts the calls.
pub(crate) struct Counting<W>(W, Arc<Counts>);

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) writes: AtomicUsize,
    pub(crate) flushes: AtomicUsize,
}

impl<W> Counting<W> {
    pub(crate) fn new(inner: W) -> (Self, Arc<Counts>) {
        let counts = Arc::<Counts>::default();
        (Self(inner, counts.clone()), counts)
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Counting<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.1.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.1.flushes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A writer with a defect.
pub(crate) struct Panicking;

impl AsyncWrite for Panicking {
    fn poll_write(self: Pin<&mut Self>, _cx: &mut Context<'_>, _buf: &[u8]) -> Poll<io::Result<usize>> {
        panic!("a defect in the writer")
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
