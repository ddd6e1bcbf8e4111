//! Sampling: a server uses the model of the client (client, sampling; deprecated since 2026-07-28).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::{
    AudioContent, ContentBlock, ImageContent, JsonObject, Meta, Role, TextContent, Tool, json, tasks::TaskMetadata,
};

/// Parameters of `sampling/createMessage`.
///
/// ```
/// use mcp_protocol::{CreateMessageParams, ModelPreferences, SamplingMessage};
///
/// let params = CreateMessageParams::new(vec![SamplingMessage::user("Summarize the file.")], 500)
///     .with_system_prompt("Answer in one sentence.")
///     .with_model_preferences(ModelPreferences::new().with_cost_priority(0.8));
/// assert_eq!(params.max_tokens, 500);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageParams {
    /// The conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// The most tokens that the model may produce.
    #[serde(deserialize_with = "required_size")]
    pub max_tokens: u64,
    /// The preferred models. The client may choose another model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// The system prompt; the client may change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The context of which servers to add; the client may ignore it.
    #[serde(default, deserialize_with = "json::known", skip_serializing_if = "Option::is_none")]
    pub include_context: Option<IncludeContext>,
    /// How freely the model chooses.
    #[serde(default, serialize_with = "json::optional_number", skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Texts at which the model stops.
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Provider-specific parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<JsonObject>,
    /// Tools that the model may use, known to this request only (2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Tool>>,
    /// How the model uses the tools (2025-11-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Requests a task (2025-11-25 only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskMetadata>,
    /// Metadata of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CreateMessageParams {
    /// Returns a request for the next message, with at most `max_tokens` tokens.
    #[must_use]
    pub fn new(messages: Vec<SamplingMessage>, max_tokens: u64) -> Self {
        Self { messages, max_tokens, ..Self::default() }
    }
}

setters! {
    CreateMessageParams {
        /// Sets the preferred models.
        with_model_preferences = some model_preferences: ModelPreferences;
        /// Sets the system prompt.
        with_system_prompt = text system_prompt;
        /// Sets the context of servers to include (deprecated since 2025-11-25).
        with_include_context = some include_context: IncludeContext;
        /// Sets the sampling temperature.
        with_temperature = some temperature: f64;
        /// Sets provider-specific parameters.
        with_metadata = into metadata: JsonObject;
        /// Sets the tools that the model may use (2025-11-25).
        with_tools = some tools: Vec<Tool>;
        /// Sets how the model chooses tools (2025-11-25).
        with_tool_choice = some tool_choice: ToolChoice;
        /// Requests a task (2025-11-25 only).
        with_task = some task: TaskMetadata;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingMessage {
    /// The role of the author.
    pub role: Role,
    /// The content of the message.
    pub content: SamplingContent,
    /// Metadata of the message.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl SamplingMessage {
    /// Returns a message of a role.
    pub fn new(role: Role, content: impl Into<SamplingContent>) -> Self {
        Self { role, content: content.into(), meta: None }
    }

    /// Returns a message of the user.
    pub fn user(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::User, content)
    }

    /// Returns a message of the model.
    pub fn assistant(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

setters! {
    SamplingMessage {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The content of a message: one block or more. One block is written as itself, which every revision reads; several as
/// an array (2025-11-25).
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "content is its blocks and nothing else")]
pub struct SamplingContent(pub Vec<SamplingBlock>);

impl SamplingContent {
    /// Returns the text of all text blocks, one after the other.
    #[must_use]
    pub fn text(&self) -> String {
        self.0
            .iter()
            .filter_map(|block| match block {
                SamplingBlock::Text(text) => Some(text.text.as_str()),
                _ => None,
            })
            .collect()
    }
}

impl From<SamplingBlock> for SamplingContent {
    fn from(block: SamplingBlock) -> Self {
        Self(vec![block])
    }
}

impl From<Vec<SamplingBlock>> for SamplingContent {
    fn from(blocks: Vec<SamplingBlock>) -> Self {
        Self(blocks)
    }
}

impl From<&str> for SamplingContent {
    fn from(text: &str) -> Self {
        SamplingBlock::text(text).into()
    }
}

impl From<String> for SamplingContent {
    fn from(text: String) -> Self {
        SamplingBlock::text(text).into()
    }
}

impl Serialize for SamplingContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [block] => block.serialize(serializer),
            blocks => blocks.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SamplingContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            blocks @ Value::Array(_) => Vec::deserialize(blocks).map(Self),
            block => SamplingBlock::deserialize(block).map(Self::from),
        }
        .map_err(de::Error::custom)
    }
}

