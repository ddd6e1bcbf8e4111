//! Faults of servers, over pipes and HTTP, in both eras. Each call ends with a typed error before its time limit, or
//! with its result. The client stays usable and leaves no task behind.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::time::Duration;

use mcp_client::protocol::ProtocolVersion;
use mcp_test::peer::{Reply, ScriptedServer};
use serde_json::json;
use tokio::time::Instant;

use crate::common::{
    initialized,
    scripted_site::{ALL_TRANSPORTS, DEADLINE, ERAS, ScriptedSite, TransportKind, outcome, predicates, quick, text},
    start,
};

/// The time limit of a call to a server that does not answer.
const SHORT: Duration = Duration::from_millis(150);
/// Above the longest line of stdio (16 MiB) and the largest body of HTTP (4 MiB).
const HUGE: usize = 100 << 20;

/// Makes a call that receives these replies, then a second call. Checks the outcome of the first, and that the second
/// succeeds.
async fn check(what: &str, over: &[TransportKind], replies: &[Reply], limit: Duration, expected: &str) {
    for over in over {
        for version in ERAS {
            let what = format!("{what}, {over:?}, {version}");
            let mut server = ScriptedServer::for_revision(version);
            for reply in replies {
                server = server.on("tools/call", reply.clone());
            }
            let endpoint = ScriptedSite::open(server.on("tools/call", text("after")), *over).await;
            let client = endpoint.client(version).await;
            let started = Instant::now();
            let result = client.call_tool("t", ()).idle_timeout(limit).await;
            assert!(started.elapsed() < limit + DEADLINE, "{what}");
            assert_eq!(outcome(result), expected, "{what}");
            assert_eq!(client.pending(), 0, "{what}");
            assert_eq!(outcome(client.call_tool("t", ()).await), "ok: after", "{what}");
            endpoint.assert_clean_close(client, &what).await;
        }
    }
}

#[tokio::test]
async fn a_call_times_out_when_the_server_does_not_answer() {
    check("silent", ALL_TRANSPORTS, &[Reply::silence()], SHORT, "timeout").await;
    let late = text("late").after(Duration::from_millis(300));
    check("late", ALL_TRANSPORTS, &[late], SHORT, "timeout").await;
}

#[tokio::test]
async fn a_call_fails_when_the_server_closes_the_connection() {
    check("ended", &[TransportKind::Pipes], &[Reply::close()], DEADLINE, "closed retryable").await;
    check("ended", &[TransportKind::Http], &[Reply::close()], DEADLINE, "retryable").await;
}

#[tokio::test]
async fn ignores_a_response_with_a_wrong_id() {
    let wrong = || text("wrong").with_id(json!(4711));
    check("alone", &[TransportKind::Pipes], &[wrong()], SHORT, "timeout").await;
    // The answer has ended without being one.
    check("alone", &[TransportKind::Http], &[wrong()], DEADLINE, "retryable").await;
    check("first", ALL_TRANSPORTS, &[wrong().then(text("right"))], DEADLINE, "ok: right").await;
}

#[tokio::test]
async fn an_invalid_response_ends_the_call_and_closes_its_open_stream() {
    let as_text = || text("as text").with_id(json!("2"));
    let open = |reply: Reply| reply.events().then(Reply::silence().after(DEADLINE));
    for version in ERAS {
        // A string is another id than the number in it.
        for reply in [open(as_text()), open(Reply::message(json!("garbage")))] {
            let server = ScriptedServer::for_revision(version).on("tools/call", reply).on("tools/call", text("after"));
            let endpoint = ScriptedSite::open(server, TransportKind::Http).await;
            let client = endpoint.client(version).await;
            assert_eq!(outcome(client.call_tool("t", ()).await), "invalid", "{version}");
            endpoint.http.as_ref().unwrap().wait_until_cancelled("tools/call", 1).await;
            assert_eq!(outcome(client.call_tool("t", ()).await), "ok: after", "{version}");
            endpoint.assert_clean_close(client, "a stream that continues").await;
        }
    }
    check("as text", &[TransportKind::Pipes], &[as_text()], DEADLINE, "invalid").await;
}

