//! The details of faults: clients receive them only if the server shows faults.

#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::io;

use mcp_protocol::{CallToolResult, PromptArgument};
use mcp_server_core::{
    Extension, Inputs, Invocation, Next, Outcome, RegistrationError, Server, ToolError,
    extension::{MethodRoute, Registrar, ServerExtension},
    from_fn, prompt, resource, tool,
};
use serde_json::{Value, json};

use crate::common::{Connection, call, initialize, legacy, modern, notification};

const DETAILS: &str = "secret-details";

fn broken() -> io::Error {
    io::Error::other(DETAILS)
}

/// A value that no request has.
#[derive(Clone)]
struct SecretDetails;

/// An extension whose methods panic.
struct Methods;

impl ServerExtension for Methods {
    fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
        registrar.method(MethodRoute::new("example/later", async |_| panic!("{DETAILS}")))?;
        registrar.method(MethodRoute::immediate("example/now", |_| panic!("{DETAILS}")))
    }
}

async fn layer(invocation: Invocation, next: Next) -> Result<Outcome, Box<dyn std::error::Error + Send + Sync>> {
    match invocation.name() {
        "layer-fails" => Err(broken().into()),
        "layer-panics" => panic!("{DETAILS}"),
        _ => Ok(next.run(invocation).await?),
    }
}

async fn nested(inputs: Inputs) -> Result<String, ToolError> {
    let inner = inputs.clone();
    inputs.once(DETAILS, async || inner.once(DETAILS, async || Ok::<_, ToolError>("text".to_owned())).await).await
}

fn server(shows_faults: bool) -> Server {
    let schema = json!({ "type": "object", "properties": { "n": {} }, "required": ["n"] });
    let builder = Server::builder("failing", "1")
        .tool(tool("fails", async || -> Result<String, ToolError> { Err(broken())? }))
        .tool(tool("panics", async || -> String { panic!("{DETAILS}") }))
        .tool(tool("layer-fails", async || "text"))
        .tool(tool("layer-panics", async || "text"))
        .tool(tool("mismatched", async || CallToolResult::text("text")).output_schema(schema))
        .tool(tool("lacks", async |_: Extension<SecretDetails>| "text"))
        .tool(tool("nested", nested))
        .resource(resource("x:fails", async || -> Result<String, ToolError> { Err(broken())? }))
        .prompt(
            prompt("fails", async || -> Result<String, ToolError> { Err(broken())? })
                .arguments([PromptArgument::new("name")])
                .complete("name", async || -> Result<Vec<String>, ToolError> { Err(broken())? }),
        )
        .layer(from_fn(layer))
        .extension(Methods);
    if shows_faults { builder.show_faults().build() } else { builder.build() }
}

#[tokio::test]
async fn clients_receive_the_details_of_faults_only_from_a_server_that_shows_faults() {
    let reference = { json!({ "type": "ref/prompt", "name": "fails" }) };
    let completion = json!({ "ref": reference, "argument": { "name": "name", "value": "" } });
    for shows_faults in [false, true] {
        let mut connection = Connection::connect(&server(shows_faults));
        connection.exchange(initialize("2025-11-25")).await;
        connection.send(notification("notifications/initialized", json!({}))).await;
        for (method, params, text, details) in [
            ("tools/call", call("fails"), "the call failed on the server", DETAILS),
            ("tools/call", call("panics"), "the call failed on the server", DETAILS),
            ("tools/call", call("layer-fails"), "the call failed on the server", DETAILS),
            ("tools/call", call("layer-panics"), "the call failed on the server", DETAILS),
            ("tools/call", call("mismatched"), "the tool's output does not fit its own schema", "structured content"),
            ("tools/call", call("lacks"), "the server is missing a part that this call needs", "SecretDetails"),
            ("tools/call", call("nested"), "the server sent an invalid input request", DETAILS),
            ("resources/read", json!({ "uri": "x:fails" }), "the call failed on the server", DETAILS),
            ("prompts/get", json!({ "name": "fails", "arguments": { "name": "a" } }), "the call failed", DETAILS),
            ("completion/complete", completion.clone(), "the call failed on the server", DETAILS),
            ("example/now", json!({}), "the call failed on the server", DETAILS),
            ("example/later", json!({}), "the call failed on the server", DETAILS),
        ] {
            for request in [legacy(1, method, params.clone()), modern(1, method, params.clone())] {
                let response = connection.exchange(request).await;
                let shown = match &response["error"]["message"] {
                    Value::String(message) => message,
                    _ => response["result"]["content"][0]["text"].as_str().unwrap(),
                };
                assert!(shown.starts_with(text) && shown.contains(" (reference "), "{method} {params}: {response}");
                assert_eq!(shown.contains("): "), shows_faults, "{method} {params}: {response}");
                assert_eq!(response.to_string().contains(details), shows_faults, "{method} {params}: {response}");
            }
        }
    }
}

#[tokio::test]
async fn the_shown_details_of_a_fault_have_a_bounded_length() {
    let long = tool("long", async || -> Result<String, ToolError> { Err(io::Error::other("é".repeat(100_000)))? });
    let result = Server::builder("failing", "1").tool(long).show_faults().build().call_tool("long", json!({})).await;
    let count = result.unwrap().content[0].as_text().unwrap().chars().filter(|char| *char == 'é').count();
    assert_eq!(count, 4096);
}
