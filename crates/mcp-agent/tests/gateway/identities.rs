//! The server that a result names (`serverInfo` in its metadata, 2026-07-28).

use mcp_protocol::meta::keys::SERVER_INFO;
use mcp_server::prelude::*;
use serde_json::json;

use crate::common::{REVISIONS, connect, gateway, raw};

#[tokio::test]
async fn a_result_names_the_server_that_produced_it_and_otherwise_the_gateway() {
    let [legacy, modern] = REVISIONS;
    for (up, expected) in [(modern, "inner"), (legacy, "gateway")] {
        let server = Server::builder("inner", "7").versions([up]).tool(tool("t", async || "done")).build();
        let client = connect(gateway(&[("s", &server)]).await, modern).await;
        let called = raw(&client, "tools/call", json!({ "name": "s__t", "arguments": {} })).await.unwrap();
        assert_eq!(called["_meta"][SERVER_INFO]["name"], expected, "{up}");
        // The gateway merges the lists.
        let listed = raw(&client, "tools/list", json!({})).await.unwrap();
        assert_eq!(listed["_meta"][SERVER_INFO]["name"], "gateway", "{up}");
    }
}
