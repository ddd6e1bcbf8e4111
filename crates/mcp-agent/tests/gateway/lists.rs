//! The merged lists of a gateway.

use mcp_agent::{GatewayError, ItemKind, Names};
use mcp_server::{Server, tool};

use crate::common::{REVISIONS, connect, gateway};

/// A server with these tools, each of which returns the name of the server.
fn server(name: &'static str, tools: &[&'static str]) -> Server {
    let builder = Server::builder(name, "1");
    let tools = tools.iter().copied();
    tools.fold(builder, |builder, tool_name| builder.tool(tool(tool_name, move || async move { name }))).build()
}

#[tokio::test]
async fn the_first_server_wins_a_raw_name() {
    let (first, second) = (server("first", &["a", "b"]), server("second", &["b", "c"]));
    let builder = gateway(&[("first", &first), ("second", &second)]).await.names(Names::Raw);
    let observed = builder.gateway();
    let client = connect(builder, REVISIONS[1]).await;
    let names: Vec<String> = client.list_tools().await.unwrap().iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    for (name, expected) in [("a", "first"), ("b", "first"), ("c", "second")] {
        assert_eq!(client.call_tool(name, ()).await.unwrap().text(), expected);
    }
    let dropped = observed.diagnostics();
    assert_eq!(dropped.len(), 1);
    assert_eq!((dropped[0].kind, &*dropped[0].name, &*dropped[0].server), (ItemKind::Tool, "b", "second"));

    let strict = gateway(&[("first", &first), ("second", &second)]).await.names(Names::Raw).strict(true);
    let error = strict.build().unwrap_err();
    assert_eq!(error, GatewayError::Dropped(dropped));
    let expected = r#"the tool "b" of "second" is left out, because "first" has a tool with this name: use provider names, or leave one of the two tools out"#;
    assert_eq!(error.to_string(), expected);

    let names = connect(gateway(&[("first", &first), ("second", &second)]).await.strict(true), REVISIONS[0]).await;
    let names: Vec<String> = names.list_tools().await.unwrap().iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["first__a", "first__b", "second__b", "second__c"]);
}

#[tokio::test]
async fn a_long_list_has_pages_in_the_order_of_the_servers() {
    const TOOLS: usize = 1_300;
    let tools = |name: &'static str| {
        let builder = Server::builder(name, "1");
        (0..TOOLS).fold(builder, |builder, n| builder.tool(tool(format!("t{n}"), async || "x"))).build()
    };
    let (first, second) = (tools("first"), tools("second"));
    for version in REVISIONS {
        let client = connect(gateway(&[("first", &first), ("second", &second)]).await, version).await;
        let listed = client.list_tools().await.unwrap();
        let expected = ["first", "second"].iter().flat_map(|server| (0..TOOLS).map(move |n| format!("{server}__t{n}")));
        assert!(listed.iter().map(|tool| tool.name.clone()).eq(expected), "{version}");
        assert!(client.list_tools().page().await.unwrap().next_cursor.is_some());
        let error = client.list_tools().cursor("missing").page().await.unwrap_err();
        assert_eq!(error.rpc().unwrap().code.0, -32602);
        // A cursor within a page of the snapshot is valid too: the list can have changed since.
        let rest = client.list_tools().cursor("second__t1297").page().await.unwrap();
        assert_eq!(rest.items.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["second__t1298", "second__t1299"]);
    }
}
