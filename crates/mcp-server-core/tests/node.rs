//! Nodes of a fleet: leases, their loss, and requests between nodes.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_server_core::{
    Inputs, Server, StateKeys, ToolError,
    engine::{Engine as _, Node},
    tool,
};
use mcp_store::{KeyValue as _, MemoryStore};
use serde_json::json;
use tokio::{
    runtime,
    time::{Instant, sleep, timeout},
};

use crate::{
    child_process,
    common::subscribe,
    cut_store::{CutStore, Link},
    json_client::request_with_scope,
    log_text::LogText,
};

/// A node of the server `fleet` with its connection to the store.
fn node(store: &MemoryStore) -> (Server, Arc<Node>, CutStore) {
    let cut = CutStore::to(store);
    let server = Server::builder("fleet", "1").store(Arc::new(cut.clone())).build();
    let node = server.node().unwrap().clone();
    (server, node, cut)
}

/// Handles the requests `echo` and `never`.
fn handle(node: &Node) {
    node.handle("echo", |body| async move { body });
    node.handle("never", |_| std::future::pending());
}

#[tokio::test]
async fn a_server_without_a_shared_store_is_no_node() {
    assert!(Server::builder("alone", "1").build().node().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_needed_does_not_use_the_store() {
    let (_server, node, cut) = node(&MemoryStore::new());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(cut.operations(), 0);
    assert!(node.current().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_the_node_runs() {
    let store = MemoryStore::new();
    let ((_a, one, _), (_b, two, _)) = (node(&store), node(&store));
    let lease = one.lease().await.unwrap();
    assert_eq!(
        store.get(&one.name(&format!("node/{}", lease.id()))).await.unwrap().unwrap(),
        lease.id().as_bytes().into()
    );
    for _ in 0..100 {
        sleep(Duration::from_secs(7)).await;
        assert!(lease.is_held() && two.is_alive(lease.id()).await.unwrap());
    }
    assert_eq!(one.lease().await.unwrap().id(), lease.id());
    assert!(!two.is_alive("another").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_server_deletes_its_lease() {
    let store = MemoryStore::new();
    let ((server, one, _), (_b, two, _)) = (node(&store), node(&store));
    let id = one.lease().await.unwrap().id().to_owned();
    drop((server, one));
    sleep(Duration::from_millis(10)).await;
    assert!(!two.is_alive(&id).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_last_listener_of_a_server_deletes_the_lease_of_its_node() {
    for (is_shutdown, is_cut) in [(true, false), (true, true), (false, false), (false, true)] {
        let store = MemoryStore::new();
        let ((server, one, cut), (_b, two, _)) = (node(&store), node(&store));
        let lease = one.lease().await.unwrap();
        let [first, dropped, last] = [(); 3].map(|()| server.listener(Duration::from_secs(10)));
        if is_shutdown {
            server.shutdown();
        }
        first.work_ended().await;
        first.release().await;
        drop(dropped);
        assert!(lease.is_held() && two.is_alive(lease.id()).await.unwrap());
        sleep(Duration::from_secs(2)).await;
        if is_cut {
            cut.set(Link::Stalled);
        }
        let start = Instant::now();
        last.work_ended().await;
        last.release().await;
        // A store that does not respond delays the end for one second.
        assert_eq!(start.elapsed(), Duration::from_secs(is_cut.into()));
        assert!(!lease.is_held());
        assert_eq!(two.is_alive(lease.id()).await.unwrap(), is_cut);
        drop(lease);
        cut.set(Link::Up);
        // A server that continues gets another lease.
        assert_eq!(one.lease().await.is_ok(), !is_shutdown);
    }
}

#[test]
fn the_late_end_of_a_stopped_background_task_keeps_the_next_lease() {
    let [first, second] = [(); 2].map(|()| runtime::Builder::new_current_thread().enable_all().build().unwrap());
    let (server, node, _) = node(&MemoryStore::new());
    first.block_on(node.lease()).unwrap();
    let listener = server.listener(Duration::ZERO);
    // The first runtime does not run meanwhile, so it drops its task later.
    let lease = second.block_on(async {
        listener.release().await;
        node.lease().await.unwrap()
    });
    first.block_on(tokio::task::yield_now());
    assert!(lease.is_held());
    assert_eq!(second.block_on(node.lease()).unwrap().id(), lease.id());
}

#[tokio::test]
async fn a_server_over_stdio_deletes_its_lease_when_stdin_ends() {
    const CHILD: &str = "MCP_TEST_STDIO_LEASE";
    if std::env::var_os(CHILD).is_none() {
        let output = child_process::run("node::a_server_over_stdio_deletes_its_lease_when_stdin_ends", CHILD, "1");
        // The listener moves other output of the process from stdout to stderr.
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
        return;
    }
    let store = MemoryStore::new();
    let (server, one, _) = node(&store);
    let lease = one.name(&format!("node/{}", one.lease().await.unwrap().id()));
    assert!(store.get(&lease).await.unwrap().is_some());
    server.serve_stdio().await.unwrap();
    assert!(store.get(&lease).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_without_listeners_ends_with_the_deletion_of_its_lease() {
    let store = MemoryStore::new();
    let ((server, one, _), (_b, two, _)) = (node(&store), node(&store));
    let id = one.lease().await.unwrap().id().to_owned();
    assert!(timeout(Duration::from_secs(60), server.ended()).await.is_err(), "the server does not shut down");
    server.shutdown();
    server.ended().await;
    assert!(!two.is_alive(&id).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_killed_node_is_dead_within_five_seconds() {
    let store = MemoryStore::new();
    let ((_a, one, cut), (_b, two, _)) = (node(&store), node(&store));
    let lease = one.lease().await.unwrap();
    sleep(Duration::from_secs(5)).await;
    cut.set(Link::Stalled);
    let start = Instant::now();
    while two.is_alive(lease.id()).await.unwrap() {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    // The node has noticed it before.
    assert!(!lease.is_held());
    assert!(one.lease().await.unwrap_err().is_unavailable());
}

#[tokio::test(start_paused = true)]
async fn a_node_gets_its_next_identity_after_its_work_has_ended() {
    for link in [Link::Stalled, Link::Down] {
        let store = MemoryStore::new();
        let (_server, node, cut) = node(&store);
        let lease = node.lease().await.unwrap();
        cut.set(link);
        timeout(Duration::from_secs(11), lease.lost()).await.unwrap();
        assert!(node.current().is_none());
        cut.set(Link::Up);
        // The work of the lost lease still runs.
        sleep(Duration::from_secs(2)).await;
        assert!(node.current().is_none());
        let former = lease.id().to_owned();
        drop(lease);
        let next = node.lease().await.unwrap();
        assert_ne!(next.id(), former, "{link:?}");
        assert_eq!(store.get(&node.name(&format!("node/{former}"))).await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_lost_at_the_next_renewal() {
    let store = MemoryStore::new();
    let (_server, node, _) = node(&store);
    let lease = node.lease().await.unwrap();
    store.delete(&node.name(&format!("node/{}", lease.id()))).await.unwrap();
    timeout(Duration::from_secs(4), lease.lost()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nodes_without_a_common_state_key_report_each_other() {
    let (a, b, c) = ([1; 32], [2; 32], [3; 32]);
    for (first, second, reports) in [
        (vec![a], vec![a], 0),
        // The nodes of a rotation.
        (vec![b, a], vec![a], 0),
        (vec![a], vec![b], 2),
        (vec![a, b], vec![c], 2),
    ] {
        let log = LogText::default();
        let writer = log.clone();
        let _guard = subscribe(tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish());
        let store = MemoryStore::new();
        let servers = [first, second].map(|keys| {
            let builder = Server::builder("fleet", "1").store(Arc::new(store.clone()));
            builder.state_keys(StateKeys::new(keys)).tool(tool("ask", ask)).build()
        });
        let capabilities = json!({ "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "url": {} } } });
        let asking = json!({ "name": "ask", "_meta": capabilities });
        // A question of a client without a session starts the node.
        for server in &servers {
            let asked = request_with_scope(server, "tools/call", asking.clone(), |scope| scope.local()).await.unwrap();
            assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        }
        sleep(Duration::from_secs(60)).await;
        let text = log.text();
        let lines = text.lines().filter(|line| line.contains("has other `state_keys`"));
        assert_eq!(lines.count(), reports, "{text}");
        let leases = store.list("mcp/fleet/node/", None, 10).await.unwrap().entries;
        assert_eq!(leases.len(), 2);
    }
}

async fn ask(inputs: Inputs) -> Result<String, ToolError> {
    inputs.elicit_url("page", "Open the page.", "https://example.com").await?;
    Ok("done".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_failing_lease_is_logged_once_in_thirty_seconds() {
    for link in [Link::Stalled, Link::Down] {
        let log = LogText::default();
        let writer = log.clone();
        let _guard = subscribe(tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish());
        let (_server, node, cut) = node(&MemoryStore::new());
        node.lease().await.unwrap();
        cut.set(link);
        sleep(Duration::from_millis(2500)).await;
        cut.set(Link::Up);
        sleep(Duration::from_secs(5)).await;
        let lines = |part: &str| log.text().lines().filter(|line| line.contains(part)).count();
        let failed = lines("not renewed yet") + lines("did not renew");
        assert_eq!((failed, lines("renews the lease of this node again")), (1, 1), "{link:?}: {}", log.text());
        cut.set(link);
        sleep(Duration::from_secs(70)).await;
        let failed = lines("not renewed yet") + lines("did not renew");
        assert_eq!((failed, lines("lost its lease")), (2, 1), "{link:?}: {}", log.text());
        assert!((1..=3).contains(&lines("cannot acquire a lease yet")), "{link:?}: {}", log.text());
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_keeps_the_lease() {
    let store = MemoryStore::new();
    let ((_a, one, cut), (_b, two, _)) = (node(&store), node(&store));
    let lease = one.lease().await.unwrap();
    cut.set(Link::Slow(Duration::from_millis(1900)));
    for _ in 0..200 {
        sleep(Duration::from_millis(300)).await;
        assert!(lease.is_held() && two.is_alive(lease.id()).await.unwrap());
    }
    // A single answer may take longer.
    for _ in 0..3 {
        cut.set(Link::Up);
        sleep(Duration::from_secs(5)).await;
        cut.set(Link::Slow(Duration::from_millis(2900)));
        sleep(Duration::from_secs(1)).await;
        assert!(lease.is_held());
    }
    cut.set(Link::Up);
    sleep(Duration::from_secs(5)).await;
    assert!(lease.is_held());
    cut.set(Link::Slow(Duration::from_millis(4100)));
    sleep(Duration::from_secs(6)).await;
    assert!(!lease.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_keeps_the_lease() {
    for link in [Link::Stalled, Link::Down] {
        let (_server, node, cut) = node(&MemoryStore::new());
        let lease = node.lease().await.unwrap();
        for _ in 0..10 {
            cut.set(link);
            sleep(Duration::from_millis(2500)).await;
            cut.set(Link::Up);
            sleep(Duration::from_secs(5)).await;
            assert!(lease.is_held(), "{link:?}");
        }
    }
}

#[tokio::test]
async fn requests_reach_the_handler_of_the_named_node() {
    let store = MemoryStore::new();
    let nodes = [(); 3].map(|()| node(&store));
    for (number, (_, node, _)) in nodes.iter().enumerate() {
        node.handle("number", move |_| async move { vec![u8::try_from(number).unwrap()] });
        handle(node);
    }
    for (_, from, _) in &nodes {
        for (number, (_, to, _)) in nodes.iter().enumerate() {
            let lease = to.lease().await.unwrap();
            assert_eq!(from.request(lease.id(), "number", Vec::new()).await.unwrap(), [u8::try_from(number).unwrap()]);
            // A large body is a record, which the receiver deletes.
            for size in [0, 60 << 10, 64 << 10, 300 << 10] {
                let body = vec![b'\n'; size];
                assert_eq!(from.request(lease.id(), "echo", body.clone()).await.unwrap(), body);
            }
            let unknown = from.request(lease.id(), "unknown", Vec::new()).await.unwrap_err();
            assert_eq!(unknown.to_string(), "the node of this work does not support the request");
        }
    }
    assert_eq!(store.usage().entries, 6, "the leases and the entries of the nodes remain");
}

#[tokio::test]
async fn many_requests_at_the_same_time_receive_their_own_replies() {
    let store = MemoryStore::new();
    let ((_a, one, _), (_b, two, _)) = (node(&store), node(&store));
    handle(&two);
    let id = two.lease().await.unwrap().id().to_owned();
    let requests = (0..1000_u32).map(|number| {
        let (one, id) = (one.clone(), id.clone());
        tokio::spawn(async move {
            let reply = one.request(&id, "echo", number.to_le_bytes().to_vec()).await;
            assert_eq!(reply.unwrap(), number.to_le_bytes());
        })
    });
    for request in requests.collect::<Vec<_>>() {
        request.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_is_acknowledged_and_replies_later() {
    let store = MemoryStore::new();
    let ((_a, one, _), (_b, two, _)) = (node(&store), node(&store));
    two.handle("slow", |body| async move {
        sleep(Duration::from_secs(20)).await;
        body
    });
    handle(&two);
    let id = two.lease().await.unwrap().id().to_owned();
    assert_eq!(one.request(&id, "slow", vec![1]).await.unwrap(), [1]);
    let start = Instant::now();
    let error = one.request(&id, "never", Vec::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "the node of this work failed to process the request");
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_request_to_a_node_that_does_not_respond_fails_within_the_time_limits() {
    let store = MemoryStore::new();
    let ((_a, one, cut_one), (_b, two, cut)) = (node(&store), node(&store));
    handle(&two);
    let id = two.lease().await.unwrap().id().to_owned();
    one.lease().await.unwrap();
    cut.set(Link::Stalled);
    let start = Instant::now();
    let error = one.request(&id, "echo", Vec::new()).await.unwrap_err();
    assert!(error.is_unacknowledged(), "{error}");
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    sleep(Duration::from_secs(12)).await;
    let error = one.request(&id, "echo", Vec::new()).await.unwrap_err();
    assert!(error.is_gone(), "{error}");
    cut_one.set(Link::Stalled);
    let start = Instant::now();
    let error = one.request(&id, "echo", Vec::new()).await.unwrap_err();
    // The message may have been sent.
    assert!(error.is_interrupted() && start.elapsed() <= Duration::from_secs(5), "{error} {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_node_that_loses_its_lease_is_interrupted() {
    let store = MemoryStore::new();
    let ((_a, one, _), (_b, two, _)) = (node(&store), node(&store));
    handle(&two);
    let id = two.lease().await.unwrap().id().to_owned();
    let lease = one.lease().await.unwrap();
    let losing = async {
        sleep(Duration::from_secs(1)).await;
        store.delete(&one.name(&format!("node/{}", lease.id()))).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(one.request(&id, "never", Vec::new()), losing);
    let error = outcome.unwrap_err();
    assert!(error.is_interrupted() && !error.is_unavailable(), "{error}");
    assert_eq!(error.to_rpc().data.unwrap()["reason"], "node_unavailable");
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_when_the_node_stops_while_it_runs() {
    let store = MemoryStore::new();
    let ((_a, one, _), (_b, two, cut)) = (node(&store), node(&store));
    handle(&two);
    let id = two.lease().await.unwrap().id().to_owned();
    let (start, request) = (Instant::now(), one.request(&id, "never", Vec::new()));
    let killing = async {
        sleep(Duration::from_secs(1)).await;
        cut.set(Link::Stalled);
    };
    let (outcome, ()) = tokio::join!(request, killing);
    assert!(outcome.unwrap_err().is_gone());
    assert!(start.elapsed() < Duration::from_secs(16), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_cancels_its_handler() {
    let store = MemoryStore::new();
    let ((_a, one, _), (_b, two, _)) = (node(&store), node(&store));
    let running = tokio::sync::watch::Sender::new(false);
    let seen = running.subscribe();
    two.handle("hold", move |_| {
        let running = running.clone();
        async move {
            struct Stop(tokio::sync::watch::Sender<bool>);
            impl Drop for Stop {
                fn drop(&mut self) {
                    self.0.send_replace(false);
                }
            }
            running.send_replace(true);
            let _stop = Stop(running);
            std::future::pending().await
        }
    });
    let id = two.lease().await.unwrap().id().to_owned();
    let limited = timeout(Duration::from_secs(1), one.request(&id, "hold", Vec::new())).await;
    assert!(limited.is_err() && *seen.borrow());
    sleep(Duration::from_millis(10)).await;
    assert!(!*seen.borrow());
}

#[tokio::test]
async fn a_handler_that_panics_fails_its_request_only() {
    let store = MemoryStore::new();
    let ((_a, one, _), (_b, two, _)) = (node(&store), node(&store));
    two.handle("panics", |_| async { panic!("broken") });
    handle(&two);
    let id = two.lease().await.unwrap().id().to_owned();
    let error = one.request(&id, "panics", Vec::new()).await.unwrap_err();
    assert_eq!(error.to_string(), "the node of this work failed to process the request");
    assert_eq!(one.request(&id, "echo", vec![1]).await.unwrap(), [1]);
}

#[tokio::test]
async fn servers_with_different_names_do_not_share_nodes() {
    let store = Arc::new(MemoryStore::new());
    let [one, two] = ["one", "two"].map(|name| Server::builder(name, "1").store(store.clone()).build());
    let lease = one.node().unwrap().lease().await.unwrap();
    assert!(!two.node().unwrap().is_alive(lease.id()).await.unwrap());
}
