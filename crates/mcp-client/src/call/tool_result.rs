//! What a tool gave back, by what it is good for.

use std::ops::Deref;

use mcp_protocol::{CallToolResult, ContentBlock};
use serde::de::DeserializeOwned;

use super::{ClientCore, Reply};
use crate::{Error, error::Kind};

/// The result of a tool. It derefs to the whole [`CallToolResult`].
///
/// A tool that failed is a result too ([`ToolResult::is_error`]): its text is for the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    result: CallToolResult,
}

impl ToolResult {
    pub(crate) fn new(result: CallToolResult) -> Self {
        Self { result }
    }

    /// Whether the tool failed.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.result.is_error
    }

    /// All text of the content, one block a paragraph.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.result.content.iter().filter_map(ContentBlock::as_text).collect();
        texts.join("\n\n")
    }

    /// The result as data: the structured content, or the only text read as JSON where there is none, as with servers of
    /// revisions before 2025-06-18.
    ///
    /// # Errors
    /// [`Error::is_tool_error`] when the tool failed; [`Error::is_invalid_response`] when there is no data, or other data than
    /// expected.
    pub fn structured<T: DeserializeOwned>(&self) -> Result<T, Error> {
        if self.is_error() {
            return Err(self.failure());
        }
        let invalid = |error: serde_json::Error| Error::invalid(format!("the structured content: {error}"));
        if let Some(value) = &self.result.structured_content {
            return T::deserialize(value).map_err(invalid);
        }
        let mut texts = self.result.content.iter().filter_map(ContentBlock::as_text);
        match (texts.next(), texts.next()) {
            (Some(text), None) => serde_json::from_str(text).map_err(invalid),
            _ => Err(Error::invalid("the result has no structured content")),
        }
    }

    /// The same result, or the failure of the tool as an error.
    ///
    /// # Errors
    /// [`Error::is_tool_error`] when the tool failed.
    pub fn ok(self) -> Result<Self, Error> {
        if self.is_error() { Err(self.failure()) } else { Ok(self) }
    }

    /// The result as it came.
    #[must_use]
    pub fn into_inner(self) -> CallToolResult {
        self.result
    }

    fn failure(&self) -> Error {
        Kind::Tool(self.text().into()).into()
    }
}

/// The result of a tool, checked against what the tool promises where that is known and has a schema.
pub(crate) fn tool_result(core: &ClientCore, reply: &Reply) -> Result<ToolResult, Error> {
    let result: CallToolResult = reply.read()?;
    if core.config.checks_results
        && reply.version.has_structured_content()
        && let Some(known) = reply.name.as_ref().and_then(|name| core.inbound.catalog.find(name))
    {
        known.check_result(&result)?;
    }
    Ok(ToolResult::new(result))
}

impl Deref for ToolResult {
    type Target = CallToolResult;

    fn deref(&self) -> &CallToolResult {
        &self.result
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn data_is_structured_content_or_the_only_text() {
        let result = |wire: Value| ToolResult::new(serde_json::from_value(wire).unwrap());
        let text = |text: &str| json!({"type": "text", "text": text});
        for (wire, expected) in [
            (json!({"content": [text("x")], "structuredContent": {"a": 1}}), Some(json!({"a": 1}))),
            (json!({"content": [text("x")], "structuredContent": null}), Some(Value::Null)),
            (json!({"content": [text("{\"a\":1}")]}), Some(json!({"a": 1}))),
            (json!({"content": [text("1"), text("2")]}), None),
            (json!({"content": [text("no json")]}), None),
            (json!({"content": []}), None),
        ] {
            let found = result(wire.clone()).structured::<Value>();
            assert!(found.as_ref().err().is_none_or(Error::is_invalid_response), "{wire}");
            assert_eq!(found.ok(), expected, "{wire}");
        }
        let failed = result(json!({"content": [text("no"), text("way")], "isError": true}));
        assert_eq!(failed.text(), "no\n\nway");
        assert!(failed.structured::<Value>().unwrap_err().is_tool_error());
        assert!(failed.ok().unwrap_err().to_string().contains("way"));
    }
}
