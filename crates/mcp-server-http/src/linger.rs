//! The end of a connection whose client was answered before all of its request had come.
//!
//! Closed at once, the connection is reset by what still comes, and the client loses the answer that says why. So what
//! comes is read and thrown away for a while: a client that sends all of a body before it reads gets to its answer.

use std::{
    future::Future,
    mem::MaybeUninit,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Instant, Sleep},
};

use crate::wire::Traffic;

/// How long a client may pause, and how long it may take in all.
const PAUSE: Duration = Duration::from_secs(2);
const TIME: Duration = Duration::from_secs(20);

/// How many bytes are thrown away.
const BYTES: usize = 64 << 20;

/// So many of them at once.
const PIECE: usize = 8 << 10;

/// Reads and throws away what still comes.
#[derive(Debug)]
pub(crate) struct Lingering {
    left: usize,
    end: Instant,
    pause: Pin<Box<Sleep>>,
}

impl Lingering {
    pub(crate) fn new() -> Self {
        Self { left: BYTES, end: Instant::now() + TIME, pause: Box::pin(tokio::time::sleep(PAUSE)) }
    }

    /// Ready when the client has closed, or has had its time.
    pub(crate) fn poll<S: AsyncRead + Unpin>(&mut self, cx: &mut Context<'_>, stream: &mut S) -> Poll<()> {
        let mut room = [MaybeUninit::<u8>::uninit(); PIECE];
        // Others have their turn in between, since the stream takes part in tokio's budget.
        while self.left > 0 {
            let mut piece = ReadBuf::uninit(&mut room);
            if let Poll::Ready(read) = Pin::new(&mut *stream).poll_read(cx, &mut piece) {
                let count = piece.filled().len();
                if read.is_err() || count == 0 {
                    return Poll::Ready(());
                }
                self.left = self.left.saturating_sub(count);
                self.pause.as_mut().reset(self.end.min(Instant::now() + PAUSE));
                continue;
            }
            return self.pause.as_mut().poll(cx);
        }
        Poll::Ready(())
    }
}

/// The body of a request that notes when it is given up before its end.
#[derive(Debug)]
pub(crate) struct Watched<B: HttpBody> {
    body: B,
    is_over: bool,
    traffic: Arc<Traffic>,
}

impl<B: HttpBody> Watched<B> {
    pub(crate) fn new(body: B, traffic: Arc<Traffic>) -> Self {
        Self { body, is_over: false, traffic }
    }
}

impl<B: HttpBody> Drop for Watched<B> {
    fn drop(&mut self) {
        if !self.is_over && !self.body.is_end_stream() {
            self.traffic.cut_off();
        }
    }
}

impl<B: HttpBody + Unpin> HttpBody for Watched<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.is_over |= !matches!(frame, Some(Ok(_)));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
