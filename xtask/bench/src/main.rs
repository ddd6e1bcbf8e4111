//! The program behind `cargo xtask bench`: the load generator and the measured servers.
//!
//! `bench load` measures ratios to a bare limit. The bare peer of a server reads the same bytes over the same transport, parses
//! them into a `serde_json::Value`, and returns a prepared response of the same length. The bare peer of a client over HTTP is a
//! loop around `reqwest`, and over stdio a loop over lines. A server with authentication is compared with the same server without
//! it. Short rounds alternate in one run, because other load on the machine varies.
//!
//! The other commands measure times, memory, sizes and rates, some of them beside another form of the same work.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints its results")]

use std::{path::PathBuf, process::ExitCode};

use crate::{error::Error, figure::Figure};

mod attack;
mod auth;
mod bare;
mod busy;
mod case;
mod choices;
mod client;
mod cpu;
mod error;
mod figure;
mod fleet;
mod gateway;
mod growth;
mod handover;
mod host;
mod http;
mod library;
mod load;
mod memory;
mod options;
mod peer;
mod report;
mod server;
mod start;
mod stdio;
mod turns;
mod work;

const USAGE: &str = "\
usage: bench load [--case NAME]... [--rounds N] [--seconds S] [--quick] [--peers DIR]   measure and print a table
       bench memory [--peers DIR]                                         the memory of sessions and streams
       bench start --ours PROGRAM --bare PROGRAM [--peers DIR] [--starts N]   the start and the memory of a stdio server
       bench growth [SERIES]... [--series FILE] [--quick]                 how costs grow with sizes
       bench host                                                         the bridge, the search and the checks of a host
       bench gateway [FIGURE]... [--quick]                                the relay, the lists and the memory of a gateway
       bench fleet [--quick]                                              the cost of a shared store
       bench peer ours-http|ours-stdio [--cpu N] [--tools N] [--auth PROVIDER] [--redis URL]   the server under test
       bench peer bare-http|bare-sessions|bare-stdio|bare-stdio-gathered --answer FILE [--cpu N]   a bare limit
       bench peer growth-http [--cpu N] [--tools N]                       the server under test with raised limits
       bench peer bare-mcp|bare-mcp-stdio [--cpu N]                       a bare server for clients
       bench peer bare-relay|bare-relay-stdio [--cpu N] [--upstream URL] [--upstream-cpu N]   a bare relay
       bench peer gateway-http|gateway-stdio [--cpu N] [--upstream URL|stdio|local] [--servers N] [--tools N]
                          [--revision DATE] [--upstream-cpu N]            the gateway under test
       bench peer exec PROGRAM [ARGUMENT]...                              a program that ends with its parent process
`--json FILE` as the first option of `load`, `growth`, `memory` and `start` writes their figures.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((command, _)) if cfg!(debug_assertions) && command != "peer" => {
            Err(Error::new("a debug build has no valid figures: `cargo xtask bench` builds for release"))
        }
        Some((command, rest)) if command == "load" => judged(rest, load::run),
        Some((command, rest)) if command == "growth" => judged(rest, growth::run),
        Some((command, rest)) if command == "memory" => judged(rest, memory::run),
        Some((command, rest)) if command == "start" => judged(rest, start::run),
        Some((command, [])) if command == "host" => host::run(),
        Some((command, rest)) if command == "gateway" => gateway::run(rest),
        Some((command, rest)) if command == "fleet" => fleet::run(rest),
        Some((command, rest)) if command == "peer" => peer(rest),
        _ => Err(Error::new(USAGE)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures figures, writes them as JSON on demand, and fails if a figure misses its aim.
fn judged(args: &[String], measure: fn(&[String]) -> Result<Vec<Figure>, Error>) -> Result<(), Error> {
    let (json, rest) = match args {
        [flag, path, rest @ ..] if flag == "--json" => (Some(PathBuf::from(path)), rest),
        rest => (None, rest),
    };
    let figures = measure(rest)?;
    if let Some(path) = json {
        figure::write(&path, &figures)?;
    }
    if let Some(open) = figure::without_verdict(&figures) {
        println!("{open}");
    }
    figure::missed(&figures).map_or(Ok(()), |missed| Err(Error::new(missed)))
}

/// Runs as one of the servers.
fn peer(args: &[String]) -> Result<(), Error> {
    let (kind, rest) = args.split_first().ok_or_else(|| Error::new(USAGE))?;
    if kind == "exec" {
        let (program, rest) = rest.split_first().ok_or_else(|| Error::new(USAGE))?;
        cpu::end_with_parent();
        return Err(cpu::replace_with(program, rest).when(program));
    }
    let (mut cpu, mut tools, mut auth, mut redis, mut answer) = (None, 0, None, None, None);
    let mut upstream = gateway::Upstream::default();
    let mut rest = rest.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().ok_or_else(|| Error::new(USAGE))?;
        match flag.as_str() {
            "--cpu" => cpu = Some(value.parse()?),
            "--tools" => tools = value.parse()?,
            "--auth" => auth = Some(auth::Auth::parse(value)?),
            "--redis" => redis = Some(value.clone()),
            "--answer" => answer = Some(PathBuf::from(value)),
            _ if upstream.set(flag, value)? => {}
            _ => return Err(Error::new(USAGE)),
        }
    }
    cpu::end_with_parent();
    if let Some(cpu) = cpu {
        // Before there are threads: they inherit it, and the runtime starts as many workers as there are cores.
        cpu::pin(cpu)?;
    }
    let answer = || {
        let path = answer.ok_or_else(|| Error::new(USAGE))?;
        std::fs::read(&path).map_err(|error| Error::new(format!("{}: {error}", path.display())))
    };
    match kind.as_str() {
        "ours-http" => server::http(tools, auth, redis.as_deref()),
        "ours-stdio" => server::stdio(tools),
        "gateway-http" => gateway::serve_http(&upstream, tools),
        "gateway-stdio" => gateway::serve_stdio(&upstream, tools),
        "bare-relay" => bare::relay(upstream.target()),
        "bare-relay-stdio" => bare::relay_stdio(upstream.cpu()),
        "bare-http" => bare::http(answer()?),
        "growth-http" => server::growth(tools),
        "bare-sessions" => bare::sessions(answer()?),
        "bare-streams" => bare::streams(),
        "bare-mcp" => bare::mcp(),
        "bare-mcp-stdio" => bare::mcp_stdio(),
        "bare-stdio" => bare::stdio(answer()?, false),
        "bare-stdio-gathered" => bare::stdio(answer()?, true),
        _ => Err(Error::new(USAGE)),
    }
}
