//! Budgets, deferred tools, cache marks and `strict`.

mod common;

use mcp_protocol::{JsonObject, Tool};
use mcp_tool_format::{DiagnosticKind, Options, Provider, Rendered, Rules, render};
use serde_json::{Value, json};

use self::common::{oracle::Oracle, tool};

/// Returns tools with the names `t0`, `t1` and so on.
fn tools(count: usize) -> Vec<(String, Tool)> {
    let schema = || json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": false});
    (0..count).map(|n| (format!("t{n}"), tool("t", schema()))).collect()
}

fn rendered(tools: &[(String, Tool)], options: &Options) -> Rendered {
    let rendered = render(tools.iter().map(|(name, tool)| (name.as_str(), tool)), options);
    let oracle = Oracle::new(options.provider().as_str());
    assert_eq!(oracle.violations(&rendered.value), Vec::<String>::new(), "{}", options.provider());
    assert_eq!(Rules::of(options.provider()).check(&rendered.value), []);
    rendered
}

fn kinds(rendered: &Rendered, kind: DiagnosticKind) -> Vec<&str> {
    rendered.diagnostics.iter().filter(|found| found.kind == kind).map(|found| found.tool.as_str()).collect()
}

#[test]
fn the_first_tools_within_the_budget_of_the_provider_stay() {
    let many = tools(600);
    for (provider, max) in [
        (Provider::Anthropic, 600),
        (Provider::OpenAiChat, 128),
        (Provider::OpenAiResponses, 128),
        (Provider::Gemini, 512),
        (Provider::Bedrock, 128),
        (Provider::Mistral, 128),
        (Provider::Ollama, 128),
    ] {
        let found = rendered(&many, &Options::new(provider));
        let names: Vec<&str> = found.names().map(|(name, _)| name).collect();
        let expected: Vec<&str> = many[..max].iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected, "{provider}");
        assert_eq!(kinds(&found, DiagnosticKind::OverBudget).len(), 600 - max, "{provider}");
        let found = rendered(&many, &Options::new(provider).max_tools(5));
        assert_eq!(found.names().count(), 5);
        let found = rendered(&many, &Options::new(provider).max_tools(10_000));
        assert_eq!(found.names().count(), max);
    }
}

#[test]
fn a_budget_of_bytes_bounds_the_definitions() {
    let many = tools(100);
    for provider in Provider::ALL {
        let found = rendered(&many, &Options::new(provider).max_bytes(2_000));
        let count = found.names().count();
        assert!((5..30).contains(&count), "{provider}: {count}");
        assert!(found.value.to_string().len() <= 2_100, "{provider}");
        assert_eq!(kinds(&found, DiagnosticKind::OverBudget).len(), 100 - count);
        let found = rendered(&many, &Options::new(provider).max_bytes(0));
        assert!(found.value.is_null());
        let mut request = JsonObject::new();
        found.add_to(&mut request);
        assert!(request.is_empty());
    }
}

#[test]
fn a_deferred_tool_has_no_cache_mark() {
    let three = tools(3);
    for deferred in [vec![], vec!["t2"], vec!["t1", "t2"], vec!["t0", "t1", "t2"]] {
        let options = Options::new(Provider::Anthropic).deferred(deferred.clone()).cached();
        let list = rendered(&three, &options).value;
        let list = list.as_array().unwrap();
        let with = |key: &str| list.iter().filter(|tool| tool.get(key).is_some()).count();
        assert_eq!(with("defer_loading"), deferred.len());
        assert_eq!(with("cache_control"), usize::from(deferred.len() < 3));
        assert!(list.iter().all(|tool| tool.get("defer_loading").is_none() || tool.get("cache_control").is_none()));
        // The search tool is a tool of the request, and it is never deferred.
        let searches: Vec<&Value> = list.iter().filter(|tool| tool.get("input_schema").is_none()).collect();
        assert_eq!(searches.len(), usize::from(!deferred.is_empty()));
        assert!(searches.iter().all(|tool| tool.get("defer_loading").is_none()));
    }
    let pair = json!([{"name": "a", "input_schema": {"type": "object"}, "defer_loading": true, "cache_control": {"type": "ephemeral"}}]);
    assert!(!Rules::of(Provider::Anthropic).check(&pair).is_empty());
    assert!(!Oracle::new("anthropic").violations(&pair).is_empty());
}

