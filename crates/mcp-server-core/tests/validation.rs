//! Validation before and after the handler of a tool.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use mcp_protocol::{CallToolResult, ErrorCode};
use mcp_server_core::{Args, Json, Parameter, ParameterType, RawArgs, Server, State, ToolError, ToolRoute, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Celsius,
    Kelvin,
}

#[derive(Deserialize, JsonSchema)]
struct Place {
    #[schemars(range(min = -90.0, max = 90.0))]
    latitude: f64,
    #[schemars(length(min = 2))]
    tags: Option<Vec<String>>,
}

#[derive(Deserialize, JsonSchema)]
struct Forecast {
    place: Place,
    unit: Option<Unit>,
    #[serde(default)]
    days: u8,
}

fn server<S: Clone + Send + Sync + 'static>(route: ToolRoute<S>, state: S) -> Server {
    Server::builder("t", "1").tool(route).with_state(state).build()
}

/// The error text of a tool result. `None` means success.
fn complaint(result: &CallToolResult) -> Option<&str> {
    result.is_error.then(|| result.content[0].as_text().unwrap())
}

#[tokio::test]
async fn reports_invalid_arguments_with_their_location_before_the_handler_runs() {
    let runs = Arc::new(AtomicUsize::new(0));
    let handler = async |State(runs): State<Arc<AtomicUsize>>, Args(forecast): Args<Forecast>| {
        runs.fetch_add(1, Ordering::Relaxed);
        let unit = match forecast.unit {
            Some(Unit::Kelvin) => "K",
            Some(Unit::Celsius) | None => "C",
        };
        let tags = forecast.place.tags.map_or(0, |tags| tags.len());
        format!("{} {unit} {} {tags}", forecast.place.latitude, forecast.days)
    };
    let server = server(tool("forecast", handler), runs.clone());
    for (arguments, expected_text) in [
        (json!({}), r#"Invalid arguments: the required property "place" is missing"#),
        (json!({ "place": {} }), r#"`/place`: the required property "latitude" is missing"#),
        (json!({ "place": { "latitude": "north" } }), "`/place/latitude`: expected a number, got a string"),
        (json!({ "place": { "latitude": 91 } }), "`/place/latitude`: must be at most 90"),
        (json!({ "place": { "latitude": 1, "tags": ["a"] } }), "`/place/tags`: must have at least 2 items, got 1"),
        (json!({ "place": { "latitude": 1, "tags": ["a", 7] } }), "`/place/tags/1`: expected a string"),
        (json!({ "place": { "latitude": 1 }, "unit": "f" }), "`/unit`"),
        (json!({ "place": { "latitude": 1 }, "days": 1.5 }), "`/days`: expected an integer, got 1.5"),
        (json!({ "place": { "latitude": 1 }, "days": 256 }), "`/days`: must be at most 255"),
    ] {
        let result = server.call_tool("forecast", arguments.clone()).await.unwrap();
        assert!(complaint(&result).unwrap().contains(expected_text), "{arguments}: {result:?}");
    }
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    let fits = json!({ "place": { "latitude": 1.5, "tags": ["a", "b"] }, "unit": "kelvin", "days": 2, "unknown": 1 });
    let result = server.call_tool("forecast", fits).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("1.5 K 2 2"));
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn reports_values_that_only_the_rust_type_rejects_to_the_model() {
    #[derive(Deserialize, JsonSchema)]
    struct Host {
        ip: Ipv4Addr,
    }
    let server = server(tool("ping", async |Args(Host { ip }): Args<Host>| ip.octets()[3].to_string()), ());
    let result = server.call_tool("ping", json!({ "ip": "10.0.0.7" })).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("7"));
    let result = server.call_tool("ping", json!({ "ip": "10.0.0.777" })).await.unwrap();
    assert!(complaint(&result).unwrap().starts_with("Invalid arguments: "), "{result:?}");
}

#[tokio::test]
async fn rejects_a_number_beyond_the_range_of_its_type() {
    #[derive(Deserialize, JsonSchema)]
    struct Scale {
        by: f32,
        more: Option<Vec<f32>>,
    }
    let handler = async |Args(Scale { by, more }): Args<Scale>| format!("{by} {more:?}");
    let server = server(tool("scale", handler), ());
    for (arguments, expected_text) in [
        (json!({ "by": 1e300 }), "`/by`: must be at most 3"),
        (json!({ "by": -1e39 }), "`/by`: must be at least -3"),
        (json!({ "by": 1, "more": [0.5, 1e39] }), "`/more/1`: must be at most 3"),
    ] {
        let result = server.call_tool("scale", arguments.clone()).await.unwrap();
        assert!(complaint(&result).unwrap().contains(expected_text), "{arguments}: {result:?}");
    }
    let most = server.call_tool("scale", json!({ "by": f32::MAX, "more": [f32::MIN] })).await.unwrap();
    assert_eq!(most.content[0].as_text(), Some(&*format!("{} {:?}", f32::MAX, Some([f32::MIN]))));
}

#[tokio::test]
async fn arguments_must_be_an_object_or_absent() {
    let server = server(tool("bare", async || "ran"), ());
    for none in [json!({}), Value::Null] {
        assert_eq!(server.call_tool("bare", none).await.unwrap().content[0].as_text(), Some("ran"));
    }
    for wrong in [json!([]), json!("x"), json!(1)] {
        let error = server.call_tool("bare", wrong).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
    }
    let result = server.call_tool("bare", json!({ "surprise": 1 })).await.unwrap();
    assert_eq!(complaint(&result), Some("Invalid arguments: no properties are allowed here"));
}

#[tokio::test]
async fn input_validation_can_be_disabled() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let route = || tool("raw", async |RawArgs(args): RawArgs| json!(args)).input_schema(schema.clone());
    let wrong = json!({ "n": "seven", "m": null });
    let checked = server(route(), ()).call_tool("raw", wrong.clone()).await.unwrap();
    assert!(complaint(&checked).unwrap().contains("`/n`"));
    let passed = server(route().skip_input_validation(), ()).call_tool("raw", wrong.clone()).await.unwrap();
    assert_eq!(complaint(&passed), None);
    assert_eq!(passed.content[0].as_text(), Some(&*wrong.to_string()));
}

