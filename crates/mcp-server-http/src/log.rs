//! The event log of a legacy session: what is said on its streams is recorded first and sent then, so that a client whose
//! connection broke finds it again.
//!
//! One log for all streams of a session, with one cap; the oldest event goes first, whichever stream it is of. A stream is
//! a number and a cursor: what is recorded behind the cursor waits for a reader, which may come later or never.

mod streams;

use std::{
    collections::VecDeque,
    fmt::Write as _,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use mcp_protocol::RequestId;
use mcp_transport::{BoxFuture, Frame, FrameSender, TransportError, TrySendError, sse};
use tokio::sync::Notify;

use self::streams::{Stream, Streams};

/// Events that a session keeps.
pub(crate) const EVENTS: usize = 256;
/// Bytes of messages that a session keeps; one message always fits.
pub(crate) const BYTES: usize = 1 << 20;
/// After so many bytes a stream is given what it has so far, so that a slow reader holds little.
const PIECE: usize = 64 << 10;
/// The stream for what nobody asked for.
pub(crate) const STANDALONE: u32 = 0;
/// The number of a reader that is on its way: whoever opens a stream is about to read it.
pub(crate) const EXPECTED: u64 = 0;
/// The place in a stream after which nothing comes.
const END: u64 = u64::MAX;

const TRUNCATED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/replay_truncated","params":{}}"#;

/// A place in a stream: what a client that resumes has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) stream: u32,
    pub(crate) seq: u64,
}

/// The events of one session.
#[derive(Debug)]
pub(crate) struct EventLog {
    /// Tells the ids of this session from those of others.
    tag: u32,
    state: Mutex<State>,
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    bytes: usize,
    streams: Streams,
    last_stream: u32,
    last_reader: u64,
    closed: bool,
}

#[derive(Debug)]
struct Event {
    place: Place,
    message: Bytes,
}

impl State {
    /// Whether an event of this size would push out one of the same stream that its reader is about to take. Unasked
    /// messages wait for a reader that is still to come as well: no handler waits for them.
    fn would_lose(&self, stream: u32, len: usize) -> bool {
        let is_read = |of: &&Stream| stream == STANDALONE || (of.reader.is_some() && !of.is_slow);
        let Some(of) = self.streams.get(stream).filter(is_read) else { return false };
        let (mut count, mut bytes) = (self.events.len(), self.bytes);
        for event in &self.events {
            if count < EVENTS && bytes + len <= BYTES {
                return false;
            }
            if event.place.stream == stream && event.place.seq > of.cursor {
                return true;
            }
            count -= 1;
            bytes -= event.message.len();
        }
        false
    }

    fn record(&mut self, stream: u32, message: Bytes) -> Option<Waker> {
        while !self.events.is_empty() && (self.events.len() >= EVENTS || self.bytes + message.len() > BYTES) {
            self.evict();
        }
        let of = self.streams.make(stream);
        of.last += 1;
        of.held += 1;
        self.bytes += message.len();
        let waker = of.waker.take();
        self.events.push_back(Event { place: Place { stream, seq: of.last }, message });
        waker
    }

    fn evict(&mut self) {
        let Some(event) = self.events.pop_front() else { return };
        self.bytes -= event.message.len();
        if let Some(of) = self.streams.get_mut(event.place.stream) {
            of.held -= 1;
        }
        self.forget(event.place.stream);
    }

    /// Forgets a stream that is over and of which nothing is left.
    fn forget(&mut self, stream: u32) {
        if self.streams.get(stream).is_some_and(|of| of.ended && of.held == 0 && of.reader.is_none()) {
            self.streams.remove(stream);
        }
    }

    fn close(&mut self) -> Vec<Waker> {
        self.closed = true;
        self.events = VecDeque::new();
        self.bytes = 0;
        std::mem::take(&mut self.streams).into_wakers()
    }
}

