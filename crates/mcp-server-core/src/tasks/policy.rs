//! The decision when a call becomes a task.
//!
//! The client decides in 2025-11-25. The server decides in the extension for 2026-07-28.

use std::time::Duration;

use mcp_protocol::{ClientCapabilities, JsonObject, ProtocolVersion, RpcError, TaskSupport, tasks::ext};
use serde_json::value::RawValue;

use super::TaskLimits;

/// The moment at which the server turns a call into a task (the extension `io.modelcontextprotocol/tasks`, 2026-07-28).
///
/// A client of 2025-11-25 requests a task itself.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_server_core::{Server, TaskPolicy};
///
/// let policy = TaskPolicy::After(Duration::from_secs(5));
/// let server = Server::builder("jobs", "1.0").task_policy(policy).build();
/// # let _ = server;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskPolicy {
    /// At once: the response is the task. The handler sends its input requests inside of the task.
    Immediately,
    /// When the call still runs after this time.
    ///
    /// A call that ends earlier returns its plain result. An input request before that time becomes the result of the
    /// request.
    After(Duration),
}

impl Default for TaskPolicy {
    /// Returns a policy of one second.
    fn default() -> Self {
        Self::After(Duration::from_secs(1))
    }
}

/// The task settings of a tool.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ToolTasks {
    pub(crate) support: TaskSupport,
    /// Overrides the policy of the server.
    pub(crate) policy: Option<TaskPolicy>,
}

/// The form in which one call runs.
#[derive(Debug, Clone, Default)]
pub(crate) enum Plan {
    /// A call with a plain result.
    #[default]
    Plain,
    /// A task, at once or after a time.
    Task { policy: TaskPolicy, ttl: Duration, is_required: bool },
    /// The tool only runs as a task, and the client cannot use tasks. Local calls run anyway.
    Refused(RpcError),
}

impl Plan {
    /// Decides the form of a tool call.
    ///
    /// # Errors
    /// `-32601` when the client requests a task and the tool does not support tasks. `-32602` when the `task` parameter
    /// is invalid.
    pub(crate) fn of(
        tool: &ToolTasks,
        task: Option<&RawValue>,
        version: ProtocolVersion,
        client: &ClientCapabilities,
        (server, limits): (TaskPolicy, &TaskLimits),
    ) -> Result<Self, RpcError> {
        let is_required = tool.support == TaskSupport::Required;
        if version.has_core_tasks() {
            return match (task, tool.support) {
                (None, TaskSupport::Required) => Ok(Self::Refused(not_so("this tool runs as a task only"))),
                (None, _) => Ok(Self::Plain),
                (Some(_), TaskSupport::Forbidden) => Err(not_so("this tool does not run as a task")),
                (Some(task), _) => {
                    let ttl = limits.clamped(asked_ttl(task)?);
                    Ok(Self::Task { policy: TaskPolicy::Immediately, ttl, is_required })
                }
            };
        }
        if !version.has_extensions() || tool.support == TaskSupport::Forbidden {
            return Ok(Self::Plain);
        }
        match (client.supports_extension(ext::IDENTIFIER), is_required) {
            (true, _) => {
                let policy = tool.policy.unwrap_or(server);
                Ok(Self::Task { policy, ttl: limits.clamped(None), is_required })
            }
            (false, true) => Ok(Self::Refused(undeclared())),
            (false, false) => Ok(Self::Plain),
        }
    }
}

/// Returns `-32021` for a client that did not declare the extension.
pub(crate) fn undeclared() -> RpcError {
    RpcError::missing_client_capability(&required())
}

/// Returns the capabilities of a client that supports the extension.
pub(crate) fn required() -> ClientCapabilities {
    ClientCapabilities::new().with_extension(ext::IDENTIFIER, JsonObject::new())
}

fn not_so(text: &str) -> RpcError {
    RpcError::new(mcp_protocol::ErrorCode::METHOD_NOT_FOUND, text)
}

/// Returns the `ttl` that the client requests.
fn asked_ttl(task: &RawValue) -> Result<Option<Duration>, RpcError> {
    let bad = |what: &str| RpcError::invalid_params(format!("the parameter `task`: {what}"));
    let task: serde_json::Value = serde_json::from_str(task.get()).map_err(|_| bad("it cannot be read"))?;
    let members = task.as_object().ok_or_else(|| bad("it is not an object"))?;
    match members.get("ttl") {
        None | Some(serde_json::Value::Null) => Ok(None),
        Some(ttl) => {
            let millis = ttl.as_f64().filter(|millis| *millis >= 0.0 && millis.is_finite());
            let millis = millis.ok_or_else(|| bad("`ttl` is a number of milliseconds"))?;
            // The cast saturates, and values above the maximum are reduced later.
            Ok(Some(Duration::from_millis(millis as u64)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    fn plan(support: TaskSupport, task: Option<&str>, version: ProtocolVersion, declared: bool) -> String {
        let tool = ToolTasks { support, policy: None };
        let client = if declared { required() } else { ClientCapabilities::new() };
        let task = task.map(|text| to_raw_value(&serde_json::from_str::<serde_json::Value>(text).unwrap()).unwrap());
        let server = (TaskPolicy::default(), &TaskLimits::default());
        match Plan::of(&tool, task.as_deref(), version, &client, server) {
            Ok(Plan::Plain) => "plain".into(),
            Ok(Plan::Task { policy: TaskPolicy::Immediately, ttl, .. }) => format!("task {}", ttl.as_millis()),
            Ok(Plan::Task { policy: TaskPolicy::After(time), .. }) => format!("after {}", time.as_millis()),
            Ok(Plan::Refused(error)) => format!("refused {}", error.code),
            Err(error) => format!("error {}", error.code),
        }
    }

    #[test]
    fn the_client_or_the_server_decides_by_the_revision() {
        use TaskSupport::{Forbidden, Optional, Required};
        use mcp_protocol::ProtocolVersion as V;
        let (older, core, modern) = (V::V2025_06_18, V::V2025_11_25, V::V2026_07_28);
        for (support, task, version, declared, expected) in [
            (Forbidden, None, core, false, "plain"),
            (Forbidden, Some("{}"), core, false, "error -32601"),
            (Optional, None, core, true, "plain"),
            (Optional, Some("{}"), core, false, "task 300000"),
            (Optional, Some(r#"{"ttl": null}"#), core, false, "task 300000"),
            (Optional, Some(r#"{"ttl": 1500.9}"#), core, false, "task 1500"),
            (Optional, Some(r#"{"ttl": 0}"#), core, false, "task 1"),
            (Optional, Some(r#"{"ttl": 1e300}"#), core, false, "task 3600000"),
            (Optional, Some(r#"{"ttl": -1}"#), core, false, "error -32602"),
            (Optional, Some(r#"{"ttl": "1"}"#), core, false, "error -32602"),
            (Optional, Some("7"), core, false, "error -32602"),
            (Required, None, core, false, "refused -32601"),
            (Required, Some("{}"), core, false, "task 300000"),
            (Forbidden, Some("{}"), older, false, "plain"),
            (Optional, Some("7"), older, true, "plain"),
            (Required, None, older, false, "plain"),
            (Forbidden, Some("{}"), modern, true, "plain"),
            (Optional, None, modern, false, "plain"),
            (Optional, Some("7"), modern, false, "plain"),
            (Optional, None, modern, true, "after 1000"),
            (Required, None, modern, true, "after 1000"),
            (Required, Some("{}"), modern, false, "refused -32021"),
        ] {
            assert_eq!(plan(support, task, version, declared), expected, "{support:?} {task:?} {version} {declared}");
        }
    }
}
