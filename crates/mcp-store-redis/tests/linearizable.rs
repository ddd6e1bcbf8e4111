//! Compare-and-swap is linearizable while connections are cut, and the server is stopped and killed.
//!
//! `MCP_LINEARIZABLE_SECONDS` sets the time of the run, and `MCP_LINEARIZABLE_SEED` repeats its choices.
#![cfg(unix)]

use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use mcp_store::{KeyValue, StoreError, Swap};
use mcp_store_redis::RedisStore;
use mcp_test::redis_server::{FaultyProxy, RedisServer};
use tokio::{task::JoinSet, time::sleep};

use self::checker::{Call, Operation, is_linearizable};
use crate::common::options;

mod checker;

const NODES: usize = 3;
const CLIENTS: usize = 4;
/// The time in which all clients work on the same key.
const EPOCH: Duration = Duration::from_millis(150);

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

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn number(value: Option<&[u8]>) -> Option<u64> {
    value.map(|value| std::str::from_utf8(value).unwrap().parse().unwrap())
}

/// Runs one client, and returns its history.
async fn client(store: RedisStore, start: Instant, end: Arc<AtomicBool>, id: u64, seed: u64) -> Vec<(u64, Operation)> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let mut choices = Choices(seed.wrapping_mul(31).wrapping_add(id) | 1);
    let (mut history, mut known, mut epoch) = (Vec::new(), None, u64::MAX);
    while !end.load(Ordering::Relaxed) {
        let now = u64::try_from(start.elapsed().as_millis() / EPOCH.as_millis()).unwrap();
        if now != epoch {
            (epoch, known) = (now, None);
        }
        let key = format!("register/{epoch}");
        let begin = start.elapsed();
        let call = if choices.next(3) == 0 {
            match store.get(&key).await {
                Ok(value) => {
                    known = number(value.as_deref());
                    Some(Call::Read { value: known })
                }
                // A read without a result has no effect.
                Err(error) => {
                    unavailable(&error);
                    None
                }
            }
        } else {
            let new = LAST.fetch_add(1, Ordering::Relaxed);
            let expected = known.map(|known| known.to_string().into_bytes());
            let value = Some(Arc::from(new.to_string().into_bytes()));
            let old = known;
            match store.compare_and_swap(&key, expected.as_deref(), value, None).await {
                Ok(Swap::Done) => {
                    known = Some(new);
                    Some(Call::Done { expected: old, new })
                }
                Ok(Swap::Lost { current }) => {
                    known = number(current.as_deref());
                    Some(Call::Lost { expected: old, value: known })
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => {
                    unavailable(&error);
                    Some(Call::Maybe { expected: old, new })
                }
            }
        };
        if let Some(call) = call {
            history.push((epoch, Operation { start: begin, end: start.elapsed(), call }));
        }
        sleep(Duration::from_millis(choices.next(6))).await;
    }
    history
}

fn unavailable(error: &StoreError) {
    assert!(error.is_unavailable(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compare_and_swap_is_linearizable_with_cuts_stops_and_a_kill() {
    let name = "compare_and_swap_is_linearizable_with_cuts_stops_and_a_kill";
    let arguments = ["--appendonly yes", "--appendfsync always"];
    let Some(mut server) = RedisServer::start_with_or_skip(name, &arguments) else { return };
    let seconds = variable("MCP_LINEARIZABLE_SECONDS").unwrap_or(4);
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = variable("MCP_LINEARIZABLE_SEED").unwrap_or(u64::from(clock.subsec_nanos()));
    println!("the seed is {seed}");

    let (start, end) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let (mut proxies, mut clients) = (Vec::new(), JoinSet::new());
    for node in 0..NODES {
        let proxy = FaultyProxy::start(server.address()).await.unwrap();
        let options = options(proxy.address()).namespace("linearizable").call_time_limit(Duration::from_secs(1));
        let store = RedisStore::connect(options).await.unwrap();
        for id in 0..CLIENTS {
            let id = u64::try_from(node * CLIENTS + id).unwrap();
            clients.spawn(client(store.clone(), start, end.clone(), id, seed));
        }
        proxies.push(proxy);
    }

    let mut choices = Choices(seed | 1);
    let mut is_killed = false;
    while start.elapsed() < Duration::from_secs(seconds) {
        match choices.next(4) {
            0 => {
                server.pause().unwrap();
                sleep(Duration::from_millis(50 + choices.next(200))).await;
                server.resume().unwrap();
            }
            _ if !is_killed && start.elapsed() > Duration::from_secs(seconds) / 2 => {
                is_killed = true;
                server.kill().unwrap();
                server.restart().unwrap();
            }
            node => proxies[usize::try_from(node - 1).unwrap()].cut(),
        }
        sleep(Duration::from_millis(20 + choices.next(150))).await;
    }
    end.store(true, Ordering::Relaxed);

    let mut histories = std::collections::BTreeMap::<u64, Vec<Operation>>::new();
    while let Some(history) = clients.join_next().await {
        for (epoch, operation) in history.unwrap() {
            histories.entry(epoch).or_default().push(operation);
        }
    }
    let count = |is: fn(&Call) -> bool| histories.values().flatten().filter(|operation| is(&operation.call)).count();
    let done = count(|call| matches!(call, Call::Done { .. }));
    let maybe = count(|call| matches!(call, Call::Maybe { .. }));
    println!("{} registers, {done} swaps, {maybe} unknown outcomes", histories.len());
    // The faults had an effect, and the clients worked nevertheless.
    assert!(is_killed && maybe > 0 && done > 20, "{is_killed} {maybe} {done}");
    for (epoch, history) in histories {
        assert!(is_linearizable(&history), "seed {seed}, register {epoch}: {history:#?}");
    }
}
