//! A bounded queue between many senders and one receiver, where each item has a cost.

use std::{
    collections::VecDeque,
    mem,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit, TryAcquireError},
    time,
};

use crate::TransportError;

/// A bounded queue between many senders and one receiver, where each item has a cost.
///
/// It differs from a channel in these points:
/// - The costs of the queued items are bounded, not only their number. An item above the whole capacity fits alone.
/// - Both ends can close it, and it keeps the error that closed it.
/// - The receiver can take all items at once.
/// - With [`Queue::with_stall_timeout`] it closes when a sender waits and the receiver makes no progress.
///
/// One task at a time may wait as the receiver. A second waiting receiver is not supported: the two tasks would wake each
/// other again and again.
///
/// ```
/// use std::future::poll_fn;
///
/// use mcp_transport::{TransportError, queue::Queue};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), TransportError> {
/// let queue = Queue::new(10);
/// queue.push(8, "first").await?;
/// assert!(queue.try_push(4, "second").unwrap_err().is_full());
///
/// assert_eq!(poll_fn(|cx| queue.poll_pop(cx)).await, Some("first"));
/// queue.push(4, "second").await?;
/// queue.close(TransportError::closed());
/// assert_eq!(poll_fn(|cx| queue.poll_pop(cx)).await, Some("second"));
/// assert_eq!(poll_fn(|cx| queue.poll_pop(cx)).await, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Queue<T> {
    state: Mutex<State<T>>,
    /// Free capacity in units of cost. Fair: a sender that waits is not overtaken.
    free: Semaphore,
    capacity: u32,
    stall_timeout: Option<Duration>,
    /// Counts what the receiver took, gave back or reported.
    progress: AtomicUsize,
    closed: Notify,
    /// Notified when capacity becomes free, and when the queue closes.
    freed: Notify,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<Queued<T>>,
    closed: Option<TransportError>,
    receiver: Option<Waker>,
}

/// An item of a [`Queue`] with its cost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queued<T> {
    /// The capacity that the item occupies.
    pub cost: u32,
    /// The item.
    pub item: T,
}

/// The reason why [`Queue::try_push`] did not queue an item. It gives the item back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a queue is full or closed")]
pub enum TryPushError<T> {
    /// The free capacity is less than the cost of the item.
    Full(T),
    /// The queue is closed.
    Closed(T),
}

impl<T> TryPushError<T> {
    /// Returns the item that was not queued.
    pub fn into_item(self) -> T {
        match self {
            Self::Full(item) | Self::Closed(item) => item,
        }
    }

    /// Whether the queue is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

impl<T> Queue<T> {
    /// Returns an empty queue for items whose costs add up to at most `capacity` (at least 1).
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.max(1);
        Self {
            state: Mutex::new(State { items: VecDeque::new(), closed: None, receiver: None }),
            free: Semaphore::new(capacity as usize),
            capacity,
            stall_timeout: None,
            progress: AtomicUsize::new(0),
            closed: Notify::new(),
            freed: Notify::new(),
        }
    }

    /// Closes the queue when a sender has waited this long for capacity and the receiver made no progress meanwhile.
    ///
    /// Each item that the receiver takes or releases is progress, and so is [`Queue::record_progress`].
    #[must_use]
    pub fn with_stall_timeout(mut self, timeout: Duration) -> Self {
        self.stall_timeout = Some(timeout);
        self
    }

    /// Queues an item if the free capacity allows it. A cost above the capacity counts as the capacity.
    ///
    /// # Errors
    /// Gives the item back when the queue is full or closed.
    pub fn try_push(&self, cost: u32, item: T) -> Result<(), TryPushError<T>> {
        let cost = cost.min(self.capacity);
        match self.free.try_acquire_many(cost) {
            Ok(permit) => {
                permit.forget();
                self.insert(Queued { cost, item }).map_err(TryPushError::Closed)
            }
            Err(TryAcquireError::NoPermits) => Err(TryPushError::Full(item)),
            Err(TryAcquireError::Closed) => Err(TryPushError::Closed(item)),
        }
    }

    /// Waits for capacity, then queues the item. Senders are served in the order in which they came.
    ///
    /// # Errors
    /// The error that closed the queue.
    pub async fn push(&self, cost: u32, item: T) -> Result<(), TransportError> {
        let cost = cost.min(self.capacity);
        self.acquire(cost).await?.forget();
        self.insert(Queued { cost, item }).map_err(|_| self.error())
    }

