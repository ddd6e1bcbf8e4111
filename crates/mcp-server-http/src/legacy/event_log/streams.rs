//! The streams of one session. Most sessions have none and others a few, so a sorted list holds them.

use std::task::Waker;

use tokio::time::Instant;

use super::{END, STANDALONE};

/// The streams of a session, by number.
#[derive(Debug, Default)]
pub(super) struct Streams(Vec<(u64, Stream)>);

impl Streams {
    fn find(&self, number: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&number, |(number, _)| *number)
    }

    pub(super) fn get(&self, number: u64) -> Option<&Stream> {
        self.find(number).ok().map(|at| &self.0[at].1)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Stream> {
        self.find(number).ok().map(|at| &mut self.0[at].1)
    }

    /// Returns the stream with a number. Creates the stream if it does not exist.
    pub(super) fn make(&mut self, number: u64) -> &mut Stream {
        let at = self.find(number).unwrap_or_else(|at| {
            if self.0.is_empty() {
                // Most sessions with streams have one stream.
                self.0.reserve_exact(1);
            }
            self.0.insert(at, (number, Stream::default()));
            at
        });
        &mut self.0[at].1
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.0.iter().map(|(_, stream)| stream)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.0.iter_mut().map(|(_, stream)| stream)
    }

    pub(super) fn remove(&mut self, number: u64) {
        if let Ok(at) = self.find(number) {
            self.0.remove(at);
        }
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    /// Removes all streams except the standalone stream and those that have failed. Returns the wakers of their readers.
    pub(super) fn remove_calls(&mut self) -> Vec<Waker> {
        let is_removed = |number: u64, of: &Stream| number != STANDALONE && of.failure.is_none();
        self.0
            .extract_if(.., |(number, of)| is_removed(*number, of))
            .filter_map(|(_, mut of)| of.waker.take())
            .collect()
    }

    /// Ends the streams of calls whose clients wait for the first event id. `first` is the sequence number of the first event with
    /// an id. Returns the wakers of their readers.
    pub(super) fn fail(&mut self, first: u64, mut fails: impl FnMut(u64) -> bool) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for (number, of) in &mut self.0 {
            if *number == STANDALONE || of.reader.is_none() || of.cursor >= first || !fails(*number) {
                continue;
            }
            of.failure = Some(if of.ended { Failure::ResponseLost } else { Failure::Cancelled });
            (of.ended, of.answer, of.held) = (true, None, 0);
            (of.last, of.visible) = (of.cursor, of.cursor);
            wakers.extend(of.waker.take());
        }
        wakers
    }

    /// Whether a stream other than the standalone stream exists.
    pub(super) fn has_calls(&self) -> bool {
        self.0.last().is_some_and(|(number, _)| *number != STANDALONE)
    }

    /// Returns the wakers of all readers.
    pub(super) fn into_wakers(self) -> Vec<Waker> {
        self.0.into_iter().filter_map(|(_, mut stream)| stream.waker.take()).collect()
    }
}

/// The reason for which the stream of a call ends, although its client cannot resume it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The shared store failed, and the call was cancelled.
    Cancelled,
    /// The shared store failed after the end of the call.
    ResponseLost,
}

/// One stream of a session.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The sequence number of the latest event. The first is 1.
    pub(super) last: u64,
    /// How many of its events the log holds. These are the latest events.
    pub(super) held: u64,
    /// The sequence number of the latest event that a reader may receive. Later events wait for the shared store.
    pub(super) visible: u64,
    /// The sequence number of the latest event that a reader received.
    pub(super) cursor: u64,
    /// The number of the reader, and its waker.
    pub(super) reader: Option<u64>,
    pub(super) waker: Option<Waker>,
    /// No further event follows.
    pub(super) ended: bool,
    /// The length of the response, which is the last event of most streams.
    pub(super) answer: Option<usize>,
    /// The latest events were evicted before the shared store had them.
    pub(super) has_gap: bool,
    /// The reason for which the stream of a call ended before its client received an event id. The log has no events of it.
    pub(super) failure: Option<Failure>,
    /// The reader is disconnected after it has the recorded events.
    pub(super) disconnects: bool,
    /// A writer has waited too long for the reader.
    pub(super) is_slow: bool,
    /// When the reader connected, last took events, or got new events after it had all: the latest of these.
    pub(super) still_since: Option<Instant>,
}

impl Stream {
    /// Lets the reader receive the events up to this one. Returns the reader.
    pub(super) fn show(&mut self, seq: u64) -> Option<Waker> {
        if !self.has_unread() {
            self.still_since = Some(Instant::now());
        }
        self.visible = self.visible.max(seq);
        self.waker.take()
    }

    pub(super) fn has_unread(&self) -> bool {
        self.cursor < self.visible
    }

    /// The length of the response that the reader is about to take.
    pub(super) fn awaited_answer(&self) -> Option<usize> {
        self.answer.filter(|_| self.reader.is_some() && self.cursor < self.last && self.held > 0)
    }

    /// Returns the sequence number for the position behind an event. Behind the response it is the end.
    pub(super) fn name(&self, seq: u64) -> u64 {
        if self.answer.is_some() && seq == self.last { END } else { seq }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_found_by_number_in_any_order_of_creation() {
        let mut streams = Streams::default();
        for number in [3, 0, 7, 3, 1] {
            streams.make(number).last += 1;
        }
        let last = |streams: &Streams, number| streams.get(number).map(|stream| stream.last);
        assert_eq!([0, 1, 2, 3, 7].map(|number| last(&streams, number)), [Some(1), Some(1), None, Some(2), Some(1)]);
        streams.remove(3);
        streams.remove(2);
        assert_eq!((last(&streams, 3), last(&streams, 7), streams.0.len()), (None, Some(1), 3));
        for number in [0, 1, 7] {
            streams.remove(number);
        }
        assert_eq!(streams.0.capacity(), 0);
    }
}
