//! The shutdown of a server or the end of a connection: its signal, its cause and the deadline of its grace period.

use std::{
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_protocol::RpcError;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

/// The reason why calls end before they finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The application or a signal shut the server down.
    ServerShutdown,
    /// The client closed its end of the connection.
    ClientClosed,
    /// Reading from the connection failed.
    ConnectionFailed,
}

impl Cause {
    /// Returns the error of a call that runs longer than the grace period.
    pub(crate) fn error(self) -> RpcError {
        match self {
            Self::ServerShutdown => {
                let data = json!({ "reason": "server_shutdown", "retryable": true });
                RpcError::internal("the server was shut down").with_data(data)
            }
            Self::ClientClosed => RpcError::internal("the client closed its input before the call finished"),
            Self::ConnectionFailed => RpcError::internal("the connection failed before the call finished"),
        }
    }
}

/// The shutdown of a server, or the end of one of its connections. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Shutdown {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    token: CancellationToken,
    begun: OnceLock<(Instant, Cause)>,
    /// The shutdown of the server, for the end of a connection.
    server: Option<Shutdown>,
    /// The grace period of running tasks.
    of_tasks: Mutex<Duration>,
}

impl Shutdown {
    /// Creates the shutdown of a server. Its tasks have at least this grace period.
    pub(crate) fn of_server(of_tasks: Duration) -> Self {
        Self::new(CancellationToken::new(), None, of_tasks)
    }

    fn new(token: CancellationToken, server: Option<Self>, of_tasks: Duration) -> Self {
        Self { inner: Arc::new(Inner { token, begun: OnceLock::new(), server, of_tasks: Mutex::new(of_tasks) }) }
    }

    /// Creates the end of a connection, which also begins with the shutdown of the server.
    ///
    /// It has a token of its own, so that connections do not share one lock for every message.
    pub(crate) fn of_connection(&self) -> Self {
        Self::new(self.inner.token.child_token(), Some(self.clone()), Duration::ZERO)
    }

    /// Extends the grace period of running tasks to that of the calls of a listener.
    pub(crate) fn extend_tasks(&self, grace_period: Duration) {
        let mut of_tasks = self.inner.of_tasks.lock();
        *of_tasks = grace_period.max(*of_tasks);
    }

    /// Waits until the grace period of running tasks is over. Returns the cause.
    pub(crate) async fn is_over_for_tasks(&self) -> Cause {
        // A listener can be added until the shutdown begins.
        self.wait().await;
        let grace_period = *self.inner.of_tasks.lock();
        self.is_over(grace_period).await
    }

    /// Begins the shutdown, unless it began already.
    pub(crate) fn begin(&self, cause: Cause) {
        if !self.has_begun() {
            self.inner.begun.get_or_init(|| (Instant::now(), cause));
            self.inner.token.cancel();
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.inner.token.is_cancelled()
    }

    /// Returns the cause of a shutdown of the server that has begun.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.inner.begun.get().map(|(_, cause)| *cause)
    }

    /// Waits until the shutdown begins.
    pub(crate) async fn wait(&self) {
        self.inner.token.cancelled().await;
    }

    /// Returns the token that is cancelled when the shutdown begins.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.inner.token
    }

    /// Waits until the grace period is over, counted from the beginning of the shutdown. Returns the cause.
    pub(crate) async fn is_over(&self, grace_period: Duration) -> Cause {
        self.wait().await;
        let of_server = self.inner.server.as_ref().and_then(|server| server.inner.begun.get());
        let begun = self.inner.begun.get().into_iter().chain(of_server).min_by_key(|(at, _)| *at);
        let (at, cause) = begun.copied().unwrap_or_else(|| (Instant::now(), Cause::ServerShutdown));
        match at.checked_add(grace_period) {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            // A deadline beyond the range of the clock is no limit.
            None => std::future::pending().await,
        }
        cause
    }
}

/// The work of a server that does not need a connection: tasks until their ends are stored, calls of sessions that lost their
/// connection, and appends of events. A listener waits for it before it returns. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct RunningWork(Arc<WorkCount>);

/// Each call of a session changes the count, so it has no lock.
#[derive(Debug, Default)]
struct WorkCount {
    running: AtomicUsize,
    none_left: Notify,
}

impl RunningWork {
    /// Counts a piece of work until the caller drops the guard.
    pub fn enter(&self) -> WorkGuard {
        self.0.running.fetch_add(1, Ordering::AcqRel);
        WorkGuard(self.clone())
    }

    /// Waits until no work is left.
    pub async fn ended(&self) {
        loop {
            let mut none_left = pin!(self.0.none_left.notified());
            // Work that ends between the check and the wait notifies this waiter.
            none_left.as_mut().enable();
            if self.0.running.load(Ordering::Acquire) == 0 {
                return;
            }
            none_left.await;
        }
    }
}

/// A piece of work. Its drop reports its end.
#[derive(Debug)]
#[must_use]
pub struct WorkGuard(RunningWork);

impl Drop for WorkGuard {
    fn drop(&mut self) {
        let WorkCount { running, none_left } = &*self.0.0;
        if running.fetch_sub(1, Ordering::AcqRel) == 1 {
            none_left.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn the_grace_period_counts_from_the_beginning_and_names_the_first_cause() {
        let start = Instant::now();
        let server = Shutdown::of_server(Duration::ZERO);
        let closed = server.of_connection();
        let open = server.of_connection();
        closed.begin(Cause::ClientClosed);
        assert!(!server.has_begun() && !open.has_begun());
        tokio::time::advance(Duration::from_secs(4)).await;
        server.begin(Cause::ServerShutdown);
        open.begin(Cause::ClientClosed);
        assert_eq!(closed.is_over(GRACE).await, Cause::ClientClosed);
        assert_eq!(start.elapsed(), GRACE);
        for shutdown in [open, server] {
            assert_eq!(shutdown.is_over(GRACE).await, Cause::ServerShutdown);
            assert_eq!(start.elapsed(), GRACE + Duration::from_secs(4));
        }
    }

    #[tokio::test]
    async fn the_end_of_the_work_is_the_end_of_its_last_piece() {
        let work = RunningWork::default();
        work.ended().await;
        let (first, second) = (work.enter(), work.enter());
        let waiting = tokio::spawn({
            let work = work.clone();
            async move { work.ended().await }
        });
        tokio::task::yield_now().await;
        drop(first);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.unwrap();
    }
}
