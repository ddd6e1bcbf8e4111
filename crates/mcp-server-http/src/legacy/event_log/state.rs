//! What the log of a session holds, and what goes first when something has to go.

use std::{collections::VecDeque, mem, sync::Arc, task::Waker, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    BYTES, EVENTS, PIECE, Place, STANDALONE,
    budget::Budget,
    streams::{Stream, Streams},
};

#[derive(Debug)]
pub(super) struct State {
    pub(super) events: VecDeque<Event>,
    bytes: usize,
    pub(super) streams: Streams,
    pub(super) last_stream: u32,
    pub(super) last_reader: u64,
    /// When the latest event was recorded, by the clock of the budget.
    pub(super) recorded: u64,
    pub(super) closed: bool,
    budget: Arc<Budget>,
}

#[derive(Debug)]
pub(super) struct Event {
    pub(super) place: Place,
    pub(super) message: Bytes,
}

/// What an event is good for. What is worth less goes first; within a stream no event is worth more than a later one, so
/// that a stream only ever loses its oldest ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Worth {
    /// Its reader has it, and may ask for it again.
    Taken,
    /// Nobody reads its stream.
    Unread,
    /// Nobody reads its stream, and it is the answer.
    Unanswered,
    /// Its reader takes nothing.
    Late,
    /// Its reader is about to take it.
    Awaited,
    /// Its reader is about to take it, and it is the answer: it stays.
    Answer,
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
            budget,
        }
    }

    fn worth(&self, event: &Event) -> Worth {
        let Some(of) = self.streams.get(event.place.stream) else { return Worth::Taken };
        let is_answer = of.answer.is_some() && event.place.seq == of.last;
        match of.reader {
            _ if event.place.seq <= of.cursor => Worth::Taken,
            None if is_answer => Worth::Unanswered,
            None => Worth::Unread,
            Some(_) if is_answer => Worth::Answer,
            Some(_) if of.is_slow => Worth::Late,
            Some(_) => Worth::Awaited,
        }
    }

    /// Whether an event of this size on this stream would push out one that a reader is about to take. Unasked messages
    /// wait for a reader that is still to come as well: no handler waits for them.
    pub(super) fn would_lose(&self, stream: u32, len: usize) -> bool {
        let cap = if self.budget.is_over() { PIECE } else { BYTES };
        let (mut count, mut bytes) = (self.events.len(), self.bytes);
        for event in &self.events {
            if count < EVENTS && bytes + len <= cap {
                return false;
            }
            let stays = match self.worth(event) {
                Worth::Awaited => true,
                // An answer takes no room of others.
                Worth::Taken | Worth::Answer => false,
                Worth::Unread | Worth::Unanswered | Worth::Late => {
                    stream == STANDALONE && event.place.stream == STANDALONE
                }
            };
            if !stays {
                count -= 1;
                bytes -= event.message.len();
            }
        }
        count > 0 && (count >= EVENTS || bytes + len > cap)
    }

    /// The same for the last event of a stream.
    pub(super) fn answer_would_lose(&self, stream: u32, len: usize) -> bool {
        self.streams.get(stream).is_some_and(|of| of.reader.is_none()) && self.would_lose(stream, len)
    }

    /// Counts and measures what is held, but for the answers that readers are about to take: the calls behind them are
    /// bounded, and so are they.
    fn counted(&self) -> (usize, usize) {
        let answers = self.streams.iter().filter_map(Stream::awaited_answer);
        answers.fold((self.events.len(), self.bytes), |(count, bytes), len| (count - 1, bytes - len))
    }

    /// Records an event, whatever has to go for it.
    pub(super) fn record(&mut self, stream: u32, message: Bytes) -> Option<Waker> {
        let len = message.len();
        while self.events.len() >= EVENTS || self.bytes + len > BYTES {
            let (count, bytes) = self.counted();
            if count == 0 || (count < EVENTS && bytes + len <= BYTES) || !self.evict(Worth::Awaited) {
                break;
            }
        }
        self.push(stream, message)
    }

    fn push(&mut self, stream: u32, message: Bytes) -> Option<Waker> {
        let of = self.streams.make(stream);
        if !of.has_unread() {
            of.still_since = Some(Instant::now());
        }
        of.last += 1;
        of.held += 1;
        let waker = of.waker.take();
        let seq = of.last;
        self.bytes += message.len();
        self.recorded = self.budget.take(message.len());
        self.events.push_back(Event { place: Place { stream, seq }, message });
        waker
    }

    /// Records the last event of a stream, if there is one: one that is read has room.
    pub(super) fn end(&mut self, stream: u32, message: Option<Bytes>) -> Option<Waker> {
        let is_read = self.streams.get(stream)?.reader.is_some();
        let answer = message.as_ref().map(Bytes::len);
        let first = match message {
            Some(message) if is_read => self.push(stream, message),
            Some(message) => self.record(stream, message),
            None => None,
        };
        let of = self.streams.get_mut(stream)?;
        (of.ended, of.answer) = (true, answer);
        let waker = first.or_else(|| of.waker.take());
        self.forget(stream);
        waker
    }

    /// Lets go of the oldest of those events that are worth least, and no more than this; false when there is none.
    fn evict(&mut self, most: Worth) -> bool {
        let mut found: Option<(Worth, usize)> = None;
        for (at, event) in self.events.iter().enumerate() {
            let worth = self.worth(event);
            if worth <= most && found.is_none_or(|(least, _)| worth < least) {
                found = Some((worth, at));
                if worth == Worth::Taken {
                    break;
                }
            }
        }
        let Some(event) = found.and_then(|(_, at)| self.events.remove(at)) else { return false };
        self.gone(&event);
        true
    }

    fn gone(&mut self, event: &Event) {
        self.bytes -= event.message.len();
        self.budget.give(event.message.len());
        if let Some(of) = self.streams.get_mut(event.place.stream) {
            of.held -= 1;
        }
        self.forget(event.place.stream);
    }

    /// Lets go of what was taken beyond the cap.
    pub(super) fn shrink(&mut self) {
        while (self.events.len() > EVENTS || self.bytes > BYTES) && self.evict(Worth::Taken) {}
    }

    /// Lets go of what nobody reads any more beyond the cap, but for one event.
    pub(super) fn shrink_unread(&mut self) {
        loop {
            let (count, bytes) = self.counted();
            if count <= 1 || (count <= EVENTS && bytes <= BYTES) || !self.evict(Worth::Unanswered) {
                return;
            }
        }
    }

    /// Lets go of all that is worth no more than this.
    pub(super) fn let_go(&mut self, most: Worth) {
        for event in mem::take(&mut self.events) {
            if self.worth(&event) <= most {
                self.gone(&event);
            } else {
                self.events.push_back(event);
            }
        }
    }

    /// Waits no more for those who took nothing for so long; returns when the next one is to be given up.
    pub(super) fn give_up(&mut self, now: Instant, patience: Duration) -> Instant {
        let mut next = now + patience;
        for of in self.streams.iter_mut().filter(|of| of.reader.is_some() && of.has_unread() && !of.is_slow) {
            let until = of.still_since.map_or(now, |since| since + patience);
            of.is_slow = until <= now;
            if !of.is_slow {
                next = next.min(until);
            }
        }
        next
    }

    /// Forgets a stream that is over and of which nothing is left.
    pub(super) fn forget(&mut self, stream: u32) {
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
