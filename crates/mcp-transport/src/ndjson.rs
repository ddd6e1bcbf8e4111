//! Newline-delimited JSON over any reader and writer: one message per line, as on stdio (transports, §stdio).
//!
//! Reading takes up to 64 KiB at a time. A short line is copied out, so that a message kept for long does not keep the
//! buffer it came in; a line of more than 4 KiB is a slice of that buffer, without a copy. Writing happens on a task of
//! its own: what is queued at that moment goes out in one write, and the writer is flushed when nothing is left.

mod lines;
mod writer;

use std::{
    fmt,
    future::pending,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    task::coop,
};

use self::{
    lines::Lines,
    writer::{LineSender, Outbound},
};
use crate::{BoxFuture, Frame, FrameSender, Transport, TransportError};

/// Limits of a connection. Make one with `Options::default()` and change what differs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The longest inbound line, in bytes without its line break. A longer one is skipped and reported. 16 MiB.
    pub max_line: usize,
    /// How many outbound messages may wait for the writer. 1,024.
    pub queue_frames: usize,
    /// How many bytes may wait for the writer. A longer message waits until it is alone. 16 MiB.
    pub queue_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_line: 16 << 20, queue_frames: 1024, queue_bytes: 16 << 20 }
    }
}

/// A transport that reads and writes one message per line. Routes and hints do not travel.
///
/// A line break in a message that is sent, which JSON allows between values, travels as a space.
///
/// Blank lines are skipped, `\r\n` ends a line too, and the last line needs no line break. After an
/// [`io`](TransportError::is_io) error nothing more comes; after a [too large](TransportError::is_too_large) one the next
/// line does.
pub struct Ndjson<R> {
    reader: R,
    lines: Lines,
    ended: bool,
    sender: Arc<LineSender>,
    /// Completes when the writer has failed. `None` when reading continues after that.
    writer_failed: Option<BoxFuture<'static, ()>>,
}

impl<R: AsyncRead + Unpin + Send + 'static> Ndjson<R> {
    /// A transport over this reader and this writer, with the default [`Options`].
    ///
    /// # Panics
    /// Outside of a tokio runtime: the writer gets a task.
    pub fn new<W: AsyncWrite + Unpin + Send + 'static>(reader: R, writer: W) -> Self {
        Self::with_options(reader, writer, &Options::default())
    }

    /// A transport with these limits. Zero counts as one.
    ///
    /// # Panics
    /// Outside of a tokio runtime: the writer gets a task.
    pub fn with_options<W: AsyncWrite + Unpin + Send + 'static>(reader: R, writer: W, options: &Options) -> Self {
        let sender = LineSender::spawn(Arc::new(Outbound::new(options)), writer, Box::pin(pending()));
        Self::of(reader, sender, options)
    }

    /// Returns a transport that also ends when writing has failed, or when `output_closed` completes.
    pub(crate) fn until_output_closed<W: AsyncWrite + Unpin + Send + 'static>(
        reader: R,
        writer: W,
        output_closed: BoxFuture<'static, ()>,
        options: &Options,
    ) -> Self {
        let sender = LineSender::spawn(Arc::new(Outbound::new(options)), writer, output_closed);
        let writer_failed = sender.failed();
        Self { writer_failed: Some(Box::pin(writer_failed)), ..Self::of(reader, sender, options) }
    }

    fn of(reader: R, sender: LineSender, options: &Options) -> Self {
        let lines = Lines::new(options.max_line.max(1));
        Self { reader, lines, ended: false, sender: Arc::new(sender), writer_failed: None }
    }

    fn poll_writer_failed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(failed) = &mut self.writer_failed else { return Poll::Pending };
        ready!(failed.as_mut().poll(cx));
        self.writer_failed = None;
        Poll::Ready(())
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> Transport for Ndjson<R> {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        loop {
            let budget = ready!(coop::poll_proceed(cx));
            if let Some(line) = self.lines.next() {
                budget.made_progress();
                return Poll::Ready(Some(line.map(Frame::new)));
            }
            if self.ended {
                return Poll::Ready(self.lines.last().map(|line| Ok(Frame::new(line))));
            }
            // The future keeps nothing between polls, so that a new one may be made each time.
            let read = match pin!(self.reader.read_buf(self.lines.room())).poll(cx) {
                Poll::Ready(read) => read,
                Poll::Pending => {
                    ready!(self.poll_writer_failed(cx));
                    self.lines.clear();
                    Ok(0)
                }
            };
            match read {
                Ok(0) => self.ended = true,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    self.lines.clear();
                    return Poll::Ready(Some(Err(error.into())));
                }
            }
            budget.made_progress();
        }
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.sender.clone()
    }
}

impl<R> fmt::Debug for Ndjson<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ndjson").field("ended", &self.ended).finish_non_exhaustive()
    }
}
