//! `cargo xtask ci`: all checks, as CI runs them.

use std::{
    env,
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Error};
use lexopt::{Arg, Parser, ValueExt as _};

use crate::{
    api, bench, conformance, fleet, fuzz, interop, ledger, package, process, test, tidy, tools, wire_check,
    workspace::{self, Metadata},
};

const LIMIT: Duration = Duration::from_secs(30 * 60);
/// The limit of all models, after their build.
const MODELS_LIMIT: Duration = Duration::from_secs(2 * 60);
/// The limit of a step that runs as a child process. Each command of a step has its own limit.
const STEP_LIMIT: Duration = Duration::from_secs(60 * 60);

/// One step: the name that selects it, its part of a whole run, and its function.
struct Step {
    name: &'static str,
    part: Part,
    run: fn(&Path) -> Result<(), Error>,
}

/// The parts of a whole run. `Builds` and `Suites` run at the same time: builds use both cores, and suites mostly wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    First,
    Builds,
    Suites,
    /// Steps whose checks have limits of time.
    Last,
}

const STEPS: &[Step] = &[
    Step { name: "test", part: Part::First, run: |_| test::run(&[]) },
    Step { name: "models", part: Part::Builds, run: models },
    Step { name: "fmt", part: Part::Builds, run: fmt },
    Step { name: "clippy", part: Part::Builds, run: clippy },
    Step { name: "tidy", part: Part::Builds, run: |_| tidy::run(&[]) },
    Step { name: "ledger", part: Part::Builds, run: |_| ledger::run(&[]) },
    Step { name: "docs", part: Part::Builds, run: docs },
    Step { name: "book", part: Part::Builds, run: book },
    Step { name: "api", part: Part::Builds, run: |_| api::run(&[]) },
    Step { name: "package", part: Part::Builds, run: package::run },
    Step { name: "features", part: Part::Builds, run: features },
    Step { name: "deny", part: Part::Builds, run: deny },
    Step { name: "instructions", part: Part::Builds, run: |_| bench::run(&["instructions".to_owned()]) },
    Step { name: "fuzz", part: Part::Builds, run: |_| fuzz::run_in_ci() },
    Step { name: "wire-check", part: Part::Suites, run: wire_check::run_in_ci },
    Step { name: "conformance", part: Part::Suites, run: |_| conformance::run(&["server".to_owned()]) },
    Step { name: "conformance-client", part: Part::Suites, run: |_| conformance::run(&["client".to_owned()]) },
    Step {
        name: "conformance-authorization",
        part: Part::Suites,
        run: |_| conformance::run(&["authorization".to_owned()]),
    },
    Step { name: "conformance-gateway", part: Part::Suites, run: |_| conformance::run(&["gateway".to_owned()]) },
    Step { name: "interop", part: Part::Suites, run: |_| interop::run(&[]) },
    Step {
        name: "interop-gateway",
        part: Part::Suites,
        run: |_| interop::run(&["--direction".to_owned(), "gateway".to_owned()]),
    },
    Step { name: "fleet", part: Part::Last, run: |_| fleet::run_in_ci() },
];

/// The result of a step.
struct Outcome {
    name: &'static str,
    seconds: f64,
    error: Option<Error>,
}

/// Runs the steps (or those named by `--step`), all of them even when one fails.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let root = workspace::root();
    let outcomes = match select(args)? {
        Selection::Named(steps) => in_order(&root, &steps),
        Selection::All { after_test } => all(&root, after_test)?,
    };
    println!("\n{:<26} {:>9}", "step", "time");
    for Outcome { name, seconds, error } in &outcomes {
        println!("{name:<26} {seconds:>7.1} s  {}", if error.is_none() { "ok" } else { "FAILED" });
    }
    let failed: Vec<&str> = outcomes.iter().filter(|one| one.error.is_some()).map(|one| one.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(Error::msg(format!("failed: {}", failed.join(", ")))) }
}

/// Runs each step, one after the other. The output of a step is visible while the step runs.
fn in_order(root: &Path, steps: &[&'static Step]) -> Vec<Outcome> {
    let step = |step: &&'static Step| {
        println!("\n=== {} ===", step.name);
        timed(step.name, || (step.run)(root))
    };
    steps.iter().map(step).collect()
}

/// Runs the parts of a whole run. The builds and the suites run at the same time, and the output of each step is visible at its end.
fn all(root: &Path, after_test: bool) -> Result<Vec<Outcome>, Error> {
    let part = |part: Part| STEPS.iter().filter(|step| step.part == part).collect::<Vec<_>>();
    let program = env::current_exe()?;
    let logs = Metadata::load(root)?.target().join("ci");
    fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    let mut outcomes = if after_test { Vec::new() } else { in_order(root, &part(Part::First)) };
    let captured =
        |steps: Vec<&'static Step>| steps.into_iter().map(|step| captured(&program, &logs, step)).collect::<Vec<_>>();
    let (builds, suites) = thread::scope(|scope| {
        let builds = scope.spawn(|| captured(part(Part::Builds)));
        let suites = captured(part(Part::Suites));
        (builds.join(), suites)
    });
    outcomes.extend(builds.map_err(|_| Error::msg("the thread of the builds panicked"))?);
    outcomes.extend(suites);
    outcomes.extend(in_order(root, &part(Part::Last)));
    Ok(outcomes)
}

