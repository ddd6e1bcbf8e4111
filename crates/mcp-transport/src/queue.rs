//! A bounded queue between many senders and one receiver, where every item has a cost.
//!
//! Unlike a channel it can be closed from either end while both live, keeps the fault that closed it, and lets the
//! receiver take all that is queued at once and give the room back later, when the items have left.

use std::{
    collections::VecDeque,
    mem,
    task::{Context, Poll, Waker},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, TryAcquireError};

use crate::TransportError;

/// See the module.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    /// Room in units of cost. Fair: nobody overtakes a sender that waits.
    room: Semaphore,
    capacity: u32,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    closed: Option<TransportError>,
    receiver: Option<Waker>,
}

/// Why an item was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejected {
    Full,
    Closed,
}

impl<T> Queue<T> {
    /// An empty queue with room for items that cost `capacity` together.
    pub(crate) fn new(capacity: u32) -> Self {
        let capacity = capacity.max(1);
        let state = State { items: VecDeque::new(), closed: None, receiver: None };
        Self { state: Mutex::new(state), room: Semaphore::new(capacity as usize), capacity }
    }

    /// Queues an item if there is room now, and gives it back if not. A cost above the capacity counts as the capacity.
    pub(crate) fn try_push(&self, cost: u32, item: T) -> Result<(), (T, Rejected)> {
        match self.room.try_acquire_many(cost.min(self.capacity)) {
            Ok(permit) => {
                permit.forget();
                self.insert(item).map_err(|item| (item, Rejected::Closed))
            }
            Err(TryAcquireError::NoPermits) => Err((item, Rejected::Full)),
            Err(TryAcquireError::Closed) => Err((item, Rejected::Closed)),
        }
    }

    /// Waits for room, then queues the item.
    pub(crate) async fn push(&self, cost: u32, item: T) -> Result<(), TransportError> {
        let Ok(permit) = self.room.acquire_many(cost.min(self.capacity)).await else {
            return Err(self.fault());
        };
        permit.forget();
        self.insert(item).map_err(|_| self.fault())
    }

    /// Waits until an item of this cost may fit; somebody else may be faster.
    pub(crate) async fn ready(&self, cost: u32) -> Result<(), TransportError> {
        match self.room.acquire_many(cost.min(self.capacity)).await {
            Ok(_given_back) => Ok(()),
            Err(_) => Err(self.fault()),
        }
    }

    /// Takes no more items; those that are queued can still be taken. The first reason is kept.
    pub(crate) fn close(&self, reason: TransportError) {
        let mut state = self.lock();
        state.closed.get_or_insert(reason);
        let receiver = state.receiver.take();
        drop(state);
        self.room.close();
        wake(receiver);
    }

    /// Takes no more items and drops those that are queued.
    pub(crate) fn abort(&self, reason: TransportError) {
        self.close(reason);
        let items = mem::take(&mut self.lock().items);
        drop(items);
    }

    /// The next item, whose room is free at once; `None` when the queue is closed and empty.
    pub(crate) fn poll_pop(&self, cost: u32, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.lock();
        if let Some(item) = state.items.pop_front() {
            drop(state);
            self.release(cost);
            return Poll::Ready(Some(item));
        }
        state.park(cx).map(|()| None)
    }

    /// Ready when something is queued, or with false when the queue is closed and empty.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.lock();
        if state.items.is_empty() { state.park(cx).map(|()| false) } else { Poll::Ready(true) }
    }

    /// Swaps all queued items with the empty `items`. Their room stays taken until [`Queue::release`].
    pub(crate) fn take_all(&self, items: &mut VecDeque<T>) {
        debug_assert!(items.is_empty(), "items would be queued again");
        mem::swap(items, &mut self.lock().items);
    }

    /// Gives the room of items that have left to the senders.
    pub(crate) fn release(&self, cost: u32) {
        self.room.add_permits(cost.min(self.capacity) as usize);
    }

    /// Why the queue is closed.
    pub(crate) fn fault(&self) -> TransportError {
        self.lock().closed.clone().unwrap_or_else(TransportError::closed)
    }

    fn insert(&self, item: T) -> Result<(), T> {
        let mut state = self.lock();
        if state.closed.is_some() {
            return Err(item);
        }
        state.items.push_back(item);
        let receiver = state.receiver.take();
        drop(state);
        wake(receiver);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing that can panic runs under the lock.
        self.state.lock()
    }
}

impl<T> State<T> {
    /// Ready when the queue is closed; otherwise the task is woken by the next push or by the close.
    fn park(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.closed.is_some() {
            return Poll::Ready(());
        }
        match &mut self.receiver {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
