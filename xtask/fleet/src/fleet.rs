//! A fleet as processes: Redis, the nodes, and a balancer in front of them.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Error};
use check_kit::{
    node::{Launch, Node},
    random::Random,
};
use mcp_test::redis_server::{FaultyProxy, RedisServer};
use tokio::{task::JoinHandle, time::sleep};

use crate::balancer::Balancer;

/// The number of nodes.
pub(crate) const NODES: usize = 3;
/// The settings of a Redis whose acknowledged writes are on the disk.
pub(crate) const DURABLE: &[&str] = &["--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction"];

/// The settings of the guide. Redis writes to the disk in the background.
pub(crate) const RECOMMENDED: &[&str] =
    &["--appendonly yes", "--appendfsync everysec", "--maxmemory-policy noeviction"];

/// The settings of a fleet.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) program: PathBuf,
    /// Further arguments of each node.
    pub(crate) args: Vec<String>,
    /// The directory of the logs.
    pub(crate) directory: PathBuf,
}

/// A running fleet. The drop of this value kills all processes.
pub(crate) struct Fleet {
    pub(crate) redis: RedisServer,
    pub(crate) nodes: Vec<Node>,
    pub(crate) balancer: Balancer,
}

impl Fleet {
    /// Starts Redis, the nodes and the balancer.
    pub(crate) async fn start(settings: &Settings) -> Result<Self, Error> {
        Self::start_with(settings, DURABLE).await
    }

    /// Starts Redis with these settings, the nodes and the balancer.
    pub(crate) async fn start_with(settings: &Settings, redis: &[&str]) -> Result<Self, Error> {
        let redis = tokio::task::block_in_place(|| RedisServer::start(redis)).context("redis-server")?;
        let urls = std::array::from_fn(|_| redis.url());
        Self::with(settings, redis, urls).await
    }

    /// Starts a fleet whose first node reaches Redis through a proxy.
    pub(crate) async fn start_behind_proxy(settings: &Settings) -> Result<(Self, FaultyProxy), Error> {
        let redis = tokio::task::block_in_place(|| RedisServer::start(DURABLE)).context("redis-server")?;
        let proxy = FaultyProxy::start(redis.address()).await?;
        let first = format!("redis://{}", proxy.address());
        let urls = std::array::from_fn(|number| if number == 0 { first.clone() } else { redis.url() });
        Ok((Self::with(settings, redis, urls).await?, proxy))
    }

    /// Starts the nodes, each with its URL of Redis, and the balancer.
    async fn with(settings: &Settings, redis: RedisServer, urls: [String; NODES]) -> Result<Self, Error> {
        let mut nodes = Vec::new();
        for (number, url) in urls.iter().enumerate() {
            nodes.push(Node::start(settings.launch(url, number)).await?);
        }
        let balancer = Balancer::start(nodes.iter().map(|node| node.address).collect()).await?;
        Ok(Self { redis, nodes, balancer })
    }

    /// The URL behind which all nodes are.
    pub(crate) fn url(&self) -> String {
        self.balancer.url()
    }
}

impl Settings {
    /// The command line of a node.
    pub(crate) fn launch(&self, redis: &str, number: usize) -> Launch {
        let mut args = vec!["--redis".to_owned(), redis.to_owned()];
        args.extend(self.args.iter().cloned());
        Launch { program: self.program.clone(), args, log: self.directory.join(format!("node-{number}.log")) }
    }
}

/// The kills of random nodes, until the receiver of this value calls [`Kills::end`].
pub(crate) struct Kills {
    task: JoinHandle<Result<Vec<Node>, Error>>,
    count: Arc<AtomicUsize>,
    stop: tokio::sync::oneshot::Sender<()>,
}

impl Kills {
    /// Kills a random node every `pause`, and starts it again after half of the pause.
    pub(crate) fn begin(mut nodes: Vec<Node>, mut random: Random, pause: Duration) -> Self {
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let count = Arc::<AtomicUsize>::default();
        let kills = count.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = sleep(pause / 2) => {}
                    _ = &mut stopped => return Ok(nodes),
                }
                let chosen = random.below(nodes.len());
                nodes[chosen].kill().await?;
                kills.fetch_add(1, Ordering::Relaxed);
                sleep(pause / 2).await;
                nodes[chosen].restart().await.with_context(|| format!("node {chosen}"))?;
            }
        });
        Self { task, count, stop }
    }

    /// The number of kills, which grows until the end.
    pub(crate) fn count(&self) -> Arc<AtomicUsize> {
        self.count.clone()
    }

    /// Ends the kills. Returns the nodes, which all run, and the number of kills.
    pub(crate) async fn end(self) -> Result<(Vec<Node>, usize), Error> {
        // The task has ended before if a restart failed.
        let _ = self.stop.send(());
        let nodes = self.task.await??;
        Ok((nodes, self.count.load(Ordering::Relaxed)))
    }
}
