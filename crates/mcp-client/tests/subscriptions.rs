//! Streams of what changes: the same in every revision, and over lost connections.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use mcp_client::{
    Reconnect, Subscription, Update,
    protocol::{ProtocolVersion, SubscriptionFilter, notification},
};
use mcp_server::prelude::*;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::common::{HOUR, Peer, Peers, builder, connected, connected_as, said, start};

async fn next(subscription: &mut Subscription) -> Update {
    timeout(HOUR, subscription.next()).await.expect("nothing changes").unwrap().unwrap()
}

fn updated(uri: &str) -> Update {
    Update::ResourceUpdated { uri: uri.into() }
}

fn server(version: ProtocolVersion) -> Server {
    Server::builder("real", "1")
        .versions([version])
        .tool(tool("quick", async || "quick"))
        .resource(resource("config://app", async || "dark"))
        .resource(resource("config://other", async || "light"))
        .build()
}

#[tokio::test]
async fn what_changes_is_told_in_every_revision() {
    for version in ProtocolVersion::ALL {
        let server = server(version);
        let client = builder().connect(&server).await.unwrap();
        let filter = SubscriptionFilter::lists().with_resources(["config://app"]);
        let mut subscription = client.listen(filter).await.unwrap();
        assert_eq!(subscription.honoured().resource_subscriptions, ["config://app"], "{version}");
        assert_eq!(subscription.honoured().tools_list_changed, Some(true));
        server.notify().resource_updated("config://other");
        server.notify().resource_updated("config://app");
        assert_eq!(next(&mut subscription).await, updated("config://app"), "{version}");
        server.tools().add(tool("later", async || "later")).unwrap();
        assert_eq!(next(&mut subscription).await, Update::ToolsChanged, "{version}");
        client.close().await;
        assert!(subscription.next().await.is_none());
    }
}

