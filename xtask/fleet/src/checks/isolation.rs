//! A node whose connections to Redis are slow, half-open, closed, or without any answer: the answers to its clients, and its state
//! after the connections work again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Error, ensure};
use check_kit::{
    random::Random,
    wire::{self, Outcome, Session},
};
use mcp_client::{
    Client,
    protocol::{ProtocolVersion, tasks::TaskStatus},
};
use mcp_store::KeyValue as _;
use mcp_store_redis::{RedisOptions, RedisStore};
use mcp_test::redis_server::{Fault, FaultyProxy, RedisServer};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    task::{JoinSet, block_in_place},
    time::sleep,
};

use super::{Run, tasks, until};
use crate::{
    fleet::Fleet,
    orders::{Orders, Repeat, Target, placed_once},
};

/// The time without Redis at full size, and the shortest time. It is longer if the other nodes have not ended the tasks of the node.
const AWAY: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));
const TASKS: usize = 20;
const ORDERERS: usize = 4;
/// The time in which each request to the node ends, and in which its readiness shows the missing store.
const ANSWER: Duration = Duration::from_secs(6);
/// The time in which the node answers a round of an order. Its effect can wait for Redis until the lease of the node ends.
const ROUND: Duration = Duration::from_secs(12);
/// The time in which the other nodes end the tasks of the node.
const NOTICED: Duration = Duration::from_secs(15);
/// The time in which the node uses Redis again.
const RECOVERY: Duration = Duration::from_secs(10);
/// The time limit of the whole recovery after half-open or closed connections.
const LOST: Duration = Duration::from_secs(10);
/// The delay of slow connections, in each direction, and its time.
const DELAY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// The connections of a node to Redis: for commands, and for topics.
const CONNECTIONS: usize = 2;
const PAUSE: Duration = Duration::from_millis(100);
/// The names of the leases of the nodes.
const LEASES: &str = "mcp/fleet/node/";

/// The answers of the requests during the cut.
#[derive(Default)]
struct Answers {
    /// The time limit of a request.
    limit: Duration,
    ended: AtomicBool,
    results: AtomicUsize,
    /// Typed errors and answers with 503.
    refusals: AtomicUsize,
    /// The longest request, without flows of orders.
    longest: Mutex<(Duration, &'static str)>,
    flows: AtomicUsize,
    /// The flows whose last round was sent again, and those whose first answer was lost or temporary.
    repeated: AtomicUsize,
    unsure: AtomicUsize,
    /// The items of the flows that succeeded.
    placed: Mutex<Vec<String>>,
}

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let (fleet, proxy) = Fleet::start_behind_proxy(&run.settings).await?;
    let (node, other) = (&fleet.nodes[0], fleet.nodes[1].url());
    let (session, deleted) = (Session::open(&node.url()).await?, Session::open(&node.url()).await?);
    for session in [&session, &deleted] {
        ensure!(session.add_at(&node.url(), 1).await? == Outcome::Result, "a session does not work");
    }
    let (at_node, at_other) = (client(&node.url()).await?, client(&other).await?);
    at_node.list_tools().await?;
    ensure!(wire::has_store(node.address).await?, "the node has no store before the cut");

    let answers = Arc::new(Answers { limit: run.limit(ANSWER), ..Answers::default() });
    let session = Arc::new(session);
    let mut workers = JoinSet::new();
    workers.spawn(add(at_node.clone(), answers.clone()));
    workers.spawn(create(at_node.clone(), answers.clone()));
    workers.spawn(in_session(session.clone(), node.url(), answers.clone()));
    workers.spawn(open(node.url(), answers.clone()));
    let target = |url: String, limit| Target { url, limit: run.limit(limit) };
    // A round at another node waits for the effect of the node until that has ended.
    let targets = fleet.nodes.iter().enumerate().map(|(number, node)| match number {
        0 => target(node.url(), ROUND),
        _ => target(node.url(), NOTICED),
    });
    let orders = Orders::new(targets.chain([target(fleet.url(), NOTICED)]).collect())?;
    for orderer in 0..ORDERERS {
        workers.spawn(order(orders.clone(), orderer, run.random.fork(), answers.clone()));
    }
    let short = short_faults(run, &fleet, &proxy).await?;
    // The lease of the node must end during the last fault, so its tasks start after the short ones.
    let works = until(run.limit(RECOVERY), async || tasks::start(&at_node, 1, 0).await.is_ok()).await;
    works.context("no task can start after the short faults")?;
    let running = tasks::start(&at_node, run.of(TASKS).max(5), 3_600).await?;
    proxy.fault(Fault::BlackHole);
    workers.spawn(look(at_node.clone(), running[0].clone(), answers.clone()));
    let start = Instant::now();
    let shown =
        until(run.limit(ANSWER), async || wire::has_store(node.address).await.is_ok_and(|has_store| !has_store)).await;
    let shown = shown.context("the readiness of the node does not show the missing store")?;
    ensure!(deleted.delete_at(&other).await? == Outcome::Result, "another node does not end a session");
    let noticed = until(run.limit(NOTICED), async || all_failed(&at_other, &running).await).await;
    noticed.with_context(|| format!("the tasks of the node have not failed within {NOTICED:?}"))?;
    sleep((AWAY.0 * run.size / 100).max(AWAY.1).saturating_sub(start.elapsed())).await;
    let away = start.elapsed();
    answers.ended.store(true, Ordering::Relaxed);
    while let Some(ended) = workers.join_next().await {
        ended??;
    }

