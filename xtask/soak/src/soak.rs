//! A run: its processes, the lines of its state, and the judgement at its end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Error};
use check_kit::{
    node::{Launch, Node},
    usage,
};
use mcp_client::Client;
use serde_json::Value;
use tokio::{
    runtime::Handle,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use crate::{
    canary::{Canary, Target},
    load::{Actors, ERAS, Soak, calls::LONGEST_CALL},
    machine::{MIB, Trend},
    options::Options,
    serve::{SESSION_IDLE, UPSTREAM_IDLE, UPSTREAMS},
    tally::{Check, Tally},
};

/// The interval between two lines of the state.
const STATE: u32 = 10;
/// The time before the first measurement: the canary opens its connections.
const WARM_UP: Duration = Duration::from_secs(2);
/// The time in which files and tasks return to their start: calls without a client, their sessions and idle connections of the gateway end.
const SETTLE: Duration =
    Duration::from_secs(LONGEST_CALL.as_secs() + SESSION_IDLE.as_secs() + UPSTREAM_IDLE.as_secs() + 20);
/// The difference of files and tasks that idle connections of the canary explain.
const SLACK: u64 = 6;
const LIMIT: Duration = Duration::from_secs(10);
const PROCESSES: [&str; 3] = ["server", "gateway", "clients"];

/// The files and the tasks of the processes. The running handlers of the two servers are tasks of their own kind.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    files: [u64; 3],
    tasks: [u64; 3],
    running: [u64; 2],
}

/// The processes under load, with the connections that read their state.
struct Watched {
    pids: [u32; 3],
    readers: [(Client, String); 2],
}

impl Watched {
    fn resident(&self) -> [f64; 3] {
        self.pids.map(|pid| usage::resident(pid).unwrap_or_default() as f64)
    }

    async fn usage(&self) -> Result<Usage, Error> {
        let mut usage = Usage::default();
        for (at, pid) in self.pids.iter().enumerate() {
            usage.files[at] = usage::open_files(*pid).context("no number of open files")? as u64;
        }
        for (at, (client, tool)) in self.readers.iter().enumerate() {
            let state = timeout(LIMIT, client.call_tool(tool, ())).await.context("no state in time")??;
            let state: Value = serde_json::from_str(&state.text()).context("an invalid state")?;
            usage.tasks[at] = state["tasks"].as_u64().unwrap_or_default();
            usage.running[at] = state["running"].as_u64().unwrap_or_default();
        }
        usage.tasks[2] = Handle::current().metrics().num_alive_tasks() as u64;
        Ok(usage)
    }
}

/// Runs the load, prints the state, and prints the report. Fails if a check has failed.
pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    println!("seed {}, {} s", options.seed, options.time.as_secs());
    println!("the seed determines the random choices; the times of the machine differ in each run");
    let program = std::env::current_exe()?;
    let launch = |kind: &str, more: &[&str]| Launch {
        program: program.clone(),
        args: [kind].iter().chain(more).map(|arg| (*arg).to_owned()).collect(),
        log: options.directory.join(format!("{kind}.log")),
    };
    let mut node = Node::start(launch("node", &[])).await.context("the server")?;
    let upstream = Node::start(launch("node", &[])).await.context("the server behind the gateway")?;
    let mut gateway = Node::start(launch("gateway", &["--upstream", &upstream.url()])).await.context("the gateway")?;
    let tally = Arc::new(Tally::new());
    let mut targets = Vec::new();
    let pid = |node: &Node| node.id().context("a server has ended");
    for version in ERAS {
        let (url, pid_of_node) = (node.url(), pid(&node)?);
        targets.push(Target { name: "server", url, pid: pid_of_node, prefix: String::new(), version });
        let (url, pid_of_gateway) = (gateway.url(), pid(&gateway)?);
        let prefix = format!("{}__", UPSTREAMS[0]);
        targets.push(Target { name: "gateway", url, pid: pid_of_gateway, prefix, version });
    }
    let reader = |url: String| Client::connect(url);
    let watched = Watched {
        pids: [pid(&node)?, pid(&gateway)?, std::process::id()],
        readers: [
            (reader(node.url()).await?, "state".to_owned()),
            (reader(gateway.url()).await?, format!("{}__state", UPSTREAMS[0])),
        ],
    };
    let canary = Canary::start(tally.clone(), targets, options.time);
    sleep(WARM_UP).await;
    let (before, memory) = (watched.usage().await?, watched.resident());
    let soak = Soak {
        tally: tally.clone(),
        deadline: Instant::now() + options.time,
        node: node.address,
        gateway: gateway.address,
        program,
    };
    let actors = Actors::start(soak.clone(), options.seed, &options.parts, upstream);
    let samples = watch(&soak, &watched, &canary).await;
    println!("the load has ended; open calls end now");
    actors.end().await;
    settle(&tally, &watched, before).await;
    judge_memory(&tally, &samples, memory, watched.resident());
    for line in canary.times.lines() {
        tally.detail(Check::Canary, line);
    }
    canary.end().context("the canary")?;
    for (client, _) in &watched.readers {
        client.close().await;
    }
    for (name, process) in [("the gateway", &mut gateway), ("the server", &mut node)] {
        let outcome = process.stop().await.map(|_| ()).map_err(|error| format!("{name}: {error:#}"));
        tally.judge(Check::Exits, outcome);
    }
    println!("\n{} s, {}\n\n{}", options.time.as_secs(), tally.state(), tally.table());
    let parts: String = options.parts.iter().map(|part| format!(" --load {part}")).collect();
    println!("repeat: cargo xtask soak --seconds {} --seed {}{parts}", options.time.as_secs(), options.seed);
    // A part of the load does not reach all checks.
    match tally.failures(options.parts.is_empty()) {
        failures if failures.is_empty() => Ok(()),
        failures => Err(Error::msg(format!("failed: {}", failures.join(", ")))),
    }
}

