//! Redis is killed and started again: acknowledged writes, stateless calls, and the recovery of the nodes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Error, ensure};
use mcp_client::{Client, protocol::ProtocolVersion};
use mcp_store::Store;
use mcp_store_redis::{RedisOptions, RedisStore};
use serde_json::json;
use tokio::{
    task::{JoinSet, block_in_place},
    time::sleep,
};

use super::{Run, percentile, until};
use crate::{fleet::Fleet, wire::Session};

const WRITERS: usize = 8;
const CALLERS: usize = 8;
/// The time of writes before the kill and after the start, at full size.
const WRITES: Duration = Duration::from_secs(5);
/// The time without Redis, at full size.
const AWAY: Duration = Duration::from_secs(5);
/// The time in which the nodes serve sessions again.
const RECOVERY: Duration = Duration::from_secs(5);

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
    for _ in 0..CALLERS {
        let client = Client::builder("fleet-check", "0").versions([ProtocolVersion::V2026_07_28]);
        callers.spawn(call(client.connect(fleet.url().as_str()).await?, done.clone(), away.clone()));
    }
    sleep(WRITES * run.size / 100).await;
    fleet.redis.kill()?;
    away.store(true, Ordering::Relaxed);
    sleep(AWAY * run.size / 100).await;
    away.store(false, Ordering::Relaxed);
    block_in_place(|| fleet.redis.restart())?;
    let recovered = until(run.limit(RECOVERY), async || {
        let stream = session.count(1, 1, Duration::ZERO).await;
        stream.is_ok_and(|stream| matches!(stream.response, Some(Ok(_))))
    })
    .await
    .with_context(|| format!("no call in a session succeeds within {RECOVERY:?} after the start of Redis"))?;
    sleep(WRITES * run.size / 100).await;
    done.store(true, Ordering::Relaxed);
    let mut acknowledged = 0;
    while let Some(ended) = writers.join_next().await {
        let (log, written) = ended??;
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
    ensure!(!out.is_empty(), "no call was made while Redis was away");
    let calls = out.len();
    let (quiet, out) = (percentile(&mut quiet, 99), percentile(&mut out, 99));
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

/// Calls a tool until the end. Returns the times of the calls with Redis and without Redis.
async fn call(
    client: Client,
    done: Arc<AtomicBool>,
    away: Arc<AtomicBool>,
) -> Result<(Vec<Duration>, Vec<Duration>), Error> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    // The client repeats the calls of tools that it knows as read-only.
    client.list_tools().await?;
    while !done.load(Ordering::Relaxed) {
        let (start, is_away) = (Instant::now(), away.load(Ordering::Relaxed));
        let result = client.call_tool("add", json!({ "a": 2, "b": 3 })).await.context("a stateless call failed")?;
        ensure!(result.text() == "5", "a wrong answer: {}", result.text());
        if is_away { &mut without } else { &mut with }.push(start.elapsed());
        sleep(Duration::from_millis(2)).await;
    }
    Ok((with, without))
}
