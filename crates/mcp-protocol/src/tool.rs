//! Tools: definitions, and the parameters and results of `tools/*` (server, tools).

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ContentBlock, Icon, JsonObject, MemberFinder, Meta, json, jsonrpc::each_member, tasks::TaskMetadata};

/// A tool that a server offers.
///
/// ```
/// use mcp_protocol::{JsonObject, Tool, ToolAnnotations};
/// use serde_json::json;
///
/// let schema = JsonObject::from_value(json!({ "type": "object", "properties": { "city": { "type": "string" } } }));
/// let tool = Tool::new("get_weather", schema.unwrap_or_default())
///     .with_title("Weather")
///     .with_description("Returns the current weather of a city.")
///     .with_annotations(ToolAnnotations::new().with_read_only_hint(true));
/// assert_eq!(tool.display_name(), "Weather");
/// assert!(Tool::is_valid_name(&tool.name));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Tool {
    /// The name for programs and models, unique in its server; see [`Tool::is_valid_name`].
    pub name: String,
    /// The name for people (2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description of the tool for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments, with `"type": "object"` at the root.
    pub input_schema: JsonObject,
    /// The JSON Schema of its structured content (2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints about the behaviour of the tool (2025-03-26). Clients must not rely on the hints of an untrusted server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Icons to show beside it (2025-11-25).
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// How it is run (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ToolExecution>,
    /// Metadata of the tool.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// Members that are unknown to this library. They are kept.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl Tool {
    /// The longest name, in bytes.
    pub const MAX_NAME_LEN: usize = 128;

    /// Returns a tool with a name and a schema of its arguments.
    pub fn new(name: impl Into<String>, input_schema: impl Into<JsonObject>) -> Self {
        Self { name: name.into(), input_schema: input_schema.into(), ..Self::default() }
    }

    /// Whether a name is 1 to 128 of `A-Z a-z 0-9 _ - .` (2025-11-25, tools, §Tool Names).
    #[must_use]
    pub fn is_valid_name(name: &str) -> bool {
        (1..=Self::MAX_NAME_LEN).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
    }

    /// Returns the display name: the title, the title of the annotations, or the name.
    #[must_use]
    pub fn display_name(&self) -> &str {
        let annotated = || self.annotations.as_ref().and_then(|a| a.title.as_deref());
        self.title.as_deref().or_else(annotated).unwrap_or(&self.name)
    }
}

setters! {
    Tool {
        /// Sets the name for people (2025-06-18).
        with_title = text title;
        /// Sets the description.
        with_description = text description;
        /// Sets the JSON Schema of the structured content (2025-06-18).
        with_output_schema = into output_schema: Value;
        /// Sets hints about the behaviour of the tool (2025-03-26).
        with_annotations = some annotations: ToolAnnotations;
        /// Adds an icon (2025-11-25).
        with_icon = push icons: Icon;
        /// Sets how the tool is run (2025-11-25 only).
        with_execution = some execution: ToolExecution;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// Hints about what a tool does. An absent hint has the default that its field names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// The name for people. [`Tool::title`] takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something, when it changes things at all. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it again with the same arguments changes nothing more. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It reaches beyond a closed world. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl ToolAnnotations {
    /// Returns annotations without hints.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters! {
    ToolAnnotations {
        /// Sets the name for people. [`Tool::title`] takes precedence.
        with_title = text title;
        /// Sets whether the tool leaves its environment unchanged.
        with_read_only_hint = flag read_only_hint;
        /// Sets whether the tool may destroy data.
        with_destructive_hint = flag destructive_hint;
        /// Sets whether repeated calls with the same arguments have no further effect.
        with_idempotent_hint = flag idempotent_hint;
        /// Sets whether the tool interacts with external systems.
        with_open_world_hint = flag open_world_hint;
    }
}

/// How a tool is run (2025-11-25 only).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolExecution {
    /// Whether it may, must or must not run as a task.
    #[serde(default, deserialize_with = "json::known", skip_serializing_if = "Option::is_none")]
    pub task_support: Option<TaskSupport>,
}

impl ToolExecution {
    /// Returns an execution with this task support.
    #[must_use]
    pub fn new(task_support: TaskSupport) -> Self {
        Self { task_support: Some(task_support) }
    }
}

/// Whether a tool may, must or must not run as a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TaskSupport {
    /// It never runs as a task.
    #[default]
    Forbidden,
    /// It runs as a task on request.
    Optional,
    /// It runs as a task only.
    Required,
}

/// Parameters of `tools/call`.
///
/// ```
/// use mcp_protocol::{CallToolParams, JsonObject};
///
/// let params = CallToolParams::new("add").with_arguments(JsonObject::new().with("a", 1).with("b", 2));
/// assert_eq!(serde_json::to_string(&params)?, r#"{"name":"add","arguments":{"a":1,"b":2}}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolParams {
    /// The tool.
    pub name: String,
    /// Its arguments; absent and empty are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonObject>,
    /// Requests a task (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskMetadata>,
    /// The answers to the input requests of an earlier result, by their keys (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<JsonObject>,
    /// The request state of that result, unchanged (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CallToolParams {
    /// Returns a call without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

