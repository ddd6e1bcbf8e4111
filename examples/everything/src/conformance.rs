//! The tools that the official conformance suites call. The suites define the names and texts.

use std::time::Duration;

use mcp_server::{
    Parameter, ParameterType, ServerBuilder, ToolRoute,
    output::Audio,
    prelude::*,
    protocol::ResourceContents,
    protocol::{ClientCapabilities, LoggingLevel, SamplingCapability},
};
use serde_json::json;

use crate::{app::App, dynamic_items::Item, media};

/// The delay between two steps of a call.
const STEP: Duration = Duration::from_millis(50);

/// Registers the tools.
///
/// The order of the first two tools is fixed: a scenario calls the first tool without arguments, and another scenario calls
/// the first tool with mirrored parameters.
pub(crate) fn register(builder: ServerBuilder<App>) -> ServerBuilder<App> {
    let mut sampling = ClientCapabilities::new();
    sampling.sampling = Some(SamplingCapability::new());
    builder
        .tool(tool("test_simple_text", simple_text).description("Answers a text.").read_only())
        .tool(mirrored_parameter())
        .tool(tool("test_image_content", image_content).description("Answers an image.").read_only())
        .tool(tool("test_audio_content", audio_content).description("Answers a sound.").read_only())
        .tool(tool("test_embedded_resource", embedded_resource).description("Answers a resource.").read_only())
        .tool(tool("test_multiple_content_types", mixed).description("Answers text, image and resource.").read_only())
        .tool(tool("test_tool_with_logging", logging).description("Logs three times on its way.").read_only())
        .tool(tool("test_logging_tool", log_once).description("Logs once.").read_only())
        .tool(tool("test_error_handling", error_handling).description("Fails always.").read_only())
        .tool(tool("test_tool_with_progress", progress).description("Reports progress three times.").read_only())
        .tool(tool("test_streaming_elicitation", streaming).description("Reports progress, then answers.").read_only())
        .tool(
            tool("test_missing_capability", needs_sampling)
                .description("Needs a client that can ask a model.")
                .requires_client(sampling)
                .read_only(),
        )
        .tool(tool("test_trigger_tool_change", change_tools).description("Adds a tool, or removes it again."))
        .tool(tool("test_trigger_prompt_change", change_prompts).description("Adds a prompt, or removes it again."))
        .tool(
            tool("test_reconnection", reconnection)
                .description("Closes the stream of its client before it answers.")
                .read_only(),
        )
        .tool(json_schema_tool())
}

async fn simple_text() -> &'static str {
    "This is a simple text response for testing."
}

async fn image_content() -> Image {
    Image::png(media::PNG)
}

async fn audio_content() -> Audio {
    Audio::new(media::wav(), "audio/wav")
}

async fn embedded_resource() -> ResourceContents {
    ResourceContents::text("test://embedded-resource", "This is an embedded resource content.")
        .with_mime_type("text/plain")
}

async fn mixed() -> (&'static str, Image, ResourceContents) {
    let data = json!({ "test": "data", "value": 123 }).to_string();
    let resource = ResourceContents::text("test://mixed-content-resource", data).with_mime_type("application/json");
    ("Multiple content types test:", Image::png(media::PNG), resource)
}

async fn logging(context: Context) -> &'static str {
    context.log(LoggingLevel::Info, "Tool execution started").await;
    tokio::time::sleep(STEP).await;
    context.log(LoggingLevel::Info, "Tool processing data").await;
    tokio::time::sleep(STEP).await;
    context.log(LoggingLevel::Info, "Tool execution completed").await;
    "Logged three times."
}

async fn log_once(context: Context) -> &'static str {
    context.log(LoggingLevel::Info, "The tool runs").await;
    "Logged, if the request asked for it."
}

async fn error_handling() -> Result<(), ToolError> {
    Err(ToolError::new("This tool intentionally returns an error for testing"))
}

async fn progress(progress: Progress) -> &'static str {
    progress.report(0, 100, None).await;
    tokio::time::sleep(STEP).await;
    progress.report(50, 100, None).await;
    tokio::time::sleep(STEP).await;
    progress.report(100, 100, None).await;
    "Progress was reported."
}

async fn streaming(progress: Progress) -> &'static str {
    for done in 1..=3 {
        progress.report(done, 3, "streaming").await;
    }
    "Streamed."
}

async fn reconnection(context: Context) -> &'static str {
    context.close_stream();
    tokio::time::sleep(STEP).await;
    "The client came back for this."
}

async fn needs_sampling() -> &'static str {
    "The client can ask a model."
}

/// A parameter that the client repeats in the header `Mcp-Param-Region`.
fn mirrored_parameter() -> ToolRoute<App> {
    async fn region(RawArgs(arguments): RawArgs) -> String {
        format!("The region is {}.", arguments["region"])
    }
    let parameter = Parameter::new("region", ParameterType::String).description("Where to run.").required();
    tool("test_x_mcp_header", region)
        .description("Has a parameter that is mirrored into a header.")
        .parameters([parameter.header("Region")])
        .read_only()
}

/// A tool with its own schema, which must reach clients unchanged.
fn json_schema_tool() -> ToolRoute<App> {
    async fn accept(RawArgs(arguments): RawArgs) -> String {
        let names: Vec<&str> = arguments.keys().map(String::as_str).collect();
        format!("The arguments fit: {}.", names.join(", "))
    }
    let address = json!({
        "$anchor": "addressDef",
        "type": "object",
        "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
    });
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": address },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    });
    tool("json_schema_2020_12_tool", accept)
        .description("Tool with JSON Schema 2020-12 features")
        .input_schema(schema)
        .read_only()
}

/// Adds or removes a tool on all nodes. The server notifies its clients.
async fn change_tools(State(app): State<App>) -> Result<&'static str, ToolError> {
    let exists = app.toggle(Item::Tool).await?;
    Ok(if exists { "Added a tool." } else { "Removed a tool." })
}

async fn change_prompts(State(app): State<App>) -> Result<&'static str, ToolError> {
    let exists = app.toggle(Item::Prompt).await?;
    Ok(if exists { "Added a prompt." } else { "Removed a prompt." })
}
