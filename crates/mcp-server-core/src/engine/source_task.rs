//! Requests about tasks that the source of a server serves, and the calls that become tasks there.

use std::sync::LazyLock;

use mcp_protocol::{
    MemberFinder, Method as _, PaginatedParams, ProtocolVersion, ResultType, RpcError, TaskSupport,
    jsonrpc::{Request, decode_params},
    method,
    tasks::{CreateTaskResult, TaskParams, ext},
};
use mcp_transport::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{prepare::Work, source_call::SourceMethod, task_requests::check_caller};
use crate::{
    Server,
    context::Context,
    error::{CALL_FAILED, Fault},
    json,
    request::{Refusal, Scope, SourceResult},
    source::{Source, SourceCall, SourceDefinition},
    tasks::{Plan, ToolTasks},
};

/// The function of a source for a method about tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskMethod {
    Get,
    Result,
    List,
    Cancel,
    Update,
}

impl Server {
    /// Prepares a request about tasks for the source; `None` if the source serves no tasks.
    pub(super) fn source_task(&self, request: &Request<'_>, scope: &Scope) -> Option<Result<Work, Refusal>> {
        if !self.source_serves_tasks() {
            return None;
        }
        let method = TaskMethod::parse(&request.method)?;
        if let Err(error) = check_caller(method.name(), scope) {
            return Some(Err(error.into()));
        }
        self.source_work(SourceMethod::Task(method), request, scope)
    }

    /// Whether a call of the source may become a task. A tool that the source does not know may, because its source decides.
    ///
    /// # Errors
    /// The errors of calls of registered tools: `-32601` and `-32021` for a call that does not fit the task support of its tool, and
    /// `-32602` for an invalid parameter `task`.
    pub(super) fn source_call_accepts_task(
        &self,
        params: &RawValue,
        definition: Option<&SourceDefinition>,
        scope: &Scope,
    ) -> Result<bool, RpcError> {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(default, borrow)]
            task: Option<&'a RawValue>,
        }
        // A server without tasks ignores the parameter. A call of the application itself has no client.
        if !self.source_serves_tasks() || scope.lacks_session() || scope.transport().is_none() {
            return Ok(false);
        }
        static MEMBER: LazyLock<MemberFinder> = LazyLock::new(|| MemberFinder::new("task"));
        let task = match MEMBER.may_have(params.get().as_bytes()) {
            true => decode_params::<Params<'_>>(method::CallTool::NAME, Some(params))?.task,
            false => None,
        };
        let support = definition.map_or(TaskSupport::Optional, SourceDefinition::task_support);
        if support == TaskSupport::Forbidden && task.is_none() {
            return Ok(false);
        }
        let tool = ToolTasks { support, policy: None };
        let config = &self.data.config;
        let server = (config.task_policy, &config.limits.tasks);
        match Plan::of(&tool, task, scope.version, scope.client.capabilities(), server)? {
            Plan::Plain => Ok(false),
            Plan::Task { .. } => Ok(true),
            Plan::Refused(error) => Err(error),
        }
    }

    fn source_serves_tasks(&self) -> bool {
        self.source().is_some_and(|installed| installed.features.tasks)
    }
}

impl TaskMethod {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            method::GetTask::NAME => Self::Get,
            method::GetTaskPayload::NAME => Self::Result,
            method::ListTasks::NAME => Self::List,
            method::CancelTask::NAME => Self::Cancel,
            method::UpdateTask::NAME => Self::Update,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => method::GetTask::NAME,
            Self::Result => method::GetTaskPayload::NAME,
            Self::List => method::ListTasks::NAME,
            Self::Cancel => method::CancelTask::NAME,
            Self::Update => method::UpdateTask::NAME,
        }
    }

    /// Returns the id of the task and the cursor of the list.
    pub(super) fn read(self, params: Option<&RawValue>) -> Result<(Box<str>, Option<Box<str>>), RpcError> {
        let id = |id: String| (id.into_boxed_str(), None);
        match self {
            Self::List => {
                let params: PaginatedParams = decode_params(self.name(), params)?;
                Ok((Box::default(), params.cursor.map(String::into_boxed_str)))
            }
            Self::Update => {
                decode_params::<ext::UpdateTaskParams>(self.name(), params).map(|params| id(params.task_id))
            }
            Self::Get | Self::Result | Self::Cancel => {
                decode_params::<TaskParams>(self.name(), params).map(|params| id(params.task_id))
            }
        }
    }

    pub(super) fn run(self, source: &dyn Source, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        match self {
            Self::Get => source.get_task(call),
            Self::Result => source.task_result(call),
            Self::List => source.list_tasks(call),
            Self::Cancel => source.cancel_task(call),
            Self::Update => source.update_task(call),
        }
    }
}

/// Whether a result is a created task in the form of a revision.
pub(super) fn is_task(result: &SourceResult, version: ProtocolVersion) -> bool {
    if result.version() != version {
        return false;
    }
    if version.has_core_tasks() {
        return json::from_slice::<CreateTaskResult>(result.json()).is_ok();
    }
    let raw = json::from_slice::<&RawValue>(result.json()).ok();
    raw.and_then(|raw| ResultType::of(raw).ok()) == Some(ResultType::Task)
        && json::from_slice::<ext::CreateTaskResult>(result.json()).is_ok()
}

/// Returns the error of a task that the caller does not accept, or that has another form.
pub(super) fn not_a_task(context: &Context) -> RpcError {
    let details = "the caller accepts no task, or the result is not a created task in its dialect";
    let event = "a source returned an invalid task";
    RpcError::internal(Fault::report(event, CALL_FAILED, &details).text(context.shows_faults()))
}
