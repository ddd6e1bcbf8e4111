//! Tests of filters.

use mcp_protocol::{JsonObject, ToolAnnotations};
use serde_json::json;

use super::*;

fn tool(name: &str) -> Tool {
    Tool::new(name, JsonObject::new())
}

fn glob(text: &str) -> Glob {
    text.parse().unwrap()
}

#[test]
fn deny_wins_over_allow() {
    let filter = ToolFilter::new().allow(glob("get_*")).allow(glob("list")).deny(glob("get_?"));
    for (name, expected) in [("get_issue", true), ("list", true), ("get_x", false), ("other", false)] {
        assert_eq!(filter.accepts(&tool(name)), expected, "{name}");
    }
    assert!(ToolFilter::new().accepts(&tool("anything")));
}

#[test]
fn absent_hints_have_the_defaults_of_the_specification() {
    let hints = ToolAnnotations::new;
    for (annotations, read_only, destructive, idempotent, open_world) in [
        (None, false, true, false, true),
        (Some(hints()), false, true, false, true),
        (Some(hints().with_read_only_hint(true)), true, false, true, true),
        (Some(hints().with_read_only_hint(true).with_destructive_hint(true)), true, false, true, true),
        (Some(hints().with_destructive_hint(false).with_idempotent_hint(true)), false, false, true, true),
        (Some(hints().with_open_world_hint(false)), false, true, false, false),
    ] {
        let matches = |pattern: AnnotationMatch| pattern.matches(annotations.as_ref());
        assert_eq!(matches(AnnotationMatch::new().read_only(true)), read_only, "{annotations:?}");
        assert_eq!(matches(AnnotationMatch::new().destructive(true)), destructive, "{annotations:?}");
        assert_eq!(matches(AnnotationMatch::new().idempotent(true)), idempotent, "{annotations:?}");
        assert_eq!(matches(AnnotationMatch::new().open_world(true)), open_world, "{annotations:?}");
        assert_eq!(matches(AnnotationMatch::new().open_world(false)), !open_world, "{annotations:?}");
        assert!(matches(AnnotationMatch::new()));
    }
}

#[test]
fn an_override_changes_a_tool_and_keeps_its_original_name() {
    let filter: ToolFilter = serde_json::from_value(json!({
        "annotations": { "openWorld": true },
        "overrides": {
            "a": { "name": "first", "title": "First", "description": "The first." },
            "b": { "name": "c" },
            "c": { "name": "not valid" },
            "d": { "name": "first" },
            "e": { "description": "" },
            "gone": { "title": "Gone" }
        }
    }))
    .unwrap();
    let filtered = filter.apply(["a", "b", "c", "d", "e"].map(|name| tool(name).with_description("Old.")));
    let names: Vec<(&str, &str)> =
        filtered.tools.iter().map(|tool| (tool.original.as_str(), tool.tool.name.as_str())).collect();
    assert_eq!(names, [("a", "first"), ("b", "b"), ("c", "c"), ("d", "d"), ("e", "e")]);
    assert_eq!(filtered.tools[0].tool.title.as_deref(), Some("First"));
    assert_eq!(filtered.tools[0].tool.description.as_deref(), Some("The first."));
    assert_eq!(filtered.tools[1].tool.description.as_deref(), Some("Old."));
    assert_eq!(filtered.tools[4].tool.description.as_deref(), Some(""));
    let taken = |original: &str, name: &str| FilterNote::NameTaken { original: original.into(), name: name.into() };
    assert_eq!(
        filtered.notes,
        [
            FilterNote::UnusedOverride("gone".to_owned()),
            taken("b", "c"),
            FilterNote::InvalidName { original: "c".to_owned(), name: "not valid".to_owned() },
            taken("d", "first"),
        ]
    );
}

#[test]
fn unknown_members_and_empty_patterns_are_rejected() {
    for (value, expected) in [
        (json!({ "alow": [] }), "unknown field `alow`"),
        (json!({ "deny": [""] }), "a pattern must not be empty"),
        (json!({ "annotations": { "readonly": true } }), "unknown field `readonly`"),
        (json!({ "overrides": { "a": { "nmae": "b" } } }), "unknown field `nmae`"),
    ] {
        let error = serde_json::from_value::<ToolFilter>(value).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
