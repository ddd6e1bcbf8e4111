//! What the logs of all sessions of a server hold together, and who gives something up when that is too much.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use super::{EventLog, state::Worth};

/// What an event costs beside its bytes.
const COST: usize = 128;

/// Bytes that the logs of sessions may hold together.
pub(crate) struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// Above this somebody has to give something up.
    mark: AtomicUsize,
    clock: AtomicU64,
    /// The logs that there are.
    logs: Box<dyn Fn() -> Vec<Arc<EventLog>> + Send + Sync>,
    relieving: Mutex<()>,
}

impl Budget {
    pub(crate) fn new(limit: usize, logs: impl Fn() -> Vec<Arc<EventLog>> + Send + Sync + 'static) -> Self {
        Self {
            limit,
            used: AtomicUsize::new(0),
            mark: AtomicUsize::new(limit),
            clock: AtomicU64::new(0),
            logs: Box::new(logs),
            relieving: Mutex::new(()),
        }
    }

    /// Accounts for an event; returns the time of it.
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

    /// Whether the logs hold too much.
    pub(super) fn is_over(&self) -> bool {
        self.used() > self.limit
    }

    /// When the logs hold too much, lets go of what was read, then of what nobody reads, of the sessions first that were
    /// silent longest. Called with no log locked.
    pub(super) fn relieve(&self) {
        if self.used() <= self.mark.load(Ordering::Relaxed) {
            return;
        }
        // Whoever does it already does it for all.
        let Ok(_relieving) = self.relieving.try_lock() else { return };
        let goal = self.limit - self.limit / 8;
        let mut logs = (self.logs)();
        logs.sort_by_cached_key(|log| log.recorded());
        for most in [Worth::Taken, Worth::Unanswered] {
            for log in &logs {
                if self.used() <= goal {
                    break;
                }
                log.let_go(most);
            }
        }
        // What is left is about to be read, and is not searched again before it has grown.
        let used = self.used();
        let mark = if used <= self.limit { self.limit } else { used + self.limit / 16 };
        self.mark.store(mark, Ordering::Relaxed);
    }

    /// Looks again whether somebody can give something up.
    pub(crate) fn review(&self) {
        self.mark.store(self.limit, Ordering::Relaxed);
        self.relieve();
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

    /// Some logs under one budget.
    fn logs(count: usize, limit: usize) -> (Vec<Arc<EventLog>>, Arc<Budget>) {
        let all: Arc<Mutex<Vec<Arc<EventLog>>>> = Arc::default();
        let listed = all.clone();
        let budget = Arc::new(Budget::new(limit, move || listed.lock().unwrap().clone()));
        let logs: Vec<_> =
            (0..count).map(|number| Arc::new(EventLog::new(&number.to_string(), budget.clone()))).collect();
        *all.lock().unwrap() = logs.clone();
        (logs, budget)
    }

    fn say(log: &EventLog, stream: u32) -> Result<(), TrySendError> {
        log.try_record(stream, Frame::new(Bytes::from(vec![b'x'; EVENT])))
    }

    fn held(log: &EventLog) -> usize {
        log.lock().events.len()
    }

    #[test]
    fn who_was_silent_longest_gives_first_and_what_is_about_to_be_read_stays() {
        let (logs, budget) = logs(4, 32 * (EVENT + COST));
        let [read, unread, awaited, busy] = &logs[..] else { panic!("four") };
        // Eight events each: awaited, unread, and read ones, the last of them the youngest.
        let stream = awaited.open().unwrap();
        (0..8).for_each(|_| say(awaited, stream).unwrap());
        let gone = unread.open().unwrap();
        unread.detach(gone, EXPECTED);
        (0..8).for_each(|_| say(unread, gone).unwrap());
        let stream = read.open().unwrap();
        let (number, _) = read.attach(stream, None);
        (0..8).for_each(|_| say(read, stream).unwrap());
        assert!(read.poll_take(stream, number, &Context::from_waker(Waker::noop())).is_ready());
        let busy_stream = busy.open().unwrap();
        busy.detach(busy_stream, EXPECTED);
        (0..8).for_each(|_| say(busy, busy_stream).unwrap());
        assert_eq!(logs.iter().map(|log| held(log)).collect::<Vec<_>>(), [8, 8, 8, 8]);

        say(busy, busy_stream).unwrap();
        assert_eq!(logs.iter().map(|log| held(log)).collect::<Vec<_>>(), [0, 8, 8, 9], "what was read");
        (0..8).for_each(|_| say(busy, busy_stream).unwrap());
        assert_eq!(logs.iter().map(|log| held(log)).collect::<Vec<_>>(), [0, 0, 8, 17], "then what nobody reads");
        assert!(!budget.is_over());
        // All of it is given back in the end.
        logs.iter().for_each(|log| log.close());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn over_the_budget_writers_wait_for_their_readers() {
        let (logs, budget) = logs(2, 100 * (EVENT + COST));
        let [one, other] = &logs[..] else { panic!("two") };
        let (stream, beside) = (one.open().unwrap(), other.open().unwrap());
        let count = (0..1000).take_while(|_| say(one, stream).is_ok()).count();
        // Somebody whose reader is there goes on slowly, and loses nothing.
        assert!((100..=102).contains(&count), "{count}");
        assert!(budget.is_over());
        say(other, beside).unwrap();
        assert_eq!((held(one), held(other)), (count, 1));
        let (number, _) = one.attach(stream, None);
        while budget.is_over() {
            let Poll::Ready(Some(_)) = one.poll_take(stream, number, &Context::from_waker(Waker::noop())) else {
                panic!("all is there")
            };
            budget.review();
        }
        say(one, stream).unwrap();
        assert!(say(one, STANDALONE).is_ok());
    }
}
