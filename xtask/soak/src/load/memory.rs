//! Clients in the process of their server: calls, and clients that close while calls run.

use anyhow::Error;
use check_kit::random::Random;
use mcp_client::protocol::ProtocolVersion;
use mcp_server::Server;
use tokio::task::JoinSet;

use super::{
    Actors, ERAS, Soak,
    calls::{Caller, Link, builder},
};
use crate::serve;

/// The callers of a client that closes.
const CALLERS: usize = 4;

pub(super) fn start(actors: &mut Actors) {
    let server = serve::server();
    for version in ERAS {
        let (quiet, closing) = (server.clone(), server.clone());
        actors.add(move |soak, random| undisturbed(soak, random, version, quiet));
        actors.add(move |soak, random| closed(soak, random, version, closing));
    }
}

/// Makes calls that succeed.
async fn undisturbed(soak: Soak, mut random: Random, version: ProtocolVersion, server: Server) -> Result<(), Error> {
    let client = builder(version).connect(&server).await?;
    let caller = Caller::new(&soak, client, Link::Undisturbed);
    caller.run(&mut random, (0, 100)).await;
    caller.close().await;
    Ok(())
}

/// Makes calls at the same time, and closes or reconnects their client while they run.
async fn closed(soak: Soak, mut random: Random, version: ProtocolVersion, server: Server) -> Result<(), Error> {
    while !soak.is_over() {
        let client = builder(version).connect(&server).await?;
        let caller = Caller::new(&soak, client, Link::Disturbed);
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (caller, mut random) = (caller.clone(), random.fork());
            callers.spawn(async move {
                for _ in 0..random.between(1, 10) {
                    caller.any(&mut random).await;
                }
            });
        }
        for _ in 0..random.below(3) {
            soak.pause(&mut random, (10, 300)).await;
            caller.client.reconnect();
        }
        soak.pause(&mut random, (10, 500)).await;
        caller.close().await;
        callers.join_all().await;
    }
    Ok(())
}
