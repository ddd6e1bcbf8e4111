//! The time of the last evidence that the peer of a connection responds.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

/// The time of the last activity of a peer.
#[derive(Debug)]
pub(crate) struct Activity(Mutex<Instant>);

impl Activity {
    pub(crate) fn last(&self) -> Instant {
        *self.0.lock()
    }

    fn note(&self) {
        *self.0.lock() = Instant::now();
    }
}

/// A connection that notes the activity of its peer: received bytes, and sent bytes for which the peer has made space.
pub(crate) struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
    /// The last write filled the buffer of the connection.
    is_full: bool,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S) -> (Self, Arc<Activity>) {
        let activity = Arc::new(Activity(Mutex::new(Instant::now())));
        (Self { stream, activity: activity.clone(), is_full: false }, activity)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.note();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let len = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        // A write into free space is no evidence: the system accepts it without a peer too.
        if self.is_full && len > 0 {
            self.activity.note();
        }
        self.is_full = len < bytes.len();
        Poll::Ready(Ok(len))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
