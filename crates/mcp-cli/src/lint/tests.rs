//! Tests of the rules.

use serde_json::json;

use super::*;
use crate::tokens;

fn list(entries: &Value) -> List {
    List { entries: entries.as_array().cloned().unwrap_or_default(), ..List::default() }
}

/// Returns `code place` for each finding.
fn found(definitions: &Definitions) -> Vec<String> {
    let report = Report::of(definitions);
    let mut found: Vec<String> =
        report.findings.iter().map(|finding| format!("{} {}", finding.code(), finding.place)).collect();
    found.sort();
    found
}

fn tool(change: impl FnOnce(&mut Value)) -> Value {
    let mut tool = json!({
        "name": "add", "description": "Adds.", "annotations": {"readOnlyHint": true},
        "inputSchema": {
            "type": "object", "additionalProperties": false, "required": ["a"],
            "properties": {"a": {"type": "integer", "description": "A number."}},
        },
    });
    change(&mut tool);
    tool
}

#[test]
fn each_rule_for_tools_finds_its_fault_only() {
    let long = "x".repeat(1025);
    for (change, expected) in [
        (json!({}), &[][..]),
        (json!({"name": "a b"}), &["name-characters tool `a b`"]),
        (json!({"name": "a.b"}), &["name-provider tool `a.b`"]),
        (json!({"name": 1}), &["name-missing tool 1"]),
        (json!({"description": " "}), &["description-missing tool `add`"]),
        (json!({"description": long}), &["description-long tool `add`"]),
        (json!({"description": "Adds.\u{202e}"}), &["invisible-characters tool `add`"]),
        (json!({"description": "Lines:\r\n\tone 👩‍💻"}), &[]),
        (json!({"title": "x\u{e0041}"}), &["invisible-characters tool `add`"]),
        (json!({"inputSchema": null}), &["schema-type tool `add`"]),
        (json!({"inputSchema": {"additionalProperties": false}}), &["schema-type tool `add`"]),
        (json!({"inputSchema": {"type": "object"}}), &["additional-properties tool `add`"]),
        (json!({"annotations": {"openWorldHint": true}}), &["annotations-missing tool `add`"]),
        (
            json!({"annotations": {"readOnlyHint": true, "destructiveHint": true}}),
            &["annotations-contradictory tool `add`"],
        ),
        (json!({"icons": [{"src": "https://x.example/i.png"}, {"src": "data:image/png;base64,AA=="}]}), &[]),
        (json!({"icons": [{"src": "http://x.example/i.png"}]}), &["icon-url tool `add`"]),
        (json!({"icons": [{"src": "javascript:alert(1)"}]}), &["icon-url tool `add`"]),
        (json!({"outputSchema": {"x": "y".repeat(8001)}}), &["size-entry tool `add`"]),
    ] {
        let tool = tool(|tool| {
            for (name, value) in change.as_object().into_iter().flatten() {
                tool[name] = value.clone();
            }
        });
        assert_eq!(found(&Definitions { tools: list(&json!([tool])), ..Definitions::default() }), expected, "{change}");
    }
}

