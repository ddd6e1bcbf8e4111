//! The load: actors that call, cut, kill and vanish until the end of the run.

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Error};
use check_kit::{node::Node, random::Random};
use mcp_client::protocol::ProtocolVersion;
use mcp_test::redis_server::{Fault, FaultyProxy};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::tally::{Check, Tally};

pub(crate) mod calls;
mod changes;
mod gateway;
mod http;
mod memory;
mod stdio;
mod vanish;

/// One revision of each era.
pub(crate) const ERAS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];
/// The time limit of each call: more than the limits that the clients have.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(40);
/// The limits of the clients: without progress, and in total.
const CLIENT_LIMITS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(30)];

/// A part of the load: its name, and the function that adds its actors.
type Part = (&'static str, fn(&mut Actors));

/// The parts of the load, in the order of their random numbers.
const PARTS: [Part; 6] = [
    ("http", http::start),
    ("changes", changes::start),
    ("vanish", vanish::start),
    ("stdio", stdio::start),
    ("memory", memory::start),
    ("gateway", gateway::start),
];

/// Returns the part with a name.
pub(crate) fn part(name: &str) -> Result<&'static str, Error> {
    let names = || PARTS.iter().map(|(name, _)| *name);
    let unknown = || format!("`{name}` is not a part of the load: {}", names().collect::<Vec<_>>().join(", "));
    names().find(|known| *known == name).with_context(unknown)
}

/// The parts that all actors share.
#[derive(Clone)]
pub(crate) struct Soak {
    pub(crate) tally: Arc<Tally>,
    pub(crate) deadline: Instant,
    /// The server over HTTP.
    pub(crate) node: SocketAddr,
    pub(crate) gateway: SocketAddr,
    /// This program, which is also the server over stdio.
    pub(crate) program: PathBuf,
}

impl Soak {
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Sleeps for a random time, and at most until the end of the run.
    pub(crate) async fn pause(&self, random: &mut Random, milliseconds: (u64, u64)) {
        let time = Duration::from_millis(random.between(milliseconds.0, milliseconds.1));
        sleep(time.min(self.deadline.saturating_duration_since(Instant::now()))).await;
    }

    pub(crate) fn node_url(&self) -> String {
        url(self.node)
    }

    pub(crate) fn gateway_url(&self) -> String {
        url(self.gateway)
    }

    /// Waits for a future, at most for [`CALL_LIMIT`]. A future without an end is a fault.
    pub(crate) async fn ends<T>(&self, name: impl fmt::Display, call: impl Future<Output = T>) -> Option<T> {
        self.tally.open.fetch_add(1, Relaxed);
        let ended = timeout(CALL_LIMIT, call).await;
        self.tally.open.fetch_sub(1, Relaxed);
        match ended {
            Ok(outcome) => {
                self.tally.add(Check::Ends, 1);
                Some(outcome)
            }
            Err(_) => {
                self.tally.fault(Check::Ends, format!("{name} has not ended after {CALL_LIMIT:?}"));
                None
            }
        }
    }
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/mcp")
}

/// The actors of a run.
pub(crate) struct Actors {
    soak: Soak,
    random: Random,
    /// The server behind the gateway, until its actor starts.
    upstream: Option<Node>,
    tasks: JoinSet<Result<(), Error>>,
}

impl Actors {
    /// Starts the actors of the parts of this name, and of all parts without names. `upstream` is the server behind the gateway
    /// that they kill.
    pub(crate) fn start(soak: Soak, seed: u64, chosen: &[&str], upstream: Node) -> Self {
        let mut random = Random::new(seed);
        let mut actors = Self { soak, random: Random::new(0), upstream: Some(upstream), tasks: JoinSet::new() };
        for (name, start) in PARTS {
            // A part has the same random numbers with and without the others.
            actors.random = random.fork();
            if chosen.is_empty() || chosen.contains(&name) {
                start(&mut actors);
            }
        }
        actors
    }

    /// Starts an actor with random numbers of its own.
    fn add<F>(&mut self, actor: impl FnOnce(Soak, Random) -> F)
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.tasks.spawn(actor(self.soak.clone(), self.random.fork()));
    }

    /// Waits for the ends of all actors. An error or a panic of an actor is a fault, and so is an actor without an end.
    pub(crate) async fn end(mut self) {
        let limit = CALL_LIMIT * 2;
        let tally = &self.soak.tally;
        loop {
            match timeout(limit, self.tasks.join_next()).await {
                Ok(Some(Ok(Ok(())))) => {}
                Ok(Some(Ok(Err(error)))) => tally.fault(Check::Ends, format!("an actor has failed: {error:#}")),
                Ok(Some(Err(error))) => tally.fault(Check::Ends, format!("an actor has panicked: {error}")),
                Ok(None) => return,
                Err(_) => {
                    tally.fault(Check::Ends, format!("{} actors have no end", self.tasks.len()));
                    return;
                }
            }
        }
    }
}

/// The faults that a proxy causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cuts {
    /// Cuts, delays and short silences.
    Loud,
    /// These, and connections that the server loses and the client keeps.
    Silent,
}

/// Starts a proxy in front of a server, and an actor that disturbs it.
async fn disturbed(
    soak: &Soak,
    target: SocketAddr,
    cuts: Cuts,
    random: Random,
) -> Result<(Arc<FaultyProxy>, SocketAddr), Error> {
    let proxy = Arc::new(FaultyProxy::start(target).await?);
    let address = proxy.address();
    tokio::spawn(disturb(soak.clone(), Arc::downgrade(&proxy), cuts, random));
    Ok((proxy, address))
}

/// Disturbs a proxy at random times, until its drop or the end of the run.
async fn disturb(soak: Soak, proxy: std::sync::Weak<FaultyProxy>, cuts: Cuts, mut random: Random) {
    while !soak.is_over() {
        soak.pause(&mut random, (200, 2_500)).await;
        let (kind, silence) = (random.below(20), random.between(50, 600));
        let Some(proxy) = proxy.upgrade() else { return };
        match kind {
            0..3 => proxy.delay(Duration::from_millis(random.between(0, 30))),
            3..6 => {
                proxy.fault(Fault::BlackHole);
                sleep(Duration::from_millis(silence)).await;
                proxy.fault(Fault::None);
            }
            6 => {
                proxy.fault(Fault::Refuse);
                sleep(Duration::from_millis(silence)).await;
                proxy.fault(Fault::None);
            }
            7 if cuts == Cuts::Silent => proxy.half_open(),
            _ => proxy.cut(),
        }
        soak.tally.caused.cuts.fetch_add(1, Relaxed);
    }
    // The calls at the end of the run need a working connection.
    if let Some(proxy) = proxy.upgrade() {
        proxy.fault(Fault::None);
        proxy.delay(Duration::ZERO);
    }
}
