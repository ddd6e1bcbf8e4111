//! The requests of one HTTP/2 connection that are open, and whether their client takes what it is given.
//!
//! A client can stop to read one stream while the connection goes on: then nobody polls the body of that answer, so that
//! no timer in it could notice. What is handed over and does not move is noticed from outside, and the task that hands it
//! over is ended, which resets the stream. So that there is a task, the end of an answer waits for what is large of it.

use std::{
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::watch,
    task::{self, Id},
    time::{Instant, sleep, timeout},
};

/// Bytes beyond which the end of an answer waits until they are written. Less is left to the connection together with the
/// end, which then takes no write of its own.
const LARGE: usize = 16 << 10;

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
        self.0.streams.lock()
    }

    /// Enters a request. For the task that answers it.
    pub(crate) fn enter(&self) -> Arc<OpenStream> {
        let lent = Lent { bytes: 0, moved: Instant::now(), is_ended: false, waker: None };
        let stream = Arc::new(OpenStream { of: self.clone(), task: task::try_id(), lent: Mutex::new(lent) });
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

    /// Ends the tasks of those of which something was handed over and has not moved for so long. Returns when one stands
    /// still for as long again: it could not be ended.
    pub(crate) async fn watch(&self, limit: Duration, end: impl Fn(Id) -> bool) {
        let mut counts = self.0.counts.subscribe();
        let shortest = (limit / 8).max(Duration::from_millis(1));
        let mut pause = shortest.min(Duration::from_secs(5));
        while counts.wait_for(|counts| counts.open > 0).await.is_ok() {
            sleep(pause).await;
            let streams: Vec<_> = self.streams().iter().filter_map(Weak::upgrade).collect();
            if streams.iter().any(|stream| stream.still(true) >= 2 * limit) {
                return;
            }
            // One at a time: what its client leaves unread of it may use up the window that all have together.
            let longest = streams.iter().max_by_key(|stream| stream.still(false));
            let longest = longest.filter(|stream| stream.still(false) >= limit);
            if let Some(stream) = longest {
                stream.lent().is_ended = true;
                if stream.task.is_some_and(&end) {
                    tracing::debug!("a stream is reset whose client leaves its answer unread");
                }
            }
            pause = shortest.min(Duration::from_secs(if longest.is_some() { 1 } else { 5 }));
        }
    }
}

/// One of them, until its answer is written or given up.
pub(crate) struct OpenStream {
    of: OpenStreams,
    task: Option<Id>,
    lent: Mutex<Lent>,
}

/// What of an answer is on its way.
struct Lent {
    bytes: usize,
    /// When some of it moved, or the first of it was handed over.
    moved: Instant,
    /// Its task was ended.
    is_ended: bool,
    /// Who waits until nothing is on its way.
    waker: Option<Waker>,
}

impl OpenStream {
    /// Notes that a piece of the answer of this length is handed over, until what it gives back is dropped.
    pub(crate) fn lend(self: &Arc<Self>, bytes: usize) -> Loan {
        let mut lent = self.lent();
        if lent.bytes == 0 {
            lent.moved = Instant::now();
        }
        lent.bytes += bytes;
        drop(lent);
        Loan { stream: self.clone(), bytes }
    }

    /// Whether the end of the answer has to wait for what is on its way.
    pub(crate) fn is_large(&self) -> bool {
        self.lent().bytes > LARGE
    }

    /// Waits until nothing is on its way.
    pub(crate) fn poll_written(&self, cx: &Context<'_>) -> Poll<()> {
        let mut lent = self.lent();
        if lent.bytes == 0 {
            return Poll::Ready(());
        }
        lent.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn lent(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock()
    }

    /// For how long what is on its way has not moved, if its task was ended or was not.
    fn still(&self, is_ended: bool) -> Duration {
        let lent = self.lent();
        if lent.bytes > 0 && lent.is_ended == is_ended { lent.moved.elapsed() } else { Duration::ZERO }
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
pub(crate) struct Loan {
    stream: Arc<OpenStream>,
    bytes: usize,
}

impl Loan {
    /// So much of it was written.
    pub(crate) fn moved(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.bytes -= bytes;
        let mut lent = self.stream.lent();
        lent.bytes -= bytes;
        lent.moved = Instant::now();
        let waker = if lent.bytes == 0 { lent.waker.take() } else { None };
        drop(lent);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.moved(self.bytes);
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
        let stalled = |seconds| timeout(Duration::from_secs(seconds), streams.watch(limit, |_| false));
        // Nothing is on its way.
        assert!(stalled(1000).await.is_err());
        let mut piece = slow.lend(100);
        for _ in 0..10 {
            assert!(stalled(20).await.is_err());
            piece.moved(1);
        }
        let start = Instant::now();
        // It has no task that could be ended.
        assert!(stalled(1000).await.is_ok());
        assert!((60..=65).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
        drop((piece, idle));
        assert!(stalled(1000).await.is_err());
        drop(slow);
        assert!(stalled(1000).await.is_err());
        assert_eq!(streams.0.counts.borrow().open, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_are_ended_one_after_the_other_the_longest_still_first() {
        let limit = Duration::from_secs(30);
        let streams = OpenStreams::default();
        let mut answering = Vec::new();
        for _ in 0..3 {
            let streams = streams.clone();
            answering.push(tokio::spawn(async move {
                let _piece = streams.enter().lend(1);
                std::future::pending::<()>().await;
            }));
            sleep(Duration::from_millis(1)).await;
        }
        let (start, ended) = (Instant::now(), Mutex::new(Vec::new()));
        let end = |id| {
            let at = answering.iter().position(|task| task.id() == id).unwrap();
            answering[at].abort();
            ended.lock().push((at, start.elapsed().as_secs()));
            true
        };
        assert!(timeout(Duration::from_secs(1000), streams.watch(limit, end)).await.is_err());
        // Looked at eight times within the limit, and at once for the next.
        assert_eq!(*ended.lock(), [(0, 30), (1, 31), (2, 32)]);
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
