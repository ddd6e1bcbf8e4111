//! Side effects that run once per flow, while nodes are killed and rounds are sent several times.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Error, ensure};
use check_kit::random::Random;
use tokio::task::JoinSet;

use super::{Run, until};
use crate::{
    fleet::{Fleet, Kills},
    orders::{End, Flow, Orders, Repeat, Target, placed_once},
};

const FLOWS: usize = 2_000;
const AT_ONCE: usize = 8;
/// The time between two kills at full size, and the shortest time.
const BETWEEN_KILLS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(500));
/// The fewest kills, and the fewest flows whose last round was sent again because its answer was lost.
const FEWEST: (usize, usize) = (2, 1);
/// The time of the effect. Kills fall into it too.
const EFFECT: Duration = Duration::from_millis(15);
/// The effects that run at the node that is killed first, and the fewest.
const ABANDONED: (usize, usize) = (40, 4);
/// The time of these effects. Only the kill ends them.
const ENDLESS: Duration = Duration::from_secs(3_600);
/// The time in which a guard of a killed node fails, and in which each target answers.
const NOTICED: Duration = Duration::from_secs(15);
const LIMIT: Duration = Duration::from_secs(60);

/// The ends of all flows.
#[derive(Default)]
struct Totals {
    flows: usize,
    succeeded: Vec<String>,
    repeated: usize,
    lost: usize,
    longest: Duration,
}

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let mut fleet = Fleet::start(&run.settings).await?;
    let limit = run.limit(NOTICED);
    let nodes: Vec<String> = fleet.nodes.iter().map(|node| node.url()).collect();
    let abandoned = abandoned(run, &mut fleet, &nodes).await.context("the effects of a killed node")?;

    // A repetition of a round arrives at another node, because the targets take turns.
    let targets = std::iter::once(fleet.url()).chain(nodes).map(|url| Target { url, limit }).collect();
    let orders = Orders::new(targets)?;
    let pause = (BETWEEN_KILLS.0 * run.size / 100).max(BETWEEN_KILLS.1);
    let kills = Kills::begin(std::mem::take(&mut fleet.nodes), run.random.fork(), pause);
    let start = Instant::now();
    let progress = Arc::new(Progress { kills: kills.count(), ..Progress::new(run.of(FLOWS)) });
    let mut workers = JoinSet::new();
    for _ in 0..AT_ONCE {
        workers.spawn(place_all(orders.clone(), progress.clone(), run.random.fork()));
    }
    let mut totals = Totals::default();
    while let Some(ended) = workers.join_next().await {
        let worker = ended??;
        totals.flows += worker.flows;
        totals.succeeded.extend(worker.succeeded);
        totals.repeated += worker.repeated;
        totals.lost += worker.lost;
        totals.longest = totals.longest.max(worker.longest);
    }
    let (nodes, kills) = kills.end().await?;
    fleet.nodes = nodes;
    let time = start.elapsed();
    let Totals { flows, succeeded, repeated, lost, longest } = totals;
    let (placed, all) = (succeeded.len(), flows + abandoned.0);
    let stored = placed_once(&orders.read().await?, &succeeded)?;
    ensure!(stored <= all, "{all} flows placed {stored} orders");
    ensure!(kills >= FEWEST.0 && lost >= FEWEST.1, "{kills} kills and {lost} lost answers are too few");
    ensure!(repeated * 4 >= flows, "only {repeated} of {flows} flows had a repeated round");
    // A kill fails at most the flows that run.
    ensure!(flows - placed <= kills * AT_ONCE, "{kills} kills, but only {placed} of {flows} flows succeeded");
    Ok(format!(
        "{} effects of a killed node failed after {:.1} s; {flows} flows in {:.0} s with {kills} kills: {repeated} with a \
         repeated last round ({lost} after a lost answer), {placed} succeeded, {stored} orders, 0 twice, the longest flow \
         {:.1} s",
        abandoned.0,
        abandoned.1.as_secs_f64(),
        time.as_secs_f64(),
        longest.as_secs_f64(),
    ))
}

/// The state that all workers share.
struct Progress {
    flows: usize,
    next: AtomicUsize,
    lost: AtomicUsize,
    kills: Arc<AtomicUsize>,
}