setters! {
    CallToolParams {
        /// Sets the arguments.
        with_arguments = into arguments: JsonObject;
        /// Requests a task (2025-11-25 only).
        with_task = some task: TaskMetadata;
        /// Sets the answers to the input requests of an earlier result, by their keys (2026-07-28).
        with_input_responses = into input_responses: JsonObject;
        /// Sets the request state of that result, unchanged (2026-07-28).
        with_request_state = text request_state;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The result of `tools/call`.
///
/// ```
/// use mcp_protocol::CallToolResult;
/// use serde_json::json;
///
/// let sum = CallToolResult::structured(json!({ "sum": 3 }));
/// assert_eq!(sum.content[0].as_text(), Some(r#"{"sum":3}"#));
/// let failure = CallToolResult::error("the city is unknown");
/// assert!(failure.is_error);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolResult {
    /// The content for the model.
    #[serde(default, deserialize_with = "json::null_default")]
    pub content: Vec<ContentBlock>,
    /// The result as data (2025-06-18; an object until 2026-07-28, then any value). `Some(Value::Null)` is the value
    /// `null`, `None` is no structured content.
    #[serde(default, deserialize_with = "json::present", skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// Whether the tool failed. The content then describes the error for the model. Omitted when false.
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "json::is_false")]
    pub is_error: bool,
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CallToolResult {
    /// Whether a raw result is that of a failed tool: a member `isError` is `true`. A result without this text is not parsed.
    ///
    /// ```
    /// use mcp_protocol::CallToolResult;
    ///
    /// assert!(CallToolResult::is_failed(br#"{"content":[],"isError":true}"#));
    /// assert!(!CallToolResult::is_failed(br#"{"content":[],"structuredContent":{"isError":true}}"#));
    /// ```
    #[must_use]
    pub fn is_failed(result: &[u8]) -> bool {
        static MEMBER: LazyLock<MemberFinder> = LazyLock::new(|| MemberFinder::new("isError"));
        if !MEMBER.may_have_literal(result, "true") {
            return false;
        }
        let Ok(json) = std::str::from_utf8(result) else { return false };
        let mut is_failed = false;
        // Readers use the first or the last of two members, so each one counts. The members before an invalid text count too.
        let _ = each_member(json, |name, value| is_failed |= name == "isError" && value.get() == "true");
        is_failed
    }

    /// Returns a result with this content.
    #[must_use]
    pub fn new(content: Vec<ContentBlock>) -> Self {
        Self { content, ..Self::default() }
    }

    /// Returns a result of one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![ContentBlock::text(text)])
    }

    /// Returns a failure, with a text for the model.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Returns a result as data, with the same as JSON text for clients that read text only (tools, §Structured
    /// Content).
    pub fn structured(value: impl Into<Value>) -> Self {
        let value = value.into();
        Self { structured_content: Some(value.clone()), ..Self::text(value.to_string()) }
    }
}

setters! {
    CallToolResult {
        /// Sets the result as data (2025-06-18).
        with_structured_content = into structured_content: Value;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

list_result! {
    /// The result of `tools/list`: one page.
    ListToolsResult {
        /// The tools of this page.
        tools: Tool
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_follow_the_rule_of_the_specification() {
        let long = "a".repeat(128);
        for good in ["a", "get_weather", "a.b-C_9", &long] {
            assert!(Tool::is_valid_name(good), "{good}");
        }
        let longer = "a".repeat(129);
        for bad in ["", "a b", "a/b", "a:b", "é", "a\n", &longer] {
            assert!(!Tool::is_valid_name(bad), "{bad}");
        }
    }

    #[test]
    fn unknown_members_of_a_tool_survive() {
        let json = json!({
            "name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"},
            "annotations": {"readOnlyHint": true}, "execution": {"taskSupport": "optional"},
            "icons": [{"src": "data:,", "sizes": ["any"], "theme": "dark"}], "_meta": {"a/b": 1}, "later": {"x": null}
        });
        let tool: Tool = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(tool.extra.len(), 1);
        assert_eq!(serde_json::to_value(&tool).unwrap(), json);
    }

    #[test]
    fn null_and_unknown_values_in_a_definition_are_absent() {
        let json = json!({
            "name": "t", "title": null, "inputSchema": {}, "icons": null, "annotations": {"title": null},
            "execution": {"taskSupport": "sometimes"}, "outputSchema": null
        });
        let tool: Tool = serde_json::from_value(json).unwrap();
        let expected = json!({"name": "t", "inputSchema": {}, "annotations": {}, "execution": {}});
        assert_eq!(serde_json::to_value(&tool).unwrap(), expected);
    }

    #[test]
    fn structured_null_differs_from_no_structured_content() {
        for (json, expected) in [
            (json!({"content": []}), None),
            (json!({"content": [], "structuredContent": null}), Some(Value::Null)),
            (json!({"content": [], "structuredContent": [1]}), Some(json!([1]))),
        ] {
            let result: CallToolResult = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(result.structured_content, expected);
            assert_eq!(serde_json::to_value(&result).unwrap(), json);
        }
    }

    #[test]
    fn only_failures_have_is_error() {
        assert_eq!(
            serde_json::to_value(CallToolResult::error("no")).unwrap(),
            json!({"content": [{"type": "text", "text": "no"}], "isError": true})
        );
        let read: CallToolResult = serde_json::from_value(json!({"content": [], "isError": null})).unwrap();
        assert_eq!(read, CallToolResult::default());
        assert_eq!(
            serde_json::to_value(CallToolResult::structured(json!({"a": 1}))).unwrap(),
            json!({"content": [{"type": "text", "text": "{\"a\":1}"}], "structuredContent": {"a": 1}})
        );
    }

    #[test]
    fn the_display_name_prefers_the_title() {
        let mut tool = Tool::new("t", JsonObject::new());
        assert_eq!(tool.display_name(), "t");
        tool.annotations = Some(ToolAnnotations::new().with_title("annotated"));
        assert_eq!(tool.display_name(), "annotated");
        assert_eq!(tool.with_title("titled").display_name(), "titled");
    }
}
