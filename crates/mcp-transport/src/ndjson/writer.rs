//! The sending half: a bounded queue, and a task that writes the queued messages in few writes.

use std::{
    collections::VecDeque,
    fmt,
    future::{pending, poll_fn},
    io::{self, IoSlice},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use mcp_protocol::RequestId;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::{oneshot, watch},
    time,
};

use super::Options;
use crate::{
    BoxFuture, Frame, FrameSender, Line, TransportError, TrySendError,
    queue::{Queue, Queued},
};

/// The maximum bytes of short messages that are combined for one write.
const GATHERED_BYTES: usize = 64 << 10;
/// A message of at least this size is written without a copy.
const DIRECT: usize = 16 << 10;
/// How long the writer continues after the last sender was dropped.
const WRITE_DEADLINE: Duration = Duration::from_secs(5);

/// The state that the senders share with the writer task.
#[derive(Debug)]
pub(super) struct Outbound {
    queue: Queue<Message>,
    /// The minimum cost of a message. With it the queue bounds the number of messages and their bytes at once.
    floor: u32,
}

impl Outbound {
    pub(super) fn new(options: &Options) -> Self {
        let capacity = u32::try_from(options.queue_bytes).unwrap_or(MAX_BYTES).clamp(1, MAX_BYTES);
        let frames = u32::try_from(options.queue_frames).unwrap_or(u32::MAX).max(1);
        Self { queue: Queue::new(capacity), floor: (capacity / frames).max(1) }
    }

    fn cost(&self, message: &Message) -> u32 {
        self.cost_of(message.len())
    }

    fn cost_of(&self, len: usize) -> u32 {
        u32::try_from(len).unwrap_or(MAX_BYTES).clamp(self.floor, MAX_BYTES)
    }
}

/// The maximum cost that the queue can count.
const MAX_BYTES: u32 = 1 << 30;

/// A message that the writer writes in one line.
#[derive(Debug)]
struct Message {
    start: Line,
    /// The pieces after the start. A message in one piece needs no memory for them.
    rest: Option<Box<(Line, Line)>>,
}

impl Message {
    fn whole(message: Bytes) -> Self {
        Self { start: Line::new(message), rest: None }
    }

    fn len(&self) -> usize {
        self.pieces().into_iter().map(<[u8]>::len).sum()
    }

    /// Returns the pieces in order. Some may be empty.
    fn pieces(&self) -> [&[u8]; 3] {
        let (body, end): (&[u8], &[u8]) = self.rest.as_deref().map_or((&[], &[]), |(body, end)| (body, end));
        [&self.start, body, end]
    }
}

/// The sender of an [`Ndjson`](super::Ndjson).
pub(super) struct LineSender {
    outbound: Arc<Outbound>,
    /// The result of the writer task.
    outcome: watch::Receiver<Option<Result<(), TransportError>>>,
    /// The sender owns it. Its drop notifies the writer task that no sender is left.
    _alive: oneshot::Sender<()>,
}

impl LineSender {
    /// Starts the writer task. The task fails when `output_closed` completes.
    pub(super) fn spawn<W: AsyncWrite + Unpin + Send + 'static>(
        outbound: Arc<Outbound>,
        writer: W,
        output_closed: BoxFuture<'static, ()>,
    ) -> Self {
        let (alive, abandoned) = oneshot::channel::<()>();
        let (done, outcome) = watch::channel(None);
        let shared = CloseOnDrop(Arc::clone(&outbound));
        tokio::spawn(async move {
            let result = write_until_abandoned(&shared.0, writer, abandoned, output_closed).await;
            let result = result.map_err(TransportError::from);
            if let Err(fault) = &result {
                tracing::debug!(error = ?fault, "the writer of the connection ended");
                shared.0.queue.abort(fault.clone());
            }
            done.send_replace(Some(result));
        });
        Self { outbound, outcome, _alive: alive }
    }

    /// Waits until the writer has failed. Never completes when the writer ends in order.
    pub(super) fn failed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut outcome = self.outcome.clone();
        async move {
            let has_failed = |outcome: &Option<Result<_, _>>| matches!(outcome, Some(Err(_)));
            // Without a result the task has panicked, or was dropped with its runtime.
            if outcome.wait_for(has_failed).await.is_err() && outcome.borrow().is_some() {
                pending().await
            }
        }
    }
}

