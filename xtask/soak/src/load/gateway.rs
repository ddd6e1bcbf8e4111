//! Clients of a gateway, while the servers behind it are killed.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use anyhow::{Context as _, Error};
use check_kit::{node::Node, random::Random};
use mcp_client::protocol::ProtocolVersion;
use tokio::time::sleep;

use super::{
    Actors, ERAS, Soak,
    calls::{Caller, Link, builder},
    stdio::{kill, recovered},
};
use crate::serve::UPSTREAMS;

pub(super) fn start(actors: &mut Actors) {
    let [calm, web, pipe] = UPSTREAMS;
    for version in ERAS {
        actors.add(move |soak, random| calls(soak, random, version, calm, Link::Undisturbed));
        actors.add(move |soak, random| calls(soak, random, version, web, Link::Disturbed));
        actors.add(move |soak, random| calls(soak, random, version, pipe, Link::Disturbed));
    }
    if let Some(upstream) = actors.upstream.take() {
        actors.add(|soak, random| killed_node(soak, random, upstream));
    }
    actors.add(killed_child);
}

/// Calls one server through the gateway.
async fn calls(
    soak: Soak,
    mut random: Random,
    version: ProtocolVersion,
    server: &'static str,
    link: Link,
) -> Result<(), Error> {
    let caller = connect(&soak, version, server, link).await?;
    caller.run(&mut random, (20, 200)).await;
    caller.close().await;
    Ok(())
}

async fn connect(soak: &Soak, version: ProtocolVersion, server: &str, link: Link) -> Result<Caller, Error> {
    let client = builder(version).connect(soak.gateway_url()).await?;
    Ok(Caller { prefix: format!("{server}__"), ..Caller::new(soak, client, link) })
}

/// Kills the server over HTTP, and starts it again.
async fn killed_node(soak: Soak, mut random: Random, mut upstream: Node) -> Result<(), Error> {
    let caller = connect(&soak, ProtocolVersion::V2026_07_28, UPSTREAMS[1], Link::Disturbed).await?;
    while !soak.is_over() {
        soak.pause(&mut random, (2_000, 8_000)).await;
        upstream.kill().await?;
        soak.tally.caused.kills.fetch_add(1, Relaxed);
        sleep(Duration::from_millis(random.between(0, 1_500))).await;
        upstream.restart().await.context("the server behind the gateway")?;
        recovered(&soak, &caller, &mut random, "a server over HTTP behind the gateway").await;
    }
    caller.close().await;
    Ok(())
}

/// Kills the child process of the gateway.
async fn killed_child(soak: Soak, mut random: Random) -> Result<(), Error> {
    let caller = connect(&soak, ProtocolVersion::V2025_11_25, UPSTREAMS[2], Link::Disturbed).await?;
    while !soak.is_over() {
        soak.pause(&mut random, (2_000, 8_000)).await;
        kill(&soak, &caller, &caller.prefix).await?;
        recovered(&soak, &caller, &mut random, "a child process behind the gateway").await;
    }
    caller.close().await;
    Ok(())
}
