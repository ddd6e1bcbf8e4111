//! A rolling restart of all nodes under load.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Error, ensure};
use mcp_client::{Client, protocol::ProtocolVersion};
use serde_json::json;
use tokio::{task::JoinSet, time::sleep};

use super::Run;
use crate::fleet::Fleet;

const CONNECTIONS: usize = 32;
/// The pause between the restarts of two nodes, at full size.
const PAUSE: Duration = Duration::from_secs(15);

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let mut fleet = Fleet::start(&run.settings).await?;
    let (done, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for number in 0..CONNECTIONS {
        let version = if number % 2 == 0 { ProtocolVersion::V2026_07_28 } else { ProtocolVersion::V2025_11_25 };
        let client = Client::builder("fleet-check", "0").versions([version]).connect(fleet.url().as_str()).await?;
        // The client repeats the calls of tools that it knows as read-only.
        client.list_tools().await?;
        let (done, calls) = (done.clone(), calls.clone());
        clients.spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let result = client.call_tool("add", json!({ "a": 2, "b": 3 })).await;
                let result = result.with_context(|| format!("a call in {version}"))?;
                ensure!(result.text() == "5", "a wrong answer: {}", result.text());
                calls.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(5)).await;
            }
            client.close().await;
            Ok::<_, Error>(())
        });
    }
    let start = Instant::now();
    let pause = PAUSE * run.size / 100;
    for number in 0..fleet.nodes.len() {
        sleep(pause).await;
        let node = &mut fleet.nodes[number];
        let status = node.stop().await?;
        ensure!(status.success(), "node {number} ended with {status}");
        node.restart().await?;
    }
    sleep(pause).await;
    done.store(true, Ordering::Relaxed);
    let mut faults = Vec::new();
    while let Some(ended) = clients.join_next().await {
        faults.extend(ended?.err());
    }
    let calls = calls.load(Ordering::Relaxed);
    if let Some(first) = faults.pop() {
        return Err(first.context(format!("{} of {CONNECTIONS} clients had a failed call", faults.len() + 1)));
    }
    Ok(format!("{calls} calls of {CONNECTIONS} clients in {:.0} s, 0 failed", start.elapsed().as_secs_f64()))
}