#[tokio::test]
async fn ignores_a_second_response() {
    check("twice", ALL_TRANSPORTS, &[text("right").twice()], DEADLINE, "ok: right").await;
    check("right, then wrong", ALL_TRANSPORTS, &[text("right").then(text("wrong"))], DEADLINE, "ok: right").await;
    let late = text("right").then(text("wrong").after(Duration::from_millis(20)));
    check("wrong much later", ALL_TRANSPORTS, &[late], DEADLINE, "ok: right").await;
}

#[tokio::test]
async fn invalid_data_does_not_complete_a_call() {
    let garbage = "listening on port 8080\n\0\u{7f}\n{\"jsonrpc\":\"2.0\"}\n[]\n{\n";
    check("lines", &[TransportKind::Pipes], &[Reply::raw(garbage).then(text("right"))], DEADLINE, "ok: right").await;
    check("lines alone", &[TransportKind::Pipes], &[Reply::raw(garbage)], SHORT, "timeout").await;
    check("no HTTP", &[TransportKind::Http], &[Reply::raw(garbage)], DEADLINE, "retryable").await;
    let body = |kind: &str| Reply::status(200, "garbage").header("Content-Type", kind);
    check("a body", &[TransportKind::Http], &[body("application/json")], DEADLINE, "invalid").await;
    check("a page", &[TransportKind::Http], &[body("text/html")], DEADLINE, "").await;
}

#[tokio::test]
async fn a_response_of_a_hundred_megabytes_fails_its_call() {
    check("huge", ALL_TRANSPORTS, &[Reply::large(HUGE)], DEADLINE, "large").await;
}

#[tokio::test]
async fn a_notification_above_the_limit_fails_no_call() {
    let data = json!({"level": "info", "data": "x".repeat(17 << 20)});
    let reply = text("right").notify("notifications/message", data);
    check("large notification", ALL_TRANSPORTS, &[reply], DEADLINE, "ok: right").await;
}

#[tokio::test]
async fn a_response_above_the_limit_fails_only_its_call() {
    for over in ALL_TRANSPORTS {
        for version in ERAS {
            let server = ScriptedServer::for_revision(version)
                .on("tools/call", Reply::silence())
                .on("tools/call", Reply::large(17 << 20))
                .on("tools/call", text("right"));
            let endpoint = ScriptedSite::open(server, *over).await;
            let client = endpoint.client(version).await;
            let silent = start(client.call_tool("t", ()));
            endpoint.server.wait_for("tools/call", 1).await;
            assert_eq!(outcome(client.call_tool("t", ()).await), "large", "{over:?}, {version}");
            assert_eq!(outcome(client.call_tool("t", ()).await), "ok: right", "{over:?}, {version}");
            assert_eq!(client.pending(), 1, "{over:?}, {version}");
            silent.abort();
            silent.await.unwrap_err();
            endpoint.assert_clean_close(client, "large").await;
        }
    }
}

#[tokio::test]
async fn a_truncated_event_fails_the_call() {
    let event = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"half"}]}}"#;
    let cut = || Reply::silence().cut(event);
    let with_notification = || cut().notify("notifications/message", json!({"level": "info", "data": "so far"}));
    for reply in [cut(), with_notification()] {
        check("cut", &[TransportKind::Pipes], std::slice::from_ref(&reply), DEADLINE, "closed retryable").await;
        check("cut", &[TransportKind::Http], &[reply], DEADLINE, "retryable").await;
    }
}

#[tokio::test]
async fn a_status_without_a_message_fails_the_call_with_the_status() {
    for (reply, expected) in [
        (Reply::status(401, "").header("WWW-Authenticate", "Bearer"), "401 unauthorized"),
        (Reply::status(403, "no"), "403 forbidden"),
        (Reply::status(500, "it burns"), "500"),
        (Reply::status(502, ""), "502 retryable"),
        (Reply::status(503, "").header("Retry-After", "2"), "503 after 2s retryable"),
        (Reply::status(503, "").header("Retry-After", "soon"), "503 retryable"),
        (Reply::status(429, "").header("Retry-After", "7"), "429 after 7s retryable"),
        (Reply::status(202, ""), "retryable"),
    ] {
        check(expected, &[TransportKind::Http], &[reply], DEADLINE, expected).await;
    }
}

