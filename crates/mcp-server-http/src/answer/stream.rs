//! The answer to one request, which chooses its own shape: a quiet call answers JSON, the first notification turns the same
//! answer into a stream of events.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use mcp_protocol::RequestId;
use mcp_server_core::engine::Reply;
use mcp_transport::{BoxFuture, Frame, FrameSender, TransportError, TrySendError, sse};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, Sleep},
};

use super::{body::EventStream, wait_until::wait_until};

/// Messages that wait for one stream; who sends more waits for room.
const QUEUE: usize = 256;
/// Bytes that wait for one stream; one message always fits.
const QUEUE_BYTES: usize = 1 << 20;

/// A bounded queue of messages between whoever sends and one stream.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Bytes>,
    bytes: usize,
    closed: bool,
    reader: Option<Waker>,
}

impl State {
    fn fits(&self, len: usize) -> bool {
        self.messages.is_empty() || (self.messages.len() < QUEUE && self.bytes + len <= QUEUE_BYTES)
    }

    fn poll_ready(&mut self, cx: &Context<'_>) -> Poll<()> {
        if !self.messages.is_empty() || self.closed {
            return Poll::Ready(());
        }
        // Another reader that waited here looks again: it may have been replaced, or be the one that counts.
        if let Some(other) = self.reader.replace(cx.waker().clone()).filter(|other| !other.will_wake(cx.waker())) {
            other.wake();
        }
        Poll::Pending
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits until something is there, or never will be.
    fn poll_ready(&self, cx: &Context<'_>) -> Poll<()> {
        self.lock().poll_ready(cx)
    }

    /// Takes all that waits. `None` when the queue is closed and empty.
    pub(crate) fn poll_take(&self, cx: &Context<'_>) -> Poll<Option<VecDeque<Bytes>>> {
        // Looking and taking are one step: between two readers neither may see an end that is none.
        let mut state = self.lock();
        std::task::ready!(state.poll_ready(cx));
        if state.messages.is_empty() {
            return Poll::Ready(None);
        }
        state.bytes = 0;
        let messages = std::mem::take(&mut state.messages);
        drop(state);
        self.room.notify_waiters();
        Poll::Ready(Some(messages))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().messages.is_empty()
    }

    /// Nothing is taken any more: who waits for room is told, and so is the reader.
    pub(crate) fn close(&self) {
        let reader = {
            let mut state = self.lock();
            state.closed = true;
            state.reader.take()
        };
        self.room.notify_waiters();
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn push(&self, frame: Frame) -> Result<(), TrySendError> {
        let mut state = self.lock();
        if state.closed {
            return Err(TrySendError::Closed(frame));
        }
        if !state.fits(frame.message.len()) {
            return Err(TrySendError::Full(frame));
        }
        state.bytes += frame.message.len();
        state.messages.push_back(frame.message);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        Ok(())
    }
}

impl FrameSender for Queue {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let mut frame = Some(frame);
            wait_until(&self.room, || match self.push(frame.take()?) {
                Ok(()) => Some(Ok(())),
                Err(TrySendError::Full(back)) => {
                    frame = Some(back);
                    None
                }
                Err(_) => Some(Err(TransportError::closed())),
            })
            .await
        })
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        self.push(frame)
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(wait_until(&self.room, move || {
            let state = self.lock();
            if state.closed { Some(Err(TransportError::closed())) } else { state.fits(len).then_some(Ok(())) }
        }))
    }

    fn close(&self, _id: &RequestId) {}

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        Self::close(self);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A request that runs.
pub(crate) type Running = Pin<Box<dyn Future<Output = Option<Reply>> + Send>>;

/// What a request turned out to be.
pub(crate) enum Answer {
    /// It was quiet; `None` when it was cancelled.
    Quiet(Option<Reply>),
    /// It speaks while it runs.
    Streaming(Answering),
}

/// Runs a request until it is over or has something to say.
pub(crate) async fn answer(running: Running, queue: Arc<Queue>, keep_alive: Duration) -> Answer {
    let queue = Reading(queue);
    let mut running = Some(running);
    let first = std::future::poll_fn(|cx| {
        let Some(run) = &mut running else { return Poll::Ready(None) };
        if let Poll::Ready(reply) = run.as_mut().poll(cx) {
            running = None;
            return Poll::Ready(Some(reply));
        }
        queue.0.poll_ready(cx).map(|()| None)
    })
    .await;
    match first {
        Some(reply) if queue.0.is_empty() => Answer::Quiet(reply),
        Some(reply) => Answer::Streaming(Answering::new(Run::Over(reply), queue, keep_alive)),
        None => match running {
            Some(running) => {
                let going = Run::Going(Going(tokio::spawn(running)));
                Answer::Streaming(Answering::new(going, queue, keep_alive))
            }
            None => Answer::Quiet(None),
        },
    }
}

enum Run {
    /// On a task of its own: time limits and cancellation hold also when nobody reads the stream.
    Going(Going),
    Over(Option<Reply>),
    Sent,
}

/// Work that ends when nobody waits for it any more.
struct Going(JoinHandle<Option<Reply>>);

