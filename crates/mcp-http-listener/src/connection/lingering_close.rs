//! The end of a connection whose client received an answer before it had sent its whole request.
//!
//! If the server closed such a connection at once, the bytes that still arrive would reset it, and the client would lose
//! the answer. So the server discards what arrives for a bounded time. A client that sends a whole body before it reads
//! then receives the answer.

use std::{
    future::Future,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Instant, Sleep},
};

/// The longest pause of a client, and the longest time in all.
const PAUSE: Duration = Duration::from_secs(2);
const TOTAL: Duration = Duration::from_secs(20);

/// The most bytes that the server discards.
const BYTES: usize = 64 << 20;

/// The bytes of one read.
const PIECE: usize = 8 << 10;

/// Reads and discards what a client still sends.
#[derive(Debug)]
pub(super) struct LingeringClose {
    bytes_left: usize,
    end: Instant,
    pause: Pin<Box<Sleep>>,
}

impl LingeringClose {
    pub(super) fn new() -> Self {
        Self { bytes_left: BYTES, end: Instant::now() + TOTAL, pause: Box::pin(tokio::time::sleep(PAUSE)) }
    }

    /// Completes when the client has closed its side, or when a limit is reached.
    pub(super) fn poll<S: AsyncRead + Unpin>(&mut self, cx: &mut Context<'_>, stream: &mut S) -> Poll<()> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); PIECE];
        // The stream takes part in tokio's budget, so this loop yields to other tasks.
        while self.bytes_left > 0 {
            let mut piece = ReadBuf::uninit(&mut buffer);
            if let Poll::Ready(read) = Pin::new(&mut *stream).poll_read(cx, &mut piece) {
                let count = piece.filled().len();
                if read.is_err() || count == 0 {
                    return Poll::Ready(());
                }
                self.bytes_left = self.bytes_left.saturating_sub(count);
                self.pause.as_mut().reset(self.end.min(Instant::now() + PAUSE));
                continue;
            }
            return self.pause.as_mut().poll(cx);
        }
        Poll::Ready(())
    }
}
