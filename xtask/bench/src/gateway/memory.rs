//! The resident memory of a gateway: of an idle session of a client, and of an idle connection to a server.

use super::report::{Aim, median, row};
use crate::{
    cpu,
    error::Error,
    memory::{Client, each},
    peer::{Peer, Start},
};

/// The sessions before the first measurement, so that memory for the first use is not counted.
const WARM_UP: usize = 500;
const SESSIONS: usize = 5_000;
/// The servers of the small and of the large gateway.
const FEW: usize = 8;
const MANY: usize = 72;
const REPETITIONS: usize = 3;

/// Measures both.
pub(super) async fn measure() -> Result<(), Error> {
    let (mut gateway, address) = start("local", 1).await?;
    let mut client = Client::open(address)?;
    let host = address.to_string();
    let warm = client.sessions(&host, WARM_UP)?;
    client.check(&host, [&warm[0], &warm[WARM_UP - 1]])?;
    let before = resident(&gateway)?;
    let sessions = client.sessions(&host, SESSIONS)?;
    client.check(&host, [&warm[0], &sessions[SESSIONS - 1]])?;
    let session = each(before, resident(&gateway)?, SESSIONS)?;
    ended(&mut gateway)?;
    row("memory of an idle downstream session", &[session], " KiB", Aim::AtMost(8.0), &format!("{SESSIONS} sessions"));

    let mut upstream = Peer::start(&Start { kind: "ours-http", ..Start::default() })?;
    let url = format!("http://{}/mcp", upstream.address().await?);
    for (target, name) in [(&*url, "HTTP"), ("stdio", "stdio")] {
        let mut values = Vec::new();
        for _ in 0..REPETITIONS {
            let (mut few, _) = start(target, FEW).await?;
            let (mut many, _) = start(target, MANY).await?;
            values.push(each(resident(&few)?, resident(&many)?, MANY - FEW)?);
            ended(&mut few)?;
            ended(&mut many)?;
        }
        let details = format!("{MANY} servers by {FEW}, without the memory of the servers");
        let label = format!("memory of an idle upstream connection, {name}");
        row(&label, &[median(&values)], " KiB", Aim::AtMost(128.0), &details);
    }
    Ok(())
}

async fn start(target: &str, servers: usize) -> Result<(Peer, std::net::SocketAddr), Error> {
    let gateway = ["--upstream", target, "--servers", &servers.to_string()].map(str::to_owned).to_vec();
    let mut peer = Peer::start(&Start { kind: "gateway-http", gateway, ..Start::default() })?;
    let address = peer.address().await?;
    Ok((peer, address))
}

fn resident(peer: &Peer) -> Result<u64, Error> {
    cpu::resident(peer.pid()).ok_or_else(|| Error::new("the resident memory cannot be read here"))
}

/// Fails if a gateway has ended during the measurement.
fn ended(peer: &mut Peer) -> Result<(), Error> {
    peer.ended().map_or(Ok(()), |status| Err(Error::new(format!("the gateway ended: {status}"))))
}
