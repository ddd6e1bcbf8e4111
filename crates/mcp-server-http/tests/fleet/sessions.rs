//! Any node serves a session: its state, its owner, its deletion and its expiry.

use mcp_protocol::{Principal, RpcError, UrlElicitParams};
use mcp_server_core::{Context, ToolError, resource, tool};

use super::{
    outage::{Fault, Fragile},
    *,
};
use crate::common::{Echo, legacy, legacy_as, settle};

fn echo(builder: ServerBuilder) -> ServerBuilder {
    builder
        .tool(tool("echo", async |mcp_server_core::Args(Echo { text }): mcp_server_core::Args<Echo>| text))
        .tool(tool("client", async |context: Context| {
            context.client_info().map(|info| info.name.clone()).unwrap_or_default()
        }))
        .resource(resource("note://1", async || "one"))
}

fn ping(session: &str) -> Request<Full<Bytes>> {
    legacy(Some(session), "ping", json!({}))
}

fn delete(session: &str) -> Request<Full<Bytes>> {
    request(Method::DELETE, &[("mcp-session-id", session)], "")
}

fn of(mut request: Request<Full<Bytes>>, subject: &str) -> Request<Full<Bytes>> {
    request.extensions_mut().insert(Principal::new(subject));
    request
}

#[tokio::test]
async fn each_request_of_a_session_can_use_another_node() {
    let fleet = Fleet::new(3, echo);
    let session = fleet.open(json!({ "roots": {} })).await;
    for id in 1..10 {
        let params = json!({ "name": "echo", "arguments": { "text": format!("{id}") } });
        let answer = fleet.send(legacy_as(id, Some(&session), "tools/call", params)).await;
        assert_eq!(answer.json()["result"]["content"][0]["text"], format!("{id}"), "{answer:?}");
    }
    for node in &fleet.nodes {
        let answer = send(node, legacy(Some(&session), "tools/call", json!({ "name": "client" }))).await;
        assert_eq!(answer.json()["result"]["content"][0]["text"], "t", "{answer:?}");
        assert_eq!(node.open_sessions(), 1);
    }
    let answer = fleet.send(ping("mcp_00000000000000000000000000000000")).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_session_that_is_deleted_at_one_node_ends_at_all() {
    let fleet = Fleet::new(3, echo);
    let session = fleet.open(json!({})).await;
    for node in &fleet.nodes {
        assert_eq!(send(node, ping(&session)).await.status, StatusCode::OK);
    }
    assert_eq!(fleet.send(delete(&session)).await.status, StatusCode::NO_CONTENT);
    settle().await;
    for node in &fleet.nodes {
        assert_eq!(send(node, ping(&session)).await.status, StatusCode::NOT_FOUND);
        assert_eq!(node.open_sessions(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_expires_only_when_no_node_uses_it() {
    let idle = Duration::from_secs(100);
    let store = Arc::new(MemoryStore::new());
    let fleet = Fleet::with(2, store.clone(), HttpConfig::new().session_idle_timeout(idle), echo);
    let session = fleet.open(json!({})).await;
    // Only the first node receives requests. The replica of the second node expires.
    for _ in 0..5 {
        tokio::time::advance(idle / 2).await;
        assert_eq!(send(&fleet.nodes[0], ping(&session)).await.status, StatusCode::OK);
        settle().await;
    }
    assert_eq!(send(&fleet.nodes[1], ping(&session)).await.status, StatusCode::OK);
    settle().await;
    tokio::time::advance(idle + idle / 5).await;
    for node in &fleet.nodes {
        assert_eq!(send(node, ping(&session)).await.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn each_node_checks_the_owner_of_a_session() {
    let fleet = Fleet::new(3, echo);
    let opened = fleet.send(of(initialize(), "alice")).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    for node in &fleet.nodes {
        for (request, expected) in [
            (of(ping(&session), "bob"), StatusCode::NOT_FOUND),
            (ping(&session), StatusCode::NOT_FOUND),
            (of(ping(&session), "alice"), StatusCode::OK),
            (of(delete(&session), "bob"), StatusCode::NOT_FOUND),
        ] {
            assert_eq!(send(node, request).await.status, expected);
        }
    }
}

#[tokio::test]
async fn state_that_a_client_sets_at_one_node_holds_at_all() {
    let fleet = Fleet::new(3, echo);
    let session = fleet.open(json!({})).await;
    // Each node has a replica before the changes.
    for node in &fleet.nodes {
        assert_eq!(send(node, ping(&session)).await.status, StatusCode::OK);
    }
    fleet.send(legacy(Some(&session), "resources/subscribe", json!({ "uri": "note://1" }))).await;
    fleet.send(legacy(Some(&session), "logging/setLevel", json!({ "level": "error" }))).await;
    settle().await;
    for reader in 0..3 {
        let mut stream = common::opened(&fleet.nodes[reader], &session).await;
        let notices = fleet.servers[(reader + 1) % 3].notify();
        notices.resource_updated("note://2");
        notices.resource_updated("note://1");
        fleet.servers[reader].notify().log(mcp_protocol::LoggingLevel::Warning, "low");
        fleet.servers[reader].notify().log(mcp_protocol::LoggingLevel::Error, "high");
        let mut received = Vec::new();
        // A change that waited for a reader at several nodes arrives more than once.
        while !received.contains(&"high".to_owned()) || !received.contains(&"note://1".to_owned()) {
            received.extend(next_events(&mut stream).await.into_iter().map(|event| {
                let params = &event.message.unwrap()["params"];
                params["uri"].as_str().or(params["data"].as_str()).unwrap().to_owned()
            }));
            received.dedup();
        }
        received.retain(|one| one != "note://1");
        assert_eq!(received, ["high"]);
    }
}

#[tokio::test(start_paused = true)]
async fn subscriptions_at_several_nodes_at_once_hold_at_all() {
    let uris: Vec<_> = (0..10).map(|number| format!("note://{number}")).collect();
    let store = Arc::new(Fragile::default());
    let fleet = Fleet::with(2, store.clone(), HttpConfig::new(), |builder| {
        uris.iter().fold(builder, |builder, uri| builder.resource(resource(uri, async || "one")))
    });
    for nodes in [1, 2] {
        let session = fleet.open(json!({})).await;
        for node in &fleet.nodes {
            assert_eq!(send(node, ping(&session)).await.status, StatusCode::OK);
        }
        settle().await;
        // The first node has an old record from now on.
        let level = legacy(Some(&session), "logging/setLevel", json!({ "level": "error" }));
        assert_eq!(send(&fleet.nodes[1], level).await.status, StatusCode::OK);
        store.set_fault(Fault::Slow);
        let mut subscribed = tokio::task::JoinSet::new();
        for (at, uri) in uris.iter().enumerate() {
            let node = fleet.nodes[at % nodes].clone();
            let request = legacy(Some(&session), "resources/subscribe", json!({ "uri": uri }));
            subscribed.spawn(async move { send(&node, request).await.status });
        }
        assert_eq!(within("the subscriptions", subscribed.join_all()).await, [StatusCode::OK; 10]);
        store.set_fault(Fault::None);
        settle().await;
        for reader in 0..2 {
            let mut stream = common::opened(&fleet.nodes[reader], &session).await;
            // The other node has sent the changes that waited there. Later changes arrive through the node of the reader.
            settle().await;
            uris.iter().for_each(|uri| fleet.servers[1 - reader].notify().resource_updated(uri));
            let mut received = std::collections::BTreeSet::new();
            let receiving = async {
                while received.len() < uris.len() {
                    for event in next_events(&mut stream).await {
                        received.insert(event.message.unwrap()["params"]["uri"].as_str().unwrap().to_owned());
                    }
                }
            };
            // The comments of a quiet stream restart the limit of an event.
            let _ = tokio::time::timeout(Duration::from_secs(60), receiving).await;
            assert!(received.iter().eq(&uris), "{nodes} {received:?}");
        }
    }
}

#[tokio::test]
async fn a_cancellation_reaches_the_node_of_the_request() {
    let build = |builder: ServerBuilder| {
        builder.tool(tool("forever", async |context: Context| {
            context.cancelled().await;
            "never"
        }))
    };
    let fleet = Fleet::new(2, build);
    let session = fleet.open(json!({})).await;
    let (node, call) =
        (fleet.nodes[0].clone(), legacy_as(7, Some(&session), "tools/call", json!({ "name": "forever" })));
    let running = tokio::spawn(async move { send(&node, call).await });
    settle().await;
    assert!(!running.is_finished());
    let cancel = notification(&session, "notifications/cancelled", json!({ "requestId": 7 }));
    assert_eq!(send(&fleet.nodes[1], cancel).await.status, StatusCode::ACCEPTED);
    // A cancelled request has no response: its stream ends.
    let answer = within("the end of the call", running).await.unwrap();
    assert!(answer.events().is_empty(), "{answer:?}");
}

#[tokio::test]
async fn a_page_is_completed_at_any_node() {
    let page = || {
        let page = UrlElicitParams::new("Pay.", "https://a.example/8").with_elicitation_id("page-8");
        ToolError::protocol(RpcError::url_elicitation_required([page]))
    };
    let fleet = Fleet::new(3, |builder| builder.tool(tool("pay", async move || Err::<&str, _>(page()))));
    let session = fleet.open(json!({ "elicitation": { "url": {} } })).await;
    let answer = send(&fleet.nodes[0], legacy(Some(&session), "tools/call", json!({ "name": "pay" }))).await;
    assert_eq!(answer.error_code(), Some(-32042), "{answer:?}");
    let mut stream = common::opened(&fleet.nodes[1], &session).await;
    // The browser of the user returns to the last node.
    fleet.servers[2].notify().elicitation_complete("page-8");
    let notice = next_message(&mut stream).await;
    assert_eq!(notice["method"], "notifications/elicitation/complete", "{notice}");
    assert_eq!(notice["params"], json!({ "elicitationId": "page-8" }));
    // The client is notified once.
    fleet.servers[1].notify().elicitation_complete("page-8");
    settle().await;
    fleet.servers[0].notify().log(mcp_protocol::LoggingLevel::Error, "later");
    assert_eq!(next_message(&mut stream).await["params"]["data"], "later");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_announced_until_the_other_nodes_have_it() {
    let memory = MemoryStore::new();
    let first = Arc::new(Fragile::of(memory.clone()));
    let fleet = Fleet::of_stores(vec![first.clone(), Arc::new(memory)], HttpConfig::new(), echo);
    let session = fleet.open(json!({})).await;
    for node in &fleet.nodes {
        assert_eq!(send(node, ping(&session)).await.status, StatusCode::OK);
    }
    settle().await;
    first.set_fault(Fault::Mute);
    assert_eq!(send(&fleet.nodes[0], delete(&session)).await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(send(&fleet.nodes[0], ping(&session)).await.status, StatusCode::NOT_FOUND);
    first.set_fault(Fault::None);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(fleet.nodes[1].open_sessions(), 0);
    assert_eq!(send(&fleet.nodes[1], ping(&session)).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_full_node_adopts_sessions_in_place_of_idle_ones() {
    let config = HttpConfig::new().max_sessions(2);
    let fleet = Fleet::with(2, Arc::new(MemoryStore::new()), config, echo);
    let mut sessions = Vec::new();
    for node in [0, 0, 1, 1] {
        let opened = send(&fleet.nodes[node], initialize()).await;
        sessions.push(opened.header("mcp-session-id").unwrap().to_owned());
    }
    for _ in 0..3 {
        for session in &sessions {
            for node in &fleet.nodes {
                let answer = send(node, ping(session)).await;
                assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
                assert!(node.open_sessions() <= 2);
            }
        }
    }
    // A session with an open stream stays.
    let mut streams = Vec::new();
    for session in &sessions[..2] {
        streams.push(common::opened(&fleet.nodes[0], session).await);
    }
    let answer = send(&fleet.nodes[0], ping(&sessions[2])).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(send(&fleet.nodes[1], ping(&sessions[2])).await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_without_an_acknowledgement_is_an_error() {
    let memory = MemoryStore::new();
    let first = Arc::new(Fragile::of(memory.clone()));
    let build = |builder: ServerBuilder| {
        builder.tool(tool("forever", async |context: Context| {
            context.cancelled().await;
            "never"
        }))
    };
    let fleet = Fleet::of_stores(vec![first.clone(), Arc::new(memory)], HttpConfig::new(), build);
    let session = fleet.open(json!({})).await;
    let (node, call) =
        (fleet.nodes[0].clone(), legacy_as(7, Some(&session), "tools/call", json!({ "name": "forever" })));
    let running = tokio::spawn(async move { send(&node, call).await });
    settle().await;
    let cancel = |id: u64| notification(&session, "notifications/cancelled", json!({ "requestId": id }));
    // A request that no node runs has ended.
    assert_eq!(send(&fleet.nodes[1], cancel(8)).await.status, StatusCode::ACCEPTED);
    first.set_fault(Fault::Mute);
    let refused = send(&fleet.nodes[1], cancel(8)).await;
    assert_eq!((refused.status, refused.error_code()), (StatusCode::SERVICE_UNAVAILABLE, Some(-32603)), "{refused:?}");
    assert!(!running.is_finished());
    first.set_fault(Fault::None);
    assert_eq!(send(&fleet.nodes[1], cancel(7)).await.status, StatusCode::ACCEPTED);
    assert!(within("the end of the call", running).await.unwrap().events().is_empty());
}
