//! The connections of this node that read streams of a session from the shared store.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::event_log::wait_until;

/// The position up to which a connection has taken the events of its stream. A replaced connection takes no more events.
#[derive(Debug)]
pub(crate) struct Taken(Mutex<TakenState>);

#[derive(Debug, Clone, Copy)]
struct TakenState {
    position: u64,
    is_closed: bool,
}

impl Taken {
    pub(crate) fn new(position: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(TakenState { position, is_closed: false })))
    }

    /// Records that the connection takes the events up to a position. Returns false if another connection has replaced it.
    pub(crate) fn advance(&self, position: u64) -> bool {
        let mut state = self.0.lock();
        if !state.is_closed {
            state.position = position;
        }
        !state.is_closed
    }

    pub(crate) fn position(&self) -> u64 {
        self.0.lock().position
    }

    /// Returns the last position of a replaced connection.
    fn close(&self) -> u64 {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.position
    }
}

/// The connections of one session.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    readers: Mutex<Vec<Reader>>,
    changed: Notify,
}

#[derive(Debug)]
struct Reader {
    stream: u64,
    /// Its order among the readers of all nodes.
    order: u64,
    taken: Arc<Taken>,
}

impl Followers {
    /// Adds a reader, unless the stream has a newer reader.
    pub(super) fn attach(&self, stream: u64, order: u64, taken: Arc<Taken>) {
        let mut readers = self.readers.lock();
        if readers.iter().any(|reader| reader.stream == stream && reader.order > order) {
            taken.close();
        } else {
            readers.push(Reader { stream, order, taken });
        }
    }

    /// Removes a reader.
    pub(super) fn detach(&self, stream: u64, order: u64) {
        self.readers.lock().retain(|reader| (reader.stream, reader.order) != (stream, order));
    }

    /// Returns the order of the last reader of a stream.
    pub(super) fn order(&self, stream: u64) -> Option<u64> {
        self.readers.lock().iter().filter(|reader| reader.stream == stream).map(|reader| reader.order).max()
    }

    /// Waits until a reader is replaced.
    pub(super) async fn ended(&self, stream: u64, order: u64) {
        wait_until(&self.changed, || {
            let readers = self.readers.lock();
            let is_attached = readers.iter().any(|reader| (reader.stream, reader.order) == (stream, order));
            (!is_attached).then_some(())
        })
        .await;
    }

    /// Ends the readers of a stream with a lower order, and returns the position up to which they have taken its events.
    pub(super) fn remove(&self, stream: u64, order: u64) -> Option<u64> {
        let mut position = None;
        self.readers.lock().retain(|reader| {
            let stays = reader.stream != stream || reader.order >= order;
            if !stays {
                position = position.max(Some(reader.taken.close()));
            }
            stays
        });
        self.changed.notify_waiters();
        position
    }
}
