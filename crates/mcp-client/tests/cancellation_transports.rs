//! Cancelled calls over pipes and HTTP: the client notifies the server in the form of the era and releases all state.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_client::Handler;
use mcp_server::prelude::*;
use mcp_test::peer::{Reply, ScriptedServer};
use serde_json::json;
use tokio::{net::TcpListener, time::timeout};

use crate::common::{
    scripted_site::{ALL_TRANSPORTS, DEADLINE, ERAS, ScriptedSite, TransportKind, outcome, quick, text},
    start,
};

#[tokio::test]
async fn cancels_a_dropped_call_in_the_form_of_its_era() {
    for over in ALL_TRANSPORTS {
        for version in ERAS {
            let what = format!("{over:?}, {version}");
            let server = ScriptedServer::for_revision(version)
                .on("tools/call", Reply::silence())
                .on("tools/call", text("after"));
            let endpoint = ScriptedSite::open(server, *over).await;
            let client = endpoint.client(version).await;
            let call = start(client.call_tool("t", ()));
            let called = endpoint.server.wait_for("tools/call", 1).await;
            call.abort();
            assert!(call.await.unwrap_err().is_cancelled());
            assert_eq!(client.pending(), 0, "{what}");
            if version.is_stateless() && *over == TransportKind::Http {
                // The end of the stream is the cancellation.
                endpoint.http.as_ref().unwrap().wait_until_cancelled("tools/call", 1).await;
                assert!(endpoint.server.seen_of("notifications/cancelled").is_empty(), "{what}");
            } else {
                let cancellations = endpoint.server.wait_for("notifications/cancelled", 1).await;
                assert_eq!(cancellations[0]["params"]["requestId"], called[0]["id"], "{what}");
            }
            assert_eq!(outcome(client.call_tool("t", ()).await), "ok: after", "{what}");
            endpoint.assert_clean_close(client, &what).await;
        }
    }
}

/// Answers nothing, and names the reason for a dropped call.
struct Relay(Option<&'static str>);

impl Handler for Relay {
    fn cancellation_reason(&self) -> Option<String> {
        self.0.map(str::to_owned)
    }
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_with_the_reason_of_its_handler() {
    for over in ALL_TRANSPORTS {
        for version in ERAS {
            if version.is_stateless() && *over == TransportKind::Http {
                // The end of the stream is the cancellation.
                continue;
            }
            for (reason, expected) in [
                (Some("the user pressed Esc"), "the user pressed Esc"),
                (None, "the caller does not wait for it any more"),
            ] {
                let server = ScriptedServer::for_revision(version).on("tools/call", Reply::silence());
                let endpoint = ScriptedSite::open(server, *over).await;
                let client = endpoint.client(version).await;
                let call = start(client.call_tool("t", ()).answers(Arc::new(Relay(reason))));
                endpoint.server.wait_for("tools/call", 1).await;
                call.abort();
                let cancellations = endpoint.server.wait_for("notifications/cancelled", 1).await;
                assert_eq!(cancellations[0]["params"]["reason"], expected, "{over:?}, {version}");
            }
        }
    }
}

#[tokio::test]
async fn does_not_cancel_an_answered_call() {
    for over in ALL_TRANSPORTS {
        for version in ERAS {
            let what = format!("{over:?}, {version}");
            let endpoint =
                ScriptedSite::open(ScriptedServer::for_revision(version).on("tools/call", text("done")), *over).await;
            let client = endpoint.client(version).await;
            for _ in 0..3 {
                assert_eq!(outcome(client.call_tool("t", ()).await), "ok: done", "{what}");
            }
            let server = endpoint.server.clone();
            endpoint.assert_clean_close(client, &what).await;
            assert!(server.seen_of("notifications/cancelled").is_empty(), "{what}");
        }
    }
}

/// Counts the running calls of the server.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counter))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn dropping_a_third_of_a_thousand_http_calls_leaks_nothing() {
    const CALLS: usize = 1000;
    let running = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&running);
    let server = Server::builder("real", "1")
        .limits(|limits| {
            limits.handlers = CALLS;
            limits.handlers_per_session = CALLS;
        })
        .tool(tool("work", move || {
            let guard = Running::new(&counter);
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                drop(guard);
                "done"
            }
        }))
        .build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = server.clone();
    let serving =
        tokio::spawn(async move { serving.serve_http_on(listener, HttpConfig::new().ignore_signals()).await });
    for version in ERAS {
        let client = quick(&[version]).connect(&url).await.unwrap();
        let (mut done, mut dropped) = (0, 0);
        // A linear congruence is random enough, and the same every time.
        let mut random = 42_u64;
        for _ in 0..(CALLS / 50) {
            let mut calls = Vec::new();
            for _ in 0..50 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let call = start(client.call_tool("work", json!({})));
                if random >> 33 & 0xffff < 0xffff / 3 {
                    for _ in 0..(random >> 59) {
                        tokio::task::yield_now().await;
                    }
                    call.abort();
                }
                calls.push(call);
            }
            for call in calls {
                match timeout(DEADLINE, call).await.unwrap() {
                    Ok(result) => {
                        assert_eq!(outcome(result), "ok: done", "{version}");
                        done += 1;
                    }
                    Err(_) => dropped += 1,
                }
            }
        }
        assert!(done > CALLS / 2 && dropped > CALLS / 10, "{done} {dropped}");
        assert_eq!(client.pending(), 0, "{version}");
        timeout(DEADLINE, async {
            while running.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await
        .unwrap();
        client.close().await;
    }
    server.shutdown();
    timeout(DEADLINE, serving).await.unwrap().unwrap().unwrap();
}
