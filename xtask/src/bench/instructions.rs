//! `cargo xtask bench instructions`: the instructions of the hot paths, against the ceilings in `xtask/ceilings.toml`.

use std::{collections::BTreeMap, ffi::OsString, path::Path, process::Command, time::Duration};

use anyhow::{Context, Error};

mod parts;

use super::builds::Folders;
use crate::{process, tidy::ceilings};

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
const CASE_LIMIT: Duration = Duration::from_secs(5 * 60);
/// The iterations of the two runs of a case.
const FEW: u64 = 100;
const MANY: u64 = 600;
/// The growth above a ceiling that fails, in per cent. A regression of 5 % then fails also from a count that is 0.9 % below its ceiling.
const GROWTH: u64 = 4;
/// A count that is this far below its ceiling, in per mille, causes a notice.
const NOTICE: u64 = 9;
/// A count that is further below its ceiling, in per cent, fails: a regression of 5 % would pass below the ceiling. The bound is larger
/// than that of a notice, because the standard C library selects its functions by the processor.
const SAVING: u64 = 3;
/// The profile of the build.
const PROFILE: &str = "instructions";
const VALGRIND: &str = "valgrind";

/// The action on the ceilings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Check,
    Lower,
    /// Raises ceilings too.
    Replace,
}

/// Counts the instructions of each case. `--update` lowers the ceilings, and adds those of new cases. With `--allow-growth`, it raises
/// ceilings too. `--parts` prints the instructions of each crate instead.
pub(super) fn run(folders: &Folders, args: &[String]) -> Result<(), Error> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let (action, parts) = match &*words {
        [] => (Action::Check, None),
        ["--update"] => (Action::Lower, None),
        ["--update", "--allow-growth"] => (Action::Replace, None),
        ["--parts", cases @ ..] => (Action::Check, Some(cases)),
        _ => {
            let forms = "--update [--allow-growth], or --parts [CASE]...";
            return Err(Error::msg(format!("instructions takes {forms}, not `{}`", words.join(" "))));
        }
    };
    process::require(VALGRIND, "valgrind libc6-dbg")?;
    let mut build = process::cargo(&folders.root);
    // A build with other optimizations counts other instructions.
    build.args(["build", "--profile", PROFILE, "--package", "instructions"]);
    process::use_own_profiles(&mut build, &folders.target);
    process::run(&mut build, BUILD_LIMIT)?;
    let program = folders.target.join(PROFILE).join(format!("instructions{}", std::env::consts::EXE_SUFFIX));
    let listed = process::capture(Command::new(&program).arg("--list"), CASE_LIMIT)?;
    if !listed.status.success() {
        return Err(Error::msg(format!("the cases cannot be listed: {}", listed.stderr)));
    }
    if let Some(cases) = parts {
        let known: Vec<&str> = listed.stdout.lines().collect();
        if let Some(unknown) = cases.iter().find(|case| !known.contains(case)) {
            return Err(Error::msg(format!("`{unknown}` is not a case: {}", known.join(", "))));
        }
        let mut wanted = known.iter().filter(|name| cases.is_empty() || cases.contains(name));
        return wanted.try_for_each(|case| parts::print(&program, case, &folders.out()));
    }
    let mut ceilings = ceilings::instructions(&folders.root)?;
    let (mut measured, mut failures, mut notices) = (BTreeMap::new(), Vec::new(), Vec::new());
    println!("\n{:<24} {:>14} {:>10}", "instructions", "each iteration", "ceiling");
    for name in listed.stdout.lines() {
        let each = (count(&program, name, MANY)?.saturating_sub(count(&program, name, FEW)?)) / (MANY - FEW);
        let ceiling = ceilings.get(name).copied();
        let (fault, notice) = (fault(each, ceiling), notice(each, ceiling));
        let ceiling = ceiling.map_or_else(|| "-".to_owned(), |ceiling| ceiling.to_string());
        println!("{name:<24} {each:>14} {ceiling:>10}{}", if fault.is_some() { " !" } else { "" });
        failures.extend(fault.map(|fault| format!("{name}: {fault}")));
        notices.extend(notice.map(|notice| format!("{name}: {notice}")));
        measured.insert(name.to_owned(), each);
    }
    if action != Action::Check {
        let failures = updated(&mut ceilings, &measured, action == Action::Replace);
        ceilings::set_instructions(&folders.root, ceilings)?;
        return verdict(&failures);
    }
    failures.extend(without_case(&ceilings, &measured));
    for notice in &notices {
        println!("notice: {notice}");
    }
    verdict(&failures)
}

fn verdict(failures: &[String]) -> Result<(), Error> {
    if failures.is_empty() { Ok(()) } else { Err(Error::msg(failures.join("\n       "))) }
}

/// Sets the ceilings to the counts, without those of absent cases. Returns the cases whose ceiling does not follow: a count of zero, and
/// a growth that [`fault`] reports unless `growth` is allowed.
fn updated(ceilings: &mut BTreeMap<String, u64>, measured: &BTreeMap<String, u64>, growth: bool) -> Vec<String> {
    ceilings.retain(|name, _| measured.contains_key(name));
    let mut failures = Vec::new();
    for (name, each) in measured {
        let ceiling = ceilings.get(name).copied();
        let has_grown = ceiling.is_some_and(|ceiling| has_grown(*each, ceiling));
        if *each == 0 {
            failures.push(format!("{name}: no instructions"));
        } else if has_grown && !growth {
            let text = format!("{name}: {each} instructions, above the ceiling of {}", ceiling.unwrap_or_default());
            failures.push(format!("{text}: --allow-growth raises it"));
        } else {
            let kept = ceiling.filter(|_| !has_grown).map_or(*each, |ceiling| ceiling.min(*each));
            ceilings.insert(name.clone(), kept);
        }
    }
    failures
}

