//! `cargo xtask fuzz`: builds the targets of `fuzz` and runs each for a bounded CPU time.

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
/// The seconds of CPU time of a target, unless `--seconds` sets others.
const SECONDS: u64 = 10;
/// The seconds of CPU time of a target with `--quick`.
const QUICK_SECONDS: u64 = 2;
/// The variable with the seconds of CPU time after which a target ends itself (`fuzz::within_time`).
const CPU_SECONDS: &str = "FUZZ_CPU_SECONDS";
/// A target ends after this multiple of its seconds, even if other processes had the CPU.
const LONGEST: u64 = 10;
const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);
/// The time for the start of a target and for the inputs of its corpus, besides its seconds.
const SETUP: Duration = Duration::from_secs(300);
const PROBE_LIMIT: Duration = Duration::from_secs(60);
/// The limits of one input: bytes, seconds, and megabytes of one allocation. `fuzz::within_time` limits its CPU time to 10 seconds. The
/// limit here also ends an input that waits, and has to exceed a pause of the whole process. No measured allocation had a megabyte.
const INPUT_LIMITS: [&str; 3] = ["-max_len=4096", "-timeout=120", "-malloc_limit_mb=8"];
/// The limit of the memory of a target in megabytes: at least twice the largest memory of a run. It contains the program, the inputs that
/// the target found, and memory that is freed and kept.
const MEMORY: u32 = 384;
/// The limits of a parser without a state, and of targets with the largest programs.
const OTHER_MEMORY: [(&str, u32); 5] =
    [("client_http", 512), ("credentials", 512), ("gateway_result", 512), ("manifest", 512), ("ndjson", 160)];
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
    /// The CPU time. `None` if the system does not report it.
    cpu: Option<Duration>,
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
        return process::run(fuzzer(&root, name, &program(name)).arg(input), SETUP);
    }
    let started = Instant::now();
    let mut done = Vec::new();
    for (at, name) in selected.iter().enumerate() {
        println!("[{}/{}] {name}: {} s of CPU time", at + 1, selected.len(), options.seconds);
        let (figures, failure) = run_target(&root, name, &program(name), &options)?;
        println!("{}", row(name, &figures, failure.is_some()));
        if let Some(failure) = &failure {
            println!("{failure}");
        }
        done.push((name, figures, failure));
    }
    println!("\n{:<24} {:>9} {:>12} {:>9} {:>8}", "target", "CPU time", "runs", "coverage", "memory");
    for (name, figures, failure) in &done {
        println!("{}", row(name, figures, failure.is_some()));
    }
    let runs: u64 = done.iter().map(|(_, figures, _)| figures.runs).sum();
    let cpu: Duration = done.iter().filter_map(|(_, figures, _)| figures.cpu).sum();
    let (cpu, elapsed) = (cpu.as_secs(), started.elapsed().as_secs());
    let summary = format!("{} targets, {runs} runs, {cpu} s of CPU time, {elapsed} s", done.len());
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
fn fuzzer(root: &Path, name: &str, program: &Path) -> Command {
    let other = OTHER_MEMORY.iter().find(|(target, _)| *target == name);
    let megabytes = other.map_or(MEMORY, |(_, megabytes)| *megabytes);
    let mut command = Command::new(program);
    command.current_dir(root).env("ASAN_OPTIONS", SANITIZER).args(INPUT_LIMITS);
    command.arg(format!("-rss_limit_mb={megabytes}"));
    command
}

