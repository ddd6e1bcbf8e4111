//! The texts of the arguments of a tool.

use serde_json::{Map, Value};

/// The deepest argument that is read.
const DEPTH: usize = 6;
/// The largest number of schemas that are read in one tool.
const SCHEMAS: usize = 2_000;

/// Calls `found` with each name of an argument, its description and its values of `enum`, at each depth.
pub(super) fn each<'a>(schema: &'a Map<String, Value>, mut found: impl FnMut(&'a str)) {
    // The children of a schema follow it, and the number of schemas is bounded: the work is bounded too.
    let mut open = vec![(schema, 0)];
    let mut read = 0;
    while let Some((schema, depth)) = open.pop() {
        read += 1;
        if read > SCHEMAS {
            return;
        }
        if depth > 0 {
            schema.get("description").and_then(Value::as_str).into_iter().for_each(&mut found);
            let values = schema.get("enum").and_then(Value::as_array);
            values.into_iter().flatten().filter_map(Value::as_str).take(100).for_each(&mut found);
        }
        if depth == DEPTH {
            continue;
        }
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            found(name);
            open.extend(property.as_object().map(|property| (property, depth + 1)));
        }
        for keyword in ["items", "additionalProperties"] {
            open.extend(schema.get(keyword).and_then(Value::as_object).map(|inner| (inner, depth + 1)));
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            let branches = schema.get(keyword).and_then(Value::as_array).into_iter().flatten();
            open.extend(branches.filter_map(Value::as_object).map(|branch| (branch, depth + 1)));
        }
    }
}
