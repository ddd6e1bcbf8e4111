//! Lost connections, and how the client replaces them.

use std::time::Duration;

use mcp_client::{
    Negotiated, OpenTransport, Reconnect, State,
    protocol::{ElicitResult, JsonObject, LoggingLevel, ProtocolVersion},
};
use mcp_server::prelude::*;
use serde_json::json;
use tokio::time::Instant;

use crate::common::{Peer, builder, connected, connected_as, scripted, start, tool_result};

const ERAS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

/// Opens a session again without a probe, because the client knows the era.
async fn reopen(peer: &mut Peer, version: ProtocolVersion) {
    if version.has_handshake() {
        let id = peer.expect("initialize").await;
        peer.answer(id, crate::common::initialized(version.as_str())).await;
        peer.expect("notifications/initialized").await;
    } else {
        peer.discovered().await;
    }
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_the_reopened_connection() {
    for version in ERAS {
        let (client, peer, mut peers) = connected(version).await;
        let mut states = client.states();
        peer.close();
        states.wait_for(|state| matches!(state, State::Connecting { attempt: 1 })).await.unwrap();
        let call = start(client.call_tool("t", ()));
        let mut peer = peers.next().await;
        reopen(&mut peer, version).await;
        let id = peer.expect("tools/call").await;
        peer.answer(id, tool_result("again")).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "again", "{version}");
        assert_eq!(client.state(), State::Ready);
    }
}

#[tokio::test(start_paused = true)]
async fn repeats_read_only_requests_and_not_calls_that_may_have_run() {
    for version in ERAS {
        let (client, mut peer, mut peers) = connected(version).await;
        let list = start(client.list_prompts());
        let first = peer.expect("prompts/list").await;
        let tool = start(client.call_tool("t", ()));
        peer.expect("tools/call").await;
        peer.close();
        assert!(tool.await.unwrap().unwrap_err().is_closed(), "{version}");
        let mut peer = peers.next().await;
        reopen(&mut peer, version).await;
        let id = peer.expect("prompts/list").await;
        assert_ne!(id, first, "ids are never used twice");
        peer.answer(id, json!({ "resultType": "complete", "prompts": [{ "name": "p" }] })).await;
        assert_eq!(list.await.unwrap().unwrap()[0].name, "p");
    }
}

