//! The order in which the tasks of relayed calls continue.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::yield_now,
};

/// The calls that wait for an answer of a server.
#[derive(Default)]
pub(super) struct WaitingCalls {
    count: AtomicUsize,
}

impl WaitingCalls {
    /// Waits for the answer of a call. If other calls wait too, their tasks run before the call continues.
    ///
    /// A runtime with threads runs a task that another one has woken before the tasks that are ready. If answers arrive at the same
    /// time, each step of a call then runs for one of them only, and the code of the steps displaces each other from the cache.
    pub(super) async fn answer<T>(&self, call: impl Future<Output = T>) -> T {
        let waiting = Waiting::start(&self.count);
        let answer = call.await;
        if waiting.has_others() && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
            yield_now().await;
        }
        answer
    }
}

/// Counts a call until its drop.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn start(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }

    fn has_others(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, poll_fn, ready},
        pin::pin,
        task::Poll,
    };

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_call_beside_others_continues_after_their_tasks() {
        // A main task of a runtime with threads has no queue of ready tasks, so the test runs in a task.
        tokio::spawn(async {
            let calls = WaitingCalls::default();
            assert_eq!(polls(calls.answer(ready(()))).await, 1);
            {
                let mut other = pin!(calls.answer(pending::<()>()));
                assert!(poll_fn(|cx| Poll::Ready(other.as_mut().poll(cx).is_pending())).await);
                assert_eq!(polls(calls.answer(ready(()))).await, 2);
            }
            assert_eq!(polls(calls.answer(ready(()))).await, 1);
        })
        .await
        .unwrap();
    }

    /// Polls a future until it is ready, and returns the number of polls.
    async fn polls(future: impl Future<Output = ()>) -> usize {
        let (mut future, mut polls) = (pin!(future), 0);
        poll_fn(|cx| {
            polls += 1;
            future.as_mut().poll(cx)
        })
        .await;
        polls
    }
}
