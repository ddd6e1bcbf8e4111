//! Newline-delimited JSON over any reader and writer: one message per line, as on stdio (transports, §stdio).
//!
//! A read takes up to 64 KiB. A short line is copied, so that a message does not keep its read buffer alive. A line
//! of more than 4 KiB is a slice of the buffer. A separate task writes: it combines the queued messages into one
//! write, and flushes when the queue is empty. The pieces of a long message are written without a copy.

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

/// The messages that are ready at once after which the reader lets other tasks run. The peer then receives the first answers while
/// this process handles the other messages. With a longer turn, both processes would work in turns.
const TURN: usize = 8;

/// Limits of a connection.
///
/// # Example
/// ```
/// use mcp_transport::ndjson::Options;
///
/// let options = Options::default().max_line(1 << 20).queue_frames(64);
/// assert_eq!((options.max_line, options.queue_frames), (1 << 20, 64));
/// let options = options.queue_bytes(1 << 20);
/// assert_eq!(options.queue_bytes, 1 << 20);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The maximum bytes of an inbound line without its line break. A longer line is skipped and reported. Default:
    /// 16 MiB.
    pub max_line: usize,
    /// The maximum number of queued outbound messages. Default: 1,024.
    pub queue_frames: usize,
    /// The maximum bytes of queued outbound messages. A longer message is queued alone. Default: 16 MiB.
    pub queue_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_line: 16 << 20, queue_frames: 1024, queue_bytes: 16 << 20 }
    }
}

impl Options {
    /// Sets the maximum bytes of an inbound line without its line break.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn max_line(mut self, max_line: usize) -> Self {
        self.max_line = max_line;
        self
    }

    /// Sets the maximum number of queued outbound messages.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn queue_frames(mut self, queue_frames: usize) -> Self {
        self.queue_frames = queue_frames;
        self
    }

    /// Sets the maximum bytes of queued outbound messages.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn queue_bytes(mut self, queue_bytes: usize) -> Self {
        self.queue_bytes = queue_bytes;
        self
    }
}

/// A transport that reads and writes one message per line. It does not transmit routes and hints.
///
/// A line break between the values of an outbound message is written as a space. Inbound lines may end with `\r\n`,
/// blank lines are skipped, and the last line needs no line break.
///
/// After an [`io`](TransportError::is_io) error the transport ends. After a [too large](TransportError::is_too_large)
/// error it continues with the next line.
///
/// ```
/// use mcp_transport::{Frame, Transport, ndjson::Ndjson, recv};
/// use tokio::io::AsyncReadExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let input = &b"{\"id\":1}\r\n\n{\"id\":2}"[..];
/// let (output, mut written) = tokio::io::duplex(64);
/// let mut transport = Ndjson::new(input, output);
/// assert_eq!(recv(&mut transport).await.unwrap()?.message, r#"{"id":1}"#);
/// assert_eq!(recv(&mut transport).await.unwrap()?.message, r#"{"id":2}"#);
/// assert!(recv(&mut transport).await.is_none());
///
/// let sender = transport.sender();
/// sender.send(Frame::new("{\n}")).await?;
/// sender.shutdown().await?;
/// let mut text = String::new();
/// drop((sender, transport));
/// written.read_to_string(&mut text).await?;
/// assert_eq!(text, "{ }\n");
/// # Ok(())
/// # }
/// ```
pub struct Ndjson<R> {
    reader: R,
    lines: Lines,
    /// The messages since the reader last let other tasks run.
    in_turn: usize,
    ended: bool,
    sender: Arc<LineSender>,
    /// Completes when the writer has failed, which then ends the transport. `None` when reading continues after that.
    writer_failed: Option<BoxFuture<'static, ()>>,
}

impl<R: AsyncRead + Unpin + Send + 'static> Ndjson<R> {
    /// Returns a transport over a reader and a writer, with the default [`Options`].
    ///
    /// # Panics
    /// Outside of a tokio runtime, because the writer runs in a task.
    pub fn new<W: AsyncWrite + Unpin + Send + 'static>(reader: R, writer: W) -> Self {
        Self::with_options(reader, writer, &Options::default())
    }

    /// Returns a transport over a reader and a writer with these limits. Zero counts as one.
    ///
    /// ```
    /// use mcp_transport::{
    ///     ndjson::{Ndjson, Options},
    ///     recv,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_transport::TransportError> {
    /// let options = Options::default().max_line(4);
    /// let mut transport = Ndjson::with_options(&b"too long\n{}\n"[..], tokio::io::sink(), &options);
    /// assert!(recv(&mut transport).await.unwrap().unwrap_err().is_too_large());
    /// assert_eq!(recv(&mut transport).await.unwrap()?.message, "{}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Outside of a tokio runtime, because the writer runs in a task.
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
        Self { reader, lines, in_turn: 0, ended: false, sender: Arc::new(sender), writer_failed: None }
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
            if self.in_turn >= TURN {
                self.in_turn = 0;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(line) = self.lines.next() {
                self.in_turn += 1;
                budget.made_progress();
                return Poll::Ready(Some(line.map(Frame::new)));
            }
            if self.ended {
                return Poll::Ready(self.lines.last().map(|line| Ok(Frame::new(line))));
            }
            // The future has no state between polls, so each poll can make a new one.
            let read = match pin!(self.reader.read_buf(self.lines.room())).poll(cx) {
                Poll::Ready(read) => read,
                Poll::Pending => {
                    self.in_turn = 0;
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
