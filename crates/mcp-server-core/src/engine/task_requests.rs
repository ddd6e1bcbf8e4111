//! The methods about tasks, and the checks that both dialects share.

use std::sync::Arc;

use mcp_protocol::{
    EmptyResult, ErrorCode, JsonObject, Method, PaginatedParams, RequestId, RpcError,
    jsonrpc::decode_params,
    method,
    tasks::{
        TaskParams,
        ext::{DetailedTask, UpdateTaskParams},
    },
};
use mcp_transport::BoxFuture;
use serde_json::value::RawValue;

use super::task_legacy as legacy;
use crate::{
    Server,
    request::{Refusal, Reply, Scope},
    store::unavailable,
    tasks::{self, CancelOutcome, Found, Owner, Record, RunningTask, StoredTask, TaskOutcome},
};

/// A request about tasks.
#[derive(Debug)]
pub(crate) enum TaskWork {
    Get { id: String },
    Result { id: String },
    List { after: Option<String> },
    Cancel { id: String },
    Update { id: String, answers: JsonObject },
}

/// A task in a subscription request.
pub(crate) enum ListenTarget {
    /// The task runs on this node.
    Running(Arc<RunningTask>),
    /// The task runs on another node.
    Elsewhere(Box<StoredTask>),
    /// The task has ended. This is its final state.
    Ended(Box<DetailedTask>),
}

/// Returns a task that a stream subscribes to. Returns `None` when the task is unknown or foreign, or when its record names no
/// node.
///
/// # Errors
/// `-32603` when the store fails.
pub(crate) async fn find_for_listener(
    server: &Server,
    scope: &Scope,
    request: &RequestId,
    id: &str,
) -> Result<Option<ListenTarget>, RpcError> {
    let query = TaskQuery { server, scope, request, owner: owner_of(scope) };
    match query.find(id).await {
        Ok(Found::Running(running_task)) => Ok(Some(ListenTarget::Running(running_task))),
        Ok(Found::Stored(stored)) if stored.record.outcome.is_some() => {
            Ok(Some(ListenTarget::Ended(Box::new(stored.record.into_detailed()))))
        }
        Ok(Found::Stored(stored)) => Ok(stored.record.node.is_some().then_some(ListenTarget::Elsewhere(stored))),
        Err(Refusal::Error(error)) if error.code == ErrorCode::INTERNAL_ERROR => Err(error),
        Err(_) => Ok(None),
    }
}

/// The caller of a request about tasks, and the data for the response.
pub(super) struct TaskQuery<'a> {
    pub(super) server: &'a Server,
    pub(super) scope: &'a Scope,
    pub(super) request: &'a RequestId,
    pub(super) owner: Owner,
}

impl TaskWork {
    /// Parses a request. The capability of the client is checked first.
    ///
    /// # Errors
    /// `-32021` for a client that did not declare the extension. `-32601` for a list when callers cannot be
    /// distinguished. `-32602` for invalid parameters.
    pub(crate) fn read(name: &str, params: Option<&RawValue>, scope: &Scope) -> Result<Self, RpcError> {
        check_caller(name, scope)?;
        let task = || decode_params::<TaskParams>(name, params).map(|params| params.task_id);
        Ok(match name {
            method::GetTask::NAME => Self::Get { id: task()? },
            method::GetTaskPayload::NAME => Self::Result { id: task()? },
            method::CancelTask::NAME => Self::Cancel { id: task()? },
            method::UpdateTask::NAME => {
                let params: UpdateTaskParams = decode_params(name, params)?;
                Self::Update { id: params.task_id, answers: params.input_responses }
            }
            method::ListTasks::NAME => {
                let params: PaginatedParams = decode_params(name, params)?;
                Self::List { after: params.cursor.as_deref().map(legacy::after).transpose()? }
            }
            _ => return Err(RpcError::method_not_found(name)),
        })
    }

    /// Whether the request may wait, so that it needs a permit.
    pub(crate) fn waits(&self) -> bool {
        matches!(self, Self::Result { .. })
    }

