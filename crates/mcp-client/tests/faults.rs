//! Faults of servers: each affected call ends with a typed error or a result before its time limit.

use std::time::Duration;

use mcp_client::{ListWarning, protocol::ProtocolVersion};
use mcp_server::{Server, tool};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::common::{builder, connected, connected_as, scripted, start, tool_result};

/// One revision of each era.
const ERAS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

#[tokio::test(start_paused = true)]
async fn a_call_to_an_unresponsive_server_times_out() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let started = Instant::now();
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        let cancelled = peer.recv().await;
        assert_eq!((&cancelled["method"], &cancelled["params"]["requestId"]), (&json!("notifications/cancelled"), &id));
        assert!(call.await.unwrap().unwrap_err().is_timeout());
        assert_eq!(started.elapsed(), Duration::from_secs(60), "{version}");
        assert_eq!(client.pending(), 0);
        // A late response has no effect.
        peer.answer(id, tool_result("late")).await;
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        peer.answer(id, tool_result("in time")).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "in time");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_timeouts_waits_and_each_page_has_its_own_timeout() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let call = start(client.call_tool("t", ()).idle_timeout(None).total_timeout(None));
        let id = peer.expect("tools/call").await;
        tokio::time::sleep(Duration::from_secs(48 * 3600)).await;
        peer.answer(id, tool_result("at last")).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "at last", "{version}");
        let list = start(client.list_tools().idle_timeout(Duration::from_secs(2)));
        let id = peer.expect("tools/list").await;
        peer.answer(id, json!({ "resultType": "complete", "tools": [], "nextCursor": "2" })).await;
        peer.expect("tools/list").await;
        let started = Instant::now();
        assert!(list.await.unwrap().unwrap_err().is_timeout(), "{version}");
        assert_eq!(started.elapsed(), Duration::from_secs(2), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_extends_a_call_up_to_the_total_timeout() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let started = Instant::now();
        let call = start(
            client.call_tool("t", ()).idle_timeout(Duration::from_secs(10)).total_timeout(Duration::from_secs(35)),
        );
        let request = peer.recv().await;
        let token = request["params"]["_meta"]["progressToken"].clone();
        assert_eq!(token, request["id"]);
        for n in 1..10 {
            tokio::time::sleep(Duration::from_secs(8)).await;
            if call.is_finished() {
                break;
            }
            peer.notify("notifications/progress", json!({ "progressToken": token, "progress": n })).await;
        }
        assert!(call.await.unwrap().unwrap_err().is_timeout());
        assert_eq!(started.elapsed().as_secs(), 40, "looked at every eight seconds, it ended at 35: {version}");
    }
}

