//! A call of a session. A call without notifications is answered with JSON. A call with notifications becomes a stream in
//! the event log of the session. A lost connection does not end the call.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use mcp_protocol::RequestId;
use mcp_server_core::{Server, engine::Engine as _};
use mcp_transport::{BoxFuture, Frame, FrameSender, TransportError, TrySendError};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};

use super::{
    event_log::{EXPECTED, EventLog},
    sessions::HttpSession,
};

/// How long a handler waits for a reader without progress, before it continues without that reader.
const READER_TIMEOUT: Duration = Duration::from_secs(5);

/// The sender of the notifications of one call. The first notification opens the stream.
#[derive(Debug)]
pub(crate) struct CallStream {
    log: Arc<EventLog>,
    /// Whether the server may close the connection before the response.
    polls: bool,
    /// The request, if the call is one request.
    request: Option<RequestId>,
    stage: Mutex<Stage>,
}

#[derive(Debug)]
enum Stage {
    /// The call has sent no notification. The waker belongs to the task that waits for the first one.
    Quiet(Option<Waker>),
    /// The call has this stream.
    Open(u64),
    /// The call has ended, on this stream if it had one. Or the client left before it knew the stream.
    Over(Option<u64>),
}

impl CallStream {
    pub(crate) fn new(log: Arc<EventLog>, polls: bool, request: Option<RequestId>) -> Self {
        Self { log, polls, request, stage: Mutex::new(Stage::Quiet(None)) }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock()
    }

    /// Returns the number of the stream, and opens the stream if necessary. `None` after the end of the call.
    pub(crate) fn open(&self) -> Option<u64> {
        let (number, waker) = {
            let mut stage = self.stage();
            match &mut *stage {
                Stage::Open(number) => return Some(*number),
                Stage::Over(_) => return None,
                Stage::Quiet(waker) => {
                    let (number, waker) = (self.log.open(self.request.as_ref())?, waker.take());
                    *stage = Stage::Open(number);
                    (number, waker)
                }
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Some(number)
    }

    fn poll_open(&self, cx: &Context<'_>) -> Poll<u64> {
        match &mut *self.stage() {
            Stage::Open(number) => Poll::Ready(*number),
            Stage::Quiet(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Stage::Over(Some(number)) => Poll::Ready(*number),
            Stage::Over(None) => Poll::Pending,
        }
    }

    /// Whether the call has a stream.
    pub(crate) fn is_open(&self) -> bool {
        self.opened().is_some()
    }

    fn opened(&self) -> Option<u64> {
        match &*self.stage() {
            Stage::Open(number) => Some(*number),
            Stage::Quiet(_) | Stage::Over(_) => None,
        }
    }

    /// Returns the stream that has the response, if the call did not return the response.
    fn answered_on(&self) -> Option<u64> {
        match &*self.stage() {
            Stage::Open(number) => Some(*number),
            Stage::Over(number) => *number,
            Stage::Quiet(_) => None,
        }
    }

    /// Records that the stream has no reader: the connection closed before the client received an event id.
    fn abandon(&self) {
        let opened = {
            let mut stage = self.stage();
            match &*stage {
                Stage::Quiet(_) => {
                    *stage = Stage::Over(None);
                    None
                }
                Stage::Open(number) => Some(*number),
                Stage::Over(_) => None,
            }
        };
        if let Some(number) = opened {
            self.log.detach(number, EXPECTED);
        }
    }

    /// Returns the request, if the call is one request.
    pub(crate) fn request(&self) -> Option<&RequestId> {
        self.request.as_ref()
    }

    /// Waits until the stream of the call has ended, because this node has lost its lease or the shared store has failed.
    pub(crate) async fn excluded(&self) {
        self.log.excluded(|| self.opened()).await;
    }

    /// Ends the call. Returns the response if it is the only message. Otherwise the response is the last event of the stream.
    pub(crate) async fn finish<T>(&self, answer: Option<T>, message: impl FnOnce(T) -> Bytes) -> Option<T> {
        let opened = {
            let mut stage = self.stage();
            let opened = match &*stage {
                Stage::Open(number) => Some(*number),
                Stage::Quiet(_) | Stage::Over(_) => None,
            };
            *stage = Stage::Over(opened);
            opened
        };
        let Some(number) = opened else { return answer };
        let message = answer.map(message);
        if let Some(message) = &message {
            // A response without a reader must not evict events that readers are about to take.
            let room = self.log.room_for_answer(number, message.len());
            let _ = tokio::time::timeout(READER_TIMEOUT, room).await;
        }
        self.log.end(number, message);
        None
    }
}

impl FrameSender for CallStream {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let mut frame = frame;
            loop {
                let len = frame.message.len();
                match self.try_send(frame) {
                    Ok(()) => return Ok(()),
                    Err(TrySendError::Full(back)) => frame = back,
                    Err(_) => return Err(TransportError::closed()),
                }
                self.ready(len).await?;
            }
        })
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        match self.open() {
            Some(number) => self.log.try_record(number, frame),
            None => Err(TrySendError::Closed(frame)),
        }
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let Some(number) = self.opened() else { return Ok(()) };
            let mut deadline = Instant::now() + READER_TIMEOUT;
            loop {
                match timeout_at(deadline, self.log.room(number, len)).await {
                    Ok(outcome) => return outcome,
                    Err(_) => deadline = self.log.mark_slow_readers(READER_TIMEOUT),
                }
            }
        })
    }

    fn close(&self, _id: &RequestId) {
        if self.polls
            && let Some(number) = self.open()
        {
            self.log.disconnect_reader(number);
        }
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A running call. It returns its response, or `None` if the stream has the response.
pub(crate) type Running<T> = Pin<Box<dyn Future<Output = Option<T>> + Send>>;

/// The form of the answer to a call.
pub(crate) enum Answer<T> {
    /// The call sent no notification. `None` if it was cancelled.
    Quiet(Option<T>),
    /// The call sends notifications. They are in this stream of the log.
    Streaming(u64),
}

/// The bounds of a call that runs without a connection.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) server: Server,
    pub(crate) session: Arc<HttpSession>,
    /// The time after the shutdown of the server began.
    pub(crate) deadline: Duration,
}

