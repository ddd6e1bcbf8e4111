//! The event log of a legacy session: what is said on its streams is recorded first and sent then, so that a client whose
//! connection broke finds it again.
//!
//! One log for all streams of a session, with one cap; what somebody has read goes first, then what nobody reads, then the
//! rest. A stream is a number and a cursor: what is recorded behind the cursor waits for a reader, which may come later or
//! never.

mod budget;
mod state;
mod streams;

use std::{
    fmt::Write as _,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use mcp_protocol::RequestId;
use mcp_transport::{BoxFuture, Frame, FrameSender, TransportError, TrySendError, sse};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Notify, time::Instant};

pub(crate) use self::budget::Budget;
use self::state::{State, Worth};
use crate::answer::wait_until::wait_until;

/// Events that a session keeps.
pub(crate) const EVENTS: usize = 256;
/// Bytes of messages that a session keeps; one message always fits, and so does an answer whose reader is there.
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
    budget: Arc<Budget>,
}

impl EventLog {
    /// The log of the session with this id.
    pub(crate) fn new(session_id: &str, budget: Arc<Budget>) -> Self {
        // The id itself speaks for the session; what travels in events does not tell it.
        let mut hasher = DefaultHasher::new();
        session_id.hash(&mut hasher);
        let bytes = hasher.finish().to_le_bytes();
        let tag = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        Self { tag, state: Mutex::new(State::new(budget.clone())), room: Notify::new(), budget }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
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
        // Only what was sent can have been seen.
        let was_sent = match state.streams.get(stream) {
            Some(of) => seq <= of.last || of.name(of.last) == seq,
            None if stream == STANDALONE => seq == 0,
            // What is forgotten had some end.
            None => true,
        };
        // And one way to write it, so that nothing else passes.
        (stream <= state.last_stream && was_sent && self.id(place) == id).then_some(place)
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
        self.budget.relieve();
        Ok(())
    }

    /// Records a message unless a reader would miss one for it, or its stream is over.
    pub(crate) fn try_record(&self, stream: u32, frame: Frame) -> Result<(), TrySendError> {
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
        self.budget.relieve();
        Ok(())
    }

    /// Waits until readers have taken enough for a message of this length.
    pub(crate) async fn room(&self, stream: u32, len: usize) -> Result<(), TransportError> {
        self.wait_until(|state| !state.would_lose(stream, len)).await
    }

    /// The same for the last message of a stream, which waits only while nobody reads it.
    pub(crate) async fn room_for_answer(&self, stream: u32, len: usize) -> Result<(), TransportError> {
        self.wait_until(|state| !state.answer_would_lose(stream, len)).await
    }

    async fn wait_until(&self, has_room: impl Fn(&State) -> bool) -> Result<(), TransportError> {
        wait_until(&self.room, || {
            let state = self.lock();
            if state.closed { Some(Err(TransportError::closed())) } else { has_room(&state).then_some(Ok(())) }
        })
        .await
    }

    /// Waits no more for the readers that took nothing for so long, until they take something. Returns when the next one
    /// is to be given up.
    pub(crate) fn give_up(&self, patience: Duration) -> Instant {
        let next = self.lock().give_up(Instant::now(), patience);
        // Others that wait for the same readers go on as well.
        self.room.notify_waiters();
        next
    }

