//! Clients of child processes: calls while the processes are killed, and readers that are slow or vanish.

use std::{process::Stdio, sync::atomic::Ordering::Relaxed, time::Duration};

use anyhow::{Context as _, Error, anyhow, ensure};
use check_kit::random::Random;
use mcp_client::{ChildProcess, protocol::ProtocolVersion};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
    time::{sleep, timeout},
};

use super::{
    Actors, ERAS, Soak,
    calls::{Caller, Link, builder},
};
use crate::tally::Check;

/// The concurrent callers of one process.
const CALLERS: usize = 3;
/// The time in which calls succeed again after a kill.
const RECOVERY: Duration = Duration::from_secs(30);
/// The time in which a process ends after its client vanished: its grace period is 2 s.
const EXIT: Duration = Duration::from_secs(10);
/// The requests of a slow reader. Their results are larger than a pipe.
const REQUESTS: u64 = 40;
const RESULT: usize = 200_000;

pub(super) fn start(actors: &mut Actors) {
    for version in ERAS {
        actors.add(move |soak, random| killed(soak, random, version));
    }
    actors.add(slow);
}

/// Calls a child process, and kills it at random times.
async fn killed(soak: Soak, mut random: Random, version: ProtocolVersion) -> Result<(), Error> {
    let child = ChildProcess::new(&soak.program).arg("stdio");
    let client = builder(version).connect(child).await?;
    let caller = Caller::new(&soak, client.clone(), Link::Disturbed);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let (caller, mut random) = (caller.clone(), random.fork());
        callers.spawn(async move { caller.run(&mut random, (0, 150)).await });
    }
    while !soak.is_over() {
        soak.pause(&mut random, (1_500, 6_000)).await;
        kill(&soak, &caller, "").await?;
        recovered(&soak, &caller, &mut random, "a child process").await;
    }
    callers.join_all().await;
    caller.close().await;
    Ok(())
}

/// Kills the process of a server, which its tool `pid` names.
pub(super) async fn kill(soak: &Soak, caller: &Caller, prefix: &str) -> Result<(), Error> {
    let tool = format!("{prefix}pid");
    let asked = soak.ends("pid", async { caller.client.call_tool(tool, ()).await?.ok() }).await;
    let Some(Ok(id)) = asked else { return Ok(()) };
    let id: u32 = id.text().parse().context("a process without a number")?;
    // The process can have ended before the signal.
    Command::new("kill").args(["-KILL", &id.to_string()]).stderr(Stdio::null()).status().await?;
    soak.tally.caused.kills.fetch_add(1, Relaxed);
    Ok(())
}

/// Waits until an echo succeeds again after a kill.
pub(super) async fn recovered(soak: &Soak, caller: &Caller, random: &mut Random, name: &str) {
    let echoes = async {
        while !caller.echoes(random).await {
            sleep(Duration::from_millis(100)).await;
        }
    };
    let outcome = timeout(RECOVERY, echoes).await;
    soak.tally.judge(Check::Recovery, outcome.map_err(|_| format!("{name}: no call succeeds within {RECOVERY:?}")));
}

/// Sends many requests to a child process before it reads, and then vanishes.
async fn slow(soak: Soak, mut random: Random) -> Result<(), Error> {
    while !soak.is_over() {
        match soak.ends("a slow reader of a pipe", read_slowly(&soak, &mut random)).await {
            Some(Ok(())) => soak.tally.add(Check::Answers, REQUESTS),
            Some(Err(error)) => soak.tally.fault(Check::Answers, format!("a slow reader of a pipe: {error:#}")),
            None => {}
        }
        soak.tally.caused.slow.fetch_add(1, Relaxed);
        soak.pause(&mut random, (100, 3_000)).await;
    }
    Ok(())
}

async fn read_slowly(soak: &Soak, random: &mut Random) -> Result<(), Error> {
    let mut command = Command::new(&soak.program);
    command.arg("stdio").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let (mut stdin, stdout) = child.stdin.take().zip(child.stdout.take()).ok_or_else(|| anyhow!("no pipes"))?;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "soak", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let arguments = json!({ "bytes": RESULT, "letter": 'z' });
    for id in 0..REQUESTS {
        let params = json!({ "name": "big", "arguments": arguments, "_meta": meta });
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        stdin.write_all(format!("{call}\n").as_bytes()).await?;
    }
    sleep(Duration::from_millis(random.between(200, 1_500))).await;
    let mut lines = BufReader::new(stdout).lines();
    let mut missing: Vec<u64> = (0..REQUESTS).collect();
    let reads = random.between(0, REQUESTS * 2);
    for _ in 0..reads.min(REQUESTS) {
        let line =
            lines.next_line().await?.ok_or_else(|| anyhow!("the output ends with {} answers open", missing.len()))?;
        let message: Value = serde_json::from_str(&line)?;
        let id = message["id"].as_u64().ok_or_else(|| anyhow!("a message without an id"))?;
        let at = missing.iter().position(|open| *open == id).ok_or_else(|| anyhow!("a second answer to {id}"))?;
        missing.swap_remove(at);
        let text = message["result"]["content"][0]["text"].as_str().unwrap_or_default();
        ensure!(text.len() == RESULT && text.bytes().all(|byte| byte == b'z'), "a foreign answer to {id}");
        sleep(Duration::from_millis(random.between(0, 15))).await;
    }
    // The client vanishes, with unread answers or without them.
    drop((stdin, lines));
    let exit = timeout(EXIT, child.wait()).await;
    let outcome = exit.map(|_| ()).map_err(|_| format!("a child process runs {EXIT:?} after the end of its client"));
    soak.tally.judge(Check::Exits, outcome);
    Ok(())
}
