//! `cargo xtask bench`: the speed of servers and clients as ratios to bare limits, their memory, their builds, and their growth.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Error};
use serde::de::DeserializeOwned;

use self::{
    builds::Folders,
    figure::{Aim, Figure, Series},
    machine::Machine,
    options::{Options, Stage},
    publication::{Measured, Publication},
};
use crate::{
    process,
    workspace::{self, Metadata},
};

mod builds;
#[path = "../bench/src/busy.rs"]
mod busy;
#[path = "../bench/src/choices.rs"]
mod choices;
mod commit;
mod date;
#[path = "../bench/src/figure.rs"]
mod figure;
mod instructions;
mod machine;
mod options;
mod page;
mod plot;
mod publication;
mod stamp;
mod svg;

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench [STAGE]... [--peers] [--quick] [--case NAME]... [--rounds N] [--seconds S] [--no-build] [--no-load]
                         [--plots DIR]
       cargo xtask bench growth [tools|sessions|streams|subscriptions|tasks|connections|payload]... [--quick] [--plots DIR]
       cargo xtask bench --publish [--no-build] [--rounds N] [--seconds S]
       cargo xtask bench render
       cargo xtask bench instructions [--update [--allow-growth] | --parts [CASE]...]
       cargo xtask bench micro [NAME]
       cargo xtask bench fleet [--quick]
       cargo xtask bench gateway [added|cpu|text|lists|checks|memory|children]... [--quick]

stages: builds, load, start, memory, host, gateway, growth. Without a name, all of them but growth run.
--peers measures rmcp and tower-mcp in the same run. --quick measures fewer rounds and smaller sizes, and omits cold builds.
--no-build omits the cold builds. --no-load selects the stage `builds` alone. --case selects the stage `load` alone.
cases: http-1, http-32, list, text, open-32, stdio-1, stdio-64, stdio-64-gathered, stdio-list, client-1, client-32,
client-stdio-32, auth-jwt, auth-api-key, auth-introspection, auth-dpop, auth-guesses. With --case, --peers builds the programs of
these cases only. The stage `load` has 7 rounds of 1 s, with --quick 3 of 0.3 s, and with --publish 4 of 2 s.
--plots writes the plots of the run to a folder: speed.svg, costs.svg, and one for each series of the growth.
--publish measures all that docs/performance.md shows, and rewrites that page, its plots and its results. It waits until the
machine is quiet before each stage and before each cold build. It needs an even number of at least 4 rounds of at least 2
seconds, and no uncommitted changes of the measured programs. During the run, these programs and xtask may not change. With
--no-build, the page keeps the figures of its builds, and their date. The files that they follow must be the same.
render rewrites the page and the plots from the committed results. instructions counts the instructions of the hot paths, and micro
measures their times. --update lowers the ceilings of the instructions, --allow-growth raises them too, and --parts shows the
instructions of each crate. Without an option, it fails if a count is 3 % above its ceiling, or more than 1.9 % below it.
open-32 is the row `initialize and DELETE`, and auth-guesses are the rows `beside wrong passwords`.
cases of instructions: parse-message, dispatch-2025-11-25, dispatch-2026-07-28, http-2025-11-25, http-2026-07-28, http-session,
http-list-1000, http-text-1mib, http-api-key, http-remembered-token, notify-64-2025-11-25, notify-64-2026-07-28,
stdio-2025-11-25, stdio-2026-07-28, stdio-16-2026-07-28, bare-stdio-2026-07-28, client-2025-11-25, client-2026-07-28,
client-http-2025-11-25, client-http-2026-07-28, client-http-8-2025-11-25, client-http-8-2026-07-28,
client-lines-2025-11-25, client-lines-2026-07-28, client-lines-8-2025-11-25, client-lines-8-2026-07-28,
bare-client-http-2025-11-25, bare-client-http-2026-07-28, bare-client-http-8-2025-11-25, bare-client-http-8-2026-07-28,
bare-client-lines-2025-11-25, bare-client-lines-2026-07-28, bare-client-lines-8-2025-11-25,
bare-client-lines-8-2026-07-28, validate-arguments, decode-sse, parse-uri-template, match-uri-template,
expand-uri-template.";

