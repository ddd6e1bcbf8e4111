//! A task as it lies in the store, and what either dialect shows of it.

use mcp_protocol::{
    CallToolResult, InputRequests, JsonObject, ProtocolVersion, RpcError, Shape,
    tasks::{self, TaskStatus, ext},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a task came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// A result. One dialect has failed a task whose result is an error of the tool, the other has not.
    Result(JsonObject),
    /// A JSON-RPC error.
    Error(RpcError),
    /// It was cancelled.
    Cancelled,
}

impl Outcome {
    /// What a call of a tool came to.
    pub(crate) fn of(result: &CallToolResult) -> Self {
        match serde_json::to_value(result).ok().and_then(JsonObject::from_value) {
            Some(members) => Self::Result(members),
            None => {
                tracing::error!("the result of a task cannot be written as JSON");
                Self::Error(RpcError::internal("the result cannot be written as JSON"))
            }
        }
    }

    /// How many bytes of JSON it is.
    pub(crate) fn size(&self) -> usize {
        /// Keeps the length of what is written.
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
        // What cannot be written is not kept either.
        let _ = serde_json::to_writer(&mut length, self);
        length.0
    }

    fn is_tool_error(&self) -> bool {
        matches!(self, Self::Result(result) if result.get("isError") == Some(&Value::Bool(true)))
    }
}

/// A task, apart from the handler that may still run for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    /// Whom it belongs to. Who asks for it must be the same.
    pub(crate) owner: String,
    /// The tool that runs, whose scopes are needed for every use of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
    pub(crate) created: String,
    pub(crate) updated: String,
    /// How long it lives from its creation, in milliseconds.
    pub(crate) ttl: u64,
    /// How long to wait between two looks, in milliseconds.
    pub(crate) poll: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// The questions that wait for an answer. Only the node that runs the handler knows them.
    #[serde(skip)]
    pub(crate) questions: InputRequests,
    /// Whether an answer is waited for.
    #[serde(skip)]
    pub(crate) asks: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Outcome>,
}

impl Record {
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).map_err(|error| tracing::error!(%error, "a task cannot be read back")).ok()
    }

    fn status(&self) -> TaskStatus {
        match &self.outcome {
            Some(Outcome::Result(_)) => TaskStatus::Completed,
            Some(Outcome::Error(_)) => TaskStatus::Failed,
            Some(Outcome::Cancelled) => TaskStatus::Cancelled,
            None if self.asks => TaskStatus::InputRequired,
            None => TaskStatus::Working,
        }
    }

    /// The same in words: what the handler said last, or why the task ended.
    fn words(&self) -> String {
        let said = self.message.clone();
        match &self.outcome {
            Some(Outcome::Result(_)) if self.is_tool_error() => "The tool failed.".into(),
            Some(Outcome::Result(_)) => "The call is done.".into(),
            Some(Outcome::Error(error)) => error.message.clone(),
            Some(Outcome::Cancelled) => "The task was cancelled.".into(),
            None if self.asks => "The task waits for an answer.".into(),
            None => said.unwrap_or_else(|| "The call is in progress.".into()),
        }
    }

    fn is_tool_error(&self) -> bool {
        self.outcome.as_ref().is_some_and(Outcome::is_tool_error)
    }

    /// As 2025-11-25 shows it: there a tool that failed has failed its task.
    pub(crate) fn legacy(&self) -> tasks::Task {
        let mut task = tasks::Task::new(&self.id, &self.created);
        task.status = if self.is_tool_error() { TaskStatus::Failed } else { self.status() };
        task.status_message = Some(self.words());
        task.last_updated_at.clone_from(&self.updated);
        task.ttl = Some(self.ttl);
        task.poll_interval = Some(self.poll);
        task
    }

    /// As the extension shows it when it was created.
    pub(crate) fn extension(&self) -> ext::Task {
        let mut task = ext::Task::from(self.legacy());
        task.status = self.status();
        task
    }

    /// As the extension shows it later, with what its status brings along.
    pub(crate) fn into_detailed(self) -> ext::DetailedTask {
        let task = self.extension();
        match self.outcome {
            Some(Outcome::Result(mut result)) => {
                // What the call would have returned in this revision says of which kind it is.
                result.entry("resultType").or_insert_with(|| "complete".into());
                ext::DetailedTask::completed(task, result)
            }
            Some(Outcome::Error(mut error)) => {
                // It may have failed in a session.
                error.shape(ProtocolVersion::LATEST);
                ext::DetailedTask::failed(task, error)
            }
            None if self.asks => ext::DetailedTask::input_required(task, self.questions),
            _ => ext::DetailedTask::new(task),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_failed_fails_its_task_in_one_dialect_only() {
        let record = Record {
            id: "t".into(),
            owner: "o".into(),
            tool: None,
            created: "c".into(),
            updated: "u".into(),
            ttl: 5,
            poll: 1,
            message: None,
            questions: InputRequests::new(),
            asks: false,
            outcome: None,
        };
        for (outcome, legacy, extension) in [
            (None, TaskStatus::Working, TaskStatus::Working),
            (Some(Outcome::Cancelled), TaskStatus::Cancelled, TaskStatus::Cancelled),
            (Some(Outcome::Error(RpcError::internal("x"))), TaskStatus::Failed, TaskStatus::Failed),
            (Some(Outcome::of(&CallToolResult::text("x"))), TaskStatus::Completed, TaskStatus::Completed),
            (Some(Outcome::of(&CallToolResult::error("x"))), TaskStatus::Failed, TaskStatus::Completed),
        ] {
            let record = Record { outcome, ..record.clone() };
            assert_eq!((record.legacy().status, record.clone().into_detailed().task.status), (legacy, extension));
            let kept = serde_json::to_vec(&record).unwrap();
            assert_eq!(Record::read(&kept), Some(record));
        }
    }
}