/// A block of a message. Its `type` selects the variant.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SamplingBlock {
    /// Text.
    Text(TextContent),
    /// An image.
    Image(ImageContent),
    /// Sound (2025-03-26).
    Audio(AudioContent),
    /// The model uses a tool (2025-11-25).
    ToolUse(ToolUseContent),
    /// The result of a tool (2025-11-25).
    ToolResult(ToolResultContent),
    /// A block of a type that this library does not know, with all its members.
    Unknown(JsonObject),
}

impl SamplingBlock {
    /// Returns a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }
}

impl Serialize for SamplingBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        enum Known<'a> {
            Text(&'a TextContent),
            Image(&'a ImageContent),
            Audio(&'a AudioContent),
            ToolUse(&'a ToolUseContent),
            ToolResult(&'a ToolResultContent),
        }
        match self {
            Self::Text(block) => Known::Text(block),
            Self::Image(block) => Known::Image(block),
            Self::Audio(block) => Known::Audio(block),
            Self::ToolUse(block) => Known::ToolUse(block),
            Self::ToolResult(block) => Known::ToolResult(block),
            Self::Unknown(members) => return members.serialize(serializer),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SamplingBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = JsonObject::deserialize(deserializer)?;
        match members.get("type").and_then(Value::as_str) {
            Some("tool_use") => ToolUseContent::deserialize(Value::from(members))
                .map(Self::ToolUse)
                .map_err(|error| de::Error::custom(format_args!("tool_use content: {error}"))),
            Some("tool_result") => ToolResultContent::deserialize(Value::from(members))
                .map(Self::ToolResult)
                .map_err(|error| de::Error::custom(format_args!("tool_result content: {error}"))),
            Some("resource" | "resource_link") => Ok(Self::Unknown(members)),
            _ => Ok(match ContentBlock::from_members(members)? {
                ContentBlock::Text(block) => Self::Text(block),
                ContentBlock::Image(block) => Self::Image(block),
                ContentBlock::Audio(block) => Self::Audio(block),
                ContentBlock::Unknown(members) => Self::Unknown(members),
                ContentBlock::ResourceLink(_) | ContentBlock::Resource(_) => {
                    return Err(de::Error::custom("a resource is not content of a sampling message"));
                }
            }),
        }
    }
}

/// The model uses a tool (2025-11-25).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolUseContent {
    /// The name of this use, which the result repeats.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub input: JsonObject,
    /// Metadata of the block.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ToolUseContent {
    /// Returns a use of a tool.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: JsonObject) -> Self {
        Self { id: id.into(), name: name.into(), input, meta: None }
    }
}

setters! {
    ToolUseContent {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The result of a tool (2025-11-25).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResultContent {
    /// The use that this answers.
    pub tool_use_id: String,
    /// The content for the model.
    #[serde(default, deserialize_with = "json::null_default")]
    pub content: Vec<ContentBlock>,
    /// The result as data; `Some(Value::Null)` is the value `null`.
    #[serde(default, deserialize_with = "json::present", skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// Whether the tool failed.
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "json::is_false")]
    pub is_error: bool,
    /// Metadata of the block.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl ToolResultContent {
    /// Returns the result of a tool use.
    pub fn new(tool_use_id: impl Into<String>, content: Vec<ContentBlock>) -> Self {
        Self { tool_use_id: tool_use_id.into(), content, ..Self::default() }
    }
}

setters! {
    ToolResultContent {
        /// Sets the result as data.
        with_structured_content = into structured_content: Value;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The server's preferences for a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Names, the best first; a part of a name is enough.
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<ModelHint>,
    /// How much the price matters, from 0 to 1.
    #[serde(default, serialize_with = "json::optional_number", skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// How much the speed matters, from 0 to 1.
    #[serde(default, serialize_with = "json::optional_number", skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// How much the ability matters, from 0 to 1.
    #[serde(default, serialize_with = "json::optional_number", skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

impl ModelPreferences {
    /// No preference.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters! {
    ModelPreferences {
        /// Adds a model hint. Earlier hints take precedence.
        with_hint = push hints: ModelHint;
        /// Sets the importance of low cost, from 0 to 1.
        with_cost_priority = some cost_priority: f64;
        /// Sets the importance of speed, from 0 to 1.
        with_speed_priority = some speed_priority: f64;
        /// Sets the importance of intelligence, from 0 to 1.
        with_intelligence_priority = some intelligence_priority: f64;
    }
}

/// A hint for the choice of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelHint {
    /// A part of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ModelHint {
    /// Returns a model whose name has this part.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()) }
    }
}

/// The context of which servers to add (deprecated since 2025-11-25, but for `None`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum IncludeContext {
    /// Of no server.
    None,
    /// The context of the requesting server.
    ThisServer,
    /// Of all servers.
    AllServers,
}