#[tokio::test(start_paused = true)]
async fn ignores_responses_with_an_unknown_id() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        peer.answer(json!(4711), tool_result("wrong number")).await;
        peer.answer(json!("no-number"), tool_result("wrong kind")).await;
        peer.answer(id.clone(), tool_result("right")).await;
        peer.answer(id.clone(), tool_result("twice")).await;
        peer.refuse(id, json!({ "code": -32603, "message": "thrice" })).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "right", "{version}");
        let call = start(client.call_tool("t", ()));
        // The id `"7"` differs from the id `7`, so the response belongs to no request.
        let id = peer.expect("tools/call").await.to_string();
        peer.answer(json!(id), tool_result("as text")).await;
        let error = call.await.unwrap().unwrap_err();
        assert!(error.is_invalid_response(), "{version}: {error}");
        assert!(
            error.to_string().ends_with(&format!("the answer to request {id} has the id {id:?}")),
            "{version}: {error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn skips_invalid_lines_between_messages() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        for garbage in ["", "listening on port 8080", "{", "[]", "null", "{\"jsonrpc\":\"2.0\"}", "\u{0}"] {
            peer.raw(garbage).await;
        }
        peer.raw("[".repeat(100_000)).await;
        peer.answer(id, tool_result("fine")).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "fine", "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_nested_too_deep_fails_its_call_at_once() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for members in [format!(r#""result":{deep}"#), format!(r#""error":{{"code":1,"message":"m","data":{deep}}}"#)] {
            let started = Instant::now();
            let call = start(client.call_tool("t", ()));
            let id = peer.expect("tools/call").await;
            // The id is the last member, so the client must read the whole message.
            peer.raw(format!(r#"{{"jsonrpc":"2.0",{members},"id":{id}}}"#)).await;
            let error = call.await.unwrap().unwrap_err();
            assert!(error.is_invalid_response() && !error.is_timeout(), "{version}: {error}");
            assert!(error.to_string().contains("nested deeper than 128"), "{version}: {error}");
            assert_eq!(started.elapsed(), Duration::ZERO, "{version}");
        }
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        peer.answer(id, tool_result("fine")).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "fine", "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_nested_too_deep_fails_its_calls_at_once() {
    let (client, mut peer, _peers) = connected(ProtocolVersion::V2025_03_26).await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let started = Instant::now();
    let calls = [start(client.call_tool("deep", ())), start(client.call_tool("flat", ()))];
    let (first, second) = (peer.expect("tools/call").await, peer.expect("tools/call").await);
    let flat = json!({ "jsonrpc": "2.0", "id": second, "result": tool_result("flat") });
    peer.raw(format!(r#"[{{"jsonrpc":"2.0","result":{deep},"id":{first}}},{flat}]"#)).await;
    let [deep, flat] = calls;
    let error = deep.await.unwrap().unwrap_err();
    assert!(error.is_invalid_response() && error.to_string().contains("nested deeper than 128"), "{error}");
    assert_eq!(flat.await.unwrap().unwrap().text(), "flat");
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_batch_nested_too_deep_does_not_mark_the_peer_as_foreign() {
    let (connector, mut peers) = scripted();
    let connecting = start(builder().versions([ProtocolVersion::V2025_03_26]).connect(connector));
    let mut peer = peers.next().await;
    let id = peer.expect("initialize").await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    peer.raw(format!(r#"[{{"jsonrpc":"2.0","result":{deep},"id":{id}}}]"#)).await;
    let started = Instant::now();
    let error = connecting.await.unwrap().unwrap_err();
    assert!(error.is_invalid_response() && !error.is_not_a_server(), "{error}");
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_request_nested_too_deep_is_answered_with_an_error() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let request = format!(r#"{{"jsonrpc":"2.0","method":"elicitation/create","params":{{"x":{deep}}},"id":"q"}}"#);
    for version in ProtocolVersion::ALL.iter().copied().filter(|version| version.has_handshake()) {
        let (_client, mut peer, _peers) = connected(version).await;
        let mut requests = vec![request.clone()];
        if version.has_batches() {
            requests.push(format!("[{request}]"));
        }
        for request in requests {
            peer.raw(request).await;
            let answer = peer.recv().await;
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("q"), &json!(-32600)), "{version}: {answer}");
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.contains("nested deeper than 128"), "{version}: {message}");
        }
    }
    // Servers of the stateless era must not send requests.
    let (client, mut peer, _peers) = connected(ProtocolVersion::V2026_07_28).await;
    peer.raw(request).await;
    let call = start(client.call_tool("t", ()));
    let id = peer.expect("tools/call").await;
    peer.answer(id, tool_result("fine")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "fine");
}

#[tokio::test(start_paused = true)]
async fn distinguishes_invalid_results() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let mut check = async |result: Value, is_invalid: bool| {
            let call = start(client.call_tool("t", ()));
            let id = peer.expect("tools/call").await;
            peer.answer(id, result.clone()).await;
            let outcome = call.await.unwrap();
            assert_eq!(
                outcome.as_ref().is_err_and(|error| error.is_invalid_response()),
                is_invalid,
                "{version}: {result}"
            );
        };
        check(json!({ "content": [] }), false).await;
        check(json!({ "content": null }), false).await;
        check(json!({ "content": 7 }), true).await;
        check(json!([]), true).await;
        check(json!("text"), true).await;
        // Only one of the eras has kinds of results.
        let has_kinds = version.has_result_type();
        check(json!({ "content": [], "resultType": "later" }), has_kinds).await;
        check(json!({ "content": [], "resultType": "input_required" }), has_kinds).await;
        check(json!({ "content": [], "resultType": 7 }), has_kinds).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_envelope_fails_the_call_with_its_id() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        let both = json!({ "jsonrpc": "2.0", "id": id, "result": {}, "error": { "code": 1, "message": "x" } });
        peer.send(both).await;
        assert!(call.await.unwrap().unwrap_err().is_invalid_response(), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_connection_fails_calls_that_may_have_run() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let calls: Vec<_> = (0..3).map(|_| start(client.call_tool("t", ()))).collect();
        for _ in &calls {
            peer.expect("tools/call").await;
        }
        assert_eq!(client.pending(), 3);
        peer.close();
        for call in calls {
            let error = call.await.unwrap().unwrap_err();
            assert!(error.is_closed() && error.is_retryable(), "{version}: {error}");
        }
        assert_eq!(client.pending(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_table_of_calls_is_bounded() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected_as(builder().limits(|limits| limits.pending = 2), version).await;
        let calls: Vec<_> = (0..4).map(|_| start(client.call_tool("t", ()))).collect();
        let mut ids = Vec::new();
        for _ in 0..2 {
            ids.push(peer.expect("tools/call").await);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(client.pending(), 2, "{version}");
        for id in ids {
            peer.answer(id, tool_result("done")).await;
            let next = peer.expect("tools/call").await;
            peer.answer(next, tool_result("done")).await;
        }
        for call in calls {
            call.await.unwrap().unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_list_ends_with_an_error() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected_as(builder().limits(|limits| limits.pages = 3), version).await;
        let list = start(client.list_tools());
        for n in 0..3 {
            let id = peer.expect("tools/list").await;
            peer.answer(id, json!({ "resultType": "complete", "tools": [], "nextCursor": n.to_string() })).await;
        }
        let error = list.await.unwrap().unwrap_err();
        assert!(error.is_too_large() && error.to_string().contains("more than 3 pages"), "{version}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_ends_with_a_warning_when_a_cursor_repeats() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        // The server repeats one cursor, or repeats a cycle of three cursors.
        for cursors in [&["same", "same"][..], &["a", "b", "c", "a"]] {
            let list = start(client.list_tools());
            for (n, cursor) in cursors.iter().enumerate() {
                let id = peer.expect("tools/list").await;
                let tools = json!([{ "name": format!("t{n}"), "inputSchema": {} }]);
                peer.answer(id, json!({ "resultType": "complete", "tools": tools, "nextCursor": cursor })).await;
            }
            let listing = list.await.unwrap().unwrap();
            assert_eq!(listing.len(), cursors.len(), "{version}");
            assert_eq!(listing.warning(), Some(ListWarning::RepeatedCursor), "{version}");
        }
        let mut items = client.list_tools().cursor("start").stream();
        let reading = start(async move {
            assert_eq!(items.next().await.unwrap().unwrap().name, "t");
            assert!(items.next().await.is_none());
            items.warning()
        });
        let id = peer.expect("tools/list").await;
        let tools = json!([{ "name": "t", "inputSchema": {} }]);
        peer.answer(id, json!({ "resultType": "complete", "tools": tools, "nextCursor": "start" })).await;
        assert_eq!(reading.await.unwrap(), Some(ListWarning::RepeatedCursor), "{version}");
        let list = start(client.list_tools());
        let id = peer.expect("tools/list").await;
        peer.answer(id, json!({ "resultType": "complete", "tools": [] })).await;
        assert_eq!(list.await.unwrap().unwrap().warning(), None, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_retryable_on_every_transport() {
    for version in ERAS {
        let slow = tool("slow", async || std::future::pending::<String>().await);
        let server = Server::builder("s", "1").tool(slow).limits(|limits| limits.handlers = 1).build();
        let client = builder().versions([version]).connect(&server).await.unwrap();
        let running = tokio::spawn(client.call_tool("slow", ()).into_future());
        tokio::time::sleep(Duration::from_millis(10)).await;
        let error = client.call_tool("slow", ()).await.unwrap_err();
        assert!(error.is_retryable() && error.to_string().contains("busy"), "{version}: {error}");
        running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn rejects_a_peer_that_echoes_messages() {
    for versions in [&ERAS[..1], &ERAS[1..], &ERAS[..]] {
        let (connector, mut peers) = scripted();
        let connecting = start(builder().versions(versions.iter().copied()).connect(connector));
        let mut peer = peers.next().await;
        let started = Instant::now();
        let echo = peer.recv().await;
        peer.send(echo).await;
        let error = connecting.await.unwrap().unwrap_err();
        assert!(error.is_not_a_server(), "{versions:?}: {error:?}");
        assert!(error.to_string().contains("returned the client's own message"), "{error}");
        assert_eq!(started.elapsed(), Duration::ZERO, "{versions:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rejects_a_peer_that_prints_text_and_exits() {
    for versions in [&ERAS[..1], &ERAS[1..], &ERAS[..]] {
        let (connector, mut peers) = scripted();
        let connecting = start(builder().versions(versions.iter().copied()).connect(connector));
        // The client opens a second connection for `initialize` when the first one ends.
        for _ in 0..versions.len() {
            let mut peer = peers.next().await;
            peer.recv().await;
            peer.raw("usage: ls [FILE]\n").await;
        }
        let error = connecting.await.unwrap().unwrap_err();
        assert!(error.is_not_a_server(), "{versions:?}: {error:?}");
        assert!(error.to_string().contains("usage: ls [FILE]"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn collects_lists_up_to_a_byte_limit_and_streams_beyond() {
    for version in ERAS {
        let limited = builder().limits(|limits| limits.list_bytes = 1000);
        let (client, mut peer, _peers) = connected_as(limited, version).await;
        let page = |n: usize| {
            let tools = json!([{ "name": format!("t{n}"), "description": "x".repeat(400), "inputSchema": {} }]);
            json!({ "resultType": "complete", "tools": tools, "nextCursor": n.to_string() })
        };
        let list = start(client.list_tools());
        for n in 0..3 {
            let id = peer.expect("tools/list").await;
            peer.answer(id, page(n)).await;
        }
        let error = list.await.unwrap().unwrap_err();
        assert!(error.is_too_large() && error.to_string().contains("more than 1000 bytes"), "{version}: {error}");
        let mut items = client.list_tools().stream();
        let reading = start(async move {
            for n in 0..4 {
                assert_eq!(items.next().await.unwrap().unwrap().name, format!("t{n}"));
            }
        });
        for n in 0..4 {
            let id = peer.expect("tools/list").await;
            peer.answer(id, page(n)).await;
        }
        reading.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_output_schema_of_another_connection_does_not_apply() {
    for version in ERAS {
        let (client, mut peer, mut peers) = connected(version).await;
        let listing = start(client.list_tools());
        let id = peer.expect("tools/list").await;
        let tools = json!([{ "name": "t", "inputSchema": {}, "outputSchema": { "type": "object" } }]);
        peer.answer(id, json!({ "resultType": "complete", "tools": tools })).await;
        listing.await.unwrap().unwrap();
        for is_another in [false, true] {
            let call = start(client.call_tool("t", ()));
            let id = peer.expect("tools/call").await;
            peer.answer(id, tool_result("no structured content")).await;
            assert_eq!(call.await.unwrap().is_ok(), is_another, "{version}");
            client.reconnect();
            peer = peers.next().await;
            peer.open_any(version).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reports_structured_content_that_violates_its_schema() {
    for (version, is_checked) in ERAS.into_iter().flat_map(|version| [(version, true), (version, false)]) {
        let builder = if is_checked { builder() } else { builder().no_result_checks() };
        let (client, mut peer, _peers) = connected_as(builder, version).await;
        let listing = start(client.list_tools());
        let id = peer.expect("tools/list").await;
        let schema = json!({ "type": "object", "required": ["sum"] });
        let tools = json!([{ "name": "t", "inputSchema": { "type": "object" }, "outputSchema": schema }]);
        peer.answer(id, json!({ "resultType": "complete", "tools": tools })).await;
        listing.await.unwrap().unwrap();
        for (content, is_invalid) in [(json!({ "sum": 1 }), false), (json!({}), is_checked)] {
            let call = start(client.call_tool("t", ()));
            let id = peer.expect("tools/call").await;
            peer.answer(id, json!({ "resultType": "complete", "content": [], "structuredContent": content })).await;
            let outcome = call.await.unwrap();
            assert_eq!(outcome.is_err_and(|error| error.is_invalid_response()), is_invalid, "{version}: {content}");
        }
    }
}
