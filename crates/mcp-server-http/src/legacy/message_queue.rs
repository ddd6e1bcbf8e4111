//! A queue of messages between requests that come and go and a connection that stays, bounded by its bytes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use mcp_protocol::RequestId;
use mcp_transport::{BoxFuture, Frame, FrameSender, TransportError, TrySendError};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc};

/// Bytes that wait in one lane; a message above it fits alone.
const ROOM: u32 = 1 << 20;

/// What a message costs beside its bytes, so that many small ones are bounded too.
const COST: usize = 64;

/// The end that messages are put into. When nothing leaves the lane for a while although somebody waits, it closes; a
/// reader that is only slow is waited for.
#[derive(Debug)]
pub(crate) struct Lane {
    /// How often something left.
    moves: Arc<AtomicU64>,
    room: Arc<Semaphore>,
    items: Mutex<Option<mpsc::UnboundedSender<Item>>>,
    patience: Duration,
    closed: Notify,
}

/// The end that messages are taken out of.
#[derive(Debug)]
pub(crate) struct LaneEnd {
    moves: Arc<AtomicU64>,
    room: Arc<Semaphore>,
    items: mpsc::UnboundedReceiver<Item>,
}

#[derive(Debug)]
struct Item {
    message: Bytes,
    /// Given back when the message is taken.
    _room: OwnedSemaphorePermit,
}

/// A lane whose writers wait so long for room.
pub(crate) fn lane(patience: Duration) -> (Arc<Lane>, LaneEnd) {
    let room = Arc::new(Semaphore::new(ROOM as usize));
    let (sender, items) = mpsc::unbounded_channel();
    let moves = Arc::<AtomicU64>::default();
    let end = LaneEnd { moves: moves.clone(), room: room.clone(), items };
    (Arc::new(Lane { moves, room, items: Mutex::new(Some(sender)), patience, closed: Notify::new() }), end)
}

impl Lane {
    /// Takes no more messages; those that are in it can still be taken out.
    pub(crate) fn close(&self) {
        self.items().take();
        self.room.close();
        self.closed.notify_one();
    }

    /// Waits until it was closed from this side, by [`Lane::close`] or for want of a reader. For one task.
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }

    async fn wait(&self, len: usize) -> Result<OwnedSemaphorePermit, TransportError> {
        let mut room = std::pin::pin!(self.room.clone().acquire_many_owned(cost(len)));
        loop {
            let moves = self.moves.load(Ordering::Acquire);
            match tokio::time::timeout(self.patience, room.as_mut()).await {
                Ok(room) => return room.map_err(|_| TransportError::closed()),
                Err(_) if self.moves.load(Ordering::Acquire) != moves => {}
                Err(_) => {
                    tracing::debug!("a stream that nobody reads is closed");
                    self.close();
                    return Err(TransportError::closed());
                }
            }
        }
    }

    fn put(&self, message: Bytes, room: OwnedSemaphorePermit) -> Result<(), TransportError> {
        let items = self.items();
        let sent = items.as_ref().and_then(|items| items.send(Item { message, _room: room }).ok());
        sent.ok_or_else(TransportError::closed)
    }

    fn items(&self) -> MutexGuard<'_, Option<mpsc::UnboundedSender<Item>>> {
        self.items.lock()
    }
}

impl FrameSender for Lane {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let room = self.wait(frame.message.len()).await?;
            self.put(frame.message, room)
        })
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        match self.room.clone().try_acquire_many_owned(cost(frame.message.len())) {
            Ok(room) => self.put(frame.message.clone(), room).map_err(|_| TrySendError::Closed(frame)),
            Err(TryAcquireError::NoPermits) => Err(TrySendError::Full(frame)),
            Err(TryAcquireError::Closed) => Err(TrySendError::Closed(frame)),
        }
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move { self.wait(len).await.map(drop) })
    }

    fn close(&self, _id: &RequestId) {}

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        self.close();
        Box::pin(std::future::ready(Ok(())))
    }
}

impl LaneEnd {
    /// The next message; `None` when the lane is closed and empty.
    pub(crate) fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let item = std::task::ready!(self.items.poll_recv(cx));
        self.moved();
        Poll::Ready(item.map(|item| item.message))
    }

    /// Notes that a part of what was taken went on.
    pub(crate) fn moved(&self) {
        self.moves.fetch_add(1, Ordering::AcqRel);
    }
}

impl Drop for LaneEnd {
    fn drop(&mut self) {
        // Who waits for room waits for nobody.
        self.room.close();
    }
}

fn cost(len: usize) -> u32 {
    u32::try_from(len.saturating_add(COST)).unwrap_or(ROOM).min(ROOM)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_lane_holds_its_writers_up_and_closes_when_nobody_reads() {
        let (lane, mut end) = lane(Duration::from_secs(30));
        let large = || Frame::new(vec![b'a'; 700 << 10]);
        lane.send(large()).await.unwrap();
        assert!(matches!(lane.try_send(large()), Err(TrySendError::Full(_))));
        let (sent, taken) = tokio::join!(lane.send(large()), poll_fn(|cx| end.poll_take(cx)));
        sent.unwrap();
        assert_eq!(taken.map(|message| message.len()), Some(700 << 10));
        let start = tokio::time::Instant::now();
        assert!(lane.send(large()).await.unwrap_err().is_closed());
        assert_eq!(start.elapsed().as_secs(), 30);
        lane.closed().await;
        // What was in it is still there.
        assert!(poll_fn(|cx| end.poll_take(cx)).await.is_some());
        assert!(poll_fn(|cx| end.poll_take(cx)).await.is_none());
        assert!(lane.send(Frame::new("late")).await.unwrap_err().is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_waited_for() {
        let (lane, mut end) = lane(Duration::from_secs(30));
        let large = || Frame::new(vec![b'a'; 700 << 10]);
        lane.send(large()).await.unwrap();
        let reading = async {
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                end.moved();
            }
            poll_fn(|cx| end.poll_take(cx)).await
        };
        let (sent, taken) = tokio::join!(lane.send(large()), reading);
        sent.unwrap();
        assert!(taken.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_above_the_room_fits_alone_and_small_ones_are_bounded_too() {
        let (lane, mut end) = lane(Duration::from_secs(30));
        lane.send(Frame::new(vec![b'a'; 3 << 20])).await.unwrap();
        assert!(matches!(lane.try_send(Frame::new("")), Err(TrySendError::Full(_))));
        assert_eq!(poll_fn(|cx| end.poll_take(cx)).await.map(|message| message.len()), Some(3 << 20));
        let count = (0..).take_while(|_| lane.try_send(Frame::new("")).is_ok()).count();
        assert_eq!(count, ROOM as usize / COST);
        drop(end);
        assert!(matches!(lane.try_send(Frame::new("")), Err(TrySendError::Closed(_))));
    }
}
