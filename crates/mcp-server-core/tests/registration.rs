//! Programming errors in registrations: a `try_` function returns an error, and the others panic at the line of the
//! caller.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_protocol::PromptArgument;
use mcp_server_core::{
    Args, Completing, Inputs, Json, Limits, MessageTemplate, Parameter, ParameterType, PromptRoute, RawArgs,
    ResourceRoute, ResourceUri, Server, ServerBuilder, TemplateRoute, ToolError, ToolRoute, check, prompt,
    prompt_template, resource, template, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    layer::{Context as LayerContext, SubscriberExt as _},
};

use crate::common::subscribe;

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind")]
#[allow(dead_code, reason = "only its schema is of interest")]
enum Choice {
    A { a: u8 },
    B { b: u8 },
}

#[derive(Deserialize, JsonSchema)]
enum Plain {
    /// The first value.
    First,
    Second,
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

#[derive(Deserialize, JsonSchema)]
struct Nested<T> {
    inner: T,
}

/// A tool, a resource, a template or a prompt whose handler takes one argument with the field `inner`.
async fn with_field<T>(Args(nested): Args<Nested<T>>) -> String
where
    T: serde::de::DeserializeOwned + JsonSchema,
{
    drop(nested.inner);
    String::new()
}

async fn completing(completing: Completing) -> String {
    completing.value
}

async fn at_uri(ResourceUri(uri): ResourceUri) -> String {
    uri
}

async fn values_at_uri(ResourceUri(uri): ResourceUri) -> Vec<String> {
    vec![uri]
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
        (tool("t", completing), "the handler takes `Completing`, which only handlers of completions have: remove"),
        (tool("t", at_uri), "the handler takes `ResourceUri`, which only handlers of resources have: remove"),
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
    for (route, expected_text) in [
        (resource("a:b", completing), "the resource `a:b`: the handler takes `Completing`"),
        (resource("a:b", with_field::<u8>), "the resource `a:b`: its handler needs the argument `inner`"),
        (resource("a:b", with_field::<u8>).with_state(()), "use `template` for a URI with variables"),
    ] {
        let error = builder().try_resource(route).unwrap_err().to_string();
        assert!(error.contains(expected_text), "{error}");
    }
    assert!(builder().try_resource(resource("a:b", with_field::<Option<u8>>)).is_ok());
    assert!(builder().try_resource(resource("a:b", at_uri)).is_ok());
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
        (of("a:{b}").complete("b", values_at_uri), "the completion of `b`: the handler takes `ResourceUri`"),
        (template("a:{b}", completing), "the resource template `a:{b}`: the handler takes `Completing`"),
        (
            template("a:{inner}", with_field::<Variables>),
            "the argument `inner` is an object, but the client sends a text",
        ),
        (template("a:{pat}", read), "there is no variable `path` for the field of the arguments"),
        (template("a:{path}/b", read).with_state(()), "there is no variable `id`"),
    ] {
        let error = builder().try_resource_template(route).unwrap_err().to_string();
        assert!(error.contains(expected_text), "{error}");
    }
    for text in ["a:{b}", "file:///{+path}", "{+uri}", "s://q{?a,b}"] {
        assert!(builder().try_resource_template(of(text)).is_ok(), "{text}");
    }
    assert!(builder().try_resource_template(template("a:{inner*}", with_field::<Vec<String>>)).is_ok());
    // The client cannot send a field without a variable.
    assert!(builder().try_resource_template(template("a:{id}", with_field::<Option<Variables>>)).is_ok());
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
            named("p").arguments([PromptArgument::new("a")]).complete("a", values_at_uri),
            "the completion of `a`: the handler",
        ),
        (prompt("p", completing), "the prompt `p`: the handler takes `Completing`"),
        (prompt("p", at_uri), "the prompt `p`: the handler takes `ResourceUri`"),
        (
            prompt("p", with_field::<Vec<String>>),
            "the argument `inner` is an object or a list, but the client sends one text",
        ),
        (prompt("p", with_field::<Variables>), "use `String`, a number, `bool` or an enum"),
        (prompt("p", with_field::<Option<Variables>>).with_state(()), "the argument `inner` is an object or a list"),
        (prompt("p", with_field::<Choice>), "add `#[schemars(with = \"String\")]`"),
        (prompt("p", with_field::<(u8, u8)>), "the argument `inner` is an object or a list"),
        (
            prompt_template("p", [MessageTemplate::user("{a}")]).complete_from("b", ["x"]),
            "there is no argument `b` to complete",
        ),
    ] {
        let error = builder().try_prompt(route).unwrap_err().to_string();
        assert!(error.contains(expected_text), "{error}");
    }
    for route in [
        prompt("p", with_field::<String>),
        prompt("p", with_field::<Option<u8>>),
        prompt("p", with_field::<bool>),
        prompt("p", with_field::<Value>),
        prompt("p", with_field::<Plain>),
        prompt("p", with_field::<Option<Plain>>),
    ] {
        let shown = format!("{route:?}");
        assert!(builder().try_prompt(route).is_ok(), "{shown}");
    }
}

#[test]
fn a_nested_form_is_found_before_a_call() {
    assert_eq!(check::form::<Nested<Option<String>>>(), Ok(()));
    assert_eq!(check::form::<Nested<Plain>>(), Ok(()));
    for (outcome, expected_text) in [
        (check::form::<Nested<Variables>>(), "`inner` is an object, and the fields of a form cannot be nested"),
        (check::form::<Nested<Vec<u8>>>(), "`inner` is a list"),
        (check::form::<Vec<String>>(), "a struct with named fields"),
    ] {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(expected_text), "{error}");
    }
}

/// The tools that a warning names.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "tool" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _context: LayerContext<'_, S>) {
        if *event.metadata().level() == Level::WARN {
            event.record(&mut self.clone());
        }
    }
}

#[test]
fn a_tool_without_a_description_is_reported() {
    let warnings = Warnings::default();
    let guard = subscribe(tracing_subscriber::registry().with(warnings.clone()));
    let server = builder()
        .tool(named("bare"))
        .tool(named("blank").description(" "))
        .tool(named("described").description("Does nothing."))
        .tool(tool("documented", read))
        .build();
    server.tools().add(named("late")).unwrap();
    drop(guard);
    assert_eq!(*warnings.0.lock().unwrap(), ["bare", "blank", "late"]);
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
    let panic = catch_unwind(|| builder().limits(|limits| limits.node.renewal = limits.node.lease)).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert_eq!(text, "the limit `node.renewal` is 4s, but must be shorter than `node.lease`, 4s");
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
