//! The command line.

use std::path::PathBuf;

use anyhow::{Context as _, Error, anyhow, bail};
use check_kit::random::fresh_seed;
use lexopt::{Arg, Parser, ValueExt as _};

use crate::{checks::CHECKS, token_client};

pub(crate) const USAGE: &str = "\
usage: fleet-check check --program PATH [--directory DIR] [--seed N] [--size PERCENT] [--check NAME]... [-- NODE ARGS]
       fleet-check serve --program PATH [--directory DIR] [-- NODE ARGS]

  check  runs the checks, each with Redis, three nodes and a balancer of its own
  serve  serves a fleet until stdin ends, and prints its URL";

/// The parsed command line.
pub(crate) enum Command {
    Help,
    Serve(Options),
    Check(Options),
    /// A process of the check `tokens`.
    TokenClient {
        redis: String,
        url: String,
    },
}

/// The options of both commands.
pub(crate) struct Options {
    /// The program of a node.
    pub(crate) program: PathBuf,
    /// Further arguments of each node.
    pub(crate) args: Vec<String>,
    /// The seed of all choices. Without an option, each run has another one.
    pub(crate) seed: u64,
    /// The size of the checks in hundredths of the full size.
    pub(crate) size: u32,
    /// The chosen checks. An empty list chooses all.
    pub(crate) checks: Vec<&'static str>,
    directory: Option<PathBuf>,
}

impl Options {
    /// The directory of the logs of the nodes.
    pub(crate) fn directory(&self) -> Result<PathBuf, Error> {
        let default = || std::env::temp_dir().join(format!("mcp-fleet-{}", std::process::id()));
        let directory = self.directory.clone().unwrap_or_else(default);
        std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        Ok(directory)
    }
}

/// Parses the arguments of the process.
pub(crate) fn parse() -> Result<Command, Error> {
    let mut parser = Parser::from_env();
    let mut command = None;
    let mut program = None;
    let mut options = Options {
        program: PathBuf::new(),
        args: Vec::new(),
        seed: fresh_seed(),
        size: 100,
        checks: Vec::new(),
        directory: None,
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            Arg::Long("program") => program = Some(PathBuf::from(parser.value()?)),
            Arg::Long("directory") => options.directory = Some(PathBuf::from(parser.value()?)),
            Arg::Long("seed") => options.seed = parser.value()?.parse()?,
            Arg::Long("size") => options.size = parser.value()?.parse()?,
            Arg::Long("check") => options.checks.push(check(&parser.value()?.string()?)?),
            Arg::Value(word) if command.is_none() => command = Some(word.string()?),
            // The words after `--`.
            Arg::Value(word) => options.args.push(word.string()?),
            _ => return Err(arg.unexpected().into()),
        }
    }
    if command.as_deref() == Some(token_client::COMMAND) {
        let [redis, url] = <[String; 2]>::try_from(options.args).map_err(|_| anyhow!("a URL is missing"))?;
        return Ok(Command::TokenClient { redis, url });
    }
    options.program = program.context("--program is missing")?;
    match command.as_deref() {
        Some("check") => Ok(Command::Check(options)),
        Some("serve") => Ok(Command::Serve(options)),
        Some(other) => bail!("`{other}` is not a command: check, serve"),
        None => bail!("the command is missing: check, serve"),
    }
}

fn check(name: &str) -> Result<&'static str, Error> {
    let names = || CHECKS.iter().map(|check| check.name);
    names()
        .find(|known| *known == name)
        .with_context(|| format!("`{name}` is not a check: {}", names().collect::<Vec<_>>().join(", ")))
}
