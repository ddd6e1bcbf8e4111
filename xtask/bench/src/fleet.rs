//! `bench fleet`: the cost of a shared store for stateless calls, for calls in a session, and for events.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::{
    case::{Call, Revision, step_call},
    cpu,
    error::{Error, within},
    gateway::report::{Aim, foot, head, median, row},
    http::{self, Connection, Lengths},
    load::{GRACE, WARM_UP, since},
    peer::{Peer, Start},
};
use mcp_test::redis_server::RedisServer;

const CONNECTIONS: usize = 32;
/// The calls of one round that measures events.
const EVENTS: usize = 300;
/// A part of the measured event.
const EVENT: &str = "notifications/progress";

/// The extent of a measurement.
#[derive(Clone, Copy)]
struct Extent {
    rounds: usize,
    round: Duration,
}

/// A server with a shared store, or without one.
struct Node {
    peer: Peer,
    address: SocketAddr,
    session: String,
    /// The calls and the CPU time of all rounds.
    total: (u64, Duration),
}

/// Measures the figures, and prints each beside its aim.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let extent = match args {
        [] => Extent { rounds: 21, round: Duration::from_millis(500) },
        [flag] if flag == "--quick" => Extent { rounds: 3, round: Duration::from_millis(200) },
        _ => return Err(Error::new("usage: bench fleet [--quick]")),
    };
    let core = match cpu::pair() {
        Some((server, load)) => {
            cpu::pin(load)?;
            println!("servers on core {server}, the load and Redis on core {load}");
            Some(server)
        }
        None => {
            println!("NOT PINNED: fewer than two cores, or the system cannot choose. The figures vary more.");
            None
        }
    };
    println!("{} rounds of {:?}, in turns; the medians of the values of each round\n", extent.rounds, extent.round);
    let redis = RedisServer::start(&["--appendonly yes", "--appendfsync everysec", "--maxmemory-policy noeviction"])?;
    head("fleet");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for (name, revision, least) in [
            ("stateless echo, Redis configured", Revision::Stateless, 0.97),
            ("quiet call in a session of Redis", Revision::Session, 0.95),
        ] {
            let mut with = Node::start(core, Some(redis.url())).await?;
            let mut without = Node::start(core, None).await?;
            calls(name, revision, least, extent, &mut with, &mut without).await?;
        }
        let with = Node::start(core, Some(redis.url())).await?;
        events(extent, &with, &Node::start(core, None).await?).await
    })?;
    foot()
}

/// Compares the calls in a second of two servers.
async fn calls(
    name: &str,
    revision: Revision,
    least: f64,
    extent: Extent,
    with: &mut Node,
    without: &mut Node,
) -> Result<(), Error> {
    let mut ratios = Vec::new();
    for number in 0..=extent.rounds {
        // The order alternates, so that a change of the machine within a round has no direction.
        let (first, second) = if number % 2 == 0 { (&mut *with, &mut *without) } else { (&mut *without, &mut *with) };
        let round = if number == 0 { WARM_UP } else { extent.round };
        let rates = (first.round(revision, round).await?, second.round(revision, round).await?);
        let (rate_with, rate_without) = if number % 2 == 0 { rates } else { (rates.1, rates.0) };
        if number > 0 {
            ratios.push(rate_with / rate_without);
        }
    }
    let details = format!("CPU time of a call {:.1} us with Redis, {:.1} us without", with.cost(), without.cost());
    row(name, &ratios, "", Aim::AtLeast(least), &details);
    Ok(())
}

/// Compares the times until the first event of a call.
async fn events(extent: Extent, with: &Node, without: &Node) -> Result<(), Error> {
    let (mut added, mut plain) = (Vec::new(), Vec::new());
    for number in 0..=extent.rounds {
        let (shared, alone) = (with.first_event().await?, without.first_event().await?);
        if number > 0 {
            added.push((shared - alone) * 1e3);
            plain.push(alone * 1e3);
        }
    }
    let details = format!("p50 of the first event {:.2} ms without Redis", median(&plain));
    row("added p50 of an event of a stream", &added, " ms", Aim::AtMost(0.4), &details);
    Ok(())
}

impl Node {
    async fn start(cpu: Option<usize>, redis: Option<String>) -> Result<Self, Error> {
        let mut peer = Peer::start(&Start { kind: "ours-http", cpu, redis, ..Start::default() })?;
        let address = peer.address().await?;
        let opening = http::open_session(address, Revision::Session, None);
        let session = within(GRACE, "a new session", opening).await?;
        let session = session.ok_or_else(|| Error::new("the server opened no session"))?;
        Ok(Self { peer, address, session, total: (0, Duration::ZERO) })
    }

    /// One round of calls. Returns the calls in a second.
    async fn round(&mut self, revision: Revision, length: Duration) -> Result<f64, Error> {
        let session = (revision == Revision::Session).then_some(&*self.session);
        let target = http::Target { address: self.address, call: Call::Echo, revision, session, credential: None };
        let (answer, id) = within(GRACE, "a checked call", target.once()).await?;
        Call::Echo.verify(&answer, id)?;
        let open = within(GRACE, "the connections", target.connect(CONNECTIONS)).await?;
        let (used, start) = (self.peer.used(), Instant::now());
        let driving = target.drive(open, start + length, Lengths::exactly(answer.len()));
        let driven = within(length + GRACE, "answers", driving).await?;
        let elapsed = driven.end - start;
        self.total.0 += driven.calls();
        self.total.1 += since(used, self.peer.used()).unwrap_or_default();
        Ok(driven.calls() as f64 / elapsed.as_secs_f64())
    }

    /// The CPU time of a call in microseconds.
    fn cost(&self) -> f64 {
        self.total.1.as_secs_f64() * 1e6 / (self.total.0.max(1) as f64)
    }

    /// The median time until the first event of a call, in seconds.
    async fn first_event(&self) -> Result<f64, Error> {
        let request = step_call(&self.address.to_string(), &self.session);
        let mut connection = within(GRACE, "a connection", Connection::open(self.address)).await?;
        let mut times = Vec::with_capacity(EVENTS);
        for _ in 0..EVENTS {
            let time = within(GRACE, "the first event", connection.event(&request, EVENT)).await?;
            times.push(time.as_secs_f64());
        }
        Ok(median(&times))
    }
}
