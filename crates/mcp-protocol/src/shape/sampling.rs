//! Sampling requests and results in the form of a revision.

use super::{
    Shape,
    content::{allows, describe_audio},
};
use crate::{
    CreateMessageParams, CreateMessageResult, ProtocolVersion, SamplingBlock, SamplingContent, SamplingMessage,
    TextContent,
};

impl Shape for CreateMessageParams {
    /// A message with several blocks becomes several messages, in revisions with one block per message.
    fn shape(&mut self, version: ProtocolVersion) {
        if !version.has_core_tasks() {
            self.task = None;
        }
        self.tools.shape(version);
        for message in &mut self.messages {
            message.content.0.shape(version);
        }
        if version.has_sampling_tools() {
            return;
        }
        self.tools = None;
        self.tool_choice = None;
        if self.messages.iter().any(|message| message.content.0.len() != 1) {
            self.messages = std::mem::take(&mut self.messages).into_iter().flat_map(split).collect();
        }
    }
}

fn split(message: SamplingMessage) -> impl Iterator<Item = SamplingMessage> {
    let SamplingMessage { role, content, meta } = message;
    content.0.into_iter().map(move |block| SamplingMessage { role, content: block.into(), meta: meta.clone() })
}

impl Shape for CreateMessageResult {
    /// Several blocks become one text, in revisions with one block per message.
    fn shape(&mut self, version: ProtocolVersion) {
        self.content.0.shape(version);
        if !version.has_sampling_tools() && self.content.0.len() != 1 {
            self.content = SamplingContent::from(self.content.text());
        }
    }
}

impl Shape for SamplingBlock {
    /// A block without a form in the revision becomes a text that describes it.
    fn shape(&mut self, version: ProtocolVersion) {
        match self {
            Self::Text(block) => block.annotations.shape(version),
            Self::Image(block) => block.annotations.shape(version),
            Self::Audio(block) => {
                block.annotations.shape(version);
                if !version.has_audio() {
                    let mut text = TextContent::new(describe_audio(&block.mime_type, &block.data));
                    text.annotations = block.annotations.take();
                    text.meta = block.meta.take();
                    *self = Self::Text(text);
                }
            }
            Self::ToolUse(block) => {
                if !version.has_sampling_tools() {
                    let input = serde_json::Value::from(block.input.clone());
                    *self = Self::text(format!("[tool use: {}] {input}", block.name));
                }
            }
            Self::ToolResult(block) => {
                block.content.shape(version);
                if block.structured_content.as_ref().is_some_and(|value| !allows(version, value)) {
                    block.structured_content = None;
                }
                if !version.has_sampling_tools() {
                    let texts: Vec<&str> = block.content.iter().filter_map(|content| content.as_text()).collect();
                    *self = Self::text(format!("[tool result] {}", texts.join("\n")));
                }
            }
            Self::Unknown(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::tests::check, *};

    #[test]
    fn sampling_requests_are_shaped() {
        let text = json!({"type": "text", "text": "a"});
        let full = json!({
            "messages": [
                {"role": "user", "content": text},
                {"role": "assistant", "content": [text, {"type": "tool_use", "id": "u", "name": "t", "input": {"x": 1}}]},
                {"role": "user", "content": {
                    "type": "tool_result", "toolUseId": "u", "content": [text], "structuredContent": [1]
                }}
            ],
            "maxTokens": 5, "tools": [{"name": "t", "inputSchema": {}}], "toolChoice": {"mode": "auto"}, "task": {}
        });
        let plain = json!({
            "messages": [
                {"role": "user", "content": text},
                {"role": "assistant", "content": text},
                {"role": "assistant", "content": {"type": "text", "text": "[tool use: t] {\"x\":1}"}},
                {"role": "user", "content": {"type": "text", "text": "[tool result] a"}}
            ],
            "maxTokens": 5
        });
        let mut fourth = full.clone();
        fourth["messages"][2]["content"].as_object_mut().unwrap().remove("structuredContent");
        let mut fifth = full.clone();
        fifth.as_object_mut().unwrap().remove("task");
        check::<CreateMessageParams>(&full, [plain.clone(), plain.clone(), plain, fourth, fifth]);
    }

    #[test]
    fn sampling_results_are_shaped() {
        let full = json!({"role": "assistant", "model": "m", "content": [
            {"type": "text", "text": "a"}, {"type": "audio", "data": "AAE=", "mimeType": "a/b"}
        ]});
        let first = json!({
            "role": "assistant", "model": "m", "content": {"type": "text", "text": "a[audio: a/b, 2 bytes]"}
        });
        let second = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "a"}});
        check::<CreateMessageResult>(&full, [first, second.clone(), second, full.clone(), full.clone()]);
    }
}
