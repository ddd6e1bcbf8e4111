//! The events of one session, and their eviction order.

use std::{
    collections::{BTreeSet, VecDeque},
    mem,
    sync::Arc,
    task::Waker,
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    BYTES, EVENTS, PIECE, Place, STANDALONE,
    appender::needs_trim,
    batch::{self, BatchId, BatchWriter, Kind, first_stream},
    budget::Budget,
    streams::{Failure, Stream, Streams},
};

#[derive(Debug)]
pub(super) struct State {
    pub(super) events: VecDeque<Event>,
    bytes: usize,
    pub(super) streams: Streams,
    pub(super) last_stream: u64,
    pub(super) last_reader: u64,
    /// The time of the latest event, on the clock of the budget.
    pub(super) recorded: u64,
    pub(super) closed: bool,
    /// The progress of the shared store. `None` if the log is the only place of its events.
    pub(super) stored: Option<Stored>,
    budget: Arc<Budget>,
}

/// The progress of the shared store with the events of a log.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// The random number of this log, while the node has one lease. It distinguishes the streams and batches of the nodes of
    /// a session.
    pub(super) writer: u32,
    /// The lease under which this writer appends. `None` before its first batch.
    pub(super) node: Option<Box<str>>,
    /// Whether the store has the record that names the node of this writer.
    pub(super) is_named: bool,
    /// The number of the last batch.
    batch: u64,
    /// The sequence of the last batch in the store.
    pub(super) sequence: u64,
    pub(super) is_appending: bool,
    /// When the store began to fail. `None` while it works.
    failing_since: Option<Instant>,
    /// Whether the store has failed for so long that handlers no longer wait for it.
    is_slow: bool,
    /// The batches and bytes since the log in the store was trimmed.
    untrimmed: (u64, usize),
}

#[derive(Debug)]
pub(super) struct Event {
    pub(super) place: Place,
    pub(super) message: Bytes,
    pub(super) kind: Kind,
    /// The sequence number in the id of the event. `None` until the shared store has the event.
    pub(super) id: Option<u64>,
    /// Whether it is in the batch that is being appended. The store may have it, so it is not evicted.
    is_sent: bool,
    /// Whether events of its stream before it were evicted before the shared store had them.
    follows_gap: bool,
}

impl Stored {
    /// Returns the progress of a new log with a random number.
    pub(super) fn new(writer: u32) -> Self {
        Self { writer, ..Self::default() }
    }
}

/// Some events that are appended to the shared store as one record.
pub(super) struct NextBatch {
    pub(super) id: BatchId,
    pub(super) bytes: Vec<u8>,
    pub(super) places: Vec<Place>,
}

/// The most events and bytes of a batch. A larger event is a batch of its own.
const BATCH: (usize, usize) = (256, 256 << 10);

/// The delivered events and their bytes that have the age of other events as their eviction order. Without this share, a stream
/// without a reader would leave no capacity for events that a client requests again after its connection broke.
const SHARE: (usize, usize) = (EVENTS / 2, BYTES / 2);

/// The eviction priority of an event. Events with a lower priority are evicted first. Delivered events within their [`SHARE`] have
/// the priority of events without a reader.
///
/// Within a stream no event has a higher priority than a later event. A stream so loses only its oldest events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// The reader has received it, and may ask for it again.
    Delivered,
    /// Its stream has no reader.
    Unread,
    /// It is a response, and its stream has no reader.
    UnreadResponse,
    /// Its reader is slow, or the shared store.
    Slow,
    /// Its reader is about to take it.
    Awaited,
    /// It begins or ends a stream, and the shared store lacks it. Or it is a response, and its reader is about to take it. It is
    /// not evicted.
    AwaitedResponse,
}

/// The delivered events that a search has found.
#[derive(Debug, Default)]
struct Share {
    count: usize,
    bytes: usize,
}