/// Returns the CPU time of the children that have ended. `None` if the system does not report it.
fn cpu_of_children() -> Option<Duration> {
    cpu_in_stat(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Reads `cutime` and `cstime` of `proc_pid_stat(5)`.
fn cpu_in_stat(stat: &str) -> Option<Duration> {
    /// Linux reports each time to programs in this unit.
    const TICKS_PER_SECOND: u64 = 100;
    // The name of the program before the parenthesis can contain spaces.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks = |at| fields.split_whitespace().nth(at)?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks(13)? + ticks(14)?) * 1000 / TICKS_PER_SECOND))
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
    let longest = seconds.saturating_mul(LONGEST);
    let mut command = fuzzer(root, name, program);
    command.env(CPU_SECONDS, seconds.to_string());
    command.arg(format!("-max_total_time={longest}")).arg("-print_final_stats=1");
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
    let before = cpu_of_children();
    let Captured { status, stderr, .. } = process::capture(&mut command, Duration::from_secs(longest) + SETUP)?;
    let mut figures = Figures::parse(&stderr);
    figures.cpu = cpu_of_children().zip(before).map(|(after, before)| after.saturating_sub(before));
    let failure = (!status.success()).then(|| format!("{}\n{status}", report(&stderr)));
    Ok((figures, failure))
}

/// Returns the last lines of the output of a failed target, without the frames of its stacks. The command that repeats an input shows them.
fn report(output: &str) -> String {
    let is_frame = |line: &str| {
        let line = line.trim_start();
        line.starts_with('#') || line.starts_with("at ") || line.starts_with(|first: char| first.is_ascii_digit())
    };
    let is_omitted = |line: &str| line.starts_with("stat::") || line.starts_with("  ") && is_frame(line);
    let lines: Vec<&str> = output.lines().filter(|line| !is_omitted(line)).collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

fn row(name: &str, figures: &Figures, has_failed: bool) -> String {
    let Figures { cpu, runs, coverage, peak_megabytes, .. } = figures;
    let cpu = cpu.map_or_else(|| "unknown".to_owned(), |cpu| format!("{} s", cpu.as_secs()));
    let state = if has_failed { "FAILED" } else { "ok" };
    format!("{name:<24} {cpu:>9} {runs:>12} {coverage:>9} {peak_megabytes:>5} MB  {state}")
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
        assert_eq!(Figures::parse(output), Figures { cpu: None, runs: 9, coverage: 12, peak_megabytes: 41, crash });
        assert_eq!(Figures::parse(""), Figures::default());
    }

    #[test]
    fn the_report_of_a_failure_has_its_message_and_no_frames() {
        let frames: String = (0..60).map(|number| format!("  {number}: a::b\n             at a.rs:1:2\n")).collect();
        let calls: String = (0..60).map(|number| format!("    #{number} 0x7fd6 in a::b a.rs:1:2\n")).collect();
        let output =
            format!("#2\tINITED cov: 7\nthe panic\n{frames}==1== ERROR\n{calls}\nstat::peak_rss_mb: 41\nthe file");
        assert_eq!(report(&output), "#2\tINITED cov: 7\nthe panic\n==1== ERROR\n\nthe file");
    }

    #[test]
    fn the_cpu_time_of_a_target_is_that_of_the_ended_children() {
        let stat = "7 (a b) c) R 1 7 7 0 -1 4194304 1 2 3 4 11 12 6030 40 20 0 1 0 99";
        assert_eq!(cpu_in_stat(stat), Some(Duration::from_millis(60_700)));
        assert_eq!(cpu_in_stat("7 (a) R 1"), None);
        let figures = Figures { cpu: cpu_in_stat(stat), runs: 9, coverage: 12, peak_megabytes: 41, crash: None };
        let words =
            |figures: &Figures| row("sse", figures, false).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&figures), ["sse", "60", "s", "9", "12", "41", "MB", "ok"]);
        assert_eq!(words(&Figures { cpu: None, ..figures })[1], "unknown");
    }

    #[test]
    fn each_limit_of_memory_belongs_to_a_target() {
        let names = targets(&workspace::root()).unwrap();
        for (name, megabytes) in OTHER_MEMORY {
            assert!(names.iter().any(|known| known == name), "{name}");
            let command = fuzzer(Path::new("."), name, Path::new("target"));
            assert!(command.get_args().any(|arg| arg == format!("-rss_limit_mb={megabytes}").as_str()), "{name}");
        }
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
