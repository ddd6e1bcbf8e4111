//! Capabilities of servers.

use serde::{Deserialize, Serialize};

use super::TasksCapability;
use crate::JsonObject;

/// The capabilities of a server.
///
/// ```
/// use mcp_protocol::{ResourcesCapability, ServerCapabilities, ToolsCapability};
///
/// let capabilities = ServerCapabilities::new()
///     .with_tools(ToolsCapability::new())
///     .with_resources(ResourcesCapability::new().with_subscribe(true).with_list_changed(true));
/// let json = serde_json::to_string(&capabilities)?;
/// assert_eq!(json, r#"{"resources":{"subscribe":true,"listChanged":true},"tools":{}}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// Capabilities outside the protocol, by their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experimental: Option<JsonObject>,
    /// The server sends log messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<JsonObject>,
    /// It completes arguments (2025-03-26; 2024-11-05 has the method without the capability).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<JsonObject>,
    /// The server has prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<PromptsCapability>,
    /// The server has resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesCapability>,
    /// The server has tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsCapability>,
    /// It can run requests of the client as tasks (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TasksCapability>,
    /// Extensions of the protocol, by their identifiers (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<JsonObject>,
    /// Members that are unknown to this library. They are kept.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl ServerCapabilities {
    /// Returns an empty set of capabilities.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the server declares an extension.
    #[must_use]
    pub fn supports_extension(&self, identifier: &str) -> bool {
        self.extensions.as_ref().and_then(|e| e.get(identifier)).is_some_and(|value| !value.is_null())
    }

    /// Adds an extension.
    #[must_use]
    pub fn with_extension(mut self, identifier: impl Into<String>, settings: impl Into<JsonObject>) -> Self {
        self.extensions.get_or_insert_default().insert(identifier.into(), settings.into().into());
        self
    }
}

setters! {
    ServerCapabilities {
        /// Sets capabilities outside of the protocol, by their names.
        with_experimental = into experimental: JsonObject;
        /// Declares log messages.
        with_logging = empty logging;
        /// Declares completions (2025-03-26).
        with_completions = empty completions;
        /// Declares prompts.
        with_prompts = some prompts: PromptsCapability;
        /// Declares resources.
        with_resources = some resources: ResourcesCapability;
        /// Declares tools.
        with_tools = some tools: ToolsCapability;
        /// Declares requests of the client that the server can run as tasks (2025-11-25 only).
        with_tasks = some tasks: TasksCapability;
    }
}

/// The server has prompts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PromptsCapability {
    /// Whether the server sends a notification when the list changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members that are unknown to this library.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl PromptsCapability {
    /// Prompts without notices of change.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters! {
    PromptsCapability {
        /// Sets whether the server sends a notification when the list changes.
        with_list_changed = flag list_changed;
    }
}

/// The server has resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourcesCapability {
    /// Whether clients can subscribe to changes of a resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscribe: Option<bool>,
    /// Whether the server sends a notification when the list changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members that are unknown to this library.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl ResourcesCapability {
    /// Resources without notices of change.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters! {
    ResourcesCapability {
        /// Sets whether clients can subscribe to changes of a resource.
        with_subscribe = flag subscribe;
        /// Sets whether the server sends a notification when the list changes.
        with_list_changed = flag list_changed;
    }
}

/// The server has tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolsCapability {
    /// Whether the server sends a notification when the list changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Members that are unknown to this library.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl ToolsCapability {
    /// Tools without notices of change.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters! {
    ToolsCapability {
        /// Sets whether the server sends a notification when the list changes.
        with_list_changed = flag list_changed;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_members_survive() {
        let json = json!({
            "logging": {}, "completions": {"a": 1}, "prompts": {"listChanged": true}, "tools": {"later": 1},
            "resources": {"subscribe": false, "listChanged": true}, "tasks": {"requests": {"tools": {"call": {}}}},
            "extensions": {"com.example/a": {}}, "experimental": {"c": {}}, "later": null
        });
        let capabilities: ServerCapabilities = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&capabilities).unwrap(), json);
        assert!(capabilities.supports_extension("com.example/a"));
        let tasks = capabilities.tasks.unwrap();
        assert!(tasks.supports_request("tools", "call"));
        assert!(!tasks.supports_request("tools", "list"));
        assert_eq!(tasks, TasksCapability::new().with_request("tools", "call"));
    }
}