#[tokio::test]
async fn repeats_a_read_only_call_after_503_and_never_a_call_with_an_effect() {
    let stopping = || Reply::status(503, "the server is shutting down").header("Retry-After", "0");
    let reading =
        json!({ "name": "read", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true } });
    let writing = json!({ "name": "write", "inputSchema": { "type": "object" } });
    for version in ERAS {
        for (name, refusals, limit, expected, sent) in [
            ("read", 1, DEADLINE, "ok: after", 2),
            ("read", 2, DEADLINE, "ok: after", 3),
            ("read", 3, DEADLINE, "503 after 0ns retryable", 3),
            ("read", 1, Duration::from_millis(50), "503 after 0ns retryable", 1),
            ("write", 1, DEADLINE, "503 after 0ns retryable", 1),
        ] {
            let what = format!("{name}, {refusals} refusals, {version}");
            let tools = Reply::result(json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [&reading, &writing],
            }));
            let mut server = ScriptedServer::for_revision(version).on("tools/list", tools);
            for _ in 0..refusals {
                server = server.on("tools/call", stopping());
            }
            let endpoint = ScriptedSite::open(server.on("tools/call", text("after")), TransportKind::Http).await;
            let client = endpoint.client(version).await;
            client.list_tools().await.unwrap();
            let result = client.call_tool(name, ()).total_timeout(limit).await;
            assert_eq!(
                (outcome(result), endpoint.server.seen_of("tools/call").len()),
                (expected.into(), sent),
                "{what}"
            );
            endpoint.assert_clean_close(client, &what).await;
        }
    }
}

#[tokio::test]
async fn does_not_follow_a_redirect_to_another_origin() {
    let elsewhere = ScriptedServer::silent();
    let other = elsewhere.listen().await.unwrap();
    for status in [301, 302, 303, 307, 308] {
        check(
            "redirect",
            &[TransportKind::Http],
            &[Reply::status(status, "").header("Location", &other.url())],
            DEADLINE,
            "",
        )
        .await;
    }
    assert_eq!((elsewhere.seen().len(), elsewhere.connections()), (0, 0), "the other origin received no request");
}

#[tokio::test]
async fn a_404_in_a_session_opens_a_new_session_and_repeats_the_call() {
    let version = ProtocolVersion::V2025_11_25;
    let server = ScriptedServer::for_revision(version).on("tools/call", text("right"));
    let endpoint = ScriptedSite::open(server, TransportKind::Http).await;
    let client = endpoint.client(version).await;
    for sessions in 2..4 {
        endpoint.http.as_ref().unwrap().forget_sessions();
        // The server rejected the call, so the client repeats it in a new session.
        assert_eq!(outcome(client.call_tool("t", ()).await), "ok: right");
        assert_eq!(endpoint.server.seen_of("initialize").len(), sessions);
    }
    assert_eq!(endpoint.server.seen_of("tools/call").len(), 2, "the server did not process the rejected calls");
    endpoint.assert_clean_close(client, "404").await;

    // Without a session, a 404 is the error of the call.
    let version = ProtocolVersion::V2026_07_28;
    let server = ScriptedServer::for_revision(version).on("tools/call", Reply::status(404, ""));
    let endpoint = ScriptedSite::open(server, TransportKind::Http).await;
    let client = endpoint.client(version).await;
    assert_eq!(outcome(client.call_tool("t", ()).await), "404");
    endpoint.assert_clean_close(client, "404 without a session").await;
}

#[tokio::test]
async fn concurrent_calls_in_a_lost_session_open_one_new_session() {
    let version = ProtocolVersion::V2025_11_25;
    let slow = text("slow").after(Duration::from_millis(300));
    let server = ScriptedServer::for_revision(version).on("tools/call", slow).on("tools/call", text("right"));
    let endpoint = ScriptedSite::open(server, TransportKind::Http).await;
    let client = endpoint.client(version).await;
    let slow = start(client.call_tool("t", ()));
    endpoint.server.wait_for("tools/call", 1).await;
    endpoint.http.as_ref().unwrap().forget_sessions();
    let calls: Vec<_> = (0..20).map(|_| start(client.call_tool("t", ()))).collect();
    for call in calls {
        assert_eq!(outcome(call.await.unwrap()), "ok: right");
    }
    // A call that the server accepted before still receives its response.
    assert_eq!(outcome(slow.await.unwrap()), "ok: slow");
    assert_eq!(endpoint.server.seen_of("initialize").len(), 2);
    endpoint.assert_clean_close(client, "many").await;
}

