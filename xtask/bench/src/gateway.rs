//! `bench gateway`: the cost of a relayed call, the merged lists, the checks, the memory and the processes of a gateway.

mod checks;
mod children;
mod endpoint;
mod lists;
mod memory;
mod relay;
pub(crate) mod report;
mod upstream;

use std::time::Duration;

pub(crate) use self::upstream::{Upstream, serve_http, serve_stdio};
use self::{
    relay::Cores,
    report::{foot, head},
};
use crate::{
    choices::{self, GATEWAY},
    cpu,
    error::Error,
};

/// The extent of a measurement.
#[derive(Debug, Clone, Copy)]
struct Extent {
    rounds: usize,
    round: Duration,
}

/// Measures the figures, and prints each beside its aim. Without names, it measures all of them.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let is_quick = args.iter().any(|arg| arg == "--quick");
    let wanted: Vec<&str> = args.iter().map(String::as_str).filter(|arg| *arg != "--quick").collect();
    for name in &wanted {
        choices::check(name, "figure", &GATEWAY).map_err(Error::new)?;
    }
    let extent = match is_quick {
        true => Extent { rounds: 3, round: Duration::from_millis(200) },
        false => Extent { rounds: 11, round: Duration::from_millis(300) },
    };
    let cores = match cpu::pair() {
        Some((peer, load)) => {
            cpu::pin(load)?;
            println!("the gateway on core {peer}, the load and the servers behind the gateway on core {load}");
            Cores { peer: Some(peer), load: Some(load) }
        }
        None => {
            println!("NOT PINNED: fewer than two cores, or the system cannot choose. The figures vary more.");
            Cores { peer: None, load: None }
        }
    };
    println!("{} rounds of {:?}, in turns; the medians of the ratios of each round\n", extent.rounds, extent.round);
    head("gateway");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for figure in GATEWAY.into_iter().filter(|figure| wanted.is_empty() || wanted.contains(figure)) {
        let measured = runtime.block_on(async {
            match figure {
                "added" => relay::added(cores, extent).await,
                "cpu" => relay::cpu(cores, extent).await,
                "text" => relay::text(cores, extent).await,
                "lists" => lists::measure(cores, extent).await,
                "checks" => checks::measure(extent).await,
                "memory" => memory::measure().await,
                _ => children::measure().await,
            }
        });
        measured.map_err(|error| error.when(figure))?;
    }
    foot()
}
