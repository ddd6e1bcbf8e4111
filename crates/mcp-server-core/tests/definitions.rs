//! Definitions in the lists of each revision.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use crate::json_client;
use mcp_protocol::{Annotations, Icon, IconTheme, Meta, PromptArgument, ProtocolVersion, Role, ToolAnnotations};
use mcp_server_core::{
    Args, Json, Parameter, ParameterType, RawArgs, Server, State, Structured, ToolRoute, WithMeta, prompt, resource,
    template, tool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Find places by name.
///
/// Names are matched loosely.
#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only its schema is of interest")]
struct Search {
    /// The text to find.
    #[schemars(length(min = 1, max = 80))]
    query: String,
    kind: Option<Kind>,
    /// At most this many.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 50))]
    limit: u32,
    near: Option<Point>,
    #[schemars(regex(pattern = "^[a-z]{2}$"))]
    tags: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    City,
    River,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only its schema is of interest")]
struct Point {
    /// Degrees.
    latitude: f64,
    longitude: f64,
}

#[derive(Serialize, JsonSchema)]
struct Hit {
    /// The location.
    place: String,
}

fn ten() -> u32 {
    10
}

fn icon() -> Icon {
    Icon::new("https://example.com/i.png").with_mime_type("image/png").with_sizes(["48x48"]).with_theme(IconTheme::Dark)
}

fn icon_wire() -> Value {
    json!({ "src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark" })
}

fn meta() -> Meta {
    Meta::new().with("example.com/k", json!({ "deep": [1] }))
}

fn annotations() -> Annotations {
    let mut annotations = Annotations::default();
    annotations.audience = vec![Role::Assistant];
    annotations.priority = Some(1.0);
    annotations.last_modified = Some("2026-01-01T00:00:00Z".into());
    annotations
}

/// The definition of the one tool of a server, in the newest revision.
async fn defined(route: ToolRoute) -> Value {
    let server = Server::builder("t", "1").tool(route).build();
    let mut client = json_client::Client::connect(&server, ProtocolVersion::LATEST).await;
    client.list("tools/list", "tools").await.remove(0)
}

#[tokio::test]
async fn a_handler_defines_its_tool() {
    let tool = defined(tool("search", async |Args(_): Args<Search>| Json(Hit { place: String::new() }))).await;
    assert_eq!(tool["description"], "Find places by name.\n\nNames are matched loosely.");
    let input = &tool["inputSchema"];
    for repeated in ["description", "title", "$schema"] {
        assert!(input.get(repeated).is_none(), "the schema repeats {repeated}: {input}");
    }
    assert_eq!(input["type"], "object");
    assert_eq!(input["required"], json!(["query", "tags"]));
    assert_eq!(
        input["properties"]["query"],
        json!({ "type": "string", "description": "The text to find.", "minLength": 1, "maxLength": 80 })
    );
    let limit = &input["properties"]["limit"];
    assert_eq!((&limit["minimum"], &limit["maximum"], &limit["default"]), (&json!(1), &json!(50), &json!(10)));
    // The names that schemars writes for number types are not formats of JSON Schema.
    assert_eq!(limit.get("format"), None);
    assert_eq!(limit["description"], "At most this many.");
    assert_eq!(input["$defs"]["Kind"]["enum"], json!(["city", "river"]));
    assert_eq!(input["$defs"]["Point"]["properties"]["latitude"]["description"], "Degrees.");
    let output = json!({
        "type": "object", "properties": { "place": { "type": "string", "description": "The location." } },
        "required": ["place"]
    });
    assert_eq!(tool["outputSchema"], output);
}

#[tokio::test]
async fn omits_unset_members() {
    let bare = defined(tool("bare", async || "x")).await;
    assert_eq!(bare, json!({ "name": "bare", "inputSchema": { "type": "object", "additionalProperties": false } }));
}

#[tokio::test]
async fn every_typed_output_has_a_schema() {
    let hit = || Hit { place: String::new() };
    let schema = defined(tool("t", async move || Json(hit()))).await["outputSchema"].take();
    assert_eq!(schema["type"], "object");
    for route in [
        tool("t", async move || Structured { data: hit(), content: vec![] }),
        tool("t", async move || Ok::<_, mcp_server_core::ToolError>(Json(hit()))),
        tool("t", async move || WithMeta(Json(hit()), Meta::new())),
    ] {
        assert_eq!(defined(route).await["outputSchema"], schema);
    }
    assert_eq!(defined(tool("t", async || Json(vec![1]))).await["outputSchema"]["type"], "array");
    assert!(defined(tool("t", async || json!(1))).await.get("outputSchema").is_none());
}

#[tokio::test]
async fn a_description_at_registration_overrides_that_of_the_handler() {
    let route = tool("search", async |Args(_): Args<Search>| "x").description("Mine.");
    assert_eq!(defined(route).await["description"], "Mine.");
}

#[tokio::test]
async fn passes_a_custom_schema_unchanged() {
    // The order of members and keywords that no Rust type would bring.
    let schema = r##"{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema","$id":"urn:own","properties":{"z":{"$ref":"#/$defs/n"},"a":{"const":null}},"$defs":{"n":{"$anchor":"n","type":["number","null"],"x-own":true}},"patternProperties":{"^x-":{}},"dependentSchemas":{"a":{"required":["z"]}},"if":{"required":["z"]},"then":{"minProperties":1},"unevaluatedProperties":false,"examples":[{}]}"##;
    let own: Value = serde_json::from_str(schema).unwrap();
    let route = || tool("t", async |_: RawArgs| "x").input_schema(own.clone());
    let got = defined(route()).await;
    assert_eq!(got["inputSchema"], own);
    assert_eq!(got["inputSchema"].to_string().len(), schema.len());
    let both = route().parameters([Parameter::new("p", ParameterType::String)]);
    assert_eq!(defined(both).await["inputSchema"], own, "it wins over a list of parameters");
    let typed = tool("t", async |Args(_): Args<Search>| "x").input_schema(own.clone());
    assert_eq!(defined(typed).await["inputSchema"], own, "it wins over the handler");
    let output = json!({ "anyOf": [{ "type": "object" }, { "type": "null" }], "x-own": 1 });
    let route = tool("t", async || Json(1)).output_schema(output.clone());
    assert_eq!(defined(route).await["outputSchema"], output);
}

#[tokio::test]
async fn derives_a_schema_from_parameters() {
    let route = tool("t", async |_: RawArgs| "x").parameters([
        Parameter::new("region", ParameterType::String).description("Where.").required().header("Region"),
        Parameter::new("count", ParameterType::Integer).default_value(3),
        Parameter::new("ratio", ParameterType::Number),
        Parameter::new("deep", ParameterType::Boolean),
        Parameter::new("list", ParameterType::Array),
        Parameter::new("any", ParameterType::Object),
    ]);
    let expected = json!({
        "type": "object",
        "properties": {
            "region": { "type": "string", "description": "Where.", "x-mcp-header": "Region" },
            "count": { "type": "integer", "default": 3 },
            "ratio": { "type": "number" },
            "deep": { "type": "boolean" },
            "list": { "type": "array" },
            "any": { "type": "object" }
        },
        "required": ["region"]
    });
    assert_eq!(defined(route).await["inputSchema"], expected);
}

#[tokio::test]
async fn tool_annotations_are_listed() {
    let of = async |route: ToolRoute| defined(route).await["annotations"].take();
    let bare = || tool("t", async || "x");
    assert_eq!(of(bare().read_only()).await, json!({ "readOnlyHint": true }));
    assert_eq!(of(bare().destructive()).await, json!({ "readOnlyHint": false, "destructiveHint": true }));
    let several = bare().additive().idempotent().closed_world();
    let expected =
        json!({ "readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false });
    assert_eq!(of(several).await, expected);
    let mut annotations = ToolAnnotations::new();
    annotations.title = Some("T".into());
    assert_eq!(of(bare().annotations(annotations)).await, json!({ "title": "T" }));
}

#[tokio::test]
async fn lists_full_definitions_and_omits_members_unknown_to_older_revisions() {
    let server = Server::builder("t", "1")
        .title("Test")
        .description("A server.")
        .website_url("https://example.com")
        .icon(icon())
        .instructions("Ask.")
        .tool(
            tool("tool", async || Json(Hit { place: String::new() }))
                .title("Tool")
                .description("d")
                .icon(icon())
                .read_only()
                .meta(meta()),
        )
        .resource(
            resource("a://r", async || "x")
                .name("res")
                .title("Resource")
                .description("d")
                .mime_type("text/plain")
                .size(7)
                .icon(icon())
                .annotations(annotations())
                .meta(meta()),
        )
        .resource_template(
            template("a://{x}", async || "x")
                .name("tem")
                .title("Template")
                .description("d")
                .mime_type("text/plain")
                .icon(icon())
                .annotations(annotations())
                .meta(meta()),
        )
        .prompt({
            let mut argument = PromptArgument::new("arg").with_description("ad").required();
            argument.title = Some("Argument".into());
            prompt("prompt", async || "x")
                .title("Prompt")
                .description("d")
                .arguments([argument])
                .icon(icon())
                .meta(meta())
        })
        .build();
    let schema = json!({ "type": "object", "additionalProperties": false });
    let tool = json!({
        "name": "tool", "title": "Tool", "description": "d", "inputSchema": schema,
        "outputSchema": {
            "type": "object", "properties": { "place": { "type": "string", "description": "The location." } },
            "required": ["place"]
        },
        "annotations": { "readOnlyHint": true }, "icons": [icon_wire()], "_meta": meta()
    });
    let annotated = json!({ "audience": ["assistant"], "priority": 1, "lastModified": "2026-01-01T00:00:00Z" });
    let resource = json!({
        "uri": "a://r", "name": "res", "title": "Resource", "description": "d", "mimeType": "text/plain", "size": 7,
        "annotations": annotated, "icons": [icon_wire()], "_meta": meta()
    });
    let template = json!({
        "uriTemplate": "a://{x}", "name": "tem", "title": "Template", "description": "d", "mimeType": "text/plain",
        "annotations": annotated, "icons": [icon_wire()], "_meta": meta()
    });
    let prompt = json!({
        "name": "prompt", "title": "Prompt", "description": "d", "icons": [icon_wire()], "_meta": meta(),
        "arguments": [{ "name": "arg", "title": "Argument", "description": "ad", "required": true }]
    });
    for &version in ProtocolVersion::ALL {
        let (has_titles, has_icons) =
            (version >= ProtocolVersion::V2025_06_18, version >= ProtocolVersion::V2025_11_25);
        let expect = |full: &Value| {
            let mut value = full.clone();
            let object = value.as_object_mut().unwrap();
            if !has_icons {
                object.remove("icons");
            }
            if !has_titles {
                object.remove("title");
                object.remove("outputSchema");
                if let Some(annotations) = object.get_mut("annotations").and_then(Value::as_object_mut) {
                    annotations.remove("lastModified");
                }
                if let Some(argument) = object.get_mut("arguments") {
                    argument[0].as_object_mut().unwrap().remove("title");
                }
            }
            value
        };
        let mut expected_tool = expect(&tool);
        if version == ProtocolVersion::V2025_03_26 {
            expected_tool["annotations"]["title"] = "Tool".into();
        } else if version == ProtocolVersion::V2024_11_05 {
            expected_tool.as_object_mut().unwrap().remove("annotations");
        }
        let mut client = json_client::Client::connect(&server, version).await;
        assert_eq!(client.list("tools/list", "tools").await, [expected_tool], "{version}");
        assert_eq!(client.list("resources/list", "resources").await, [expect(&resource)], "{version}");
        let listed = client.list("resources/templates/list", "resourceTemplates").await;
        assert_eq!(listed, [expect(&template)], "{version}");
        assert_eq!(client.list("prompts/list", "prompts").await, [expect(&prompt)], "{version}");

        let info = match version.has_handshake() {
            true => &client.opening["serverInfo"],
            false => &client.opening["_meta"]["io.modelcontextprotocol/serverInfo"],
        };
        assert_eq!((&info["name"], &info["version"]), (&json!("t"), &json!("1")), "{version}");
        assert_eq!(info["title"].is_string(), has_titles, "{version}: {info}");
        for member in ["description", "websiteUrl", "icons"] {
            assert_eq!(info.get(member).is_some(), has_icons, "{version}: {info}");
        }
        assert_eq!(client.opening["instructions"], "Ask.", "{version}");
    }
}

#[tokio::test]
async fn minimal_registrations_have_minimal_definitions() {
    let server = Server::builder("t", "1")
        .resource(resource("a://x/settings.json", async || "x"))
        .resource(resource("data:", async || json!(1)))
        .resource_template(template("a://{x}", async || "x"))
        .prompt(prompt("p", async || "x"))
        .build();
    for &version in ProtocolVersion::ALL {
        let mut client = json_client::Client::connect(&server, version).await;
        let expected = [
            json!({ "uri": "a://x/settings.json", "name": "settings.json" }),
            json!({ "uri": "data:", "name": "data:", "mimeType": "application/json" }),
        ];
        assert_eq!(client.list("resources/list", "resources").await, expected);
        let listed = client.list("resources/templates/list", "resourceTemplates").await;
        assert_eq!(listed, [json!({ "uriTemplate": "a://{x}", "name": "a://{x}" })]);
        assert_eq!(client.list("prompts/list", "prompts").await, [json!({ "name": "p" })]);
        assert!(client.opening.get("instructions").is_none(), "{}", client.opening);
    }
}

#[tokio::test]
async fn a_tool_registered_twice_has_the_same_definition() {
    // The state is not part of the description.
    let with_state = Server::builder("t", "1")
        .tool(tool("t", async |State(_): State<u8>, Args(_): Args<Search>| "x"))
        .with_state(1_u8)
        .build();
    let mut client = json_client::Client::connect(&with_state, ProtocolVersion::LATEST).await;
    let listed = client.list("tools/list", "tools").await;
    assert_eq!(listed, [defined(tool("t", async |Args(_): Args<Search>| "x")).await]);
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only its schema is of interest")]
struct Keywords {
    default: u32,
    examples: Vec<u8>,
    r#const: Option<i16>,
    /// Its value looks like a schema.
    #[serde(rename = "enum", default = "looks_like_a_schema")]
    values: Value,
    r#type: u64,
    format: String,
}

fn looks_like_a_schema() -> Value {
    json!({ "type": "integer", "format": "uint8" })
}

#[tokio::test]
async fn describes_numbers_independently_of_the_property_name() {
    let server = Server::builder("t", "1").tool(tool("x", async |_: Args<Keywords>| "x")).build();
    let mut client = json_client::Client::connect(&server, ProtocolVersion::LATEST).await;
    let schema = &client.list("tools/list", "tools").await[0]["inputSchema"];
    let properties = &schema["properties"];
    assert!(properties["format"].is_object(), "{schema}");
    for (schema, maximum) in [
        (&properties["default"], json!(u32::MAX)),
        (&properties["examples"]["items"], json!(u8::MAX)),
        (&properties["const"], json!(i16::MAX)),
        (&properties["type"], Value::Null),
    ] {
        assert_eq!((&schema["format"], &schema["maximum"]), (&Value::Null, &maximum), "{schema}");
    }
    assert_eq!(properties["enum"]["default"], looks_like_a_schema());
}
