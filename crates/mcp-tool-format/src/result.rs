//! Results of tools as messages.

use mcp_protocol::CallToolResult;
use serde_json::{Map, Value, json};

use crate::{
    Call, ContentOptions, MediaRules, Messages, Provider, Rendered, block,
    content::{Part, Reader, limit},
    diagnostic::Log,
    history::{call_ids, gemini_id},
    media::{Media, MediaCount},
};

impl Rendered {
    /// Returns the messages with the results of all calls of one turn, in the order of the calls.
    ///
    /// - Text, images and documents are content of the result. A provider whose results contain text only has a message of
    ///   the user with the media after the results.
    /// - The contents of a text resource are text below its URI. A resource link is one line of text.
    /// - Structured content is a part of the result if the content is empty, or with
    ///   [`ContentOptions::always_structured`].
    /// - A failed result has the flag of the provider, or begins with `Error: `.
    /// - Content that the provider does not accept is a note for the model and a diagnostic. Media are never text.
    /// - The results of a turn have at most [`MediaRules::max_images`] images and [`MediaRules::max_documents`] documents and sounds.
    /// - The text of a result has at most 100,000 bytes. The rest is in [`Messages::rest`].
    ///
    /// ```
    /// use mcp_protocol::{CallToolResult, JsonObject};
    /// use mcp_tool_format::{Call, ContentOptions, Options, Provider, render};
    /// use serde_json::json;
    ///
    /// let rendered = render([], &Options::new(Provider::OpenAiChat));
    /// let call = Call::new("call_1", "weather", JsonObject::new());
    /// let result = CallToolResult::error("the city is unknown");
    /// let messages = rendered.result_messages([(&call, &result)], &ContentOptions::new());
    /// assert_eq!(
    ///     messages.messages,
    ///     [json!({ "role": "tool", "tool_call_id": "call_1", "content": "Error: the city is unknown" })],
    /// );
    /// ```
    #[must_use]
    pub fn result_messages<'a>(
        &self,
        results: impl IntoIterator<Item = (&'a Call, &'a CallToolResult)>,
        options: &ContentOptions,
    ) -> Messages {
        let provider = self.provider;
        let results: Vec<(&Call, &CallToolResult)> = results.into_iter().collect();
        let ids = call_ids(provider, results.iter().map(|(call, _)| *call));
        let nested = MediaRules::of(provider).in_results || (provider == Provider::Gemini && options.media_in_results);
        let mut out = Messages::default();
        let (mut blocks, mut media, mut count) = (Vec::new(), Vec::new(), MediaCount::default());
        for ((call, result), id) in results.into_iter().zip(ids) {
            let name = self.history_name(call);
            let mut log = Log::default();
            let mut parts = read(Reader::new(provider, &id, options, &mut log, &mut count), result, options);
            out.rest.extend(limit(&mut parts, options, "/content", &mut log));
            log.finish(&call.name, &mut out.diagnostics);
            if !nested {
                let mark = match provider {
                    Provider::Gemini | Provider::Ollama => format!("result {}", blocks.len() + 1),
                    _ => id.clone(),
                };
                move_media(&mut parts, &mut media, &format!("the result of {name} ({mark})"));
            }
            blocks.push(result_block(provider, call, &name, &id, result.is_error, parts));
        }
        if blocks.is_empty() {
            return out;
        }
        match provider {
            Provider::Anthropic | Provider::Bedrock => {
                out.messages.push(json!({ "role": "user", "content": blocks }));
            }
            Provider::Gemini => out.messages.push(json!({ "role": "user", "parts": blocks })),
            _ => out.messages = blocks,
        }
        if !media.is_empty() {
            if provider == Provider::Mistral {
                // "Unexpected role 'user' after role 'tool'" (goose#5998, datapizza-ai#98).
                out.messages.push(json!({ "role": "assistant", "content": "The media of the results follow." }));
            }
            out.messages.push(block::user(provider, &media));
        }
        out
    }
}

