//! The trait for messages to current subscribers, and the bounded subscription that all implementations return.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use crate::{StoreError, StoreFuture, limits};
use parking_lot::{Mutex, MutexGuard};

/// Topics: a published message reaches each subscription that exists at that moment, on each node.
///
/// Messages are not stored. Data that must not be lost belongs in a [`Log`](crate::Log) or a record, and the message
/// refers to it. Messages of one publisher on one topic keep their order if it publishes each one after the
/// acknowledgement of the previous one.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::{Delivery, MemoryStore, PubSub};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_store::StoreError> {
/// let store = MemoryStore::new();
/// let mut changes = store.subscribe("changes", 16).await?;
/// store.publish("changes", Arc::from(*b"notes/1")).await?;
/// assert_eq!(changes.recv().await, Some(Delivery::Message(Arc::from(*b"notes/1"))));
/// # Ok(())
/// # }
/// ```
pub trait PubSub: Send + Sync + fmt::Debug + 'static {
    /// Publishes `message` (at most [`MAX_MESSAGE_BYTES`](limits::MAX_MESSAGE_BYTES)) on `topic`. It does not wait
    /// for readers, and succeeds without subscribers.
    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> StoreFuture<'a, ()>;

    /// Subscribes to `topic` until the subscription is dropped. The subscription queues at most `capacity` messages
    /// for a slow reader (see [`Subscription`]).
    fn subscribe<'a>(&'a self, topic: &'a str, capacity: usize) -> StoreFuture<'a, Subscription>;
}

/// The messages of one topic, in order, for one reader.
///
/// When more messages than the capacity are queued, the oldest are dropped. The publisher never waits. The reader
/// receives [`Delivery::Lagged`] with the number of lost messages before the next message.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::{Delivery, subscription};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_store::StoreError> {
/// let (sender, mut reader) = subscription(1)?;
/// sender.send(Arc::from(*b"dropped"));
/// sender.send(Arc::from(*b"kept"));
/// assert_eq!(reader.recv().await, Some(Delivery::Lagged(1)));
/// assert_eq!(reader.recv().await, Some(Delivery::Message(Arc::from(*b"kept"))));
/// assert_eq!(reader.try_recv(), None);
///
/// drop(sender);
/// assert_eq!(reader.recv().await, None);
/// # Ok(())
/// # }
/// ```
pub struct Subscription {
    shared: Arc<Shared>,
    on_drop: Option<Box<dyn FnOnce() + Send + Sync>>,
    open: Option<Open>,
}

/// Opens a sealed message.
type Open = Box<dyn Fn(Arc<[u8]>) -> Option<Arc<[u8]>> + Send + Sync>;

/// The end of a [`Subscription`] that an implementation of [`PubSub`] feeds. Dropping it ends the subscription after
/// the queued messages.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::{Delivery, subscription};
///
/// let (sender, mut reader) = subscription(16)?;
/// assert!(sender.send(Arc::from(*b"message")));
/// // The node lost its connection to the store and missed an unknown number of messages.
/// assert!(sender.lost(1));
/// assert_eq!(reader.try_recv(), Some(Delivery::Lagged(1)));
///
/// drop(reader);
/// assert!(sender.is_closed());
/// assert!(!sender.send(Arc::from(*b"message")));
/// # Ok::<(), mcp_store::StoreError>(())
/// ```
pub struct SubscriptionSender {
    shared: Arc<Shared>,
}

/// An item of a subscription.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::Delivery;
///
/// /// Returns the reaction of a cache to an item.
/// fn reaction(delivery: Delivery) -> &'static str {
///     match delivery {
///         Delivery::Message(_) => "reload one record",
///         Delivery::Lagged(_) => "reload all records",
///         _ => "ignore",
///     }
/// }
/// assert_eq!(reaction(Delivery::Message(Arc::from(*b"notes/1"))), "reload one record");
/// assert_eq!(reaction(Delivery::Lagged(3)), "reload all records");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// A message.
    Message(Arc<[u8]>),
    /// The number of messages that were dropped here, because the reader was too slow or the node lost its connection
    /// to the store. After a lost connection the number is at least 1 and may be too low.
    Lagged(u64),
}

