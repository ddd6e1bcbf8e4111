//! Readers and writers with special behaviour.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc, Mutex,
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

/// The address and the length of each slice that a writer received.
pub(crate) type Received = Arc<Mutex<Vec<(usize, usize)>>>;

/// A writer that records the slices of each write. It writes all of them at once.
pub(crate) struct Slices(Received);

impl Slices {
    pub(crate) fn new() -> (Self, Received) {
        let received = Received::default();
        (Self(received.clone()), received)
    }
}

impl AsyncWrite for Slices {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().extend(slices.iter().map(|slice| (slice.as_ptr().addr(), slice.len())));
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
