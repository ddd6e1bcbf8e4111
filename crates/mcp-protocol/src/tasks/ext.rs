//! The shapes of the tasks extension (SEP-2663), for 2026-07-28: the server decides, results are flat.

use serde::{Deserialize, Serialize};

use super::TaskStatus;
use crate::{InputRequests, JsonObject, Meta, RpcError, json};

/// The identifier of the extension in capabilities.
pub const IDENTIFIER: &str = "io.modelcontextprotocol/tasks";

/// A task. Messages contain its members without nesting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Task {
    /// The id of the task. It is unguessable.
    pub task_id: String,
    /// The status of the task.
    pub status: TaskStatus,
    /// A description of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// When it was created, as an ISO 8601 date and time.
    pub created_at: String,
    /// When it last changed, as an ISO 8601 date and time.
    pub last_updated_at: String,
    /// The time for which the task is kept after its creation, in milliseconds; `None` is unlimited.
    #[serde(default, deserialize_with = "json::millis")]
    pub ttl_ms: Option<u64>,
    /// How long to wait between two polls, in milliseconds.
    #[serde(default, deserialize_with = "json::millis", skip_serializing_if = "Option::is_none")]
    pub poll_interval_ms: Option<u64>,
}

impl Task {
    /// Returns a running task that was just created.
    pub fn new(task_id: impl Into<String>, created_at: impl Into<String>) -> Self {
        let created_at = created_at.into();
        Self {
            task_id: task_id.into(),
            status: TaskStatus::Working,
            status_message: None,
            last_updated_at: created_at.clone(),
            created_at,
            ttl_ms: None,
            poll_interval_ms: None,
        }
    }
}

setters! {
    Task {
        /// Sets the description of the status.
        with_status_message = text status_message;
        /// Sets the time for which the task is kept after its creation, in milliseconds.
        with_ttl_ms = some ttl_ms: u64;
        /// Sets the time between two polls, in milliseconds.
        with_poll_interval_ms = some poll_interval_ms: u64;
    }
}

impl From<super::Task> for Task {
    fn from(task: super::Task) -> Self {
        Self {
            task_id: task.task_id,
            status: task.status,
            status_message: task.status_message,
            created_at: task.created_at,
            last_updated_at: task.last_updated_at,
            ttl_ms: task.ttl,
            poll_interval_ms: task.poll_interval,
        }
    }
}

impl From<Task> for super::Task {
    fn from(task: Task) -> Self {
        Self {
            task_id: task.task_id,
            status: task.status,
            status_message: task.status_message,
            created_at: task.created_at,
            last_updated_at: task.last_updated_at,
            ttl: task.ttl_ms,
            poll_interval: task.poll_interval_ms,
        }
    }
}

/// The result of a request that became a task; its `resultType` is `task`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateTaskResult {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CreateTaskResult {
    /// Returns the result for a request that became this task.
    #[must_use]
    pub fn new(task: Task) -> Self {
        Self { task, meta: None }
    }
}

setters! {
    CreateTaskResult {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// A task with the members of its status: the result of `tasks/get` and the parameters of `notifications/tasks`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DetailedTask {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// Every question that waits for an answer, when the status is `input_required`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<InputRequests>,
    /// The result of the request, when the status is `completed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<JsonObject>,
    /// The error that the request would have ended in, when the status is `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
    /// Metadata of the message.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl DetailedTask {
    /// Returns a task without further members: `working` or `cancelled`.
    #[must_use]
    pub fn new(task: Task) -> Self {
        Self { task, input_requests: None, result: None, error: None, meta: None }
    }

    /// Returns a task that waits for answers.
    #[must_use]
    pub fn input_required(mut task: Task, questions: InputRequests) -> Self {
        task.status = TaskStatus::InputRequired;
        Self { input_requests: Some(questions), ..Self::new(task) }
    }

    /// Returns a task that ended with a result.
    #[must_use]
    pub fn completed(mut task: Task, result: JsonObject) -> Self {
        task.status = TaskStatus::Completed;
        Self { result: Some(result), ..Self::new(task) }
    }

    /// Returns a task that ended with an error.
    #[must_use]
    pub fn failed(mut task: Task, error: RpcError) -> Self {
        task.status = TaskStatus::Failed;
        Self { error: Some(error), ..Self::new(task) }
    }
}

setters! {
    DetailedTask {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// Parameters of `tasks/update`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpdateTaskParams {
    /// The task.
    pub task_id: String,
    /// Answers, by the keys of the questions; not all of them need to come at once.
    pub input_responses: JsonObject,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl UpdateTaskParams {
    /// Returns answers to input requests of a task.
    pub fn new(task_id: impl Into<String>, input_responses: JsonObject) -> Self {
        Self { task_id: task_id.into(), input_responses, meta: None }
    }
}

setters! {
    UpdateTaskParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    #[test]
    fn each_status_has_its_own_member() {
        let task = Task::new("t", "2026-08-01T00:00:00Z");
        let base = value!({
            "taskId": "t", "createdAt": "2026-08-01T00:00:00Z", "lastUpdatedAt": "2026-08-01T00:00:00Z", "ttlMs": null
        });
        for (detailed, members) in [
            (DetailedTask::new(task.clone()), value!({"status": "working"})),
            (
                DetailedTask::input_required(task.clone(), InputRequests::new()),
                value!({"status": "input_required", "inputRequests": {}}),
            ),
            (
                DetailedTask::completed(task.clone(), JsonObject::new().with("content", value!([]))),
                value!({"status": "completed", "result": {"content": []}}),
            ),
            (
                DetailedTask::failed(task, RpcError::internal("x")),
                value!({"status": "failed", "error": {"code": -32603, "message": "x"}}),
            ),
        ] {
            let mut json = base.clone();
            json.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            assert_eq!(serde_json::to_value(&detailed).unwrap(), json);
            assert_eq!(serde_json::from_value::<DetailedTask>(json).unwrap(), detailed);
        }
    }

    #[test]
    fn the_two_dialects_carry_the_same_task() {
        let mut task = Task::new("t", "a");
        task.ttl_ms = Some(5);
        task.poll_interval_ms = Some(6);
        let core = super::super::Task::from(task.clone());
        assert_eq!((core.ttl, core.poll_interval), (Some(5), Some(6)));
        assert_eq!(Task::from(core), task);
    }
}
