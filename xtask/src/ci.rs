//! `cargo xtask ci`: all checks in order, as CI runs them.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Error};
use lexopt::{Arg, Parser, ValueExt as _};

use crate::{
    api, bench, conformance, fleet, interop, ledger, package, process, test, tidy, tools, wire_check,
    workspace::{self, Metadata},
};

const LIMIT: Duration = Duration::from_secs(30 * 60);

/// One step: the name that selects it, and its function.
struct Step {
    name: &'static str,
    run: fn(&Path) -> Result<(), Error>,
}

const STEPS: &[Step] = &[
    Step { name: "test", run: |_| test::run(&[]) },
    Step { name: "fmt", run: fmt },
    Step { name: "clippy", run: clippy },
    Step { name: "tidy", run: |_| tidy::run(&[]) },
    Step { name: "ledger", run: |_| ledger::run(&[]) },
    Step { name: "docs", run: docs },
    Step { name: "book", run: book },
    Step { name: "api", run: |_| api::run(&[]) },
    Step { name: "package", run: package::run },
    Step { name: "features", run: features },
    Step { name: "deny", run: deny },
    Step { name: "instructions", run: |_| bench::run(&["instructions".to_owned()]) },
    Step { name: "wire-check", run: wire_check::run_in_ci },
    Step { name: "conformance", run: |_| conformance::run(&["server".to_owned()]) },
    Step { name: "conformance-client", run: |_| conformance::run(&["client".to_owned()]) },
    Step { name: "conformance-authorization", run: |_| conformance::run(&["authorization".to_owned()]) },
    Step { name: "conformance-gateway", run: |_| conformance::run(&["gateway".to_owned()]) },
    Step { name: "interop", run: |_| interop::run(&[]) },
    Step { name: "interop-gateway", run: |_| interop::run(&["--direction".to_owned(), "gateway".to_owned()]) },
    Step { name: "fleet", run: |_| fleet::run_in_ci() },
];

/// Runs the steps (or those named by `--step`), all of them even when one fails.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let steps = select(args)?;
    let root = workspace::root();
    let mut done = Vec::new();
    for step in steps {
        println!("\n=== {} ===", step.name);
        let started = Instant::now();
        let outcome = (step.run)(&root);
        let took = started.elapsed().as_secs_f64();
        match &outcome {
            Ok(()) => println!("=== {}: ok, {took:.1} s ===", step.name),
            Err(error) => println!("=== {}: FAILED, {took:.1} s: {error:#} ===", step.name),
        }
        done.push((step.name, took, outcome.is_ok()));
    }
    println!("\n{:<26} {:>9}", "step", "time");
    for (name, took, ok) in &done {
        println!("{name:<26} {took:>7.1} s  {}", if *ok { "ok" } else { "FAILED" });
    }
    let failed: Vec<&str> = done.iter().filter(|(.., ok)| !ok).map(|(name, ..)| *name).collect();
    if failed.is_empty() { Ok(()) } else { Err(Error::msg(format!("failed: {}", failed.join(", ")))) }
}

fn select(args: &[String]) -> Result<Vec<&'static Step>, Error> {
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
    if !named.is_empty() {
        return Ok(named);
    }
    Ok(STEPS.iter().filter(|step| !(after_test && step.name == "test")).collect())
}

fn cargo(root: &Path, args: &[&str]) -> Result<(), Error> {
    process::run(process::cargo(root).args(args), LIMIT)
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

    fn names(line: &str) -> Result<Vec<&'static str>, Error> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Ok(select(&args)?.iter().map(|step| step.name).collect())
    }

    #[test]
    fn steps_are_selected_by_the_arguments() {
        let all = names("").unwrap();
        assert_eq!(all[0], "test");
        assert_eq!(names("--after-test").unwrap(), all[1..]);
        assert_eq!(names("--step tidy --step fmt").unwrap(), ["tidy", "fmt"]);
        for line in ["--step", "--step nothing", "--fast"] {
            assert!(names(line).is_err(), "{line}");
        }
    }
}