    /// Runs the request and returns its response.
    pub(crate) async fn run(self, server: &Server, scope: &Scope, request: &RequestId) -> Result<Reply, Refusal> {
        let query = TaskQuery { server, scope, request, owner: owner_of(scope) };
        let is_extension = scope.version.has_extensions();
        match self {
            Self::Get { id } => {
                let found = query.find(&id).await?;
                Ok(if is_extension {
                    query.reply(found.into_detailed())
                } else {
                    query.reply(found.inspect(legacy::state))
                })
            }
            Self::Result { id } => legacy::result(&query, &id).await,
            Self::List { after } => legacy::list(&query, after.as_deref()).await,
            Self::Cancel { id } => {
                let found = query.locate(&id).await?;
                let was_running = query.cancel(&found).await?;
                // In the extension a cancellation is a request that may arrive twice or too late.
                if is_extension {
                    Ok(query.reply(EmptyResult::default()))
                } else {
                    legacy::cancelled(&query, &id, was_running).await
                }
            }
            Self::Update { id, answers } => {
                match query.locate(&id).await? {
                    Found::Running(running_task) => running_task.answer(answers),
                    Found::Stored(stored) => server.data.tasks.answer_elsewhere(&stored.record, answers).await?,
                }
                Ok(query.reply(EmptyResult::default()))
            }
        }
    }
}

/// Checks that a caller may send a request about tasks.
///
/// # Errors
/// `-32021` for a client that did not declare the extension. `-32601` for a list when callers cannot be distinguished.
pub(super) fn check_caller(name: &str, scope: &Scope) -> Result<(), RpcError> {
    if scope.version.has_extensions() && tasks::required().missing_from(scope.client.capabilities()).is_some() {
        return Err(tasks::undeclared());
    }
    if name == method::ListTasks::NAME && !owner_of(scope).is_one() {
        return Err(RpcError::method_not_found(name));
    }
    Ok(())
}

impl TaskQuery<'_> {
    pub(super) fn reply(&self, result: impl mcp_protocol::ResultPayload) -> Reply {
        Reply::result(&self.server.data.identity, self.request, self.scope.version, result, 512)
    }

    /// Returns the task of an id, if the caller owns it and has the access of its tool.
    pub(super) async fn find(&self, id: &str) -> Result<Found, Refusal> {
        let found = self.server.data.tasks.find(&self.owner, id).await?;
        found.inspect(|record| self.may_use(record))?;
        Ok(found)
    }

    /// Returns the task like [`TaskQuery::find`]. A task of another node has the state of its record.
    async fn locate(&self, id: &str) -> Result<Found, Refusal> {
        let found = self.server.data.tasks.locate(&self.owner, id).await?;
        found.inspect(|record| self.may_use(record))?;
        Ok(found)
    }

    pub(super) fn may_use(&self, record: &Record) -> Result<(), Refusal> {
        self.server.check_access(self.scope, &record.access)?;
        let Some(tool) = &record.tool else { return Ok(()) };
        match self.server.data.tools.load().find(tool) {
            // The tool may have changed since.
            Some(entry) => self.server.check_access(self.scope, &entry.spec.access),
            None => Ok(()),
        }
    }

    /// Cancels a task. Returns false when it has ended already.
    async fn cancel(&self, found: &Found) -> Result<bool, RpcError> {
        let table = &self.server.data.tasks;
        match found {
            Found::Running(running_task) => {
                let was_final = running_task.is_final();
                table.settle(running_task, TaskOutcome::Cancelled).await;
                if !running_task.is_final() {
                    return Err(unavailable());
                }
                let is_cancelled = |record: &Record| record.outcome == Some(TaskOutcome::Cancelled);
                Ok(!was_final && running_task.inspect(is_cancelled))
            }
            Found::Stored(stored) => {
                let (server, record, bytes) = (self.server.clone(), stored.record.clone(), stored.bytes.clone());
                // The record is marked first. The other node must then be notified, also when this request is dropped.
                let cancelling = tokio::spawn(Box::pin(async move {
                    let (id, node) = (record.id.clone(), record.node.clone());
                    let cancelled = server.data.tasks.cancel_stored(record, &bytes).await?;
                    if cancelled != CancelOutcome::Ended
                        && !server.data.tasks.cancel_elsewhere(&id, node.as_deref()).await
                        && let Some(fleet) = server.data.publisher.fleet()
                    {
                        fleet.publish_cancellation(&id);
                    }
                    Ok(cancelled == CancelOutcome::Cancelled)
                }) as BoxFuture<'static, Result<bool, RpcError>>);
                cancelling.await.unwrap_or_else(|_| Err(RpcError::internal("the task cannot be cancelled")))
            }
        }
    }
}

pub(super) fn owner_of(scope: &Scope) -> Owner {
    Owner::of(scope.principal.as_deref(), scope.is_local)
}
