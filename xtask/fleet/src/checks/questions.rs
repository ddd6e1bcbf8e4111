//! Elicitations whose answers arrive at another node than the one that asked.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Error, ensure};
use check_kit::wire::{Outcome, Session};
use tokio::task::JoinSet;

use super::{Run, percentile};
use crate::fleet::{DURABLE, Fleet, RECOMMENDED};

const QUESTIONS: usize = 1_000;
const CLIENTS: usize = 4;
/// The added time that the promise allows.
const ADDED: Duration = Duration::from_millis(5);

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let recommended = ask_all(run, RECOMMENDED).await.context("appendfsync everysec")?;
    // Each event waits for the disk with these settings, so its time is printed and has no limit.
    let durable = ask_all(run, DURABLE).await.context("appendfsync always")?;
    let line = format!("{}; with appendfsync always: {}", recommended.line(), durable.line());
    let added = recommended.added();
    ensure!(added <= ADDED || run.size < 100, "{added:.1?} added, at most {ADDED:?} is allowed: {line}");
    Ok(line)
}

/// Makes all calls at a fleet of its own, by several clients at the same time.
async fn ask_all(run: &Run, redis: &[&str]) -> Result<Times, Error> {
    let fleet = Fleet::start_with(&run.settings, redis).await?;
    let count = run.of(QUESTIONS);
    let urls: Arc<[String]> = fleet.nodes.iter().map(|node| node.url()).collect();
    let (mut clients, mut times) = (JoinSet::new(), Times::default());
    for client in 0..CLIENTS {
        clients.spawn(ask(urls.clone(), (client..count).step_by(CLIENTS)));
    }
    while let Some(ended) = clients.join_next().await {
        let Times { same, other } = ended??;
        times.same.extend(same);
        times.other.extend(other);
    }
    ensure!(times.other.len() == count, "{} of {count} answered", times.other.len());
    times.same.sort_unstable();
    times.other.sort_unstable();
    Ok(times)
}

/// The times of calls whose answers arrive at the node that asked, and at another node.
#[derive(Default)]
struct Times {
    same: Vec<Duration>,
    other: Vec<Duration>,
}

impl Times {
    /// The difference of both p99, each of all calls.
    fn added(&self) -> Duration {
        percentile(&self.other, 99).saturating_sub(percentile(&self.same, 99))
    }

    fn line(&self) -> String {
        let [same, other] = [&self.same, &self.other].map(|times| (percentile(times, 50), percentile(times, 99)));
        format!(
            "{count} of {count} answered at another node, p50 {:.1?} and p99 {:.1?}, at the node that asked {:.1?} and \
             {:.1?}, p99 {:.1?} added",
            other.0,
            other.1,
            same.0,
            same.1,
            self.added(),
            count = self.other.len(),
        )
    }
}

/// Makes two calls that ask for each number, at all nodes in turn. Other load has the same effect on both calls.
async fn ask(urls: Arc<[String]>, numbers: impl Iterator<Item = usize>) -> Result<Times, Error> {
    let session = Session::open(&urls[0]).await?;
    // Each node knows the session before the measurement.
    for url in &*urls {
        ensure!(session.add_at(url, 1).await? == Outcome::Result, "a session does not work");
    }
    let mut times = Times::default();
    for number in numbers {
        let (asked_at, next) = (&urls[number % urls.len()], &urls[(number + 1) % urls.len()]);
        let (session, id) = (session.at(asked_at), 10 + 2 * number as u64);
        let same = session.order(id, &format!("same-{number}"), asked_at).await;
        times.same.push(same.with_context(|| format!("call {number}, answered at the node that asked"))?);
        let other = session.order(id + 1, &format!("other-{number}"), next).await;
        times.other.push(other.with_context(|| format!("call {number}, answered at another node"))?);
    }
    session.delete().await?;
    Ok(times)
}
