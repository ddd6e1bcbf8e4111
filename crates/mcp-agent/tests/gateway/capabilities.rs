//! The capabilities of clients at the servers behind a gateway, and the capabilities that a server lacks.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use mcp_agent::Names;
use mcp_protocol::{ClientCapabilities, JsonObject, ProtocolVersion};
use mcp_server::prelude::*;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::common::{SOON, cells, client, connect, gateway, raw};

/// A server whose tool returns the capabilities that the client declares.
fn declared(version: ProtocolVersion) -> Server {
    let declared = async |context: Context| serde_json::to_string(context.client_capabilities()).unwrap();
    Server::builder("s", "1").versions([version]).tool(tool("declared", declared)).build()
}

#[tokio::test]
async fn a_stateless_server_receives_each_capability_of_the_client() {
    let ui = json!({ "mimeTypes": ["text/html;profile=mcp-app"] });
    let extensions = json!({ "io.modelcontextprotocol/ui": ui, "com.example/later": {} });
    let capabilities = json!({
        "elicitation": { "form": {}, "url": {} },
        "experimental": { "com.example/x": { "a": 1 } },
        "extensions": extensions,
        "later": [1],
    });
    let capabilities: ClientCapabilities = serde_json::from_value(capabilities).unwrap();
    let server = declared(ProtocolVersion::V2026_07_28);
    let client = connect(gateway(&[("s", &server)]).await, ProtocolVersion::V2026_07_28).await;
    let call = client.request_raw("tools/call", json!({ "name": "s__declared" }));
    let call = call.capabilities(capabilities.clone()).raw_inputs();
    let mcp_client::Round::Complete(result) = timeout(SOON, call.into_future()).await.unwrap().unwrap() else {
        panic!("the tool does not ask")
    };
    let received: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(received, serde_json::to_value(&capabilities).unwrap());
}

#[tokio::test]
async fn a_stateless_server_receives_the_experimental_capabilities_of_a_session() {
    let server = declared(ProtocolVersion::V2026_07_28);
    let gateway = gateway(&[("s", &server)]).await.build().unwrap().versions([ProtocolVersion::V2025_11_25]).build();
    let ada = client().experimental("com.example/x", JsonObject::new().with("a", 1));
    let (ada, grace) = (ada.connect(&gateway).await.unwrap(), client().connect(&gateway).await.unwrap());
    for (client, expected) in [(&ada, json!({ "a": 1 })), (&grace, Value::Null)] {
        let text = client.call_tool("s__declared", ()).await.unwrap().text();
        let received: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(received["experimental"]["com.example/x"], expected, "{received}");
    }
}

#[tokio::test]
async fn a_request_that_its_server_does_not_support_names_the_server_and_the_capability() {
    for (down, up) in cells() {
        let tools = Server::builder("tools", "1").versions([up]).tool(tool("t", async || "t")).build();
        let client = connect(gateway(&[("s", &tools)]).await.names(Names::Provider), down).await;
        let error = raw(&client, "resources/read", json!({ "uri": "mcp://s/x:1" })).await.unwrap_err();
        assert_eq!(error.code.0, -32601, "{down} {up} {error}");
        assert!(error.message.contains("resources"), "{down} {up} {error}");
        assert_eq!(error.data.as_ref().unwrap()["server"], "s", "{down} {up} {error}");
    }
}