#[test]
fn each_rule_for_arguments_finds_its_fault_only() {
    for (schema, expected) in [
        (json!({"properties": {"a": {"type": "string"}}}), &["property-description tool `add`, argument `a`"][..]),
        (json!({"properties": {"a": {"description": "x"}}}), &["property-type tool `add`, argument `a`"]),
        (
            json!({"properties": {"a": {"description": "x", "$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}}),
            &[],
        ),
        (json!({"properties": {"a": {"description": "x", "enum": [1]}}}), &[]),
        (json!({"properties": {"a": true}}), &["property-type tool `add`, argument `a`"]),
        (json!({"required": ["b"]}), &["schema-required tool `add`, argument `b`"]),
        (
            json!({"properties": {"a": {"type": "object", "description": "x", "properties": {"b": {"type": "null"}}}}}),
            &["property-description tool `add`, argument `a.b`"],
        ),
        (
            json!({"properties": {"a": {"type": "array", "description": "x", "items": {"properties": {"b": {"description": "x"}}}}}}),
            &["property-type tool `add`, argument `a[].b`"],
        ),
        (
            json!({"properties": {"a": {"type": "array", "description": "x", "items": {"items": {"properties": {"b": {"description": "x"}}}}}}}),
            &["property-type tool `add`, argument `a[][].b`"],
        ),
    ] {
        let mut schema = schema;
        schema["type"] = "object".into();
        schema["additionalProperties"] = false.into();
        let tool = tool(|tool| tool["inputSchema"] = schema.clone());
        assert_eq!(found(&Definitions { tools: list(&json!([tool])), ..Definitions::default() }), expected, "{schema}");
    }
}

#[test]
fn the_other_lists_have_rules_too() {
    let definitions = Definitions {
        server_info: json!({"name": "x", "icons": [{"src": "file:///etc/passwd"}]}),
        instructions: Some("Call add.\u{e0041}".to_owned()),
        tools: List { entries: vec![tool(|_| ()), tool(|_| ())], repeats_cursor: true, is_invalid: false },
        prompts: list(&json!([
            {"name": "p", "arguments": [{"name": "a"}, {"name": "b", "description": "x"}, {"description": "x"}]},
        ])),
        resources: list(&json!([
            {"uri": "a://b", "name": "r", "description": "x", "mimeType": "text/plain"},
            {"uri": "no uri", "name": "r"},
            {"name": "r"},
            {"uri": "a://c", "description": "x", "mimeType": "text/plain"},
        ])),
        templates: list(&json!([
            {"uriTemplate": "a://{b", "name": "t", "description": "x", "mimeType": "text/plain"},
            {"uriTemplate": "a://{b}", "name": "", "description": "x", "mimeType": "text/plain"},
        ])),
    };
    assert_eq!(
        found(&definitions),
        [
            "argument-description prompt `p`, argument `a`",
            "description-missing prompt `p`",
            "description-missing resource `no uri`",
            "icon-url server",
            "invisible-characters instructions",
            "list-cursor tools",
            "mime-type-missing resource `no uri`",
            "name-duplicate tool `add`",
            "name-missing prompt `p`, argument 3",
            "name-missing resource 3",
            "name-missing resource `a://c`",
            "name-missing template `a://{b}`",
            "resource-uri resource `no uri`",
            "template-invalid template `a://{b`",
        ]
    );
}

#[test]
fn many_definitions_have_a_size_finding_and_an_order() {
    let entries = (0..300).map(|n| tool(|tool| tool["name"] = format!("add_{n}").into())).collect();
    let definitions =
        Definitions { tools: List { entries, is_invalid: true, repeats_cursor: false }, ..Definitions::default() };
    let report = Report::of(&definitions);
    let codes: Vec<&str> = report.findings.iter().map(Finding::code).collect();
    assert_eq!(codes, ["list-invalid", "size-total"]);
    assert!(report.bytes > MAX_TOTAL);
    let estimates = definitions.tools.entries.iter().map(tokens::of_entry);
    assert_eq!((report.tokens > 5_000, report.tokens), (true, estimates.sum()));
}

/// The findings of a name, an argument or a nested argument of 100 kB contain only its start.
#[test]
fn the_places_and_messages_of_findings_are_short() {
    let long = "x\u{1b}".repeat(50_000);
    let properties = json!({&long: {"properties": {&long: {"items": {"properties": {"b": true}}}}}});
    let schema = json!({"type": "object", "required": [long], "properties": properties});
    let icon = format!("{}:x", "x".repeat(100_000));
    let definitions = Definitions {
        tools: list(&json!([
            {"name": long, "inputSchema": schema, "icons": [{"src": icon}]},
            {"name": "add", "inputSchema": {"required": [long]}},
        ])),
        prompts: list(&json!([{"name": long, "arguments": [{"name": long}]}])),
        resources: list(&json!([{"uri": long}])),
        templates: list(&json!([{"uriTemplate": format!("{long}{{")}])),
        ..Definitions::default()
    };
    let report = Report::of(&definitions);
    assert!(report.findings.len() > 20, "{report:?}");
    for finding in &report.findings {
        assert!(finding.place.len() < 2000 && !finding.place.contains('\u{1b}'), "{}", finding.place);
        assert!(finding.message.len() < 1000, "{}", finding.message);
    }
}