#[tokio::test]
async fn enforces_keywords_of_2020_12() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {
            "pair": { "prefixItems": [{ "type": "string" }, { "$ref": "#/$defs/size" }], "items": false },
            "kind": { "const": "a" }
        },
        "$defs": { "size": { "type": "integer", "exclusiveMinimum": 0 } },
        "dependentRequired": { "kind": ["pair"] },
        "if": { "required": ["kind"] }, "then": { "minProperties": 2 },
        "unevaluatedProperties": false
    });
    let server = server(tool("raw", async |_: RawArgs| "ran").input_schema(schema), ());
    for (arguments, fits) in [
        (json!({}), true),
        (json!({ "pair": ["a", 1] }), true),
        (json!({ "pair": ["a", 1], "kind": "a" }), true),
        (json!({ "pair": ["a", 0] }), false),
        (json!({ "pair": ["a", 1, 2] }), false),
        (json!({ "kind": "a" }), false),
        (json!({ "pair": ["a", 1], "kind": "b" }), false),
        (json!({ "other": 1 }), false),
    ] {
        let result = server.call_tool("raw", arguments.clone()).await.unwrap();
        assert_eq!(complaint(&result).is_none(), fits, "{arguments}: {result:?}");
    }
}

#[tokio::test]
async fn inserts_parameter_defaults_before_validation() {
    let route = tool("search", async |RawArgs(args): RawArgs| json!(args)).parameters([
        Parameter::new("query", ParameterType::String).required(),
        Parameter::new("limit", ParameterType::Integer).default_value(10),
        Parameter::new("fuzzy", ParameterType::Boolean).required().default_value(false),
        Parameter::new("after", ParameterType::String),
    ]);
    let server = server(route, ());
    for (arguments, got) in [
        (json!({ "query": "a" }), json!({ "query": "a", "limit": 10, "fuzzy": false })),
        (json!({ "query": "a", "limit": 3, "fuzzy": true }), json!({ "query": "a", "limit": 3, "fuzzy": true })),
        (json!({ "query": "a", "after": "x" }), json!({ "query": "a", "limit": 10, "fuzzy": false, "after": "x" })),
    ] {
        let result = server.call_tool("search", arguments).await.unwrap();
        let seen: Value = serde_json::from_str(result.content[0].as_text().unwrap()).unwrap();
        assert_eq!(seen, got);
    }
    let result = server.call_tool("search", json!({ "limit": "ten" })).await.unwrap();
    let expected_text = complaint(&result).unwrap();
    assert!(expected_text.contains("`/limit`") && expected_text.contains("query"), "{expected_text}");
}

