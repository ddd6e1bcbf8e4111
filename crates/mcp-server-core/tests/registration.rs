//! Programming errors in registrations: a `try_` function returns an error, and the others panic at the line of the
//! caller.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
    time::Duration,
};

use mcp_protocol::PromptArgument;
use mcp_server_core::{
    Args, Inputs, Json, Limits, MessageTemplate, Parameter, ParameterType, PromptRoute, RawArgs, ResourceRoute, Server,
    ServerBuilder, TemplateRoute, ToolError, ToolRoute, prompt, prompt_template, resource, template, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind")]
#[allow(dead_code, reason = "only its schema is of interest")]
enum Choice {
    A { a: u8 },
    B { b: u8 },
}

/// The variables of a template.
#[derive(Deserialize, JsonSchema)]
struct Variables {
    path: String,
    id: u32,
    page: Option<u32>,
}

async fn read(Args(Variables { path, id, page }): Args<Variables>) -> String {
    format!("{path} {id} {page:?}")
}

async fn handler_with_inputs(_inputs: Inputs) -> Vec<String> {
    Vec::new()
}

fn builder() -> ServerBuilder {
    Server::builder("t", "1")
}

fn named(name: &str) -> ToolRoute {
    tool(name, async || "x")
}

fn with_schema(schema: Value) -> ToolRoute {
    tool("t", async |_: RawArgs| "x").input_schema(schema)
}

fn mirrored(property: Value) -> ToolRoute {
    with_schema(json!({ "type": "object", "properties": { "p": property } }))
}

#[test]
fn rejects_invalid_tools_with_a_reason() {
    let parameter =
        |kind, header: &str| tool("t", async |_: RawArgs| "x").parameters([Parameter::new("p", kind).header(header)]);
    for (route, expected_text) in [
        (named(""), "1 to 128 characters"),
        (named("a b"), "the tool `a b`: a name has"),
        (named("a/b"), "a name has"),
        (named("é"), "a name has"),
        (named(&"n".repeat(129)), "a name has"),
        (tool("t", async |_: RawArgs| "x"), "`RawArgs` needs `input_schema(…)` or `parameters(…)`"),
        (with_schema(json!(true)), "must be a JSON object"),
        (with_schema(json!({})), r#"must say "type": "object""#),
        (with_schema(json!({ "type": "array" })), r#"must have the type "object""#),
        (with_schema(json!({ "type": "object", "properties": 7 })), "input schema"),
        (with_schema(json!({ "type": "object", "required": "p" })), "input schema"),
        (with_schema(json!({ "type": "object", "$schema": "https://example.com/own" })), "https://example.com/own"),
        (with_schema(json!({ "type": "object", "$ref": "https://example.com/s.json" })), "https://example.com/s.json"),
        (with_schema(json!({ "type": "object", "$ref": "#/$defs/gone" })), "gone"),
        (tool("t", async |_: Args<Vec<String>>| "x"), r#"must have the type "object""#),
        (tool("t", async || json!(1)).output_schema(json!({ "type": "strange" })), "output schema"),
        (named("t").output_schema(json!({ "type": "string" })), "its handler returns content only"),
        (tool("t", async || vec!["x"]).output_schema(json!({ "type": "array" })), "return `Json<T>`"),
        (
            tool("t", async || -> Result<(), ToolError> { Ok(()) }).output_schema(json!({ "type": "null" })),
            "its handler returns content only",
        ),
        (mirrored(json!({ "type": "string", "x-mcp-header": "" })), "x-mcp-header"),
        (mirrored(json!({ "type": "string", "x-mcp-header": "a b" })), "x-mcp-header"),
        (mirrored(json!({ "type": "string", "x-mcp-header": "a\r\nb" })), "x-mcp-header"),
        (mirrored(json!({ "type": "number", "x-mcp-header": "A" })), "x-mcp-header"),
        (mirrored(json!({ "type": "object", "x-mcp-header": "A" })), "x-mcp-header"),
        (mirrored(json!({ "type": "array", "x-mcp-header": "A" })), "x-mcp-header"),
        (mirrored(json!({ "items": { "type": "string", "x-mcp-header": "A" } })), "x-mcp-header"),
        (mirrored(json!({ "anyOf": [{ "type": "string", "x-mcp-header": "A" }] })), "x-mcp-header"),
        (mirrored(json!({ "if": { "type": "string", "x-mcp-header": "A" } })), "x-mcp-header"),
        (
            with_schema(json!({ "type": "object", "$defs": { "d": { "type": "string", "x-mcp-header": "A" } } })),
            "x-mcp-header",
        ),
        (
            with_schema(json!({ "type": "object", "properties": {
                "a": { "type": "string", "x-mcp-header": "Key" }, "b": { "type": "string", "x-mcp-header": "kEY" }
            } })),
            "x-mcp-header",
        ),
        (parameter(ParameterType::Number, "A"), "x-mcp-header"),
        (parameter(ParameterType::Array, "A"), "x-mcp-header"),
        (parameter(ParameterType::String, "a:b"), "x-mcp-header"),
        (
            tool("t", async |_: RawArgs| "x")
                .parameters([Parameter::new("p", ParameterType::String), Parameter::new("p", ParameterType::Integer)]),
            "the parameter `p` is given twice",
        ),
        (
            tool("t", async |_: RawArgs| "x")
                .parameters([Parameter::new("p", ParameterType::Integer).default_value("ten")]),
            "the default of the parameter `p` is not of its type",
        ),
    ] {
        let shown = format!("{route:?}");
        let error = builder().try_tool(route).expect_err(&shown).to_string();
        assert!(
            error.starts_with("the tool `") && error.contains(expected_text),
            "{error} must contain {expected_text}"
        );
    }
    for name in ["a", "get_weather", "a.b-C_9", &"n".repeat(128)] {
        assert!(builder().try_tool(named(name)).is_ok(), "{name}");
    }
    for kind in [ParameterType::String, ParameterType::Integer, ParameterType::Boolean] {
        assert!(builder().try_tool(parameter(kind, "Region")).is_ok(), "{kind:?}");
    }
}

#[test]
fn accepts_output_schemas_of_any_type() {
    assert!(builder().try_tool(tool("t", async || Json(vec![1]))).is_ok());
    let null = tool("t", async || Value::Null).output_schema(json!({ "oneOf": [{ "type": "null" }] }));
    assert!(builder().try_tool(null).is_ok());
}

#[test]
fn rejects_invalid_resources_and_templates() {
    let at = |uri: &str| -> ResourceRoute { resource(uri, async || "x") };
    for uri in ["", "settings", "/etc/hosts", "1a:b", "a b:c", ":x", "a:b c", "a:\n"] {
        let error = builder().try_resource(at(uri)).expect_err(uri).to_string();
        assert!(error.contains("not a URI"), "{error}");
    }
    for uri in ["config://app", "urn:x:y", "a+b-c.d:", "file:///etc/hosts"] {
        assert!(builder().try_resource(at(uri)).is_ok(), "{uri}");
    }
    let of = |text: &str| -> TemplateRoute { template(text, async || "x") };
    for (route, expected_text) in [
        (of("a:{"), "the resource template `a:{`"),
        (of("a:{b"), "the resource template"),
        (of("a:{b}{c}"), "the resource template"),
        (of("a:{!b}"), "the resource template"),
        (of("{b}{+c}"), "the resource template"),
        (of("etc/{name}"), "scheme"),
        (of("1:{name}"), "scheme"),
        (of("a:{b}").complete_from("c", ["x"]), "there is no variable `c` to complete"),
        (of("a:{b}").complete("b", handler_with_inputs), "the completion of `b` takes `Inputs`"),
        (template("a:{pat}", read), "there is no variable `path` for the field of the arguments"),
        (template("a:{path}/b", read).with_state(()), "there is no variable `id`"),
    ] {
        let error = builder().try_resource_template(route).unwrap_err().to_string();
        assert!(error.contains(expected_text), "{error}");
    }
    for text in ["a:{b}", "file:///{+path}", "{+uri}", "s://q{?a,b}"] {
        assert!(builder().try_resource_template(of(text)).is_ok(), "{text}");
    }
    // An optional field needs no variable, and a variable needs no field.
    for text in ["a:{id}/{+path}", "a:{id}{?path,page}", "a:{id}/{path}/{other}"] {
        assert!(builder().try_resource_template(template(text, read)).is_ok(), "{text}");
    }
}

#[test]
fn rejects_invalid_prompts() {
    let named = |name: &str| -> PromptRoute { prompt(name, async || "x") };
    let twice = named("p").arguments([PromptArgument::new("a"), PromptArgument::new("a")]);
    for (route, expected_text) in [
        (named(""), "at least one character"),
        (twice, "the argument `a` is given twice"),
        (named("p").complete_from("a", ["x"]), "there is no argument `a` to complete"),
        (
            named("p").arguments([PromptArgument::new("a")]).complete("a", handler_with_inputs),
            "the completion of `a` takes `Inputs`",
        ),
        (
            prompt_template("p", [MessageTemplate::user("{a}")]).complete_from("b", ["x"]),
            "there is no argument `b` to complete",
        ),
    ] {
        let error = builder().try_prompt(route).unwrap_err().to_string();
        assert!(error.contains(expected_text), "{error}");
    }
}

#[test]
fn names_are_unique_within_their_kind() {
    let full = || {
        builder()
            .tool(named("x"))
            .prompt(prompt("x", async || "x"))
            .resource(resource("urn:x", async || "x"))
            .resource_template(template("urn:{x}", async || "x"))
    };
    // Names differ by case.
    assert!(full().try_tool(named("X")).is_ok());
    for (outcome, expected_text) in [
        (full().try_tool(named("x")).err(), "the tool `x` is already registered"),
        (full().try_prompt(prompt("x", async || "y")).err(), "the prompt `x` is already registered"),
        (full().try_resource(resource("urn:x", async || "y")).err(), "the resource `urn:x` is already registered"),
        (
            full().try_resource_template(template("urn:{x}", async || "y")).err(),
            "the resource template `urn:{x}` is already registered",
        ),
    ] {
        assert_eq!(outcome.unwrap().to_string(), expected_text);
    }
}

#[test]
fn panics_point_to_the_line_of_the_registration() {
    static SEEN: Mutex<Option<(String, u32, String)>> = Mutex::new(None);
    std::panic::set_hook(Box::new(|info| {
        let location = info.location().unwrap();
        let text = info.payload_as_str().unwrap_or_default().to_owned();
        *SEEN.lock().unwrap() = Some((location.file().to_owned(), location.line(), text));
    }));
    let mut outcomes = Vec::new();
    macro_rules! check {
        ($expected_text:literal, $call:expr) => {
            outcomes.push((
                $expected_text,
                line!(),
                catch_unwind(AssertUnwindSafe(|| drop($call))),
                SEEN.lock().unwrap().take(),
            ));
        };
    }
    check!("a name has", builder().tool(named("a b")));
    check!("is already registered", builder().tool(named("a")).tool(named("a")));
    check!("not a URI", builder().resource(resource("a", async || "x")));
    check!("the resource template", builder().resource_template(template("a:{", async || "x")));
    check!("at least one character", builder().prompt(prompt("", async || "x")));
    check!("at least one revision", builder().versions([]));
    check!("use `template` for a URI template", builder().resource(resource("x:///{a}", async || "x")));
    check!("its `timeout` is zero", builder().tool(named("a").timeout(Duration::ZERO)));
    check!("a server has a name", Server::builder::<()>("", "1"));
    check!("a server has a name", Server::builder::<()>(" ", "1"));
    check!("`page_size` is zero", builder().page_size(0));
    check!("`inputs.roots` is zero", builder().limits(|limits| limits.inputs.roots = Duration::ZERO));
    drop(std::panic::take_hook());
    for (expected_text, expected, outcome, seen) in outcomes {
        assert!(outcome.is_err(), "{expected_text}");
        let (file, line, text) = seen.unwrap();
        assert!(file.ends_with("registration.rs"), "{expected_text}: {file}");
        assert_eq!(line, expected, "{expected_text}");
        assert!(text.contains(expected_text), "{text}");
    }
}

#[test]
fn limits_accept_zero_only_where_it_has_a_meaning() {
    type Set = fn(&mut Limits);
    let cases: &[(&str, Set)] = &[
        ("handlers_per_session", |limits| limits.handlers_per_session = 0),
        ("handlers", |limits| limits.handlers = 0),
        ("tool_timeout", |limits| limits.tool_timeout = Duration::ZERO),
        ("read_timeout", |limits| limits.read_timeout = Duration::ZERO),
        ("page_entries", |limits| limits.page_entries = 0),
        ("page_bytes", |limits| limits.page_bytes = 0),
        ("json_depth", |limits| limits.json_depth = 0),
        ("inputs.elicitation", |limits| limits.inputs.elicitation = Duration::ZERO),
        ("inputs.sampling", |limits| limits.inputs.sampling = Duration::ZERO),
        ("inputs.state", |limits| limits.inputs.state = Duration::ZERO),
        ("tasks.ttl", |limits| limits.tasks.ttl = Duration::ZERO),
        ("tasks.max_ttl", |limits| limits.tasks.max_ttl = Duration::ZERO),
        ("tasks.poll_interval", |limits| limits.tasks.poll_interval = Duration::ZERO),
    ];
    for (name, set) in cases {
        let panic = catch_unwind(|| builder().limits(*set)).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains(&format!("`{name}` is zero")), "{text}");
    }
    drop(builder().limits(|limits| {
        limits.drain = Duration::ZERO;
        limits.listen_streams_per_principal = 0;
        limits.listen_streams = 0;
        limits.subscribed_uris = 0;
        limits.inputs.state_bytes = 0;
        limits.tasks.per_principal = 0;
        limits.tasks.unauthenticated = 0;
    }));
}
