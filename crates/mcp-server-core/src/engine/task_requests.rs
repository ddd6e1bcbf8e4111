//! The methods of tasks: what a request asks for, and the checks that both dialects share.

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
use serde_json::value::RawValue;

use super::task_legacy as legacy;
use crate::{
    Server,
    request::{Refusal, Reply, Scope},
    tasks::{self, Cancelled, Found, Outcome, Owner, Record, RunningTask},
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

/// A task that a stream of notices asks for.
pub(crate) enum ToTell {
    /// It runs here, and will be told of.
    Running(Arc<RunningTask>),
    /// It has ended: this is all there is to tell.
    Ended(Box<DetailedTask>),
}

/// The task of an id, if whoever listens may hear of it and this node can tell: one that runs on another node is told of
/// there only.
///
/// # Errors
/// `-32603` when the store fails, so that nobody knows.
pub(crate) async fn found_for(
    server: &Server,
    scope: &Scope,
    request: &RequestId,
    id: &str,
) -> Result<Option<ToTell>, RpcError> {
    let asker = Asker { server, scope, request, owner: owner_of(scope) };
    match asker.find(id).await {
        Ok(Found::Here(live)) => Ok(Some(ToTell::Running(live))),
        Ok(Found::Stored(record, _)) => {
            Ok(record.outcome.is_some().then(|| ToTell::Ended(Box::new(record.into_detailed()))))
        }
        Err(error) if error.code == ErrorCode::INTERNAL_ERROR => Err(error),
        Err(_) => Ok(None),
    }
}

/// Who asks, and how the answer is written.
pub(super) struct Asker<'a> {
    pub(super) server: &'a Server,
    pub(super) scope: &'a Scope,
    pub(super) request: &'a RequestId,
    pub(super) owner: Owner,
}

impl TaskWork {
    /// Reads a request. Whether the client may speak of tasks is checked before anything else.
    ///
    /// # Errors
    /// `-32021` for a client that did not declare the extension, `-32601` for a list where callers cannot be told apart,
    /// `-32602` for parameters that do not fit.
    pub(crate) fn read(name: &str, params: Option<&RawValue>, scope: &Scope) -> Result<Self, RpcError> {
        if scope.version.has_extensions() && tasks::required().missing_from(scope.client.capabilities()).is_some() {
            return Err(tasks::undeclared());
        }
        let task = || decode_params::<TaskParams>(name, params).map(|params| params.task_id);
        Ok(match name {
            method::GetTask::NAME => Self::Get { id: task()? },
            method::GetTaskPayload::NAME => Self::Result { id: task()? },
            method::CancelTask::NAME => Self::Cancel { id: task()? },
            method::UpdateTask::NAME => {
                let params: UpdateTaskParams = decode_params(name, params)?;
                Self::Update { id: params.task_id, answers: params.input_responses }
            }
            method::ListTasks::NAME if owner_of(scope).is_one() => {
                let params: PaginatedParams = decode_params(name, params)?;
                Self::List { after: params.cursor.as_deref().map(legacy::after).transpose()? }
            }
            _ => return Err(RpcError::method_not_found(name)),
        })
    }

    /// Whether it may take long, so that it counts among what runs.
    pub(crate) fn waits(&self) -> bool {
        matches!(self, Self::Result { .. })
    }

    /// Answers the request.
    pub(crate) async fn run(self, server: &Server, scope: &Scope, request: &RequestId) -> Result<Reply, RpcError> {
        let asker = Asker { server, scope, request, owner: owner_of(scope) };
        let is_extension = scope.version.has_extensions();
        match self {
            Self::Get { id } => {
                let found = asker.find(&id).await?;
                Ok(if is_extension {
                    asker.reply(found.into_detailed())
                } else {
                    asker.reply(found.look(legacy::state))
                })
            }
            Self::Result { id } => legacy::result(&asker, &id).await,
            Self::List { after } => legacy::list(&asker, after.as_deref()).await,
            Self::Cancel { id } => {
                let found = asker.find(&id).await?;
                let was_running = asker.cancel(&found).await?;
                // In the extension a cancellation says what is wanted, and may come twice or too late.
                if is_extension {
                    Ok(asker.reply(EmptyResult::default()))
                } else {
                    legacy::cancelled(&asker, &id, was_running).await
                }
            }
            Self::Update { id, answers } => {
                if let Found::Here(live) = asker.find(&id).await? {
                    live.answer(answers);
                }
                Ok(asker.reply(EmptyResult::default()))
            }
        }
    }
}

impl Asker<'_> {
    pub(super) fn reply(&self, result: impl mcp_protocol::ResultPayload) -> Reply {
        Reply::result(&self.server.data.identity, self.request, self.scope.version, result, 512)
    }

    /// The task of that id, if it is the asker's and the asker may still use the tool behind it.
    pub(super) async fn find(&self, id: &str) -> Result<Found, RpcError> {
        let found = self.server.data.tasks.find(&self.owner, id).await?;
        found.look(|record| self.may_use(record)).map_err(Refusal::into_error)?;
        Ok(found)
    }

    pub(super) fn may_use(&self, record: &Record) -> Result<(), Refusal> {
        let Some(tool) = &record.tool else { return Ok(()) };
        match self.server.data.tools.load().find(tool) {
            Some(entry) => self.server.check_scopes(self.scope, &entry.spec.required_scopes),
            None => Ok(()),
        }
    }

    /// Cancels a task; false when it had ended.
    async fn cancel(&self, found: &Found) -> Result<bool, RpcError> {
        let table = &self.server.data.tasks;
        match found {
            Found::Here(live) => Ok(table.settle(live, Outcome::Cancelled).await),
            Found::Stored(record, bytes) => {
                let (server, owner, record, bytes) =
                    (self.server.clone(), self.owner.clone(), record.clone(), bytes.clone());
                // Once the record is marked the node of the task must hear of it, also when nobody waits for the answer.
                let cancelling = tokio::spawn(async move {
                    let id = record.id.clone();
                    let cancelled = server.data.tasks.cancel_stored(&owner, *record, &bytes).await?;
                    if cancelled != Cancelled::Never
                        && let Some(fleet) = server.data.publisher.fleet()
                    {
                        fleet.tell_cancelled(&id);
                    }
                    Ok(cancelled == Cancelled::Now)
                });
                cancelling.await.unwrap_or_else(|_| Err(RpcError::internal("the task cannot be cancelled")))
            }
        }
    }
}

pub(super) fn owner_of(scope: &Scope) -> Owner {
    Owner::of(scope.principal.as_deref(), scope.is_local)
}
