//! The answer to one request, in the form that its work needs.
//!
//! The work and its queue of notifications are polled together. If the work ends first, the answer is one JSON message. If a
//! notification comes first, the same answer becomes a stream of events.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use mcp_server_core::engine::Reply;
use mcp_transport::sse;
use tokio::{
    task::JoinHandle,
    time::{Instant, Sleep, sleep_until},
};

pub(crate) use super::message_queue::MessageQueue as Queue;
use super::{body::EventStream, message_queue::QueueReader};

/// The running work of a request. It returns `None` if the client cancelled the request.
pub(crate) type Running = Pin<Box<dyn Future<Output = Option<Reply>> + Send>>;

/// The form of an answer.
pub(crate) enum Answer {
    /// The work ended without a notification: one JSON message. `None` if the request was cancelled.
    Quiet(Option<Reply>),
    /// The work sends notifications: a stream of events.
    Streaming(Answering),
}

/// Runs a request until it ends or sends its first notification.
pub(crate) async fn answer(running: Running, queue: Arc<Queue>, keep_alive: Duration) -> Answer {
    let queue = QueueReader(queue);
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
        Some(reply) => Answer::Streaming(Answering::new(Run::Ended(reply), queue, keep_alive)),
        None => match running {
            Some(running) => {
                let work = Run::Working(WorkTask(tokio::spawn(running)));
                Answer::Streaming(Answering::new(work, queue, keep_alive))
            }
            None => Answer::Quiet(None),
        },
    }
}

enum Run {
    /// The work runs on its own task, so that its timeouts and its cancellation work also while the client does not read.
    Working(WorkTask),
    /// The work has ended.
    Ended(Option<Reply>),
    /// The response is sent.
    Sent,
}

/// The task of a request. Dropping it aborts the work.
struct WorkTask(JoinHandle<Option<Reply>>);

impl Drop for WorkTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The event stream of one request: its notifications, then its response. Dropping it aborts the work.
pub(crate) struct Answering {
    run: Run,
    queue: QueueReader,
    keep_alive: KeepAlive,
}

impl Answering {
    fn new(run: Run, queue: QueueReader, keep_alive: Duration) -> Self {
        Self { run, queue, keep_alive: KeepAlive::new(keep_alive) }
    }

    /// Returns a stream that ends without a response, for a cancelled request.
    pub(crate) fn ended(keep_alive: Duration) -> Self {
        Self::new(Run::Sent, QueueReader::default(), keep_alive)
    }
}

impl EventStream for Answering {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if let Run::Working(work) = &mut this.run
            && let Poll::Ready(reply) = Pin::new(&mut work.0).poll(cx)
        {
            // An aborted task and a task that panicked have no response, like a cancelled request.
            this.run = Run::Ended(reply.unwrap_or_default());
        }
        if matches!(this.run, Run::Sent) {
            return Poll::Ready(None);
        }
        let mut out = match this.queue.0.poll_take(cx) {
            Poll::Ready(Some(messages)) => events(messages),
            Poll::Ready(None) | Poll::Pending => Vec::new(),
        };
        if let Run::Ended(reply) = &mut this.run {
            let reply = reply.take();
            this.run = Run::Sent;
            this.queue.0.close();
            if let Some(reply) = reply {
                out.extend_from_slice(&sse::Event::new(&reply.payload.into_bytes()).with_event("message").encode());
            }
            return Poll::Ready((!out.is_empty()).then(|| out.into()));
        }
        if !out.is_empty() {
            this.keep_alive.restart();
            return Poll::Ready(Some(out.into()));
        }
        this.keep_alive.poll(cx).map(Some)
    }
}

fn events(messages: Vec<Bytes>) -> Vec<u8> {
    let mut out = Vec::with_capacity(messages.iter().map(|message| message.len() + 32).sum());
    for message in messages {
        out.extend_from_slice(&sse::Event::new(&message).with_event("message").encode());
    }
    out
}

/// The end of a stream with the authentication of its client.
#[derive(Default)]
pub(crate) struct StreamEnd(Option<Pin<Box<Sleep>>>);

impl StreamEnd {
    pub(crate) fn at(end: Option<Instant>) -> Self {
        Self(end.map(|end| Box::pin(sleep_until(end))))
    }

    /// Whether the time is over. Otherwise the task is woken then.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.0.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready())
    }
}

/// The keep-alive comments of a quiet stream.
pub(crate) struct KeepAlive {
    interval: Duration,
    /// The earliest time of the next comment.
    next: Instant,
    /// Fires at that time or before.
    timer: Pin<Box<Sleep>>,
}

impl KeepAlive {
    pub(crate) fn new(interval: Duration) -> Self {
        let next = Instant::now() + interval;
        Self { interval, next, timer: Box::pin(sleep_until(next)) }
    }

    /// Restarts the interval: the stream has sent an event. The timer is reset when it fires, because most events do not need that.
    pub(crate) fn restart(&mut self) {
        self.next = Instant::now() + self.interval;
    }

    /// Returns a comment when the interval is over.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        loop {
            std::task::ready!(self.timer.as_mut().poll(cx));
            let is_over = self.next <= self.timer.deadline();
            if is_over {
                self.restart();
            }
            self.timer.as_mut().reset(self.next);
            if is_over {
                return Poll::Ready(sse::comment("keep-alive"));
            }
        }
    }
}
