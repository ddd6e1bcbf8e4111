//! The open requests of one HTTP/2 connection, and the detection of clients that stop reading an answer.
//!
//! A client can stop reading one stream while the connection continues. hyper then does not poll the response body of
//! that stream, so no timer in the body could fire. This module watches from outside: it records how many bytes of each
//! answer are handed over to hyper and not yet written. If these bytes do not move for a time limit, the connection
//! aborts the task of the stream, which resets the stream.
//!
//! Only a running task can be aborted. Therefore the end of a large answer waits until the answer is written.

use std::{
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::{self, Id},
    time::{Instant, sleep, timeout},
};

/// The number of unwritten bytes above which the end of an answer waits until they are written. A smaller rest goes to
/// hyper together with the end of the answer, which saves a write.
const LARGE_REST: usize = 16 << 10;

/// The open requests of a connection.
#[derive(Clone, Default)]
pub(super) struct OpenStreams(Arc<Shared>);

#[derive(Default)]
struct Shared {
    counts: watch::Sender<Counts>,
    streams: Mutex<Vec<Weak<OpenStream>>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    open: usize,
    /// The number of requests so far. A reader notices by it a request that began and ended between two reads.
    begun: u64,
}

impl OpenStreams {
    /// Registers a request. The task that answers the request calls this.
    pub(super) fn enter(&self) -> Arc<OpenStream> {
        let progress = WriteProgress { unwritten: 0, moved: Instant::now(), is_aborted: false, waker: None };
        let stream =
            Arc::new(OpenStream { streams: self.clone(), task: task::try_id(), progress: Mutex::new(progress) });
        let mut streams = self.0.streams.lock();
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

    /// Waits until the connection had no request for a time.
    pub(super) async fn wait_idle(&self, limit: Duration) {
        let mut counts = self.0.counts.subscribe();
        // `self` holds the sender, so the channel stays open.
        while let Ok(begun) = counts.wait_for(|counts| counts.open == 0).await.map(|counts| counts.begun) {
            if timeout(limit, counts.wait_for(|counts| counts.begun != begun)).await.is_err() {
                return;
            }
        }
    }

    /// Aborts the tasks of streams whose unwritten bytes have not moved for `limit`. Returns when the bytes of an aborted
    /// stream have not moved for another `limit`: that stream cannot be reset alone.
    pub(super) async fn abort_stalled(&self, limit: Duration, abort: impl Fn(Id) -> bool) {
        let mut counts = self.0.counts.subscribe();
        let shortest = (limit / 8).max(Duration::from_millis(1));
        let mut pause = shortest.min(Duration::from_secs(5));
        while counts.wait_for(|counts| counts.open > 0).await.is_ok() {
            sleep(pause).await;
            let streams: Vec<_> = self.0.streams.lock().iter().filter_map(Weak::upgrade).collect();
            if streams.iter().any(|stream| stream.stalled_for(true) >= 2 * limit) {
                return;
            }
            // One stream at a time: its unread bytes may use up the flow-control window that all streams share.
            let longest = streams.iter().max_by_key(|stream| stream.stalled_for(false));
            let longest = longest.filter(|stream| stream.stalled_for(false) >= limit);
            if let Some(stream) = longest {
                stream.progress.lock().is_aborted = true;
                if stream.task.is_some_and(&abort) {
                    tracing::debug!("the server resets a stream because its client stopped reading the answer");
                }
            }
            pause = shortest.min(Duration::from_secs(if longest.is_some() { 1 } else { 5 }));
        }
    }
}

/// A request until its answer is written or dropped.
pub(super) struct OpenStream {
    streams: OpenStreams,
    task: Option<Id>,
    progress: Mutex<WriteProgress>,
}

/// How much of an answer is handed over to hyper and not written.
struct WriteProgress {
    unwritten: usize,
    /// When bytes were last written, or handed over while no others were unwritten.
    moved: Instant,
    is_aborted: bool,
    /// The task that waits until nothing is unwritten.
    waker: Option<Waker>,
}

impl OpenStream {
    /// Records data that is handed over to hyper. Dropping the returned value records the rest as written.
    pub(super) fn hand_over(self: &Arc<Self>, bytes: usize) -> UnwrittenData {
        let mut progress = self.progress.lock();
        if progress.unwritten == 0 {
            progress.moved = Instant::now();
        }
        progress.unwritten += bytes;
        drop(progress);
        UnwrittenData { stream: self.clone(), bytes }
    }