impl FrameSender for LineSender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let message = Message::whole(frame.message);
            self.outbound.queue.push(self.outbound.cost(&message), message).await
        })
    }

    fn send_in_pieces(&self, frame: Frame, body: Line, end: Bytes) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let message = Message { start: Line::new(frame.message), rest: Some(Box::new((body, Line::new(end)))) };
            self.outbound.queue.push(self.outbound.cost(&message), message).await
        })
    }

    fn try_send(&self, mut frame: Frame) -> Result<(), TrySendError> {
        let message = Message::whole(std::mem::take(&mut frame.message));
        self.outbound.queue.try_push(self.outbound.cost(&message), message).map_err(|error| {
            let is_full = error.is_full();
            frame.message = error.into_item().start.into_bytes();
            if is_full { TrySendError::Full(frame) } else { TrySendError::Closed(frame) }
        })
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(self.outbound.queue.ready(self.outbound.cost_of(len)))
    }

    fn close(&self, _id: &RequestId) {}

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        self.outbound.queue.close(TransportError::closed());
        let mut outcome = self.outcome.clone();
        Box::pin(async move {
            match outcome.wait_for(Option::is_some).await {
                Ok(result) => result.clone().unwrap_or(Ok(())),
                // The runtime has dropped the writer task.
                Err(_) => Err(TransportError::closed()),
            }
        })
    }
}

impl Drop for LineSender {
    fn drop(&mut self) {
        self.outbound.queue.close(TransportError::closed());
    }
}

impl fmt::Debug for LineSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineSender").finish_non_exhaustive()
    }
}

/// Closes the queue when the writer task ends, panics or is dropped with its runtime.
struct CloseOnDrop(Arc<Outbound>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.queue.abort(TransportError::closed());
    }
}

/// Writes messages until the queue is closed and empty. Stops a few seconds after the last sender was dropped.
async fn write_until_abandoned<W: AsyncWrite + Unpin>(
    outbound: &Outbound,
    writer: W,
    abandoned: oneshot::Receiver<()>,
    mut output_closed: BoxFuture<'static, ()>,
) -> io::Result<()> {
    let mut write = pin!(write_all(outbound, writer));
    let mut give_up = pin!(async {
        let _ = abandoned.await;
        time::sleep(WRITE_DEADLINE).await;
    });
    poll_fn(|cx| {
        if let Poll::Ready(result) = write.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        if output_closed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        give_up.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    })
    .await
}

async fn write_all<W: AsyncWrite + Unpin>(outbound: &Outbound, mut writer: W) -> io::Result<()> {
    let mut messages = VecDeque::new();
    let mut gathered = BytesMut::new();
    while poll_fn(|cx| outbound.queue.poll_ready(cx)).await {
        // Ready senders run first: many messages in one write cost little more than one.
        yield_once().await;
        loop {
            outbound.queue.take_all(&mut messages);
            if messages.is_empty() {
                break;
            }
            while !messages.is_empty() {
                write_some(outbound, &mut writer, &mut messages, &mut gathered).await?;
            }
        }
        writer.flush().await?;
    }
    writer.shutdown().await
}

/// Lets the tasks run that are ready now on this thread. A yield of tokio ends after all tasks that become ready meanwhile, so the peer would
/// receive the first message after the last one is ready.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Writes the short messages at the front in one piece, together with the long message after them.
async fn write_some<W: AsyncWrite + Unpin>(
    outbound: &Outbound,
    writer: &mut W,
    messages: &mut VecDeque<Queued<Message>>,
    gathered: &mut BytesMut,
) -> io::Result<()> {
    gathered.clear();
    let mut cost: u32 = 0;
    let mut long = None;
    while let Some(queued) = messages.pop_front() {
        cost = cost.saturating_add(queued.cost);
        let message = queued.item;
        if message.len() >= DIRECT {
            long = Some(message);
            break;
        }
        gathered.extend_from_slice(&message.start);
        if let Some((body, end)) = message.rest.as_deref() {
            gathered.extend_from_slice(body);
            gathered.extend_from_slice(end);
        }
        gathered.extend_from_slice(b"\n");
        if gathered.len() > GATHERED_BYTES - DIRECT {
            break;
        }
    }
    if let Some(message) = long {
        let [mut start, body, end] = message.pieces();
        // Without vectored writes, each slice is a write.
        if start.len() < DIRECT {
            gathered.extend_from_slice(start);
            start = &[];
        }
        if end.is_empty() {
            write_slices(writer, &mut [gathered, start, body, b"\n"].map(IoSlice::new)).await?;
        } else {
            let end = [end, b"\n"].concat();
            write_slices(writer, &mut [gathered, start, body, &end].map(IoSlice::new)).await?;
        }
    } else {
        write_slices(writer, &mut [IoSlice::new(gathered)]).await?;
    }
    outbound.queue.release(cost);
    Ok(())
}

async fn write_slices<W: AsyncWrite + Unpin>(writer: &mut W, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    // Removes the empty slices at the front: a write of zero bytes would look like the end.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match writer.write_vectored(slices).await {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut slices, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
