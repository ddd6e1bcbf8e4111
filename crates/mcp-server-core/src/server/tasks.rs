//! Tasks for work outside of a call. The application creates, updates and ends them.

use std::{fmt, sync::Arc, time::Duration};

use mcp_protocol::{CallToolResult, Principal, RpcError};

use crate::{
    Server,
    context::{Cancelled, Context},
    tasks::{Owner, RunningTask, TaskOutcome, TaskSpec},
};

/// The tasks of a running server.
///
/// # Example
/// ```
/// use mcp_protocol::CallToolResult;
/// use mcp_server_core::{NewTask, Server};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = Server::builder("jobs", "1.0").standalone_tasks().build();
/// let task = server.tasks().create(NewTask::for_local().message("compiling")).await?;
/// task.progress("linking");
/// assert!(task.finish(CallToolResult::text("done")).await);
/// # Ok::<_, mcp_protocol::RpcError>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Tasks<'a> {
    pub(super) server: &'a Server,
}

/// The owner and the settings of a new task.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use mcp_protocol::Principal;
/// use mcp_server_core::{Context, NewTask};
///
/// async fn start(context: Context) -> Vec<NewTask> {
///     vec![
///         NewTask::for_caller(&context).ttl(Duration::from_secs(3600)).message("queued"),
///         NewTask::for_principal(&Principal::new("alice")),
///         NewTask::for_local(),
///     ]
/// }
/// # let _ = start;
/// ```
#[derive(Debug, Clone)]
#[must_use = "a task is created by `Tasks::create`"]
pub struct NewTask {
    owner: Owner,
    ttl: Option<Duration>,
    message: Option<String>,
}

impl NewTask {
    /// Creates a task for the caller of a request. The handler returns the id, so that the client can fetch the result.
    ///
    /// See the [example](Self#example).
    pub fn for_caller(context: &Context) -> Self {
        Self::of(Owner::of(context.principal(), context.is_local()))
    }

    /// Creates a task for an authenticated principal.
    ///
    /// See the [example](Self#example).
    pub fn for_principal(principal: &Principal) -> Self {
        Self::of(Owner::of(Some(principal), false))
    }

    /// Creates a task for the process's own client (stdio, in memory).
    ///
    /// See the [example](Self#example).
    pub fn for_local() -> Self {
        Self::of(Owner::of(None, true))
    }

    fn of(owner: Owner) -> Self {
        Self { owner, ttl: None, message: None }
    }

    /// Sets the lifetime of the task from its creation, within the limits of the server.
    ///
    /// See the [example](Self#example).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the first status message.
    ///
    /// See the [example](Self#example).
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

impl Tasks<'_> {
    /// Creates a task. The store has its record when this returns.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// Fails when the owner has too many tasks, or when the store fails.
    pub async fn create(&self, task: NewTask) -> Result<StandaloneTask, RpcError> {
        let tasks = &self.server.data.tasks;
        let ttl = tasks.limits().clamped(task.ttl);
        let wanted = TaskSpec { owner: task.owner, tool: None, ttl, message: task.message, session: None };
        // The bus delivers cancellations from other nodes.
        self.server.data.publisher.fleet();
        let running_task = tasks.create(wanted).await?;
        tokio::spawn(self.server.data.task_driver().watch(running_task.clone()));
        Ok(StandaloneTask { server: self.server.clone(), running_task })
    }
}

/// A running task that the application created by [`Tasks::create`], instead of a call of a tool. Dropping it without an end
/// fails the task.
///
/// # Example
/// ```
/// use mcp_protocol::{CallToolResult, RpcError};
/// use mcp_server_core::StandaloneTask;
///
/// async fn compile(task: StandaloneTask) {
///     println!("{}", task.id());
///     task.progress("linking");
///     if task.cancelled().is_cancelled() {
///         task.fail(RpcError::internal("cancelled")).await;
///     } else {
///         task.finish(CallToolResult::text("done")).await;
///     }
/// }
/// # let _ = compile;
/// ```
#[must_use = "a task that is dropped has failed"]
pub struct StandaloneTask {
    server: Server,
    running_task: Arc<RunningTask>,
}

impl StandaloneTask {
    /// Returns the unguessable id of the task. A client with the id can fetch the task, if the task belongs to it.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn id(&self) -> &str {
        self.running_task.id()
    }

    /// Sets the status message.
    ///
    /// See the [example](Self#example).
    pub fn progress(&self, message: impl Into<String>) {
        self.running_task.set_message(message);
    }

    /// Ends the task with a result. Returns false when it was cancelled or has expired.
    ///
    /// See the [example](Self#example).
    pub async fn finish(self, result: CallToolResult) -> bool {
        self.server.data.tasks.settle(&self.running_task, TaskOutcome::of(&result)).await
    }

    /// Ends the task with an error. Returns false when it has ended already.
    ///
    /// See the [example](Self#example).
    pub async fn fail(self, error: RpcError) -> bool {
        self.server.data.tasks.settle(&self.running_task, TaskOutcome::Error(error)).await
    }

    /// Returns a future that completes when the client cancels the task, or the task expires.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn cancelled(&self) -> Cancelled {
        Cancelled::new(self.running_task.cancel.clone())
    }
}

impl Drop for StandaloneTask {
    fn drop(&mut self) {
        if !self.running_task.is_over() {
            tracing::warn!("a task was dropped before it ended");
            self.server.data.tasks.mark(
                &self.running_task,
                TaskOutcome::Error(RpcError::internal("the application dropped the task before its result")),
            );
        }
    }
}

impl fmt::Debug for StandaloneTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The id may be the only secret that protects the task, so it is not printed.
        f.debug_struct("StandaloneTask").finish_non_exhaustive()
    }
}
