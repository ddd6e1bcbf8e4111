//! Runs a call that may become a task.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use mcp_protocol::{
    RpcError,
    tasks::{self, ext},
};
use tokio::time::Instant;

use crate::{
    Server,
    access::Access,
    context::{Context, EndGuard},
    request::{Output, Scope, Stop, ending},
    store::{STORE_TIMEOUT, is_unavailable},
    tasks::{Decided, Owner, RunningTask, TaskOutcome, TaskPolicy, TaskSpec, not_created},
    trace::Ending,
};

/// A call that the request polls first, and later the task that it became. It returns its guard, because the end of the call
/// is recorded when its response is known.
pub(super) type Work = Pin<Box<dyn Future<Output = (Result<Output, Stop>, EndGuard)> + Send>>;

/// A call that may become a task.
pub(super) struct Candidate<'a> {
    pub(super) server: &'a Server,
    pub(super) scope: &'a Scope,
    pub(super) context: &'a Context,
    pub(super) tool: &'a str,
    pub(super) access: &'a Access,
    pub(super) policy: TaskPolicy,
    pub(super) ttl: Duration,
    /// Whether the call must return a task, also when it ends quickly.
    pub(super) is_required: bool,
}

impl Candidate<'_> {
    /// Runs the call until it ends or becomes a task.
    pub(super) async fn run(self, mut work: Work) -> Result<Output, Stop> {
        let decided = Decided(self.context.task_upgrade());
        if let TaskPolicy::After(time) = self.policy {
            let done = tokio::select! {
                biased;
                done = &mut work => Some(done),
                () = self.wanted() => None,
                () = tokio::time::sleep(time) => None,
            };
            match done {
                // The call ended before the time of the policy, and still has to return a task.
                Some((Ok(Output::Tool(result)), guard)) if self.is_required => {
                    let running_task = self.create().await.map_err(|error| self.failed(error))?;
                    self.server.data.tasks.mark(&running_task, TaskOutcome::of(&result));
                    self.become_task(&running_task);
                    guard.end(ending(&Ok(Output::Tool(result))));
                    // The record is stored before the response, also when the request is dropped.
                    let storing = tokio::spawn(self.server.data.task_driver().store(running_task.clone()));
                    let _ = tokio::time::timeout(STORE_TIMEOUT, storing).await;
                    return Ok(self.created(&running_task));
                }
                Some(done) => return ended(done),
                None => {}
            }
        }
        let running_task = match self.create().await {
            Ok(running_task) => running_task,
            // The client did not request a task, so the call continues as a plain call.
            Err(_) if !self.is_required && self.scope.version.has_extensions() => {
                drop(decided);
                return ended(work.await);
            }
            Err(error) => return Err(self.failed(error)),
        };
        if let Some(collector) = self.context.collector() {
            collector.become_task(&running_task);
        }
        self.become_task(&running_task);
        let created = self.created(&running_task);
        let outcome = Box::pin(async move { outcome_of(ended(work.await)) });
        let (context, expires) = (self.context.clone(), running_task.expires());
        let on_interruption = Box::new(move |error: &RpcError| {
            let is_expired = expires <= Instant::now();
            context.end(if is_expired { Ending::TimedOut(Some(error.code)) } else { Ending::Error(error.code) });
        });
        tokio::spawn(self.server.data.task_driver().drive(running_task, outcome, on_interruption));
        Ok(created)
    }

    /// Records that the response to the call is a task.
    fn become_task(&self, running_task: &Arc<RunningTask>) {
        if let Some(upgrade) = self.context.task_upgrade() {
            upgrade.become_task(running_task);
        }
        self.context.record_task();
    }

    /// Ends the call with an error, before its guard ends it as cancelled.
    fn failed(&self, error: RpcError) -> Stop {
        // The handler may have begun, so the error must not ask the client to repeat the call.
        let has_begun = matches!(self.policy, TaskPolicy::After(_));
        let error = if has_begun && is_unavailable(&error) { not_created() } else { error };
        let stop = Stop::from(error);
        self.context.end(stop.ending());
        stop
    }

    async fn wanted(&self) {
        match self.context.task_upgrade() {
            Some(upgrade) => upgrade.wanted().await,
            None => std::future::pending().await,
        }
    }

    async fn create(&self) -> Result<Arc<RunningTask>, RpcError> {
        let owner = Owner::of(self.scope.principal.as_deref(), self.scope.is_local);
        let message = self.context.task_upgrade().and_then(|upgrade| upgrade.message());
        let session = self.scope.client.shared_session();
        let wanted = TaskSpec { owner, tool: Some((self.tool, self.access)), ttl: self.ttl, message, session };
        // The bus delivers cancellations from other nodes.
        self.server.data.publisher.fleet();
        self.server.data.tasks.create(wanted).await
    }

    fn created(&self, running_task: &RunningTask) -> Output {
        let record = running_task.record();
        if self.scope.version.has_extensions() {
            Output::TaskOfServer(ext::CreateTaskResult::new(record.extension()))
        } else {
            Output::TaskOfClient(tasks::CreateTaskResult::new(record.legacy()))
        }
    }
}

/// Ends a call whose response is its outcome.
fn ended((outcome, guard): (Result<Output, Stop>, EndGuard)) -> Result<Output, Stop> {
    guard.end(ending(&outcome));
    outcome
}

fn outcome_of(done: Result<Output, Stop>) -> TaskOutcome {
    match done {
        Ok(Output::Tool(result)) => TaskOutcome::of(&result),
        Ok(_) => TaskOutcome::Error(RpcError::internal("not a tool result")),
        Err(stop) => stop.into_error().map_or(TaskOutcome::Cancelled, TaskOutcome::Error),
    }
}
