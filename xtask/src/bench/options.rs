//! The command line of the stages. It is complete and valid before the first build begins.

use std::path::PathBuf;

use anyhow::Error;
use lexopt::{Arg, Parser, ValueExt as _};

use super::choices;

/// The rounds of the load of a publication.
///
/// An even number, because each second round has the reversed order.
const PUBLISHED: [&str; 4] = ["--rounds", "4", "--seconds", "2"];

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Builds,
    Load,
    Start,
    Memory,
    Host,
    Gateway,
    Growth,
}

impl Stage {
    const ALL: [Self; 7] =
        [Self::Builds, Self::Load, Self::Start, Self::Memory, Self::Host, Self::Gateway, Self::Growth];
    /// The stages that the page shows.
    const PUBLISHED: [Self; 5] = [Self::Builds, Self::Load, Self::Start, Self::Memory, Self::Growth];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Builds => "builds",
            Self::Load => "load",
            Self::Start => "start",
            Self::Memory => "memory",
            Self::Host => "host",
            Self::Gateway => "gateway",
            Self::Growth => "growth",
        }
    }
}

/// The command line.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Options {
    pub(super) stages: Vec<Stage>,
    pub(super) peers: bool,
    pub(super) quick: bool,
    pub(super) no_build: bool,
    pub(super) publish: bool,
    /// The arguments of the load.
    pub(super) load: Vec<String>,
    /// The series of the growth.
    pub(super) series: Vec<String>,
    /// The folder of the plots of the run.
    pub(super) plots: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(args: &[String]) -> Result<Self, Error> {
        let (mut options, mut no_load) = (Self::default(), false);
        let mut parser = Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Arg::Long("peers") => options.peers = true,
                Arg::Long("quick") => options.quick = true,
                Arg::Long("no-build") => options.no_build = true,
                Arg::Long("publish") => options.publish = true,
                Arg::Long("no-load") => no_load = true,
                Arg::Long("plots") => options.plots = Some(parser.value()?.into()),
                Arg::Long(name @ ("case" | "rounds" | "seconds")) => {
                    let flag = format!("--{name}");
                    let value = parser.value()?.string()?;
                    match &*flag {
                        "--case" => choices::check(&value, "case", &choices::CASES),
                        "--rounds" => choices::rounds(&value).map(drop),
                        _ => choices::seconds(&value).map(drop),
                    }
                    .map_err(Error::msg)?;
                    if flag == "--case" {
                        choices::check_once(&value, "case", &options.load).map_err(Error::msg)?;
                    }
                    options.load.extend([flag, value]);
                }
                Arg::Value(name) => {
                    let names = || Stage::ALL.map(Stage::name).join(", ");
                    match Stage::ALL.into_iter().find(|stage| *stage.name() == *name) {
                        Some(stage) if options.stages.contains(&stage) => {
                            return Err(Error::msg(format!("the stage `{}` occurs twice", stage.name())));
                        }
                        Some(stage) => options.stages.push(stage),
                        None if options.stages == [Stage::Growth] => {
                            let name = name.string()?;
                            choices::check(&name, "series", &choices::SERIES).map_err(Error::msg)?;
                            choices::check_once(&name, "series", &options.series).map_err(Error::msg)?;
                            options.series.push(name);
                        }
                        None => return Err(Error::msg(format!("{name:?} is not a stage: {}", names()))),
                    }
                }
                _ => return Err(arg.unexpected().into()),
            }
        }
        let has_case = options.load.iter().any(|arg| arg == "--case");
        if options.publish {
            let is_partial = options.quick || no_load || has_case || !options.stages.is_empty();
            if is_partial {
                let parts = "stages, --quick, --case or --no-load";
                return Err(Error::msg(format!("--publish measures all of the page, and does not take {parts}")));
            }
            options.peers = true;
            let is_wanted = |stage: &Stage| !options.no_build || *stage != Stage::Builds;
            options.stages = Stage::PUBLISHED.into_iter().filter(is_wanted).collect();
            // A later option overrides an earlier one.
            options.load.splice(..0, PUBLISHED.map(str::to_owned));
            let is_valid = options.value("--rounds").is_some_and(|rounds| rounds >= 4.0 && rounds % 2.0 == 0.0)
                && options.value("--seconds").is_some_and(|seconds| seconds >= 2.0);
            if !is_valid {
                let bounds = "an even number of at least 4 rounds, and rounds of at least 2 seconds";
                return Err(Error::msg(format!("--publish needs {bounds}")));
            }
        }
        if no_load && (has_case || options.stages.iter().any(|stage| *stage != Stage::Builds)) {
            return Err(Error::msg("--no-load selects the stage `builds` alone"));
        }
        if options.quick {
            options.load.push("--quick".to_owned());
        }
        if options.stages.is_empty() {
            // A case is a part of the load alone.
            let is_load = |stage: &Stage| *stage == Stage::Load;
            let is_wanted = |stage: &Stage| match has_case {
                true => is_load(stage),
                false => *stage != Stage::Growth && (!no_load || *stage == Stage::Builds),
            };
            options.stages = Stage::ALL.into_iter().filter(is_wanted).collect();
        }
        options.check_stages()?;
        Ok(options)
    }

    /// Rejects an option that no selected stage reads.
    fn check_stages(&self) -> Result<(), Error> {
        use Stage::{Builds, Gateway, Growth, Load, Memory, Start};
        let is_quick = self.quick;
        // --quick is an argument of the load too.
        let has_load = self.load.iter().any(|arg| arg != "--quick");
        let needs: [(bool, &str, &[Stage]); 5] = [
            (has_load, "--case, --rounds and --seconds need", &[Load]),
            (is_quick, "--quick needs", &[Builds, Load, Start, Gateway, Growth]),
            (self.peers, "--peers needs", &[Builds, Load, Start, Memory]),
            (self.no_build && !self.publish, "--no-build needs", &[Builds]),
            (self.plots.is_some(), "--plots needs", &Stage::PUBLISHED),
        ];
        for (is_given, options, readers) in needs {
            if is_given && !self.stages.iter().any(|stage| readers.contains(stage)) {
                let names: Vec<&str> = readers.iter().map(|stage| stage.name()).collect();
                return Err(Error::msg(format!("{options} a stage of: {}", names.join(", "))));
            }
        }
        Ok(())
    }

    /// The kinds of the programs of other libraries that the selected cases load: `http`, `stdio` and `client`.
    pub(super) fn kinds(&self) -> Vec<&'static str> {
        let mut pairs = self.load.windows(2).filter(|pair| pair[0] == "--case");
        let cases: Vec<&str> = pairs.by_ref().map(|pair| &*pair[1]).collect();
        let is_wanted = |kind: &&str| cases.is_empty() || cases.iter().any(|case| kind_of(case) == *kind);
        KINDS.into_iter().filter(is_wanted).collect()
    }

    /// The last value of an option of the load.
    fn value(&self, name: &str) -> Option<f64> {
        let mut pairs = self.load.windows(2).rev();
        pairs.find_map(|pair| (pair[0] == name).then(|| pair[1].parse().ok())?)
    }

    /// The requested seconds of all rounds of a program. The defaults of the load are 7 rounds of 1 second.
    pub(super) fn round_seconds(&self) -> f64 {
        self.value("--rounds").unwrap_or(7.0) * self.value("--seconds").unwrap_or(1.0)
    }

    /// The rounds of the load, as text. The options of a publication name both values.
    pub(super) fn rounds(&self) -> String {
        let value = |name: &str| self.value(name).unwrap_or_default();
        format!("{} rounds of {} s", value("--rounds"), value("--seconds"))
    }
}

