//! The event log of a session. The server records each event before it sends it, so that a client can resume a stream after
//! its connection broke.
//!
//! A session has one log with one limit for all its streams. A stream is a number and a cursor. Events behind the cursor
//! wait for a reader. The eviction order is: delivered events, events without a reader, then the others.

mod appender;
pub(crate) mod batch;
mod budget;
#[cfg(test)]
mod models;
mod progress;
#[cfg(test)]
mod schedules;
mod state;
mod streams;
mod sync;
#[cfg(test)]
mod tests;
mod wait_until;

use std::{
    fmt::Write as _,
    sync::{Arc, OnceLock, atomic::Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use mcp_protocol::RequestId;
use mcp_transport::{BoxFuture, Frame, FrameSender, TransportError, TrySendError, sse};
use sha2::{Digest as _, Sha256};
use tokio::{sync::Notify, time::Instant};

use self::{
    appender::Appender,
    batch::{Kind, first_stream},
    state::{Event, Priority, State, Stored},
    sync::{AtomicBool, Mutex, MutexGuard},
};
pub(crate) use self::{budget::Budget, streams::Failure, wait_until::wait_until};
use super::session_store::SessionStore;

/// The most events of a session.
pub(crate) const EVENTS: usize = 256;
/// The most bytes of messages of a session. One message always fits, and so does a response whose reader is connected.
pub(crate) const BYTES: usize = 1 << 20;
/// The bytes after which a read returns the events so far, so that a slow reader holds little memory.
const PIECE: usize = 64 << 10;
/// The stream for messages that belong to no request.
pub(crate) const STANDALONE: u64 = 0;
/// The reader number of a new stream: the request that opened the stream is about to read it.
pub(crate) const EXPECTED: u64 = 0;
/// The sequence number behind the last event of a finished stream.
const END: u64 = u64::MAX;

pub(crate) const TRUNCATED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/replay_truncated","params":{}}"#;

/// A position in a stream: the last event that a client has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) stream: u64,
    pub(crate) seq: u64,
}

impl Place {
    /// The sequence number behind the last event of a finished stream.
    pub(crate) const END: u64 = END;
}

/// The events of one session.
#[derive(Debug)]
pub(crate) struct EventLog {
    /// Distinguishes the event ids of this session from those of other sessions.
    tag: u32,
    state: Mutex<State>,
    room: Notify,
    budget: Arc<Budget>,
    /// The shared store, which receives each event before its reader.
    appender: Option<Appender>,
    /// Whether a connection of this node reads the standalone stream from the shared store.
    is_followed: AtomicBool,
}

impl EventLog {
    /// Returns the log of the session with this id.
    pub(crate) fn new(session_id: &str, budget: Arc<Budget>) -> Self {
        // The session id is a secret, and event ids are not. The tag does not reveal the session id. Each build of the library
        // computes the same tag, so a client can resume a stream at another node.
        let digest = Sha256::digest(session_id);
        let tag = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
        Self {
            tag,
            state: Mutex::new(State::new(budget.clone())),
            room: Notify::new(),
            budget,
            appender: None,
            is_followed: AtomicBool::new(false),
        }
    }

    /// Returns the log of a session whose events are in a shared store. `ttl` is the life of the events there.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub(crate) fn shared(
        session_id: &str,
        budget: Arc<Budget>,
        store: SessionStore,
        session: Box<str>,
        ttl: Duration,
    ) -> Result<Arc<Self>, getrandom::Error> {
        let writer = getrandom::u32()?;
        Ok(Arc::new_cyclic(|log| {
            let runtime = tokio::runtime::Handle::current();
            let appender = Appender {
                log: log.clone(),
                store,
                session,
                ttl,
                runtime,
                retry: OnceLock::new(),
                excluded: Notify::new(),
            };
            let mut state = State::new(budget.clone());
            state.last_stream = first_stream(writer);
            state.stored = Some(Stored::new(writer));
            Self { state: Mutex::new(state), appender: Some(appender), ..Self::new(session_id, budget) }
        }))
    }

    /// Whether the events are in a shared store.
    pub(crate) fn is_shared(&self) -> bool {
        self.appender.is_some()
    }

    /// Sets the delay in the first event of each stream, if the revision of the session has this event.
    pub(crate) fn set_retry(&self, retry: Option<Duration>) {
        if let (Some(appender), Some(retry)) = (&self.appender, retry) {
            // The revision of a session does not change.
            let _ = appender.retry.set(retry);
        }
    }

    /// Sets whether a connection of this node reads the standalone stream from the shared store.
    pub(crate) fn set_followed(&self, is_followed: bool) {
        self.is_followed.store(is_followed, Ordering::Release);
        self.room.notify_waiters();
    }

    /// Waits until the session ends.
    pub(crate) async fn closed(&self) {
        wait_until(&self.room, || self.is_closed().then_some(())).await;
    }

    fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn id(&self, place: Place) -> String {
        let mut id = String::with_capacity(32);
        // Writing to a `String` cannot fail.
        let _ = write!(id, "{:08x}-{:x}-", self.tag, place.stream);
        let _ = if place.seq == END { write!(id, "end") } else { write!(id, "{:x}", place.seq) };
        id
    }

    /// Returns the position of an event id. `None` if it is not an id of this session.
    pub(crate) fn place(&self, id: &str) -> Option<Place> {
        let mut parts = id.split('-');
        let (tag, stream, seq) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || u32::from_str_radix(tag, 16) != Ok(self.tag) {
            return None;
        }
        let stream = u64::from_str_radix(stream, 16).ok()?;
        let seq = if seq == "end" { END } else { u64::from_str_radix(seq, 16).ok()? };
        let place = Place { stream, seq };
        if self.is_shared() {
            // The store has the events of all nodes. Only the canonical spelling is valid.
            return (self.id(place) == id).then_some(place);
        }
        let state = self.lock();
        // A client can only have received an event that was sent.
        let was_sent = match state.streams.get(stream) {
            Some(of) => seq <= of.last || of.name(of.last) == seq,
            None if stream == STANDALONE => seq == 0,
            // The log has removed the stream, so any position in it may have been its end.
            None => true,
        };
        // Only the canonical spelling is valid.
        (stream <= state.last_stream && was_sent && self.id(place) == id).then_some(place)
    }

    /// Opens a stream for a reader that connects soon. `None` if the session has ended. `request` is the id of its request.
    pub(crate) fn open(&self, request: Option<&RequestId>) -> Option<u64> {
        let number = {
            let mut state = self.lock();
            if state.closed {
                return None;
            }
            state.last_stream = state.last_stream.checked_add(1)?;
            let number = state.last_stream;
            state.streams.make(number).reader = Some(EXPECTED);
            if self.is_shared() {
                let request = request.and_then(|id| serde_json::to_vec(id).ok()).unwrap_or_default();
                state.push(Kind::Opened, number, request.into());
            }
            number
        };
        self.append();
        Some(number)
    }

    /// Records a message, and evicts other events if necessary.
    fn record(&self, stream: u64, message: Bytes) -> Result<(), TransportError> {
        let waker = {
            let mut state = self.lock();
            if state.closed {
                return Err(TransportError::closed());
            }
            state.record(stream, message)
        };
        wake(waker);
        self.append();
        self.budget.evict();
        Ok(())
    }

    /// Records a message, unless a reader would lose an event for it or the stream has ended.
    pub(crate) fn try_record(&self, stream: u64, frame: Frame) -> Result<(), TrySendError> {
        let waker = {
            let mut state = self.lock();
            if state.closed {
                return Err(TrySendError::Closed(frame));
            }
            let takes_more = stream == STANDALONE || state.streams.get(stream).is_some_and(|of| !of.ended);
            if !takes_more {
                return Err(TrySendError::Closed(frame));
            }
            if state.would_lose(stream, frame.message.len()) {
                return Err(TrySendError::Full(frame));
            }
            state.record(stream, frame.message)
        };
        wake(waker);
        self.append();
        self.budget.evict();
        Ok(())
    }

    /// Waits until the log has capacity for a message of this length.
    pub(crate) async fn room(&self, stream: u64, len: usize) -> Result<(), TransportError> {
        self.wait_until(|state| !state.would_lose(stream, len)).await
    }

    /// Waits until the log has capacity for a response. A response whose stream has a reader does not wait.
    pub(crate) async fn room_for_answer(&self, stream: u64, len: usize) -> Result<(), TransportError> {
        self.wait_until(|state| !state.answer_would_lose(stream, len)).await
    }

    async fn wait_until(&self, has_room: impl Fn(&State) -> bool) -> Result<(), TransportError> {
        wait_until(&self.room, || {
            let state = self.lock();
            if state.closed { Some(Err(TransportError::closed())) } else { has_room(&state).then_some(Ok(())) }
        })
        .await
    }

    /// Marks readers that have taken nothing for `limit` as slow. Writers do not wait for a slow reader until it takes
    /// events again. Returns when the next reader becomes slow.
    pub(crate) fn mark_slow_readers(&self, limit: Duration) -> Instant {
        let next = self.lock().mark_slow_readers(Instant::now(), limit);
        // Other writers that wait for these readers continue.
        self.room.notify_waiters();
        next
    }

    /// Records the last event of a stream, and ends the stream.
    pub(crate) fn end(&self, stream: u64, message: Option<Bytes>) {
        let waker = self.lock().end(stream, message);
        wake(waker);
        self.append();
        self.budget.evict();
    }

    /// Disconnects the reader of a stream after it has the recorded events. The stream continues.
    pub(crate) fn disconnect_reader(&self, stream: u64) {
        let waker = self.lock().streams.get_mut(stream).and_then(|of| {
            of.disconnects = true;
            of.waker.take()
        });
        wake(waker);
    }

    /// Disconnects the reader of a stream at once. It receives no more events, also if some wait for it.
    pub(crate) fn remove_reader(&self, stream: u64) {
        let waker = {
            let mut state = self.lock();
            let waker = state.streams.get_mut(stream).and_then(|of| {
                of.reader = None;
                of.waker.take()
            });
            state.drop_stored();
            waker
        };
        wake(waker);
        self.room.notify_waiters();
    }

    /// Ends all streams and drops all events, because the session ends.
    pub(crate) fn close(&self) {
        let wakers = self.lock().close();
        self.room.notify_waiters();
        for waker in wakers {
            waker.wake();
        }
    }

    /// Registers the reader of a stream and replaces an older reader. The reader starts after the event `after`, or where
    /// the last reader stopped. Returns the number of the reader and its start position.
    pub(crate) fn attach(&self, stream: u64, after: Option<u64>) -> (u64, Place) {
        let (number, place, waker) = {
            let mut state = self.lock();
            state.last_reader += 1;
            let number = state.last_reader;
            let is_known = stream == STANDALONE || state.streams.get(stream).is_some();
            if state.closed || !is_known {
                return (number, Place { stream, seq: after.unwrap_or(END) });
            }
            let of = state.streams.make(stream);
            of.cursor = after.unwrap_or(of.cursor).min(of.last);
            of.reader = Some(number);
            (of.disconnects, of.is_slow) = (after.is_none() && of.disconnects, false);
            of.still_since = Some(Instant::now());
            (number, Place { stream, seq: of.name(of.cursor) }, of.waker.take())
        };
        // The older reader polls again, finds another reader number, and ends.
        wake(waker);
        self.room.notify_waiters();
        (number, place)
    }

    /// Removes a reader.
    pub(crate) fn detach(&self, stream: u64, number: u64) {
        {
            let mut state = self.lock();
            let Some(of) = state.streams.get_mut(stream).filter(|of| of.reader == Some(number)) else { return };
            (of.reader, of.waker) = (None, None);
            state.drop_stored();
            state.remove_if_ended(stream);
            state.shrink_unread();
        }
        self.room.notify_waiters();
    }

    /// Returns the next events of a stream, encoded. `None` at its end, or if this reader was replaced or disconnected.
    pub(crate) fn poll_take(&self, stream: u64, number: u64, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.lock();
        let state = &mut *state;
        let mut out = Vec::new();
        while out.is_empty() {
            let Some(of) = state.streams.get_mut(stream).filter(|of| of.reader == Some(number)) else {
                return Poll::Ready(None);
            };
            if !of.has_unread() {
                if of.cursor == of.last && (of.ended || of.disconnects) {
                    of.disconnects = false;
                    return Poll::Ready(None);
                }
                of.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let oldest = of.last - of.held;
            if of.cursor < oldest {
                of.cursor = oldest;
                match self.is_shared() {
                    // Its number is not a position in the store.
                    true => out.extend_from_slice(&sse::Event::new(TRUNCATED).with_event("message").encode()),
                    false => self.put(&mut out, Place { stream, seq: of.name(oldest) }, TRUNCATED),
                }
            }
            let is_taken = |place: Place| place.stream == stream && place.seq <= of.cursor;
            let start = state.events.iter().rposition(|event| is_taken(event.place)).map_or(0, |at| at + 1);
            for event in state.events.range(start..).filter(|event| event.place.stream == stream) {
                let Some(id) = event.id else { break };
                let is_end = of.name(event.place.seq) == END;
                self.put_event(&mut out, event, Place { stream, seq: if is_end { END } else { id } });
                of.cursor = event.place.seq;
                if out.len() >= PIECE {
                    break;
                }
            }
            (of.is_slow, of.still_since) = (false, Some(Instant::now()));
            // Delivered events above the limit are dropped at once, and all of them if the shared store has them.
            state.shrink();
            state.drop_stored();
        }
        self.room.notify_waiters();
        Poll::Ready(Some(out.into()))
    }

    /// The time of the latest event, on the clock of the budget.
    fn recorded(&self) -> u64 {
        self.lock().recorded
    }

    /// Drops the events with at most this priority.
    fn drop_up_to(&self, most: Priority) {
        self.lock().drop_up_to(most);
        self.room.notify_waiters();
    }

    /// Returns the notice that events are lost, for a reader of a removed stream. `None` if the reader has the response.
    pub(crate) fn lost(&self, place: Place) -> Option<Bytes> {
        if place.seq == END {
            return None;
        }
        let mut out = Vec::new();
        self.put(&mut out, Place { seq: END, ..place }, TRUNCATED);
        Some(out.into())
    }

    /// Whether the standalone stream has no reader.
    fn is_unread(&self) -> bool {
        if self.is_followed.load(Ordering::Acquire) {
            return false;
        }
        let state = self.lock();
        !state.closed && state.streams.get(STANDALONE).is_none_or(|of| of.reader.is_none())
    }

    /// Whether the log still has a stream.
    pub(crate) fn knows(&self, stream: u64) -> bool {
        stream == STANDALONE || self.lock().streams.get(stream).is_some_and(|of| of.failure.is_none())
    }

    fn put_event(&self, out: &mut Vec<u8>, event: &Event, place: Place) {
        match event.kind {
            Kind::Message | Kind::Answer => self.put(out, place, &event.message),
            Kind::Opened => {
                let retry = self.appender.as_ref().and_then(|appender| appender.retry.get());
                if let Some(retry) = retry {
                    out.extend_from_slice(&sse::Event::priming(&self.id(place)).with_retry(*retry).encode());
                }
            }
            Kind::End | Kind::Gap => {}
        }
    }

    fn put(&self, out: &mut Vec<u8>, place: Place, message: &[u8]) {
        out.extend_from_slice(&sse::Event::new(message).with_id(&self.id(place)).with_event("message").encode());
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Sends on the standalone stream.
impl FrameSender for EventLog {
    /// Input requests do not wait. If necessary they evict older events, and the reader receives a notice.
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        let sent = self.record(STANDALONE, frame.message);
        Box::pin(std::future::ready(sent))
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        self.try_record(STANDALONE, frame)
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(self.room(STANDALONE, len))
    }

    fn close(&self, _id: &RequestId) {}

    fn unread(&self) -> Option<BoxFuture<'_, ()>> {
        self.is_unread()
            .then(|| -> BoxFuture<'_, ()> { Box::pin(wait_until(&self.room, || (!self.is_unread()).then_some(()))) })
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        Self::close(self);
        Box::pin(std::future::ready(Ok(())))
    }
}
