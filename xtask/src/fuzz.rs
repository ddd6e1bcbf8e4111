//! `cargo xtask fuzz`: builds the targets of `fuzz` and runs each for a bounded time.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Error};
use lexopt::{Arg, Parser, ValueExt as _};

use crate::{
    process::{self, Captured},
    tools,
    workspace::{self, Metadata},
};

pub(crate) const USAGE: &str = "usage: cargo xtask fuzz [--seconds N] [--quick] [--input FILE] [--list] [TARGET]...";
const TOOLCHAIN: &str = "nightly";
/// The seconds of a target, unless `--seconds` sets others.
const SECONDS: u64 = 10;
/// The seconds of a target with `--quick`.
const QUICK_SECONDS: u64 = 2;
const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);
/// The time for the start of a target and for the inputs of its corpus, besides its seconds.
const SETUP: Duration = Duration::from_secs(300);
const PROBE_LIMIT: Duration = Duration::from_secs(60);
/// The limits of one input: bytes, seconds and megabytes of memory.
const INPUT_LIMITS: [&str; 3] = ["-max_len=4096", "-timeout=10", "-rss_limit_mb=512"];
/// Freed memory stays allocated until it has this size, so it would count for the limit.
const SANITIZER: &str = "quarantine_size_mb=16";

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    seconds: u64,
    /// Builds without optimization and without a sanitizer.
    is_quick: bool,
    /// The input that a target repeats, in place of a run.
    input: Option<PathBuf>,
    is_list: bool,
    targets: Vec<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, Error> {
        let (mut seconds, mut is_quick, mut input, mut is_list, mut targets) = (None, false, None, false, Vec::new());
        let mut parser = Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                // Zero would mean no limit.
                Arg::Long("seconds") => seconds = Some(parser.value()?.parse::<u64>()?.max(1)),
                Arg::Long("quick") => is_quick = true,
                Arg::Long("input") => input = Some(parser.value()?.into()),
                Arg::Long("list") => is_list = true,
                Arg::Value(name) => targets.push(name.string()?),
                _ => return Err(arg.unexpected().into()),
            }
        }
        if input.is_some() && targets.len() != 1 {
            return Err(Error::msg("`--input` needs exactly one target"));
        }
        let seconds = seconds.unwrap_or(if is_quick { QUICK_SECONDS } else { SECONDS });
        Ok(Self { seconds, is_quick, input, is_list, targets })
    }
}

/// The figures of a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Figures {
    runs: u64,
    coverage: u64,
    peak_megabytes: u64,
    /// The file with the input of a crash.
    crash: Option<String>,
}

impl Figures {
    /// Reads the output of libFuzzer.
    fn parse(output: &str) -> Self {
        let mut figures = Self::default();
        for line in output.lines() {
            let number = |prefix| line.strip_prefix(prefix).and_then(|rest: &str| rest.trim().parse().ok());
            if let Some(runs) = number("stat::number_of_executed_units:") {
                figures.runs = runs;
            } else if let Some(peak) = number("stat::peak_rss_mb:") {
                figures.peak_megabytes = peak;
            } else if let Some((_, file)) = line.split_once("Test unit written to ") {
                figures.crash = Some(file.trim().to_owned());
            } else if let Some((_, rest)) = line.split_once(" cov: ") {
                let coverage = rest.split_whitespace().next().and_then(|word| word.parse().ok());
                figures.coverage = coverage.unwrap_or(figures.coverage);
            }
        }
        figures
    }
}

/// Runs each target for a short time.
pub(crate) fn run_in_ci() -> Result<(), Error> {
    run(&["--quick".to_owned()])
}

