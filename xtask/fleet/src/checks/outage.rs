//! Redis is killed and started again: acknowledged writes, stateless calls, and the recovery of the nodes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Error, ensure};
use check_kit::wire::{self, Outcome, Session};
use mcp_client::http::reqwest::Client;
use mcp_store::Store;
use mcp_store_redis::{RedisOptions, RedisStore};
use serde_json::json;
use tokio::{
    task::{JoinSet, block_in_place},
    time::{sleep, timeout},
};

use super::{Run, percentile, until};
use crate::{
    fleet::Fleet,
    stateless::{Answer, ToolCall},
};

const WRITERS: usize = 8;
const CALLERS: usize = 8;
/// The time of writes before the kill and after the start, at full size.
const WRITES: Duration = Duration::from_secs(5);
/// The time without Redis, at full size.
const AWAY: Duration = Duration::from_secs(5);
/// The time in which each node serves sessions again.
const RECOVERY: Duration = Duration::from_secs(5);
/// The time in which each node shows the missing store, and rejects a request that needs it.
const ANSWER: Duration = Duration::from_secs(6);
/// The factor of the p99 of stateless calls without Redis that the promise allows.
const SLOWER: u32 = 2;

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let mut fleet = Fleet::start(&run.settings).await?;
    let store: Arc<dyn Store> = Arc::new(RedisStore::connect(RedisOptions::from_url(&fleet.redis.url())?).await?);
    let session = Session::open(&fleet.url()).await?;
    let (done, away) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write(store.clone(), writer, done.clone()));
    }
    let mut callers = JoinSet::new();
    let client = Client::builder().no_proxy().tcp_nodelay(true).build()?;
    for _ in 0..CALLERS {
        let call = ToolCall::new(&client, "add", json!({ "a": 2, "b": 3 }));
        callers.spawn(call_all(call, fleet.url(), done.clone(), away.clone()));
    }
    sleep(WRITES * run.size / 100).await;
    fleet.redis.kill()?;
    away.store(true, Ordering::Relaxed);
    let start = Instant::now();
    let limit = run.limit(ANSWER);
    for node in &fleet.nodes {
        let shown = until(limit, async || wire::has_store(node.address).await.is_ok_and(|has_store| !has_store)).await;
        shown.context("the readiness of a node does not show the missing store")?;
        let opened = timeout(limit, wire::open_at(&node.url())).await.context("a new session has no answer")??;
        ensure!(opened == Outcome::Unavailable, "a new session without Redis: {opened:?}");
    }
    sleep((AWAY * run.size / 100).saturating_sub(start.elapsed())).await;
    away.store(false, Ordering::Relaxed);
    block_in_place(|| fleet.redis.restart())?;
    let start = Instant::now();
    let mut id = 0;
    for node in &fleet.nodes {
        let session = session.at(&node.url());
        let left = run.limit(RECOVERY).saturating_sub(start.elapsed());
        let recovered = until(left, async || {
            id += 1;
            // The event of the stream is in Redis before the client receives it.
            let stream = session.count(id, 1, Duration::ZERO).await;
            stream.is_ok_and(|stream| stream.numbers == [1] && matches!(stream.response, Some(Ok(_))))
        });
        let late = || format!("no call in a session succeeds at a node within {RECOVERY:?} after the start of Redis");
        recovered.await.with_context(late)?;
    }
    let recovered = start.elapsed();
    sleep(WRITES * run.size / 100).await;
    done.store(true, Ordering::Relaxed);
    let mut acknowledged = 0;
    while let Some(ended) = writers.join_next().await {
        let (log, written) = ended??;
        ensure!(!written.is_empty(), "no write to {log} was acknowledged");
        let stored = read(&*store, &log).await?;
        let lost: Vec<&u64> = written.iter().filter(|number| stored.binary_search(number).is_err()).collect();
        ensure!(lost.is_empty(), "{} acknowledged records of {log} are lost, the first is {}", lost.len(), lost[0]);
        acknowledged += written.len();
    }
    let (mut quiet, mut out) = (Vec::new(), Vec::new());
    while let Some(ended) = callers.join_next().await {
        let (with, without) = ended??;
        quiet.extend(with);
        out.extend(without);
    }
    ensure!(!out.is_empty() && !quiet.is_empty(), "no call was made with Redis, or without Redis");
    let calls = out.len();
    quiet.sort_unstable();
    out.sort_unstable();
    let (quiet, out) = (percentile(&quiet, 99), percentile(&out, 99));
    let is_slow = out > quiet * SLOWER && run.size >= 100;
    ensure!(!is_slow, "the p99 of stateless calls is {out:.1?} without Redis, and {quiet:.1?} with Redis");
    Ok(format!(
        "{acknowledged} acknowledged writes, 0 lost; {calls} stateless calls without Redis, 0 failed, p99 {out:.1?} \
         (with Redis {quiet:.1?}); sessions after {:.1} s",
        recovered.as_secs_f64()
    ))
}

/// Appends numbers to a log of its own. Returns the name of the log and the acknowledged numbers.
async fn write(store: Arc<dyn Store>, writer: usize, done: Arc<AtomicBool>) -> Result<(String, Vec<u64>), Error> {
    let (log, mut written, mut number) = (format!("check/writer-{writer}"), Vec::new(), 0_u64);
    while !done.load(Ordering::Relaxed) {
        number += 1;
        match store.append(&log, Arc::from(number.to_be_bytes()), None).await {
            Ok(_) => written.push(number),
            Err(error) if error.is_unavailable() => sleep(Duration::from_millis(20)).await,
            Err(error) => return Err(error.into()),
        }
    }
    Ok((log, written))
}

/// All numbers of a log, in ascending order.
async fn read(store: &dyn Store, log: &str) -> Result<Vec<u64>, Error> {
    let (mut numbers, mut after) = (Vec::new(), 0);
    loop {
        let page = store.read_after(log, after, 1_000).await?;
        for record in &page.records {
            after = record.sequence;
            numbers.push(u64::from_be_bytes(record.data.as_ref().try_into()?));
        }
        if !page.more {
            numbers.sort_unstable();
            return Ok(numbers);
        }
    }
}

/// Calls a tool until the end, each time with one request. Returns the times of the calls with Redis and without Redis.
async fn call_all(
    call: ToolCall,
    url: String,
    done: Arc<AtomicBool>,
    away: Arc<AtomicBool>,
) -> Result<(Vec<Duration>, Vec<Duration>), Error> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    while !done.load(Ordering::Relaxed) {
        let (start, is_away) = (Instant::now(), away.load(Ordering::Relaxed));
        let answer = call.send(&url, None, ANSWER).await.context("a stateless call")?;
        // The status 503 is a failure too, because a stateless call needs no store.
        let is_sum = matches!(&answer, Answer::Result(result) if result["content"][0]["text"] == "5");
        ensure!(is_sum, "a stateless call failed: {answer:?}");
        if is_away { &mut without } else { &mut with }.push(start.elapsed());
        sleep(Duration::from_millis(2)).await;
    }
    Ok((with, without))
}
