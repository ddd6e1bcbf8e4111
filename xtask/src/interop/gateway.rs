//! Foreign clients against our server behind our gateway, in the four cells of its relay.

use std::{
    fmt,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::Error;

use super::{
    Options,
    install::{Installed, Ready},
    matrix::{COLUMNS, Cell, Matrix},
    peers::{Era, PEERS, Peer},
    row::{self, Target},
};
use crate::{
    conformance::{Leg, fixture},
    parallel,
    workspace::Metadata,
};

/// All checks of one client in one cell.
const ROW_LIMIT: Duration = Duration::from_secs(90);
/// The rows that run at the same time. Each of them has a gateway and a server of its own.
const WORKERS: usize = 2;

/// One client in one cell.
struct Planned<'a> {
    peer: &'static Peer,
    title: String,
    runtime: &'a Ready,
    /// The era of the client.
    era: Era,
    /// The era of the server.
    upstream: Era,
}

/// Runs the clients of the SDKs in each cell, and a client that is no SDK if an option names it.
pub(super) fn run(options: &Options, root: &Path, metadata: &Metadata, installed: &mut Installed) -> Result<(), Error> {
    let binary = fixture::build(root, metadata, Leg::Gateway)?;
    fixture::build_gateway(root, &binary)?;
    let mut matrix = Matrix::new("client through the gateway", COLUMNS);
    let mut ready = Vec::new();
    for peer in PEERS.iter().filter(|peer| options.wants(peer.name) && (peer.is_sdk || !options.peers.is_empty())) {
        let title = installed.title(peer.title, peer.runtime, peer.package);
        match installed.runtime(peer.runtime) {
            Ok(runtime) => ready.push((peer, title, runtime)),
            Err(error) => matrix.not_run(&title, &error),
        }
    }
    let mut rows = Vec::new();
    for (peer, title, runtime) in &ready {
        for upstream in [Era::Legacy, Era::Modern] {
            // The gateway serves each era, so a client that detects the era uses the modern one.
            for era in peer.eras.iter().copied().filter(|era| *era != Era::Auto) {
                rows.push(Planned { peer, title: title.clone(), runtime, era, upstream });
            }
        }
    }
    let directory = metadata.target().join("interop/gateway");
    let (count, ended) = (rows.len(), AtomicUsize::new(0));
    let done = parallel::map(&rows, WORKERS, |planned| {
        let began = Instant::now();
        let cells = planned.run(&binary, &directory);
        let ok = cells.iter().filter(|cell| matches!(cell, Cell::Ok)).count();
        let (ended, took) = (ended.fetch_add(1, Ordering::Relaxed) + 1, began.elapsed().as_secs_f64());
        println!("{planned}: {ok} of {} ok, {took:.1} s ({ended} of {count})", COLUMNS.len());
        cells
    });
    for (planned, cells) in rows.iter().zip(done) {
        let cell = format!("{} server", planned.upstream);
        matrix.row(&planned.title, &cell, planned.era, cells);
    }
    matrix.finish()
}

impl Planned<'_> {
    fn run(&self, binary: &Path, directory: &Path) -> Vec<Cell> {
        let name = format!("{}-{}-{}", self.peer.name, self.era.name(), self.upstream.name());
        let cells = fixture::gateway(binary, self.upstream.name(), &directory.join(name)).and_then(|server| {
            let target = Target::gateway(server, self.era, self.upstream);
            row::run(row::script(self.runtime, self.peer.script, &target), COLUMNS, ROW_LIMIT)
        });
        cells.unwrap_or_else(|error| row::not_started(&error, COLUMNS))
    }
}

impl fmt::Display for Planned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, a server of the {} era", self.title, self.era, self.upstream)
    }
}
