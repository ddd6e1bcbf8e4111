//! A client calls the tools of both servers through the gateway, as the files of the example configure it.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{path::Path, time::Duration};

use mcp_agent::{ServerState, config::Environment};
use mcp_client::{Client, protocol::ProtocolVersion};
use serde_json::json;
use tokio::time::timeout;

/// The limit of the test. The test reaches it only if it fails.
const LIMIT: Duration = Duration::from_secs(60);

async fn call_through_the_gateway() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR"));
    let programs = Path::new(env!("CARGO_BIN_EXE_notes-server")).parent().unwrap();
    assert_eq!(Path::new(env!("CARGO_BIN_EXE_calendar-server")).parent(), Some(programs));
    let environment = Environment::of_process().variable("GATEWAY_SERVERS", programs);
    let (servers, policy) = (example.join("servers.json"), example.join("policy.toml"));
    let host = gateway::start(&servers, &policy, &environment).await.unwrap();
    assert!(host.statuses().iter().all(|status| status.state == ServerState::Ready), "{:?}", host.statuses());
    let server = host.clone().into_server().unwrap().build();
    for (version, expected) in
        [(ProtocolVersion::V2025_11_25, "1 note is stored."), (ProtocolVersion::V2026_07_28, "2 notes are stored.")]
    {
        let client = Client::builder("test", "1").versions([version]).connect(&server).await.unwrap();
        let tools = client.list_tools().await.unwrap();
        let mut names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["calendar__days_in_month", "notes__add_note", "notes__list_notes"], "{version}");
        let call = async |name: &str, arguments| client.call_tool(name, arguments).await;
        let days = call("calendar__days_in_month", json!({ "year": 2028, "month": 2 })).await.unwrap();
        assert_eq!(days.text(), "The month has 29 days.", "{version}");
        let added = call("notes__add_note", json!({ "text": "Water the plants." })).await.unwrap();
        assert_eq!(added.text(), expected, "{version}");
        // A tool that the policy denies is unknown to the client.
        let denied = client.request_raw("tools/call", json!({ "name": "notes__delete_notes", "arguments": {} }));
        let denied = denied.await.unwrap_err();
        assert!(denied.rpc().unwrap().message.contains("notes__delete_notes"), "{denied}");
        let left = call("notes__list_notes", json!({})).await.unwrap();
        assert!(left.text().contains("Water the plants."), "{version}");
        client.close().await;
    }
    host.shutdown().await;
}

#[tokio::test]
async fn the_policy_decides_the_calls_of_both_servers() {
    timeout(LIMIT, call_through_the_gateway()).await.unwrap();
}
