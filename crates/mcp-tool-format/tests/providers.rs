//! Every provider accepts every rendered list: recorded lists of real servers, and generated hostile schemas.

mod common;

use mcp_protocol::Tool;
use mcp_tool_format::{DiagnosticKind, Options, Provider, Rules, qualified_name, render};

use self::common::{costly, hostile, oracle::Oracle, recorded, tool};

/// Each combination of a provider and `strict`.
fn options() -> Vec<Options> {
    let both = |provider| [Options::new(provider).strict(), Options::new(provider).not_strict()];
    Provider::ALL.into_iter().flat_map(both).collect()
}

#[test]
fn recorded_tools_break_no_rule_and_at_most_two_percent_are_left_out() {
    let lists = recorded();
    assert!(lists.len() >= 10, "{}", lists.len());
    for options in options() {
        let (mut total, mut left_out) = (0, Vec::new());
        let provider = options.provider();
        let oracle = Oracle::new(provider.as_str());
        for (server, tools) in &lists {
            // The limit on the number of tools is not a property of a tool.
            for tools in tools.chunks(Rules::of(provider).max_tools.unwrap_or(usize::MAX)) {
                let names: Vec<String> = tools.iter().map(|tool| qualified_name(server, &tool.name)).collect();
                let rendered = render(names.iter().map(String::as_str).zip(tools), &options);
                let violations = oracle.violations(&rendered.value);
                assert!(violations.is_empty(), "{provider} {server}: {}", violations[0]);
                assert_eq!(Rules::of(provider).check(&rendered.value), [], "{provider} {server}");
                total += tools.len();
                left_out.extend(rendered.diagnostics.iter().filter(|found| found.kind.is_left_out()).cloned());
            }
        }
        println!("{provider}: {} of {total} tools left out", left_out.len());
        assert!(left_out.len() * 50 <= total, "{provider}: {}", left_out[0]);
    }
}

#[test]
fn hostile_schemas_break_no_rule() {
    for options in options() {
        let provider = options.provider();
        let oracle = Oracle::new(provider.as_str());
        let mut left_out = 0;
        for seed in 0..300 {
            let tool = Tool::new("t", hostile::schema(seed));
            let rendered = render([("t", &tool)], &options);
            let violations = oracle.violations(&rendered.value);
            assert_eq!(Rules::of(provider).check(&rendered.value), [], "{provider} seed {seed}");
            let schema = serde_json::to_string(&tool.input_schema).unwrap();
            assert!(violations.is_empty(), "{provider} seed {seed}: {}\n{schema}\n{}", violations[0], rendered.value);
            let kinds: Vec<DiagnosticKind> = rendered.diagnostics.iter().map(|found| found.kind).collect();
            assert_eq!(rendered.value.is_null(), kinds.iter().any(|kind| kind.is_left_out()), "seed {seed}: {kinds:?}");
            left_out += usize::from(rendered.value.is_null());
        }
        println!("{provider}: {left_out} of 300 hostile schemas left out");
        assert!(left_out < 30, "{provider}: {left_out}");
    }
}

