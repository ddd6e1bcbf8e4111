//! A rolling restart of all nodes under load.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Error, ensure};
use http::HeaderMap;
use mcp_client::{
    Client,
    http::{Authorizer, AuthorizerError, Refusal, Target, Verdict},
    protocol::ProtocolVersion,
};
use mcp_transport::BoxFuture;
use serde_json::json;
use tokio::{task::JoinSet, time::sleep};

use super::Run;
use crate::fleet::Fleet;

const CONNECTIONS: usize = 32;
/// The most requests `initialize` of a client with sessions: the first one, and one more.
const OPENED: usize = 2;
/// The pause between the restarts of two nodes, at full size.
const PAUSE: Duration = Duration::from_secs(15);
/// The calls that each client makes at least, at full size.
const CALLS: usize = 100;

/// Counts the requests `initialize` of one client, and authorizes nothing.
struct Openings(Arc<AtomicUsize>);

impl Authorizer for Openings {
    fn authorize<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        let is_opening = target.operation.as_ref().is_some_and(|operation| &*operation.method == "initialize");
        self.0.fetch_add(usize::from(is_opening), Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(HeaderMap::new())))
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(std::future::ready(Ok(Verdict::GiveUp)))
    }
}

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let mut fleet = Fleet::start(&run.settings).await?;
    let done = Arc::new(AtomicBool::new(false));
    let (mut clients, mut openings) = (JoinSet::new(), Vec::new());
    for number in 0..CONNECTIONS {
        let version = if number % 2 == 0 { ProtocolVersion::V2026_07_28 } else { ProtocolVersion::V2025_11_25 };
        let opened = Arc::<AtomicUsize>::default();
        let client = Client::builder("fleet-check", "0").versions([version]).auth(Openings(opened.clone()));
        let client = client.connect(fleet.url().as_str()).await?;
        // The client repeats the calls of tools that it knows as read-only.
        client.list_tools().await?;
        if version == ProtocolVersion::V2025_11_25 {
            ensure!(opened.load(Ordering::Relaxed) == 1, "the requests of a client are not counted");
            openings.push(opened);
        }
        let done = done.clone();
        clients.spawn(async move {
            let mut calls = 0_usize;
            while !done.load(Ordering::Relaxed) {
                let result = client.call_tool("add", json!({ "a": 2, "b": 3 })).await;
                let result = result.with_context(|| format!("a call in {version}"))?;
                ensure!(result.text() == "5", "a wrong answer: {}", result.text());
                calls += 1;
                sleep(Duration::from_millis(5)).await;
            }
            client.close().await;
            Ok::<_, Error>(calls)
        });
    }
    let start = Instant::now();
    let pause = PAUSE * run.size / 100;
    for number in 0..fleet.nodes.len() {
        sleep(pause).await;
        let node = &mut fleet.nodes[number];
        let status = node.stop().await?;
        ensure!(status.success(), "node {number} ended with {status}");
        node.restart().await?;
    }
    sleep(pause).await;
    done.store(true, Ordering::Relaxed);
    let (mut counts, mut faults) = (Vec::new(), Vec::new());
    while let Some(ended) = clients.join_next().await {
        match ended? {
            Ok(calls) => counts.push(calls),
            Err(error) => faults.push(error),
        }
    }
    if let Some(first) = faults.pop() {
        return Err(first.context(format!("{} of {CONNECTIONS} clients had a failed call", faults.len() + 1)));
    }
    let (calls, fewest) = (counts.iter().sum::<usize>(), counts.iter().min().copied().unwrap_or(0));
    let expected = run.of(CALLS);
    ensure!(fewest >= expected, "a client made {fewest} calls, at least {expected} are expected");
    let opened: Vec<usize> = openings.iter().map(|opened| opened.load(Ordering::Relaxed)).collect();
    ensure!(opened.iter().all(|count| *count <= OPENED), "a client opened more than one further session: {opened:?}");
    let again = opened.iter().filter(|count| **count > 1).count();
    Ok(format!(
        "{calls} calls of {CONNECTIONS} clients in {:.0} s, 0 failed, {again} of {} sessions opened again, none twice",
        start.elapsed().as_secs_f64(),
        opened.len(),
    ))
}