    /// Waits until the free capacity reaches `cost`. Another sender can use it first.
    ///
    /// # Errors
    /// The error that closed the queue.
    pub async fn ready(&self, cost: u32) -> Result<(), TransportError> {
        let cost = cost.min(self.capacity) as usize;
        self.unless_stalled(async {
            loop {
                let mut freed = pin!(self.freed.notified());
                // Registered before the check, so that a release in between is noticed.
                freed.as_mut().enable();
                if self.is_closed() {
                    return Err(self.error());
                }
                // Taking permits here would hide them from the other senders that wait.
                if self.free.available_permits() >= cost {
                    return Ok(());
                }
                freed.await;
            }
        })
        .await
    }

    /// Rejects further items. The receiver can still take those that are queued. The first reason is kept.
    pub fn close(&self, reason: TransportError) {
        let receiver = {
            let mut state = self.state.lock();
            state.closed.get_or_insert(reason);
            state.receiver.take()
        };
        self.free.close();
        self.closed.notify_waiters();
        self.freed.notify_waiters();
        wake(receiver);
    }

    /// Rejects further items and drops those that are queued.
    pub fn abort(&self, reason: TransportError) {
        self.close(reason);
        let items = mem::take(&mut self.state.lock().items);
        drop(items);
    }

    /// Waits until the queue is closed.
    pub async fn closed(&self) {
        let mut closed = pin!(self.closed.notified());
        // Registered before the check, so that a close in between is noticed.
        closed.as_mut().enable();
        if !self.is_closed() {
            closed.await;
        }
    }

    /// Whether the queue rejects items.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed.is_some()
    }

    /// Whether no item is queued.
    pub fn is_empty(&self) -> bool {
        self.state.lock().items.is_empty()
    }

    /// Returns the error that closed the queue, or [`TransportError::closed`] while it is open.
    pub fn error(&self) -> TransportError {
        self.state.lock().closed.clone().unwrap_or_else(TransportError::closed)
    }

    /// Takes the next item and frees its capacity; `None` when the queue is closed and empty.
    pub fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll_with(cx, |state| state.items.pop_front()).map(|popped| {
            let Queued { cost, item } = popped?;
            self.free(cost);
            Some(item)
        })
    }

    /// Takes all items and frees their capacity; `None` when the queue is closed and empty.
    pub fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<VecDeque<Queued<T>>>> {
        // The check and the removal are one step: a second receiver cannot take the items in between.
        let take = |state: &mut State<T>| (!state.items.is_empty()).then(|| mem::take(&mut state.items));
        self.poll_with(cx, take).map(|taken| {
            let items = taken?;
            // No overflow: the sum is at most the capacity.
            self.free(items.iter().map(|queued| queued.cost).sum());
            Some(items)
        })
    }

    /// Waits until an item is queued: `true`. Returns `false` when the queue is closed and empty.
    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<bool> {
        self.poll_with(cx, |state| (!state.items.is_empty()).then_some(())).map(|ready| ready.is_some())
    }

    /// Takes a value from the state; `None` when the queue is closed and empty. Otherwise the next push or the close wakes
    /// the task.
    fn poll_with<R>(&self, cx: &Context<'_>, take: impl Fn(&mut State<T>) -> Option<R>) -> Poll<Option<R>> {
        {
            let mut state = self.state.lock();
            let taken = take(&mut state);
            if taken.is_some() || state.closed.is_some() {
                return Poll::Ready(taken);
            }
            if state.receiver.as_ref().is_some_and(|receiver| receiver.will_wake(cx.waker())) {
                return Poll::Pending;
            }
        }
        // A waker can run code that uses the queue, so its clone, wake and drop happen without the lock.
        let waker = cx.waker().clone();
        let former = {
            let mut state = self.state.lock();
            // An item may have been queued meanwhile.
            let taken = take(&mut state);
            if taken.is_some() || state.closed.is_some() {
                return Poll::Ready(taken);
            }
            state.receiver.replace(waker)
        };
        // A receiver that waited before polls again: this one has replaced it.
        wake(former);
        Poll::Pending
    }

    /// Swaps the queued items with the empty buffer `items`, so both buffers keep their memory. The capacity of the items
    /// stays in use until [`Queue::release`].
    pub(crate) fn take_all(&self, items: &mut VecDeque<Queued<T>>) {
        debug_assert!(items.is_empty(), "the receiver still has items");
        mem::swap(items, &mut self.state.lock().items);
        self.record_progress();
    }

    /// Frees the capacity of items that the receiver got from [`Queue::take_all`]: the sum of their costs.
    pub(crate) fn release(&self, cost: u32) {
        self.free(cost);
    }

    fn free(&self, cost: u32) {
        self.record_progress();
        self.free.add_permits(cost as usize);
        self.freed.notify_waiters();
    }

    /// Restarts the stall timeout, for example when a part of an item was written.
    pub fn record_progress(&self) {
        self.progress.fetch_add(1, Ordering::AcqRel);
    }

    async fn acquire(&self, cost: u32) -> Result<SemaphorePermit<'_>, TransportError> {
        // A dropped wait gives back the permits that it has collected.
        let _notify = NotifyOnDrop(&self.freed);
        self.unless_stalled(async { self.free.acquire_many(cost).await.map_err(|_| self.error()) }).await
    }

    /// Closes the queue if the wait takes longer than the stall timeout and the receiver makes no progress.
    async fn unless_stalled<R>(
        &self,
        wait: impl Future<Output = Result<R, TransportError>>,
    ) -> Result<R, TransportError> {
        let Some(timeout) = self.stall_timeout else { return wait.await };
        let mut wait = pin!(wait);
        loop {
            let progress = self.progress.load(Ordering::Acquire);
            match time::timeout(timeout, wait.as_mut()).await {
                Ok(result) => return result,
                Err(_) if self.progress.load(Ordering::Acquire) != progress => {}
                Err(_) => {
                    tracing::debug!(?timeout, "a queue is closed because its receiver made no progress");
                    self.close(TransportError::closed());
                    return Err(self.error());
                }
            }
        }
    }

    fn insert(&self, queued: Queued<T>) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.closed.is_some() {
            return Err(queued.item);
        }
        state.items.push_back(queued);
        let receiver = state.receiver.take();
        drop(state);
        wake(receiver);
        Ok(())
    }
}