#[tokio::test]
async fn does_not_repeat_an_accepted_call_whose_stream_cannot_be_resumed() {
    let version = ProtocolVersion::V2025_11_25;
    let taken =
        Reply::silence().notify("notifications/message", json!({"level": "info", "data": "so far"})).events_with_ids();
    let server = ScriptedServer::for_revision(version)
        .on("tools/call", taken)
        .on("tools/call", text("after"))
        .on("GET", Reply::status(405, ""))
        .on("GET", Reply::status(404, ""))
        .on("GET", Reply::status(405, ""));
    let endpoint = ScriptedSite::open(server, TransportKind::Http).await;
    let client = endpoint.client(version).await;
    // The GET stream of the session. The server does not support it.
    endpoint.server.wait_for("GET", 1).await;
    assert_eq!(outcome(client.call_tool("t", ()).await), "retryable");
    assert_eq!(endpoint.server.seen_of("tools/call").len(), 1, "the call may have run");
    // The client knows that the session is lost.
    assert_eq!(outcome(client.call_tool("t", ()).await), "ok: after");
    assert_eq!(endpoint.server.seen_of("initialize").len(), 2);
    endpoint.assert_clean_close(client, "resumed in vain").await;
}

#[tokio::test]
async fn calls_that_wait_for_a_permit_continue_in_the_new_session() {
    let version = ProtocolVersion::V2025_11_25;
    let slow = text("slow").after(Duration::from_millis(300));
    let server = ScriptedServer::for_revision(version).on("tools/call", slow).on("tools/call", text("right"));
    let endpoint = ScriptedSite::open(server, TransportKind::Http).await;
    let client = endpoint.connect(quick(&[version]).limits(|limits| limits.pending = 2)).await.unwrap();
    let slow = start(client.call_tool("t", ()));
    endpoint.server.wait_for("tools/call", 1).await;
    endpoint.http.as_ref().unwrap().forget_sessions();
    // The first is refused, while the others wait for room.
    let calls: Vec<_> = (0..4).map(|_| start(client.call_tool("t", ()))).collect();
    for call in calls {
        assert_eq!(outcome(call.await.unwrap()), "ok: right");
    }
    assert_eq!(outcome(slow.await.unwrap()), "ok: slow");
    assert_eq!(endpoint.server.seen_of("initialize").len(), 2);
    endpoint.assert_clean_close(client, "no room").await;
}

#[tokio::test]
async fn a_call_fails_after_three_lost_sessions() {
    let version = ProtocolVersion::V2025_11_25;
    let server = ScriptedServer::for_revision(version).on("tools/call", Reply::status(404, ""));
    let endpoint = ScriptedSite::open(server, TransportKind::Http).await;
    let client = endpoint.client(version).await;
    assert_eq!(outcome(client.call_tool("t", ()).await), "retryable");
    assert_eq!(endpoint.server.seen_of("tools/call").len(), 3);
    endpoint.assert_clean_close(client, "always 404").await;
}

#[tokio::test]
async fn calls_continue_after_a_server_restart() {
    for over in ALL_TRANSPORTS {
        for version in ERAS {
            let what = format!("restarted, {over:?}, {version}");
            let prompts = Reply::result(json!({"resultType": "complete", "prompts": [{"name": "p"}]}));
            let server =
                ScriptedServer::for_revision(version).on("prompts/list", prompts).on("tools/call", text("right"));
            let endpoint = ScriptedSite::open(server, *over).await;
            let client = endpoint.client(version).await;
            for _ in 0..2 {
                endpoint.restart().await;
                // The client repeats read-only requests, also if the first attempt used the broken connection.
                assert_eq!(client.list_prompts().await.unwrap()[0].name, "p", "{what}");
                assert_eq!(outcome(client.call_tool("t", ()).await), "ok: right", "{what}");
            }
            let opened = endpoint.server.seen_of("initialize").len();
            assert_eq!(opened, if version.has_handshake() { 3 } else { 0 }, "{what}: {:?}", endpoint.server.seen());
            endpoint.assert_clean_close(client, &what).await;
        }
    }
}