/// Returns a subscription that queues at most `capacity` messages, and the end that feeds it. Implementations of
/// [`PubSub`] use it to treat slow readers in the same way.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::{Delivery, subscription};
///
/// let (sender, mut reader) = subscription(16)?;
/// sender.send(Arc::from(*b"message"));
/// assert_eq!(reader.try_recv(), Some(Delivery::Message(Arc::from(*b"message"))));
/// assert!(subscription(0).unwrap_err().is_invalid());
/// # Ok::<(), mcp_store::StoreError>(())
/// ```
///
/// # Errors
/// [Invalid](StoreError::is_invalid) when `capacity` is zero.
pub fn subscription(capacity: usize) -> Result<(SubscriptionSender, Subscription), StoreError> {
    let capacity = limits::capacity(capacity)?;
    let queue = Queue { messages: VecDeque::new(), capacity, lagged: 0, reader: None, closed: false, reading: true };
    let shared = Arc::new(Shared(Mutex::new(queue)));
    Ok((SubscriptionSender { shared: shared.clone() }, Subscription { shared, on_drop: None, open: None }))
}

impl Subscription {
    /// Receives the next message, or the number of messages that were lost before it; `None` when the store ended the
    /// subscription.
    ///
    /// Cancel safe.
    pub async fn recv(&mut self) -> Option<Delivery> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// The poll form of [`recv`](Self::recv).
    ///
    /// ```
    /// use std::task::{Context, Poll, Waker};
    ///
    /// let (sender, mut reader) = mcp_store::subscription(1)?;
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert_eq!(reader.poll_recv(&mut context), Poll::Pending);
    /// drop(sender);
    /// assert_eq!(reader.poll_recv(&mut context), Poll::Ready(None));
    /// # Ok::<(), mcp_store::StoreError>(())
    /// ```
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Delivery>> {
        let mut queue = self.shared.lock();
        match queue.take() {
            Some(delivery) => {
                drop(queue);
                Poll::Ready(Some(self.opened(delivery)))
            }
            None if queue.closed => Poll::Ready(None),
            None => {
                queue.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Returns the next queued item without waiting.
    pub fn try_recv(&mut self) -> Option<Delivery> {
        let delivery = self.shared.lock().take();
        delivery.map(|delivery| self.opened(delivery))
    }

    /// Opens each message for the reader. A message that `open` rejects is lost for the reader.
    #[cfg(feature = "sealed")]
    pub(crate) fn opened_by(mut self, open: impl Fn(Arc<[u8]>) -> Option<Arc<[u8]>> + Send + Sync + 'static) -> Self {
        self.open = Some(Box::new(open));
        self
    }

    fn opened(&self, delivery: Delivery) -> Delivery {
        match (delivery, &self.open) {
            (Delivery::Message(message), Some(open)) => open(message).map_or(Delivery::Lagged(1), Delivery::Message),
            (delivery, _) => delivery,
        }
    }

    /// Runs `f` when the subscription is dropped, for example to unsubscribe.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// static UNSUBSCRIBED: AtomicBool = AtomicBool::new(false);
    ///
    /// let (_sender, reader) = mcp_store::subscription(1)?;
    /// let reader = reader.on_drop(|| UNSUBSCRIBED.store(true, Ordering::Relaxed));
    /// drop(reader);
    /// assert!(UNSUBSCRIBED.load(Ordering::Relaxed));
    /// # Ok::<(), mcp_store::StoreError>(())
    /// ```
    #[must_use]
    pub fn on_drop(mut self, f: impl FnOnce() + Send + Sync + 'static) -> Self {
        self.on_drop = Some(Box::new(f));
        self
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        {
            let mut queue = self.shared.lock();
            queue.reading = false;
            queue.messages = VecDeque::new();
        }
        if let Some(f) = self.on_drop.take() {
            f();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("waiting", &self.shared.lock().messages.len()).finish_non_exhaustive()
    }
}

impl SubscriptionSender {
    /// Queues `message` for the reader and drops the oldest message when the queue is full. Returns false when the
    /// reader is dropped.
    pub fn send(&self, message: Arc<[u8]>) -> bool {
        self.feed(|queue| queue.push(message))
    }

    /// Reports to the reader that `count` messages were lost. Returns false when the reader is dropped.
    pub fn lost(&self, count: u64) -> bool {
        // The queued messages came before the gap. A reader that receives the gap first has to reload in any case,
        // and a counter cannot be dropped from a full queue.
        self.feed(|queue| queue.lagged = queue.lagged.saturating_add(count))
    }

    /// Whether the reader is dropped.
    pub fn is_closed(&self) -> bool {
        !self.shared.lock().reading
    }

    fn feed(&self, change: impl FnOnce(&mut Queue)) -> bool {
        let mut queue = self.shared.lock();
        if !queue.reading {
            return false;
        }
        change(&mut queue);
        let reader = queue.reader.take();
        drop(queue);
        if let Some(waker) = reader {
            waker.wake();
        }
        true
    }
}

impl Drop for SubscriptionSender {
    fn drop(&mut self) {
        self.feed(|queue| queue.closed = true);
    }
}

impl fmt::Debug for SubscriptionSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriptionSender")
            .field("waiting", &self.shared.lock().messages.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(message) => write!(f, "Message({} bytes)", message.len()),
            Self::Lagged(count) => write!(f, "Lagged({count})"),
        }
    }
}

struct Shared(Mutex<Queue>);

struct Queue {
    messages: VecDeque<Arc<[u8]>>,
    capacity: usize,
    lagged: u64,
    reader: Option<Waker>,
    closed: bool,
    reading: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock()
    }
}

impl Queue {
    fn push(&mut self, message: Arc<[u8]>) {
        if self.messages.len() == self.capacity {
            self.messages.pop_front();
            self.lagged = self.lagged.saturating_add(1);
        }
        self.messages.push_back(message);
    }