    /// Records the last event of a stream.
    pub(crate) fn end(&self, stream: u32, message: Option<Bytes>) {
        let waker = self.lock().end(stream, message);
        wake(waker);
        self.budget.relieve();
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
            of.still_since = Some(Instant::now());
            (number, Place { stream, seq: of.name(of.cursor) }, of.waker.take())
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
            state.shrink_unread();
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
            self.put(&mut out, Place { stream, seq: of.name(oldest) }, TRUNCATED);
        }
        let is_taken = |place: Place| place.stream == stream && place.seq <= of.cursor;
        let start = state.events.iter().rposition(|event| is_taken(event.place)).map_or(0, |at| at + 1);
        for event in state.events.range(start..).filter(|event| event.place.stream == stream) {
            let seq = event.place.seq;
            self.put(&mut out, Place { stream, seq: of.name(seq) }, &event.message);
            of.cursor = seq;
            if out.len() >= PIECE {
                break;
            }
        }
        (of.is_slow, of.still_since) = (false, Some(Instant::now()));
        // What was allowed above the cap goes as soon as somebody has it.
        state.shrink();
        self.room.notify_waiters();
        Poll::Ready(Some(out.into()))
    }

    /// When something was last recorded, by the clock of the budget.
    fn recorded(&self) -> u64 {
        self.lock().recorded
    }

    /// Lets go of all that is worth no more than this.
    fn let_go(&self, most: Worth) {
        self.lock().let_go(most);
        self.room.notify_waiters();
    }

    /// The last word to a reader of a stream that is forgotten: what it missed is gone. Nothing to who has its answer.
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
        self.is_unread()
            .then(|| -> BoxFuture<'_, ()> { Box::pin(wait_until(&self.room, || (!self.is_unread()).then_some(()))) })
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        Self::close(self);
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> EventLog {
        EventLog::new("session", Arc::new(Budget::new(1 << 30, Vec::new)))
    }

    fn take(log: &EventLog, stream: u32, number: u64) -> String {
        match log.poll_take(stream, number, &Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(events)) => String::from_utf8(events.to_vec()).unwrap(),
            Poll::Ready(None) => "the end".into(),
            Poll::Pending => "nothing".into(),
        }
    }

    /// The id of the last event of some.
    fn last_id(events: &str) -> &str {
        events.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap()
    }

    #[test]
    fn a_stream_that_is_over_or_unknown_takes_nothing_more() {
        let log = log();
        let over = log.open().unwrap();
        let (number, _) = log.attach(over, None);
        log.end(over, Some("answer".into()));
        for stream in [over, over + 1] {
            assert!(matches!(log.try_record(stream, Frame::new("late")), Err(TrySendError::Closed(_))));
        }
        log.try_record(STANDALONE, Frame::new("unasked")).unwrap();
        assert!(take(&log, over, number).contains("data: answer\n"));
        assert_eq!(take(&log, over, number), "the end");
    }

    #[test]
    fn who_has_the_answer_missed_nothing_when_its_stream_is_forgotten() {
        let log = log();
        let (answered, unanswered) = (log.open().unwrap(), log.open().unwrap());
        let mut seen = Vec::new();
        for stream in [answered, unanswered] {
            log.try_record(stream, Frame::new("word")).unwrap();
            let (number, _) = log.attach(stream, None);
            seen.push(last_id(&take(&log, stream, number)).to_owned());
            log.end(stream, Some("answer".into()));
            if stream == answered {
                seen.push(last_id(&take(&log, stream, number)).to_owned());
                // Who comes back for nothing is told the same place.
                let (number, place) = log.attach(stream, None);
                seen.push(log.id(place));
                log.detach(stream, number);
            }
            log.detach(stream, number);
        }
        log.let_go(Worth::Answer);
        assert!(!log.knows(answered) && !log.knows(unanswered));
        for (id, misses) in [(&seen[0], true), (&seen[1], false), (&seen[2], false), (&seen[3], true)] {
            assert_eq!(log.lost(log.place(id).unwrap()).is_some(), misses, "{id}");
        }
    }

    #[test]
    fn the_loss_of_an_answer_is_told_once() {
        let log = log();
        let stream = log.open().unwrap();
        let (first, place) = log.attach(stream, None);
        log.end(stream, Some(vec![b'x'; 2 * BYTES].into()));
        assert!(take(&log, stream, first).len() > 2 * BYTES);
        // Above the cap it went as soon as it was read, and its client lost it all the same.
        let (second, _) = log.attach(stream, Some(place.seq));
        let told = take(&log, stream, second);
        assert!(told.contains("replay_truncated"), "{told}");
        log.detach(stream, second);
        let again = log.place(last_id(&told)).unwrap();
        assert!(!log.knows(stream) && log.lost(again).is_none());
    }

    #[test]
    fn the_end_of_a_stream_that_goes_on_is_no_place() {
        let log = log();
        let stream = log.open().unwrap();
        log.try_record(stream, Frame::new("word")).unwrap();
        let end = log.id(Place { stream, seq: END });
        assert_eq!(log.place(&end), None);
        log.end(stream, Some("answer".into()));
        assert_eq!(log.place(&end), Some(Place { stream, seq: END }));
    }

    #[tokio::test(start_paused = true)]
    async fn only_who_took_nothing_is_given_up() {
        let patience = Duration::from_secs(5);
        let log = log();
        let streams = [log.open().unwrap(), log.open().unwrap()];
        let numbers = streams.map(|stream| log.attach(stream, None).0);
        let say = |at: usize| log.try_record(streams[at], Frame::new("word")).unwrap();
        let take = |at: usize| take(&log, streams[at], numbers[at]);
        let slow = || streams.map(|stream| log.lock().streams.get(stream).unwrap().is_slow);
        say(0);
        say(1);
        tokio::time::advance(Duration::from_secs(3)).await;
        take(0);
        say(0);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(log.give_up(patience), Instant::now() + Duration::from_secs(3));
        assert_eq!(slow(), [false, true]);
        take(1);
        assert_eq!(slow(), [false, false]);
        say(1);
        assert_eq!(log.give_up(patience), Instant::now() + Duration::from_secs(3));
        assert_eq!(slow(), [false, false]);
    }

    #[test]
    fn an_answer_stays_for_its_reader_and_takes_no_room_of_others() {
        let log = log();
        let large = || Bytes::from(vec![b'x'; 600 << 10]);
        let streams = [log.open().unwrap(), log.open().unwrap(), log.open().unwrap()];
        log.try_record(streams[2], Frame::new("word")).unwrap();
        let numbers = streams.map(|stream| log.attach(stream, None).0);
        log.end(streams[0], Some(large()));
        log.end(streams[1], Some(large()));
        log.try_record(streams[2], Frame::new(large())).unwrap();
        assert!(matches!(log.try_record(streams[2], Frame::new(large())), Err(TrySendError::Full(_))));
        // A client that leaves takes the exception along.
        log.detach(streams[0], numbers[0]);
        let lens: Vec<_> = log.state.lock().events.iter().map(|event| event.message.len()).collect();
        assert_eq!(lens, [4, 600 << 10, 600 << 10]);
        assert!(take(&log, streams[1], numbers[1]).len() > 600 << 10);
        let words = take(&log, streams[2], numbers[2]);
        assert!(words.contains("data: word\n") && !words.contains("truncated"));
    }
}