impl Share {
    /// Adds an event. Returns true if the events exceed the share.
    fn exceeds(&mut self, event: &Event) -> bool {
        self.count += 1;
        self.bytes += event.message.len();
        self.count > SHARE.0 || self.bytes > SHARE.1
    }
}

impl State {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        Self {
            events: VecDeque::new(),
            bytes: 0,
            streams: Streams::default(),
            last_stream: 0,
            last_reader: 0,
            recorded: 0,
            closed: false,
            stored: None,
            budget,
        }
    }

    fn priority(&self, event: &Event) -> Priority {
        let Some(of) = self.streams.get(event.place.stream) else { return Priority::Delivered };
        let is_answer = of.answer.is_some() && event.place.seq == of.last;
        if event.id.is_none() {
            let is_slow = self.stored.as_ref().is_some_and(|stored| stored.is_slow);
            return match event.kind {
                Kind::Opened | Kind::Answer | Kind::End => Priority::AwaitedResponse,
                Kind::Message | Kind::Gap if is_slow => Priority::Slow,
                Kind::Message | Kind::Gap => Priority::Awaited,
            };
        }
        match of.reader {
            _ if event.place.seq <= of.cursor => Priority::Delivered,
            None if is_answer => Priority::UnreadResponse,
            None => Priority::Unread,
            Some(_) if is_answer => Priority::AwaitedResponse,
            Some(_) if of.is_slow => Priority::Slow,
            Some(_) => Priority::Awaited,
        }
    }

    /// Whether an event of this length would evict an event that a reader is about to take. A message of the standalone
    /// stream also waits for a reader that is not connected yet, because no handler waits for it.
    pub(super) fn would_lose(&self, stream: u64, len: usize) -> bool {
        let cap = if self.budget.is_over() { PIECE } else { BYTES };
        let (mut count, mut bytes) = (self.events.len(), self.bytes);
        // Delivered events within their share are evicted after the older messages that wait for a reader.
        let (mut has_waiting, mut share) = (false, Share::default());
        for event in &self.events {
            if count < EVENTS && bytes + len <= cap {
                return false;
            }
            let priority = self.priority(event);
            let stays = match priority {
                Priority::Awaited => true,
                Priority::Delivered => has_waiting && !share.exceeds(event),
                // A response uses no capacity of other events.
                Priority::AwaitedResponse => false,
                Priority::Unread | Priority::UnreadResponse | Priority::Slow => {
                    stream == STANDALONE && event.place.stream == STANDALONE
                }
            };
            has_waiting |= stays && priority == Priority::Unread;
            if !stays {
                count -= 1;
                bytes -= event.message.len();
            }
        }
        count > 0 && (count >= EVENTS || bytes + len > cap)
    }

    /// Whether a response without a reader would evict an event that a reader is about to take.
    pub(super) fn answer_would_lose(&self, stream: u64, len: usize) -> bool {
        self.streams.get(stream).is_some_and(|of| of.reader.is_none()) && self.would_lose(stream, len)
    }

    /// Returns the number and the bytes of the events, without the responses that readers are about to take. The limit on
    /// running calls bounds these responses.
    fn counted(&self) -> (usize, usize) {
        let answers = self.streams.iter().filter_map(Stream::awaited_answer);
        answers.fold((self.events.len(), self.bytes), |(count, bytes), len| (count - 1, bytes - len))
    }

    /// Records an event, and evicts other events if necessary.
    pub(super) fn record(&mut self, stream: u64, message: Bytes) -> Option<Waker> {
        self.record_as(Kind::Message, stream, message)
    }

    fn record_as(&mut self, kind: Kind, stream: u64, message: Bytes) -> Option<Waker> {
        let len = message.len();
        while self.events.len() >= EVENTS || self.bytes + len > BYTES {
            let (count, bytes) = self.counted();
            if count == 0 || (count < EVENTS && bytes + len <= BYTES) || !self.evict(Priority::Awaited) {
                break;
            }
        }
        self.push(kind, stream, message)
    }

    pub(super) fn push(&mut self, kind: Kind, stream: u64, message: Bytes) -> Option<Waker> {
        let is_visible = self.stored.is_none();
        let of = self.streams.make(stream);
        of.last += 1;
        of.held += 1;
        let (seq, follows_gap) = (of.last, mem::take(&mut of.has_gap));
        let waker = if is_visible { of.show(seq) } else { None };
        self.bytes += message.len();
        self.recorded = self.budget.take(message.len());
        let id = is_visible.then_some(seq);
        let place = Place { stream, seq };
        self.events.push_back(Event { place, message, kind, id, is_sent: false, follows_gap });
        waker
    }

    /// Ends a stream, and records its last event if there is one. A response whose stream has a reader evicts nothing.
    pub(super) fn end(&mut self, stream: u64, message: Option<Bytes>) -> Option<Waker> {
        let of = self.streams.get(stream).filter(|of| of.failure.is_none())?;
        let is_read = of.reader.is_some();
        let answer = message.as_ref().map(Bytes::len);
        let first = match message {
            Some(message) if is_read => self.push(Kind::Answer, stream, message),
            Some(message) => self.record_as(Kind::Answer, stream, message),
            // The readers at other nodes have to learn the end.
            None if self.stored.is_some() => self.push(Kind::End, stream, Bytes::new()),
            None => None,
        };
        let of = self.streams.get_mut(stream)?;
        (of.ended, of.answer) = (true, answer);
        let waker = first.or_else(|| of.waker.take());
        self.remove_if_ended(stream);
        waker
    }

    /// Evicts the oldest event of the lowest priority, if that is at most `most`. Returns false if there is no such event.
    fn evict(&mut self, most: Priority) -> bool {
        let mut found: Option<(Priority, usize)> = None;
        let (mut oldest_delivered, mut share) = (None, Share::default());
        for (at, event) in self.events.iter().enumerate().filter(|(_, event)| !event.is_sent) {
            let priority = self.priority(event);
            if priority == Priority::Delivered {
                let is_oldest = found.is_none_or(|(least, _)| least > Priority::Unread);
                let oldest = *oldest_delivered.get_or_insert((priority, at));
                if is_oldest || share.exceeds(event) {
                    found = Some(oldest);
                    break;
                }
            } else if priority <= most && found.is_none_or(|(least, _)| priority < least) {
                found = Some((priority, at));
            }
        }
        let Some((at, event)) = found.and_then(|(_, at)| Some((at, self.events.remove(at)?))) else { return false };
        if event.id.is_none() {
            self.report_gap(at, event.place.stream);
        }
        self.evicted(&event);
        true
    }

    /// Records that the next event of a stream follows a gap. The next event is at this index or later, or does not exist yet.
    fn report_gap(&mut self, from: usize, stream: u64) {
        if let Some(next) = self.events.range_mut(from..).find(|event| event.place.stream == stream) {
            next.follows_gap = true;
        } else if let Some(of) = self.streams.get_mut(stream) {
            of.has_gap = true;
        }
    }

    fn evicted(&mut self, event: &Event) {
        self.bytes -= event.message.len();
        self.budget.give(event.message.len());
        if let Some(of) = self.streams.get_mut(event.place.stream) {
            of.held -= 1;
        }
        self.remove_if_ended(event.place.stream);
    }

    /// Evicts delivered events and events without a reader above the limit.
    pub(super) fn shrink(&mut self) {
        while (self.events.len() > EVENTS || self.bytes > BYTES) && self.evict(Priority::Unread) {}
    }

    /// Evicts events without a reader above the limit, except one.
    pub(super) fn shrink_unread(&mut self) {
        loop {
            let (count, bytes) = self.counted();
            if count <= 1 || (count <= EVENTS && bytes <= BYTES) || !self.evict(Priority::UnreadResponse) {
                return;
            }
        }
    }

    /// Whether events wait for the shared store, and no task appends them. The caller then starts the task.
    pub(super) fn begins_appending(&mut self) -> bool {
        let Some(stored) = &mut self.stored else { return false };
        let begins = !stored.is_appending && self.events.back().is_some_and(|event| event.id.is_none());
        stored.is_appending |= begins;
        begins
    }

    /// Returns the next events for the shared store. `None` if none wait, or the session has ended.
    pub(super) fn next_batch(&mut self) -> Option<NextBatch> {
        let stored = self.stored.as_mut()?;
        let first = self.events.iter().position(|event| event.id.is_none());
        let Some(first) = first.filter(|_| !self.closed) else {
            stored.is_appending = false;
            return None;
        };
        stored.batch += 1;
        let id = BatchId { writer: stored.writer, number: stored.batch };
        let mut writer = BatchWriter::new(id);
        let mut places = Vec::new();
        for event in self.events.range_mut(first..).take(BATCH.0) {
            if !places.is_empty() && writer.len() + event.message.len() > BATCH.1 {
                break;
            }
            let stream = event.place.stream;
            if event.follows_gap {
                writer.push(Kind::Gap, stream, b"");
                // No event has this place.
                places.push(Place { stream, seq: 0 });
            }
            writer.push(event.kind, stream, &event.message);
            places.push(event.place);
            event.is_sent = true;
        }
        Some(NextBatch { id, bytes: writer.into_bytes(), places })
    }

    /// Shows events to their readers, because the shared store has them. Returns the readers, and whether the log in the store
    /// has to be trimmed.
    pub(super) fn batch_stored(&mut self, places: &[Place], sequence: u64, bytes: usize) -> (Vec<Waker>, bool) {
        let mut wakers = Vec::new();
        let mut stored = places.iter().enumerate().peekable();
        for event in &mut self.events {
            // The place of a gap has no event, and a stream may have been removed.
            while stored.next_if(|(_, place)| event.id.is_none() && **place != event.place).is_some() {}
            let Some((index, place)) = stored.next_if(|(_, place)| **place == event.place) else { continue };
            event.id = Some(batch::seq(sequence, index, places.len()));
            event.is_sent = false;
            wakers.extend(self.streams.get_mut(place.stream).and_then(|of| of.show(place.seq)));
        }
        let Some(progress) = &mut self.stored else { return (wakers, false) };
        progress.sequence = sequence;
        (progress.failing_since, progress.is_slow) = (None, false);
        progress.untrimmed.0 += 1;
        progress.untrimmed.1 += bytes;
        let trims = needs_trim(progress.untrimmed.0, progress.untrimmed.1);
        if trims {
            progress.untrimmed = (0, 0);
        }
        self.drop_stored();
        (wakers, trims)
    }

    /// Takes back the events of a batch that the shared store rejected.
    pub(super) fn batch_rejected(&mut self) {
        for event in &mut self.events {
            event.is_sent = false;
        }
    }

    /// Whether this writer has appended under another lease than this.
    pub(super) fn has_other_lease(&self, lease: Option<&str>) -> bool {
        let node = self.stored.as_ref().and_then(|stored| stored.node.as_deref());
        node.is_some() && node != lease
    }

    /// Removes the streams of all calls, because the lease of their writer is lost: other nodes may end these streams. The later
    /// events are those of a new writer. `first` is the sequence number of the first event with an id. Returns the readers.
    pub(super) fn exclude(&mut self, writer: u32, first: u64) -> Vec<Waker> {
        let Some(stored) = &mut self.stored else { return Vec::new() };
        (stored.writer, stored.node, stored.is_named, stored.batch) = (writer, None, false, 0);
        self.last_stream = first_stream(writer);
        let mut wakers = self.streams.fail(first, |_| true);
        wakers.extend(self.streams.remove_calls());
        self.drop_events_of(|stream| stream != STANDALONE);
        wakers
    }

    /// Drops the events of streams that the log does not have any more.
    fn drop_events_of(&mut self, is_removed: impl Fn(u64) -> bool) {
        for event in mem::take(&mut self.events) {
            if is_removed(event.place.stream) {
                self.bytes -= event.message.len();
                self.budget.give(event.message.len());
            } else {
                self.events.push_back(event);
            }
        }
    }

    /// Drops the events that the shared store has, and no connection of this node is about to read.
    pub(super) fn drop_stored(&mut self) {
        if self.stored.is_none() {
            return;
        }
        for event in mem::take(&mut self.events) {
            let of = self.streams.get(event.place.stream);
            let is_awaited = of.is_some_and(|of| of.reader.is_some() && event.place.seq > of.cursor);
            if event.id.is_none() || is_awaited {
                self.events.push_back(event);
            } else {
                self.evicted(&event);
            }
        }
    }

    /// Records that the shared store fails.
    pub(super) fn append_failed(&mut self) {
        if let Some(stored) = &mut self.stored {
            stored.failing_since.get_or_insert_with(Instant::now);
        }
    }

    /// Disconnects the readers that wait for the shared store. Their clients resume when it works again. The stream of a client without
    /// an event id ends, because the client cannot resume it. `first` is the sequence number of the first event with an id.
    pub(super) fn disconnect_unstored(&mut self, first: u64) -> Vec<Waker> {
        let waiting: BTreeSet<_> =
            self.events.iter().filter(|event| event.id.is_none()).map(|event| event.place.stream).collect();
        let mut wakers = self.streams.fail(first, |stream| waiting.contains(&stream));
        let failed: BTreeSet<_> = waiting.iter().copied().filter(|stream| self.has_failed(*stream)).collect();
        self.drop_events_of(|stream| failed.contains(&stream));
        for stream in waiting.difference(&failed) {
            let Some(of) = self.streams.get_mut(*stream) else { continue };
            of.reader = None;
            wakers.extend(of.waker.take());
        }
        wakers
    }

    /// Whether a stream ended because the shared store failed.
    pub(super) fn has_failed(&self, stream: u64) -> bool {
        self.streams.get(stream).is_some_and(|of| of.failure.is_some())
    }

    /// Returns the reason for which a stream ended, for its reader alone.
    pub(super) fn failure(&self, stream: u64, reader: u64) -> Option<Failure> {
        self.streams.get(stream).filter(|of| of.reader == Some(reader))?.failure
    }

    /// Drops the events with at most this priority.
    pub(super) fn drop_up_to(&mut self, most: Priority) {
        for event in mem::take(&mut self.events) {
            if self.priority(&event) <= most {
                self.evicted(&event);
            } else {
                self.events.push_back(event);
            }
        }
    }

    /// Marks readers that have taken nothing for `limit` as slow, and a shared store that has failed for this time. Returns when
    /// the next of them becomes slow.
    pub(super) fn mark_slow_readers(&mut self, now: Instant, limit: Duration) -> Instant {
        let mut next = now + limit;
        if let Some(stored) = &mut self.stored
            && let Some(since) = stored.failing_since
        {
            stored.is_slow = since + limit <= now;
            if !stored.is_slow {
                next = since + limit;
            }
        }
        for of in self.streams.iter_mut().filter(|of| of.reader.is_some() && of.has_unread() && !of.is_slow) {
            let deadline = of.still_since.map_or(now, |since| since + limit);
            of.is_slow = deadline <= now;
            if !of.is_slow {
                next = next.min(deadline);
            }
        }
        next
    }

    /// Removes a stream that has ended and has no events.
    pub(super) fn remove_if_ended(&mut self, stream: u64) {
        if self.streams.get(stream).is_some_and(|of| of.ended && of.held == 0 && of.reader.is_none()) {
            self.streams.remove(stream);
        }
    }

    pub(super) fn close(&mut self) -> Vec<Waker> {
        self.closed = true;
        for event in mem::take(&mut self.events) {
            self.budget.give(event.message.len());
        }
        self.bytes = 0;
        mem::take(&mut self.streams).into_wakers()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.close();
    }
}
