//! Drives tasks to their end: by their work, cancellation, expiry, or the shutdown of the server.

use std::{sync::Arc, time::Duration};

use mcp_protocol::RpcError;
use mcp_transport::BoxFuture;

use super::{
    elsewhere::stopped,
    record::TaskOutcome,
    running::RunningTask,
    table::{self, TaskTable},
};
use crate::shutdown::{RunningWork, Shutdown};

/// The first and the longest pause between two attempts to store the end of a task.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The parts of a server that a task needs until its end.
#[derive(Clone)]
pub(crate) struct Driver {
    pub(crate) table: Arc<TaskTable>,
    pub(crate) shutdown: Shutdown,
    pub(crate) work: RunningWork,
}

impl Driver {
    /// Polls the work of a task until the task ends. `on_interruption` receives the error of a task that expires or ends
    /// with the server, before its work is dropped.
    pub(crate) fn drive(
        self,
        task: Arc<RunningTask>,
        work: BoxFuture<'static, TaskOutcome>,
        on_interruption: Box<dyn FnOnce(&RpcError) + Send>,
    ) -> BoxFuture<'static, ()> {
        let driving = self.work.enter();
        Box::pin(async move {
            self.run(task, work, on_interruption).await;
            drop(driving);
        })
    }

    async fn run(
        &self,
        task: Arc<RunningTask>,
        work: BoxFuture<'static, TaskOutcome>,
        on_interruption: Box<dyn FnOnce(&RpcError) + Send>,
    ) {
        let interrupted = async {
            let error = self.interrupted(&task).await;
            on_interruption(&error);
            TaskOutcome::Error(error)
        };
        let outcome = tokio::select! {
            biased;
            // The request that cancelled the task marked it already. Its client may be gone by now.
            () = task.cancel.cancelled() => return self.store_end(&task).await,
            outcome = work => outcome,
            outcome = interrupted => outcome,
        };
        self.end(&task, outcome).await;
    }

    /// Watches a task whose work runs outside of a call, until the task ends or expires.
    pub(crate) fn watch(self, task: Arc<RunningTask>) -> BoxFuture<'static, ()> {
        let driving = self.work.enter();
        Box::pin(async move {
            let interrupted = tokio::select! {
                biased;
                // The caller that ended the task marked it already, and may be gone by now.
                () = task.over() => None,
                error = self.interrupted(&task) => Some(error),
            };
            match interrupted {
                None => self.store_end(&task).await,
                Some(error) => {
                    self.end(&task, TaskOutcome::Error(error)).await;
                    task.cancel.cancel();
                }
            }
            drop(driving);
        })
    }

    /// Waits until the task expires, the server has shut down, or this node lost its lease. Returns the error of the task.
    async fn interrupted(&self, task: &RunningTask) -> RpcError {
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(task.expires()) => table::unknown(),
            cause = self.shutdown.is_over_for_tasks() => cause.error(),
            // The end of a server deletes the lease of its node, also before the grace period of the tasks is over.
            () = task.lease_lost() => match self.shutdown.cause() {
                Some(cause) => cause.error(),
                None => stopped("the node of this task lost its lease"),
            },
        }
    }

    async fn end(&self, task: &Arc<RunningTask>, outcome: TaskOutcome) {
        self.table.mark(task, outcome);
        self.store_end(task).await;
        if task.expires() <= tokio::time::Instant::now() {
            self.table.forget(task.id());
        }
    }

    /// Stores the end of a task whose work is over. A listener that shuts down waits for it.
    pub(crate) fn store(self, task: Arc<RunningTask>) -> BoxFuture<'static, ()> {
        let driving = self.work.enter();
        Box::pin(async move {
            self.store_end(&task).await;
            drop(driving);
        })
    }

    /// Stores the end of a task. It repeats this until the store has accepted the end, or the task has expired.
    ///
    /// No node shows the end before. A node that took over would store another end.
    async fn store_end(&self, task: &Arc<RunningTask>) {
        let mut pause = PAUSES.0;
        while let Err(error) = self.table.persist(task).await {
            if error.is_invalid() && task.discard_result() {
                tracing::error!(%error, "the store does not accept the result of a task");
                continue;
            }
            self.table.end_failed(&error);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }
}