/// Returns the parts of a result. The list is never empty.
fn read(mut reader: Reader<'_>, result: &CallToolResult, options: &ContentOptions) -> Vec<Part> {
    for (index, block) in result.content.iter().enumerate() {
        reader.block(block, &format!("/content/{index}"));
    }
    if let Some(value) = &result.structured_content
        && (options.structured || !reader.useful)
    {
        reader.parts.push(Part::Json(value.clone()));
    }
    if reader.parts.is_empty() {
        let text = if result.is_error { "the tool failed without a message" } else { "The result is empty." };
        reader.parts.push(Part::Text(text.to_owned()));
    }
    reader.parts
}

/// Moves the media of a result into the message after the results. A text stays in the place of each.
fn move_media(parts: &mut [Part], out: &mut Vec<Part>, origin: &str) {
    let mut count = 0;
    for part in parts {
        let Part::Media(Media { kind, .. }) = part else { continue };
        count += 1;
        let noun = kind.noun();
        let text = Part::Text(format!("[The {noun} {count} of this result is in the next message of the user.]"));
        out.push(Part::Text(format!("The {noun} {count} of {origin}:")));
        out.push(std::mem::replace(part, text));
    }
}

fn result_block(provider: Provider, call: &Call, name: &str, id: &str, failed: bool, mut parts: Vec<Part>) -> Value {
    let has_media = parts.iter().any(|part| matches!(part, Part::Media(_)));
    if failed && !matches!(provider, Provider::Anthropic | Provider::Bedrock | Provider::Gemini) {
        match parts.first_mut() {
            Some(Part::Text(text)) if text.starts_with("Error") => {}
            Some(Part::Text(text)) => text.insert_str(0, "Error: "),
            _ => parts.insert(0, Part::Text("Error:".to_owned())),
        }
    }
    match provider {
        Provider::Anthropic => {
            let content = block::blocks(provider, &parts);
            let mut result = json!({ "type": "tool_result", "tool_use_id": id, "content": content });
            if failed {
                result["is_error"] = true.into();
            }
            result
        }
        Provider::OpenAiResponses => {
            let output: Value =
                if has_media { block::blocks(provider, &parts).into() } else { block::joined(&parts).into() };
            json!({ "type": "function_call_output", "call_id": id, "output": output })
        }
        Provider::OpenAiChat => json!({ "role": "tool", "tool_call_id": id, "content": block::joined(&parts) }),
        Provider::Mistral => {
            json!({ "role": "tool", "tool_call_id": id, "name": name, "content": block::joined(&parts) })
        }
        Provider::Ollama => json!({ "role": "tool", "tool_name": name, "content": block::joined(&parts) }),
        Provider::Gemini => json!({ "functionResponse": gemini(call, name, failed, parts) }),
        Provider::Bedrock => {
            let content: Vec<Value> = parts
                .iter()
                .map(|part| match part {
                    // Nova accepts an object here only.
                    Part::Json(value) if value.is_object() => json!({ "json": value }),
                    Part::Media(media) => block::media(provider, media),
                    Part::Text(text) => block::text(provider, text),
                    Part::Json(value) => block::text(provider, &value.to_string()),
                })
                .collect();
            let status = if failed { "error" } else { "success" };
            json!({ "toolResult": { "toolUseId": id, "content": content, "status": status } })
        }
    }
}

fn gemini(call: &Call, name: &str, failed: bool, mut parts: Vec<Part>) -> Value {
    let mut response = Map::new();
    if let Some(id) = gemini_id(call) {
        response.insert("id".to_owned(), id.into());
    }
    response.insert("name".to_owned(), name.into());
    let media: Vec<Part> = parts.extract_if(.., |part| matches!(part, Part::Media(_))).collect();
    let value = match parts.as_mut_slice() {
        [Part::Json(value)] => value.take(),
        parts => block::joined(parts).into(),
    };
    let key = if failed { "error" } else { "output" };
    response.insert("response".to_owned(), Value::Object(Map::from_iter([(key.to_owned(), value)])));
    if !media.is_empty() {
        response.insert("parts".to_owned(), block::blocks(Provider::Gemini, &media).into());
    }
    response.into()
}
