//! `cargo xtask soak`: a long run of mixed load with faults, and its report.

use std::{process::Command, time::Duration};

use anyhow::{Context, Error};
use lexopt::{Arg, Parser, ValueExt as _};

use crate::{
    conformance::fixture,
    process,
    workspace::{self, Metadata},
};

pub(crate) const USAGE: &str = "usage: cargo xtask soak [--seconds N] [--seed S]";
const PROGRAM: &str = "soak-check";
/// The seconds of a run, unless `--seconds` sets others.
const SECONDS: u64 = 60;
/// The time for the start, the ends of the open calls and the judgement, besides the seconds of the load.
const SETUP: Duration = Duration::from_secs(300);

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    seconds: u64,
    /// Without a seed, each run has another one.
    seed: Option<u64>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, Error> {
        let mut options = Self { seconds: SECONDS, seed: None };
        let mut parser = Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Arg::Long("seconds") => options.seconds = parser.value()?.parse::<u64>()?.max(1),
                Arg::Long("seed") => options.seed = Some(parser.value()?.parse()?),
                _ => return Err(arg.unexpected().into()),
            }
        }
        Ok(options)
    }
}

/// Builds the program and runs it.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let options = Options::parse(args).context(USAGE)?;
    let root = workspace::root();
    let mut command = Command::new(fixture::binary(&root, PROGRAM)?);
    command.args(["run", "--seconds", &options.seconds.to_string()]);
    command.arg("--directory").arg(Metadata::load(&root)?.target().join("soak"));
    if let Some(seed) = options.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    process::run(&mut command, Duration::from_secs(options.seconds) + SETUP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    fn parse(line: &str) -> Result<Options, Error> {
        Options::parse(&words(line))
    }

    #[test]
    fn seconds_and_seed_are_read() {
        assert_eq!(parse("").unwrap(), Options { seconds: SECONDS, seed: None });
        assert_eq!(parse("--seconds 20 --seed 7").unwrap(), Options { seconds: 20, seed: Some(7) });
        assert!(parse("--seed").is_err());
        assert!(parse("--fast").is_err());
    }
}
