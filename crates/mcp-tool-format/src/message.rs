//! Prompts and resources as messages.

use mcp_protocol::{GetPromptResult, ReadResourceResult, Role};
use serde_json::Value;

use crate::{
    ContentOptions, Diagnostic, Provider, Rest, block,
    content::{Part, Reader, limit},
    diagnostic::Log,
    media::MediaCount,
};

/// Messages for a request.
///
/// ```
/// use mcp_protocol::{GetPromptResult, PromptMessage};
/// use mcp_tool_format::{ContentOptions, Messages, Provider};
/// use serde_json::json;
///
/// let prompt = GetPromptResult::new(vec![PromptMessage::user("Review this change."), PromptMessage::assistant("Which one?")]);
/// let messages = Messages::from_prompt(Provider::Gemini, &prompt, &ContentOptions::new());
/// assert_eq!(
///     messages.messages,
///     [
///         json!({ "role": "user", "parts": [{ "text": "Review this change." }] }),
///         json!({ "role": "model", "parts": [{ "text": "Which one?" }] }),
///     ],
/// );
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Messages {
    /// The messages in the shape of the provider; for OpenAI Responses items of `input`, for Gemini `contents`.
    pub messages: Vec<Value>,
    /// The content that is not part of the messages. The pointers are those of the result of the server.
    pub diagnostics: Vec<Diagnostic>,
    /// The texts beyond the limit, in the order of the results.
    pub rest: Vec<Rest>,
}

impl Messages {
    /// Returns the messages of a prompt.
    ///
    /// Successive messages of a role become one message, because some providers require alternating roles. Media in a
    /// message of the model move to a message of the user after it: messages of the model contain text only.
    #[must_use]
    pub fn from_prompt(provider: Provider, prompt: &GetPromptResult, options: &ContentOptions) -> Self {
        let mut out = Self::default();
        let mut turns: Vec<(Role, Vec<Part>)> = Vec::new();
        let (mut log, mut count) = (Log::default(), MediaCount::default());
        for (index, message) in prompt.messages.iter().enumerate() {
            let pointer = format!("/messages/{index}/content");
            let mut reader = Reader::new(provider, "", options, &mut log, &mut count);
            reader.block(&message.content, &pointer);
            let mut parts = reader.parts;
            out.rest.extend(limit(&mut parts, options, &pointer, &mut log));
            let mut moved = Vec::new();
            if message.role == Role::Assistant {
                for part in &mut parts {
                    if let Part::Media(media) = part {
                        let noun = media.kind.noun();
                        let text = Part::Text(format!("[The {noun} is in the next message of the user.]"));
                        moved.push(Part::Text(format!("The {noun} of the message above:")));
                        moved.push(std::mem::replace(part, text));
                    }
                }
            }
            add(&mut turns, message.role, parts);
            add(&mut turns, Role::User, moved);
        }
        log.finish("", &mut out.diagnostics);
        out.messages = turns
            .iter()
            .map(|(role, parts)| match role {
                Role::Assistant => block::assistant(provider, parts),
                _ => block::user(provider, parts),
            })
            .collect();
        out
    }

    /// Returns the contents of a resource as a message of the user. The list is empty if the resource has no content.
    ///
    /// ```
    /// use mcp_protocol::{ReadResourceResult, ResourceContents};
    /// use mcp_tool_format::{ContentOptions, Messages, Provider};
    /// use serde_json::json;
    ///
    /// let read = ReadResourceResult::new(vec![ResourceContents::text("file:///a.txt", "hello")]);
    /// let messages = Messages::from_resource(Provider::OpenAiChat, &read, &ContentOptions::new());
    /// assert_eq!(messages.messages, [json!({ "role": "user", "content": "Resource file:///a.txt:\nhello" })]);
    /// ```
    #[must_use]
    pub fn from_resource(provider: Provider, read: &ReadResourceResult, options: &ContentOptions) -> Self {
        let mut out = Self::default();
        let (mut log, mut count) = (Log::default(), MediaCount::default());
        let mut reader = Reader::new(provider, "", options, &mut log, &mut count);
        for (index, contents) in read.contents.iter().enumerate() {
            reader.resource(contents, &format!("/contents/{index}"));
        }
        let mut parts = reader.parts;
        out.rest.extend(limit(&mut parts, options, "/contents", &mut log));
        log.finish("", &mut out.diagnostics);
        if !parts.is_empty() {
            out.messages.push(block::user(provider, &parts));
        }
        out
    }
}

/// Adds parts to the last message of the role, or a new message.
fn add(turns: &mut Vec<(Role, Vec<Part>)>, role: Role, parts: Vec<Part>) {
    match turns.last_mut() {
        _ if parts.is_empty() => {}
        Some((last, known)) if *last == role => known.extend(parts),
        _ => turns.push((role, parts)),
    }
}
