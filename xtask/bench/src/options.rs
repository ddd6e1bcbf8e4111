//! The options of `bench load`.

use std::{path::Path, time::Duration};

use lexopt::{Arg, Parser, ValueExt as _};

use crate::{
    case::{CASES, Case},
    choices,
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
    /// The cores of the servers and of the load.
    pub(crate) cores: Option<(usize, usize)>,
}

impl Options {
    pub(crate) fn parse(args: &[String]) -> Result<Self, Error> {
        let (mut cases, mut peers, mut quick) = (Vec::new(), Vec::new(), false);
        let (mut rounds, mut seconds) = (None, None);
        let mut parser = Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Arg::Long("quick") => quick = true,
                Arg::Long("case") => {
                    let name = parser.value()?.string()?;
                    choices::check(&name, "case", &choices::CASES).map_err(Error::new)?;
                    choices::check_once(&name, "case", &cases).map_err(Error::new)?;
                    cases.push(name);
                }
                Arg::Long("peers") => peers = Library::all(Path::new(&parser.value()?))?,
                Arg::Long("rounds") => {
                    rounds = Some(choices::rounds(&parser.value()?.string()?).map_err(Error::new)?);
                }
                Arg::Long("seconds") => {
                    seconds = Some(choices::seconds(&parser.value()?.string()?).map_err(Error::new)?);
                }
                _ => return Err(arg.unexpected().into()),
            }
        }
        // Both values have precedence over --quick, in each order of the options.
        let (default_rounds, default_seconds) = if quick { (3, 0.3) } else { (7, 1.0) };
        let round = Duration::from_secs_f64(seconds.unwrap_or(default_seconds));
        Ok(Self { cases, rounds: rounds.unwrap_or(default_rounds), round, peers, cores: None })
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
        for (line, rounds, millis) in [
            ("", 7, 1_000),
            ("--quick", 3, 300),
            ("--quick --rounds 9", 9, 300),
            ("--rounds 9 --quick", 9, 300),
            ("--seconds 2 --rounds 9 --quick", 9, 2_000),
        ] {
            let options = parse(line).unwrap();
            assert_eq!((options.rounds, options.round), (rounds, Duration::from_millis(millis)), "{line}");
        }
    }

    #[test]
    fn each_case_has_its_name_in_the_command_line() {
        assert_eq!(CASES.iter().map(|case| case.name).collect::<Vec<_>>(), choices::CASES);
    }

    #[test]
    fn invalid_options_are_rejected() {
        for line in [
            "--case",
            "--case none",
            "--case text --case text",
            "--rounds 0",
            "--rounds x",
            "--seconds nan",
            "--seconds 60",
            "--fast 1",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
