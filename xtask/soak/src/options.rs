//! The command line.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Error, bail};
use check_kit::random::fresh_seed;
use lexopt::{Arg, Parser, ValueExt as _};

use crate::load::part;

pub(crate) const USAGE: &str = "\
usage: soak-check run [--seconds N] [--seed S] [--load PART]... [--directory DIR]

  --seconds N      the time of the load (default: 60)
  --seed S         the seed of all random choices (default: another one in each run)
  --load PART      a part of the load: http, changes, vanish, stdio, memory, gateway (default: all)
  --directory DIR  the directory of the logs of the servers";

/// The seconds of the load without an option.
const SECONDS: u64 = 60;

/// The parsed command line.
pub(crate) enum Command {
    Help,
    Run(Options),
    /// A server over HTTP, which a run starts.
    Node {
        port: u16,
    },
    /// A server over stdio, which a run starts.
    Stdio,
    /// A gateway over HTTP, which a run starts.
    Gateway {
        port: u16,
        /// The URL of the server behind the gateway.
        upstream: String,
    },
}

/// The options of a run.
pub(crate) struct Options {
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    /// The chosen parts of the load. An empty list chooses all.
    pub(crate) parts: Vec<&'static str>,
    /// The directory of the logs.
    pub(crate) directory: PathBuf,
}

/// Parses the arguments of the process.
pub(crate) fn parse() -> Result<Command, Error> {
    let mut parser = Parser::from_env();
    let (mut command, mut seconds, mut seed, mut port) = (None, SECONDS, None, 0);
    let (mut directory, mut upstream, mut parts) = (None, None, Vec::new());
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            Arg::Long("seconds") => seconds = parser.value()?.parse::<u64>()?.max(1),
            Arg::Long("seed") => seed = Some(parser.value()?.parse()?),
            Arg::Long("load") => parts.push(part(&parser.value()?.string()?)?),
            Arg::Long("directory") => directory = Some(PathBuf::from(parser.value()?)),
            Arg::Long("port") => port = parser.value()?.parse()?,
            Arg::Long("upstream") => upstream = Some(parser.value()?.string()?),
            Arg::Value(word) if command.is_none() => command = Some(word.string()?),
            _ => return Err(arg.unexpected().into()),
        }
    }
    Ok(match command.as_deref() {
        Some("run") => {
            let default = || std::env::temp_dir().join(format!("mcp-soak-{}", std::process::id()));
            let directory = directory.unwrap_or_else(default);
            std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
            Command::Run(Options {
                time: Duration::from_secs(seconds),
                seed: seed.unwrap_or_else(fresh_seed),
                parts,
                directory,
            })
        }
        Some("node") => Command::Node { port },
        Some("stdio") => Command::Stdio,
        Some("gateway") => Command::Gateway { port, upstream: upstream.context("--upstream is missing")? },
        Some(other) => bail!("`{other}` is not a command: run"),
        None => bail!("the command is missing: run"),
    })
}
