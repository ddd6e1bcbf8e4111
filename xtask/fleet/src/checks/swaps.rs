//! Compare-and-swap of several handles, while Redis is stopped, killed and cut from them.

use std::time::{Duration, Instant};

use anyhow::{Context, Error, ensure};
use mcp_store::suite::Registers;
use mcp_store_redis::{RedisOptions, RedisStore};
use mcp_test::redis_server::{FaultyProxy, RedisServer};
use tokio::{
    task::{JoinSet, block_in_place},
    time::sleep,
};

use super::Run;
use crate::fleet::{DURABLE, NODES};

const CLIENTS: usize = 8;
const TIME: Duration = Duration::from_secs(60);
/// The time limit of each operation.
const LIMIT: Duration = Duration::from_secs(1);

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let mut redis = block_in_place(|| RedisServer::start(DURABLE)).context("redis-server")?;
    let (registers, mut proxies, mut clients) = (Registers::new(), Vec::new(), JoinSet::new());
    for _ in 0..NODES {
        let proxy = FaultyProxy::start(redis.address()).await?;
        let (host, port) = (proxy.address().ip().to_string(), proxy.address().port());
        let store = RedisStore::connect(RedisOptions::tcp(host, port).call_time_limit(LIMIT)).await?;
        for _ in 0..CLIENTS {
            let (store, registers, seed) = (store.clone(), registers.clone(), run.random.next());
            clients.spawn(async move { registers.run(&store, seed).await });
        }
        proxies.push(proxy);
    }
    let (start, time) = (Instant::now(), TIME * run.size / 100);
    let (mut stops, mut cuts, mut is_killed) = (0, 0, false);
    // A short run has each fault too.
    while start.elapsed() < time || !is_killed || stops == 0 || cuts == 0 {
        let choice = run.random.below(1 + NODES);
        if !is_killed && start.elapsed() > time / 2 {
            is_killed = true;
            redis.kill()?;
            block_in_place(|| redis.restart())?;
        } else if let Some(node) = choice.checked_sub(1) {
            proxies[node].cut();
            cuts += 1;
        } else {
            redis.pause()?;
            sleep(Duration::from_millis(run.random.between(50, 250))).await;
            redis.resume()?;
            stops += 1;
        }
        sleep(Duration::from_millis(run.random.between(20, 170))).await;
    }
    registers.end();
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    // A swap that Redis acknowledged and lost is visible after the end of its register.
    let fresh = RedisStore::connect(RedisOptions::from_url(&redis.url())?).await?;
    registers.read(&fresh).await?;
    let found = registers.check()?;
    ensure!(found.unknown > 0, "the faults had no effect: {found:?}");
    ensure!(found.swaps > 20, "the clients did not work: {found:?}");
    Ok(format!(
        "{} swaps on {} registers by {} clients, {} unknown outcomes; {stops} stops, {cuts} cuts, 1 kill; linearizable",
        found.swaps,
        found.registers,
        NODES * CLIENTS,
        found.unknown,
    ))
}
