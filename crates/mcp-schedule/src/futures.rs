//! A set of futures that are polled in a random order.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use mcp_transport::BoxFuture;
use parking_lot::Mutex;

use super::Schedule;

/// The future of [`Schedule::run_all`].
pub(super) struct RunAll<'f, T> {
    schedule: Schedule,
    running: Vec<Running<'f, T>>,
    outputs: Vec<Option<T>>,
    outer: Arc<Mutex<Option<Waker>>>,
}

struct Running<'f, T> {
    position: usize,
    future: BoxFuture<'f, T>,
    ready: Arc<Ready>,
}

/// Whether a future was woken since its last poll.
struct Ready {
    is_ready: AtomicBool,
    outer: Arc<Mutex<Option<Waker>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.is_ready.store(true, Ordering::Release);
        let outer = self.outer.lock().clone();
        if let Some(outer) = outer {
            outer.wake();
        }
    }
}

impl<'f, T> RunAll<'f, T> {
    pub(super) fn new(schedule: Schedule, futures: impl IntoIterator<Item = BoxFuture<'f, T>>) -> Self {
        let outer = Arc::new(Mutex::new(None));
        let running: Vec<_> = futures
            .into_iter()
            .enumerate()
            .map(|(position, future)| {
                let ready = Arc::new(Ready { is_ready: AtomicBool::new(true), outer: outer.clone() });
                Running { position, future, ready }
            })
            .collect();
        let outputs = running.iter().map(|_| None).collect();
        Self { schedule, running, outputs, outer }
    }
}

// The futures are pinned in boxes, and no output is pinned.
impl<T> Unpin for RunAll<'_, T> {}

impl<T> Future for RunAll<'_, T> {
    type Output = Vec<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<T>> {
        let this = &mut *self;
        *this.outer.lock() = Some(cx.waker().clone());
        loop {
            if this.running.is_empty() {
                return Poll::Ready(std::mem::take(&mut this.outputs).into_iter().flatten().collect());
            }
            let is_ready = |index: &usize| this.running[*index].ready.is_ready.load(Ordering::Acquire);
            let ready: Vec<usize> = (0..this.running.len()).filter(is_ready).collect();
            if ready.is_empty() {
                return Poll::Pending;
            }
            // Tasks of the runtime run between two futures of the set.
            if this.schedule.chance(40) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let index = ready[this.schedule.below(ready.len())];
            let Running { position, future, ready } = &mut this.running[index];
            ready.is_ready.store(false, Ordering::Release);
            let waker = Waker::from(ready.clone());
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                this.outputs[*position] = Some(output);
                this.running.swap_remove(index);
            }
        }
    }
}
