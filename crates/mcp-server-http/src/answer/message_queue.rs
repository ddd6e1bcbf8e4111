//! A bounded queue of messages between their senders and one event stream.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use mcp_protocol::RequestId;
use mcp_transport::{BoxFuture, Frame, FrameSender, TransportError, TrySendError, queue::Queue};

/// The bytes of messages that wait in one queue. A larger message waits alone.
const CAPACITY: u32 = 1 << 20;

/// A queue of messages that is bounded by bytes and by number.
#[derive(Debug)]
pub(crate) struct MessageQueue {
    queue: Queue<Bytes>,
    /// The cost of a message is its length, at least this. It bounds the number of small messages.
    least_cost: u32,
}

impl Default for MessageQueue {
    /// Returns a queue for the notifications of one request: at most 256 messages.
    fn default() -> Self {
        Self { queue: Queue::new(CAPACITY), least_cost: CAPACITY / 256 }
    }
}

impl MessageQueue {
    /// Returns a queue for all messages of a connection. It closes if a sender waits for this time and the reader takes
    /// nothing.
    pub(crate) fn with_stall_timeout(timeout: Duration) -> Self {
        Self { queue: Queue::new(CAPACITY).with_stall_timeout(timeout), least_cost: 64 }
    }

    /// Waits until a message is queued or the queue is closed.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.queue.poll_ready(cx).map(drop)
    }

    /// Takes the next message. `None` when the queue is closed and empty.
    pub(crate) fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.queue.poll_pop(cx)
    }

    /// Takes all messages. `None` when the queue is closed and empty.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Option<Vec<Bytes>>> {
        let taken = self.queue.poll_take(cx);
        taken.map(|queued| queued.map(|queued| queued.into_iter().map(|queued| queued.item).collect()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Rejects further messages. The reader can still take the queued ones.
    pub(crate) fn close(&self) {
        self.queue.close(TransportError::closed());
    }

    /// Waits until the queue is closed.
    pub(crate) async fn closed(&self) {
        self.queue.closed().await;
    }

    /// Restarts the stall timeout: the reader has sent a part of a message.
    pub(crate) fn record_progress(&self) {
        self.queue.record_progress();
    }

    fn cost(&self, len: usize) -> u32 {
        u32::try_from(len).unwrap_or(CAPACITY).max(self.least_cost)
    }
}

impl FrameSender for MessageQueue {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(self.queue.push(self.cost(frame.message.len()), frame.message))
    }

    fn try_send(&self, mut frame: Frame) -> Result<(), TrySendError> {
        let message = std::mem::take(&mut frame.message);
        self.queue.try_push(self.cost(message.len()), message).map_err(|error| {
            let is_full = error.is_full();
            frame.message = error.into_item();
            if is_full { TrySendError::Full(frame) } else { TrySendError::Closed(frame) }
        })
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(self.queue.ready(self.cost(len)))
    }

    fn close(&self, _id: &RequestId) {}

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        Self::close(self);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The reading end of a queue. Dropping it closes the queue, so that no sender waits for capacity.
#[derive(Debug, Default)]
pub(crate) struct QueueReader(pub(crate) Arc<MessageQueue>);

impl Drop for QueueReader {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::atomic::{AtomicUsize, Ordering},
        task::{Wake, Waker},
    };

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_replaced_reader_is_woken() {
        let queue = MessageQueue::default();
        let (older, newer) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let (older_waker, newer_waker) = (Waker::from(older.clone()), Waker::from(newer.clone()));
        let counts = || (older.0.load(Ordering::SeqCst), newer.0.load(Ordering::SeqCst));
        for (waker, expected) in
            [(&newer_waker, (0, 0)), (&newer_waker, (0, 0)), (&older_waker, (0, 1)), (&newer_waker, (1, 1))]
        {
            assert!(queue.poll_take(&mut Context::from_waker(waker)).is_pending());
            assert_eq!(counts(), expected);
        }
        queue.try_send(Frame::new("message")).unwrap();
        assert_eq!(counts(), (1, 2));
        let Poll::Ready(Some(taken)) = queue.poll_take(&mut Context::from_waker(&newer_waker)) else {
            panic!("no message")
        };
        assert_eq!(taken.len(), 1);
    }

    #[test]
    fn a_queue_is_bounded_by_number_and_bytes_and_accepts_one_message_of_any_size() {
        let bytes = CAPACITY as usize;
        let fill = |queue: &MessageQueue, size: usize| {
            let message = Bytes::from(vec![b'x'; size]);
            let count = (0..).take_while(|_| queue.try_send(Frame::new(message.clone())).is_ok()).count();
            assert!(matches!(queue.try_send(Frame::new(message)), Err(TrySendError::Full(_))));
            let _ = queue.poll_take(&mut Context::from_waker(Waker::noop()));
            count
        };
        let queue = MessageQueue::default();
        assert_eq!([1, bytes / 4, bytes, bytes * 2].map(|size| fill(&queue, size)), [256, 4, 1, 1]);
        let queue = MessageQueue::with_stall_timeout(Duration::from_secs(30));
        assert_eq!([0, bytes / 4, bytes, bytes * 2].map(|size| fill(&queue, size)), [bytes / 64, 4, 1, 1]);
        drop(QueueReader(Arc::new(MessageQueue::default())));
        MessageQueue::close(&queue);
        assert!(matches!(queue.try_send(Frame::new("late")), Err(TrySendError::Closed(_))));
        assert!(matches!(queue.poll_take(&mut Context::from_waker(Waker::noop())), Poll::Ready(None)));
    }

    #[tokio::test]
    async fn waiting_senders_continue_with_capacity_or_fail_when_the_reader_is_dropped() {
        let queue = Arc::new(MessageQueue::default());
        let reader = QueueReader(queue.clone());
        let send = || {
            let queue = queue.clone();
            tokio::spawn(async move { queue.send(Frame::new("more")).await })
        };
        while queue.try_send(Frame::new("full")).is_ok() {}
        let senders = [send(), send()];
        tokio::task::yield_now().await;
        let _ = queue.poll_take(&mut Context::from_waker(Waker::noop()));
        for sender in senders {
            sender.await.unwrap().unwrap();
        }
        while queue.try_send(Frame::new("full")).is_ok() {}
        let late = send();
        tokio::task::yield_now().await;
        drop(reader);
        assert!(late.await.unwrap().unwrap_err().is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_without_a_reader_closes_after_the_stall_timeout() {
        let queue = MessageQueue::with_stall_timeout(Duration::from_secs(30));
        let large = || Frame::new(vec![b'a'; 700 << 10]);
        queue.send(large()).await.unwrap();
        assert!(matches!(queue.try_send(large()), Err(TrySendError::Full(_))));
        let (sent, taken) = tokio::join!(queue.send(large()), poll_fn(|cx| queue.poll_pop(cx)));
        sent.unwrap();
        assert_eq!(taken.map(|message| message.len()), Some(700 << 10));
        let start = tokio::time::Instant::now();
        assert!(queue.send(large()).await.unwrap_err().is_closed());
        assert_eq!(start.elapsed().as_secs(), 30);
        queue.closed().await;
        // The queued message is still there.
        assert!(poll_fn(|cx| queue.poll_pop(cx)).await.is_some());
        assert!(poll_fn(|cx| queue.poll_pop(cx)).await.is_none());
        assert!(queue.send(Frame::new("late")).await.unwrap_err().is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_restarts_the_stall_timeout() {
        let queue = MessageQueue::with_stall_timeout(Duration::from_secs(30));
        let large = || Frame::new(vec![b'a'; 700 << 10]);
        queue.send(large()).await.unwrap();
        let reading = async {
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                queue.record_progress();
            }
            poll_fn(|cx| queue.poll_pop(cx)).await
        };
        let (sent, taken) = tokio::join!(queue.send(large()), reading);
        sent.unwrap();
        assert!(taken.is_some());
    }
}