#[test]
fn the_checks_detect_definitions_that_providers_refuse() {
    use serde_json::json;
    for (provider, schema, expected) in [
        (Provider::Gemini, json!({"type": "object", "properties": {}}), "`properties` is empty"),
        (
            Provider::Gemini,
            json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
            "`type` is a list",
        ),
        (
            Provider::Gemini,
            json!({"type": "object", "properties": {"a": {"type": "integer", "enum": [1]}}}),
            "not texts",
        ),
        (
            Provider::Gemini,
            json!({"type": "object", "properties": {"a": {"type": "string", "enum": [""]}}}),
            "not texts",
        ),
        (Provider::Gemini, json!({"type": "object", "properties": {"a": {"const": "x"}}}), "no type"),
        (
            Provider::Gemini,
            json!({"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}),
            "`default`",
        ),
        (
            Provider::Gemini,
            json!({"type": "object", "properties": {"a": {"type": "string", "minimum": 1}}}),
            "does not apply",
        ),
        (Provider::Gemini, json!({"type": "object", "properties": {"a.b": {"type": "string"}}}), "key a.b"),
        (Provider::Gemini, json!({"type": "object", "properties": {"a": {"type": "array"}}}), "no `items`"),
        (
            Provider::Gemini,
            json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}], "description": "x"}}}),
            "not alone",
        ),
        (Provider::OpenAiChat, json!({"type": "object", "anyOf": [{"type": "object"}]}), "root has `anyOf`"),
        (Provider::OpenAiChat, json!({"type": "object", "properties": {"a": {"type": "array"}}}), "no `items`"),
        (
            Provider::OpenAiResponses,
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(?!x)"}}}),
            "pattern",
        ),
        (Provider::OpenAiChat, json!({"type": "object", "required": ["a"]}), "not defined"),
        (Provider::OpenAiChat, json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}), "`$ref`"),
        (Provider::Anthropic, json!({"type": "object", "oneOf": []}), "`oneOf`"),
        (Provider::Anthropic, json!({"properties": {}}), "type of the root"),
        (Provider::Anthropic, json!({"type": "object", "properties": {"a b": {}}}), "key a b"),
        (
            Provider::Bedrock,
            json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}),
            "`type` is a list",
        ),
        (Provider::Mistral, json!({"type": "object", "properties": {"a": true}}), "not an object"),
        (Provider::Ollama, json!({"type": "object", "properties": {"a": {"type": "file"}}}), "type is unknown"),
    ] {
        let list = match provider {
            Provider::Anthropic => json!([{"name": "t", "input_schema": schema}]),
            Provider::OpenAiResponses => json!([{"type": "function", "name": "t", "parameters": schema}]),
            Provider::Gemini => json!([{"functionDeclarations": [{"name": "t", "parameters": schema}]}]),
            Provider::Bedrock => json!({"tools": [{"toolSpec": {"name": "t", "inputSchema": {"json": schema}}}]}),
            _ => json!([{"type": "function", "function": {"name": "t", "parameters": schema}}]),
        };
        let found = Rules::of(provider).check(&list);
        assert!(found.iter().any(|violation| violation.message.contains(expected)), "{provider} {schema}: {found:?}");
        let oracle = Oracle::new(provider.as_str());
        assert_ne!(oracle.violations(&list), Vec::<String>::new(), "{provider} {schema}");

        // The renderer accepts the same schema and repairs it.
        let rendered = render([("t", &tool("t", schema.clone()))], &Options::new(provider).not_strict());
        let left_out = rendered.diagnostics.iter().any(|found| found.kind.is_left_out());
        assert!(!left_out, "{provider} {schema}: {:?}", rendered.diagnostics);
        assert_eq!(Rules::of(provider).check(&rendered.value), [], "{provider} {}", rendered.value);
    }
}

#[test]
fn costly_schemas_are_bounded() {
    for (name, tool) in costly::tools() {
        for options in Provider::ALL.map(Options::new) {
            let rendered = render([("t", &tool)], &options);
            assert_eq!(Rules::of(options.provider()).check(&rendered.value), [], "{name}");
            let size = rendered.value.to_string().len();
            let diagnostics: usize = rendered.diagnostics.iter().map(|found| found.to_string().len()).sum();
            assert!(size < 4 << 20 && diagnostics < 1 << 20, "{name}: {size} {diagnostics}");
            assert_eq!(rendered.value.is_null(), rendered.diagnostics.iter().any(|found| found.kind.is_left_out()));
        }
    }
}

#[test]
fn a_deep_schema_does_not_exhaust_the_stack() {
    for keyword in ["items", "not", "default", "additionalProperties", "const"] {
        let tool = costly::deep(keyword);
        for options in Provider::ALL.map(Options::new) {
            let rendered = render([("t", &tool)], &options);
            assert_eq!(Rules::of(options.provider()).check(&rendered.value), []);
        }
        costly::take_apart(tool, keyword);
    }
}
