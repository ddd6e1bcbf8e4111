//! Rules for the input schema of a tool.

use std::collections::HashSet;

use mcp_protocol::Excerpt;
use serde_json::Value;

use super::{Report, rule};

/// The deepest nesting of arguments that is checked.
const MAX_DEPTH: usize = 16;
/// The keywords by which a schema has a type.
const TYPES: &[&str] = &["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "$dynamicRef", "not"];

/// Checks the input schema of a tool.
pub(super) fn check(report: &mut Report, place: &str, schema: Option<&Value>) {
    let Some(members) = schema.and_then(Value::as_object) else {
        return report.add(rule::SCHEMA_TYPE, place, "`inputSchema` is missing or is not an object");
    };
    if members.get("type") != Some(&Value::from("object")) {
        report.add(rule::SCHEMA_TYPE, place, "`inputSchema` does not have the type `object`");
    }
    // A `$ref` or a combination can declare the arguments elsewhere.
    let is_combined = ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|keyword| members.contains_key(*keyword));
    if !is_combined && !members.contains_key("additionalProperties") && !members.contains_key("unevaluatedProperties") {
        report.add(rule::ADDITIONAL_PROPERTIES, place, "the schema accepts arguments that it does not declare");
    }
    let declared: HashSet<&str> =
        members.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| &**name).collect();
    let required = members.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    for name in required.filter(|name| !is_combined && !declared.contains(name)) {
        let place = format!("{place}, argument `{}`", Excerpt::new(name));
        report.add(rule::SCHEMA_REQUIRED, place, "the argument is required and not declared");
    }
    if let Some(schema) = schema {
        properties(report, place, "", schema, 0);
    }
}

/// Checks the properties of a schema, and of the schemas inside of it. `path` is the argument that the schema describes.
fn properties(report: &mut Report, place: &str, path: &str, schema: &Value, depth: usize) {
    if depth == MAX_DEPTH {
        return;
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let here = format!("{place}, argument `{}`", Excerpt::new(&path));
        if !TYPES.iter().any(|keyword| property.get(keyword).is_some()) {
            report.add(rule::PROPERTY_TYPE, &here, "the argument has no type");
        }
        let is_empty = property["description"].as_str().is_none_or(|text| text.trim().is_empty());
        // A schema that is `true` has no members at all.
        if is_empty && property.is_object() {
            report.add(rule::PROPERTY_DESCRIPTION, &here, "the argument has no description");
        }
        properties(report, place, &path, property, depth + 1);
    }
    // The items of an array can be arrays.
    if let Some(items) = schema.get("items") {
        properties(report, place, &format!("{path}[]"), items, depth + 1);
    }
}