/// A machine with more busy cores is not quiet.
const QUIET: f64 = 0.2;
/// The longest time until a machine is quiet.
const QUIET_LIMIT: Duration = Duration::from_secs(15 * 60);
/// The interval in which the busy cores are counted.
const QUIET_STEP: Duration = Duration::from_secs(5);

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
/// The longest time of a stage, without the rounds that the options request.
const STAGE_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);
/// The most turns of programs in a round of all cases, with the waits between them and a second measurement.
const TURNS: f64 = 400.0;

/// Runs all measurements. Fails at the end if a measurement failed or missed an aim.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let root = workspace::root();
    let target = Metadata::load(&root)?.target().to_owned();
    let folders = Folders { root, target };
    if options::check_direct(args)? {
        return process::run(Command::new(program(&folders)?).args(args), STAGE_LIMIT);
    }
    if let Some((_, rest)) = args.split_first().filter(|(first, _)| *first == "instructions") {
        return instructions::run(&folders, rest);
    }
    if let Some((_, rest)) = args.split_first().filter(|(first, _)| *first == "micro") {
        if rest.len() > 1 || rest.iter().any(|name| name.starts_with('-')) {
            return Err(Error::msg(format!("`bench micro` takes one name\n{USAGE}")));
        }
        let mut command = process::cargo(&folders.root);
        command.args(["bench", "--package", "instructions", "--bench", "micro", "--"]).args(rest);
        return process::run(&mut command, STAGE_LIMIT);
    }
    if args == ["render"] {
        return page::render(&folders.root);
    }
    let options = Options::parse(args)?;
    let machine = Machine::read(&folders.root, machine::load_average());
    // A fault of the conditions ends the run before the builds and the measurements, which take an hour.
    let prepare = || Publication::prepare(&folders.root, &machine, options.no_build);
    let publication = options.publish.then(prepare).transpose()?;
    if let Some(folder) = &options.plots {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let program = program(&folders)?;
    let busy = if options.publish { quiet_cores()? } else { machine::busy_cores(QUIET_STEP) };
    if busy > QUIET {
        println!("NOT QUIET: other processes use the machine, so the figures vary more");
    }
    let mut run = Run { program, folders, options, machine, publication, failures: Vec::new() };
    let is_complete = run.stages();
    if let Some(publication) = run.publication.take().filter(|_| is_complete)
        && let Err(error) = run.publish(publication)
    {
        run.failures.push(format!("publication: {error:#}"));
    }
    if let Some(folder) = run.options.plots.clone()
        && let Err(error) = run.plots(&folder)
    {
        run.failures.push(format!("plots: {error:#}"));
    }
    if run.failures.is_empty() { Ok(()) } else { Err(Error::msg(run.failures.join("\n       "))) }
}

/// Builds the measuring program in release mode.
fn program(folders: &Folders) -> Result<PathBuf, Error> {
    let mut build = process::cargo(&folders.root);
    build.args(["build", "--release", "--package", "bench"]);
    process::use_own_profiles(&mut build, &folders.target);
    process::run(&mut build, BUILD_LIMIT)?;
    Ok(folders.target.join("release").join(format!("bench{}", std::env::consts::EXE_SUFFIX)))
}

/// The file with the series of the growth.
const SERIES: &str = "growth-series.json";

/// A run of several stages.
struct Run {
    program: PathBuf,
    folders: Folders,
    options: Options,
    machine: Machine,
    publication: Option<Publication>,
    failures: Vec<String>,
}

impl Run {
    /// Runs the stages. Returns false if a publication lacks the figures of a stage.
    fn stages(&mut self) -> bool {
        let stages = self.options.stages.clone();
        for (number, stage) in (1..).zip(&stages) {
            println!("\n[{number}/{}] {}", stages.len(), stage.name());
            let start = Instant::now();
            let checked = self.publication.as_ref().map_or(Ok(()), |publication| publication.check(&self.folders.root));
            if let Err(error) = checked {
                self.failures.push(format!("{}: {error:#}", stage.name()));
                return false;
            }
            if let Err(error) = self.stage(*stage) {
                self.failures.push(format!("{}: {error:#}", stage.name()));
            }
            println!("[{number}/{}] {} took {:.0} s", stages.len(), stage.name(), start.elapsed().as_secs_f64());
            if self.options.publish && !self.json(*stage).exists() {
                return false;
            }
        }
        true
    }

