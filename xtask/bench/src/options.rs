//! The options of `bench load`.

use std::{path::Path, time::Duration};

use lexopt::{Arg, Parser, ValueExt as _};

use crate::{
    case::{CASES, Case},
    error::Error,
    library::Library,
};

/// The extent of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Options {
    cases: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) round: Duration,
    /// The libraries beside ours.
    pub(crate) peers: Vec<Library>,
}

/// More rounds take a day.
const MAX_ROUNDS: usize = 1000;
const MAX_SECONDS: f64 = 20.0;

impl Options {
    pub(crate) fn parse(args: &[String]) -> Result<Self, Error> {
        let mut options = Self { cases: Vec::new(), rounds: 7, round: Duration::from_secs(1), peers: Vec::new() };
        let mut parser = Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Arg::Long("quick") => {
                    options.rounds = 3;
                    options.round = Duration::from_millis(300);
                }
                Arg::Long("case") => {
                    let name = parser.value()?.string()?;
                    if !CASES.iter().any(|case| case.name == name) {
                        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
                        return Err(Error::new(format!("`{name}` is not a case: {}", names.join(", "))));
                    }
                    options.cases.push(name);
                }
                Arg::Long("peers") => options.peers = Library::all(Path::new(&parser.value()?))?,
                Arg::Long("rounds") => {
                    let rounds = parser.value()?.parse().ok().filter(|rounds| (1..=MAX_ROUNDS).contains(rounds));
                    options.rounds = rounds.ok_or_else(|| Error::new(format!("--rounds takes 1 to {MAX_ROUNDS}")))?;
                }
                Arg::Long("seconds") => {
                    let seconds = parser.value()?.parse().ok().filter(|seconds| (0.05..=MAX_SECONDS).contains(seconds));
                    let seconds =
                        seconds.ok_or_else(|| Error::new(format!("--seconds takes 0.05 to {MAX_SECONDS}")))?;
                    options.round = Duration::from_secs_f64(seconds);
                }
                _ => return Err(arg.unexpected().into()),
            }
        }
        Ok(options)
    }

    /// The selected cases; all cases if the options name none.
    pub(crate) fn cases(&self) -> impl Iterator<Item = &'static Case> {
        CASES.iter().filter(|case| self.cases.is_empty() || self.cases.iter().any(|name| name == case.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Error> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&args)
    }

    #[test]
    fn valid_options_are_parsed() {
        assert_eq!(parse("").unwrap().cases().count(), CASES.len());
        let options = parse("--case text --case http-1 --rounds 2 --seconds 0.5").unwrap();
        assert_eq!(options.cases().map(|case| case.name).collect::<Vec<_>>(), ["http-1", "text"]);
        assert_eq!((options.rounds, options.round), (2, Duration::from_millis(500)));
        assert_eq!(parse("--quick --rounds 9").unwrap().rounds, 9);
    }

    #[test]
    fn invalid_options_are_rejected() {
        for line in ["--case", "--case none", "--rounds 0", "--rounds x", "--seconds nan", "--seconds 60", "--fast 1"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
