//! The types and names of arguments in the input schema of a tool.

use std::collections::{BTreeSet, HashSet};

use mcp_protocol::JsonObject;
use serde_json::Value;

/// The number of subschemas that are read of one property. It bounds the cost of a schema that a server sent.
const MAX_BRANCHES: usize = 1000;

/// The argument names of a schema.
pub(super) struct Names<'a> {
    pub(super) declared: BTreeSet<&'a str>,
    /// Whether the schema allows other names.
    pub(super) allows_others: bool,
    /// Whether other names are usual: the schema describes them, or it declares no names at all.
    pub(super) expects_others: bool,
}

impl<'a> Names<'a> {
    pub(super) fn of(schema: &'a JsonObject) -> Self {
        let combined = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
        let referred = schema.get("$ref").and_then(|path| resolve(schema, path));
        let mut declared: BTreeSet<&str> = BTreeSet::new();
        declared.extend(property_names(schema.get("properties")));
        let mut has_properties = schema.get("properties").is_some();
        let parts = combined.flatten().take(MAX_BRANCHES).chain(referred);
        for branch in parts.flat_map(|branch| branches(schema, branch)) {
            has_properties |= branch.get("properties").is_some();
            declared.extend(property_names(branch.get("properties")));
        }
        // This check does not match the patterns of `patternProperties`.
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        let has_patterns = schema.get("patternProperties").is_some();
        // A generator writes `additionalProperties: true` for a free object, and a schema for a map.
        let describes_others =
            schema.get("additionalProperties").is_some_and(|others| *others != Value::Bool(false)) || has_patterns;
        Self {
            declared,
            allows_others: !is_closed || has_patterns,
            expects_others: describes_others || !has_properties,
        }
    }
}

fn property_names(properties: Option<&Value>) -> impl Iterator<Item = &str> {
    properties.and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.as_str())
}

/// Returns the types that a property allows. The list is empty if the schema does not declare types.
pub(super) fn types<'a>(root: &'a JsonObject, property: &'a Value) -> Vec<&'a str> {
    let mut found = Vec::new();
    for branch in branches(root, property) {
        match branch.get("type") {
            Some(Value::String(name)) => found.push(name.as_str()),
            Some(Value::Array(names)) => found.extend(names.iter().filter_map(Value::as_str)),
            _ => {
                let values = branch.get("enum").and_then(Value::as_array);
                let are_strings = values.is_some_and(|values| values.iter().all(Value::is_string));
                if are_strings || branch.get("const").is_some_and(Value::is_string) {
                    found.push("string");
                }
            }
        }
    }
    let mut seen = HashSet::new();
    found.retain(|name| seen.insert(*name));
    found
}

/// Returns the schema of the items of a property that may be an array.
pub(super) fn items<'a>(root: &'a JsonObject, property: &'a Value) -> Option<&'a Value> {
    branches(root, property).into_iter().find_map(|branch| branch.get("items"))
}

/// Returns the values of `enum` and `const` in a property.
pub(crate) fn choices<'a>(root: &'a JsonObject, property: &'a Value) -> Vec<&'a Value> {
    let mut found = Vec::new();
    for branch in branches(root, property) {
        found.extend(branch.get("enum").and_then(Value::as_array).into_iter().flatten());
        found.extend(branch.get("const"));
    }
    found
}

/// Returns the type names of a property, separated by `|`; `any` if the schema does not declare types.
pub(crate) fn type_names(root: &JsonObject, property: &Value) -> String {
    match types(root, property).join("|") {
        names if names.is_empty() => "any".to_owned(),
        names => names,
    }
}

/// Returns the alternatives of a schema in their order. References are followed, and each subschema occurs once.
fn branches<'a>(root: &'a JsonObject, schema: &'a Value) -> Vec<&'a Value> {
    let (mut found, mut seen, mut next) = (Vec::new(), HashSet::new(), vec![schema]);
    while let Some(branch) = next.pop() {
        if found.len() == MAX_BRANCHES {
            break;
        }
        if !seen.insert(std::ptr::from_ref(branch)) {
            continue;
        }
        found.push(branch);
        let own = next.len();
        next.extend(branch.get("$ref").and_then(|path| resolve(root, path)));
        let alternatives =
            ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|keyword| branch.get(keyword)?.as_array());
        next.extend(alternatives.flatten().take(MAX_BRANCHES));
        next[own..].reverse();
    }
    found
}

/// Returns the target of the value of `$ref` within the same document.
fn resolve<'a>(root: &'a JsonObject, reference: &Value) -> Option<&'a Value> {
    let path = reference.as_str()?.strip_prefix("#/")?;
    let mut parts = path.split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
    let first = root.get(&parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

/// Returns whether a value has the type of this name.
pub(super) fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// Returns the arguments of a tool with their types, for example `a:integer [b:string]`. Optional arguments have brackets.
pub(crate) fn signature(schema: &JsonObject) -> String {
    let Some(Value::Object(properties)) = schema.get("properties") else { return String::new() };
    let required: Vec<&str> = match schema.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let argument = |(name, property): (&String, &Value)| {
        // The brackets of an optional argument already say that it can be null.
        let mut types = types(schema, property);
        types.retain(|name_of_type| *name_of_type != "null" || required.contains(&name.as_str()));
        let types = if types.is_empty() { String::new() } else { format!(":{}", types.join("|")) };
        if required.contains(&name.as_str()) { format!("{name}{types}") } else { format!("[{name}{types}]") }
    };
    properties.iter().map(argument).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The property `a` refers to itself in 30 alternatives. The last alternative declares strings.
    #[test]
    fn reads_each_subschema_of_a_recursive_schema_once() {
        let mut alternatives = vec![json!({"$ref": "#/properties/a"}); 30];
        alternatives.push(json!({"type": ["string", "null"], "enum": ["x", "y", null]}));
        let schema = JsonObject::from_value(json!({"properties": {"a": {"anyOf": alternatives}}})).unwrap_or_default();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let choices = schema.get("properties").map(|properties| choices(&schema, &properties["a"]).len());
            sender.send((signature(&schema), choices))
        });
        let read = receiver.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(read, Ok(("[a:string]".to_owned(), Some(3))));
    }

    #[test]
    fn a_signature_has_names_and_types() {
        let schema = JsonObject::from_value(json!({
            "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]}, "c": {}}, "required": ["a"],
        }))
        .unwrap_or_default();
        assert_eq!(signature(&schema), "a:integer [b:string] [c]");
        assert_eq!(signature(&JsonObject::new()), "");
    }
}
