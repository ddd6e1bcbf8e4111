//! The rules of the protocol for the schemas of a tool.

use serde_json::Value;

use crate::{
    dialect::Dialect,
    error::{SchemaError, SchemaErrorKind},
    graph::unknown_dialect,
    text::quote,
};

/// Checks the root of a tool's `inputSchema`: an object with `"type": "object"`, in a known dialect.
///
/// It does not check the rest of the schema. [`Schema::compile`](crate::Schema::compile) does.
///
/// ```
/// use mcp_schema::check_tool_input_schema;
/// use serde_json::json;
///
/// assert!(check_tool_input_schema(&json!({ "type": "object" })).is_ok());
/// assert!(check_tool_input_schema(&json!({ "type": "array" })).is_err());
/// ```
///
/// # Errors
///
/// The schema is not an object, has no such `type`, or declares an unknown dialect.
pub fn check_tool_input_schema(schema: &Value) -> Result<(), SchemaError> {
    let refuse = |pointer: &str, message: String| Err(SchemaError::new(SchemaErrorKind::Invalid, pointer, message));
    let Value::Object(root) = schema else {
        return refuse("", format!("the input schema of a tool must be a JSON object, not {}", quote(schema)));
    };
    match root.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        Some(other) => {
            return refuse(
                "/type",
                format!("the input schema of a tool must have the type \"object\", not {}", quote(other)),
            );
        }
        None => return refuse("", "the input schema of a tool must say \"type\": \"object\"".to_owned()),
    }
    match Dialect::of(schema) {
        Some(_) => Ok(()),
        None => Err(unknown_dialect("", root.get("$schema").unwrap_or(&Value::Null))),
    }
}

/// Whether the root of a schema has `"type": "object"`, which revisions before 2026-07-28 require of an `outputSchema`.
///
/// ```
/// use mcp_schema::has_object_root;
/// use serde_json::json;
///
/// assert!(has_object_root(&json!({ "type": "object" })));
/// assert!(!has_object_root(&json!({ "type": ["object", "null"] })));
/// ```
pub fn has_object_root(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn input_schemas_have_an_object_root() {
        for (schema, expected) in [
            (json!({"type": "object"}), None),
            (json!({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}), None),
            (json!({"type": "object", "$schema": "https://example.com/"}), Some("/$schema")),
            (json!({}), Some("")),
            (json!(true), Some("")),
            (json!(null), Some("")),
            (json!([]), Some("")),
            (json!({"type": "string"}), Some("/type")),
            (json!({"type": ["object"]}), Some("/type")),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}), Some("")),
        ] {
            let found = check_tool_input_schema(&schema).err();
            assert_eq!(found.as_ref().map(SchemaError::pointer), expected, "{schema}");
        }
    }

    #[test]
    fn object_roots_are_recognized() {
        assert!(has_object_root(&json!({"type": "object"})));
        for other in
            [json!({"type": "array"}), json!({"type": ["object", "null"]}), json!({}), json!(true), json!("object")]
        {
            assert!(!has_object_root(&other), "{other}");
        }
    }
}