impl Drop for Going {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The stream of one request: its notifications, then its response. Dropping it drops the work.
pub(crate) struct Answering {
    run: Run,
    queue: Reading,
    silence: Silence,
}

impl Answering {
    fn new(run: Run, queue: Reading, keep_alive: Duration) -> Self {
        Self { run, queue, silence: Silence::new(keep_alive) }
    }

    /// A stream that ends without a response: the request was cancelled.
    pub(crate) fn ended(keep_alive: Duration) -> Self {
        Self::new(Run::Sent, Reading(Arc::default()), keep_alive)
    }
}

impl EventStream for Answering {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if let Run::Going(going) = &mut this.run
            && let Poll::Ready(reply) = Pin::new(&mut going.0).poll(cx)
        {
            // A task that was aborted or panicked has no answer, as one that was cancelled.
            this.run = Run::Over(reply.unwrap_or_default());
        }
        if matches!(this.run, Run::Sent) {
            return Poll::Ready(None);
        }
        let mut out = match this.queue.0.poll_take(cx) {
            Poll::Ready(Some(messages)) => events(messages),
            Poll::Ready(None) | Poll::Pending => Vec::new(),
        };
        if let Run::Over(reply) = &mut this.run {
            let reply = reply.take();
            this.run = Run::Sent;
            this.queue.0.close();
            if let Some(reply) = reply {
                out.extend_from_slice(&sse::Event::new(&reply.payload.into_bytes()).with_event("message").encode());
            }
            return Poll::Ready((!out.is_empty()).then(|| out.into()));
        }
        if !out.is_empty() {
            this.silence.broken();
            return Poll::Ready(Some(out.into()));
        }
        this.silence.poll(cx).map(Some)
    }
}

/// The reading end of a queue: when nobody reads any more, who sends learns it instead of waiting for room.
struct Reading(Arc<Queue>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn events(messages: VecDeque<Bytes>) -> Vec<u8> {
    let mut out = Vec::with_capacity(messages.iter().map(|message| message.len() + 32).sum());
    for message in messages {
        out.extend_from_slice(&sse::Event::new(&message).with_event("message").encode());
    }
    out
}

/// Breaks the silence of a stream with a comment.
pub(crate) struct Silence {
    interval: Duration,
    until: Pin<Box<Sleep>>,
}

impl Silence {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, until: Box::pin(tokio::time::sleep(interval)) }
    }

    pub(crate) fn broken(&mut self) {
        let next = Instant::now() + self.interval;
        self.until.as_mut().reset(next);
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        std::task::ready!(self.until.as_mut().poll(cx));
        self.broken();
        Poll::Ready(sse::comment("keep-alive"))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_reader_whose_place_another_takes_looks_again() {
        let queue = Queue::default();
        let (older, newer) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let (older_waker, newer_waker) = (Waker::from(older.clone()), Waker::from(newer.clone()));
        let counts = || (older.0.load(Ordering::SeqCst), newer.0.load(Ordering::SeqCst));
        for (waker, expected) in
            [(&newer_waker, (0, 0)), (&newer_waker, (0, 0)), (&older_waker, (0, 1)), (&newer_waker, (1, 1))]
        {
            assert!(queue.poll_take(&Context::from_waker(waker)).is_pending());
            assert_eq!(counts(), expected);
        }
        queue.push(Frame::new("message")).unwrap();
        assert_eq!(counts(), (1, 2));
        let Poll::Ready(Some(taken)) = queue.poll_take(&Context::from_waker(&newer_waker)) else { panic!("nothing") };
        assert_eq!(taken.len(), 1);
    }

    #[test]
    fn a_queue_is_bounded_by_number_and_by_size_and_takes_one_message_of_any_size() {
        let queue = Queue::default();
        let fill = |size: usize| {
            let message = Bytes::from(vec![b'x'; size]);
            let count = (0..1000).take_while(|_| queue.push(Frame::new(message.clone())).is_ok()).count();
            let _ = queue.poll_take(&Context::from_waker(Waker::noop()));
            count
        };
        assert_eq!([fill(1), fill(QUEUE_BYTES / 4), fill(QUEUE_BYTES), fill(QUEUE_BYTES * 2)], [QUEUE, 4, 1, 1]);
        Queue::close(&queue);
        assert!(matches!(queue.push(Frame::new("late")), Err(TrySendError::Closed(_))));
        assert!(matches!(queue.poll_take(&Context::from_waker(Waker::noop())), Poll::Ready(None)));
    }

    #[tokio::test]
    async fn writers_that_wait_for_room_go_on_or_learn_that_it_never_comes() {
        let queue = Arc::new(Queue::default());
        let write = || {
            let queue = queue.clone();
            tokio::spawn(async move { FrameSender::send(&*queue, Frame::new("more")).await })
        };
        while queue.push(Frame::new("full")).is_ok() {}
        let writers = [write(), write()];
        tokio::task::yield_now().await;
        let _ = queue.poll_take(&Context::from_waker(Waker::noop()));
        for writer in writers {
            writer.await.unwrap().unwrap();
        }
        while queue.push(Frame::new("full")).is_ok() {}
        let late = write();
        tokio::task::yield_now().await;
        Queue::close(&queue);
        assert!(late.await.unwrap().unwrap_err().is_closed());
    }
}
