//! The tasks of a server whose connections start processes: another process can have another task with the same id.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use mcp_client::{
    Client, Error,
    protocol::ProtocolVersion,
    transport::{BoxFuture, Connect, Transport, TransportError},
};
use serde_json::json;

use crate::{
    common::{Peer, Peers, Scripted, builder, discovery, initialized, scripted, start},
    tasks::{CORE, MODERN, becomes_a_task, core, detailed, task_call},
};

/// A connector whose connections start processes, unless `is_shared`.
struct Processes {
    inner: Scripted,
    is_shared: bool,
}

impl Connect for Processes {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        self.inner.connect()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn starts_process(&self) -> bool {
        !self.is_shared
    }
}

/// Opens the next connection, to a server with tasks.
async fn open(peers: &mut Peers, version: ProtocolVersion) -> Peer {
    let mut peer = peers.next().await;
    let request = peer.recv().await;
    if version.has_handshake() {
        let mut initialized = initialized(version.as_str());
        initialized["capabilities"]["tasks"] = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
        peer.answer(request["id"].clone(), initialized).await;
        peer.expect("notifications/initialized").await;
    } else {
        let mut discovery = discovery(&[version.as_str()]);
        discovery["capabilities"]["extensions"] = json!({ "io.modelcontextprotocol/tasks": {} });
        peer.answer(request["id"].clone(), discovery).await;
    }
    peer
}

async fn connect(version: ProtocolVersion, is_shared: bool) -> (Client, Peer, Peers) {
    let (inner, mut peers) = scripted();
    let connecting = start(builder().tasks().versions([version]).connect(Processes { inner, is_shared }));
    let peer = open(&mut peers, version).await;
    (connecting.await.unwrap().unwrap(), peer, peers)
}

/// Checks that the next message is not about a task.
async fn expect_no_task(client: &Client, peer: &mut Peer, case: &str) {
    let other = client.clone();
    let listing = start(async move { other.request_raw("prompts/list", json!({})).await });
    let request = peer.recv().await;
    assert_eq!(request["method"], "prompts/list", "{case}: {request}");
    peer.answer(
        request["id"].clone(),
        json!({ "resultType": "complete", "prompts": [], "ttlMs": 0, "cacheScope": "private" }),
    )
    .await;
    listing.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_became_a_task_waits_for_its_own_process_alone() {
    for version in [CORE, MODERN] {
        for ends in ["awaited", "dropped"] {
            let case = format!("{version} {ends}");
            let (client, mut peer, mut peers) = connect(version, false).await;
            let caller = client.clone();
            let waiting = start(async move { caller.call_tool("t", ()).await });
            becomes_a_task(&mut peer, version).await;
            let id = peer.expect("tasks/get").await;
            let state = if version == CORE { core("working") } else { detailed("working", json!({})) };
            peer.answer(id, state).await;
            peer.close();
            let mut peer = open(&mut peers, version).await;
            if ends == "dropped" {
                waiting.abort();
                assert!(waiting.await.unwrap_err().is_cancelled(), "{case}");
            } else {
                let error: Error = tokio::select! {
                    biased;
                    ended = waiting => ended.unwrap().unwrap_err(),
                    request = peer.recv() => panic!("{case}: {request}"),
                };
                assert!(error.is_closed() && error.was_sent(), "{case}: {error:?}");
            }
            expect_no_task(&client, &mut peer, &case).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_handle_of_a_task_uses_another_connection_only_if_it_reaches_the_task() {
    for (version, is_shared) in [(CORE, false), (MODERN, false), (CORE, true), (MODERN, true)] {
        let case = format!("{version} {is_shared}");
        let (client, mut peer, mut peers) = connect(version, is_shared).await;
        let caller = client.clone();
        let starting = start(async move { caller.call_tool("t", ()).as_task().await });
        let id = task_call(&mut peer, version).await;
        let mut created = json!({ "task": core("working") });
        if version == MODERN {
            created = detailed("working", json!({}));
            created["resultType"] = "task".into();
        }
        peer.answer(id, created).await;
        let started = starting.await.unwrap().unwrap();
        peer.close();
        let mut peer = open(&mut peers, version).await;
        let task = started.task().unwrap().clone();
        if is_shared {
            let asking = start(async move { task.status().await });
            let id = peer.expect("tasks/get").await;
            let state = if version == CORE { core("working") } else { detailed("working", json!({})) };
            peer.answer(id, state).await;
            assert!(asking.await.unwrap().is_ok(), "{case}");
            continue;
        }
        let requests = async { [task.status().await.map(drop), task.cancel().await, task.result().await.map(drop)] };
        let ended = tokio::select! {
            biased;
            ended = requests => ended,
            request = peer.recv() => panic!("{case}: {request}"),
        };
        for error in ended {
            assert!(error.unwrap_err().is_closed(), "{case}");
        }
        expect_no_task(&client, &mut peer, &case).await;
    }
}
