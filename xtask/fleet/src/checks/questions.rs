//! Elicitations whose answers arrive at another node than the one that asked.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Error, bail, ensure};
use tokio::task::JoinSet;

use super::{Run, percentile};
use crate::{
    fleet::{Fleet, RECOMMENDED},
    wire::{Outcome, Session},
};

const QUESTIONS: usize = 1_000;
const CLIENTS: usize = 4;
/// The added time that the promise allows.
const ADDED: Duration = Duration::from_millis(5);
/// The most rounds. Other load of the machine adds time, so the check passes with the first round that has the promised time.
const ROUNDS: usize = 3;

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    // The time of the disk is not a part of the promise.
    let fleet = Fleet::start_with(&run.settings, RECOMMENDED).await?;
    let count = run.of(QUESTIONS);
    let urls: Arc<[String]> = fleet.nodes.iter().map(|node| node.url()).collect();
    let mut lines = Vec::new();
    for round in 1..=ROUNDS {
        let mut times = ask_all(&urls, round, count).await?;
        ensure!(times.other.len() == count, "{} of {count} answered", times.other.len());
        let mut values = |share| [&mut times.same, &mut times.other].map(|times| percentile(times, share));
        let ([median_same, median], [same, other]) = (values(50), values(99));
        let added = other.saturating_sub(same);
        lines.push(format!(
            "{count} of {count} answered at another node, p50 {median:.1?} and p99 {other:.1?}, at the node that asked \
             {median_same:.1?} and {same:.1?}, p99 {added:.1?} added"
        ));
        if added <= ADDED || run.size < 100 {
            return Ok(lines.join("; "));
        }
    }
    bail!("at most {ADDED:?} is allowed: {}", lines.join("; "))
}

/// Makes the calls of a round by several clients at the same time.
async fn ask_all(urls: &Arc<[String]>, round: usize, count: usize) -> Result<Times, Error> {
    let (mut clients, mut times) = (JoinSet::new(), Times::default());
    for client in 0..CLIENTS {
        clients.spawn(ask(urls.clone(), round, (client..count).step_by(CLIENTS)));
    }
    while let Some(ended) = clients.join_next().await {
        let Times { same, other } = ended??;
        times.same.extend(same);
        times.other.extend(other);
    }
    Ok(times)
}

/// The times of calls whose answers arrive at the node that asked, and at another node.
#[derive(Default)]
struct Times {
    same: Vec<Duration>,
    other: Vec<Duration>,
}

/// Makes two calls that ask for each number, at all nodes in turn. Other load has the same effect on both calls.
async fn ask(urls: Arc<[String]>, round: usize, numbers: impl Iterator<Item = usize>) -> Result<Times, Error> {
    let session = Session::open(&urls[0]).await?;
    // Each node knows the session before the measurement.
    for url in &*urls {
        ensure!(session.add_at(url, 1).await? == Outcome::Result, "a session does not work");
    }
    let mut times = Times::default();
    for number in numbers {
        let (asked_at, next) = (&urls[number % urls.len()], &urls[(number + 1) % urls.len()]);
        let (session, id) = (session.at(asked_at), 10 + 2 * number as u64);
        let same = session.order(id, &format!("same-{round}-{number}"), asked_at).await;
        times.same.push(same.with_context(|| format!("call {number}, answered at the node that asked"))?);
        let other = session.order(id + 1, &format!("other-{round}-{number}"), next).await;
        times.other.push(other.with_context(|| format!("call {number}, answered at another node"))?);
    }
    session.delete().await?;
    Ok(times)
}