/// Notifies the senders that wait in [`Queue::ready`].
struct NotifyOnDrop<'a>(&'a Notify);

impl Drop for NotifyOnDrop<'_> {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::{Arc, atomic::AtomicBool},
        task::Wake,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_waiting_senders_receive_capacity() {
        const ATTEMPTS: usize = 1_000;
        // Each case: the cost of a message, and the number of senders.
        for (cost, senders) in [(700, 2), (4, 300)] {
            let queue = Queue::new(1000);
            queue.try_push(1000, 0).unwrap();
            let sending = (0..senders).map(|id| {
                let queue = &queue;
                async move {
                    for _ in 0..ATTEMPTS {
                        queue.ready(cost).await.unwrap();
                        if queue.try_push(cost, id).is_ok() {
                            return;
                        }
                    }
                    panic!("no capacity for sender {id} after {ATTEMPTS} attempts");
                }
            });
            let mut sending: Vec<_> = sending.map(Box::pin).collect();
            let mut received = 0;
            poll_fn(|cx| {
                sending.retain_mut(|send| send.as_mut().poll(cx).is_pending());
                while queue.poll_pop(cx).is_ready() {
                    received += 1;
                }
                if received > senders { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            assert!(sending.is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_push_releases_its_capacity_to_a_waiting_sender() {
        let queue = Queue::new(1000);
        queue.try_push(600, 0).unwrap();
        let mut push = Box::pin(queue.push(700, 1));
        assert!(poll_fn(|cx| Poll::Ready(push.as_mut().poll(cx).is_pending())).await);
        let (ready, ()) = tokio::join!(queue.ready(400), async {
            tokio::task::yield_now().await;
            drop(push);
        });
        ready.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_without_progress_closes_after_the_stall_timeout() {
        let queue = Queue::new(1000).with_stall_timeout(Duration::from_secs(30));
        queue.push(700, 1).await.unwrap();
        assert_eq!(queue.try_push(700, 2), Err(TryPushError::Full(2)));
        let (pushed, popped) = tokio::join!(queue.push(700, 2), poll_fn(|cx| queue.poll_pop(cx)));
        pushed.unwrap();
        assert_eq!(popped, Some(1));
        let start = time::Instant::now();
        assert!(queue.push(700, 3).await.unwrap_err().is_closed());
        assert_eq!(start.elapsed().as_secs(), 30);
        queue.closed().await;
        // The receiver still gets the item that was queued before.
        assert_eq!(poll_fn(|cx| queue.poll_pop(cx)).await, Some(2));
        assert_eq!(poll_fn(|cx| queue.poll_pop(cx)).await, None);
        assert_eq!(queue.try_push(1, 4), Err(TryPushError::Closed(4)));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_restarts_the_stall_timeout() {
        let queue = Queue::new(1000).with_stall_timeout(Duration::from_secs(30));
        queue.push(700, 1).await.unwrap();
        let receive = async {
            for _ in 0..4 {
                time::sleep(Duration::from_secs(20)).await;
                queue.record_progress();
            }
            poll_fn(|cx| queue.poll_pop(cx)).await
        };
        let (pushed, popped) = tokio::join!(queue.push(700, 2), receive);
        pushed.unwrap();
        assert_eq!(popped, Some(1));
    }

    #[tokio::test]
    async fn an_item_above_the_capacity_is_accepted_alone() {
        let queue = Queue::new(100);
        queue.push(1000, 1).await.unwrap();
        assert!(queue.try_push(1, 2).unwrap_err().is_full());
        let taken = poll_fn(|cx| queue.poll_take(cx)).await.unwrap();
        assert_eq!(taken, [Queued { cost: 100, item: 1 }]);
        assert_eq!((0..).take_while(|n| queue.try_push(7, *n).is_ok()).count(), 14);
    }

    #[tokio::test]
    async fn capacity_of_a_batch_is_free_after_the_release() {
        let queue = Queue::new(2);
        queue.push(1, 1).await.unwrap();
        queue.push(1, 2).await.unwrap();
        let mut items = VecDeque::new();
        queue.take_all(&mut items);
        assert!(queue.is_empty() && items.len() == 2);
        assert_eq!(queue.try_push(1, 3), Err(TryPushError::Full(3)));
        queue.release(1);
        queue.push(1, 3).await.unwrap();
    }

    /// A waker that needs the lock of the queue when it wakes or is dropped, as a task that uses the queue does.
    struct NeedsLock {
        queue: Arc<Queue<u32>>,
        was_blocked: Arc<AtomicBool>,
    }

    impl NeedsLock {
        fn lock(&self) {
            self.was_blocked.fetch_or(self.queue.state.is_locked(), Ordering::Relaxed);
        }
    }

    impl Wake for NeedsLock {
        fn wake(self: Arc<Self>) {
            self.lock();
        }
    }

    impl Drop for NeedsLock {
        fn drop(&mut self) {
            self.lock();
        }
    }

    #[test]
    fn a_replaced_receiver_wakes_without_the_lock() {
        let queue = Arc::new(Queue::new(10));
        let was_blocked = Arc::new(AtomicBool::new(false));
        let waker = || {
            let (queue, was_blocked) = (Arc::clone(&queue), Arc::clone(&was_blocked));
            Waker::from(Arc::new(NeedsLock { queue, was_blocked }))
        };
        let first = waker();
        assert!(queue.poll_pop(&mut Context::from_waker(&first)).is_pending());
        drop(first);
        // Each receiver replaces the one before it.
        assert!(queue.poll_pop(&mut Context::from_waker(&waker())).is_pending());
        assert!(queue.poll_take(&mut Context::from_waker(&waker())).is_pending());
        assert!(queue.poll_ready(&mut Context::from_waker(&waker())).is_pending());
        queue.close(TransportError::closed());
        assert!(!was_blocked.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn closing_wakes_senders_and_receivers_with_the_first_reason() {
        let queue = Queue::new(1);
        queue.push(1, 1).await.unwrap();
        let close = async {
            queue.abort(TransportError::other("first"));
            queue.close(TransportError::other("second"));
        };
        let (pushed, (), ()) = tokio::join!(queue.push(1, 2), queue.closed(), close);
        assert_eq!(pushed.unwrap_err().to_string(), "first");
        assert!(!poll_fn(|cx| queue.poll_ready(cx)).await);
        assert!(poll_fn(|cx| queue.poll_take(cx)).await.is_none());
    }
}
