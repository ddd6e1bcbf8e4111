//! The progress of the shared store with the events of a session, and the streams that end when the store fails.

use std::task::Waker;

use super::{EventLog, Failure, Place, state::NextBatch, wait_until};

impl EventLog {
    /// Returns the next batch under a lease.
    pub(super) fn next_batch(&self, lease: &str) -> Option<NextBatch> {
        let mut state = self.lock();
        if let Some(stored) = &mut state.stored
            && stored.node.as_deref() != Some(lease)
        {
            stored.node = Some(lease.into());
        }
        state.next_batch()
    }

    /// Returns the sequence of the last batch of this log in the shared store.
    pub(super) fn last_sequence(&self) -> u64 {
        self.lock().stored.as_ref().map_or(0, |stored| stored.sequence)
    }

    /// Shows events to their readers. Returns whether the log in the store has to be trimmed.
    pub(super) fn batch_stored(&self, places: &[Place], sequence: u64, bytes: usize) -> bool {
        let (wakers, trims) = self.lock().batch_stored(places, sequence, bytes);
        wakers.into_iter().for_each(Waker::wake);
        self.room.notify_waiters();
        trims
    }

    /// Takes back the events of a batch, because other nodes have excluded its writer.
    pub(super) fn batch_rejected(&self, writer: u32) {
        let is_current = {
            let mut state = self.lock();
            state.batch_rejected();
            state.stored.as_ref().is_some_and(|stored| stored.writer == writer)
        };
        if is_current {
            self.keep_lease(None);
        }
    }

    /// Ends the streams of all calls if their lease is not this lease. Other nodes may have ended them.
    pub(crate) fn keep_lease(&self, lease: Option<&str>) {
        if !self.lock().has_other_lease(lease) {
            return;
        }
        let Ok(writer) = getrandom::u32() else {
            tracing::error!("the system has no random numbers, so a session ends");
            return self.close();
        };
        let first = self.first_id();
        let wakers = self.lock().exclude(writer, first);
        self.streams_ended(wakers);
    }

    /// Wakes the readers of ended streams, and ends the calls of these streams.
    pub(super) fn streams_ended(&self, readers: Vec<Waker>) {
        readers.into_iter().for_each(Waker::wake);
        self.room.notify_waiters();
        if let Some(appender) = &self.appender {
            appender.excluded.notify_waiters();
        }
    }

    /// Returns the sequence number of the first event of a stream that has an id. The event before it has no text.
    pub(super) fn first_id(&self) -> u64 {
        let is_primed = self.appender.as_ref().is_some_and(|appender| appender.retry.get().is_some());
        if is_primed { 1 } else { 2 }
    }

    /// Waits until other nodes may end the stream of a call, or the shared store fails before its client received an event id. `stream`
    /// returns the stream if the call has one.
    pub(crate) async fn excluded(&self, stream: impl Fn() -> Option<u64>) {
        let Some(appender) = &self.appender else { return std::future::pending().await };
        wait_until(&appender.excluded, || stream().filter(|stream| !self.knows(*stream)).map(drop)).await;
    }

    /// Whether the stream of a call has not ended, or the store lacks its events.
    pub(crate) fn is_open(&self, stream: u64) -> bool {
        let state = self.lock();
        let has_unstored = || state.events.iter().any(|event| event.id.is_none() && event.place.stream == stream);
        state.streams.get(stream).is_some_and(|of| !of.ended) || has_unstored()
    }

    /// Returns the writer and its lease, if calls have streams.
    pub(crate) fn writer_of_calls(&self) -> Option<(u32, Box<str>)> {
        let state = self.lock();
        let stored = state.stored.as_ref().filter(|_| state.streams.has_calls())?;
        Some((stored.writer, stored.node.clone()?))
    }

    /// Whether the store has all events, and no stream is open.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.lock();
        state.events.is_empty() && !state.streams.has_calls()
    }

    /// Whether the store has the record that names the node of the writer.
    pub(super) fn is_named(&self) -> bool {
        self.lock().stored.as_ref().is_some_and(|stored| stored.is_named)
    }

    pub(super) fn set_named(&self, writer: u32) {
        if let Some(stored) = self.lock().stored.as_mut().filter(|stored| stored.writer == writer) {
            stored.is_named = true;
        }
    }

    pub(super) fn append_failed(&self) {
        self.lock().append_failed();
    }

    pub(super) fn disconnect_unstored(&self) {
        let first = self.first_id();
        let wakers = self.lock().disconnect_unstored(first);
        self.streams_ended(wakers);
    }

    /// Whether the stream of a call ended before its client received an event id.
    pub(crate) fn has_failed(&self, stream: u64) -> bool {
        self.lock().has_failed(stream)
    }

    /// Returns the reason for which the stream of a call ended, if its client has no event id to resume it.
    pub(crate) fn failure(&self, stream: u64, number: u64) -> Option<Failure> {
        self.lock().failure(stream, number)
    }

    /// Starts to append the events that wait for the shared store.
    pub(super) fn append(&self) {
        if let Some(appender) = &self.appender
            && self.lock().begins_appending()
        {
            appender.start();
        }
    }
}