impl EventLog {
    /// The log of the session with this id.
    pub(crate) fn new(session_id: &str) -> Self {
        // The id itself speaks for the session; what travels in events does not tell it.
        let mut hasher = DefaultHasher::new();
        session_id.hash(&mut hasher);
        let bytes = hasher.finish().to_le_bytes();
        let tag = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        Self { tag, state: Mutex::default(), room: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn id(&self, place: Place) -> String {
        let mut id = String::with_capacity(32);
        // Writing into memory has no way to fail.
        let _ = write!(id, "{:08x}-{:x}-", self.tag, place.stream);
        let _ = if place.seq == END { write!(id, "end") } else { write!(id, "{:x}", place.seq) };
        id
    }

    /// The place that an id names; `None` when it is no id of this session.
    pub(crate) fn place(&self, id: &str) -> Option<Place> {
        let mut parts = id.split('-');
        let (tag, stream, seq) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || u32::from_str_radix(tag, 16) != Ok(self.tag) {
            return None;
        }
        let stream = u32::from_str_radix(stream, 16).ok()?;
        let seq = if seq == "end" { END } else { u64::from_str_radix(seq, 16).ok()? };
        let place = Place { stream, seq };
        let state = self.lock();
        let last = match state.streams.get(stream) {
            // What is forgotten had some end.
            _ if seq == END => END,
            Some(of) => of.last,
            None if stream == STANDALONE => 0,
            None => END,
        };
        // Only what was sent can have been seen; and one way to write it, so that nothing else passes.
        (stream <= state.last_stream && seq <= last && self.id(place) == id).then_some(place)
    }

    /// Opens a stream whose reader is on its way. `None` when the session is over.
    pub(crate) fn open(&self) -> Option<u32> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        state.last_stream = state.last_stream.checked_add(1)?;
        let number = state.last_stream;
        state.streams.make(number).reader = Some(EXPECTED);
        Some(number)
    }

    /// Records a message, whatever has to go for it.
    fn record(&self, stream: u32, message: Bytes) -> Result<(), TransportError> {
        let waker = {
            let mut state = self.lock();
            if state.closed {
                return Err(TransportError::closed());
            }
            state.record(stream, message)
        };
        wake(waker);
        Ok(())
    }

    /// Records a message unless its own reader would miss one for it.
    pub(crate) fn try_record(&self, stream: u32, frame: Frame) -> Result<(), TrySendError> {
        let waker = {
            let mut state = self.lock();
            if state.closed {
                return Err(TrySendError::Closed(frame));
            }
            if state.would_lose(stream, frame.message.len()) {
                return Err(TrySendError::Full(frame));
            }
            state.record(stream, frame.message)
        };
        wake(waker);
        Ok(())
    }

    /// Waits until the reader of a stream has taken enough for a message of this length.
    pub(crate) async fn room(&self, stream: u32, len: usize) -> Result<(), TransportError> {
        loop {
            // Registered before looking, so that room made in between is noticed.
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            {
                let state = self.lock();
                if state.closed {
                    return Err(TransportError::closed());
                }
                if !state.would_lose(stream, len) {
                    return Ok(());
                }
            }
            room.await;
        }
    }

    /// Waits no more for the reader of a stream until it takes something.
    pub(crate) fn give_up(&self, stream: u32) {
        if let Some(of) = self.lock().streams.get_mut(stream) {
            of.is_slow = true;
        }
    }

    /// Records the last event of a stream.
    pub(crate) fn end(&self, stream: u32, message: Option<Bytes>) {
        let waker = {
            let mut state = self.lock();
            if state.closed {
                return;
            }
            let first = message.and_then(|message| state.record(stream, message));
            let of = state.streams.make(stream);
            of.ended = true;
            let waker = first.or_else(|| of.waker.take());
            state.forget(stream);
            waker
        };
        wake(waker);
    }

    /// Sends the reader of a stream away once it has what there is. The stream goes on.
    pub(crate) fn hang_up(&self, stream: u32) {
        let waker = self.lock().streams.get_mut(stream).and_then(|of| {
            of.hangs_up = true;
            of.waker.take()
        });
        wake(waker);
    }

    /// Ends all streams and forgets everything: the session is over.
    pub(crate) fn close(&self) {
        let wakers = self.lock().close();
        self.room.notify_waiters();
        for waker in wakers {
            waker.wake();
        }
    }

    /// Becomes the reader of a stream, in the place of an older one: from a place on, or from where the last one stopped.
    /// Returns the reader's number and where it starts.
    pub(crate) fn attach(&self, stream: u32, after: Option<u64>) -> (u64, Place) {
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
            (of.hangs_up, of.is_slow) = (after.is_none() && of.hangs_up, false);
            (number, Place { stream, seq: of.cursor }, of.waker.take())
        };
        // Who read before looks again, sees that it was replaced, and ends.
        wake(waker);
        self.room.notify_waiters();
        (number, place)
    }

