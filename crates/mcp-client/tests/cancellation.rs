//! Cancelled calls: the client notifies the server in the form of the revision and releases all state.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_client::{Client, protocol::ProtocolVersion};
use mcp_server::prelude::*;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::common::{builder, connected, start, tool_result, wait_until};

const ERAS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

#[tokio::test(start_paused = true)]
async fn dropping_a_call_cancels_it() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        call.abort();
        let cancelled = peer.recv().await;
        assert_eq!(cancelled["method"], "notifications/cancelled");
        assert_eq!(cancelled["params"]["requestId"], id, "{version}");
        assert!(cancelled["params"]["reason"].is_string() && cancelled.get("id").is_none());
        assert_eq!(client.pending(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_cancels_its_call() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let token = CancellationToken::new();
        let call = start(client.call_tool("t", ()).cancelled_by(token.clone().cancelled_owned()));
        peer.expect("tools/call").await;
        token.cancel();
        assert!(call.await.unwrap().unwrap_err().is_cancelled());
        peer.expect("notifications/cancelled").await;
        let never = client.call_tool("t", ()).cancelled_by(token.cancelled_owned()).await;
        assert!(never.unwrap_err().is_cancelled());
        let call = start(client.list_tools());
        peer.expect("tools/list").await;
        drop(call);
    }
}

#[tokio::test(start_paused = true)]
async fn a_finished_call_is_not_cancelled() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        peer.answer(id, tool_result("done")).await;
        call.await.unwrap().unwrap();
        client.close().await;
        assert!(peer.next().await.is_none(), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn sends_cancellations_later_when_the_queue_is_full() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let calls: Vec<_> = (0..64).map(|_| start(client.call_tool("t", ()))).collect();
        // The queue of the transport is full, and the server does not read.
        wait_until(|| client.pending() == 64).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        for call in calls {
            call.abort();
        }
        wait_until(|| client.pending() == 0).await;
        let mut methods = Vec::new();
        for _ in 0..128 {
            methods.push(peer.recv().await["method"].as_str().unwrap().to_owned());
        }
        assert_eq!(methods.iter().filter(|method| *method == "notifications/cancelled").count(), 64, "{version}");
    }
}

#[tokio::test]
async fn dropping_a_third_of_ten_thousand_calls_leaks_nothing() {
    const CALLS: usize = 10_000;
    for version in ERAS {
        let running = Arc::new(AtomicUsize::new(0));
        let counter = running.clone();
        let server = Server::builder("real", "1")
            .limits(|limits| {
                limits.handlers = CALLS;
                limits.handlers_per_session = CALLS;
            })
            .tool(tool("work", move || {
                let guard = Running::new(&counter);
                async move {
                    for _ in 0..8 {
                        tokio::task::yield_now().await;
                    }
                    drop(guard);
                    "done"
                }
            }))
            .build();
        let client = builder().versions([version]).connect(&server).await.unwrap();
        let (mut done, mut dropped) = (0, 0);
        let mut random = 42_u64;
        let mut calls = Vec::new();
        for _ in 0..CALLS {
            // A linear congruence is random enough, and the same every time.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let call = start(client.call_tool("work", json!({})));
            if random >> 33 & 0xffff < 0xffff / 3 {
                for _ in 0..(random >> 61) {
                    tokio::task::yield_now().await;
                }
                call.abort();
            }
            calls.push(call);
        }
        for call in calls {
            match call.await {
                Ok(result) => {
                    assert_eq!(result.unwrap().text(), "done");
                    done += 1;
                }
                Err(_) => dropped += 1,
            }
        }
        assert!(done > CALLS / 2 && dropped > CALLS / 10, "{done} {dropped}");
        assert_eq!(client.pending(), 0, "{version}");
        // A later call has finished, so the cancelled calls have ended.
        client.call_tool("work", ()).await.unwrap();
        wait_until(|| running.load(Ordering::SeqCst) == 0).await;
    }
}

struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(counter.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_closes_the_connection() {
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        let clone: Client = client.clone();
        drop(client);
        let call = start(clone.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        // A call keeps its connection.
        drop(clone);
        peer.answer(id, tool_result("done")).await;
        call.await.unwrap().unwrap();
        assert!(peer.next().await.is_none(), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_the_client_ends_its_calls_and_notifies_the_server() {
    const CALLS: usize = 200;
    for version in ERAS {
        let (client, mut peer, _peers) = connected(version).await;
        // Some may be sent again, and are not.
        let lists = start(client.list_prompts());
        let mut sent = vec![peer.expect("prompts/list").await];
        let calls: Vec<_> = (0..CALLS).map(|_| start(client.call_tool("t", ()))).collect();
        for _ in 0..CALLS {
            sent.push(peer.expect("tools/call").await);
        }
        let closing = tokio::spawn({
            let client = client.clone();
            async move { client.close().await }
        });
        let mut cancelled = Vec::new();
        while let Some(message) = peer.next().await {
            assert_eq!(message["method"], "notifications/cancelled", "{version}");
            assert_eq!(message["params"]["reason"], "the client is closed");
            cancelled.push(message["params"]["requestId"].clone());
        }
        cancelled.sort_by_key(|id| id.as_i64());
        assert_eq!(cancelled, sent, "{version}: each once");
        closing.await.unwrap();
        for call in calls {
            let error = call.await.unwrap().unwrap_err();
            assert!(error.is_closed() && error.was_sent() && !error.is_retryable(), "{version}: {error}");
        }
        assert!(lists.await.unwrap().unwrap_err().is_closed(), "{version}");
        let late = client.call_tool("t", ()).await.unwrap_err();
        assert!(late.is_closed() && !late.was_sent(), "{version}: {late}");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_is_bounded_in_time() {
    for version in ERAS {
        let (client, peer, _peers) = connected(version).await;
        // The server does not read, and the queue of the transport is full.
        let calls: Vec<_> = (0..200).map(|_| start(client.call_tool("t", ()))).collect();
        wait_until(|| client.pending() == 200).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        let started = tokio::time::Instant::now();
        client.close().await;
        assert!(started.elapsed() <= Duration::from_secs(10), "{version}: {:?}", started.elapsed());
        for call in calls {
            assert!(call.await.unwrap().unwrap_err().is_closed(), "{version}");
        }
        drop(peer);
    }
}

#[tokio::test(start_paused = true)]
async fn initialize_is_never_cancelled() {
    let (connector, mut peers) = crate::common::scripted();
    let connecting = start(builder().prefer(ProtocolVersion::V2025_11_25).connect(connector));
    let mut peer = peers.next().await;
    peer.expect("initialize").await;
    connecting.abort();
    assert!(peer.next().await.is_none());
}
