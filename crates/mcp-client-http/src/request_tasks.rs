//! The tokio tasks of one transport. A task ends when its work is done, is aborted by the id of its request, or ends
//! with the transport.

use std::{collections::HashMap, mem, sync::Arc};

use mcp_protocol::RequestId;
use mcp_transport::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    runtime::{EnterGuard, Handle},
    task::AbortHandle,
};

/// The tasks of one transport.
#[derive(Debug)]
pub(crate) struct RequestTasks {
    runtime: Handle,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    next: u64,
    running: HashMap<u64, Running>,
    /// The task of each request that waits for its answer.
    requests: HashMap<RequestId, u64>,
}

#[derive(Debug)]
enum Running {
    /// The task is in the table but not started.
    Starting,
    Started(AbortHandle),
}

impl RequestTasks {
    /// Returns an empty table. The tasks run on the current runtime.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { runtime: Handle::current(), state: Mutex::default() })
    }

    /// Runs a task, for a request or for none. Does nothing after [`RequestTasks::close`].
    ///
    /// The runtime copies a task several times, so the work is boxed.
    pub(crate) fn spawn(self: &Arc<Self>, request: Option<RequestId>, work: BoxFuture<'static, ()>) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        let number = state.next;
        state.next += 1;
        state.running.insert(number, Running::Starting);
        if let Some(id) = &request {
            state.requests.insert(id.clone(), number);
        }
        drop(state);
        let entry = Entry { tasks: Arc::clone(self), number, request };
        let task = async move {
            let _entry = entry;
            work.await;
        };
        // The lock is released, because a task that is dropped by an ending runtime locks the table.
        let handle = self.runtime.spawn(task);
        if let Some(running) = self.lock().running.get_mut(&number) {
            *running = Running::Started(handle.abort_handle());
            return;
        }
        // The task has ended, or was aborted before its handle was stored.
        handle.abort();
    }

    /// Enters the runtime of the tasks.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Aborts the task of a request.
    pub(crate) fn abort(&self, id: &RequestId) {
        let mut state = self.lock();
        let running = state.requests.remove(id).and_then(|number| state.running.remove(&number));
        drop(state);
        end(running);
    }

    /// Records that the answer has arrived. The task is not aborted any more by the id of the request.
    pub(crate) fn answered(&self, id: &RequestId) {
        self.lock().requests.remove(id);
    }

    /// Aborts the tasks of all requests.
    pub(crate) fn abort_requests(&self) {
        let mut state = self.lock();
        let requests = mem::take(&mut state.requests);
        let running: Vec<_> = requests.values().filter_map(|number| state.running.remove(number)).collect();
        drop(state);
        running.into_iter().for_each(|running| end(Some(running)));
    }

    /// Aborts all tasks, and accepts no more.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.requests.clear();
        let running = mem::take(&mut state.running);
        drop(state);
        running.into_values().for_each(|running| end(Some(running)));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock.
        self.state.lock()
    }
}

fn end(running: Option<Running>) {
    if let Some(Running::Started(handle)) = running {
        handle.abort();
    }
}

/// Removes a task from the table when it ends.
struct Entry {
    tasks: Arc<RequestTasks>,
    number: u64,
    request: Option<RequestId>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut state = self.tasks.lock();
        state.running.remove(&self.number);
        if let Some(id) = &self.request
            && state.requests.get(id) == Some(&self.number)
        {
            state.requests.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    /// Spawns a task that runs until it is aborted. The receiver fails then.
    fn endless(tasks: &Arc<RequestTasks>, request: Option<i64>) -> oneshot::Receiver<()> {
        let (alive, ended) = oneshot::channel();
        let work = async move {
            let _alive: oneshot::Sender<()> = alive;
            pending::<()>().await;
        };
        tasks.spawn(request.map(RequestId::from), Box::pin(work));
        ended
    }

    #[tokio::test]
    async fn tasks_end_by_id_and_all_at_once() {
        let tasks = RequestTasks::new();
        let (first, second, other) = (endless(&tasks, Some(1)), endless(&tasks, Some(2)), endless(&tasks, None));
        tasks.abort(&1.into());
        first.await.unwrap_err();
        assert_eq!(tasks.lock().running.len(), 2);
        tasks.abort_requests();
        second.await.unwrap_err();
        assert_eq!(tasks.lock().running.len(), 1);
        tasks.close();
        other.await.unwrap_err();
        endless(&tasks, Some(3)).await.unwrap_err();
        let state = tasks.lock();
        assert!(state.running.is_empty() && state.requests.is_empty());
    }

    #[tokio::test]
    async fn an_id_belongs_to_its_newest_task() {
        let tasks = RequestTasks::new();
        let (done, is_done) = oneshot::channel::<()>();
        tasks.spawn(Some(1.into()), Box::pin(async move { drop(done) }));
        let second = endless(&tasks, Some(1));
        is_done.await.unwrap_err();
        tasks.abort(&1.into());
        second.await.unwrap_err();
        assert!(tasks.lock().running.is_empty());
    }

    #[tokio::test]
    async fn answered_requests_are_not_aborted_by_id() {
        let tasks = RequestTasks::new();
        let mut running = endless(&tasks, Some(1));
        tasks.answered(&1.into());
        tasks.abort(&1.into());
        tokio::task::yield_now().await;
        assert!(matches!(running.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        tasks.close();
        running.await.unwrap_err();
    }
}