    /// Reads no more.
    pub(crate) fn detach(&self, stream: u32, number: u64) {
        {
            let mut state = self.lock();
            let Some(of) = state.streams.get_mut(stream).filter(|of| of.reader == Some(number)) else { return };
            (of.reader, of.waker) = (None, None);
            state.forget(stream);
        }
        self.room.notify_waiters();
    }

    /// The next events of a stream, encoded. `None` at its end, or when this reader was replaced or sent away.
    pub(crate) fn poll_take(&self, stream: u32, number: u64, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(of) = state.streams.get_mut(stream).filter(|of| of.reader == Some(number)) else {
            return Poll::Ready(None);
        };
        if !of.has_unread() {
            if of.ended || of.hangs_up {
                of.hangs_up = false;
                return Poll::Ready(None);
            }
            of.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut out = Vec::new();
        let oldest = of.last - of.held;
        if of.cursor < oldest {
            of.cursor = oldest;
            self.put(&mut out, Place { stream, seq: oldest }, TRUNCATED);
        }
        let unread = |event: &Event| event.place.stream != stream || event.place.seq > of.cursor;
        let start = state.events.iter().rposition(|event| !unread(event)).map_or(0, |at| at + 1);
        for event in state.events.range(start..).filter(|event| event.place.stream == stream) {
            self.put(&mut out, event.place, &event.message);
            of.cursor = event.place.seq;
            if out.len() >= PIECE {
                break;
            }
        }
        of.is_slow = false;
        // The one message that was allowed above the cap goes as soon as somebody has it.
        let cursor = of.cursor;
        let is_read = |event: &Event| event.place.stream == stream && event.place.seq <= cursor;
        if state.bytes > BYTES && state.events.front().is_some_and(is_read) {
            state.evict();
        }
        self.room.notify_waiters();
        Poll::Ready(Some(out.into()))
    }

    /// The last word to a reader of a stream that is forgotten: what it missed is gone.
    pub(crate) fn lost(&self, place: Place) -> Option<Bytes> {
        if place.seq == END {
            return None;
        }
        let mut out = Vec::new();
        self.put(&mut out, Place { seq: END, ..place }, TRUNCATED);
        Some(out.into())
    }

    /// Whether nobody reads the stream for what nobody asked for.
    fn is_unread(&self) -> bool {
        let state = self.lock();
        !state.closed && state.streams.get(STANDALONE).is_none_or(|of| of.reader.is_none())
    }

    /// Whether a stream is still known.
    pub(crate) fn knows(&self, stream: u32) -> bool {
        stream == STANDALONE || self.lock().streams.get(stream).is_some()
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

/// The stream for what nobody asked for.
impl FrameSender for EventLog {
    /// Questions wait for nobody: if need be they push out what is older, and the reader is told.
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
        self.is_unread().then(|| -> BoxFuture<'_, ()> {
            Box::pin(async {
                loop {
                    // Registered before looking, so that a reader that comes in between is noticed.
                    let mut changed = std::pin::pin!(self.room.notified());
                    changed.as_mut().enable();
                    if !self.is_unread() {
                        return;
                    }
                    changed.await;
                }
            })
        })
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        Self::close(self);
        Box::pin(std::future::ready(Ok(())))
    }
}
