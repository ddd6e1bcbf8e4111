//! Clients with settings of the application, connectors of the application, and hosts with a part of the lists.

use std::{sync::Arc, time::Duration};

use mcp_agent::{Host, Lists, ServerError, ServerState, config::ServerDefinition};
use mcp_client::{ConnectorSettings, IntoConnector as _, Reconnect};
use mcp_protocol::ProtocolVersion;
use mcp_server::{Server, prompt, tool};
use mcp_test::peer::Reply;

use crate::common::{TEST_TIMEOUT, names, scripted, server, until_state, without_tools};

fn builder() -> mcp_agent::HostBuilder {
    Host::builder("test", "1").start_limit(TEST_TIMEOUT).reconnect(Reconnect::never())
}

#[tokio::test]
async fn a_host_reads_only_the_chosen_lists() {
    for (lists, tools, prompts) in [(Lists::All, 1, 1), (Lists::Tools, 1, 0), (Lists::None, 0, 0)] {
        let server =
            Server::builder("s", "1").tool(tool("now", async || "x")).prompt(prompt("p", async || "y")).build();
        let host = builder().lists(lists).server("s", &server).start().await.unwrap();
        let catalog = host.catalog();
        assert_eq!((catalog.tools().len(), catalog.prompts().len()), (tools, prompts), "{lists:?}");
        assert_eq!(host.status("s").unwrap().state, ServerState::Ready, "{lists:?}");
        let client = host.client("s").await.unwrap();
        assert_eq!(client.call_tool("now", ()).await.unwrap().text(), "x", "{lists:?}");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn a_list_that_the_host_does_not_read_cannot_delay_a_server() {
    // The prompts never arrive.
    let silent = scripted(&["now"]).on("prompts/list", Reply::silence());
    let host = builder().lists(Lists::Tools).server("s", silent).start().await.unwrap();
    assert_eq!((names(&host), host.status("s").unwrap().reason), (vec!["s:now".to_owned()], None));
    host.shutdown().await;
}

#[tokio::test]
async fn the_application_changes_the_clients_of_servers() {
    let old = ProtocolVersion::V2025_03_26;
    let host = builder()
        .server("old", &server("old", &["a"]))
        .server("new", &server("new", &["b"]))
        .clients(move |server, client| if server == "old" { client.versions([old]) } else { client })
        .start()
        .await
        .unwrap();
    assert_eq!(host.client("old").await.unwrap().negotiated().version, old);
    assert_eq!(host.client("new").await.unwrap().negotiated().version, ProtocolVersion::LATEST);
    host.shutdown().await;
}

#[tokio::test]
async fn a_definition_can_have_a_connector_of_the_application() {
    let host = builder().start().await.unwrap();
    let connector = || (&server("s", &["a", "b"])).into_connector(&ConnectorSettings::default()).unwrap();
    let mut definition = ServerDefinition::http("s", "https://unused.example/").denied_tools(["b"]);
    host.add_definition_with(&definition, connector()).unwrap();
    until_state(&host, "s", ServerState::Ready).await;
    assert_eq!(names(&host), ["s:a"]);
    let taken = host.add_definition_with(&definition, connector()).unwrap_err();
    assert!(matches!(taken, ServerError::Taken { .. }), "{taken}");
    definition.enabled = false;
    let disabled = host.add_definition_with(&definition, connector()).unwrap_err();
    assert!(matches!(disabled, ServerError::Disabled { .. }), "{disabled}");
    host.shutdown().await;
}

#[tokio::test]
async fn the_error_of_a_start_keeps_its_type() {
    let host = builder().start().await.unwrap();
    host.add_definition(&ServerDefinition::stdio("missing", "mcp-no-such-program")).unwrap();
    until_state(&host, "missing", ServerState::Failed).await;
    assert!(host.start_error("missing").unwrap().is_unreachable());
    assert!(host.start_error("none").is_none());
    let failing = without_tools().on("tools/list", Reply::error(-32603, "no tools today"));
    let connector = failing.into_connector(&ConnectorSettings::default()).unwrap();
    host.add("unlisted", Arc::clone(&connector), mcp_agent::ServerOptions::new()).unwrap();
    until_state(&host, "unlisted", ServerState::Degraded).await;
    assert_eq!(host.start_error("unlisted").unwrap().rpc().unwrap().code.0, -32603);
    tokio::time::timeout(Duration::from_secs(10), host.shutdown()).await.unwrap();
}