impl Bounds {
    /// Runs a call. A listener that shuts down waits for it.
    fn run<T: Send + 'static>(self, running: Running<T>) -> impl Future<Output = ()> + Send {
        let work = self.server.work().enter();
        async move {
            self.until_deadline(running).await;
            drop(work);
        }
    }

    async fn until_deadline<T>(&self, running: Running<T>) {
        let ended = async {
            self.server.shutting_down().await;
            tokio::time::sleep(self.deadline).await;
        };
        tokio::select! {
            biased;
            _ = running => {}
            () = ended => {
                tracing::warn!("a call ran past the shutdown deadline and was aborted");
                self.session.end();
            }
        }
    }
}

/// Runs a call until it ends or sends its first notification. The call then continues on its own task, within its bounds.
pub(crate) async fn answer<T: Send + 'static>(
    running: Running<T>,
    stream: &Arc<CallStream>,
    bounds: Bounds,
) -> Answer<T> {
    let mut call = Detaching { running: Some(running), stream: stream.clone(), bounds };
    std::future::poll_fn(|cx| {
        let Some(running) = &mut call.running else { return Poll::Ready(Answer::Quiet(None)) };
        if let Poll::Ready(quiet) = running.as_mut().poll(cx) {
            call.running = None;
            return Poll::Ready(match stream.answered_on() {
                Some(number) if quiet.is_none() => Answer::Streaming(number),
                _ => Answer::Quiet(quiet),
            });
        }
        let number = std::task::ready!(stream.poll_open(cx));
        // From now on clients read the log. The call does not depend on a connection.
        if let Some(running) = call.running.take() {
            tokio::spawn(call.bounds.clone().run(running));
        }
        Poll::Ready(Answer::Streaming(number))
    })
    .await
}

/// A call that continues on a task if the connection closes. In a session a lost connection does not cancel a request.
struct Detaching<T: Send + 'static> {
    running: Option<Running<T>>,
    stream: Arc<CallStream>,
    bounds: Bounds,
}

impl<T: Send + 'static> Drop for Detaching<T> {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        self.stream.abandon();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(self.bounds.clone().run(running));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::time::sleep;

    use super::*;
    use crate::legacy::event_log::{BYTES, Budget};

    #[tokio::test(start_paused = true)]
    async fn a_reader_without_progress_delays_a_writer_for_five_seconds() {
        type Happens = fn(&EventLog, u64, u64, u64);
        let cases: [(&str, u64, Happens); 4] = [
            ("no progress", 5, |_, _, _, _| {}),
            ("another reader connects", 9, |log, full, _, _| {
                log.attach(full, None);
            }),
            ("the reader takes events", 9, |log, full, _, number| {
                assert!(log.poll_take(full, number, &Context::from_waker(Waker::noop())).is_ready());
            }),
            ("another reader gets an event", 9, |log, _, idle, _| {
                log.try_record(idle, Frame::new("word")).unwrap();
            }),
        ];
        for (name, expected, happens) in cases {
            let log = Arc::new(EventLog::new("session", Arc::new(Budget::new(1 << 30, Vec::new))));
            let call = CallStream::new(log.clone(), false, None);
            let (full, idle) = (call.open().unwrap(), log.open(None).unwrap());
            let (number, _) = log.attach(full, None);
            log.attach(idle, None);
            sleep(Duration::from_secs(60)).await;
            while call.try_send(Frame::new(vec![b'x'; 60 << 10])).is_ok() {}
            let start = Instant::now();
            let at_last = async {
                sleep(Duration::from_secs(4)).await;
                happens(&log, full, idle, number);
            };
            let (room, ()) = tokio::join!(call.ready(BYTES), at_last);
            room.unwrap();
            assert_eq!(start.elapsed().as_secs(), expected, "{name}");
        }
    }
}
