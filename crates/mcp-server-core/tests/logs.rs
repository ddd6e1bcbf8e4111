//! Log records for the client: declared, filtered by level, and sent with their request.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use crate::json_client::{Client, refused, request_with_scope};
use mcp_protocol::{LoggingLevel, ProtocolVersion};
use mcp_server_core::{Args, Context, Server, tool};
use mcp_transport::{Route, Transport, memory::duplex, recv};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Secret {
    password: String,
}

fn server() -> Server {
    Server::builder("t", "1")
        .tool(tool("logs", async |context: Context| {
            context.log(LoggingLevel::Debug, "low").await;
            context.log_as(LoggingLevel::Error, Some("disk"), json!({ "free": 0 })).await;
            "done"
        }))
        .tool(tool(
            "fails",
            async |Args(Secret { password }): Args<Secret>| -> Result<String, mcp_server_core::ToolError> {
                Ok(password.parse::<u8>()?.to_string())
            },
        ))
        .build()
}

#[tokio::test]
async fn declares_logging_and_validates_levels() {
    let server = server();
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        assert_eq!(client.opening["capabilities"]["logging"], json!({}), "{version}");
        if version.has_session_methods() {
            for wrong in [json!({ "level": "loud" }), json!({ "level": 3 }), json!({ "level": "INFO" }), json!({})] {
                let error = client.error("logging/setLevel", wrong.clone()).await;
                assert_eq!(error["code"], -32602, "{version} {wrong}");
            }
            client.result("logging/setLevel", json!({ "level": "emergency" })).await;
        } else {
            client.meta = json!({ "io.modelcontextprotocol/logLevel": "loud" });
            assert_eq!(client.error("tools/list", json!({})).await["code"], -32602);
            client.meta = json!({ "io.modelcontextprotocol/logLevel": "emergency" });
        }
        client.result("tools/call", json!({ "name": "logs" })).await;
        assert!(client.notifications.is_empty(), "{version}: {:?}", client.notifications);
    }
}

#[tokio::test]
async fn sends_log_messages_with_their_request_and_only_on_demand() {
    let server = server();
    for (level, expected) in [(None, 0), (Some("debug"), 2), (Some("error"), 1), (Some("critical"), 0)] {
        let (near, mut far) = duplex(8);
        let mut params = json!({ "name": "logs" });
        if let Some(level) = level {
            params["_meta"]["io.modelcontextprotocol/logLevel"] = level.into();
        }
        request_with_scope(&server, "tools/call", params, |scope| scope.sink(near.sender())).await.unwrap();
        drop(near);
        let mut records = Vec::new();
        while let Some(frame) = recv(&mut far).await {
            let frame = frame.unwrap();
            assert_eq!(frame.route, Route::Request(1.into()), "never on another stream");
            records.push(serde_json::from_slice::<Value>(&frame.message).unwrap());
        }
        assert_eq!(records.len(), expected, "{level:?}");
        if let Some(last) = records.last() {
            assert_eq!(last["method"], "notifications/message");
            assert_eq!(last["params"], json!({ "level": "error", "logger": "disk", "data": { "free": 0 } }));
        }
    }
}

#[tokio::test]
async fn the_library_sends_no_log_messages_of_its_own() {
    let server = server();
    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    client.meta = json!({ "io.modelcontextprotocol/logLevel": "debug" });
    for arguments in [json!({ "password": "hunter2" }), json!({})] {
        let result = client.result("tools/call", json!({ "name": "fails", "arguments": arguments })).await;
        assert_eq!(result["isError"], true);
        assert!(!result.to_string().contains("hunter2"), "{result}");
    }
    assert!(client.notifications.is_empty(), "{:?}", client.notifications);
}

#[tokio::test]
async fn a_rejection_sends_no_log_message() {
    let (near, mut far) = duplex(8);
    let params = json!({ "name": "nope", "_meta": { "io.modelcontextprotocol/logLevel": "debug" } });
    let refusal =
        request_with_scope(&server(), "tools/call", params, |scope| scope.sink(near.sender())).await.unwrap_err();
    assert_eq!(refused(refusal).code.0, -32602);
    drop(near);
    assert!(recv(&mut far).await.is_none());
}
