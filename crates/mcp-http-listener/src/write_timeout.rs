//! A stream whose writes fail when the client stops reading.

use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

use crate::tcp::Duplex;

/// A stream whose writes fail after the client has received no bytes for a time limit.
///
/// While a client reads nothing, hyper does not poll the response body, so no timer inside the body could fire. The
/// timer has to lie below TLS: a TLS stream buffers bytes that the socket does not accept, and sends them on flush or
/// shutdown.
///
/// A kernel may buffer megabytes of an answer and accept more only when a third of them is sent. A slow reader would
/// look stalled for minutes. Therefore a write that waits also checks how many bytes the client has acknowledged.
#[derive(Debug)]
pub(crate) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// The state of a write that waits.
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// Fires at the next check.
    timer: Pin<Box<Sleep>>,
    /// When the write fails, unless the client acknowledges more bytes.
    deadline: Instant,
    acknowledged: Option<u64>,
}

impl<S: Duplex> WriteTimeout<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, waiting: None }
    }

    /// Starts the timer when a write waits, and stops it when the write completes.
    fn with_limit<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        // A stalled client is detected at most one interval late.
        let interval = (self.limit / 8).max(Duration::from_millis(1));
        let waiting = self.waiting.get_or_insert_with(|| {
            let (acknowledged, now) = (self.stream.acknowledged(), Instant::now());
            let next = if acknowledged.is_some() { interval.min(self.limit) } else { self.limit };
            Waiting { timer: Box::pin(sleep(next)), deadline: now + self.limit, acknowledged }
        });
        loop {
            ready!(waiting.timer.as_mut().poll(cx));
            let (acknowledged, now) = (self.stream.acknowledged(), Instant::now());
            if waiting.acknowledged != acknowledged {
                waiting.acknowledged = acknowledged;
                waiting.deadline = now + self.limit;
            } else if now >= waiting.deadline {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")));
            }
            waiting.timer.as_mut().reset(waiting.deadline.min(now + interval));
        }
    }
}

impl<S: Duplex> Duplex for WriteTimeout<S> {
    fn socket(&self) -> Option<&TcpStream> {
        self.stream.socket()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: Duplex> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.with_limit(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.with_limit(cx, outcome)
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

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A stream whose kernel accepts no bytes, and reports how many bytes the client has acknowledged.
    #[derive(Default)]
    struct FullStream {
        acknowledged: Arc<AtomicU64>,
    }

    impl Duplex for FullStream {
        fn socket(&self) -> Option<&TcpStream> {
            None
        }

        fn acknowledged(&self) -> Option<u64> {
            Some(self.acknowledged.load(Ordering::Relaxed))
        }
    }

    impl AsyncRead for FullStream {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for FullStream {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Pending
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// The kernel of the server buffers megabytes of an answer, so the space in that buffer does not measure progress.
    #[tokio::test(start_paused = true)]
    async fn a_full_stream_is_stalled_only_if_the_client_acknowledges_no_bytes() {
        let limit = Duration::from_secs(32);
        let stream = FullStream::default();
        let acknowledged = stream.acknowledged.clone();
        let mut stream = WriteTimeout::new(stream, limit);
        let start = Instant::now();
        let slow_reader = async {
            for _ in 0..10 {
                sleep(limit - Duration::from_secs(1)).await;
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            start.elapsed()
        };
        let (written, last_read) = tokio::join!(stream.write_all(b"x"), slow_reader);
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let late = start.elapsed() - last_read - limit;
        assert!(late <= limit / 8, "{late:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn each_byte_that_the_client_reads_restarts_the_timeout() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = WriteTimeout::new(near, Duration::from_secs(30));
        near.write_all(b"full").await.unwrap();
        let slow_reader = async {
            let mut read = Vec::new();
            for _ in 0..4 {
                sleep(Duration::from_secs(29)).await;
                read.push(far.read_u8().await.unwrap());
            }
            read
        };
        let (written, read) = tokio::join!(near.write_all(b"more"), slow_reader);
        written.unwrap();
        assert_eq!(read, b"full");
        let error = near.write_all(b"!").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
