//! The processes of a gateway: sessions of clients share the servers, and the servers end with the gateway.

use std::{
    fs,
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::report::{Aim, row};
use crate::{
    case::{Revision, tool_call},
    error::{Error, within},
    http::{self, Connection},
    load::GRACE,
    peer::{Peer, Start},
};

const SESSIONS: usize = 50;
const SERVERS: usize = 8;
/// The longest time between the end of a gateway and the end of its servers.
const END: Duration = Duration::from_secs(5);

/// Counts the processes.
pub(super) async fn measure() -> Result<(), Error> {
    let gateway = ["--upstream", "stdio", "--servers", &SERVERS.to_string()].map(str::to_owned).to_vec();
    let mut peer = Peer::start(&Start { kind: "gateway-http", gateway, ..Start::default() })?;
    let address = peer.address().await?;
    for _ in 0..SESSIONS {
        let opening = http::open_session(address, Revision::Session, None);
        let session = within(GRACE, "a new session", opening).await?;
        let mut connection = within(GRACE, "a connection", Connection::open(address)).await?;
        for number in 0..SERVERS {
            let name = format!("s{number:03}__echo");
            let request = tool_call(Revision::Session, &address.to_string(), session.as_deref(), &name);
            let answer = within(GRACE, &name, connection.call(&request, true)).await?;
            if answer.status() != 200 || !answer.body.windows(6).any(|text| text == b"\"text\"") {
                return Err(Error::new(format!("{name}: {}", String::from_utf8_lossy(&answer.body))));
            }
        }
    }
    let children = children(peer.pid());
    let name = format!("processes of {SESSIONS} sessions x {SERVERS} stdio servers");
    row(&name, &[children.len() as f64], "", Aim::AtMost(SERVERS as f64), "each session called each server");
    let start = Instant::now();
    // The end of its input ends the gateway.
    drop(peer.stdin);
    let is_left = || children.iter().any(|child| is_running(*child));
    while is_left() && start.elapsed() < END {
        sleep(Duration::from_millis(5)).await;
    }
    let left = children.iter().filter(|child| is_running(**child)).count();
    let details = format!("after {:.0?}", start.elapsed());
    row("processes after the end of the gateway", &[left as f64], "", Aim::AtMost(0.0), &details);
    Ok(())
}

/// Returns the child processes of a process.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| stat(*id).is_some_and(|(_, of)| of == parent)).collect()
}

fn is_running(id: u32) -> bool {
    stat(id).is_some_and(|(state, _)| state != 'Z')
}

/// Returns the state and the parent of a process.
fn stat(id: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
