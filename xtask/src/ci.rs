//! `cargo xtask ci`: everything that has to hold, in order; what CI runs.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    conformance,
    error::{Context, Error},
    interop, ledger, process, test, tidy, wire_check,
    workspace::{self, Metadata},
};

const LIMIT: Duration = Duration::from_secs(30 * 60);
/// The version that `deny.toml` is written for.
const DENY_VERSION: &str = "0.20.2";

/// One step: a name to select it by, and what it does.
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
    Step { name: "features", run: features },
    Step { name: "deny", run: deny },
    Step { name: "wire-check", run: wire_check::run_in_ci },
    Step { name: "conformance", run: |_| conformance::run(&["server".to_owned()]) },
    Step { name: "conformance-client", run: |_| conformance::run(&["client".to_owned()]) },
    Step { name: "interop", run: |_| interop::run(&[]) },
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
            Err(error) => println!("=== {}: FAILED, {took:.1} s: {error} ===", step.name),
        }
        done.push((step.name, took, outcome.is_ok()));
    }
    println!("\n{:<18} {:>9}", "step", "time");
    for (name, took, ok) in &done {
        println!("{name:<18} {took:>7.1} s  {}", if *ok { "ok" } else { "FAILED" });
    }
    let failed: Vec<&str> = done.iter().filter(|(.., ok)| !ok).map(|(name, ..)| *name).collect();
    if failed.is_empty() { Ok(()) } else { Err(Error::new(format!("failed: {}", failed.join(", ")))) }
}

fn select(args: &[String]) -> Result<Vec<&'static Step>, Error> {
    let mut named = Vec::new();
    let mut after_test = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--after-test" => after_test = true,
            "--step" => {
                let name = args.next().ok_or_else(|| Error::new("--step needs a name"))?;
                let step = STEPS.iter().find(|step| step.name == name);
                named.push(step.ok_or_else(|| {
                    let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
                    Error::new(format!("no step `{name}`, there are {}", names.join(", ")))
                })?);
            }
            _ => return Err(Error::new(format!("unknown option `{arg}`: --after-test, --step NAME"))),
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

/// Each published crate alone: with nothing, with its defaults, and with each feature by itself.
fn features(root: &Path) -> Result<(), Error> {
    let metadata = Metadata::load(root)?;
    let crates = root.join("crates");
    for package in metadata.members().filter(|package| package.dir().starts_with(&crates)) {
        let name = package.name.as_str();
        cargo(root, &["check", "--quiet", "--package", name, "--no-default-features"])?;
        for feature in package.features.keys() {
            // With `--no-default-features`, the feature `default` is the plain build.
            cargo(root, &["check", "--quiet", "--package", name, "--no-default-features", "--features", feature])?;
        }
    }
    Ok(())
}

/// Licences, bans and sources; advisories would need a download and change from day to day.
fn deny(root: &Path) -> Result<(), Error> {
    cargo(root, &["fetch", "--locked"])?;
    let metadata = Metadata::load(root)?;
    let tools = metadata.target_directory.join("tools");
    let own = tools.join("bin").join(if cfg!(windows) { "cargo-deny.exe" } else { "cargo-deny" });
    let installed = process::cargo(root).args(["deny", "--version"]).output().is_ok_and(|said| said.status.success());
    let mut command = if installed {
        process::cargo(root)
    } else {
        if !own.is_file() {
            let mut install = process::cargo(root);
            // Unoptimized: it runs once, and building it is what takes long.
            install
                .args(["install", "--locked", "--debug", "--version", DENY_VERSION, "--root"])
                .arg(&tools)
                .arg("cargo-deny");
            process::run(&mut install, LIMIT).context("cargo-deny is missing and cannot be installed")?;
        }
        let mut command = Command::new(&own);
        command.current_dir(root);
        command
    };
    if installed {
        command.arg("deny");
    }
    process::run(
        command.args(["--offline", "check", "--allow", "unused-wrapper", "bans", "licenses", "sources"]),
        LIMIT,
    )
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