#[tokio::test]
async fn json_without_a_type_follows_the_output_schema_of_its_tool() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let returning = |value: Value| tool("t", async move || Ok::<_, ToolError>(value.clone()));
    for (value, fits) in [(json!({ "n": 1 }), true), (json!({ "n": "x" }), false), (json!("n"), false)] {
        let route = returning(value.clone()).output_schema(schema.clone());
        let result = server(route, ()).call_tool("t", json!({})).await.unwrap();
        assert_eq!(result.is_error, !fits, "{value}");
        assert_eq!(result.structured_content, fits.then(|| value.clone()), "{value}");
        if fits {
            assert_eq!(result.content[0].as_text(), Some(&*value.to_string()));
        }
        let plain = server(returning(value), ()).call_tool("t", json!({})).await.unwrap();
        assert_eq!((plain.is_error, plain.structured_content), (false, None));
    }
}

#[tokio::test]
async fn never_sends_output_that_violates_its_schema() {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let returning = |structured: Option<Value>| {
        let mut result = CallToolResult::text("secret");
        result.structured_content = structured;
        tool("t", async move || result.clone()).output_schema(schema.clone())
    };
    for (structured, fits) in [
        (Some(json!({ "n": 1 })), true),
        (Some(json!({ "n": "secret" })), false),
        (Some(Value::Null), false),
        (None, false),
    ] {
        let result = server(returning(structured.clone()), ()).call_tool("t", json!({})).await.unwrap();
        assert_eq!(result.is_error, !fits, "{structured:?}");
        if !fits {
            let text = serde_json::to_string(&result).unwrap();
            assert!(text.contains("does not fit its own schema") && !text.contains("secret"), "{text}");
        }
        let route = returning(structured.clone()).skip_output_validation();
        let result = server(route, ()).call_tool("t", json!({})).await.unwrap();
        assert_eq!((result.is_error, result.structured_content), (false, structured));
    }
}

#[tokio::test]
async fn a_failure_needs_no_structured_content() {
    let failing = async || -> Result<Json<u8>, ToolError> { Err(ToolError::new("not today")) };
    let full = async || CallToolResult::error("not today");
    let schema = json!({ "type": "integer" });
    for route in [tool("t", failing), tool("t", full).output_schema(schema)] {
        let result = server(route, ()).call_tool("t", json!({})).await.unwrap();
        assert_eq!(complaint(&result), Some("not today"));
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "the test reads its debug form")]
struct Whole {
    number: i64,
    small: Option<u8>,
    list: Vec<u64>,
    float: f64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "lowercase")]
#[expect(dead_code, reason = "the test reads its debug form")]
enum Operation {
    Open { path: String },
    Close { id: u32 },
}

