//! Drives tasks to their end: by their work, cancellation, expiry, or the shutdown of the server.

use std::{future::Future, sync::Arc, time::Duration};

use mcp_protocol::RpcError;

use super::{
    record::TaskOutcome,
    running::RunningTask,
    table::{self, TaskTable},
};
use crate::shutdown::Shutdown;

/// The parts of a server that a task needs until its end.
#[derive(Clone)]
pub(crate) struct Driver {
    pub(crate) table: Arc<TaskTable>,
    pub(crate) shutdown: Shutdown,
    /// The grace period of running tasks after a shutdown began.
    pub(crate) drain: Duration,
}

impl Driver {
    /// Polls the work of a task until the task ends. `on_interruption` receives the error of a task that expires or ends
    /// with the server, before its work is dropped.
    pub(crate) async fn drive(
        self,
        task: Arc<RunningTask>,
        work: impl Future<Output = TaskOutcome>,
        on_interruption: impl FnOnce(&RpcError),
    ) {
        let interrupted = async {
            let error = self.interrupted(&task).await;
            on_interruption(&error);
            TaskOutcome::Error(error)
        };
        let outcome = tokio::select! {
            biased;
            // The request that cancelled the task marked it already. Its client may be gone by now.
            () = task.cancel.cancelled() => return self.table.persist(&task).await,
            outcome = work => outcome,
            outcome = interrupted => outcome,
        };
        self.end(&task, outcome).await;
    }

    /// Watches a task whose work runs outside of a call, until the task ends or expires.
    pub(crate) async fn watch(self, task: Arc<RunningTask>) {
        let outcome = tokio::select! {
            biased;
            // The caller that ended the task marked it already, and may be gone by now.
            () = task.ended() => return self.table.persist(&task).await,
            error = self.interrupted(&task) => TaskOutcome::Error(error),
        };
        self.end(&task, outcome).await;
        task.cancel.cancel();
    }

    /// Waits until the task expires or the server has shut down. Returns the error of the task.
    async fn interrupted(&self, task: &RunningTask) -> RpcError {
        tokio::select! {
            () = tokio::time::sleep_until(task.expires()) => table::unknown(),
            cause = self.shutdown.is_over(self.drain) => cause.error(),
        }
    }

    async fn end(&self, task: &Arc<RunningTask>, outcome: TaskOutcome) {
        self.table.settle(task, outcome).await;
        if task.expires() <= tokio::time::Instant::now() {
            self.table.forget(task.id());
        }
    }
}
