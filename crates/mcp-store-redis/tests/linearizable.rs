//! Compare-and-swap is linearizable while connections are cut, and the server is stopped and killed.
//!
//! `MCP_LINEARIZABLE_SEED` repeats the choices of a run. `cargo xtask fleet --check swaps` has a longer run.
#![cfg(unix)]

use std::{
    env,
    time::{Duration, Instant, SystemTime},
};

use mcp_store::suite::Registers;
use mcp_store_redis::RedisStore;
use mcp_test::redis_server::{FaultyProxy, RedisServer};
use tokio::{task::JoinSet, time::sleep};

use crate::common::options;

const NODES: usize = 3;
const CLIENTS: usize = 4;
const TIME: Duration = Duration::from_secs(4);

/// A generator of choices (xorshift).
struct Choices(u64);

impl Choices {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compare_and_swap_is_linearizable_with_cuts_stops_and_a_kill() {
    let name = "compare_and_swap_is_linearizable_with_cuts_stops_and_a_kill";
    let arguments = ["--appendonly yes", "--appendfsync always"];
    let Some(mut server) = RedisServer::start_with_or_skip(name, &arguments) else { return };
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = env::var("MCP_LINEARIZABLE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or(u64::from(clock.subsec_nanos()));
    println!("the seed is {seed}");

    let (start, registers) = (Instant::now(), Registers::new());
    let (mut proxies, mut clients) = (Vec::new(), JoinSet::new());
    for node in 0..NODES {
        let proxy = FaultyProxy::start(server.address()).await.unwrap();
        let options = options(proxy.address()).namespace("linearizable").call_time_limit(Duration::from_secs(1));
        let store = RedisStore::connect(options).await.unwrap();
        for id in 0..CLIENTS {
            let (store, registers) = (store.clone(), registers.clone());
            let seed = seed.wrapping_mul(31).wrapping_add(u64::try_from(node * CLIENTS + id).unwrap());
            clients.spawn(async move { registers.run(&store, seed).await });
        }
        proxies.push(proxy);
    }

    let mut choices = Choices(seed | 1);
    let mut is_killed = false;
    while start.elapsed() < TIME {
        match choices.next(4) {
            0 => {
                server.pause().unwrap();
                sleep(Duration::from_millis(50 + choices.next(200))).await;
                server.resume().unwrap();
            }
            _ if !is_killed && start.elapsed() > TIME / 2 => {
                is_killed = true;
                server.kill().unwrap();
                server.restart().unwrap();
            }
            node => proxies[usize::try_from(node - 1).unwrap()].cut(),
        }
        sleep(Duration::from_millis(20 + choices.next(150))).await;
    }
    registers.end();
    while let Some(ended) = clients.join_next().await {
        ended.unwrap().unwrap();
    }
    // A write that the server acknowledged and lost is visible after the end of its register.
    let fresh = RedisStore::connect(options(server.address()).namespace("linearizable")).await.unwrap();
    registers.read(&fresh).await.unwrap();
    let found = registers.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    println!("{found:?}");
    // The faults had an effect, and the clients worked nevertheless.
    assert!(is_killed && found.unknown > 0 && found.swaps > 20, "{is_killed} {found:?}");
}