    fn take(&mut self) -> Option<Delivery> {
        match std::mem::take(&mut self.lagged) {
            0 => self.messages.pop_front().map(Delivery::Message),
            count => Some(Delivery::Lagged(count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_reader_frees_its_messages() {
        let (sender, reader) = subscription(4).unwrap();
        let message: Arc<[u8]> = Arc::from([1]);
        assert!(sender.send(message.clone()));
        assert_eq!(Arc::strong_count(&message), 2);
        drop(reader);
        assert_eq!(Arc::strong_count(&message), 1);
        assert!(sender.is_closed() && !sender.send(message));
    }

    #[test]
    fn a_gap_is_reported_without_a_following_message() {
        let (sender, mut reader) = subscription(1).unwrap();
        assert!(sender.lost(3) && sender.lost(2));
        assert_eq!(reader.try_recv(), Some(Delivery::Lagged(5)));
        assert_eq!(reader.try_recv(), None);
    }

    #[tokio::test]
    async fn queued_messages_are_read_before_the_end() {
        let (sender, mut reader) = subscription(2).unwrap();
        sender.send(Arc::from([7]));
        drop(sender);
        assert_eq!(reader.recv().await, Some(Delivery::Message(Arc::from([7]))));
        assert_eq!(reader.recv().await, None);
        assert_eq!(reader.recv().await, None);
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken() {
        let (sender, mut reader) = subscription(2).unwrap();
        let task = tokio::spawn(async move { reader.recv().await });
        tokio::task::yield_now().await;
        sender.send(Arc::from([9]));
        let woken = tokio::time::timeout(std::time::Duration::from_secs(5), task).await.unwrap().unwrap();
        assert_eq!(woken, Some(Delivery::Message(Arc::from([9]))));
    }
}
