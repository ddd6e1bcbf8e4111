//! The estimated tokens of the definitions of tools, which `mcp doctor` and `mcp lint` show.

use mcp_agent::search::definition_bytes;
use mcp_protocol::Tool;
use serde_json::Value;

/// Returns the estimated tokens of a definition.
pub(crate) fn of(tool: &Tool) -> usize {
    estimate(definition_bytes(tool))
}

/// Returns the estimated tokens of an entry of a list, which can be invalid.
pub(crate) fn of_entry(entry: &Value) -> usize {
    let text = |name: &str| entry[name].as_str().map_or(0, str::len);
    let schema = entry.get("inputSchema").map_or(0, |schema| schema.to_string().len());
    estimate(text("name") + text("description") + schema)
}

/// A token has 3.5 bytes on average. Tokenizers of models differ.
fn estimate(bytes: usize) -> usize {
    bytes.saturating_mul(2).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_estimates_of_a_tool_are_equal() {
        let entry = json!({
            "name": "add", "title": "Add", "description": "Adds two numbers.", "outputSchema": { "type": "object" },
            "inputSchema": { "type": "object", "properties": { "b": { "minimum": 1.0 }, "a": { "enum": ["x", 7] } } },
        });
        let tool: Tool = serde_json::from_value(entry.clone()).unwrap();
        assert_eq!((of(&tool) > 20, of(&tool)), (true, of_entry(&entry)));
        assert_eq!(of_entry(&json!({ "name": 7 })), 0);
    }
}