#[tokio::test]
async fn a_whole_number_is_an_integer_in_every_notation() {
    let server =
        Server::builder("test", "1").tool(tool("whole", async |Args(whole): Args<Whole>| format!("{whole:?}"))).build();
    let given: Value =
        serde_json::from_str(r#"{"number":-2.0,"small":1e1,"list":[3.0,9007199254740992],"float":4.0}"#).unwrap();
    let result = server.call_tool("whole", given).await.unwrap();
    let expected = "Whole { number: -2, small: Some(10), list: [3, 9007199254740992], float: 4.0 }";
    assert_eq!(result.content[0].as_text(), Some(expected));
    for (given, place) in [
        (json!({ "number": 2.5, "list": [], "float": 1 }), "/number"),
        (json!({ "number": 1, "small": 300, "list": [], "float": 1 }), "/small"),
        (json!({ "number": 1, "list": [1, -1], "float": 1 }), "/list/1"),
    ] {
        let result = server.call_tool("whole", given).await.unwrap();
        let text = result.content[0].as_text().unwrap();
        assert!(result.is_error && text.contains(place), "{place}: {text}");
    }
}

#[tokio::test]
async fn arguments_may_be_a_tagged_enum() {
    let server = Server::builder("test", "1")
        .tool(tool("run", async |Args(operation): Args<Operation>| format!("{operation:?}")))
        .build();
    for (given, expected) in [
        (json!({ "op": "open", "path": "a" }), r#"Open { path: "a" }"#),
        (json!({ "op": "close", "id": 7.0 }), "Close { id: 7 }"),
    ] {
        let result = server.call_tool("run", given).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some(expected));
    }
    assert!(server.call_tool("run", json!({ "op": "burn" })).await.unwrap().is_error);
}

#[tokio::test]
async fn integers_have_the_bounds_of_their_types() {
    #[derive(Deserialize, JsonSchema)]
    struct Numbers {
        byte: Option<u8>,
        signed: Option<i32>,
        #[schemars(range(max = 10))]
        page: Option<u32>,
        list: Option<Vec<u32>>,
        large: Option<u64>,
    }
    let sum = async |Args(n): Args<Numbers>| {
        let list = n.list.unwrap_or_default().len();
        format!("{:?} {:?} {:?} {list} {:?}", n.byte, n.signed, n.page, n.large)
    };
    let server = server(tool("sum", sum), ());
    for (arguments, expected_text) in [
        (json!({ "byte": 256 }), Some("Invalid arguments: `/byte`: must be at most 255")),
        (json!({ "byte": -1 }), Some("`/byte`: must be at least 0")),
        (json!({ "signed": 2_147_483_648_u64 }), Some("`/signed`: must be at most 2147483647")),
        (json!({ "signed": -2_147_483_649_i64 }), Some("`/signed`: must be at least -2147483648")),
        (json!({ "page": 11 }), Some("`/page`: must be at most 10")),
        (json!({ "list": [1, 4_294_967_296_u64] }), Some("`/list/1`: must be at most 4294967295")),
        // Refused by the type, at the same place.
        (json!({ "large": 1e30 }), Some("Invalid arguments: `/large`: ")),
        (json!({ "byte": 255, "signed": -2_147_483_648, "list": [u32::MAX], "large": u64::MAX }), None),
    ] {
        let result = server.call_tool("sum", arguments.clone()).await.unwrap();
        match (complaint(&result), expected_text) {
            (None, None) => {}
            (Some(text), Some(expected_text)) => assert!(text.contains(expected_text), "{arguments}: {text}"),
            (text, expected_text) => panic!("{arguments}: {text:?} instead of {expected_text:?}"),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Lookahead {
    #[expect(dead_code, reason = "no call reaches the handler")]
    #[schemars(regex(pattern = "(?=a)"))]
    text: String,
}

/// A debug build finds the fault at the registration. A release build compiles derived schemas at the first call.
#[tokio::test]
async fn an_invalid_derived_schema_is_a_fault_of_the_server() {
    let route = || tool("search", async |Args(_): Args<Lookahead>| "found");
    let server = Server::builder("t", "1").build();
    if cfg!(debug_assertions) {
        let error = server.tools().add(route()).unwrap_err().to_string();
        assert!(error.contains("the tool `search`: input schema: `/properties/text/pattern`"), "{error}");
        return;
    }
    server.tools().add(route()).unwrap();
    let result = server.call_tool("search", json!({ "text": "a" })).await.unwrap();
    let text = complaint(&result).unwrap();
    assert!(text.contains("reference") && !text.contains("Invalid arguments") && !text.contains("(?=a)"), "{text}");
}
