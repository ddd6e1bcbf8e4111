//! Elicitations whose answers arrive at another node than the one that asked.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, ensure};
use mcp_client::{
    Client,
    protocol::{ElicitResult, ProtocolVersion},
};
use serde_json::json;
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};

use super::{Run, percentile};
use crate::fleet::Fleet;

const QUESTIONS: usize = 1_000;
const CLIENTS: usize = 4;
/// The added time that the promise allows.
const ADDED: Duration = Duration::from_millis(5);
const LIMIT: Duration = Duration::from_secs(60);

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let fleet = Fleet::start(&run.settings).await?;
    let count = run.of(QUESTIONS);
    // The same calls at one node without the balancer.
    let mut alone = ask(&fleet.nodes[0].url(), count).await.context("at one node")?;
    let mut behind = ask(&fleet.url(), count).await.context("through the balancer")?;
    let [alone, behind] = [&mut alone, &mut behind].map(|times| percentile(times, 99));
    let added = behind.saturating_sub(alone);
    let line = format!("{count} of {count} answered, p99 {alone:.1?} at one node, {behind:.1?} through the balancer");
    ensure!(added <= ADDED || run.size < 100, "{line}: {added:.1?} added, at most {ADDED:?} is allowed");
    Ok(format!("{line}, {added:.1?} added"))
}

/// Makes `count` calls that ask, and returns their times.
async fn ask(url: &str, count: usize) -> Result<Vec<Duration>, Error> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let client = Client::builder("fleet-check", "0")
            .versions([ProtocolVersion::V2025_11_25])
            .on_elicit(async |_| ElicitResult::accept_json(json!({ "confirm": true })))
            .connect(url)
            .await?;
        clients.push((client, Arc::new(Semaphore::new(1))));
    }
    let mut calls = JoinSet::new();
    for number in 0..count {
        let (client, turn) = clients[number % CLIENTS].clone();
        calls.spawn(async move {
            let _turn = turn.acquire_owned().await?;
            let start = Instant::now();
            let call = client.call_tool("order", json!({ "item": format!("question-{number}") }));
            let result = timeout(LIMIT, async { call.await }).await.context("no answer in time")??;
            ensure!(!result.is_error(), "call {number}: {}", result.text());
            Ok(start.elapsed())
        });
    }
    let mut times = Vec::new();
    while let Some(ended) = calls.join_next().await {
        times.push(ended??);
    }
    for (client, _) in clients {
        client.close().await;
    }
    Ok(times)
}
