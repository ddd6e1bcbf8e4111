//! The tasks that answer the requests of one HTTP/2 connection.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Weak},
};

use hyper::rt::Executor;
use parking_lot::{Mutex, MutexGuard};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

/// The tasks of one connection, which end with this.
#[derive(Default)]
pub(crate) struct Tasks(Arc<Mutex<Running>>);

#[derive(Default)]
struct Running {
    tasks: JoinSet<()>,
    by_id: HashMap<Id, AbortHandle>,
}

impl Tasks {
    /// What begins further ones.
    pub(crate) fn spawner(&self) -> Spawner {
        Spawner(Arc::downgrade(&self.0))
    }

    /// Ends one of them. False when it has ended already.
    pub(crate) fn end(&self, id: Id) -> bool {
        let running = lock(&self.0);
        let Some(task) = running.by_id.get(&id).filter(|task| !task.is_finished()) else { return false };
        task.abort();
        true
    }
}

/// Begins tasks. They hold it, and so it does not hold them.
#[derive(Clone)]
pub(crate) struct Spawner(Weak<Mutex<Running>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawner {
    fn execute(&self, future: F) {
        // Without the connection there is nobody to run it for.
        let Some(running) = self.0.upgrade() else { return };
        let mut running = lock(&running);
        while let Some(ended) = running.tasks.try_join_next_with_id() {
            let id = ended.map_or_else(|error: JoinError| error.id(), |(id, ())| id);
            running.by_id.remove(&id);
        }
        let task = running.tasks.spawn(future);
        running.by_id.insert(task.id(), task);
    }
}

fn lock(running: &Mutex<Running>) -> MutexGuard<'_, Running> {
    running.lock()
}
