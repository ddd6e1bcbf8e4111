//! The pages of `docs/providers`: each block is the output of the crate.
//!
//! A block follows a line `<!-- block: NAME -->`. `UPDATE_PAGES=1 cargo test -p mcp-tool-format --test pages` writes the
//! blocks anew.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use std::{collections::BTreeMap, path::PathBuf};

use mcp_protocol::{CallToolResult, ContentBlock, JsonObject, Resource, Tool};
use mcp_tool_format::{
    Call, ContentOptions, FormatRule, MediaRules, NullForm, Options, PatternRule, Provider, Rules, qualified_name,
    render,
};
use serde_json::{Value, json};

use self::common::tool;

fn example() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "description": "Words of the note."},
            "page.size": {"type": "integer", "minimum": 1, "default": 20},
            "after": {"type": ["string", "null"], "format": "date-time"},
            "order": {"oneOf": [{"const": "newest"}, {"const": "oldest"}]},
        },
        "required": ["text"],
        "additionalProperties": false,
    });
    let mut tool = tool("search", schema);
    tool.description = Some("Find notes by their text.".to_owned());
    tool
}

fn result() -> CallToolResult {
    CallToolResult::new(vec![
        ContentBlock::text("2 notes"),
        ContentBlock::image(b"\x89PNG\r\n\x1a\n", "image/png"),
        ContentBlock::resource_link(Resource::new("note://7", "milk").with_mime_type("text/plain")),
    ])
}

/// Returns a call as the model of a provider writes it.
fn call(provider: Provider, name: &str, arguments: JsonObject) -> Value {
    let arguments = Value::from(arguments);
    match provider {
        Provider::Anthropic => json!({"type": "tool_use", "id": "toolu_01", "name": name, "input": arguments}),
        Provider::OpenAiResponses => json!({
            "type": "function_call", "id": "fc_01", "call_id": "call_01", "name": name, "arguments": arguments.to_string(),
        }),
        Provider::Gemini => json!({"functionCall": {"name": name, "args": arguments}, "thoughtSignature": "c2ln"}),
        Provider::Bedrock => json!({"toolUse": {"toolUseId": "tooluse_01", "name": name, "input": arguments}}),
        Provider::Ollama => json!({"function": {"name": name, "arguments": arguments}}),
        _ => {
            let id = if provider == Provider::Mistral { "D681PevKs" } else { "call_01" };
            json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}})
        }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// Returns the blocks of the page of a provider.
fn blocks(provider: Provider) -> BTreeMap<&'static str, String> {
    let (tool, result) = (example(), result());
    let name = qualified_name("notes", &tool.name);
    let rendered = render([(name.as_str(), &tool)], &Options::new(provider));
    let mut request = JsonObject::new();
    rendered.add_to(&mut request);
    let diagnostics: Vec<String> = rendered.diagnostics.iter().map(ToString::to_string).collect();

    let given = json!({"text": "milk", "page.size": 10, "after": null});
    let given = rendered.provider_arguments(&name, JsonObject::from_value(given).unwrap());
    let block = call(provider, &name, given);
    let call = Call::parse(&rendered, &block).unwrap();
    let mut messages = rendered.call_messages(std::slice::from_ref(&call));
    messages.extend(rendered.result_messages([(&call, &result)], &ContentOptions::new()).messages);
    BTreeMap::from([
        ("mcp-tool", pretty(&serde_json::to_value(&tool).unwrap())),
        ("tools", pretty(&request.into())),
        ("diagnostics", if diagnostics.is_empty() { "none".to_owned() } else { diagnostics.join("\n") }),
        ("call", pretty(&block)),
        ("mcp-call", pretty(&json!({"name": tool.name, "arguments": call.arguments}))),
        ("mcp-result", pretty(&serde_json::to_value(&result).unwrap())),
        ("messages", pretty(&messages.into())),
        ("rules", rules(provider)),
    ])
}

