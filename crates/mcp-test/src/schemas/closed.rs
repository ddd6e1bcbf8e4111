//! Closes the objects of a schema: an unknown member becomes an error.

use serde_json::{Map, Value, json};

/// Definitions that stay open: parts of other definitions, and objects that peers may extend.
const OPEN: &[&str] = &["Error", "Notification", "NotificationParams", "Request", "RequestParams", "Result", "Task"];
/// Members whose objects peers may extend.
const OPEN_MEMBERS: &[&str] =
    &["_meta", "inputSchema", "outputSchema", "metadata", "params", "result", "error", "data"];

/// Closes the definitions that list all their members.
pub(super) fn close(definitions: &mut Map<String, Value>) {
    for (name, definition) in definitions {
        let is_open = OPEN.contains(&name.as_str())
            || name.starts_with("JSONRPC")
            || ["Capabilities", "MetaObject", "Error"].iter().any(|end| name.ends_with(end));
        if !is_open {
            close_object(definition);
        }
    }
}

fn close_object(schema: &mut Value) {
    let Value::Object(keywords) = schema else { return };
    if let Some(Value::Object(properties)) = keywords.get_mut("properties") {
        for (name, property) in properties.iter_mut() {
            if !OPEN_MEMBERS.contains(&name.as_str()) {
                close_object(property);
            } else if name == "params" {
                close_params(property);
            }
        }
        // Every revision allows `_meta`. The older schemas omit the members of JSON-RPC.
        properties.entry("_meta").or_insert_with(|| json!({}));
        if properties.contains_key("method") {
            properties.entry("jsonrpc").or_insert_with(|| json!({ "const": "2.0" }));
            properties.entry("id").or_insert_with(|| json!({}));
        }
        keywords.entry("additionalProperties").or_insert_with(|| json!(false));
    }
    if let Some(items) = keywords.get_mut("items") {
        close_object(items);
    }
    if let Some(Value::Array(branches)) = keywords.get_mut("anyOf") {
        branches.iter_mut().for_each(close_object);
    }
}

/// Closes inline parameters of the older schemas. Parameters without own members accept any member.
fn close_params(params: &mut Value) {
    let own = params["properties"].as_object().is_some_and(|members| members.keys().any(|name| name != "_meta"));
    if own {
        close_object(params);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_objects_that_list_their_members() {
        let mut definitions = json!({
            "Tool": {"type": "object", "properties": {
                "name": {"type": "string"}, "inputSchema": {"type": "object", "properties": {"type": {}}}
            }},
            "ServerCapabilities": {"type": "object", "properties": {"tools": {}}},
            "Loose": {"type": "object", "properties": {"a": {}}, "additionalProperties": {}},
            "Nested": {"properties": {"list": {"items": {"properties": {"b": {}}}}}},
        });
        let before = definitions.clone();
        close(definitions.as_object_mut().unwrap());
        assert_eq!(definitions["Tool"]["additionalProperties"], false);
        assert_eq!(definitions["Tool"]["properties"]["_meta"], json!({}));
        assert_eq!(definitions["Tool"]["properties"]["inputSchema"], before["Tool"]["properties"]["inputSchema"]);
        assert_eq!(definitions["ServerCapabilities"], before["ServerCapabilities"]);
        assert_eq!(definitions["Loose"]["additionalProperties"], json!({}));
        assert_eq!(definitions["Nested"]["properties"]["list"]["items"]["additionalProperties"], false);
    }
}
