//! Changes of lists and of resources behind a gateway.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::Arc;

use mcp_agent::{
    ServerOptions,
    policy::{Effect, Rule},
};
use mcp_client::{Client, Subscription, Update, transport::Connect};
use mcp_protocol::SubscriptionFilter;
use mcp_server::prelude::*;
use tokio::time::timeout;

use crate::common::{Pipe, REVISIONS, SOON, cells, client, gateway};

async fn next(subscription: &mut Subscription) -> Update {
    timeout(SOON, subscription.next()).await.unwrap().unwrap().unwrap()
}

fn names(tools: &[mcp_protocol::Tool]) -> Vec<&str> {
    tools.iter().map(|tool| &*tool.name).collect()
}

#[tokio::test]
async fn a_changed_list_is_announced_after_its_new_snapshot() {
    for (down, up) in cells() {
        let upstream = Server::builder("s", "1").versions([up]).tool(tool("a", async || "a")).build();
        let server = gateway(&[("s", &upstream)]).await.build().unwrap().versions([down]).build();
        let client = client().no_cache().connect(&server).await.unwrap();
        let mut changes = client.listen(SubscriptionFilter::lists()).await.unwrap();
        upstream.tools().add(tool("b", async || "b")).unwrap();
        while next(&mut changes).await != Update::ToolsChanged {}
        assert_eq!(names(&client.list_tools().await.unwrap()), ["s__a", "s__b"], "{down} {up}");
        assert_eq!(client.call_tool("s__b", ()).await.unwrap().text(), "b");
        upstream.tools().remove("a");
        while next(&mut changes).await != Update::ToolsChanged {}
        assert_eq!(names(&client.list_tools().await.unwrap()), ["s__b"], "{down} {up}");
        assert!(client.call_tool("s__a", ()).await.is_err());
    }
}

#[tokio::test]
async fn a_changed_rule_of_a_server_with_the_same_items_is_announced() {
    let upstream = Server::builder("s", "1").tool(tool("a", async || "a")).tool(tool("b", async || "b")).build();
    for down in REVISIONS {
        let builder = gateway(&[("s", &upstream)]).await;
        let host = builder.gateway().host().clone();
        let server = builder.build().unwrap().versions([down]).build();
        let client = client().no_cache().connect(&server).await.unwrap();
        let mut changes = client.listen(SubscriptionFilter::lists()).await.unwrap();
        let generation = host.catalog().generation();
        for (rules, left) in [(vec!["a"], vec!["s__b"]), (vec![], vec!["s__a", "s__b"])] {
            let deny = |tool: &str| Rule::new(Effect::Deny).tool(tool.parse().unwrap());
            let options = rules.into_iter().map(deny).fold(ServerOptions::new(), ServerOptions::rule);
            let connector: Arc<dyn Connect> = Arc::new(Pipe::new(upstream.clone()));
            timeout(SOON, host.replace("s", connector, options)).await.unwrap().unwrap();
            while next(&mut changes).await != Update::ToolsChanged {}
            assert_eq!(names(&client.list_tools().await.unwrap()), left, "{down}");
        }
        assert_eq!(host.catalog().generation(), generation, "the items have not changed");
    }
}

/// Connects a client, which subscribes to a resource.
async fn subscribe(server: &Server) -> (Client, Subscription) {
    let client = client().connect(server).await.unwrap();
    let subscription = timeout(SOON, client.subscribe(["mcp://s/x:a"])).await.unwrap().unwrap();
    (client, subscription)
}

#[tokio::test]
async fn updates_of_resources_reach_all_subscribers() {
    for (down, up) in cells() {
        let upstream = Server::builder("s", "1").versions([up]).resource(resource("x:a", async || "a")).build();
        let server = gateway(&[("s", &upstream)]).await.build().unwrap().versions([down]).build();
        let ((_one, mut first), (_two, mut second)) = (subscribe(&server).await, subscribe(&server).await);
        upstream.notify().resource_updated("x:a");
        for subscription in [&mut first, &mut second] {
            let expected = Update::ResourceUpdated { uri: "mcp://s/x:a".to_owned() };
            assert_eq!(next(subscription).await, expected, "{down} {up}");
        }
        drop(first);
        upstream.notify().resource_updated("x:a");
        assert!(matches!(next(&mut second).await, Update::ResourceUpdated { .. }), "{down} {up}");
        let unknown = client().connect(&server).await.unwrap().subscribe(["mcp://other/x:a"]).await;
        assert!(unknown.map_or(true, |open| open.honoured().resource_subscriptions.is_empty()), "{down} {up}");
    }
}
