//! Input requests that each revision allows, and answers that only the Rust type rejects.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use mcp_protocol::{CreateMessageParams, JsonObject, SamplingBlock, SamplingMessage, ToolUseContent};
use mcp_server_core::{Inputs, Server, ToolError, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::input_client::{ALL, Client, Name, accept, everything, text};

/// A server with a tool for each kind of question.
fn server() -> Server {
    Server::builder("asks", "1")
        .tool(tool("form", async |inputs: Inputs| -> Result<String, ToolError> {
            Ok(inputs.elicit::<Name>("name", "Name?").await?.name)
        }))
        .tool(tool("url", async |inputs: Inputs| -> Result<String, ToolError> {
            inputs.elicit_url("pay", "Pay here.", "https://example.com/pay").await?;
            Ok("agreed".to_owned())
        }))
        .tool(tool("sample", async |inputs: Inputs| -> Result<String, ToolError> {
            let params = CreateMessageParams::new(vec![SamplingMessage::user(SamplingBlock::text("?"))], 10);
            Ok(inputs.sample("sum", params).await?.content.text())
        }))
        .tool(tool("sample_with_tools", async |inputs: Inputs| -> Result<String, ToolError> {
            let mut params = CreateMessageParams::new(vec![SamplingMessage::user(SamplingBlock::text("?"))], 10);
            params.tools = Some(vec![mcp_protocol::Tool::new("t", serde_json::Map::new())]);
            Ok(inputs.sample("sum", params).await?.content.text())
        }))
        .build()
}

#[tokio::test]
async fn client_capabilities_count_only_in_revisions_that_define_them() {
    let everything = json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} });
    let answers: [(&str, (&str, Value), &str); 4] = [
        (
            "sample",
            (
                "sampling/createMessage",
                json!({ "role": "assistant", "content": { "type": "text", "text": "4" }, "model": "m" }),
            ),
            "4",
        ),
        ("form", accept(json!({ "name": "Ada" })), "Ada"),
        ("url", accept(json!({})), "agreed"),
        (
            "sample_with_tools",
            (
                "sampling/createMessage",
                json!({ "role": "assistant", "content": { "type": "text", "text": "4" }, "model": "m" }),
            ),
            "4",
        ),
    ];
    // How many of the questions, in their order, each revision has.
    for (version, known) in
        [("2024-11-05", 1), ("2025-03-26", 1), ("2025-06-18", 2), ("2025-11-25", 4), ("2026-07-28", 4)]
    {
        let mut client = Client::connect(&server(), version, everything.clone()).await;
        for (at, (tool, answer, expected)) in answers.iter().enumerate() {
            if at < known {
                let response = client.tool(tool, vec![answer.clone()]).await;
                assert_eq!(text(&response), *expected, "{version} {tool}");
            } else {
                let response = client.tool(tool, vec![]).await;
                assert_eq!(response["error"]["code"], -32021, "{version} {tool}: {response}");
            }
        }
    }
}

/// A type with a rule that a form cannot express.
#[derive(Deserialize, JsonSchema)]
#[serde(try_from = "u32")]
struct Even(u32);

impl TryFrom<u32> for Even {
    type Error = &'static str;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        if number.is_multiple_of(2) { Ok(Self(number)) } else { Err("it is odd") }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Seats {
    count: Even,
}

#[tokio::test]
async fn repeats_an_input_request_when_only_the_rust_type_rejects_the_answer() {
    let server = Server::builder("asks", "1")
        .tool(tool("book", async |inputs: Inputs| -> Result<String, ToolError> {
            Ok(inputs.elicit::<Seats>("seats", "How many?").await?.count.0.to_string())
        }))
        .build();
    for version in ALL {
        let mut client = Client::connect(&server, version, everything()).await;
        let of = |count: u64| accept(json!({ "count": count }));
        assert_eq!(text(&client.tool("book", vec![of(3), of(1 << 32), of(4)]).await), "4", "{version}");
        let messages: Vec<_> =
            client.input_requests.iter().map(|request| request["params"]["message"].to_string()).collect();
        assert!(messages[1].contains("it is odd") && messages[2].contains("4294967295"), "{version}: {messages:?}");
        // The form shows the bounds.
        let field = &client.input_requests[0]["params"]["requestedSchema"]["properties"]["count"];
        assert_eq!((&field["minimum"], &field["maximum"]), (&json!(0), &json!(u32::MAX)), "{version}: {field}");

        let response = client.tool("book", vec![of(1), of(3), of(5)]).await;
        assert_eq!(response["result"]["isError"], true, "{version}: {response}");
        assert!(text(&response).contains("it is odd"), "{version}: {response}");
    }
}

#[tokio::test]
async fn rejects_sampling_with_unanswered_tool_uses_before_sending_it() {
    let server = Server::builder("bad", "1")
        .tool(tool("bad", async |inputs: Inputs| -> Result<String, ToolError> {
            let used = ToolUseContent::new("a", "t", JsonObject::default());
            let messages = vec![
                SamplingMessage::assistant(SamplingBlock::ToolUse(used)),
                SamplingMessage::user(SamplingBlock::text("and?")),
            ];
            Ok(inputs.sample("sum", CreateMessageParams::new(messages, 10)).await?.content.text())
        }))
        .build();
    for version in ALL {
        let mut client = Client::connect(&server, version, json!({ "sampling": { "tools": {} } })).await;
        let response = client.tool("bad", vec![]).await;
        assert_eq!(response["result"]["isError"], true, "{version}: {response}");
        assert!(client.input_requests.is_empty());
    }
}
