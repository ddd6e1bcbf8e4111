//! A bound for the bytes that a connection reads before its messages are processed.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes that a connection reads ahead. The server closes the connection of a client that stays behind.
const AHEAD: usize = 4 << 20;

/// The count of the bytes that were read ahead.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ahead: usize,
    reader: Option<Waker>,
}

impl Meter {
    /// Lets the connection read again, because all its messages are processed.
    pub(crate) fn reset(&self) {
        let reader = {
            let mut state = self.state.lock();
            state.ahead = 0;
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// A connection that stops reading at the bound of its meter.
pub(crate) struct Metered<S> {
    stream: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    pub(crate) fn new(stream: S) -> (Self, Arc<Meter>) {
        let meter = Arc::new(Meter::default());
        (Self { stream, meter: meter.clone() }, meter)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        {
            let mut state = self.meter.state.lock();
            if state.ahead >= AHEAD {
                state.reader = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.meter.state.lock().ahead += buffer.filled().len() - before;
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn a_connection_reads_no_more_than_the_bound_until_its_messages_are_processed() {
        const ALL: usize = AHEAD * 3;
        let (mut server, client) = duplex(64 << 10);
        let (mut client, meter) = Metered::new(client);
        let writing = tokio::spawn(async move { server.write_all(&vec![7; ALL]).await });
        let (mut chunk, mut total, mut rounds) = (vec![0; 64 << 10], 0, 0);
        while total < ALL {
            let before = total;
            loop {
                let mut read = std::pin::pin!(client.read(&mut chunk));
                let is_full = meter.state.lock().ahead >= AHEAD;
                match poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await {
                    Poll::Ready(len) => total += len.unwrap(),
                    Poll::Pending if is_full || total == ALL => break,
                    Poll::Pending => tokio::task::yield_now().await,
                }
            }
            assert!(total - before <= AHEAD + chunk.len(), "{}", total - before);
            meter.reset();
            rounds += 1;
        }
        writing.await.unwrap().unwrap();
        assert!(rounds >= 2, "{rounds}");
    }
}