/// Builds the targets and runs them in order.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let options = Options::parse(args).context(USAGE)?;
    let root = workspace::root();
    let known = targets(&root)?;
    if let Some(unknown) = options.targets.iter().find(|name| !known.contains(*name)) {
        return Err(Error::msg(format!("no target `{unknown}`; the targets are {}", known.join(", "))));
    }
    if options.is_list {
        println!("{}", known.join("\n"));
        return Ok(());
    }
    let selected = if options.targets.is_empty() { known } else { options.targets.clone() };
    let host = require_nightly(&root)?;
    build(&root, &selected, options.is_quick)?;
    let profile = if options.is_quick { "debug" } else { "release" };
    let program = |name: &str| root.join("fuzz/target").join(&host).join(profile).join(name);
    if let (Some(input), [name]) = (&options.input, &selected[..]) {
        return process::run(fuzzer(&root, &program(name)).arg(input), SETUP);
    }
    let started = Instant::now();
    let mut done = Vec::new();
    for (at, name) in selected.iter().enumerate() {
        println!("[{}/{}] {name}: {} s", at + 1, selected.len(), options.seconds);
        let (figures, failure) = run_target(&root, name, &program(name), &options)?;
        println!("{}", row(name, &figures, failure.is_some()));
        if let Some(failure) = &failure {
            println!("{failure}");
        }
        done.push((name, figures, failure));
    }
    println!("\n{:<24} {:>12} {:>9} {:>8}", "target", "runs", "coverage", "memory");
    for (name, figures, failure) in &done {
        println!("{}", row(name, figures, failure.is_some()));
    }
    let runs: u64 = done.iter().map(|(_, figures, _)| figures.runs).sum();
    let summary = format!("{} targets, {runs} runs, {} s", done.len(), started.elapsed().as_secs());
    let failed: Vec<&str> = done.iter().filter(|(.., failure)| failure.is_some()).map(|(name, ..)| &***name).collect();
    if failed.is_empty() {
        println!("{summary}, no crash");
        return Ok(());
    }
    for (name, figures, _) in done.iter().filter(|(_, figures, _)| figures.crash.is_some()) {
        let file = figures.crash.as_deref().unwrap_or_default();
        let quick = if options.is_quick { " --quick" } else { "" };
        println!("{file}\n  repeat: cargo xtask fuzz {name}{quick} --input {file}");
    }
    Err(Error::msg(format!("{summary}, failed: {}", failed.join(", "))))
}