impl Progress {
    fn new(flows: usize) -> Self {
        Self { flows, next: AtomicUsize::new(0), lost: AtomicUsize::new(0), kills: Arc::default() }
    }

    /// The number of the next flow. A short run continues until it has the fewest kills and lost answers.
    fn next(&self) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let is_enough = self.kills.load(Ordering::Relaxed) >= FEWEST.0 && self.lost.load(Ordering::Relaxed) >= FEWEST.1;
        (number < self.flows || !is_enough).then_some(number)
    }
}

/// Places one order after another.
async fn place_all(orders: Orders, progress: Arc<Progress>, mut random: Random) -> Result<Totals, Error> {
    let mut totals = Totals::default();
    while let Some(number) = progress.next() {
        let item = format!("flow-{number}");
        let (repeat, start) = (Repeat::choose(&mut random), Instant::now());
        let flow = orders.place(&item, EFFECT, random.below(1_000), repeat).await.with_context(|| item.clone())?;
        totals.longest = totals.longest.max(start.elapsed());
        totals.flows += 1;
        totals.repeated += usize::from(flow.repeated > 0);
        totals.lost += usize::from(flow.lost > 0);
        progress.lost.fetch_add(usize::from(flow.lost > 0), Ordering::Relaxed);
        let is_placed = flow.is_placed()?;
        // Redis runs, so all nodes return the same end.
        let is_mixed = is_placed && flow.ends.iter().any(|end| matches!(end, End::Failed(_)));
        ensure!(!is_mixed, "{item} has failed and was placed: {:?}", flow.ends);
        if is_placed {
            totals.succeeded.push(item);
        }
    }
    Ok(totals)
}

/// Kills the first node while effects run there. Each repetition must fail in time, at the other nodes and at the restarted node.
/// Returns the number of effects, and the time of the last failure.
async fn abandoned(run: &Run, fleet: &mut Fleet, nodes: &[String]) -> Result<(usize, Duration), Error> {
    let count = run.of(ABANDONED.0).max(ABANDONED.1);
    let targets =
        |nodes: &[String], limit| Orders::new(nodes.iter().map(|url| Target { url: url.clone(), limit }).collect());
    // The effects run until the kill, so the first node does not answer before.
    let (at_node, others) = (targets(&nodes[..1], LIMIT)?, targets(&nodes[1..], run.limit(NOTICED) + LIMIT)?);
    let (mut begun, mut waiting, mut flows) = (JoinSet::new(), JoinSet::new(), Vec::new());
    for number in 0..count {
        let flow = at_node.ask(&format!("abandoned-{number}"), ENDLESS, 0).await?;
        let first = flow.clone();
        begun.spawn(async move { first.send_once(0).await });
        flows.push(flow.at(&others));
    }
    until(LIMIT, async || others.read().await.is_ok_and(|orders| orders["placed"] == count))
        .await
        .context("the effects do not begin")?;
    let (early, late) = flows.split_at(count / 2);
    for (number, flow) in early.iter().cloned().enumerate() {
        waiting.spawn(async move { flow.end_of(number).await });
    }
    fleet.nodes[0].kill().await?;
    let start = Instant::now();
    while let Some(ended) = begun.join_next().await {
        ensure!(ended??.is_none(), "a killed node has answered");
    }
    for (number, flow) in late.iter().cloned().enumerate() {
        waiting.spawn(async move { flow.end_of(number).await });
    }
    let mut last = Duration::ZERO;
    while let Some(ended) = waiting.join_next().await {
        failed(&ended??)?;
        last = start.elapsed();
    }
    let limit = run.limit(NOTICED);
    ensure!(last <= limit, "the effects of a killed node failed after {last:.1?}, at most {limit:?} is allowed");
    fleet.nodes[0].restart().await?;
    for flow in &flows {
        failed(&flow.at(&at_node).end_of(0).await?)?;
    }
    Ok((count, last))
}

fn failed(flow: &Flow) -> Result<(), Error> {
    let is_failed = !flow.ends.is_empty() && flow.ends.iter().all(|end| matches!(end, End::Failed(_)));
    ensure!(is_failed, "the effect of a killed node has another end: {:?}", flow.ends);
    Ok(())
}
