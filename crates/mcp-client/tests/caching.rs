//! The client does not repeat a request while its cached result is fresh.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::time::Duration;

use mcp_client::{Client, protocol::ProtocolVersion};
use serde_json::{Value, json};

use crate::common::{Peer, builder, connected, connected_as, scripted, start};

const MODERN: ProtocolVersion = ProtocolVersion::V2026_07_28;

fn listed(name: &str, ttl: u64) -> Value {
    let tools = json!([{ "name": name, "inputSchema": { "type": "object" } }]);
    json!({ "resultType": "complete", "tools": tools, "ttlMs": ttl, "cacheScope": "private" })
}

/// Lists the tools. The server receives the request and returns a tool with this name.
async fn list_from_server(client: &Client, peer: &mut Peer, name: &str, ttl: u64) {
    let listing = start(client.list_tools());
    let id = peer.expect("tools/list").await;
    peer.answer(id, listed(name, ttl)).await;
    assert_eq!(listing.await.unwrap().unwrap()[0].name, name);
}

/// Lists the tools from the cache.
async fn cached(client: &Client, name: &str) {
    assert_eq!(client.list_tools().await.unwrap()[0].name, name);
}

#[tokio::test(start_paused = true)]
async fn serves_fresh_results_from_the_cache() {
    let (client, mut peer, _peers) = connected(MODERN).await;
    list_from_server(&client, &mut peer, "a", 1000).await;
    cached(&client, "a").await;
    tokio::time::sleep(Duration::from_millis(1001)).await;
    list_from_server(&client, &mut peer, "b", 0).await;
    list_from_server(&client, &mut peer, "c", 60_000).await;
    cached(&client, "c").await;

    // A `fresh` call updates the cache for later calls.
    let listing = start(client.list_tools().fresh());
    let id = peer.expect("tools/list").await;
    peer.answer(id, listed("d", 60_000)).await;
    assert_eq!(listing.await.unwrap().unwrap()[0].name, "d");
    cached(&client, "d").await;

    peer.notify("notifications/prompts/list_changed", json!({})).await;
    peer.notify("notifications/tools/list_changed", json!({})).await;
    let mut notifications = client.notifications();
    peer.notify("fence", json!({})).await;
    while notifications.next().await.unwrap().method() != "fence" {}
    list_from_server(&client, &mut peer, "e", 60_000).await;
    cached(&client, "e").await;
}

#[tokio::test(start_paused = true)]
async fn rereads_only_the_updated_resource() {
    let (client, mut peer, _peers) = connected(MODERN).await;
    let contents = |uri: &str| {
        let contents = json!([{ "uri": uri, "text": uri }]);
        json!({ "resultType": "complete", "contents": contents, "ttlMs": 60_000, "cacheScope": "public" })
    };
    for uri in ["a:1", "b:1"] {
        let reading = start(client.read_resource(uri));
        let id = peer.expect("resources/read").await;
        peer.answer(id, contents(uri)).await;
        reading.await.unwrap().unwrap();
    }
    let mut notifications = client.notifications();
    peer.notify("notifications/resources/updated", json!({ "uri": "a:1#part" })).await;
    notifications.next().await.unwrap();
    assert_eq!(client.read_resource("b:1").await.unwrap().contents[0].as_text(), Some("b:1"));
    let reading = start(client.read_resource("a:1"));
    let id = peer.expect("resources/read").await;
    peer.answer(id, contents("a:1")).await;
    reading.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn does_not_cache_results_with_input_requests() {
    let (client, mut peer, _peers) = connected_as(builder().roots([]), MODERN).await;
    for _ in 0..2 {
        let reading = start(client.read_resource("a:1"));
        let id = peer.expect("resources/read").await;
        let questions = json!({ "where": { "method": "roots/list" } });
        peer.answer(id, json!({ "resultType": "input_required", "inputRequests": questions })).await;
        let id = peer.expect("resources/read").await;
        peer.answer(id, json!({ "resultType": "complete", "contents": [], "ttlMs": 60_000 })).await;
        reading.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn does_not_cache_errors_other_connections_and_older_revisions() {
    let (client, mut peer, mut peers) = connected(MODERN).await;
    list_from_server(&client, &mut peer, "a", 60_000).await;
    let paging = start(client.list_tools().cursor("gone"));
    let id = peer.expect("tools/list").await;
    peer.refuse(id, json!({ "code": -32602, "message": "no such cursor" })).await;
    assert!(paging.await.unwrap().unwrap_err().rpc().is_some());
    list_from_server(&client, &mut peer, "b", 60_000).await;
    cached(&client, "b").await;
    client.reconnect();
    let mut peer = peers.next().await;
    peer.discovered().await;
    client.states().wait_for(|state| *state == mcp_client::State::Ready).await.unwrap();
    list_from_server(&client, &mut peer, "c", 60_000).await;

    let (client, mut peer, _peers) = connected(ProtocolVersion::V2025_11_25).await;
    list_from_server(&client, &mut peer, "a", 60_000).await;
    list_from_server(&client, &mut peer, "b", 60_000).await;

    let (connector, mut peers) = scripted();
    let connecting = start(builder().no_cache().connect(connector));
    let mut peer = peers.next().await;
    peer.discovered().await;
    let client = connecting.await.unwrap().unwrap();
    list_from_server(&client, &mut peer, "a", 60_000).await;
    list_from_server(&client, &mut peer, "b", 60_000).await;
}