/// The kinds of the programs of other libraries.
pub(super) const KINDS: [&str; 3] = ["stdio", "http", "client"];

/// The kind of the programs that a case loads.
fn kind_of(case: &str) -> &'static str {
    let is_of = |kind: &str| case.split('-').next() == Some(kind);
    KINDS.into_iter().find(|kind| is_of(kind)).unwrap_or("http")
}

/// Checks arguments that the measuring program reads itself. Returns false for other arguments.
pub(super) fn check_direct(args: &[String]) -> Result<bool, Error> {
    let Some((first, rest)) = args.split_first() else { return Ok(false) };
    let names: &[&str] = match first.as_str() {
        "fleet" => &[],
        "gateway" if !rest.is_empty() => &choices::GATEWAY,
        _ => return Ok(false),
    };
    for (number, name) in rest.iter().enumerate() {
        choices::check_once(name, "argument", &rest[..number]).map_err(Error::msg)?;
        if name != "--quick" {
            if names.is_empty() {
                return Err(Error::msg(format!("`{first}` takes only --quick, not `{name}`")));
            }
            choices::check(name, "figure", names).map_err(Error::msg)?;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    fn parse(line: &str) -> Result<Options, Error> {
        Options::parse(&words(line))
    }

    #[test]
    fn the_arguments_select_stages() {
        for (line, stages) in [
            ("", &Stage::ALL[..6]),
            ("growth tools", &[Stage::Growth]),
            ("--publish", &Stage::PUBLISHED),
            ("--no-load", &[Stage::Builds]),
            ("--case text", &[Stage::Load]),
            ("start memory --peers", &[Stage::Start, Stage::Memory]),
        ] {
            assert_eq!(parse(line).unwrap().stages, stages, "{line}");
        }
        let options = parse("load --case text --rounds 3 --quick --peers").unwrap();
        assert_eq!(options.load.join(" "), "--case text --rounds 3 --quick");
        assert!(options.peers && options.quick && !options.no_build);
        assert_eq!(parse("--publish").unwrap().load, PUBLISHED);
        assert_eq!(parse("growth tools").unwrap().series, ["tools"]);
    }

    #[test]
    fn invalid_values_are_rejected_before_each_build() {
        for line in [
            "--case",
            "--case none",
            "--rounds 0",
            "--rounds 1001",
            "--seconds nan",
            "--seconds 60",
            "everything",
            "growth none",
            "--fast",
            "load load",
            "--case text --case text",
            "growth tools tools",
            "start --case text",
            "builds --rounds 3",
            "--no-load --case text",
            "memory --quick",
            "host --peers",
            "load --no-build",
            "load --no-load",
            "load --plots",
            "host --plots /a",
            "--publish --rounds 2",
            "--publish --rounds 5",
            "--publish --seconds 1.9",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        for line in ["memory start --quick", "--quick", "--peers --no-build", "builds --no-load", "gateway --quick"] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn cases_need_the_programs_of_their_kinds() {
        for (line, kinds) in [
            ("load --peers", &KINDS as &[&str]),
            ("load --peers --case stdio-list", &["stdio"]),
            ("load --peers --case text --rounds 3", &["http"]),
            ("--peers --case client-stdio-32 --case open-32", &["http", "client"]),
        ] {
            assert_eq!(parse(line).unwrap().kinds(), kinds, "{line}");
        }
        assert_eq!(parse("growth tools --plots /a").unwrap().plots, Some(PathBuf::from("/a")));
    }

    #[test]
    fn figures_of_the_measuring_program_are_checked() {
        for (line, expected) in [
            ("fleet", Some(true)),
            ("fleet --quick", Some(true)),
            ("fleet all", None),
            ("gateway", Some(false)),
            ("gateway added --quick", Some(true)),
            ("gateway none", None),
            ("gateway added added", None),
            ("load", Some(false)),
            ("", Some(false)),
        ] {
            assert_eq!(check_direct(&words(line)).ok(), expected, "{line}");
        }
    }

    #[test]
    fn a_publication_measures_all_of_the_page() {
        for (line, rounds) in [
            ("--publish", "4 rounds of 2 s"),
            ("--publish --peers", "4 rounds of 2 s"),
            ("--publish --rounds 6", "6 rounds of 2 s"),
            ("--seconds 2.5 --publish --rounds 8", "8 rounds of 2.5 s"),
        ] {
            let options = parse(line).unwrap();
            assert_eq!(
                (options.rounds(), &*options.stages),
                (rounds.to_owned(), &Stage::PUBLISHED as &[Stage]),
                "{line}"
            );
            assert!(options.peers);
        }
        let stages = parse("--publish --no-build").unwrap().stages;
        assert_eq!(stages, Stage::PUBLISHED[1..]);
        for part in ["load", "growth tools", "--quick", "--case text", "--no-load"] {
            for line in [format!("--publish {part}"), format!("{part} --publish")] {
                assert!(parse(&line).unwrap_err().to_string().starts_with("--publish measures all"), "{line}");
            }
        }
    }
}
