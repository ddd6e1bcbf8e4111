//! Clients that do not read the notifications of their calls. The clock of these tests is paused.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_agent::{Gateway, Host};
use mcp_protocol::ProtocolVersion;
use mcp_server::{Caller, prelude::*};
use mcp_transport::{
    Frame, Transport as _,
    memory::{MemoryTransport, duplex},
    recv,
};
use serde_json::{Value, json};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};

use crate::common::{Pipe, REVISIONS, SOON};

const SECOND: Duration = Duration::from_secs(1);
/// The number of the progress notifications of a call.
const STEPS: u64 = 10;
/// The number of messages that the connection of the client can hold.
const CAPACITY: usize = 2;

async fn report(progress: Progress) {
    for step in 1..=STEPS {
        progress.report(step, STEPS, None).await;
    }
}

/// A server whose tool `ends` reports progress and returns. `waits` does not return, and the receiver completes when it is cancelled.
fn reporting(version: ProtocolVersion) -> (Server, oneshot::Receiver<()>) {
    let (cancelled, is_cancelled) = oneshot::channel::<()>();
    let cancelled = Arc::new(Mutex::new(Some(cancelled)));
    let waits = move |progress: Progress| {
        let cancelled = cancelled.lock().unwrap().take();
        async move {
            report(progress).await;
            pending::<()>().await;
            drop(cancelled);
            "done"
        }
    };
    let ends = async |progress: Progress| {
        report(progress).await;
        "done"
    };
    let server = Server::builder("s", "1").versions([version]).tool(tool("ends", ends)).tool(tool("waits", waits));
    (server.build(), is_cancelled)
}

/// Calls a tool of a server through a gateway, for a client that does not read the answers.
async fn call(server: Server, name: &str) -> MemoryTransport {
    let host = Host::builder("gateway", "1").server("s", Pipe::new(server)).call_timeout(10 * SECOND);
    let gateway = Gateway::builder(host.start().await.unwrap()).build().unwrap().versions([REVISIONS[0]]).build();
    let (mut client, theirs) = duplex(CAPACITY);
    tokio::spawn(async move { gateway.serve_as(theirs, Caller::remote()).await });
    let send = async |client: &MemoryTransport, mut message: Value| {
        message["jsonrpc"] = "2.0".into();
        client.sender().send(Frame::new(message.to_string())).await.unwrap();
    };
    let info = json!({ "name": "client", "version": "1" });
    let params = json!({ "protocolVersion": REVISIONS[0], "capabilities": {}, "clientInfo": info });
    send(&client, json!({ "id": 1, "method": "initialize", "params": params })).await;
    assert_eq!(next(&mut client).await["id"], 1);
    send(&client, json!({ "method": "notifications/initialized" })).await;
    let params = json!({ "name": format!("s__{name}"), "arguments": {}, "_meta": { "progressToken": 7 } });
    send(&client, json!({ "id": 2, "method": "tools/call", "params": params })).await;
    client
}

async fn next(client: &mut MemoryTransport) -> Value {
    let frame = timeout(SOON, recv(client)).await.unwrap().unwrap().unwrap();
    serde_json::from_slice(&frame.message).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_does_not_stop_the_time_limit_of_its_call() {
    for version in REVISIONS {
        let (server, is_cancelled) = reporting(version);
        let began = Instant::now();
        let _client = call(server, "waits").await;
        assert!(timeout(60 * SECOND, is_cancelled).await.unwrap().is_err(), "{version}");
        let elapsed = began.elapsed();
        assert!((10 * SECOND..11 * SECOND).contains(&elapsed), "{version}: {elapsed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_waits_for_five_seconds_for_a_client_that_does_not_read() {
    for version in REVISIONS {
        for (pause, expected) in [(4 * SECOND, STEPS as usize), (60 * SECOND, CAPACITY)] {
            let mut client = call(reporting(version).0, "ends").await;
            sleep(pause).await;
            let mut steps = 0;
            let result = loop {
                let message = next(&mut client).await;
                match message["method"].as_str() {
                    Some("notifications/progress") => steps += 1,
                    Some(other) => panic!("{other}"),
                    None => break message,
                }
            };
            assert_eq!(result["result"]["content"][0]["text"], "done", "{version} {pause:?}");
            assert_eq!(steps, expected, "{version} {pause:?}");
        }
    }
}
