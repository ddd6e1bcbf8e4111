//! Subscriptions: the same in every revision, and across lost connections.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use mcp_client::{
    Client, ClientBuilder, Negotiated, Reconnect, State, Subscription, Update,
    protocol::{ProtocolVersion, SubscriptionFilter, notification},
};
use mcp_server::prelude::*;
use mcp_test::peer::{Reply, ScriptedServer};
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

use crate::common::{HOUR, Peer, Peers, builder, connected, connected_as, discovery, scripted, start, tool_result};

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
async fn receives_changes_in_every_revision() {
    for &version in ProtocolVersion::ALL {
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
async fn callbacks_receive_changes_in_every_revision() {
    for &version in ProtocolVersion::ALL {
        let server = server(version);
        let (sender, mut updates) = tokio::sync::mpsc::unbounded_channel();
        let client = builder()
            .on::<notification::ToolListChanged>(move |_| sender.send(()).unwrap())
            .connect(&server)
            .await
            .unwrap();
        // A subscription of our own is only open when that of the callback, which was first, is open too.
        let mut own = client.listen(SubscriptionFilter::lists()).await.unwrap();
        server.tools().add(tool("later", async || "later")).unwrap();
        assert_eq!(next(&mut own).await, Update::ToolsChanged);
        timeout(HOUR, updates.recv()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_subscription_to_an_unsupported_change_is_an_error() {
    for &version in ProtocolVersion::ALL {
        let server = Server::builder("real", "1").versions([version]).tool(tool("quick", async || "quick")).build();
        let client = builder().connect(&server).await.unwrap();
        let subscribed = client.subscribe(["config://app"]).await;
        // In the newest revision the server acknowledges which subscriptions it accepted: none.
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

async fn send_update(peer: &Peer, id: &Value, uri: &str) {
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
    peer.notify("notifications/resources/updated", json!({ "uri": uri, "_meta": meta })).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_receives_its_own_changes_and_reopens_after_every_end() {
    let (client, mut peer, mut peers): (_, _, Peers) = connected(ProtocolVersion::V2026_07_28).await;
    let subscribing = start({
        let client = client.clone();
        async move { client.subscribe(["a:"]).await }
    });
    let mut id = acknowledge(&mut peer).await;
    let mut subscription = subscribing.await.unwrap().unwrap();
    send_update(&peer, &json!(4711), "a:wrong").await;
    send_update(&peer, &id, "a:1").await;
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
        send_update(&peer, &id, "a:2").await;
        assert_eq!(next(&mut subscription).await, updated("a:2"), "{end}");
    }
    drop(subscription);
    let cancelled = peer.recv().await;
    assert_eq!((&cancelled["method"], &cancelled["params"]["requestId"]), (&json!("notifications/cancelled"), &id));
    assert_eq!(client.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn does_not_retry_a_rejected_subscription() {
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
async fn renews_subscriptions_in_a_new_session() {
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
    peer.answer(id, tool_result("done")).await;
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
        let request = peer.recv().await;
        if version.has_listen() {
            let params = json!({
                "notifications": { "resourceSubscriptions": ["a:b"] },
                "_meta": { "io.modelcontextprotocol/subscriptionId": request["id"] },
            });
            peer.notify("notifications/subscriptions/acknowledged", params).await;
        } else {
            peer.answer(request["id"].clone(), json!({})).await;
        }
        let mut subscription = subscribing.await.unwrap().unwrap();
        peer.close();
        let end = timeout(HOUR, subscription.next()).await.expect("the subscription did not end").unwrap();
        assert!(end.unwrap_err().is_closed(), "{version}");
        assert!(subscription.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_concurrent_unsubscribe_does_not_end_a_subscription() {
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
    let mut second = subscribe();
    // The server could receive a new request first, so the client waits for the answer.
    assert!(timeout(Duration::from_secs(1), &mut second).await.is_err());
    let ping = start({
        let client = client.clone();
        async move { client.ping().await }
    });
    let id = peer.expect("ping").await;
    peer.answer(id, json!({})).await;
    ping.await.unwrap().unwrap();
    peer.answer(leaving, json!({})).await;
    let joining = peer.expect("resources/subscribe").await;
    peer.answer(joining, json!({})).await;
    let mut second = second.await.unwrap().unwrap();
    peer.notify("notifications/resources/updated", json!({ "uri": "a:b" })).await;
    assert_eq!(next(&mut second).await, updated("a:b"));
}

/// Closes every connection that is opened, and counts them.
fn refuse_connections(mut peers: Peers) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counting = count.clone();
    tokio::spawn(async move {
        loop {
            peers.next().await.close();
            counting.fetch_add(1, Ordering::Relaxed);
        }
    });
    count
}

/// A subscription to one resource, and the id of its request.
async fn subscribed(client: &Client, peer: &mut Peer, version: ProtocolVersion) -> (Subscription, Value) {
    let client = client.clone();
    let subscribing = tokio::spawn(async move { client.subscribe(["a:b"]).await });
    let id = if version.has_listen() {
        acknowledge(peer).await
    } else {
        let id = peer.expect("resources/subscribe").await;
        peer.answer(id.clone(), json!({})).await;
        id
    };
    (subscribing.await.unwrap().unwrap(), id)
}

fn few_attempts() -> ClientBuilder {
    let policy = Reconnect::default().attempts(3);
    builder().reconnect(policy)
}

#[tokio::test(start_paused = true)]
async fn a_subscription_fails_when_the_server_stays_unreachable() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let (client, mut peer, peers) = connected_as(few_attempts(), version).await;
        let (mut subscription, _) = subscribed(&client, &mut peer, version).await;
        peer.close();
        let attempts = refuse_connections(peers);
        let error =
            timeout(HOUR, subscription.next()).await.expect("the subscription did not end").unwrap().unwrap_err();
        assert!(error.is_closed() && error.is_retryable(), "{version}: {error}");
        assert!(subscription.next().await.is_none());
        // The attempts of the client, and one more because a subscription was still open.
        assert_eq!(attempts.load(Ordering::Relaxed), 4, "{version}");
        tokio::time::sleep(HOUR / 2).await;
        assert_eq!(attempts.load(Ordering::Relaxed), 4, "{version}: the client connected again without need");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_fails_when_it_cannot_be_reopened() {
    let version = ProtocolVersion::V2026_07_28;
    let (client, mut peer, _peers) = connected_as(few_attempts(), version).await;
    let (mut subscription, id) = subscribed(&client, &mut peer, version).await;
    peer.answer(id, json!({ "resultType": "complete" })).await;
    for _ in 0..3 {
        let id = peer.expect("subscriptions/listen").await;
        peer.answer(id, json!({ "resultType": "complete" })).await;
    }
    let error = timeout(HOUR, subscription.next()).await.expect("the subscription did not end").unwrap().unwrap_err();
    assert!(error.is_closed(), "{error}");
    assert!(subscription.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_retried_while_the_server_is_busy() {
    let busy = json!({ "code": -32603, "message": "busy", "data": { "reason": "busy" } });
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let (client, mut peer, mut peers) = connected_as(few_attempts(), version).await;
        let (mut subscription, _) = subscribed(&client, &mut peer, version).await;
        peer.close();
        peer = peers.next().await;
        peer.open_any(version).await;
        let method = if version.has_listen() { "subscriptions/listen" } else { "resources/subscribe" };
        let mut previous = tokio::time::Instant::now();
        for attempt in 1..=2 {
            let id = peer.expect(method).await;
            if attempt > 1 {
                assert!(previous.elapsed() >= Reconnect::default().first.mul_f64(0.75), "{version}: {attempt}");
            }
            previous = tokio::time::Instant::now();
            peer.refuse(id, busy.clone()).await;
        }
        let id = if version.has_listen() {
            acknowledge(&mut peer).await
        } else {
            let id = peer.expect(method).await;
            peer.answer(id.clone(), json!({})).await;
            id
        };
        assert_eq!(next(&mut subscription).await, Update::Missed, "{version}");
        send_update(&peer, &id, "a:b").await;
        assert_eq!(next(&mut subscription).await, updated("a:b"), "{version}");

        // The caller of the first attempt receives the error, and can retry.
        let subscribing = start({
            let client = client.clone();
            async move { client.subscribe(["a:c"]).await.map(drop) }
        });
        let id = peer.expect(method).await;
        peer.refuse(id, busy.clone()).await;
        assert!(subscribing.await.unwrap().unwrap_err().is_retryable(), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn callbacks_resume_when_another_call_reconnects() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let (sender, mut updates) = tokio::sync::mpsc::unbounded_channel();
        let listening = few_attempts().on::<notification::ToolListChanged>(move |_| sender.send(()).unwrap());
        let (client, mut peer, mut peers) = connected_as(listening, version).await;
        if version.has_listen() {
            acknowledge(&mut peer).await;
        }
        peer.close();
        // The last of them, because a callback was still registered. Later the client unsubscribes.
        for _ in 0..4 {
            peers.next().await.close();
        }
        tokio::time::sleep(HOUR / 2).await;
        assert_eq!(client.state(), State::Down, "{version}");
        let call = start(client.call_tool("t", ()));
        let mut peer = peers.next().await;
        peer.open_any(version).await;
        let mut id = None;
        loop {
            let request = peer.recv().await;
            match request["method"].as_str().unwrap() {
                "tools/call" => peer.answer(request["id"].clone(), tool_result("done")).await,
                _ => id = Some(request["id"].clone()),
            }
            if version.has_handshake() || id.is_some() {
                break;
            }
        }
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
        peer.notify("notifications/tools/list_changed", json!({ "_meta": meta })).await;
        timeout(HOUR, updates.recv()).await.unwrap().unwrap();
        drop(call);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dropping_a_pending_subscription_leaks_nothing() {
    let version = ProtocolVersion::V2025_11_25;
    let (client, mut peer, _peers) = connected(version).await;
    let (is_subscribed, mut subscribed) = watch::channel(false);
    let serving = tokio::spawn(async move {
        while let Some(request) = peer.next().await {
            match request["method"].as_str() {
                Some("resources/subscribe") => _ = is_subscribed.send_replace(true),
                Some("resources/unsubscribe") => _ = is_subscribed.send_replace(false),
                _ => continue,
            }
            peer.answer(request["id"].clone(), json!({})).await;
        }
    });
    for _ in 0..5000 {
        // It has begun on another thread when it is dropped.
        let mut subscribing = pin!(client.subscribe(["a:b"]));
        poll_fn(|cx| Poll::Ready(subscribing.as_mut().poll(cx).is_ready())).await;
    }
    let last = client.subscribe(["a:b"]).await.unwrap();
    subscribed.wait_for(|is_subscribed| *is_subscribed).await.unwrap();
    drop(last);
    let left = timeout(HOUR / 60, subscribed.wait_for(|is_subscribed| !*is_subscribed)).await;
    assert!(left.is_ok(), "the client did not unsubscribe");
    client.close().await;
    serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reopened_stream_reports_the_gap_once_to_callbacks_and_readers() {
    let version = ProtocolVersion::V2026_07_28;
    // The server ends this many attempts, and acknowledges the next one. The last number exceeds the attempts of the policy.
    for failed in [0, 1, 5] {
        let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
        let builder = builder().on::<notification::ToolListChanged>(|_| ()).on_notification(move |notification| {
            sender.send((notification.method().to_owned(), notification.is_missed())).unwrap();
        });
        let (client, mut peer, _peers) = connected_as(builder, version).await;
        let mut reader = client.notifications();
        let id = acknowledge(&mut peer).await;
        peer.answer(id, json!({ "resultType": "complete" })).await;
        for _ in 0..failed {
            let id = peer.expect("subscriptions/listen").await;
            peer.answer(id, json!({ "resultType": "complete" })).await;
        }
        let id = acknowledge(&mut peer).await;
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
        peer.notify("notifications/tools/list_changed", json!({ "_meta": meta })).await;
        let mut methods = Vec::new();
        while methods.last().is_none_or(|(method, _)| method != "notifications/tools/list_changed") {
            methods.push(timeout(HOUR, received.recv()).await.unwrap().unwrap());
        }
        assert_eq!(methods.iter().filter(|(_, is_missed)| *is_missed).count(), 1, "{failed}: {methods:?}");
        let mut read = Vec::new();
        while read.last().is_none_or(|method| method != "notifications/tools/list_changed") {
            read.push(timeout(HOUR, reader.next()).await.unwrap().unwrap().method().to_owned());
        }
        assert!(methods.iter().map(|(method, _)| method).eq(&read), "{failed}: {read:?}");
    }
}

#[tokio::test]
async fn reports_possibly_missed_changes_of_a_session() {
    let version = ProtocolVersion::V2025_11_25;
    let changed =
        |end: Reply| Reply::silence().notify("notifications/tools/list_changed", json!({})).then(end).events();
    for (name, first, expected) in [
        ("a stream that ends", changed(Reply::close()), &[false, true, false][..]),
        // The server may have sent changes after a response that the client has not received.
        ("a lost response", Reply::close(), &[true, false]),
        ("a lost response behind a balancer", Reply::status(502, ""), &[true, false]),
        ("a rejection", Reply::status(503, ""), &[false]),
    ] {
        let server = ScriptedServer::for_revision(version).on("GET", first).on("GET", changed(Reply::silence()));
        let peer = server.listen().await.unwrap();
        let (sender, mut updates) = tokio::sync::mpsc::unbounded_channel();
        let client = builder()
            .versions([version])
            .on_notification(move |notification| {
                sender.send((notification.method().to_owned(), notification.is_missed())).unwrap();
            })
            .connect(peer.url())
            .await
            .unwrap();
        let mut subscription = client.listen(SubscriptionFilter::lists()).await.unwrap();
        let mut missed = Vec::new();
        while missed.len() < expected.len() {
            missed.push(timeout(HOUR / 60, updates.recv()).await.unwrap().unwrap().1);
        }
        assert_eq!(missed, expected, "{name}");
        if expected.contains(&true) {
            while timeout(HOUR / 60, subscription.next()).await.unwrap().unwrap().unwrap() != Update::Missed {}
        }
        client.close().await;
    }
}

#[tokio::test]
async fn opens_the_stream_of_a_session_after_a_lost_response_to_the_end_of_the_handshake() {
    let version = ProtocolVersion::V2025_11_25;
    let server = ScriptedServer::for_revision(version)
        .on("notifications/initialized", Reply::close())
        .on("notifications/initialized", Reply::status(202, ""))
        .on("GET", Reply::silence().notify("notifications/tools/list_changed", json!({})).events());
    let peer = server.listen().await.unwrap();
    let client = builder().versions([version]).connect(peer.url()).await.unwrap();
    let mut subscription = client.listen(SubscriptionFilter::lists()).await.unwrap();
    let update = timeout(HOUR / 60, subscription.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(update, Update::ToolsChanged);
    assert_eq!(server.seen_of("notifications/initialized").len(), 2);
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn observers_return_the_last_value_and_then_none_after_a_close() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let (client, mut peer, _peers) = connected(version).await;
        let (subscription, _) = subscribed(&client, &mut peer, version).await;
        let (mut open_states, mut states) = (subscription.open_states(), client.states());
        assert!(open_states.current(), "{version}");
        let mut waiting = subscription.open_states();
        client.close().await;
        let observing = async {
            assert_eq!(open_states.changed().await, Some(false), "{version}");
            assert_eq!(open_states.changed().await, None, "{version}");
            assert_eq!(open_states.wait_for(|is_open| *is_open).await, None, "{version}");
            assert_eq!(waiting.wait_for(|is_open| !is_open).await, Some(false), "{version}");
            assert_eq!(waiting.changed().await, None, "{version}");
            while let Some(state) = states.changed().await {
                assert_eq!(state, State::Closed, "{version}");
            }
            assert_eq!(states.wait_for(|state| *state == State::Ready).await, None, "{version}");
            assert_eq!(subscription.open_states().changed().await, None, "{version}");
        };
        timeout(HOUR, observing).await.expect("an observer waits after the end");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_returns_each_change_of_an_open_subscription_once() {
    let (client, mut peer, _peers) = connected(ProtocolVersion::V2026_07_28).await;
    let (subscription, mut id) = subscribed(&client, &mut peer, ProtocolVersion::V2026_07_28).await;
    let mut states = subscription.open_states();
    // The server acknowledges an open subscription again.
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
    peer.notify("notifications/subscriptions/acknowledged", json!({ "notifications": {}, "_meta": meta })).await;
    assert!(timeout(HOUR, states.changed()).await.is_err());
    peer.answer(id, json!({ "resultType": "complete" })).await;
    for _ in 0..2 {
        // Attempts to reopen the subscription that fail.
        id = peer.expect("subscriptions/listen").await;
        peer.answer(id, json!({ "resultType": "complete" })).await;
    }
    assert_eq!(states.changed().await, Some(false));
    assert!(timeout(Duration::ZERO, states.changed()).await.is_err());
    id = acknowledge(&mut peer).await;
    assert_eq!(states.changed().await, Some(true));
    // The observer reads nothing between two changes.
    peer.answer(id, json!({ "resultType": "complete" })).await;
    acknowledge(&mut peer).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(states.changed().await, Some(true));
    drop(subscription);
    assert_eq!(states.changed().await, Some(false));
    assert_eq!(states.changed().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_a_lost_stream_before_the_era_is_checked() {
    let (connector, mut peers) = scripted();
    let version = ProtocolVersion::V2026_07_28;
    let client = builder().known(Negotiated::new(version)).connect(connector).await.unwrap();
    let mut peer = peers.next().await;
    let (mut subscription, id) = subscribed(&client, &mut peer, version).await;
    let mut states = subscription.open_states();
    let busy = json!({ "code": -32603, "message": "busy", "data": { "reason": "busy" } });
    peer.refuse(id, busy).await;
    // No answer has confirmed the era, so the client checks it.
    let check = peer.expect("server/discover").await;
    assert_eq!(timeout(HOUR / 3600 / 2, states.changed()).await, Ok(Some(false)));
    peer.answer(check, discovery(&[version.as_str()])).await;
    acknowledge(&mut peer).await;
    assert_eq!(next(&mut subscription).await, Update::Missed);
    assert_eq!(states.changed().await, Some(true));
}
