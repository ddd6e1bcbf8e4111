//! The tasks that answer the requests of one HTTP/2 connection.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use hyper::rt::Executor;
use tokio::task::JoinSet;

/// The tasks of one connection, which end with this.
#[derive(Default)]
pub(crate) struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    /// What begins further ones.
    pub(crate) fn spawner(&self) -> Spawner {
        Spawner(Arc::downgrade(&self.0))
    }
}

/// Begins tasks. They hold it, and so it does not hold them.
#[derive(Clone)]
pub(crate) struct Spawner(Weak<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawner {
    fn execute(&self, future: F) {
        // Without the connection there is nobody to run it for.
        let Some(tasks) = self.0.upgrade() else { return };
        let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(future);
    }
}