    fn stage(&mut self, stage: Stage) -> Result<(), Error> {
        let mut args = Vec::new();
        match stage {
            // A result of an earlier run is not a result of this run.
            _ if self.json(stage).exists() => {
                fs::remove_file(self.json(stage))?;
                return self.stage(stage);
            }
            Stage::Builds => return self.builds(),
            Stage::Host | Stage::Gateway => {
                let mut command = Command::new(&self.program);
                command.arg(stage.name());
                if self.options.quick && stage == Stage::Gateway {
                    command.arg("--quick");
                }
                return process::run(&mut command, STAGE_LIMIT);
            }
            Stage::Load => {
                args.extend(self.options.load.clone());
                if self.options.peers {
                    builds::prepare_load(&self.folders, &self.options.kinds())?;
                    args.extend(["--peers".to_owned(), self.folders.programs().display().to_string()]);
                }
            }
            Stage::Start => {
                builds::prepare_start(&self.folders, self.options.peers)?;
                let plain = self.folders.plain();
                for name in ["ours", "bare"] {
                    let program = plain.join(format!("{name}-stdio{}", std::env::consts::EXE_SUFFIX));
                    args.extend([format!("--{name}"), program.display().to_string()]);
                }
                if self.options.peers {
                    args.extend(["--peers".to_owned(), plain.display().to_string()]);
                }
                if self.options.quick {
                    args.extend(["--starts".to_owned(), "10".to_owned()]);
                }
            }
            Stage::Growth => {
                let series = self.folders.out().join(SERIES);
                if series.exists() {
                    fs::remove_file(&series)?;
                }
                args.extend(["--series".to_owned(), series.display().to_string()]);
                args.extend(self.options.series.clone());
                if self.options.quick {
                    args.push("--quick".to_owned());
                }
            }
            Stage::Memory => {
                if self.options.peers {
                    builds::prepare_load(&self.folders, &["http"])?;
                    args.extend(["--peers".to_owned(), self.folders.programs().display().to_string()]);
                }
            }
        }
        self.measure(stage, &args)
    }

    /// Runs the measuring program. It writes its figures, and fails if one misses its aim.
    fn measure(&mut self, stage: Stage, args: &[String]) -> Result<(), Error> {
        if self.options.publish {
            // The builds and the measurement before have loaded the machine.
            let busy = quiet_cores()?;
            if stage == Stage::Load {
                self.machine.busy_before_calls = Some(busy);
            }
        }
        let mut command = Command::new(&self.program);
        command.arg(stage.name()).arg("--json").arg(self.json(stage)).args(args);
        let rounds = Duration::from_secs_f64(self.options.round_seconds() * TURNS);
        process::run(&mut command, if stage == Stage::Load { STAGE_LIMIT + rounds } else { STAGE_LIMIT })
    }

    /// The file with the figures of a stage.
    fn json(&self, stage: Stage) -> PathBuf {
        self.folders.out().join(format!("{}.json", stage.name()))
    }

    /// Writes the results of the stages to the page. Each stage must have written its figures.
    fn publish(&mut self, publication: Publication) -> Result<(), Error> {
        publication.check(&self.folders.root)?;
        let mut calls: Vec<Figure> = Vec::new();
        for stage in [Stage::Load, Stage::Start, Stage::Memory] {
            calls.extend(read::<Vec<Figure>>(&self.json(stage))?);
        }
        let has_builds = self.options.stages.contains(&Stage::Builds);
        let results = publication.results(Measured {
            machine: self.machine.clone(),
            rounds: self.options.rounds(),
            calls,
            builds: has_builds.then(|| read(&self.json(Stage::Builds))).transpose()?,
            growth: read(&self.json(Stage::Growth))?,
            series: read(&self.folders.out().join(SERIES))?,
        });
        self.failures.extend(doubtful(&results.figures));
        page::publish(&self.folders.root, &results)
    }

    /// Writes the plots of the figures of this run. A stage that failed has none.
    fn plots(&self, folder: &Path) -> Result<(), Error> {
        let (mut figures, mut series): (Vec<Figure>, Vec<Series>) = (Vec::new(), Vec::new());
        for stage in self.options.stages.iter().copied().filter(|stage| self.json(*stage).exists()) {
            figures.extend(read::<Vec<Figure>>(&self.json(stage))?);
            if stage == Stage::Growth {
                series = read(&self.folders.out().join(SERIES))?;
            }
        }
        plot::write(folder, &figures, &series)
    }

    fn builds(&self) -> Result<(), Error> {
        let cold = !self.options.no_build && !self.options.quick;
        let before_build = || if self.options.publish { quiet_cores().map(drop) } else { Ok(()) };
        let figures = builds::measure(&self.folders, self.options.peers, cold, &before_build)?;
        self.record(Stage::Builds, &figures)
    }

