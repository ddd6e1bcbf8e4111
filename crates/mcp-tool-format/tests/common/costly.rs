//! Schemas that are built to be costly: references, unions and texts that a careless reader copies or compares too often.

use mcp_protocol::Tool;
use serde_json::{Map, Value, json};

use super::tool;

/// The length of a text that fills half of a large schema.
const HALF: usize = 512 << 10;

/// Returns an object with `count` members.
fn members(count: usize, prefix: &str, value: impl Fn(usize) -> Value) -> Map<String, Value> {
    (0..count).map(|n| (format!("{prefix}{n}"), value(n))).collect()
}

/// Returns a tool with one property.
fn property(schema: &Value) -> Tool {
    tool("t", json!({"type": "object", "properties": {"a": schema}}))
}

/// Returns a list of schemas.
fn list(count: usize, schema: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..count).map(schema).collect()
}

/// Returns the costly schemas with their names. Most have a size near 1 MiB.
pub(crate) fn tools() -> Vec<(&'static str, Tool)> {
    let text = json!({"type": "string"});
    let bomb: Map<String, Value> = members(40, "d", |level| {
        let next = if level == 39 { text.clone() } else { json!({"$ref": format!("#/$defs/d{}", level + 1)}) };
        json!({"type": "object", "properties": {"a": next, "b": next}})
    });
    let arrays = list(500, |n| json!({"type": "array", "items": {"const": n}}));
    let numbers: Vec<usize> = (0..3_000).collect();
    let half = "x".repeat(HALF);
    let references = members(2_000, "p", |_| json!({"$ref": "#/$defs/d"}));
    let named = |count: usize, length: usize| {
        members(count, "p", |_| json!({"type": "string", "description": "x".repeat(length)}))
    };
    let many: Vec<usize> = (0..70_000).collect();
    vec![
        (
            "a bomb of references",
            tool("t", json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": bomb})),
        ),
        ("references to itself", property(&json!({"$ref": "#/properties/a"}))),
        ("a product of unions", property(&json!({"allOf": vec![json!({"anyOf": arrays}); 12]}))),
        ("values beside a union", property(&json!({"anyOf": arrays, "type": "array", "items": {"enum": numbers}}))),
        ("5,050 properties", tool("t", json!({"type": "object", "properties": named(5_050, 180)}))),
        ("2,450 properties", tool("t", json!({"type": "object", "properties": named(2_450, 400)}))),
        ("9,000 properties", tool("t", json!({"type": "object", "properties": named(9_000, 80)}))),
        ("a long description", property(&json!({"type": "string", "description": "x".repeat(1 << 20)}))),
        (
            "a long description behind 2,000 references",
            tool(
                "t",
                json!({"type": "object", "properties": references, "$defs": {"d": {"type": "string", "description": half}}}),
            ),
        ),
        (
            "a long key behind 2,000 references",
            tool(
                "t",
                json!({"type": "object", "properties": references, "$defs": {"d": {"type": "object", "properties": {half.clone(): text}}}}),
            ),
        ),
        (
            "a recursive schema with a long description behind 2,000 references",
            tool(
                "t",
                json!({"type": "object", "properties": references, "$defs": {"d": {
                    "type": "object", "description": half, "properties": {"next": {"$ref": "#/$defs/d"}}
                }}}),
            ),
        ),
        (
            "a long pattern beside 4,000 branches",
            property(&json!({"type": "string", "pattern": half, "anyOf": list(4_000, |n| json!({"minLength": n}))})),
        ),
        (
            "long values beside 4,000 branches",
            property(&json!({"enum": ["y", half], "anyOf": list(4_000, |n| json!({"maxLength": HALF + n}))})),
        ),
        (
            "a long description below 4,000 branches",
            property(&json!({
                "type": ["array", "object"], "items": {"type": "string", "description": half},
                "anyOf": list(4_000, |n| json!({"type": "array", "minItems": n})),
            })),
        ),
        ("150,000 values", property(&json!({"enum": (0..150_000).collect::<Vec<usize>>()}))),
        ("4,900 values", property(&json!({"enum": list(4_900, |n| json!(format!("{n}{}", "x".repeat(200))))}))),
        ("two lists of 70,000 values", property(&json!({"allOf": [{"enum": many}, {"enum": many}]}))),
        (
            "lists of 4,000 values",
            property(&json!({"allOf": vec![json!({"enum": (0..4_000).collect::<Vec<usize>>()}); 50]})),
        ),
        (
            "150,000 required properties",
            tool("t", json!({"type": "object", "required": list(150_000, |n| json!(format!("{n}")))})),
        ),
        (
            "100,000 properties without values",
            tool("t", json!({"type": "object", "properties": members(100_000, "", |_| false.into())})),
        ),
        (
            "a long key above 2,000 properties",
            tool(
                "t",
                json!({"type": "object", "properties": {half.clone(): {
                    "properties": members(2_000, "p", |_| text.clone()),
                    "allOf": [{"properties": members(2_000, "p", |_| json!({"minLength": 1}))}],
                }}}),
            ),
        ),
        ("4,900 notes", property(&json!({"allOf": list(4_900, |n| json!({"not": {"const": format!("{n:0200}")}}))}))),
        (
            "conditions with 2,000 properties",
            tool(
                "t",
                json!({
                    "type": "object", "properties": members(2_000, "property-of-the-object-", |_| text.clone()),
                    "if": {}, "then": {"properties": members(2_000, "property-of-condition-", |_| text.clone())},
                }),
            ),
        ),
        ("200,000 types", property(&json!({"type": list(200_000, |_| json!("x"))}))),
        ("a large default", property(&json!({"type": "array", "default": (0..150_000).collect::<Vec<usize>>()}))),
        (
            "150,000 names",
            property(&json!({"type": "object", "propertyNames": {"enum": (0..150_000).collect::<Vec<usize>>()}})),
        ),
        (
            "a long description below 30 unions",
            property(&(0..30).fold(
                json!({"type": "string", "description": half}),
                |inner, n| json!({"description": format!("{n}"), "anyOf": [inner, {"type": "integer"}]}),
            )),
        ),
    ]
}

/// Returns a schema with 10,000 levels. [`take_apart`] must receive it at the end.
pub(crate) fn deep(keyword: &str) -> Tool {
    let mut deep = json!({"type": "array"});
    for _ in 0..10_000 {
        let mut outer = json!({"type": "array"});
        outer[keyword] = deep;
        deep = outer;
    }
    let mut tool = property(&Value::Null);
    tool.input_schema["properties"]["a"] = deep;
    tool
}

/// Drops a tool of [`deep`]: the drop of a deep value is recursive, so this function removes level after level.
pub(crate) fn take_apart(mut tool: Tool, keyword: &str) {
    let mut rest = tool.input_schema["properties"]["a"].take();
    while let Some(inner) = rest.get_mut(keyword).map(Value::take) {
        rest = inner;
    }
}
