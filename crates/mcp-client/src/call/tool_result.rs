//! The result of a tool call.

use std::ops::Deref;

use mcp_protocol::{CallToolResult, ContentBlock};
use serde::de::DeserializeOwned;

use super::{ClientCore, Reply};
use crate::{Error, error::Kind};

/// The result of a tool call. It derefs to [`CallToolResult`].
///
/// A failed tool returns a result too ([`ToolResult::is_error`]). Its text is meant for the model.
///
/// # Example
/// ```
/// # use mcp_client::Client;
/// # use mcp_server::{Server, tool};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::Error> {
/// # let server = Server::builder("s", "1").tool(tool("count", async || "7")).build();
/// let client = Client::connect(&server).await?;
/// let result = client.call_tool("count", ()).await?;
/// assert!(!result.is_error());
/// let result = result.ok()?; // a failed tool becomes an error
/// assert_eq!(result.text(), "7");
/// assert_eq!(result.structured::<u32>()?, 7);
/// assert_eq!(result.into_inner().content.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    result: CallToolResult,
}

impl ToolResult {
    pub(crate) fn new(result: CallToolResult) -> Self {
        Self { result }
    }

    /// Returns true if the tool failed.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.result.is_error
    }

    /// Returns the text blocks of the content, separated by blank lines.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.result.content.iter().filter_map(ContentBlock::as_text).collect();
        texts.join("\n\n")
    }

    /// Decodes the structured content. Servers of revisions before 2025-06-18 have none; then the only text block is
    /// decoded as JSON.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// [`Error::is_tool_error`] if the tool failed. [`Error::is_invalid_response`] if there is no such content, or it
    /// has another form.
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

    /// Returns the result, or an error if the tool failed.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// [`Error::is_tool_error`] if the tool failed.
    pub fn ok(self) -> Result<Self, Error> {
        if self.is_error() { Err(self.failure()) } else { Ok(self) }
    }

    /// Returns the result of the protocol.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn into_inner(self) -> CallToolResult {
        self.result
    }

    fn failure(&self) -> Error {
        Kind::Tool(self.text().into()).into()
    }
}

/// Decodes the result of a tool, and validates it against the output schema of a listed tool.
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
    fn data_is_the_structured_content_or_the_single_text() {
        let result = |json: Value| ToolResult::new(serde_json::from_value(json).unwrap());
        let text = |text: &str| json!({"type": "text", "text": text});
        for (json, expected) in [
            (json!({"content": [text("x")], "structuredContent": {"a": 1}}), Some(json!({"a": 1}))),
            (json!({"content": [text("x")], "structuredContent": null}), Some(Value::Null)),
            (json!({"content": [text("{\"a\":1}")]}), Some(json!({"a": 1}))),
            (json!({"content": [text("1"), text("2")]}), None),
            (json!({"content": [text("no json")]}), None),
            (json!({"content": []}), None),
        ] {
            let found = result(json.clone()).structured::<Value>();
            assert!(found.as_ref().err().is_none_or(Error::is_invalid_response), "{json}");
            assert_eq!(found.ok(), expected, "{json}");
        }
        let failed = result(json!({"content": [text("no"), text("way")], "isError": true}));
        assert_eq!(failed.text(), "no\n\nway");
        assert!(failed.structured::<Value>().unwrap_err().is_tool_error());
        assert!(failed.ok().unwrap_err().to_string().contains("way"));
    }
}