/// How the model uses the tools (2025-11-25).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolChoice {
    /// The mode; as [`ToolChoiceMode::Auto`] when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ToolChoiceMode>,
}

impl ToolChoice {
    /// Returns a choice of this mode.
    #[must_use]
    pub fn new(mode: ToolChoiceMode) -> Self {
        Self { mode: Some(mode) }
    }
}

/// How the model uses the tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ToolChoiceMode {
    /// The model decides.
    #[default]
    Auto,
    /// It must use at least one.
    Required,
    /// It must not use any.
    None,
}

/// The result of `sampling/createMessage`.
///
/// ```
/// use mcp_protocol::CreateMessageResult;
///
/// let result = CreateMessageResult::new("a-model", "The file lists three bugs.").with_stop_reason("endTurn");
/// assert_eq!(result.content.text(), "The file lists three bugs.");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageResult {
    /// The role of the author.
    pub role: Role,
    /// The content of the message.
    pub content: SamplingContent,
    /// The model that spoke.
    pub model: String,
    /// Why it stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or a word of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl CreateMessageResult {
    /// Returns a message of a model.
    pub fn new(model: impl Into<String>, content: impl Into<SamplingContent>) -> Self {
        Self { role: Role::Assistant, content: content.into(), model: model.into(), stop_reason: None, meta: None }
    }

    /// Sets the reason why the model stopped.
    #[must_use]
    pub fn with_stop_reason(mut self, reason: impl Into<String>) -> Self {
        self.stop_reason = Some(reason.into());
        self
    }
}

setters! {
    CreateMessageResult {
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

fn required_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    json::size(deserializer)?.ok_or_else(|| de::Error::custom("expected an integer of at least 0"))
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    #[test]
    fn writes_a_single_block_bare_and_several_as_an_array() {
        let one = SamplingMessage::user("a");
        let json = value!({"role": "user", "content": {"type": "text", "text": "a"}});
        assert_eq!(serde_json::to_value(&one).unwrap(), json);
        assert_eq!(serde_json::from_value::<SamplingMessage>(json).unwrap(), one);
        let listed = value!({"role": "user", "content": [{"type": "text", "text": "a"}]});
        assert_eq!(serde_json::from_value::<SamplingMessage>(listed).unwrap(), one);

        let json = value!({"role": "assistant", "content": [
            {"type": "text", "text": "a"},
            {"type": "tool_use", "id": "u", "name": "t", "input": {"x": 1}},
            {"type": "tool_result", "toolUseId": "u", "content": [{"type": "text", "text": "b"}],
             "structuredContent": null, "isError": true},
            {"type": "image", "data": "AAE=", "mimeType": "image/png"},
            {"type": "later", "x": [1]}
        ]});
        let many: SamplingMessage = serde_json::from_value(json.clone()).unwrap();
        assert!(matches!(many.content.0.as_slice(), [_, SamplingBlock::ToolUse(_), _, _, SamplingBlock::Unknown(_)]));
        assert_eq!(serde_json::to_value(&many).unwrap(), json);
        assert_eq!(many.content.text(), "a");
    }

    #[test]
    fn an_error_names_the_type_of_an_invalid_block() {
        for (json, expected) in [
            (value!({"type": "tool_use", "id": "u", "name": "t"}), "tool_use content: missing field `input`"),
            (value!({"type": "tool_result"}), "tool_result content: missing field `toolUseId`"),
            (value!({"type": "text"}), "text content: missing field `text`"),
            (value!("a"), "invalid type"),
        ] {
            let error = serde_json::from_value::<SamplingContent>(json).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn parameters_round_trip() {
        let json = value!({
            "messages": [], "maxTokens": 100, "includeContext": "thisServer", "temperature": 1,
            "stopSequences": ["x"], "modelPreferences": {"hints": [{"name": "m"}], "costPriority": 0.5},
            "tools": [{"name": "t", "inputSchema": {"type": "object"}}], "toolChoice": {"mode": "required"},
            "metadata": {"a": 1}, "systemPrompt": "s", "task": {"ttl": 5}
        });
        let params: CreateMessageParams = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&params).unwrap(), json);
        let lenient = value!({"messages": [], "maxTokens": 100.0, "includeContext": "everything"});
        let params: CreateMessageParams = serde_json::from_value(lenient).unwrap();
        assert_eq!((params.max_tokens, params.include_context), (100, None));
    }
}
