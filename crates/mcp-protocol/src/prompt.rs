//! Prompts: definitions, messages, and the parameters and results of `prompts/*` (server, prompts).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ContentBlock, Icon, JsonObject, Meta, Role, json};

/// A prompt that a server offers.
///
/// ```
/// use mcp_protocol::{Prompt, PromptArgument};
///
/// let prompt = Prompt::new("review")
///     .with_description("Reviews a change.")
///     .with_argument(PromptArgument::new("diff").with_description("The change as a diff.").required());
/// assert_eq!(prompt.arguments[0].required, Some(true));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Prompt {
    /// The name for programs, unique in its server.
    pub name: String,
    /// The name for people (2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The purpose of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The arguments of the prompt.
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument>,
    /// Icons to show beside it (2025-11-25).
    #[serde(default, deserialize_with = "json::null_default", skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// Metadata of the prompt.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// Members that are unknown to this library. They are kept.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl Prompt {
    /// Returns a prompt without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

setters! {
    Prompt {
        /// Sets the name for people (2025-06-18).
        with_title = text title;
        /// Sets the description.
        with_description = text description;
        /// Adds an argument.
        with_argument = push arguments: PromptArgument;
        /// Adds an icon (2025-11-25).
        with_icon = push icons: Icon;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// One argument of a prompt; its value is a string.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PromptArgument {
    /// The name for programs.
    pub name: String,
    /// The name for people (2025-06-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A description of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it must be given; not, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

impl PromptArgument {
    /// Returns an optional argument.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Marks the argument as required.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = Some(true);
        self
    }
}

setters! {
    PromptArgument {
        /// Sets the name for people (2025-06-18).
        with_title = text title;
        /// Sets the description.
        with_description = text description;
    }
}

/// One message of a filled-in prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PromptMessage {
    /// The role of the author.
    pub role: Role,
    /// The content of the message.
    pub content: ContentBlock,
}

impl PromptMessage {
    /// Returns a message of a role.
    pub fn new(role: Role, content: impl Into<ContentBlock>) -> Self {
        Self { role, content: content.into() }
    }

    /// Returns a message of the user.
    pub fn user(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::User, content)
    }

    /// Returns a message of the model.
    pub fn assistant(content: impl Into<ContentBlock>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

/// Parameters of `prompts/get`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GetPromptParams {
    /// The prompt.
    pub name: String,
    /// The values to fill in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<BTreeMap<String, String>>,
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

impl GetPromptParams {
    /// Returns a request for a prompt without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn with_argument(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.arguments.get_or_insert_default().insert(name.into(), value.into());
        self
    }
}

setters! {
    GetPromptParams {
        /// Sets the answers to the input requests of an earlier result, by their keys (2026-07-28).
        with_input_responses = into input_responses: JsonObject;
        /// Sets the request state of that result, unchanged (2026-07-28).
        with_request_state = text request_state;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

/// The result of `prompts/get`.
///
/// ```
/// use mcp_protocol::{GetPromptResult, PromptMessage};
///
/// let result = GetPromptResult::new(vec![PromptMessage::user("Review this change.")]);
/// assert_eq!(result.messages[0].content.as_text(), Some("Review this change."));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GetPromptResult {
    /// The purpose of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The messages, filled in.
    pub messages: Vec<PromptMessage>,
    /// Metadata of the result.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl GetPromptResult {
    /// Returns a result with these messages.
    #[must_use]
    pub fn new(messages: Vec<PromptMessage>) -> Self {
        Self { messages, ..Self::default() }
    }
}

setters! {
    GetPromptResult {
        /// Sets the description.
        with_description = text description;
        /// Sets the metadata.
        with_meta = some meta: Meta;
    }
}

list_result! {
    /// The result of `prompts/list`: one page.
    ListPromptsResult {
        /// The prompts of this page.
        prompts: Prompt
    }
}