    /// Whether so much is unwritten that the end of the answer has to wait.
    pub(super) fn has_large_rest(&self) -> bool {
        self.progress.lock().unwritten > LARGE_REST
    }

    /// Completes when nothing is unwritten.
    pub(super) fn poll_written(&self, cx: &Context<'_>) -> Poll<()> {
        let mut progress = self.progress.lock();
        if progress.unwritten == 0 {
            return Poll::Ready(());
        }
        progress.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// For how long the unwritten bytes have not moved. Zero unless the stream is aborted or not, as `is_aborted` says.
    fn stalled_for(&self, is_aborted: bool) -> Duration {
        let progress = self.progress.lock();
        let is_stalled = progress.unwritten > 0 && progress.is_aborted == is_aborted;
        if is_stalled { progress.moved.elapsed() } else { Duration::ZERO }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.0.counts.send_modify(|counts| counts.open -= 1);
    }
}

impl std::fmt::Debug for OpenStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenStream")
    }
}

/// Data of an answer that hyper has and has not written completely.
#[derive(Debug)]
pub(super) struct UnwrittenData {
    stream: Arc<OpenStream>,
    bytes: usize,
}

impl UnwrittenData {
    /// Records that hyper has written some of the data.
    pub(super) fn written(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.bytes -= bytes;
        let mut progress = self.stream.progress.lock();
        progress.unwritten -= bytes;
        progress.moved = Instant::now();
        let waker = if progress.unwritten == 0 { progress.waker.take() } else { None };
        drop(progress);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for UnwrittenData {
    fn drop(&mut self) {
        self.written(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn monitoring_ends_when_a_stalled_stream_has_no_task_to_abort() {
        let limit = Duration::from_secs(30);
        let streams = OpenStreams::default();
        let (idle, slow) = (streams.enter(), streams.enter());
        let stalled = |seconds| timeout(Duration::from_secs(seconds), streams.abort_stalled(limit, |_| false));
        // Nothing is unwritten.
        assert!(stalled(1000).await.is_err());
        let mut piece = slow.hand_over(100);
        for _ in 0..10 {
            assert!(stalled(20).await.is_err());
            piece.written(1);
        }
        let start = Instant::now();
        // The stream has no task to abort.
        assert!(stalled(1000).await.is_ok());
        assert!((60..=65).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
        drop((piece, idle));
        assert!(stalled(1000).await.is_err());
        drop(slow);
        assert!(stalled(1000).await.is_err());
        assert_eq!(streams.0.counts.borrow().open, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_tasks_are_aborted_in_turn_longest_stall_first() {
        let limit = Duration::from_secs(30);
        let streams = OpenStreams::default();
        let mut answering = Vec::new();
        for _ in 0..3 {
            let streams = streams.clone();
            answering.push(tokio::spawn(async move {
                let _piece = streams.enter().hand_over(1);
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
        assert!(timeout(Duration::from_secs(1000), streams.abort_stalled(limit, end)).await.is_err());
        // The watch checks eight times within the limit, and after a second for the next stream.
        assert_eq!(*ended.lock(), [(0, 30), (1, 31), (2, 32)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_between_two_checks_restarts_the_idle_time() {
        let streams = OpenStreams::default();
        let start = Instant::now();
        let busy = async {
            for _ in 0..10 {
                sleep(Duration::from_secs(10)).await;
                // The request begins and ends between two checks.
                drop(streams.enter());
            }
        };
        tokio::join!(streams.wait_idle(Duration::from_secs(30)), busy);
        assert_eq!(start.elapsed().as_secs(), 130);
    }
}
