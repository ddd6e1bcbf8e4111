//! The requests of one HTTP/2 connection that are open, and whether their client takes what it is given.
//!
//! A client can stop to read one stream while the connection goes on: then nobody polls the body of that answer, so that
//! no timer in it could notice. What is handed over and does not move is noticed from outside.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

/// The requests of a connection that are open.
#[derive(Clone, Default)]
pub(crate) struct OpenStreams(Arc<Shared>);

#[derive(Default)]
struct Shared {
    counts: watch::Sender<Counts>,
    streams: Mutex<Vec<Weak<OpenStream>>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    open: usize,
    /// How many there were so far: one that begins and ends between two looks is seen by it.
    begun: u64,
}

impl OpenStreams {
    fn streams(&self) -> MutexGuard<'_, Vec<Weak<OpenStream>>> {
        self.0.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a request.
    pub(crate) fn enter(&self) -> Arc<OpenStream> {
        let stream = Arc::new(OpenStream { of: self.clone(), lent: Mutex::new((0, Instant::now())) });
        let mut streams = self.streams();
        if streams.len() == streams.capacity() {
            streams.retain(|stream| stream.strong_count() > 0);
        }
        streams.push(Arc::downgrade(&stream));
        drop(streams);
        self.0.counts.send_modify(|counts| {
            counts.open += 1;
            counts.begun += 1;
        });
        stream
    }

    /// Waits until there was none for so long.
    pub(crate) async fn none_for(&self, limit: Duration) {
        let mut counts = self.0.counts.subscribe();
        // The sender is in `self`, so that nothing here fails.
        while let Ok(begun) = counts.wait_for(|counts| counts.open == 0).await.map(|counts| counts.begun) {
            if timeout(limit, counts.wait_for(|counts| counts.begun != begun)).await.is_err() {
                return;
            }
        }
    }

    /// Waits until something that was handed over for one of them has not moved for so long.
    pub(crate) async fn stalled(&self, limit: Duration) {
        let mut counts = self.0.counts.subscribe();
        let pause = (limit / 8).clamp(Duration::from_millis(1), Duration::from_secs(5));
        while counts.wait_for(|counts| counts.open > 0).await.is_ok() {
            sleep(pause).await;
            let streams: Vec<_> = self.streams().iter().filter_map(Weak::upgrade).collect();
            if streams.iter().any(|stream| stream.is_stalled(limit)) {
                return;
            }
        }
    }
}

/// One of them, until its answer is written or given up.
pub(crate) struct OpenStream {
    of: OpenStreams,
    /// How many pieces of the answer are on their way, and when one of them last moved.
    lent: Mutex<(usize, Instant)>,
}

impl OpenStream {
    /// Notes that a piece of the answer is handed over, until what it gives back is dropped.
    pub(crate) fn lend(self: &Arc<Self>) -> Lent {
        let mut lent = self.lent();
        *lent = (lent.0 + 1, Instant::now());
        drop(lent);
        Lent(self.clone())
    }

    fn lent(&self) -> MutexGuard<'_, (usize, Instant)> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stalled(&self, limit: Duration) -> bool {
        let (count, moved) = *self.lent();
        count > 0 && moved.elapsed() >= limit
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.of.0.counts.send_modify(|counts| counts.open -= 1);
    }
}

impl std::fmt::Debug for OpenStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenStream")
    }
}

/// A piece of an answer on its way.
#[derive(Debug)]
pub(crate) struct Lent(Arc<OpenStream>);

impl Lent {
    /// Some of it was written.
    pub(crate) fn moved(&self) {
        self.0.lent().1 = Instant::now();
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut lent = self.0.lent();
        *lent = (lent.0 - 1, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_handed_over_has_to_move() {
        let limit = Duration::from_secs(30);
        let streams = OpenStreams::default();
        let (idle, slow) = (streams.enter(), streams.enter());
        let stalled = |seconds| timeout(Duration::from_secs(seconds), streams.stalled(limit));
        // Nothing is on its way.
        assert!(stalled(1000).await.is_err());
        let piece = slow.lend();
        for _ in 0..10 {
            assert!(stalled(20).await.is_err());
            piece.moved();
        }
        let start = Instant::now();
        assert!(stalled(1000).await.is_ok());
        assert!((30..=35).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
        drop((piece, idle));
        assert!(stalled(1000).await.is_err());
        drop(slow);
        assert!(stalled(1000).await.is_err());
        assert_eq!(streams.0.counts.borrow().open, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_ends_at_once_was_there() {
        let streams = OpenStreams::default();
        let start = Instant::now();
        let busy = async {
            for _ in 0..10 {
                sleep(Duration::from_secs(10)).await;
                // Nobody looks in between.
                drop(streams.enter());
            }
        };
        tokio::join!(streams.none_for(Duration::from_secs(30)), busy);
        assert_eq!(start.elapsed().as_secs(), 130);
    }
}