/// Returns the names of the targets, sorted: the programs of `fuzz/Cargo.toml`.
fn targets(root: &Path) -> Result<Vec<String>, Error> {
    let file = root.join("fuzz/Cargo.toml");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let manifest: toml::Table = text.parse().with_context(|| file.display().to_string())?;
    let programs = manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
    let mut names: Vec<String> =
        programs.filter_map(|program| Some(program.get("name")?.as_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// Returns the host triple of the nightly toolchain. Fails if the toolchain is missing.
fn require_nightly(root: &Path) -> Result<String, Error> {
    let mut command = Command::new("rustc");
    command.current_dir(root).env("RUSTUP_TOOLCHAIN", TOOLCHAIN).arg("-vV");
    let missing =
        || format!("the toolchain `{TOOLCHAIN}` is missing: install it by `rustup toolchain install {TOOLCHAIN}`");
    let output = process::capture(&mut command, PROBE_LIMIT).with_context(missing)?;
    let is_nightly = output.status.success() && output.stdout.contains(TOOLCHAIN);
    let host = output.stdout.lines().find_map(|line| line.strip_prefix("host: "));
    host.filter(|_| is_nightly).map(str::to_owned).ok_or_else(|| Error::msg(missing()))
}

/// Builds the selected targets.
fn build(root: &Path, selected: &[String], is_quick: bool) -> Result<(), Error> {
    let all = targets(root)?;
    // The tool builds all targets, or one.
    let names: Vec<Option<&String>> =
        if selected.len() == all.len() { vec![None] } else { selected.iter().map(Some).collect() };
    for name in names {
        let mut command = tools::FUZZ.command(root)?;
        command.args(["build", "--target-dir"]).arg(root.join("fuzz/target"));
        if is_quick {
            command.args(["--dev", "--sanitizer", "none"]);
        }
        command.args(name);
        process::remove_own_variables(&mut command);
        command.env("RUSTUP_TOOLCHAIN", TOOLCHAIN);
        process::run(&mut command, BUILD_LIMIT)?;
    }
    Ok(())
}

/// The command of a target with the limits of each input.
fn fuzzer(root: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root).env("ASAN_OPTIONS", SANITIZER).args(INPUT_LIMITS);
    command
}

/// Runs a target. Returns its figures, and the last lines of its output if it failed.
fn run_target(root: &Path, name: &str, program: &Path, options: &Options) -> Result<(Figures, Option<String>), Error> {
    let seconds = options.seconds;
    let seeds = Path::new("fuzz/corpus").join(name);
    let dictionary = Path::new("fuzz/dictionaries").join(format!("{name}.dict"));
    let artifacts = Path::new("fuzz/artifacts").join(name);
    // The new inputs of a run do not belong into the repository.
    let found = Metadata::load(root)?.target().join("fuzz").join(name);
    for folder in [&root.join(&artifacts), &found] {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let mut command = fuzzer(root, program);
    command.arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
    if options.is_quick {
        // The runs of CI begin with the same inputs.
        command.arg("-seed=1");
    }
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    if root.join(&dictionary).is_file() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    // libFuzzer writes to the first folder.
    command.arg(found);
    if root.join(&seeds).is_dir() {
        command.arg(seeds);
    }
    let Captured { status, stderr, .. } = process::capture(&mut command, Duration::from_secs(seconds) + SETUP)?;
    let figures = Figures::parse(&stderr);
    let failure = (!status.success()).then(|| {
        let lines: Vec<&str> = stderr.lines().filter(|line| !line.starts_with("stat::")).collect();
        format!("{}\n{status}", lines[lines.len().saturating_sub(40)..].join("\n"))
    });
    Ok((figures, failure))
}

fn row(name: &str, figures: &Figures, has_failed: bool) -> String {
    let Figures { runs, coverage, peak_megabytes, .. } = figures;
    let state = if has_failed { "FAILED" } else { "ok" };
    format!("{name:<24} {runs:>12} {coverage:>9} {peak_megabytes:>5} MB  {state}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    fn parse(line: &str) -> Result<Options, Error> {
        Options::parse(&words(line))
    }

    #[test]
    fn the_arguments_select_targets_and_times() {
        let options = parse("--seconds 3 sse jwt").unwrap();
        assert_eq!((options.seconds, options.targets), (3, vec!["sse".to_owned(), "jwt".to_owned()]));
        assert_eq!((parse("").unwrap().seconds, parse("--seconds 0").unwrap().seconds), (SECONDS, 1));
        assert_eq!(
            (parse("--quick").unwrap().seconds, parse("--quick --seconds 3").unwrap().seconds),
            (QUICK_SECONDS, 3)
        );
        assert_eq!(parse("sse --input x").unwrap().input, Some(PathBuf::from("x")));
        for wrong in ["--input x", "--input x a b", "--seconds", "--seconds x", "--fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_output_of_a_run_has_figures_and_the_file_of_a_crash() {
        let output = "#2\tINITED cov: 7 ft: 8 corp: 1/1b\n#9\tDONE   cov: 12 ft: 8\n\
            artifact_prefix='a/'; Test unit written to a/crash-1\n\
            stat::number_of_executed_units: 9\nstat::peak_rss_mb:             41\n";
        let crash = Some("a/crash-1".to_owned());
        assert_eq!(Figures::parse(output), Figures { runs: 9, coverage: 12, peak_megabytes: 41, crash });
        assert_eq!(Figures::parse(""), Figures::default());
    }

    #[test]
    fn each_target_has_a_source_and_seeds() {
        let root = workspace::root();
        let names = targets(&root).unwrap();
        assert!(!names.is_empty());
        for name in names {
            assert!(root.join("fuzz/fuzz_targets").join(&name).with_extension("rs").is_file(), "{name}");
            let seeds = root.join("fuzz/corpus").join(&name);
            assert!(fs::read_dir(&seeds).unwrap().next().is_some(), "{name}");
        }
    }
}
