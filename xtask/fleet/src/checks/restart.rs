//! A rolling restart of all nodes under load.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Error, ensure};
use mcp_client::{Client, protocol::ProtocolVersion};
use mcp_store::KeyValue as _;
use mcp_store_redis::{RedisOptions, RedisStore};
use serde_json::json;
use tokio::{task::JoinSet, time::sleep};

use super::Run;
use crate::fleet::Fleet;

const CONNECTIONS: usize = 32;
/// The clients with sessions: half of them.
const SESSIONS: usize = CONNECTIONS / 2;
/// The names of the records of sessions.
const RECORDS: &str = "mcp/fleet/session/";
/// The pause between the restarts of two nodes, at full size.
const PAUSE: Duration = Duration::from_secs(15);
/// The calls that each client makes at least, at full size.
const CALLS: usize = 100;

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let mut fleet = Fleet::start(&run.settings).await?;
    let done = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for number in 0..CONNECTIONS {
        let version = if number % 2 == 0 { ProtocolVersion::V2026_07_28 } else { ProtocolVersion::V2025_11_25 };
        let client = Client::builder("fleet-check", "0").versions([version]).connect(fleet.url().as_str()).await?;
        // The client repeats the calls of tools that it knows as read-only.
        client.list_tools().await?;
        let done = done.clone();
        clients.spawn(async move {
            let mut calls = 0_usize;
            while !done.load(Ordering::Relaxed) {
                let result = client.call_tool("add", json!({ "a": 2, "b": 3 })).await;
                let result = result.with_context(|| format!("a call in {version}"))?;
                ensure!(result.text() == "5", "a wrong answer: {}", result.text());
                calls += 1;
                sleep(Duration::from_millis(5)).await;
            }
            client.close().await;
            Ok::<_, Error>(calls)
        });
    }
    let store = RedisStore::connect(RedisOptions::from_url(&fleet.redis.url())?).await?;
    let before = sessions(&store).await?;
    ensure!(before == SESSIONS, "{SESSIONS} clients have opened {before} sessions");
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
    // The record of a lost session stays, so each further session is counted.
    let opened = sessions(&store).await?;
    done.store(true, Ordering::Relaxed);
    let (mut counts, mut faults) = (Vec::new(), Vec::new());
    while let Some(ended) = clients.join_next().await {
        match ended? {
            Ok(calls) => counts.push(calls),
            Err(error) => faults.push(error),
        }
    }
    if let Some(first) = faults.pop() {
        return Err(first.context(format!("{} of {CONNECTIONS} clients had a failed call", faults.len() + 1)));
    }
    let (calls, fewest) = (counts.iter().sum::<usize>(), counts.iter().min().copied().unwrap_or(0));
    let expected = run.of(CALLS);
    ensure!(fewest >= expected, "a client made {fewest} calls, at least {expected} are expected");
    let again = opened.saturating_sub(SESSIONS);
    ensure!(again <= SESSIONS, "{SESSIONS} clients have opened {again} further sessions");
    Ok(format!(
        "{calls} calls of {CONNECTIONS} clients in {:.0} s, 0 failed, {again} of {SESSIONS} sessions opened again",
        start.elapsed().as_secs_f64()
    ))
}

/// The number of stored sessions.
async fn sessions(store: &RedisStore) -> Result<usize, Error> {
    let page = store.list(RECORDS, None, 1_000).await?;
    // The other records of a session have longer names.
    Ok(page.entries.iter().filter(|(name, _)| !name[RECORDS.len()..].contains('/')).count())
}