#[tokio::test]
async fn callbacks_hear_of_changes_in_every_revision() {
    for version in ProtocolVersion::ALL {
        let server = server(version);
        let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let client = builder()
            .on::<notification::ToolListChanged>(move |_| sender.send(()).unwrap())
            .connect(&server)
            .await
            .unwrap();
        // A subscription of our own is only open when that of the callback, which was first, is open too.
        let mut own = client.listen(SubscriptionFilter::lists()).await.unwrap();
        server.tools().add(tool("later", async || "later")).unwrap();
        assert_eq!(next(&mut own).await, Update::ToolsChanged);
        timeout(HOUR, heard.recv()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn what_a_server_does_not_tell_is_an_error() {
    for version in ProtocolVersion::ALL {
        let server = Server::builder("real", "1").versions([version]).tool(tool("quick", async || "quick")).build();
        let client = builder().connect(&server).await.unwrap();
        let subscribed = client.subscribe(["config://app"]).await;
        // The newest revision says which part of it will be told: none.
        match subscribed {
            Ok(subscription) => assert!(subscription.honoured().is_empty() && version.has_listen(), "{version}"),
            Err(error) => assert!(error.is_unsupported() && version.has_handshake(), "{version}: {error}"),
        }
    }
}

async fn acknowledge(peer: &mut Peer) -> Value {
    let listen = peer.recv().await;
    assert_eq!(listen["method"], "subscriptions/listen", "{listen}");
    let id = listen["id"].clone();
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
    let params = json!({ "notifications": listen["params"]["notifications"], "_meta": meta });
    peer.notify("notifications/subscriptions/acknowledged", params).await;
    id
}

async fn tell(peer: &Peer, id: &Value, uri: &str) {
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
    peer.notify("notifications/resources/updated", json!({ "uri": uri, "_meta": meta })).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_hears_its_own_notices_and_opens_again_however_it_ended() {
    let (client, mut peer, mut peers): (_, _, Peers) = connected(ProtocolVersion::V2026_07_28).await;
    let subscribing = start({
        let client = client.clone();
        async move { client.subscribe(["a:"]).await }
    });
    let mut id = acknowledge(&mut peer).await;
    let mut subscription = subscribing.await.unwrap().unwrap();
    tell(&peer, &json!(4711), "a:wrong").await;
    tell(&peer, &id, "a:1").await;
    assert_eq!(next(&mut subscription).await, updated("a:1"));
    for end in ["result", "cancelled", "both", "lost"] {
        let cancelled = json!({ "requestId": id });
        match end {
            "result" => peer.answer(id, json!({ "resultType": "complete" })).await,
            "cancelled" => peer.notify("notifications/cancelled", cancelled).await,
            "both" => {
                peer.notify("notifications/cancelled", cancelled).await;
                peer.answer(id, json!({ "resultType": "complete" })).await;
            }
            _ => {
                peer.close();
                peer = peers.next().await;
                peer.discovered().await;
            }
        }
        id = acknowledge(&mut peer).await;
        assert_eq!(next(&mut subscription).await, Update::Missed, "{end}");
        tell(&peer, &id, "a:2").await;
        assert_eq!(next(&mut subscription).await, updated("a:2"), "{end}");
    }
    drop(subscription);
    let cancelled = peer.recv().await;
    assert_eq!((&cancelled["method"], &cancelled["params"]["requestId"]), (&json!("notifications/cancelled"), &id));
    assert_eq!(client.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_is_not_asked_again() {
    let (client, mut peer, _peers) = connected(ProtocolVersion::V2026_07_28).await;
    let subscribing = start({
        let client = client.clone();
        async move { client.subscribe(["a:"]).await.map(drop) }
    });
    let id = peer.expect("subscriptions/listen").await;
    peer.refuse(id, json!({ "code": -32601, "message": "no" })).await;
    assert!(subscribing.await.unwrap().unwrap_err().is_unsupported());
    let _call = start(client.call_tool("t", ()));
    peer.expect("tools/call").await;
}

#[tokio::test(start_paused = true)]
async fn a_session_is_told_what_is_wanted_once_more_after_it_was_lost() {
    let version = ProtocolVersion::V2025_06_18;
    let (client, mut peer, mut peers) = connected_as(builder().versions([version]), version).await;
    let subscribing = start({
        let client = client.clone();
        async move { client.subscribe(["a:1"]).await }
    });
    let id = peer.expect("resources/subscribe").await;
    peer.answer(id, json!({})).await;
    let mut subscription = subscribing.await.unwrap().unwrap();
    peer.notify("notifications/resources/updated", json!({ "uri": "b:1" })).await;
    peer.notify("notifications/resources/updated", json!({ "uri": "a:1/part" })).await;
    assert_eq!(next(&mut subscription).await, updated("a:1/part"));
    peer.close();
    let mut peer = peers.next().await;
    peer.open(version.as_str()).await;
    let subscribe = peer.recv().await;
    assert_eq!((&subscribe["method"], &subscribe["params"]["uri"]), (&json!("resources/subscribe"), &json!("a:1")));
    peer.answer(subscribe["id"].clone(), json!({})).await;
    assert_eq!(next(&mut subscription).await, Update::Missed);
    drop(subscription);
    let id = peer.expect("resources/unsubscribe").await;
    peer.answer(id, json!({})).await;
    let call = start(client.call_tool("t", ()));
    let id = peer.expect("tools/call").await;
    peer.answer(id, said("done")).await;
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_subscription_ends_with_a_client_that_does_not_reconnect() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let (client, mut peer, _peers) = connected_as(builder().reconnect(Reconnect::never()), version).await;
        let subscribing = tokio::spawn({
            let client = client.clone();
            async move { client.subscribe(["a:b"]).await }
        });
        let asked = peer.recv().await;
        if version.has_listen() {
            let params = json!({
                "notifications": { "resourceSubscriptions": ["a:b"] },
                "_meta": { "io.modelcontextprotocol/subscriptionId": asked["id"] },
            });
            peer.notify("notifications/subscriptions/acknowledged", params).await;
        } else {
            peer.answer(asked["id"].clone(), json!({})).await;
        }
        let mut subscription = subscribing.await.unwrap().unwrap();
        peer.close();
        let end = timeout(HOUR, subscription.next()).await.expect("it never ends").unwrap();
        assert!(end.unwrap_err().is_closed(), "{version}");
        assert!(subscription.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn who_subscribes_while_another_leaves_stays_subscribed() {
    let (client, mut peer, _peers) = connected(ProtocolVersion::V2025_11_25).await;
    let subscribe = || {
        let client = client.clone();
        tokio::spawn(async move { client.subscribe(["a:b"]).await })
    };
    let first = subscribe();
    let id = peer.expect("resources/subscribe").await;
    peer.answer(id, json!({})).await;
    drop(first.await.unwrap().unwrap());
    let leaving = peer.expect("resources/unsubscribe").await;
    let second = subscribe();
    let joining = peer.expect("resources/subscribe").await;
    // A server that takes what overtakes.
    peer.answer(joining, json!({})).await;
    let mut second = second.await.unwrap().unwrap();
    peer.answer(leaving, json!({})).await;
    let again = peer.expect("resources/subscribe").await;
    peer.answer(again, json!({})).await;
    peer.notify("notifications/resources/updated", json!({ "uri": "a:b" })).await;
    assert_eq!(next(&mut second).await, updated("a:b"));
}
