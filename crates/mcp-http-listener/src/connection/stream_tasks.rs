//! The tasks that answer the requests of one HTTP/2 connection.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Weak},
};

use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

/// The tasks of one connection. Dropping this value aborts them.
#[derive(Default)]
pub(super) struct StreamTasks(Arc<Mutex<RunningTasks>>);

#[derive(Default)]
struct RunningTasks {
    tasks: JoinSet<()>,
    by_id: HashMap<Id, AbortHandle>,
}

impl StreamTasks {
    /// Returns the executor that spawns tasks of this connection.
    pub(super) fn executor(&self) -> StreamExecutor {
        StreamExecutor(Arc::downgrade(&self.0))
    }

    /// Aborts a task. Returns false if the task has ended already.
    pub(super) fn abort(&self, id: Id) -> bool {
        let running = self.0.lock();
        let Some(task) = running.by_id.get(&id).filter(|task| !task.is_finished()) else { return false };
        task.abort();
        true
    }
}

/// Spawns the tasks of one connection.
///
/// hyper's connection owns the executor, and the tasks own parts of the connection. The executor is a weak reference, so
/// that no cycle keeps the tasks alive.
#[derive(Clone)]
pub(super) struct StreamExecutor(Weak<Mutex<RunningTasks>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, future: F) {
        // The connection is closed, so the answer has no receiver.
        let Some(running) = self.0.upgrade() else { return };
        let mut running = running.lock();
        while let Some(ended) = running.tasks.try_join_next_with_id() {
            let id = ended.map_or_else(|error: JoinError| error.id(), |(id, ())| id);
            running.by_id.remove(&id);
        }
        let task = running.tasks.spawn(future);
        running.by_id.insert(task.id(), task);
    }
}