#[tokio::test(start_paused = true)]
async fn the_silence_before_a_round_does_not_shorten_the_wait_of_the_next_round() {
    let answers = builder().on_elicit(async |_form| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(ElicitResult::accept(JsonObject::new()))
    });
    let (client, mut peer, mut peers) = connected_as(answers, ERAS[1]).await;
    let call = start(client.call_tool("t", ()).idle_timeout(Duration::from_secs(10)));
    let id = peer.expect("tools/call").await;
    tokio::time::sleep(Duration::from_secs(9)).await;
    let form = json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
    let questions = json!({ "q": { "method": "elicitation/create", "params": form } });
    peer.answer(id, json!({ "resultType": "input_required", "inputRequests": questions })).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    peer.close();
    let mut peer = peers.next().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    reopen(&mut peer, ERAS[1]).await;
    let id = peer.expect("tools/call").await;
    peer.answer(id, tool_result("done")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_request_lost_repeatedly_fails() {
    for version in ERAS {
        let (client, mut peer, mut peers) = connected(version).await;
        let list = start(client.list_prompts());
        peer.expect("prompts/list").await;
        for _ in 0..2 {
            peer.close();
            peer = peers.next().await;
            reopen(&mut peer, version).await;
            peer.expect("prompts/list").await;
        }
        peer.close();
        assert!(list.await.unwrap().unwrap_err().is_closed(), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_attempts_and_the_next_call_makes_one_more() {
    for version in ERAS {
        let policy = Reconnect::default().attempts(3);
        let (client, peer, mut peers) = connected_as(builder().reconnect(policy), version).await;
        let mut states = client.states();
        peer.close();
        for _ in 0..3 {
            peers.next().await.close();
        }
        states.wait_for(|state| *state == State::Down).await.unwrap();
        let call = start(client.call_tool("t", ()));
        peers.next().await.close();
        let error = call.await.unwrap().unwrap_err();
        assert!(error.is_closed() && error.is_retryable(), "{version}: {error}");
        states.wait_for(|state| *state == State::Down).await.unwrap();
        let call = start(client.call_tool("t", ()));
        let mut peer = peers.next().await;
        reopen(&mut peer, version).await;
        let id = peer.expect("tools/call").await;
        peer.answer(id, tool_result("back")).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "back");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_without_reconnection_closes() {
    for version in ERAS {
        let (client, peer, _peers) = connected_as(builder().reconnect(Reconnect::never()), version).await;
        let mut states = client.states();
        peer.close();
        states.wait_for(|state| *state == State::Closed).await.unwrap();
        assert!(client.call_tool("t", ()).await.unwrap_err().is_closed(), "{version}");
    }
}

#[tokio::test]
async fn an_open_transport_serves_one_connection() {
    let server = Server::builder("real", "1").tool(tool("quick", async || "quick")).build();
    let (ours, theirs) = mcp_client::transport::memory::duplex(8);
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve(theirs).await }
    });
    let client = builder().connect(OpenTransport::new(ours)).await.unwrap();
    assert_eq!(client.call_tool("quick", ()).await.unwrap().text(), "quick");
    server.shutdown();
    serving.await.unwrap().unwrap();
    let mut states = client.states();
    let down = states.wait_for(|state| *state == State::Down);
    assert!(tokio::time::timeout(Duration::from_secs(30), down).await.is_ok_and(|state| state.is_some()));
    assert!(client.call_tool("quick", ()).await.unwrap_err().is_unreachable());
}

#[tokio::test(start_paused = true)]
async fn replaces_the_connection_after_missed_pings() {
    for version in ERAS {
        let pinging = builder().ping_interval(Duration::from_secs(10)).ping_threshold(2);
        let (client, mut peer, mut peers) = connected_as(pinging, version).await;
        let started = Instant::now();
        let method = if version.has_session_methods() { "ping" } else { "server/discover" };
        let id = peer.expect(method).await;
        // Any response answers the ping.
        peer.refuse(id, json!({ "code": -32601, "message": "what?" })).await;
        for _ in 0..2 {
            peer.expect(method).await;
            peer.expect("notifications/cancelled").await;
        }
        let mut again = peers.next().await;
        reopen(&mut again, version).await;
        assert_eq!(started.elapsed().as_secs(), 40, "{version}");
        assert!(peer.next().await.is_none());
        drop(client);
    }
}

#[tokio::test(start_paused = true)]
async fn replaces_a_connection() {
    for version in ERAS {
        let (client, mut peer, mut peers) = connected(version).await;
        client.reconnect();
        assert!(peer.next().await.is_none());
        let mut peer = peers.next().await;
        reopen(&mut peer, version).await;
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        peer.answer(id, tool_result("new")).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "new", "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn replaces_a_connection_at_once_each_time() {
    for version in ERAS {
        let policy = Reconnect::default().attempts(2);
        let (client, mut peer, mut peers) = connected_as(builder().reconnect(policy), version).await;
        let started = Instant::now();
        for _ in 0..4 {
            client.reconnect();
            assert!(peer.next().await.is_none());
            peer = peers.next().await;
            reopen(&mut peer, version).await;
            client.states().wait_for(|state| *state == State::Ready).await.unwrap();
        }
        assert_eq!(started.elapsed(), Duration::ZERO, "{version}");
        // The requested reconnections do not count as losses.
        peer.close();
        reopen(&mut peers.next().await, version).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_client_replaces_its_connection_at_once() {
    let (connector, mut peers) = scripted();
    let version = ProtocolVersion::V2026_07_28;
    let client = builder().known(Negotiated::new(version)).connect(connector).await.unwrap();
    let started = Instant::now();
    client.reconnect();
    assert!(peers.next().await.next().await.is_none());
    let mut peer = peers.next().await;
    assert_eq!(started.elapsed(), Duration::ZERO);
    peer.discovered().await;
    client.states().wait_for(|state| *state == State::Ready).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stops_reconnecting_to_a_server_that_closes_every_connection_until_needed() {
    for version in ERAS {
        let policy = Reconnect::default().attempts(3);
        let (client, peer, mut peers) = connected_as(builder().reconnect(policy), version).await;
        let mut states = client.states();
        let started = Instant::now();
        peer.close();
        for _ in 0..3 {
            let mut peer = peers.next().await;
            reopen(&mut peer, version).await;
            // It is open before it is lost again.
            states.wait_for(|state| *state == State::Ready).await.unwrap();
            peer.close();
            states.wait_for(|state| *state != State::Ready).await.unwrap();
        }
        states.wait_for(|state| *state == State::Down).await.unwrap();
        // The delays are about a quarter, a half and one second.
        let waited = started.elapsed().as_millis();
        assert!((1_300..2_200).contains(&waited), "{version}: {waited}");
        let call = start(client.call_tool("t", ()));
        let mut peer = peers.next().await;
        reopen(&mut peer, version).await;
        let id = peer.expect("tools/call").await;
        peer.answer(id, tool_result("back")).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "back");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_does_not_fail_its_ping() {
    for version in ERAS {
        let pinging =
            builder().ping_interval(Duration::from_secs(10)).ping_threshold(1).limits(|limits| limits.pending = 1);
        let (client, mut peer, _peers) = connected_as(pinging, version).await;
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        for _ in 0..3 {
            let ping = peer.recv().await;
            assert_ne!(ping["method"], "notifications/cancelled", "{version}: the table has no room for a ping");
            peer.answer(ping["id"].clone(), crate::common::discovery(&["2026-07-28"])).await;
        }
        peer.answer(id, tool_result("done")).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "done", "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_notifications_receives_one_report_of_each_replaced_connection() {
    for version in ERAS {
        let (client, mut peer, mut peers) = connected(version).await;
        let mut notifications = client.notifications();
        peer.notify("notifications/first", json!({})).await;
        assert_eq!(notifications.next().await.unwrap().method(), "notifications/first", "{version}");
        // A notification of the new connection can arrive before the client uses it.
        for is_early in [false, true] {
            peer.close();
            peer = peers.next().await;
            if is_early {
                peer.notify("notifications/early", json!({})).await;
            }
            reopen(&mut peer, version).await;
            peer.notify("notifications/late", json!({})).await;
            assert!(notifications.next().await.unwrap().is_missed(), "{version} {is_early}");
            let expected = ["notifications/early", "notifications/late"];
            for method in expected.iter().skip(usize::from(!is_early)) {
                assert_eq!(notifications.next().await.unwrap().method(), *method, "{version} {is_early}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_the_log_level_in_each_session() {
    let version = ProtocolVersion::V2025_11_25;
    let (connector, mut peers) = scripted();
    let connecting = start(builder().log_level(LoggingLevel::Info).connect(connector));
    let mut peer = peers.next().await;
    peer.open(version.as_str()).await;
    let request = peer.recv().await;
    assert_eq!((&request["method"], &request["params"]), (&json!("logging/setLevel"), &json!({ "level": "info" })));
    peer.answer(request["id"].clone(), json!({})).await;
    let client = connecting.await.unwrap().unwrap();
    let changing = tokio::spawn({
        let client = client.clone();
        async move { client.set_log_level(LoggingLevel::Error).await }
    });
    let id = peer.expect("logging/setLevel").await;
    peer.answer(id, json!({})).await;
    changing.await.unwrap().unwrap();
    for answers in [false, true] {
        peer.close();
        peer = peers.next().await;
        reopen(&mut peer, version).await;
        let request = peer.recv().await;
        assert_eq!(
            (&request["method"], &request["params"]),
            (&json!("logging/setLevel"), &json!({ "level": "error" }))
        );
        if answers {
            peer.refuse(request["id"].clone(), json!({ "code": -32603, "message": "no" })).await;
        } else {
            // A server is not waited for without end.
            peer.expect("notifications/cancelled").await;
        }
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        peer.answer(id, tool_result("done")).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "done");
    }
}

#[tokio::test(start_paused = true)]
async fn does_not_request_log_messages_without_the_capability() {
    let (connector, mut peers) = scripted();
    let connecting = start(builder().log_level(LoggingLevel::Info).connect(connector));
    let mut peer = peers.next().await;
    let probe = peer.expect("server/discover").await;
    peer.refuse(probe, json!({ "code": -32601, "message": "no" })).await;
    let id = peer.expect("initialize").await;
    let mut initialized = crate::common::initialized("2025-06-18");
    initialized["capabilities"] = json!({ "tools": {} });
    peer.answer(id, initialized).await;
    peer.expect("notifications/initialized").await;
    let client = connecting.await.unwrap().unwrap();
    let call = start(client.call_tool("t", ()));
    let id = peer.expect("tools/call").await;
    peer.answer(id, tool_result("done")).await;
    call.await.unwrap().unwrap();
}
