//! Events of streams that clients resume at other nodes, while random nodes are killed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Error, ensure};
use check_kit::wire::{End, Session};
use tokio::{task::JoinSet, time::timeout};

use super::Run;
use crate::fleet::{Fleet, Kills};

const STREAMS: usize = 50;
const EVENTS: usize = 10_000;
/// The events of one call.
const EVENTS_OF_A_CALL: u32 = 12;
/// With the calls that end early, a run of the full size takes two minutes or more.
const PAUSE: Duration = Duration::from_millis(300);
const BETWEEN_KILLS: Duration = Duration::from_secs(5);
/// The calls that a kill ends on average, at most. About a third of the calls run at each of three nodes.
const ENDED_BY_A_KILL: usize = STREAMS * 2 / 5;
/// The time limit of a stream.
const LIMIT: Duration = Duration::from_secs(420);

/// The counts of all streams.
#[derive(Default)]
struct Counts {
    events: AtomicUsize,
    completed: AtomicUsize,
    /// The calls that ended with a typed error, because their node was killed.
    failed: AtomicUsize,
    /// The calls whose connection was lost before the first event.
    lost: AtomicUsize,
    resumed: AtomicUsize,
}

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let mut fleet = Fleet::start(&run.settings).await?;
    let (url, goal) = (fleet.url(), run.of(EVENTS));
    let kills = Kills::begin(std::mem::take(&mut fleet.nodes), run.random.fork(), BETWEEN_KILLS);
    let counts = Arc::new(Counts::default());
    let start = Instant::now();
    let mut streams = JoinSet::new();
    for _ in 0..STREAMS {
        let (url, counts) = (url.clone(), counts.clone());
        streams.spawn(async move { timeout(LIMIT, client(&url, goal, &counts)).await.context("a stream has no end")? });
    }
    while let Some(ended) = streams.join_next().await {
        ended??;
    }
    let (nodes, kills) = kills.end().await?;
    fleet.nodes = nodes;
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    ensure!(kills > 0, "no node was killed");
    ensure!(count(&counts.resumed) >= kills, "{kills} kills, but only {} resumptions", count(&counts.resumed));
    let (completed, ended) = (count(&counts.completed), count(&counts.failed) + count(&counts.lost));
    ensure!(ended <= (kills + 1) * ENDED_BY_A_KILL, "{kills} kills ended {ended} calls");
    ensure!(completed > 0, "no call was completed");
    Ok(format!(
        "{} events in {:.0} s, {kills} kills, {} resumptions, calls: {} completed, {} failed with a typed error, {} lost \
         before their first event",
        count(&counts.events),
        start.elapsed().as_secs_f64(),
        count(&counts.resumed),
        count(&counts.completed),
        count(&counts.failed),
        count(&counts.lost),
    ))
}

/// Calls `count` in one session until all clients together have received `goal` events.
async fn client(url: &str, goal: usize, counts: &Counts) -> Result<(), Error> {
    let session = Session::open(url).await?;
    let mut id = 0;
    while counts.events.load(Ordering::Relaxed) < goal {
        id += 1;
        let stream = session.count(id, EVENTS_OF_A_CALL, PAUSE).await.with_context(|| format!("call {id}"))?;
        counts.events.fetch_add(stream.numbers.len(), Ordering::Relaxed);
        counts.resumed.fetch_add(stream.resumed, Ordering::Relaxed);
        let counter = match stream.end(EVENTS_OF_A_CALL)? {
            End::Completed => &counts.completed,
            End::Failed => &counts.failed,
            End::Lost => &counts.lost,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
    session.delete().await
}
