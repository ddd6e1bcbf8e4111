//! Tasks for work that lives outside of a call: whoever does it creates a task, tells how it goes, and ends it.

use std::{fmt, sync::Arc, time::Duration};

use mcp_protocol::{CallToolResult, Principal, RpcError};

use crate::{
    Server,
    context::{Cancelled, Context},
    tasks::{Outcome, Owner, RunningTask, Wanted},
};

/// The tasks of a running server.
#[derive(Debug)]
pub struct Tasks<'a> {
    pub(super) server: &'a Server,
}

/// A task that is to be created: whom it belongs to, and how long it lives.
#[derive(Debug, Clone)]
#[must_use = "a task is created by `Tasks::create`"]
pub struct NewTask {
    owner: Owner,
    ttl: Option<Duration>,
    message: Option<String>,
}

impl NewTask {
    /// A task for whoever made a call. The handler returns its id, so that the client can ask for it.
    pub fn for_caller(context: &Context) -> Self {
        Self::of(Owner::of(context.principal(), context.is_local()))
    }

    /// A task for somebody who was authenticated.
    pub fn for_principal(principal: &Principal) -> Self {
        Self::of(Owner::of(Some(principal), false))
    }

    /// A task for whoever owns the process (stdio, in memory).
    pub fn for_local() -> Self {
        Self::of(Owner::of(None, true))
    }

    fn of(owner: Owner) -> Self {
        Self { owner, ttl: None, message: None }
    }

    /// How long it lives from now; the limits of the server hold.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// What goes on, in words.
    pub fn message(mut self, words: impl Into<String>) -> Self {
        self.message = Some(words.into());
        self
    }
}

impl Tasks<'_> {
    /// Creates a task. It is in the store when this returns.
    ///
    /// # Errors
    /// When its owner has too many tasks, or the store refuses.
    pub async fn create(&self, task: NewTask) -> Result<TaskHandle, RpcError> {
        let tasks = &self.server.data.tasks;
        let ttl = tasks.limits().clamped(task.ttl);
        let wanted = Wanted { owner: task.owner, tool: None, ttl, message: task.message, session: None };
        // Another node may cancel it.
        self.server.data.publisher.fleet();
        let live = tasks.create(wanted).await?;
        tokio::spawn(self.server.data.task_driver().watch(live.clone()));
        Ok(TaskHandle { server: self.server.clone(), live })
    }
}

/// A task in the hands of who works on it. One that is dropped without an end has failed.
#[must_use = "a task that is dropped has failed"]
pub struct TaskHandle {
    server: Server,
    live: Arc<RunningTask>,
}

impl TaskHandle {
    /// Its name, which nobody can guess: whoever it is given to may ask for the task, if the task is theirs.
    #[must_use]
    pub fn id(&self) -> &str {
        self.live.id()
    }

    /// Tells how it goes, in words.
    pub fn progress(&self, words: impl Into<String>) {
        self.live.say(words);
    }

    /// Ends it with a result; false when it had ended, by cancellation or because its time was up.
    pub async fn finish(self, result: CallToolResult) -> bool {
        self.server.data.tasks.settle(&self.live, Outcome::of(&result)).await
    }

    /// Ends it with an error; false when it had ended.
    pub async fn fail(self, error: RpcError) -> bool {
        self.server.data.tasks.settle(&self.live, Outcome::Error(error)).await
    }

    /// Resolves when the client cancels it, or its time is up.
    #[must_use]
    pub fn cancelled(&self) -> Cancelled {
        Cancelled::new(self.live.cancel.clone())
    }
}

impl Drop for TaskHandle {
    fn drop(&mut self) {
        if !self.live.is_over() {
            tracing::warn!("a task was dropped before it ended");
            self.server
                .data
                .tasks
                .mark(&self.live, Outcome::Error(RpcError::internal("the work on this task was given up")));
        }
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever has the id may ask for the task, so it is not printed.
        f.debug_struct("TaskHandle").finish_non_exhaustive()
    }
}
