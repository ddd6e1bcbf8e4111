//! Changes of lists and of resources behind a gateway.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use mcp_client::{Client, Subscription, Update};
use mcp_protocol::SubscriptionFilter;
use mcp_server::prelude::*;
use tokio::time::timeout;

use crate::common::{SOON, cells, client, gateway};

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
