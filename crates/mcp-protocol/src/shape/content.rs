//! Content blocks and tool results in the form of a revision.

use serde_json::Value;

use super::Shape;
use crate::{Annotations, CallToolResult, ContentBlock, ProtocolVersion, Resource, TextContent};

impl Shape for ContentBlock {
    /// A block without a form in the revision becomes a text that describes it.
    fn shape(&mut self, version: ProtocolVersion) {
        // Since blocks have icons nothing was added to them.
        if version.has_icons() {
            return;
        }
        match self {
            Self::Text(block) => block.annotations.shape(version),
            Self::Image(block) => block.annotations.shape(version),
            Self::Resource(block) => block.annotations.shape(version),
            Self::Audio(block) => {
                block.annotations.shape(version);
                if !version.has_audio() {
                    let mut text = TextContent::new(describe_audio(&block.mime_type, &block.data));
                    text.annotations = block.annotations.take();
                    text.meta = block.meta.take();
                    *self = Self::Text(text);
                }
            }
            Self::ResourceLink(resource) => {
                resource.shape(version);
                if !version.has_resource_links() {
                    let mut text = TextContent::new(describe_link(resource));
                    text.annotations = resource.annotations.take();
                    text.meta = resource.meta.take();
                    *self = Self::Text(text);
                }
            }
            Self::Unknown(_) => {}
        }
    }
}

impl Shape for Annotations {
    fn shape(&mut self, version: ProtocolVersion) {
        if !version.has_titles() {
            self.last_modified = None;
        }
    }
}

impl Shape for CallToolResult {
    /// Structured content that the revision does not know is dropped. Its text copy stays, or takes its place when the
    /// result has no content.
    fn shape(&mut self, version: ProtocolVersion) {
        self.content.shape(version);
        let Some(value) = &self.structured_content else { return };
        if !allows(version, value) {
            if self.content.is_empty() {
                self.content.push(ContentBlock::text(value.to_string()));
            }
            self.structured_content = None;
        }
    }
}

/// Whether a value may be structured content in a revision.
pub(super) fn allows(version: ProtocolVersion, value: &Value) -> bool {
    version.has_structured_content_of_any_type() || (version.has_structured_content() && value.is_object())
}

pub(super) fn describe_audio(mime_type: &str, data: &str) -> String {
    let padding = data.bytes().rev().take_while(|b| *b == b'=').count();
    let bytes = (data.len() / 4 * 3).saturating_sub(padding);
    format!("[audio: {mime_type}, {bytes} bytes]")
}

fn describe_link(resource: &Resource) -> String {
    let name = resource.title.as_deref().unwrap_or(&resource.name);
    let mut text = format!("[resource: {name}] {}", resource.uri);
    if let Some(mime_type) = &resource.mime_type {
        text.push_str(&format!(" ({mime_type})"));
    }
    if let Some(description) = &resource.description {
        text.push_str(": ");
        text.push_str(description);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::tests::check, *};

    #[test]
    fn older_revisions_have_no_date_in_annotations() {
        let full = json!({
            "type": "text", "text": "a", "annotations": {"audience": ["user"], "lastModified": "2025-01-01T00:00:00Z"},
            "_meta": {"k": 1}
        });
        let dateless = json!({"type": "text", "text": "a", "annotations": {"audience": ["user"]}, "_meta": {"k": 1}});
        check::<ContentBlock>(&full, [dateless.clone(), dateless, full.clone(), full.clone(), full.clone()]);
    }

    #[test]
    fn the_first_revision_has_audio_as_text() {
        let full = json!({
            "type": "audio", "data": "AAECAw==", "mimeType": "audio/wav", "annotations": {"priority": 1}, "_meta": {"k": 1}
        });
        let text = json!({
            "type": "text", "text": "[audio: audio/wav, 4 bytes]", "annotations": {"priority": 1}, "_meta": {"k": 1}
        });
        check::<ContentBlock>(&full, [text, full.clone(), full.clone(), full.clone(), full.clone()]);
    }

    #[test]
    fn older_revisions_have_resource_links_as_text() {
        let full = json!({
            "type": "resource_link", "uri": "file:///a", "name": "a", "title": "A", "mimeType": "text/plain",
            "description": "the a", "icons": [{"src": "data:,"}], "annotations": {"lastModified": "2025", "priority": 1}
        });
        // These revisions have no title, so the name replaces it.
        let text = json!({
            "type": "text", "text": "[resource: a] file:///a (text/plain): the a", "annotations": {"priority": 1}
        });
        let mut third = full.clone();
        third.as_object_mut().unwrap().remove("icons");
        check::<ContentBlock>(&full, [text.clone(), text, third, full.clone(), full.clone()]);
    }

    #[test]
    fn blocks_of_unknown_types_are_unchanged() {
        let full = json!({"type": "hologram", "title": "t"});
        check::<ContentBlock>(&full, [full.clone()]);
    }

    #[test]
    fn older_revisions_have_no_structured_content() {
        let text = json!([{"type": "text", "text": "t"}]);
        let bare = json!({"content": text});
        let object = json!({"content": text, "structuredContent": {"a": 1}});
        check::<CallToolResult>(&object, [bare.clone(), bare.clone(), object.clone(), object.clone(), object.clone()]);
        for value in [json!([1]), json!(null), json!("s")] {
            let full = json!({"content": text, "structuredContent": value});
            check::<CallToolResult>(&full, [bare.clone(), bare.clone(), bare.clone(), bare.clone(), full.clone()]);
        }
        let lone = json!({"content": [], "structuredContent": [1]});
        let copied = json!({"content": [{"type": "text", "text": "[1]"}]});
        check::<CallToolResult>(&lone, [copied.clone(), copied.clone(), copied.clone(), copied, lone.clone()]);
    }
}
