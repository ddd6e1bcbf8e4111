//! Runs a call that may become a task.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use mcp_protocol::{
    RpcError,
    tasks::{self, ext},
};

use crate::{
    Server,
    context::Context,
    request::{Output, Scope, Stop},
    tasks::{Decided, Outcome, Owner, RunningTask, TaskPolicy, Wanted},
};

/// A call that the request polls first, and later the task that it became.
pub(super) type Work = Pin<Box<dyn Future<Output = Result<Output, Stop>> + Send>>;

/// A call that may become a task.
pub(super) struct Candidate<'a> {
    pub(super) server: &'a Server,
    pub(super) scope: &'a Scope,
    pub(super) context: &'a Context,
    pub(super) tool: &'a str,
    pub(super) policy: TaskPolicy,
    pub(super) ttl: Duration,
    /// Whether a plain result will not do.
    pub(super) is_required: bool,
}

impl Candidate<'_> {
    /// Runs the call until it is done or has become a task.
    pub(super) async fn run(self, mut work: Work) -> Result<Output, Stop> {
        let decided = Decided(self.context.tasking());
        if let TaskPolicy::After(time) = self.policy {
            let done = tokio::select! {
                biased;
                done = &mut work => Some(done),
                () = self.wanted() => None,
                () = tokio::time::sleep(time) => None,
            };
            match done {
                // It was quick, and is a task all the same.
                Some(Ok(Output::Tool(result))) if self.is_required => {
                    let live = self.create().await?;
                    self.server.data.tasks.mark(&live, Outcome::of(&result));
                    let created = self.created(&live);
                    // The record says so before the answer does, and does so when nobody waits for the answer.
                    let (server, ended) = (self.server.clone(), live.clone());
                    let _ = tokio::spawn(async move { server.data.tasks.persist(&ended).await }).await;
                    return Ok(created);
                }
                Some(done) => return done,
                None => {}
            }
        }
        let live = match self.create().await {
            Ok(live) => live,
            // Whoever did not ask for a task, and does not need one, waits as for any other call.
            Err(_) if !self.is_required && self.scope.version.has_extensions() => {
                drop(decided);
                return work.await;
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(asking) = self.context.collector() {
            asking.become_task(&live);
        }
        if let Some(tasking) = self.context.tasking() {
            tasking.become_task(&live);
        }
        let created = self.created(&live);
        let outcome = async move { outcome_of(work.await) };
        tokio::spawn(self.server.data.task_driver().drive(live, outcome));
        Ok(created)
    }

    async fn wanted(&self) {
        match self.context.tasking() {
            Some(tasking) => tasking.wanted().await,
            None => std::future::pending().await,
        }
    }

    async fn create(&self) -> Result<Arc<RunningTask>, RpcError> {
        let owner = Owner::of(self.scope.principal.as_deref(), self.scope.is_local);
        let message = self.context.tasking().and_then(|tasking| tasking.message());
        let session = self.scope.client.shared_session();
        let wanted = Wanted { owner, tool: Some(self.tool), ttl: self.ttl, message, session };
        // Another node may cancel it.
        self.server.data.publisher.fleet();
        self.server.data.tasks.create(wanted).await
    }

    fn created(&self, live: &RunningTask) -> Output {
        let record = live.record();
        if self.scope.version.has_extensions() {
            Output::TaskOfServer(ext::CreateTaskResult::new(record.extension()))
        } else {
            Output::TaskOfClient(tasks::CreateTaskResult::new(record.legacy()))
        }
    }
}

fn outcome_of(done: Result<Output, Stop>) -> Outcome {
    match done {
        Ok(Output::Tool(result)) => Outcome::of(&result),
        Ok(_) => Outcome::Error(RpcError::internal("not a tool result")),
        Err(Stop::Error(error)) => Outcome::Error(error),
        Err(Stop::Cancelled) => Outcome::Cancelled,
    }
}