/// Runs a step as a child process, and prints its output as a whole.
fn captured(program: &Path, logs: &Path, step: &'static Step) -> Outcome {
    println!("=== {}: started ===", step.name);
    let log = logs.join(format!("{}.log", step.name));
    timed(step.name, || {
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = Command::new(program);
        command.args(["ci", "--step", step.name]).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let outcome = process::run(&mut command, STEP_LIMIT);
        print_log(&log)?;
        outcome
    })
}

fn print_log(log: &Path) -> Result<(), Error> {
    let text = fs::read(log).with_context(|| log.display().to_string())?;
    println!("{}", String::from_utf8_lossy(&text));
    Ok(())
}

fn timed(name: &'static str, run: impl FnOnce() -> Result<(), Error>) -> Outcome {
    let started = Instant::now();
    let error = run().err();
    let seconds = started.elapsed().as_secs_f64();
    match &error {
        None => println!("=== {name}: ok, {seconds:.1} s ==="),
        Some(error) => println!("=== {name}: FAILED, {seconds:.1} s: {error:#} ==="),
    }
    Outcome { name, seconds, error }
}

/// The steps that the arguments select.
enum Selection {
    Named(Vec<&'static Step>),
    All { after_test: bool },
}

fn select(args: &[String]) -> Result<Selection, Error> {
    let mut named = Vec::new();
    let mut after_test = false;
    let mut parser = Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("after-test") => after_test = true,
            Arg::Long("step") => {
                let name = parser.value()?.string()?;
                let names = || STEPS.iter().map(|step| step.name).collect::<Vec<_>>().join(", ");
                let step = STEPS.iter().find(|step| step.name == name);
                named.push(step.with_context(|| format!("`{name}` is not a step: {}", names()))?);
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    if named.is_empty() { Ok(Selection::All { after_test }) } else { Ok(Selection::Named(named)) }
}

fn cargo(root: &Path, args: &[&str]) -> Result<(), Error> {
    process::run(process::cargo(root).args(args), LIMIT)
}

/// The models with more switches of threads than in the step `test`. They have its build.
fn models(root: &Path) -> Result<(), Error> {
    const SELECTION: [&str; 6] = ["test", "--workspace", "--all-features", "--lib", "--quiet", "models::"];
    process::run(process::cargo(root).args(SELECTION).arg("--no-run"), LIMIT)?;
    let mut command = process::cargo(root);
    process::run(command.args(SELECTION).env("LOOM_MAX_PREEMPTIONS", "4"), MODELS_LIMIT)
}

fn fmt(root: &Path) -> Result<(), Error> {
    cargo(root, &["fmt", "--all", "--check"])
}

fn clippy(root: &Path) -> Result<(), Error> {
    cargo(root, &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])
}

fn docs(root: &Path) -> Result<(), Error> {
    let mut command = process::cargo(root);
    command.args(["doc", "--workspace", "--all-features", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    process::run(&mut command, LIMIT)
}

/// The guides as a book, in `target/book`.
fn book(root: &Path) -> Result<(), Error> {
    let mut command = tools::MDBOOK.command(root)?;
    process::run(command.args(["build", "docs"]), LIMIT)
}

/// Each published crate alone, with each combination of up to two features.
fn features(root: &Path) -> Result<(), Error> {
    let metadata = Metadata::load(root)?;
    let mut command = tools::HACK.command(root)?;
    command.args(["hack", "check", "--quiet", "--feature-powerset", "--depth", "2"]);
    for package in metadata.published() {
        command.args(["--package", package.name.as_str()]);
    }
    process::run(&mut command, LIMIT)
}

/// Licences, bans and sources. Advisories need a download, and they change from day to day.
fn deny(root: &Path) -> Result<(), Error> {
    cargo(root, &["fetch", "--locked"])?;
    let mut command = tools::DENY.command(root)?;
    command.args(["--offline", "check", "--allow", "unused-wrapper", "bans", "licenses", "sources"]);
    process::run(&mut command, LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    fn names(line: &str) -> Result<Vec<&'static str>, Error> {
        Ok(match select(&words(line))? {
            Selection::Named(steps) => steps.into_iter().map(|step| step.name).collect(),
            Selection::All { after_test: false } => vec!["all"],
            Selection::All { after_test: true } => vec!["all", "after the tests"],
        })
    }

    #[test]
    fn steps_are_selected_by_the_arguments() {
        assert_eq!(names("").unwrap(), ["all"]);
        assert_eq!(names("--after-test").unwrap(), ["all", "after the tests"]);
        assert_eq!(names("--step tidy --step fmt").unwrap(), ["tidy", "fmt"]);
        for line in ["--step", "--step nothing", "--fast"] {
            assert!(names(line).is_err(), "{line}");
        }
    }
}
