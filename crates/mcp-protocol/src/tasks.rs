//! Tasks: requests that outlive their answer. Here the shapes of 2025-11-25, in [`ext`] those of the extension
//! `io.modelcontextprotocol/tasks` for 2026-07-28.

pub mod ext;

use serde::{Deserialize, Serialize};

use crate::{JsonObject, Meta, json};

/// The status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// The task is running.
    Working,
    /// The task waits for input.
    InputRequired,
    /// The task has ended with a result.
    Completed,
    /// The task has ended with an error.
    Failed,
    /// The task was cancelled.
    Cancelled,
}

impl TaskStatus {
    /// Whether it has ended: nothing about it changes any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// The `task` parameter, which requests a task (2025-11-25).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskMetadata {
    /// For how long the task shall be kept after its creation, in milliseconds.
    #[serde(default, deserialize_with = "json::millis", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
}

impl TaskMetadata {
    /// Returns metadata without a time to live: the server chooses it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters! {
    TaskMetadata {
        /// Sets the time for which the server shall keep the task after its creation, in milliseconds.
        with_ttl = some ttl: u64;
    }
}

/// A task (2025-11-25).
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
    pub ttl: Option<u64>,
    /// How long to wait between two polls, in milliseconds.
    #[serde(default, deserialize_with = "json::millis", skip_serializing_if = "Option::is_none")]
    pub poll_interval: Option<u64>,
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
            ttl: None,
            poll_interval: None,
        }
    }
}

setters! {
    Task {
        /// Sets the description of the status.
        with_status_message = text status_message;
        /// Sets the time for which the task is kept after its creation, in milliseconds.
        with_ttl = some ttl: u64;
        /// Sets the time between two polls, in milliseconds.
        with_poll_interval = some poll_interval: u64;
    }
}

/// The result of a request that became a task (2025-11-25).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateTaskResult {
    /// The task.
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

/// Parameters of `tasks/get`, `tasks/result` and `tasks/cancel`, in both dialects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskParams {
    /// The task.
    pub task_id: String,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl TaskParams {
    /// Returns the parameters for a task.
    pub fn new(task_id: impl Into<String>) -> Self {
        Self { task_id: task_id.into(), meta: None }
    }
}

setters! {
    TaskParams {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The result of `tasks/get` and `tasks/cancel`, and the parameters of `notifications/tasks/status` (2025-11-25).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskState {
    /// The task. Its members are at the same level as `_meta`.
    #[serde(flatten)]
    pub task: Task,
    /// Metadata of the message.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl TaskState {
    /// Returns the state of a task.
    #[must_use]
    pub fn new(task: Task) -> Self {
        Self { task, meta: None }
    }
}

setters! {
    TaskState {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The result of `tasks/list`: one page (2025-11-25).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListTasksResult {
    /// The tasks of this page.
    pub tasks: Vec<Task>,
    /// The cursor of the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ListTasksResult {
    /// Returns the last page, with these tasks.
    #[must_use]
    pub fn new(tasks: Vec<Task>) -> Self {
        Self { tasks, ..Self::default() }
    }
}

setters! {
    ListTasksResult {
        /// Sets the cursor of the next page.
        with_next_cursor = text next_cursor;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The result of `tasks/result`: what the request would have returned without a task (2025-11-25).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskPayload {
    /// Metadata of the result, which names the task.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// All other members of the result.
    #[serde(flatten)]
    pub result: JsonObject,
}

impl TaskPayload {
    /// Returns a result with these members.
    #[must_use]
    pub fn new(result: JsonObject) -> Self {
        Self { meta: None, result }
    }
}

setters! {
    TaskPayload {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    #[test]
    fn a_task_without_end_has_a_null_ttl() {
        let json =
            value!({"taskId": "t", "status": "input_required", "createdAt": "a", "lastUpdatedAt": "b", "ttl": null});
        let task: Task = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(task.ttl, None);
        assert_eq!(serde_json::to_value(&task).unwrap(), json);
        let state: TaskState = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&state).unwrap(), json);
        let nested = serde_json::to_value(CreateTaskResult::new(task)).unwrap();
        assert_eq!(nested, value!({"task": json}));
    }

    #[test]
    fn a_payload_keeps_every_member() {
        let json = value!({"content": [], "isError": false, "_meta": {"k": 1}});
        let payload: TaskPayload = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(payload.result.len(), 2);
        assert_eq!(serde_json::to_value(&payload).unwrap(), json);
    }

    #[test]
    fn three_states_are_final() {
        for (status, name, is_terminal) in [
            (TaskStatus::Working, "working", false),
            (TaskStatus::InputRequired, "input_required", false),
            (TaskStatus::Completed, "completed", true),
            (TaskStatus::Failed, "failed", true),
            (TaskStatus::Cancelled, "cancelled", true),
        ] {
            assert_eq!(serde_json::to_value(status).unwrap(), name);
            assert_eq!(status.is_terminal(), is_terminal);
        }
    }
}
