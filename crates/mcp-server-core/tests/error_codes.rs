//! Error codes: the server uses only the codes of the negotiated revision.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::collections::BTreeSet;

use crate::json_client::Client;
use mcp_protocol::{ClientCapabilities, PromptArgument, ProtocolVersion, RootsCapability};
use mcp_server_core::{Args, Server, ToolError, prompt, resource, template, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Number {
    n: u8,
}

fn server() -> Server {
    let mut roots = ClientCapabilities::new();
    roots.roots = Some(RootsCapability::new());
    Server::builder("t", "1")
        .tool(tool("t", async |Args(Number { n }): Args<Number>| n.to_string()))
        .tool(tool("roots", async || "x").requires_client(roots))
        .resource(resource("a:gone", async || Err::<String, _>(ToolError::not_found())))
        .resource(resource("a:fails", async || Err::<String, _>(ToolError::new("no"))))
        .resource_template(template("n:{n}", async |Args(Number { n }): Args<Number>| n.to_string()))
        .prompt(
            prompt("p", async || -> String { panic!() })
                .arguments([PromptArgument::new("a").required()])
                .complete_from("a", ["x"]),
        )
        .build()
}

#[tokio::test]
async fn uses_only_error_codes_of_the_negotiated_revision() {
    let server = server();
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        let mut seen = BTreeSet::new();
        for (method, params) in [
            ("nope", json!({})),
            ("tools/list", json!({ "cursor": "made up" })),
            ("tools/call", json!({})),
            ("tools/call", json!({ "name": "nope" })),
            ("tools/call", json!({ "name": "roots" })),
            ("resources/read", json!({})),
            ("resources/read", json!({ "uri": "a:nope" })),
            ("resources/read", json!({ "uri": "a:gone" })),
            ("resources/read", json!({ "uri": "a:fails" })),
            ("resources/read", json!({ "uri": "n:x" })),
            ("prompts/get", json!({ "name": "nope" })),
            ("prompts/get", json!({ "name": "p" })),
            ("prompts/get", json!({ "name": "p", "arguments": { "a": "" } })),
            ("completion/complete", json!({})),
            (
                "completion/complete",
                json!({
                    "ref": { "type": "ref/prompt", "name": "nope" }, "argument": { "name": "a", "value": "" }
                }),
            ),
        ] {
            seen.insert(client.error(method, params).await["code"].as_i64().unwrap());
        }
        let mut expected = BTreeSet::from([-32601, -32602, -32603, -32021]);
        if version != ProtocolVersion::V2026_07_28 {
            expected.insert(-32002);
        }
        assert_eq!(seen, expected, "{version}");
    }
}
