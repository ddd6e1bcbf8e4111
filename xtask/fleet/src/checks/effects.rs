//! Side effects that run once per flow, while nodes are killed between and during its rounds.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, ensure};
use mcp_client::{
    Client,
    protocol::{ElicitResult, ProtocolVersion},
};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};

use super::{Run, until};
use crate::fleet::{Fleet, Kills};

const FLOWS: usize = 2_000;
const AT_ONCE: usize = 8;
/// The time between two kills at full size, and the shortest time.
const BETWEEN_KILLS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(500));
/// The pause of the user before the answer. Kills fall between the rounds.
const THINKING: Duration = Duration::from_millis(30);
/// The time of the effect, in milliseconds. Kills fall into it too.
const EFFECT_MS: u64 = 15;
/// The time in which a flow ends. The guard of an effect at a killed node fails within 15 s.
const FLOW: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(60);

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let mut fleet = Fleet::start(&run.settings).await?;
    let (url, flows, limit) = (fleet.url(), run.of(FLOWS), run.limit(FLOW));
    let client = client(&url).await?;
    let pause = (BETWEEN_KILLS.0 * run.size / 100).max(BETWEEN_KILLS.1);
    let kills = Kills::begin(std::mem::take(&mut fleet.nodes), run.random.fork(), pause);
    let start = Instant::now();
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut calls = JoinSet::new();
    for number in 0..flows {
        let (client, turns) = (client.clone(), turns.clone());
        calls.spawn(async move {
            let _turn = turns.acquire_owned().await?;
            let item = item(number);
            let call = client.call_tool("order", json!({ "item": item, "takes_ms": EFFECT_MS }));
            let start = Instant::now();
            let ended = timeout(limit, async { call.await }).await.context("a flow has no end in time")?;
            let is_placed = ended.is_ok_and(|result| !result.is_error());
            Ok::<_, Error>((is_placed.then_some(item), start.elapsed()))
        });
    }
    let (mut succeeded, mut longest) = (Vec::new(), Duration::ZERO);
    while let Some(ended) = calls.join_next().await {
        let (item, time) = ended??;
        succeeded.extend(item);
        longest = longest.max(time);
    }
    let placed = succeeded.len();
    let (nodes, kills) = kills.end().await?;
    fleet.nodes = nodes;
    let time = start.elapsed();
    let mut orders = None;
    until(LIMIT, async || {
        orders = client.call_tool("orders", ()).await.ok().and_then(|result| result.structured_content.clone());
        orders.is_some()
    })
    .await
    .context("the orders cannot be read")?;
    let stored = placed_once(&orders.unwrap_or_default(), &succeeded)?;
    ensure!(stored <= flows, "{flows} flows placed {stored} orders");
    ensure!(kills > 0, "no node was killed");
    // A kill fails at most the flows that run.
    ensure!(flows - placed <= kills * AT_ONCE, "{kills} kills, but only {placed} of {flows} flows succeeded");
    Ok(format!(
        "{flows} flows in {:.0} s with {kills} kills: {placed} succeeded, {stored} orders, 0 twice, the longest \
         flow {:.1} s",
        time.as_secs_f64(),
        longest.as_secs_f64(),
    ))
}

fn item(number: usize) -> String {
    format!("flow-{number}")
}

/// Checks that the log has no order twice, and each order of a flow that succeeded. Returns the number of orders.
pub(super) fn placed_once(orders: &Value, succeeded: &[String]) -> Result<usize, Error> {
    ensure!(orders["repeated"] == json!([]), "orders were placed twice: {}", orders["repeated"]);
    let items: HashSet<&str> = orders["items"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let lost: Vec<_> = succeeded.iter().filter(|item| !items.contains(item.as_str())).collect();
    ensure!(lost.is_empty(), "flows succeeded, and their orders are not stored: {lost:?}");
    Ok(items.len())
}

/// A client of 2026-07-28 whose user confirms each order.
pub(super) async fn client(url: &str) -> Result<Client, Error> {
    let answer = async |_| {
        tokio::time::sleep(THINKING).await;
        ElicitResult::accept_json(json!({ "confirm": true }))
    };
    let builder = Client::builder("fleet-check", "0").versions([ProtocolVersion::V2026_07_28]).on_elicit(answer);
    Ok(builder.connect(url).await?)
}