/// Returns the rules as the rows of a table.
fn rules(provider: Provider) -> String {
    let (rules, media) = (Rules::of(provider), MediaRules::of(provider));
    let number = |limit: Option<usize>| limit.map_or_else(|| "no known limit".to_owned(), |limit| limit.to_string());
    let yes = |holds: bool| if holds { "yes" } else { "no" }.to_owned();
    let list = |items: &[&str]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let key = rules.key.map_or_else(
        || "every key".to_owned(),
        |key| {
            let first = if key.first.contains('0') { "letter, digit" } else { "letter" };
            format!("a {first} or `_` first, at most {} characters, beside letters and digits `{}`", key.max, key.rest)
        },
    );
    let strict = if Rules::strict(provider).is_some() {
        if provider == Provider::Anthropic { "on request" } else { "where a tool is eligible" }
    } else {
        "no"
    };
    [
        ("tools in a request", number(rules.max_tools)),
        ("characters of a description", number(rules.max_description)),
        ("property keys", key),
        (
            "values that accept `null`",
            match rules.null {
                NullForm::TypeList => "a type list",
                NullForm::AnyOf => "`anyOf` with the type `null`",
                _ => "`nullable`",
            }
            .to_owned(),
        ),
        (
            "formats",
            match rules.formats {
                FormatRule::Only(formats) => list(formats),
                _ => "every format".to_owned(),
            },
        ),
        (
            "patterns",
            if rules.patterns == PatternRule::Linear {
                "without lookaround, back references and `\\p`"
            } else {
                "every pattern"
            }
            .to_owned(),
        ),
        ("`items` of an array required", yes(rules.items_required)),
        ("`strict`", strict.to_owned()),
        ("images", list(media.images)),
        ("PDF documents", yes(media.pdf)),
        ("sound", list(media.audio)),
        ("most images of a turn", media.max_images.to_string()),
        ("most documents and sounds of a turn", media.max_documents.to_string()),
        ("media inside of results", yes(media.in_results)),
    ]
    .iter()
    .map(|(rule, value)| format!("{rule}: {value}"))
    .collect::<Vec<_>>()
    .join("\n")
}

fn page(provider: Provider) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/providers/{provider}.md"))
}

/// Returns the page with these blocks, and the names of the blocks in it.
fn fill(page: &str, blocks: &BTreeMap<&'static str, String>) -> (String, Vec<String>) {
    let (mut out, mut names) = (String::new(), Vec::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let Some(name) = line.strip_prefix("<!-- block: ").and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        let fence = lines.next().unwrap();
        assert!(fence.starts_with("```"), "{name}: {fence}");
        for old in lines.by_ref() {
            if old == "```" {
                break;
            }
        }
        out.push_str(&format!("{fence}\n{}\n```\n", blocks[name]));
        names.push(name.to_owned());
    }
    (out, names)
}

#[test]
fn each_page_shows_the_requests_before_and_after() {
    let update = std::env::var_os("UPDATE_PAGES").is_some();
    for provider in Provider::ALL {
        let blocks = blocks(provider);
        let old = std::fs::read_to_string(page(provider)).unwrap();
        let (new, mut names) = fill(&old, &blocks);
        if update {
            std::fs::write(page(provider), &new).unwrap();
        } else {
            assert!(
                old == new,
                "{provider}: the blocks of the page are not those of the crate: run it with UPDATE_PAGES=1"
            );
        }
        names.sort();
        assert_eq!(names, blocks.keys().copied().collect::<Vec<_>>(), "{provider}");
    }
}

#[test]
fn the_summary_lists_each_page() {
    let summary = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SUMMARY.md")).unwrap();
    for provider in Provider::ALL {
        assert!(summary.contains(&format!("](providers/{provider}.md)")), "{provider}");
    }
}

#[test]
fn a_tool_without_a_description_and_a_schema_has_the_shape_of_the_provider() {
    let tool: Tool =
        serde_json::from_value(json!({"name": "now", "inputSchema": {}, "title": "", "extra": 1})).unwrap();
    let schema = json!({"type": "object", "properties": {}});
    for (provider, expected) in [
        (Provider::Anthropic, json!([{"name": "now", "input_schema": schema}])),
        (Provider::OpenAiChat, json!([{"type": "function", "function": {"name": "now", "parameters": schema}}])),
        (
            Provider::OpenAiResponses,
            json!([{"type": "function", "name": "now", "parameters": schema, "strict": false}]),
        ),
        (Provider::Gemini, json!([{"functionDeclarations": [{"name": "now"}]}])),
        (Provider::Bedrock, json!([{"toolSpec": {"name": "now", "inputSchema": {"json": schema}}}])),
        (Provider::Mistral, json!([{"type": "function", "function": {"name": "now", "parameters": schema}}])),
        (Provider::Ollama, json!([{"type": "function", "function": {"name": "now", "parameters": schema}}])),
    ] {
        let rendered = render([("now", &tool)], &Options::new(provider).not_strict());
        assert_eq!(*rendered.tools(), expected, "{provider}");
    }
}
