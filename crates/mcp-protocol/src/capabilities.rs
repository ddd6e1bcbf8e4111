//! Capabilities of clients and servers. Both sets are open: unknown members are kept.

mod client;
mod server;

use serde::{Deserialize, Serialize};

use crate::JsonObject;

pub use self::{
    client::{ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability},
    server::{PromptsCapability, ResourcesCapability, ServerCapabilities, ToolsCapability},
};

/// The requests that a peer can run as tasks (2025-11-25 only).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TasksCapability {
    /// `tasks/list` is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<JsonObject>,
    /// `tasks/cancel` is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<JsonObject>,
    /// The requests that may run as tasks, as `{category: {operation: {}}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<JsonObject>,
    /// Members that are unknown to this library.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl TasksCapability {
    /// Returns a capability without requests.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request that may run as a task: `("tools", "call")`, `("sampling", "createMessage")`,
    /// `("elicitation", "create")`.
    #[must_use]
    pub fn with_request(mut self, category: &str, operation: &str) -> Self {
        let category =
            self.requests.get_or_insert_default().entry(category).or_insert_with(|| JsonObject::new().into());
        if let Some(operations) = category.as_object_mut() {
            operations.insert(operation.into(), JsonObject::new().into());
        }
        self
    }

    /// Whether a request may run as a task.
    #[must_use]
    pub fn supports_request(&self, category: &str, operation: &str) -> bool {
        let operation = self.requests.as_ref().and_then(|r| r.get(category)).and_then(|c| c.get(operation));
        operation.is_some_and(|value| !value.is_null())
    }
}

setters! {
    TasksCapability {
        /// Declares `tasks/list`.
        with_list = empty list;
        /// Declares `tasks/cancel`.
        with_cancel = empty cancel;
    }
}
