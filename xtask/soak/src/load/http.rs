//! Clients over HTTP: over disturbed and undisturbed connections, with the client library and without it.

use std::time::Duration;

use anyhow::{Context as _, Error};
use check_kit::{
    random::Random,
    wire::{End, Session},
};
use mcp_client::protocol::ProtocolVersion;
use tokio::{runtime::Builder, task::spawn_blocking};

use super::{
    Actors, Cuts, ERAS, Soak,
    calls::{Caller, Link, builder, kind},
    disturbed,
};
use crate::tally::Check;

/// The sessions without the client library.
const WIRES: usize = 3;
/// The disturbed clients of each era.
const CLIENTS: usize = 3;
/// The events of one call without the client library.
const EVENTS: u32 = 12;

pub(super) fn start(actors: &mut Actors) {
    for _ in 0..WIRES {
        actors.add(wire_on_one_thread);
    }
    for version in ERAS {
        for _ in 0..CLIENTS {
            actors.add(move |soak, random| client(soak, random, version, Cuts::Silent));
        }
        actors.add(move |soak, random| undisturbed(soak, random, version));
    }
}

/// Runs a session without the client library on a runtime of one thread. If a connection ends on one thread while another thread sends
/// a request, hyper can lose the request (issue 4122 of hyper). The session would then report a fault after its time limit.
/// The check `tasks` does not contain the tasks of this runtime.
async fn wire_on_one_thread(soak: Soak, random: Random) -> Result<(), Error> {
    let work = move || Builder::new_current_thread().enable_all().build()?.block_on(wire(soak, random));
    spawn_blocking(work).await?
}

/// Calls `count` in one session, and resumes its streams after cuts.
async fn wire(soak: Soak, mut random: Random) -> Result<(), Error> {
    let (_proxy, address) = disturbed(&soak, soak.node, Cuts::Loud, random.fork()).await?;
    let session = Session::open(&super::url(address)).await?;
    // Without a reader, log records would use the capacity of the event log, and the events of calls would be evicted.
    session.silence_logs().await?;
    let mut id = 0;
    while !soak.is_over() {
        id += 1;
        let pause = Duration::from_millis(random.between(5, 150));
        let Some(stream) = soak.ends("count on the wire", session.count(id, EVENTS, pause)).await else { continue };
        let outcome = stream.with_context(|| format!("call {id}")).and_then(|stream| Ok((stream.end(EVENTS)?, stream)));
        match outcome {
            Ok((End::Completed, stream)) => soak.tally.add(Check::Events, stream.numbers.len() as u64),
            Ok((End::Lost, _)) => {
                soak.tally.failed("2025-11-25: lost before the first event, without the client library")
            }
            Ok((End::Failed, stream)) => {
                soak.tally.fault(Check::Undisturbed, format!("a session has failed: {:?}", stream.response));
            }
            Err(error) => soak.tally.fault(Check::Events, format!("on the wire: {error:#}")),
        }
    }
    session.delete().await
}

/// Makes random calls over a disturbed connection. At random times, another client replaces the client.
async fn client(soak: Soak, mut random: Random, version: ProtocolVersion, cuts: Cuts) -> Result<(), Error> {
    let (_proxy, address) = disturbed(&soak, soak.node, cuts, random.fork()).await?;
    while !soak.is_over() {
        let connecting = soak.ends("connect", builder(version).connect(super::url(address))).await;
        let client = match connecting {
            Some(Ok(client)) => client,
            Some(Err(error)) => {
                soak.tally.failed(kind(version, &error));
                continue;
            }
            None => continue,
        };
        let caller = Caller::new(&soak, client, Link::Disturbed);
        for _ in 0..random.between(5, 60) {
            if soak.is_over() {
                break;
            }
            caller.any(&mut random).await;
            soak.pause(&mut random, (0, 100)).await;
        }
        // Half of the clients vanish without the end of their session.
        if random.below(2) == 0 {
            caller.close().await;
        }
    }
    Ok(())
}

/// Makes random calls over an undisturbed connection.
async fn undisturbed(soak: Soak, mut random: Random, version: ProtocolVersion) -> Result<(), Error> {
    let client = builder(version).connect(soak.node_url()).await?;
    let caller = Caller::new(&soak, client, Link::Undisturbed);
    caller.run(&mut random, (0, 100)).await;
    caller.close().await;
    Ok(())
}