    proxy.fault(Fault::None);
    let recovered = until(run.limit(RECOVERY), async || wire::has_store(node.address).await.unwrap_or(false)).await;
    let recovered = recovered.with_context(|| format!("the node does not use Redis within {RECOVERY:?}"))?;
    // The first answers after the cut are those of the other nodes.
    let stale = deleted.add_at(&node.url(), 2).await?;
    ensure!(stale == Outcome::Gone, "a session that another node has ended answers {stale:?}");
    ensure!(all_failed(&at_node, &running).await, "a task of the node has another state than at the other nodes");
    ensure!(session.add_at(&node.url(), 3).await? == Outcome::Result, "a session does not work after the cut");
    ensure!(session.add_at(&other, 4).await? == Outcome::Result, "a session does not work at another node");
    let task = tasks::start(&at_node, 1, 0).await.context("a task after the cut")?;
    let done = until(RECOVERY, async || tasks::status(&at_other, &task[0]).await == Some(TaskStatus::Completed)).await;
    done.context("a task after the cut has no end")?;
    placed_once(&orders.read().await?, &answers.placed.lock())?;
    let placed = answers.placed.lock().len();
    let store = RedisStore::connect(RedisOptions::from_url(&fleet.redis.url())?).await?;
    let mut leases = 0;
    let single = until(run.limit(NOTICED), async || {
        leases = store.list(LEASES, None, 100).await.map_or(0, |page| page.entries.len());
        leases == fleet.nodes.len()
    });
    single.await.with_context(|| format!("{} nodes have {leases} leases", fleet.nodes.len()))?;
    ensure!(all_failed(&at_other, &running).await, "a failed task has another state after the cut");
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    let (longest, kind) = *answers.longest.lock();
    ensure!(count(&answers.refusals) > 0, "the cut had no effect");
    ensure!(count(&answers.results) > 0, "no request to the node succeeded");
    let (repeated, unsure) = (count(&answers.repeated), count(&answers.unsure));
    ensure!(repeated > 0 && unsure > 0, "{repeated} flows were repeated, {unsure} of them after a lost answer");
    ensure!(placed * 4 >= count(&answers.flows), "only {placed} of {} flows succeeded", count(&answers.flows));
    Ok(format!(
        "{short}; {:.0} s without Redis: {} results, {} typed errors, the longest request {:.1} s ({kind}); {placed} of {} \
         flows placed, {repeated} repeated, {unsure} of them after a lost answer, 0 twice; shown after {:.1} s, recovered \
         after {:.1} s",
        away.as_secs_f64(),
        count(&answers.results),
        count(&answers.refusals),
        longest.as_secs_f64(),
        count(&answers.flows),
        shown.as_secs_f64(),
        recovered.as_secs_f64(),
    ))
}

/// A client of 2026-07-28.
async fn client(url: &str) -> Result<Client, Error> {
    let builder = Client::builder("fleet-check", "0").versions([ProtocolVersion::V2026_07_28]);
    Ok(builder.connect(url).await?)
}

/// Slow, half-open and closed connections, one after another. Each of them must have an effect, and the node must recover.
async fn short_faults(run: &Run, fleet: &Fleet, proxy: &FaultyProxy) -> Result<String, Error> {
    let url = fleet.nodes[0].url();
    let open = async || wire::open_at(&url).await.context("a new session");
    proxy.delay(DELAY.0);
    let slow = Instant::now();
    ensure!(open().await? == Outcome::Result, "a new session fails with slow connections");
    let slow = slow.elapsed();
    ensure!(slow >= DELAY.0 * 2, "a new session took {slow:.1?} with a delay of {:?} in each direction", DELAY.0);
    sleep(DELAY.1).await;
    proxy.delay(Duration::ZERO);

    let limit = run.limit(LOST);
    let mut times = Vec::new();
    type Break = fn(&FaultyProxy);
    for (name, fault) in [("half-open", FaultyProxy::half_open as Break), ("closed", FaultyProxy::cut)] {
        let before = connections(&fleet.redis)?;
        fault(proxy);
        // The answers of other requests are checked meanwhile.
        let (mut questions, mut new) = (0, 0);
        let recovered = until(limit, async || {
            questions += 1;
            new = connections(&fleet.redis).unwrap_or(0).saturating_sub(before + questions);
            new >= CONNECTIONS && open().await.is_ok_and(|outcome| outcome == Outcome::Result)
        });
        let recovered = recovered.await;
        let recovered = recovered.with_context(|| format!("{new} of {CONNECTIONS} {name} connections are replaced"))?;
        times.push(format!("{name} connections replaced after {:.1} s", recovered.as_secs_f64()));
    }
    Ok(format!("a session in {slow:.0?} with a delay of {:?}; {}", DELAY.0, times.join(", ")))
}

