//! The limit on the event logs of all sessions of an endpoint, and the eviction when they exceed it.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use super::{EventLog, state::Priority};

/// The cost of an event beside its bytes.
const COST: usize = 128;

/// The bytes of all event logs of an endpoint, and their limit.
pub(crate) struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// The used bytes above which the next event starts an eviction.
    mark: AtomicUsize,
    clock: AtomicU64,
    /// Returns the logs of the open sessions.
    logs: Box<dyn Fn() -> Vec<Arc<EventLog>> + Send + Sync>,
    evicting: Mutex<()>,
}

impl Budget {
    pub(crate) fn new(limit: usize, logs: impl Fn() -> Vec<Arc<EventLog>> + Send + Sync + 'static) -> Self {
        Self {
            limit,
            used: AtomicUsize::new(0),
            mark: AtomicUsize::new(limit),
            clock: AtomicU64::new(0),
            logs: Box::new(logs),
            evicting: Mutex::new(()),
        }
    }

    /// Counts an event, and returns its time.
    pub(super) fn take(&self, len: usize) -> u64 {
        self.used.fetch_add(len + COST, Ordering::Relaxed);
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn give(&self, len: usize) {
        self.used.fetch_sub(len + COST, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether the logs exceed the limit.
    pub(super) fn is_over(&self) -> bool {
        self.used() > self.limit
    }

    /// If the logs exceed the limit, evicts delivered events, then events without a reader. The least active sessions are
    /// first. The caller must not hold the lock of a log.
    pub(super) fn evict(&self) {
        if self.used() <= self.mark.load(Ordering::Relaxed) {
            return;
        }
        // Another task evicts already.
        let Ok(_evicting) = self.evicting.try_lock() else { return };
        let goal = self.limit - self.limit / 8;
        let mut logs = (self.logs)();
        logs.sort_by_cached_key(|log| log.recorded());
        for most in [Priority::Delivered, Priority::UnreadResponse] {
            for log in &logs {
                if self.used() <= goal {
                    break;
                }
                log.drop_up_to(most);
            }
        }
        // Readers are about to take the rest. The next search waits until the logs have grown.
        let used = self.used();
        let mark = if used <= self.limit { self.limit } else { used + self.limit / 16 };
        self.mark.store(mark, Ordering::Relaxed);
    }

    /// Searches again for events to evict.
    pub(crate) fn review(&self) {
        self.mark.store(self.limit, Ordering::Relaxed);
        self.evict();
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("limit", &self.limit).field("used", &self.used()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use bytes::Bytes;
    use mcp_transport::{Frame, TrySendError};

    use super::{
        super::{EXPECTED, STANDALONE},
        *,
    };

    const EVENT: usize = 1000;

    /// Returns logs that share a budget.
    fn logs(count: usize, limit: usize) -> (Vec<Arc<EventLog>>, Arc<Budget>) {
        let all: Arc<Mutex<Vec<Arc<EventLog>>>> = Arc::default();
        let listed = all.clone();
        let budget = Arc::new(Budget::new(limit, move || listed.lock().unwrap().clone()));
        let logs: Vec<_> =
            (0..count).map(|number| Arc::new(EventLog::new(&number.to_string(), budget.clone()))).collect();
        *all.lock().unwrap() = logs.clone();
        (logs, budget)
    }

    fn record(log: &EventLog, stream: u64) -> Result<(), TrySendError> {
        log.try_record(stream, Frame::new(Bytes::from(vec![b'x'; EVENT])))
    }

    fn held(log: &EventLog) -> usize {
        log.lock().events.len()
    }

    #[test]
    fn eviction_begins_with_the_least_active_session_and_keeps_awaited_events() {
        let (logs, budget) = logs(4, 32 * (EVENT + COST));
        let [read, unread, awaited, busy] = &logs[..] else { panic!("four") };
        // Each log has eight events: awaited, without a reader, and delivered. The delivered events are the newest.
        let stream = awaited.open(None).unwrap();
        (0..8).for_each(|_| record(awaited, stream).unwrap());
        let gone = unread.open(None).unwrap();
        unread.detach(gone, EXPECTED);
        (0..8).for_each(|_| record(unread, gone).unwrap());
        let stream = read.open(None).unwrap();
        let (number, _) = read.attach(stream, None);
        (0..8).for_each(|_| record(read, stream).unwrap());
        assert!(read.poll_take(stream, number, &Context::from_waker(Waker::noop())).is_ready());
        let busy_stream = busy.open(None).unwrap();
        busy.detach(busy_stream, EXPECTED);
        (0..8).for_each(|_| record(busy, busy_stream).unwrap());
        assert_eq!(logs.iter().map(|log| held(log)).collect::<Vec<_>>(), [8, 8, 8, 8]);

        record(busy, busy_stream).unwrap();
        assert_eq!(logs.iter().map(|log| held(log)).collect::<Vec<_>>(), [0, 8, 8, 9], "delivered events");
        (0..8).for_each(|_| record(busy, busy_stream).unwrap());
        assert_eq!(logs.iter().map(|log| held(log)).collect::<Vec<_>>(), [0, 0, 8, 17], "then events without a reader");
        assert!(!budget.is_over());
        // Closing the logs returns all bytes to the budget.
        logs.iter().for_each(|log| log.close());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn writers_above_the_budget_wait_for_their_readers() {
        let (logs, budget) = logs(2, 100 * (EVENT + COST));
        let [one, other] = &logs[..] else { panic!("two") };
        let (stream, beside) = (one.open(None).unwrap(), other.open(None).unwrap());
        let count = (0..1000).take_while(|_| record(one, stream).is_ok()).count();
        // A log with a reader becomes slower, and loses nothing.
        assert!((100..=102).contains(&count), "{count}");
        assert!(budget.is_over());
        record(other, beside).unwrap();
        assert_eq!((held(one), held(other)), (count, 1));
        let (number, _) = one.attach(stream, None);
        while budget.is_over() {
            let Poll::Ready(Some(_)) = one.poll_take(stream, number, &Context::from_waker(Waker::noop())) else {
                panic!("an event is missing")
            };
            budget.review();
        }
        record(one, stream).unwrap();
        assert!(record(one, STANDALONE).is_ok());
    }
}
