//! The calls that the client cancelled and the server did not answer. Their questions can still arrive.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::Instant;

use super::{OwnHandler, RunningCall};

/// How long a question of a cancelled call can arrive.
const LATE: Duration = Duration::from_secs(30);
/// The number of remembered calls. Beyond it, no handler is certain until the time of the dropped call has passed.
const CALLS: usize = 64;

/// The cancelled calls of one connection, oldest first.
#[derive(Debug, Default)]
pub(super) struct CancelledCalls {
    calls: VecDeque<Cancelled>,
    /// A call was dropped before its time.
    uncertain_until: Option<Instant>,
}

#[derive(Debug)]
struct Cancelled {
    request: i64,
    /// A call that continues with another request counts as a running call.
    call: Weak<RunningCall>,
    /// Kept, so that its identity belongs to no other handler.
    own: Option<Arc<OwnHandler>>,
    until: Instant,
}

impl CancelledCalls {
    /// Records a request that the client cancelled before its answer.
    pub(super) fn add(&mut self, request: i64, call: &Arc<RunningCall>) {
        self.expire();
        if self.calls.len() == CALLS {
            self.uncertain_until = self.calls.pop_front().map(|dropped| dropped.until);
        }
        let (own, until) = (call.own().cloned(), Instant::now() + LATE);
        self.calls.push_back(Cancelled { request, call: Arc::downgrade(call), own, until });
    }

    /// Removes a request that the server has answered. The server asks no more questions on its behalf.
    pub(super) fn answered(&mut self, request: i64) {
        self.calls.retain(|cancelled| cancelled.request != request);
    }

    /// Returns the handlers of the cancelled calls; `None` if the client has dropped one of them.
    pub(super) fn handlers(&mut self) -> Option<Vec<Option<Arc<OwnHandler>>>> {
        self.expire();
        if self.uncertain_until.is_some() {
            return None;
        }
        let ended = self.calls.iter().filter(|cancelled| cancelled.call.strong_count() == 0);
        Some(ended.map(|cancelled| cancelled.own.clone()).collect())
    }

    fn expire(&mut self) {
        let now = Instant::now();
        self.calls.retain(|cancelled| cancelled.until > now);
        self.uncertain_until = self.uncertain_until.filter(|until| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_number_and_the_time_of_cancelled_calls_are_bounded() {
        let mut cancelled = CancelledCalls::default();
        let add = |cancelled: &mut CancelledCalls, id| cancelled.add(id, &RunningCall::new("tools/call", None, None));
        for id in 0..CALLS as i64 {
            add(&mut cancelled, id);
        }
        assert_eq!(cancelled.handlers().unwrap().len(), CALLS);
        cancelled.answered(0);
        assert_eq!(cancelled.handlers().unwrap().len(), CALLS - 1);
        add(&mut cancelled, 100);
        add(&mut cancelled, 101);
        assert!(cancelled.handlers().is_none(), "the client does not know the handler of the dropped call");
        tokio::time::advance(LATE).await;
        assert!(cancelled.handlers().unwrap().is_empty());
    }

    #[test]
    fn a_call_that_continues_is_not_a_cancelled_call() {
        let mut cancelled = CancelledCalls::default();
        let call = RunningCall::new("tools/call", None, None);
        cancelled.add(1, &call);
        assert!(cancelled.handlers().unwrap().is_empty());
        drop(call);
        assert_eq!(cancelled.handlers().unwrap().len(), 1);
    }
}
