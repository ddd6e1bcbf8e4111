//! The merged lists: the pages for clients, and the time from a change at a server to its announcement.

use std::time::{Duration, Instant};

use mcp_agent::Host;
use mcp_client::{Client, Update, protocol::SubscriptionFilter};
use mcp_server::{Server, tool};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{sleep, timeout};

use super::{
    Extent,
    relay::Cores,
    report::{Aim, median, row},
};
use crate::{
    case::{Revision, list_page},
    error::{Error, within},
    http::{self, Connection},
    load::GRACE,
    peer::{Peer, Start},
    server,
};

const SERVERS: usize = 100;
const TOOLS: usize = 50;
/// The time between two changes, which is longer than the shortest time between two readings of a list.
const PAUSE: Duration = Duration::from_millis(250);

/// Measures the lists and the changes.
pub(super) async fn measure(cores: Cores, extent: Extent) -> Result<(), Error> {
    for revision in Revision::ALL {
        pages(cores, extent, revision).await?;
    }
    changes(extent).await
}

/// Compares the list of 100 servers with that of one server with as many tools, byte by byte.
async fn pages(cores: Cores, extent: Extent, revision: Revision) -> Result<(), Error> {
    let options = ["--upstream", "local", "--servers", &SERVERS.to_string()].map(str::to_owned).to_vec();
    let start = Start { kind: "gateway-http", cpu: cores.peer, tools: TOOLS, gateway: options, ..Start::default() };
    let mut merged = Walk::start(&start, revision).await?;
    let tools = SERVERS * TOOLS;
    let start = Start { kind: "ours-http", cpu: cores.peer, tools, ..Start::default() };
    let mut single = Walk::start(&start, revision).await?;
    let (mut ratios, mut times) = (Vec::new(), [Vec::new(), Vec::new()]);
    for number in 0..=extent.rounds {
        let (of_gateway, alone) = (merged.round(extent.round).await?, single.round(extent.round).await?);
        if number > 0 {
            ratios.push((alone / single.bytes as f64) / (of_gateway / merged.bytes as f64));
            times[0].push(of_gateway);
            times[1].push(alone);
        }
    }
    let [of_gateway, alone] = times.map(|times| median(&times) * 1e3);
    let details =
        format!("{of_gateway:.2} ms for {} KiB, {alone:.2} ms for {} KiB", merged.bytes / 1024, single.bytes / 1024);
    let name = format!("list of {SERVERS} servers x {TOOLS} tools, {revision}");
    row(&name, &ratios, " x", Aim::AtLeast(0.8), &details);
    Ok(())
}

/// The pages of one list, with the lengths of their responses.
struct Walk {
    _peer: Peer,
    connection: Connection,
    pages: Vec<(Vec<u8>, usize)>,
    bytes: usize,
}

impl Walk {
    async fn start(start: &Start, revision: Revision) -> Result<Self, Error> {
        within(GRACE, "a list", Self::read(start, revision)).await
    }

    /// Reads all pages once, and counts the tools.
    async fn read(start: &Start, revision: Revision) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Answer<'a> {
            #[serde(borrow)]
            result: Page<'a>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Page<'a> {
            #[serde(borrow)]
            tools: Vec<&'a RawValue>,
            next_cursor: Option<String>,
        }
        let mut peer = Peer::start(start)?;
        let address = peer.address().await?;
        let session = http::open_session(address, revision, None).await?;
        let mut connection = Connection::open(address).await?;
        let (mut pages, mut tools, mut cursor) = (Vec::new(), 0, None::<String>);
        loop {
            let request = list_page(revision, &address.to_string(), session.as_deref(), cursor.as_deref());
            let answer = connection.call(&request, true).await?;
            let Answer { result: page } = serde_json::from_slice(&answer.body)?;
            tools += page.tools.len();
            pages.push((request, answer.length));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        if tools != SERVERS * TOOLS {
            return Err(Error::new(format!("the list has {tools} tools")));
        }
        let bytes = pages.iter().map(|(_, length)| length).sum();
        Ok(Self { _peer: peer, connection, pages, bytes })
    }

    /// Reads the list again and again. Returns the median of the seconds.
    async fn round(&mut self, length: Duration) -> Result<f64, Error> {
        let (mut times, deadline) = (Vec::new(), Instant::now() + length);
        while Instant::now() < deadline {
            let start = Instant::now();
            for (request, expected) in &self.pages {
                let answer = within(GRACE, "a page", self.connection.call(request, false)).await?;
                if answer.status() != 200 || answer.length != *expected {
                    return Err(Error::new("a page has changed"));
                }
            }
            times.push(start.elapsed().as_secs_f64());
        }
        Ok(median(&times))
    }
}

/// Measures the time from a new tool at one of 100 servers to the announcement of the merged list.
async fn changes(extent: Extent) -> Result<(), Error> {
    let servers: Vec<Server> = (0..SERVERS).map(|_| server::server(TOOLS)).collect();
    let mut host = Host::builder("bench", "1");
    for (number, server) in servers.iter().enumerate() {
        host = host.server(format!("s{number:03}"), server);
    }
    let host = host.start().await?;
    let gateway = host.clone().into_server()?.build();
    let client = Client::builder("bench", "1").connect(&gateway).await?;
    let mut updates = client.listen(SubscriptionFilter::lists()).await?;
    let changed = &servers[SERVERS / 2];
    let mut times = Vec::new();
    for number in 0..=extent.rounds {
        sleep(PAUSE).await;
        let start = Instant::now();
        if number % 2 == 0 {
            changed.tools().add(tool("added", async || "text"))?;
        } else {
            changed.tools().remove("added");
        }
        loop {
            let update = timeout(GRACE, updates.next()).await;
            let update = update.map_err(|_| Error::new(format!("no announcement within {GRACE:?}")))?;
            if update.ok_or_else(|| Error::new("the subscription ended"))?? == Update::ToolsChanged {
                break;
            }
        }
        if number > 0 {
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    row("a changed list until its announcement, same lists", &times, " ms", Aim::AtMost(20.0), "in one process");
    client.close().await;
    host.shutdown().await;
    Ok(())
}
