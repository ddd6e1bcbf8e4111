//! The text in the response of a model.

use mcp_tool_format::Provider;
use serde_json::Value;

/// Returns the text of a response. `Call::parse_all` returns its calls.
pub(crate) fn text(provider: Provider, response: &Value) -> String {
    let content = match provider {
        Provider::Anthropic => response.get("content"),
        Provider::OpenAiResponses => response.get("output"),
        Provider::Gemini => response.pointer("/candidates/0/content/parts"),
        Provider::Bedrock => response.pointer("/output/message/content"),
        Provider::Ollama => response.pointer("/message/content"),
        _ => response.pointer("/choices/0/message/content"),
    };
    content.map_or_else(String::new, |content| texts(content).join("\n"))
}

/// Returns a text, or the texts of a list of blocks.
fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => blocks.iter().flat_map(texts).collect(),
        Value::Object(block) => ["text", "content"].iter().filter_map(|key| block.get(*key)).flat_map(texts).collect(),
        _ => Vec::new(),
    }
}