/// The number of connections that Redis has accepted, with the connection of this question.
fn connections(redis: &RedisServer) -> Result<usize, Error> {
    let stats = block_in_place(|| redis.send("INFO stats"))?;
    let number = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    Ok(number.context("no number of connections")?.parse()?)
}

async fn all_failed(client: &Client, tasks: &[String]) -> bool {
    for task in tasks {
        if tasks::status(client, task).await != Some(TaskStatus::Failed) {
            return false;
        }
    }
    true
}

impl Answers {
    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Counts an answer, and checks the time of its request.
    fn count(&self, kind: &'static str, start: Instant, is_result: bool) -> Result<(), Error> {
        let time = start.elapsed();
        let limit = self.limit;
        ensure!(time <= limit, "{kind} took {time:.1?}, at most {limit:?} is allowed");
        if is_result { &self.results } else { &self.refusals }.fetch_add(1, Ordering::Relaxed);
        let mut longest = self.longest.lock();
        *longest = (*longest).max((time, kind));
        Ok(())
    }
}

/// Checks that an error names its cause: the node answered, or a balancer did.
fn typed(kind: &str, error: mcp_client::Error) -> Result<(), Error> {
    let is_typed = error.rpc().is_some() || matches!(error.http_status(), Some(502 | 503));
    if is_typed { Ok(()) } else { Err(Error::new(error).context(format!("{kind} failed without a typed error"))) }
}

/// Stateless calls, which need no store.
async fn add(client: Client, answers: Arc<Answers>) -> Result<(), Error> {
    while !answers.is_ended() {
        let start = Instant::now();
        let result = client.call_tool("add", json!({ "a": 2, "b": 3 })).await.context("a stateless call failed")?;
        ensure!(result.text() == "5", "a wrong answer: {}", result.text());
        answers.count("a stateless call", start, true)?;
        sleep(PAUSE).await;
    }
    Ok(())
}

/// The state of a task.
async fn look(client: Client, task: String, answers: Arc<Answers>) -> Result<(), Error> {
    while !answers.is_ended() {
        let start = Instant::now();
        let looked = client.task(&task).status().await;
        answers.count("the state of a task", start, looked.is_ok())?;
        looked.map_or_else(|error| typed("the state of a task", error), |_| Ok(()))?;
        sleep(PAUSE).await;
    }
    Ok(())
}

/// New tasks.
async fn create(client: Client, answers: Arc<Answers>) -> Result<(), Error> {
    while !answers.is_ended() {
        let start = Instant::now();
        let created = client.call_tool("report", json!({ "seconds": 0 })).as_task().await;
        answers.count("a new task", start, created.is_ok())?;
        created.map_or_else(|error| typed("a new task", error), |_| Ok(()))?;
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Calls in a session that the node has opened.
async fn in_session(session: Arc<Session>, url: String, answers: Arc<Answers>) -> Result<(), Error> {
    let mut id = 10;
    while !answers.is_ended() {
        let start = Instant::now();
        id += 1;
        let outcome = session.add_at(&url, id).await.context("a call in a session")?;
        ensure!(outcome != Outcome::Gone, "the node has lost a session");
        answers.count("a call in a session", start, outcome == Outcome::Result)?;
        sleep(PAUSE).await;
    }
    Ok(())
}

/// New sessions.
async fn open(url: String, answers: Arc<Answers>) -> Result<(), Error> {
    while !answers.is_ended() {
        let start = Instant::now();
        let outcome = wire::open_at(&url).await.context("a new session")?;
        answers.count("a new session", start, outcome == Outcome::Result)?;
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Flows of orders. Their rounds arrive at all nodes, and some of them several times.
async fn order(orders: Orders, orderer: usize, mut random: Random, answers: Arc<Answers>) -> Result<(), Error> {
    let mut number = 0;
    while !answers.is_ended() {
        number += 1;
        let item = format!("item-{orderer}-{number}");
        let (first, repeat) = (random.below(1_000), Repeat::choose(&mut random));
        let flow = orders.place(&item, Duration::ZERO, first, repeat).await.with_context(|| item.clone())?;
        answers.flows.fetch_add(1, Ordering::Relaxed);
        answers.repeated.fetch_add(usize::from(flow.repeated > 0), Ordering::Relaxed);
        answers.unsure.fetch_add(usize::from(flow.lost > 0), Ordering::Relaxed);
        if flow.is_placed()? {
            answers.placed.lock().push(item);
        }
    }
    Ok(())
}