    /// Prints and writes figures that this program measured.
    fn record(&self, stage: Stage, figures: &[Figure]) -> Result<(), Error> {
        for figure in figures {
            println!("{figure}");
        }
        let path = self.json(stage);
        figure::write(&path, &figures).with_context(|| path.display().to_string())?;
        if let Some(open) = figure::without_verdict(figures) {
            println!("{open}");
        }
        figure::missed(figures).map_or(Ok(()), |missed| Err(Error::msg(missed)))
    }
}

/// Waits until the machine is quiet. Returns the number of its busy cores.
fn quiet_cores() -> Result<f64, Error> {
    quiet(|| machine::busy_cores(QUIET_STEP))
}

/// Counts busy cores until the machine is quiet, for at most [`QUIET_LIMIT`]. Each count lasts [`QUIET_STEP`].
fn quiet(mut count: impl FnMut() -> f64) -> Result<f64, Error> {
    let mut waited = Duration::ZERO;
    loop {
        let busy = count();
        if busy <= QUIET {
            return Ok(busy);
        }
        waited += QUIET_STEP;
        let seconds = waited.as_secs();
        if waited >= QUIET_LIMIT {
            return Err(Error::msg(format!("the machine is not quiet: {busy:.2} cores are busy after {seconds} s")));
        }
        println!("waiting until the machine is quiet: {busy:.2} busy cores, limit {QUIET}, {seconds} s");
    }
}

/// Names the figures whose aims have no reliable verdict.
fn doubtful(figures: &[Figure]) -> Option<String> {
    let is_doubtful = |figure: &&Figure| figure.aim != Aim::None && !figure.doubts.is_empty();
    let name = |figure: &Figure| {
        let revision = figure.revision.as_deref().map_or_else(String::new, |revision| format!(" {revision}"));
        format!("{}{revision}{}", figure.id, figure.marks())
    };
    let names: Vec<String> = figures.iter().filter(is_doubtful).map(name).collect();
    (!names.is_empty()).then(|| format!("figures with an aim and a doubt: {}", names.join(", ")))
}

/// Reads the results of a stage.
fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::{figure::Doubt, *};

    #[test]
    fn the_wait_for_a_quiet_machine_has_a_limit() {
        for (cores, expected) in
            [(&[0.2, 2.0] as &[f64], Some((0.2, 1))), (&[2.0, 0.21, 0.1], Some((0.1, 3))), (&[0.21], None)]
        {
            let mut counts = 0;
            let outcome = quiet(|| {
                counts += 1;
                cores[(counts - 1).min(cores.len() - 1)]
            });
            match expected {
                Some((busy, wanted)) => assert_eq!((outcome.unwrap(), counts), (busy, wanted)),
                None => {
                    assert!(outcome.unwrap_err().to_string().contains("0.21 cores are busy after 900 s"));
                    assert_eq!(counts, 180);
                }
            }
        }
    }

    #[test]
    fn the_usage_names_each_case_and_series() {
        let names = choices::CASES.into_iter().chain(choices::SERIES).chain(choices::GATEWAY);
        for name in names.chain(instructions::NAMES) {
            let mut words = USAGE.split(|character: char| !character.is_ascii_alphanumeric() && character != '-');
            assert!(words.any(|word| word == name), "{name}");
        }
    }

    #[test]
    fn a_line_of_the_usage_has_a_bounded_length() {
        for line in USAGE.lines() {
            assert!(line.len() <= 132, "{line}");
        }
    }

    #[test]
    fn doubts_of_figures_with_an_aim_are_reported() {
        let figure = |id: &str, aim, doubts: &[Doubt]| {
            let revision = Some("2025-11-25".to_owned());
            Figure { doubts: doubts.to_vec(), revision, ..Figure::new(id, id, 1.0, "", aim) }
        };
        let aim = Aim::AtLeast(0.5);
        let figures = [
            figure("a", aim, &[Doubt::Limited]),
            figure("b", aim, &[]),
            figure("c", Aim::None, &[Doubt::Disturbed]),
            figure("d", aim, &[Doubt::Disturbed]),
        ];
        let expected = "figures with an aim and a doubt: a 2025-11-25 (limited), d 2025-11-25 (disturbed)";
        assert_eq!(doubtful(&figures).unwrap(), expected);
        assert_eq!(doubtful(&figures[1..3]), None);
    }
}