fn has_grown(each: u64, ceiling: u64) -> bool {
    u128::from(each) * 100 >= u128::from(ceiling) * u128::from(100 + GROWTH)
}

/// Names the ceilings whose case does not exist.
fn without_case(ceilings: &BTreeMap<String, u64>, measured: &BTreeMap<String, u64>) -> Vec<String> {
    let unknown = ceilings.keys().filter(|name| !measured.contains_key(*name));
    unknown
        .map(|name| format!("{name}: the ceiling has no case: run `cargo xtask bench instructions --update`"))
        .collect()
}

/// Compares a count with its ceiling.
fn fault(each: u64, ceiling: Option<u64>) -> Option<String> {
    let Some(ceiling) = ceiling else {
        return Some("no ceiling: run `cargo xtask bench instructions --update`".to_owned());
    };
    if has_grown(each, ceiling) {
        return Some(format!("{each} instructions, which is {GROWTH} % or more above the ceiling of {ceiling}"));
    }
    is_below(each, ceiling, SAVING * 10).then(|| loose(each, ceiling, &format!("more than {SAVING}")))
}

/// Reports a ceiling that some regressions would not reach.
fn notice(each: u64, ceiling: Option<u64>) -> Option<String> {
    let ceiling = ceiling.filter(|ceiling| !is_below(each, *ceiling, SAVING * 10))?;
    let is_noticed = u128::from(each) * 1_000 <= u128::from(ceiling) * u128::from(1_000 - NOTICE);
    is_noticed.then(|| loose(each, ceiling, &format!("at least {:.1}", NOTICE as f64 / 10.0)))
}

/// Whether a count is more than a number of per mille below its ceiling.
fn is_below(each: u64, ceiling: u64, per_mille: u64) -> bool {
    u128::from(each) * 1_000 < u128::from(ceiling) * u128::from(1_000 - per_mille)
}

fn loose(each: u64, ceiling: u64, distance: &str) -> String {
    format!(
        "{each} instructions, which is {distance} % below the ceiling of {ceiling}: run \
         `cargo xtask bench instructions --update`"
    )
}

/// The instructions of a run.
fn count(program: &Path, case: &str, iterations: u64) -> Result<u64, Error> {
    let printed = callgrind(program, case, iterations, Path::new("/dev/null"), &[])?;
    collected(&printed).with_context(|| format!("{VALGRIND} printed no count\n{printed}"))
}

/// Runs a case below callgrind, which writes its counts to `out`. Returns the text that it prints.
fn callgrind(program: &Path, case: &str, iterations: u64, out: &Path, options: &[&str]) -> Result<String, Error> {
    let mut file = OsString::from("--callgrind-out-file=");
    file.push(out);
    let mut command = Command::new(VALGRIND);
    command.arg("--tool=callgrind").args(options).arg(file).arg(program).arg(case).arg(iterations.to_string());
    let captured = process::capture(&mut command, CASE_LIMIT).context("counting needs valgrind")?;
    match captured.status.success() {
        true => Ok(captured.stderr),
        false => Err(Error::msg(format!("{case} failed\n{}", captured.stderr))),
    }
}

/// The count in the summary of callgrind.
fn collected(summary: &str) -> Option<u64> {
    let line = summary.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_count_of_callgrind() {
        assert_eq!(collected("==7== Events    : Ir\n==7== Collected : 1234567\n==7==\n"), Some(1_234_567));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }

    #[test]
    fn a_ceiling_without_a_case_fails() {
        let counts = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 1)).collect::<BTreeMap<_, _>>();
        assert!(without_case(&counts(&["a"]), &counts(&["a", "b"])).is_empty());
        assert_eq!(without_case(&counts(&["a", "b"]), &counts(&["b"])).len(), 1);
    }

    #[test]
    fn a_count_far_from_its_ceiling_fails_and_a_smaller_saving_causes_a_notice() {
        for (each, ceiling, is_fault, is_notice) in [
            (1_039, Some(1_000), false, false),
            (1_040, Some(1_000), true, false),
            (20, Some(19), true, false),
            (992, Some(1_000), false, false),
            (991, Some(1_000), false, true),
            (970, Some(1_000), false, true),
            (969, Some(1_000), true, false),
            (u64::MAX, Some(u64::MAX), false, false),
            (10, None, true, false),
        ] {
            let found = (fault(each, ceiling).is_some(), notice(each, ceiling).is_some());
            assert_eq!(found, (is_fault, is_notice), "{each} {ceiling:?}");
        }
    }

    #[test]
    fn an_update_raises_ceilings_on_demand_only_and_writes_no_zero() {
        let table = |values: &[(&str, u64)]| values.iter().map(|(name, each)| ((*name).to_owned(), *each)).collect();
        let before: BTreeMap<String, u64> =
            table(&[("gone", 5), ("grown", 100), ("less", 100), ("near", 100), ("zero", 9)]);
        let measured = table(&[("grown", 104), ("less", 90), ("near", 103), ("new", 7), ("nothing", 0), ("zero", 0)]);
        for (growth, grown, failed) in [(false, 100, 3), (true, 104, 2)] {
            let mut ceilings = before.clone();
            assert_eq!(updated(&mut ceilings, &measured, growth).len(), failed, "{growth}");
            assert_eq!(ceilings, table(&[("grown", grown), ("less", 90), ("near", 100), ("new", 7), ("zero", 9)]));
        }
    }
}