/// Samples the memory each second until the end of the load, and prints the state.
async fn watch(soak: &Soak, watched: &Watched, canary: &Canary) -> Vec<(f64, [f64; 3])> {
    let mut samples = Vec::new();
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut printed = 0;
    while !soak.is_over() {
        ticks.tick().await;
        let elapsed = soak.tally.elapsed();
        samples.push((elapsed.as_secs_f64(), watched.resident()));
        let due = u32::try_from(elapsed.as_secs()).unwrap_or(u32::MAX) / STATE;
        if due > printed {
            printed = due;
            print_state(&soak.tally, watched, canary).await;
        }
    }
    samples
}

async fn print_state(tally: &Tally, watched: &Watched, canary: &Canary) {
    let memory = watched.resident().map(|bytes| format!("{:.0}", bytes / MIB)).join("/");
    let usage = match watched.usage().await {
        Ok(usage) => {
            let join = |values: [u64; 3]| values.map(|value| value.to_string()).join("/");
            format!("files {}, tasks {}", join(usage.files), join(usage.tasks))
        }
        Err(error) => format!("no state: {error:#}"),
    };
    println!(
        "{:>5.0} s  {}; canary {:.0} ms; MiB {memory}, {usage}",
        tally.elapsed().as_secs_f64(),
        tally.state(),
        canary.times.slowest(),
    );
}

/// Waits until files and tasks have returned to their start, and judges them.
async fn settle(tally: &Tally, watched: &Watched, before: Usage) {
    let start = Instant::now();
    let (mut last, mut error) = (None, None);
    while start.elapsed() < SETTLE {
        match watched.usage().await {
            Ok(usage) => {
                last = Some(usage);
                if is_settled(before, usage) {
                    break;
                }
            }
            Err(failure) => error = Some(failure),
        }
        sleep(Duration::from_millis(500)).await;
    }
    tally.detail(Check::Tasks, format!("{:.1} s after the end of the open calls", start.elapsed().as_secs_f64()));
    let Some(after) = last else {
        tally.fault(Check::Files, format!("the state cannot be read: {error:?}"));
        return;
    };
    for (at, name) in PROCESSES.into_iter().enumerate() {
        for (check, before, after) in
            [(Check::Files, before.files[at], after.files[at]), (Check::Tasks, before.tasks[at], after.tasks[at])]
        {
            let line = format!("{name}: {before} before the load, {after} after it");
            tally.judge(check, if after > before + SLACK { Err(&line) } else { Ok(()) });
            tally.detail(check, line);
        }
    }
    for (name, running) in PROCESSES.into_iter().zip(after.running) {
        let line = format!("{name}: {running} handlers still run");
        tally.judge(Check::Tasks, if running > 0 { Err(line) } else { Ok(()) });
    }
}

fn is_settled(before: Usage, now: Usage) -> bool {
    let returned = |before: [u64; 3], now: [u64; 3]| before.iter().zip(now).all(|(before, now)| now <= before + SLACK);
    returned(before.files, now.files) && returned(before.tasks, now.tasks) && now.running == [0, 0]
}

/// Judges the memory during the load, and after it. `before` and `settled` are the values before the load and after its end.
fn judge_memory(tally: &Tally, samples: &[(f64, [f64; 3])], before: [f64; 3], settled: [f64; 3]) {
    for (at, name) in PROCESSES.into_iter().enumerate() {
        let own: Vec<(f64, f64)> = samples.iter().map(|(time, bytes)| (*time, bytes[at])).collect();
        let Some(trend) = Trend::of(&own) else {
            tally.fault(Check::Memory, format!("{name}: too few samples"));
            continue;
        };
        let line = format!(
            "{name}: {:.1} MiB after the first third, {:.1} MiB at the end, trend {:+.1} MiB (noise {:.1} MiB), {:+.1} MiB in an hour",
            trend.first / MIB,
            trend.last / MIB,
            trend.growth / MIB,
            trend.noise / MIB,
            trend.hourly / MIB,
        );
        tally.judge(Check::Memory, if trend.is_growing() { Err(&line) } else { Ok(()) });
        tally.detail(Check::Memory, line);
        let [before, settled] = [before[at], settled[at]];
        let line = format!("{name}: {:.1} MiB before the load, {:.1} MiB after it", before / MIB, settled / MIB);
        tally.judge(Check::Memory, if trend.returns(before, settled) { Ok(()) } else { Err(&line) });
        tally.detail(Check::Memory, line);
    }
}
