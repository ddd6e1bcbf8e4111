//! The requests that a server is running for one peer.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use mcp_protocol::{RequestId, start_of};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The reason for which the client cancelled a request, if it named one.
pub(crate) type CancelReason = Arc<OnceLock<Box<str>>>;

/// The most bytes of a reason that are kept.
const REASON: usize = 1024;

/// The running requests of one peer, by id. A cancellation finds its request here.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    table: Mutex<Table>,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    /// The limit of running requests bounds the table, so a tree is faster than hashes.
    requests: BTreeMap<RequestId, Running>,
    /// The peer is closed: all requests were cancelled, and new ones are rejected.
    is_closed: bool,
}

/// The reason for which a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotEntered {
    /// A request with the same id is still running.
    InUse,
    /// The session ended before the request began.
    Over,
}

/// A running request. The number distinguishes it from a later request with the same id.
#[derive(Debug)]
struct Running {
    number: u64,
    token: CancellationToken,
    reason: CancelReason,
}

impl InFlight {
    /// Adds a request, so that a cancellation or the end of its session finds it.
    ///
    /// # Errors
    /// See [`NotEntered`].
    pub(crate) fn enter(
        self: &Arc<Self>,
        id: &RequestId,
        token: &CancellationToken,
    ) -> Result<InFlightGuard, NotEntered> {
        let mut table = self.lock();
        if table.is_closed {
            return Err(NotEntered::Over);
        }
        match table.requests.entry(id.clone()) {
            Entry::Occupied(_) => Err(NotEntered::InUse),
            Entry::Vacant(slot) => {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                let reason = CancelReason::default();
                slot.insert(Running { number, token: token.clone(), reason: Arc::clone(&reason) });
                Ok(InFlightGuard { table: self.clone(), id: id.clone(), number, reason })
            }
        }
    }

    /// Cancels a request and frees its id. An unknown id is ignored, because the request may have ended already.
    pub(crate) fn cancel(&self, id: &RequestId, reason: Option<&str>) {
        let running = self.lock().requests.remove(id);
        if let Some(running) = running {
            if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
                let _ = running.reason.set(start_of(reason, REASON).into());
            }
            running.token.cancel();
        }
    }

    pub(crate) fn contains(&self, id: &RequestId) -> bool {
        self.lock().requests.contains_key(id)
    }

    /// Cancels all requests and rejects new ones.
    pub(crate) fn close(&self) {
        let requests = {
            let mut table = self.lock();
            table.is_closed = true;
            std::mem::take(&mut table.requests)
        };
        for running in requests.values() {
            running.token.cancel();
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Table> {
        self.table.lock()
    }
}

/// Removes its request from the table when dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard {
    table: Arc<InFlight>,
    id: RequestId,
    number: u64,
    reason: CancelReason,
}

impl InFlightGuard {
    /// Returns the place of the reason for which the client cancels the request.
    pub(crate) fn reason(&self) -> &CancelReason {
        &self.reason
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if table.requests.get(&self.id).is_some_and(|running| running.number == self.number) {
            table.requests.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_finished_requests_and_distinguishes_id_types() {
        let table = Arc::new(InFlight::default());
        let (a, b) = (CancellationToken::new(), CancellationToken::new());
        let guard = table.enter(&RequestId::from(1), &a).unwrap();
        assert_eq!(table.enter(&RequestId::from(1), &b).unwrap_err(), NotEntered::InUse);
        let other = table.enter(&RequestId::from("1"), &b).unwrap();
        table.cancel(&RequestId::from("1"), None);
        table.cancel(&RequestId::from("2"), Some("too late"));
        assert!(b.is_cancelled() && !a.is_cancelled());
        // The id of a cancelled request is free, and the old guard does not remove the new request.
        let again = table.enter(&RequestId::from("1"), &a).unwrap();
        drop(other);
        assert_eq!(table.enter(&RequestId::from("1"), &a).unwrap_err(), NotEntered::InUse);
        drop((guard, again));
        assert!(table.lock().requests.is_empty());
    }

    #[test]
    fn a_cancelled_request_has_the_start_of_the_reason() {
        let table = Arc::new(InFlight::default());
        for (reason, expected) in [
            (None, None),
            (Some(String::new()), None),
            (Some("too slow".to_owned()), Some("too slow".to_owned())),
            // A character has two bytes.
            (Some(format!("x{}", "ä".repeat(REASON))), Some(format!("x{}", "ä".repeat(REASON / 2 - 1)))),
        ] {
            let token = CancellationToken::new();
            let guard = table.enter(&RequestId::from(1), &token).unwrap();
            table.cancel(&RequestId::from(1), reason.as_deref());
            assert!(token.is_cancelled());
            assert_eq!(guard.reason().get().map(|reason| &**reason), expected.as_deref());
        }
    }

    #[test]
    fn a_closed_table_rejects_requests() {
        let table = Arc::new(InFlight::default());
        let (before, after) = (CancellationToken::new(), CancellationToken::new());
        let _guard = table.enter(&RequestId::from(1), &before).unwrap();
        table.close();
        assert!(before.is_cancelled());
        assert_eq!(table.enter(&RequestId::from(2), &after).unwrap_err(), NotEntered::Over);
        assert!(table.lock().requests.is_empty());
    }
}