/// Connects to a server that answers every first request with this reply.
async fn check_start(what: &str, over: &[TransportKind], first: &Reply, limit: Duration, expected: &str) {
    let eras = [&ERAS[..1], &ERAS[1..], &ERAS[..]];
    for over in over {
        for versions in eras {
            let what = format!("{what}, {over:?}, {versions:?}");
            let server = ScriptedServer::silent().on("server/discover", first.clone()).on("initialize", first.clone());
            let endpoint = ScriptedSite::open(server, *over).await;
            let started = Instant::now();
            let connecting = quick(versions).connect_timeout(limit).probe_timeout(limit / 2);
            let error = endpoint.connect(connecting).await.unwrap_err();
            assert!(started.elapsed() < limit + DEADLINE, "{what}");
            assert_eq!(predicates(&error), expected, "{what}: {error:?}");
            endpoint.end(&what).await;
        }
    }
}

#[tokio::test]
async fn a_connect_times_out_when_the_server_does_not_answer() {
    check_start("silent", ALL_TRANSPORTS, &Reply::silence(), SHORT * 3, "timeout").await;
}

#[tokio::test]
async fn falls_back_to_a_handshake_when_the_probe_times_out() {
    let version = ProtocolVersion::V2025_11_25;
    let server = ScriptedServer::silent().on("initialize", Reply::result(initialized(version.as_str())));
    let endpoint = ScriptedSite::open(server.on("tools/call", text("right")), TransportKind::Http).await;
    let client = endpoint.connect(quick(&ERAS).probe_timeout(SHORT)).await.unwrap();
    assert_eq!(client.version(), version);
    // The client closes the connection of the unanswered probe.
    endpoint.http.as_ref().unwrap().wait_until_cancelled("server/discover", 1).await;
    assert_eq!(outcome(client.call_tool("t", ()).await), "ok: right");
    endpoint.assert_clean_close(client, "ignored").await;
}

#[tokio::test]
async fn a_connect_fails_when_the_server_closes_the_connection() {
    check_start("ended", &[TransportKind::Pipes], &Reply::close(), DEADLINE, "closed retryable").await;
    check_start("ended", &[TransportKind::Http], &Reply::close(), DEADLINE, "retryable").await;
}

#[tokio::test]
async fn a_connect_fails_when_the_first_response_is_invalid() {
    check_start("lines", &[TransportKind::Pipes], &Reply::raw("usage: server [options]\n"), SHORT * 3, "timeout").await;
    check_start("no HTTP", &[TransportKind::Http], &Reply::raw("SSH-2.0-OpenSSH_9.9\r\n"), DEADLINE, "retryable").await;
    check_start("too much", ALL_TRANSPORTS, &Reply::large(HUGE), DEADLINE, "large").await;
}

#[tokio::test]
async fn repeats_the_first_handshake_while_the_server_is_unavailable() {
    let version = ProtocolVersion::V2025_11_25;
    let busy = json!({ "reason": "busy", "retryable": true, "retryAfterMs": 0 });
    let busy = Reply::error(-32603, "busy").data(busy);
    let stopping = Reply::status(503, "the server is shutting down").header("Retry-After", "0");
    for (rejection, count, sent, expected) in [
        (&busy, 1, 2, None),
        (&stopping, 2, 3, None),
        (&stopping, 3, 3, Some("503 after 0ns retryable")),
        (&Reply::error(-32603, "broken"), 1, 1, Some("")),
    ] {
        let mut server = ScriptedServer::silent();
        for _ in 0..count {
            server = server.on("initialize", rejection.clone());
        }
        let server = server.on("initialize", Reply::result(initialized(version.as_str())));
        let endpoint = ScriptedSite::open(server, TransportKind::Http).await;
        let connected = endpoint.connect(quick(&[version])).await;
        let what = format!("{count} times {rejection:?}");
        assert_eq!(connected.as_ref().err().map(predicates).as_deref(), expected, "{what}");
        assert_eq!(endpoint.server.seen_of("initialize").len(), sent, "{what}");
        match connected {
            Ok(client) => endpoint.assert_clean_close(client, &what).await,
            Err(_) => endpoint.end(&what).await,
        }
    }
}

#[tokio::test]
async fn a_status_without_a_message_fails_the_connect_with_the_status() {
    for (reply, expected) in [
        (Reply::status(401, ""), "401 unauthorized"),
        (Reply::status(500, ""), "500"),
        (Reply::status(503, "").header("Retry-After", "20"), "503 after 20s retryable"),
        (Reply::status(307, "").header("Location", "http://127.0.0.1:9/mcp"), ""),
    ] {
        check_start(expected, &[TransportKind::Http], &reply, DEADLINE, expected).await;
    }
}