#[test]
fn a_provider_without_deferred_tools_reports_them() {
    let three = tools(3);
    for provider in Provider::ALL {
        let found = rendered(&three, &Options::new(provider).deferred(["t1"]));
        let text = found.value.to_string();
        let native = matches!(provider, Provider::Anthropic | Provider::OpenAiResponses);
        assert_eq!(text.contains("defer_loading"), native, "{provider}");
        assert_eq!(kinds(&found, DiagnosticKind::NotDeferred), if native { vec![] } else { vec!["t1"] });
        assert_eq!(found.names().count(), 3);
    }
    // The search tool counts for the limit of the provider.
    let found = rendered(&tools(200), &Options::new(Provider::OpenAiResponses).deferred(["t0"]));
    assert_eq!((found.names().count(), found.value.as_array().unwrap().len()), (127, 128));
}

#[test]
fn cache_marks_are_those_of_the_provider() {
    let two = tools(2);
    for provider in Provider::ALL {
        let text = rendered(&two, &Options::new(provider).cached()).value.to_string();
        assert_eq!(text.contains("cache_control"), provider == Provider::Anthropic);
        assert_eq!(text.contains("cachePoint"), provider == Provider::Bedrock);
    }
}

#[test]
fn eligible_tools_of_openai_are_strict_by_default_and_those_of_anthropic_are_not() {
    let one = tools(1);
    for (provider, default, asked) in [
        (Provider::Anthropic, false, true),
        (Provider::OpenAiChat, true, true),
        (Provider::OpenAiResponses, true, true),
        (Provider::Gemini, false, false),
        (Provider::Bedrock, false, false),
        (Provider::Mistral, false, false),
        (Provider::Ollama, false, false),
    ] {
        let strict = |options: &Options| rendered(&one, options).value.to_string().contains(r#""strict":true"#);
        assert_eq!(strict(&Options::new(provider)), default, "{provider}");
        assert_eq!(strict(&Options::new(provider).strict()), asked, "{provider}");
        assert!(!strict(&Options::new(provider).not_strict()), "{provider}");
    }
}

#[test]
fn tools_that_are_not_eligible_are_not_strict() {
    let object =
        |property: Value| json!({"type": "object", "properties": {"a": property}, "additionalProperties": false});
    let deep = (0..12).fold(json!({"type": "string"}), |inner, _| object(inner));
    let wide: serde_json::Map<String, Value> =
        (0..5_001).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    let values: Vec<String> = (0..1_001).map(|n| n.to_string()).collect();
    let long: Vec<String> = (0..300).map(|n| format!("{n}{}", "x".repeat(60))).collect();
    let branch =
        |other: &str| json!({"type": "object", "properties": {"kind": {"type": "string"}, other: {"type": "string"}}});
    for (name, schema) in [
        (
            "free properties",
            json!({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": true}}}),
        ),
        ("a record", object(json!({"type": "object", "additionalProperties": {"type": "string"}}))),
        ("no type", object(json!({}))),
        ("free items", object(json!({"type": "array"}))),
        ("too deep", deep),
        ("too wide", json!({"type": "object", "properties": wide})),
        ("too many values", object(json!({"enum": values}))),
        ("a large enum", object(json!({"enum": long}))),
        ("equal first keys", object(json!({"anyOf": [branch("x"), branch("y")]}))),
    ] {
        let list = [("t".to_owned(), tool("t", schema))];
        for provider in [Provider::OpenAiChat, Provider::OpenAiResponses] {
            let found = rendered(&list, &Options::new(provider).strict());
            assert!(!found.value.to_string().contains(r#""strict":true"#), "{provider} {name}");
            assert_eq!(kinds(&found, DiagnosticKind::NotStrict), ["t"], "{provider} {name}");
            // Without a wish for `strict` this is not a loss.
            let found = rendered(&list, &Options::new(provider));
            assert_eq!(kinds(&found, DiagnosticKind::NotStrict), Vec::<&str>::new());
        }
    }
}

#[test]
fn the_strict_tools_of_an_anthropic_request_have_a_budget() {
    let strict = |found: &Rendered| found.value.to_string().matches(r#""strict":true"#).count();
    let found = rendered(&tools(30), &Options::new(Provider::Anthropic).strict());
    assert_eq!((strict(&found), found.names().count()), (20, 30));
    assert_eq!(kinds(&found, DiagnosticKind::NotStrict).len(), 10);
    let optional = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"}}});
    let many: Vec<(String, Tool)> = (0..10).map(|n| (format!("t{n}"), tool("t", optional.clone()))).collect();
    assert_eq!(strict(&rendered(&many, &Options::new(Provider::Anthropic).strict())), 8);
    let unions = json!({"type": "object", "properties": {"a": {"type": ["string", "integer"]}}, "required": ["a"]});
    let many: Vec<(String, Tool)> = (0..19).map(|n| (format!("t{n}"), tool("t", unions.clone()))).collect();
    assert_eq!(strict(&rendered(&many, &Options::new(Provider::Anthropic).strict())), 16);
}

#[test]
fn older_deployments_have_lower_limits() {
    let wide: serde_json::Map<String, Value> = (0..150).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    let deep = (0..6).fold(json!({"type": "string"}), |inner, _| json!({"type": "object", "properties": {"a": inner}}));
    for schema in [json!({"type": "object", "properties": wide}), deep] {
        let list = [("t".to_owned(), tool("t", schema))];
        let strict = |options: Options| rendered(&list, &options).value[0]["strict"] == true;
        assert!(strict(Options::new(Provider::OpenAiResponses)));
        assert!(!strict(Options::new(Provider::OpenAiResponses).early_strict()));
    }
}

#[test]
fn strict_of_gemini_is_a_mode_of_the_request() {
    let one = tools(1);
    let mode = |options: Options, request: JsonObject| {
        let mut request = request;
        rendered(&one, &options).add_to(&mut request);
        Value::from(request).pointer("/toolConfig/functionCallingConfig/mode").cloned()
    };
    let own = JsonObject::new().with("toolConfig", json!({"functionCallingConfig": {"mode": "ANY"}}));
    assert_eq!(mode(Options::new(Provider::Gemini), JsonObject::new()), None);
    assert_eq!(mode(Options::new(Provider::Gemini).strict(), JsonObject::new()), Some(json!("VALIDATED")));
    assert_eq!(mode(Options::new(Provider::Gemini).strict(), own), Some(json!("ANY")));
}

#[test]
fn a_long_description_is_cut_for_openai() {
    let mut long = tools(1);
    long[0].1.description = Some("A sentence about it. ".repeat(100));
    for provider in Provider::ALL {
        let found = rendered(&long, &Options::new(provider));
        let cut = matches!(provider, Provider::OpenAiChat | Provider::OpenAiResponses);
        assert_eq!(kinds(&found, DiagnosticKind::Shortened).len(), usize::from(cut), "{provider}");
        assert_eq!(found.value.to_string().contains("about it.…"), cut, "{provider}");
    }
}

#[test]
fn strict_moves_refused_keywords_to_the_description() {
    let schema = json!({
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "string"}, "minItems": 3, "uniqueItems": true},
            "text": {"type": "string", "minLength": 2, "pattern": "^(?!x)", "format": "uri", "default": "ab"},
        },
        "required": ["list", "text"],
    });
    let list = [("t".to_owned(), tool("t", schema))];
    for (provider, kept, moved) in [
        (Provider::Anthropic, vec!["format"], vec!["minItems: 3", "uniqueItems", "minLength: 2", "pattern", "default"]),
        (Provider::OpenAiChat, vec!["minItems"], vec!["uniqueItems", "minLength: 2", "pattern", "format", "default"]),
    ] {
        let found = rendered(&list, &Options::new(provider).strict());
        let text = found.value.to_string();
        assert!(text.contains(r#""strict":true"#), "{provider}");
        for keyword in kept {
            assert!(text.contains(&format!(r#""{keyword}":"#)), "{provider} {keyword}: {text}");
        }
        for note in moved {
            let keyword = note.split(':').next().unwrap();
            assert!(text.contains(note) && !text.contains(&format!(r#""{keyword}":"#)), "{provider} {note}: {text}");
        }
    }
}
