//! The stored record of a task, and its form in each dialect.

use mcp_protocol::{
    CallToolResult, InputRequests, JsonObject, ProtocolVersion, RpcError, Shape,
    tasks::{self, TaskStatus, ext},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{access::Access, json};

/// The end of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum TaskOutcome {
    /// A result. A tool error fails the task in 2025-11-25, and completes it in the extension.
    Result(JsonObject),
    /// A JSON-RPC error.
    Error(RpcError),
    /// The task was cancelled.
    Cancelled,
}

impl TaskOutcome {
    /// Returns the outcome of a tool call.
    pub(crate) fn of(result: &CallToolResult) -> Self {
        match serde_json::to_value(result).ok().and_then(JsonObject::from_value) {
            Some(members) => Self::Result(members),
            None => {
                tracing::error!("the result of a task cannot be written as JSON");
                Self::Error(RpcError::internal("the result cannot be written as JSON"))
            }
        }
    }

    /// Returns the length of the outcome as JSON, in bytes.
    pub(crate) fn size(&self) -> usize {
        /// Counts written bytes.
        struct Length(usize);
        impl std::io::Write for Length {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0 += bytes.len();
                Ok(bytes.len())
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut length = Length(0);
        // An outcome that does not serialize is not stored either.
        let _ = serde_json::to_writer(&mut length, self);
        length.0
    }

    fn is_tool_error(&self) -> bool {
        matches!(self, Self::Result(result) if result.get("isError") == Some(&Value::Bool(true)))
    }
}

/// The state of a task, without the handler that runs for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    /// The owner. Only the same owner can use the task.
    pub(crate) owner: String,
    /// The tool that runs. Every use of the task needs the access of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
    /// The access that the tool needed at the creation of the task, because a node may not have the tool.
    #[serde(default, skip_serializing_if = "Access::is_public")]
    pub(crate) access: Access,
    pub(crate) created: String,
    pub(crate) updated: String,
    /// The lifetime from the creation, in milliseconds.
    pub(crate) ttl: u64,
    /// The interval at which clients poll, in milliseconds.
    pub(crate) poll: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// The node that runs the task, in a fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    /// The number of changes of the task on its node.
    #[serde(skip)]
    pub(crate) version: u64,
    /// The open input requests. Only the node that runs the handler knows them.
    #[serde(skip)]
    pub(crate) questions: InputRequests,
    /// Whether the task waits for input.
    #[serde(skip)]
    pub(crate) awaits_input: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<TaskOutcome>,
}

impl Record {
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        json::from_slice(bytes).map_err(|error| tracing::error!(%error, "a task cannot be read back")).ok()
    }

    fn status(&self) -> TaskStatus {
        match &self.outcome {
            Some(TaskOutcome::Result(_)) => TaskStatus::Completed,
            Some(TaskOutcome::Error(_)) => TaskStatus::Failed,
            Some(TaskOutcome::Cancelled) => TaskStatus::Cancelled,
            None if self.awaits_input => TaskStatus::InputRequired,
            None => TaskStatus::Working,
        }
    }

    /// Returns the status message: the last message of the handler, or the reason for the end.
    fn status_message(&self) -> String {
        let own_message = self.message.clone();
        match &self.outcome {
            Some(TaskOutcome::Result(_)) if self.is_tool_error() => "The tool failed.".into(),
            Some(TaskOutcome::Result(_)) => "The call is done.".into(),
            Some(TaskOutcome::Error(error)) => error.message.clone(),
            Some(TaskOutcome::Cancelled) => "The task was cancelled.".into(),
            None if self.awaits_input => "The task waits for an answer.".into(),
            None => own_message.unwrap_or_else(|| "The call is in progress.".into()),
        }
    }

    fn is_tool_error(&self) -> bool {
        self.outcome.as_ref().is_some_and(TaskOutcome::is_tool_error)
    }

    /// Returns the task in the form of 2025-11-25, where a tool error fails the task.
    pub(crate) fn legacy(&self) -> tasks::Task {
        let mut task = tasks::Task::new(&self.id, &self.created);
        task.status = if self.is_tool_error() { TaskStatus::Failed } else { self.status() };
        task.status_message = Some(self.status_message());
        task.last_updated_at.clone_from(&self.updated);
        task.ttl = Some(self.ttl);
        task.poll_interval = Some(self.poll);
        task
    }

    /// Returns the task in the form that the extension uses at its creation.
    pub(crate) fn extension(&self) -> ext::Task {
        let mut task = ext::Task::from(self.legacy());
        task.status = self.status();
        task
    }

    /// Returns the task in the form of the extension, with its result or input requests.
    pub(crate) fn into_detailed(self) -> ext::DetailedTask {
        let task = self.extension();
        match self.outcome {
            Some(TaskOutcome::Result(mut result)) => {
                // A result of this revision has a `resultType`.
                result.entry("resultType").or_insert_with(|| "complete".into());
                ext::DetailedTask::completed(task, result)
            }
            Some(TaskOutcome::Error(mut error)) => {
                // The task may have failed in a session.
                error.shape(ProtocolVersion::LATEST);
                ext::DetailedTask::failed(task, error)
            }
            None if self.awaits_input => ext::DetailedTask::input_required(task, self.questions),
            _ => ext::DetailedTask::new(task),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_error_fails_its_task_in_one_dialect_only() {
        let record = Record {
            id: "t".into(),
            owner: "o".into(),
            tool: None,
            access: Access::PUBLIC,
            created: "c".into(),
            updated: "u".into(),
            ttl: 5,
            poll: 1,
            message: None,
            node: Some("n".into()),
            version: 0,
            questions: InputRequests::new(),
            awaits_input: false,
            outcome: None,
        };
        for (outcome, legacy, extension) in [
            (None, TaskStatus::Working, TaskStatus::Working),
            (Some(TaskOutcome::Cancelled), TaskStatus::Cancelled, TaskStatus::Cancelled),
            (Some(TaskOutcome::Error(RpcError::internal("x"))), TaskStatus::Failed, TaskStatus::Failed),
            (Some(TaskOutcome::of(&CallToolResult::text("x"))), TaskStatus::Completed, TaskStatus::Completed),
            (Some(TaskOutcome::of(&CallToolResult::error("x"))), TaskStatus::Failed, TaskStatus::Completed),
        ] {
            let record = Record { outcome, ..record.clone() };
            assert_eq!((record.legacy().status, record.clone().into_detailed().task.status), (legacy, extension));
            let kept = serde_json::to_vec(&record).unwrap();
            assert_eq!(Record::read(&kept), Some(record));
        }
    }
}
