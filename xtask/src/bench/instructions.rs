//! `cargo xtask bench instructions`: the instructions of the hot paths, against the ceilings in `xtask/ceilings.toml`.

use std::{collections::BTreeMap, ffi::OsString, path::Path, process::Command, time::Duration};

use anyhow::{Context, Error};

#[path = "../../instructions/src/names.rs"]
mod names;
mod parts;

use self::names::NAMES;
use super::{builds::Folders, choices};
use crate::{process, tidy::ceilings};

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
const CASE_LIMIT: Duration = Duration::from_secs(5 * 60);
/// The iterations of the two runs of a case.
const FEW: u64 = 100;
const MANY: u64 = 600;
/// The growth above a ceiling that fails, in per mille.
const GROWTH: u64 = 30;
/// A count that is further below its ceiling, in per mille, fails. A regression of 5 % then fails from each accepted count: 981 per mille
/// of the ceiling times 1.05 are 1,030. The standard C library selects its functions by the processor, which needs some room.
const SAVING: u64 = 19;
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

/// The command line.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// The instructions of all cases.
    Counts(Action),
    /// The instructions of each crate in some cases.
    Parts(Vec<&'static str>),
}

impl Wanted {
    fn parse(args: &[String]) -> Result<Self, Error> {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        Ok(Self::Counts(match &*words {
            [] => Action::Check,
            ["--update"] => Action::Lower,
            ["--update", "--allow-growth"] => Action::Replace,
            ["--parts", ..] => return Self::parts(&args[1..]),
            _ => {
                let forms = "--update [--allow-growth], or --parts [CASE]...";
                return Err(Error::msg(format!("instructions takes {forms}, not `{}`", words.join(" "))));
            }
        }))
    }

    /// Selects cases; all cases without a name.
    fn parts(cases: &[String]) -> Result<Self, Error> {
        for (number, case) in cases.iter().enumerate() {
            choices::check(case, "case", &NAMES).map_err(Error::msg)?;
            choices::check_once(case, "case", &cases[..number]).map_err(Error::msg)?;
        }
        let is_wanted = |name: &&str| cases.is_empty() || cases.iter().any(|case| case == name);
        Ok(Self::Parts(NAMES.into_iter().filter(is_wanted).collect()))
    }
}

/// Counts the instructions of each case. `--update` lowers the ceilings, and adds those of new cases. With `--allow-growth`, it raises
/// ceilings too. `--parts` prints the instructions of each crate instead.
pub(super) fn run(folders: &Folders, args: &[String]) -> Result<(), Error> {
    let wanted = Wanted::parse(args)?;
    process::require(VALGRIND, "valgrind libc6-dbg")?;
    let mut build = process::cargo(&folders.root);
    // A build with other optimizations counts other instructions.
    build.args(["build", "--profile", PROFILE, "--package", "instructions"]);
    process::use_own_profiles(&mut build, &folders.target);
    process::run(&mut build, BUILD_LIMIT)?;
    let program = folders.target.join(PROFILE).join(format!("instructions{}", std::env::consts::EXE_SUFFIX));
    let action = match wanted {
        Wanted::Counts(action) => action,
        Wanted::Parts(cases) => {
            return cases.into_iter().try_for_each(|case| parts::print(&program, case, &folders.out()));
        }
    };
    let mut ceilings = ceilings::instructions(&folders.root)?;
    let (mut measured, mut failures) = (BTreeMap::new(), Vec::new());
    println!("\n{:<28} {:>14} {:>10}", "instructions", "each iteration", "ceiling");
    for name in NAMES {
        let each = (count(&program, name, MANY)?.saturating_sub(count(&program, name, FEW)?)) / (MANY - FEW);
        let ceiling = ceilings.get(name).copied();
        let fault = fault(each, ceiling);
        let ceiling = ceiling.map_or_else(|| "-".to_owned(), |ceiling| ceiling.to_string());
        println!("{name:<28} {each:>14} {ceiling:>10}{}", if fault.is_some() { " !" } else { "" });
        failures.extend(fault.map(|fault| format!("{name}: {fault}")));
        measured.insert(name.to_owned(), each);
    }
    if action != Action::Check {
        let failures = updated(&mut ceilings, &measured, action == Action::Replace);
        ceilings::set_instructions(&folders.root, ceilings)?;
        return verdict(&failures);
    }
    failures.extend(without_case(&ceilings, &measured));
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
    u128::from(each) * 1_000 >= u128::from(ceiling) * u128::from(1_000 + GROWTH)
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
        let growth = per_cent(GROWTH);
        return Some(format!("{each} instructions, which is {growth} % or more above the ceiling of {ceiling}"));
    }
    let is_below = u128::from(each) * 1_000 < u128::from(ceiling) * u128::from(1_000 - SAVING);
    is_below.then(|| {
        let saving = per_cent(SAVING);
        format!(
            "{each} instructions, which is more than {saving} % below the ceiling of {ceiling}: run \
             `cargo xtask bench instructions --update`"
        )
    })
}

fn per_cent(per_mille: u64) -> f64 {
    per_mille as f64 / 10.0
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
    use crate::words;

    #[test]
    fn the_arguments_are_checked_before_the_build() {
        for (line, expected) in [
            ("", Some(Wanted::Counts(Action::Check))),
            ("--update", Some(Wanted::Counts(Action::Lower))),
            ("--update --allow-growth", Some(Wanted::Counts(Action::Replace))),
            ("--parts", Some(Wanted::Parts(NAMES.to_vec()))),
            ("--parts stdio-2026-07-28 decode-sse", Some(Wanted::Parts(vec!["stdio-2026-07-28", "decode-sse"]))),
            ("--parts none", None),
            ("--parts decode-sse decode-sse", None),
            ("--allow-growth", None),
            ("decode-sse", None),
        ] {
            assert_eq!(Wanted::parse(&words(line)).ok(), expected, "{line}");
        }
    }

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
    fn a_count_far_from_its_ceiling_fails() {
        for (each, ceiling, expected) in [
            (1_029, Some(1_000), None),
            (1_030, Some(1_000), Some("3 % or more above")),
            (20, Some(19), Some("3 % or more above")),
            (981, Some(1_000), None),
            (980, Some(1_000), Some("more than 1.9 % below")),
            (u64::MAX, Some(u64::MAX), None),
            (10, None, Some("no ceiling")),
        ] {
            let fault = fault(each, ceiling);
            let is_expected =
                expected.map_or(fault.is_none(), |text| fault.as_ref().is_some_and(|it| it.contains(text)));
            assert!(is_expected, "{each} {ceiling:?} {fault:?}");
        }
    }

    #[test]
    fn a_regression_of_5_per_cent_fails_from_each_accepted_count() {
        for ceiling in (20_u64..2_000).chain([48_799, 1_816_871]) {
            let accepted =
                (ceiling - ceiling / 10..=ceiling * 11 / 10).filter(|each| fault(*each, Some(ceiling)).is_none());
            for each in accepted {
                let grown = (each * 105).div_ceil(100);
                assert!(fault(grown, Some(ceiling)).is_some(), "{each} to {grown}, ceiling {ceiling}");
            }
        }
    }

    #[test]
    fn an_update_raises_ceilings_on_demand_only_and_writes_no_zero() {
        let table = |values: &[(&str, u64)]| values.iter().map(|(name, each)| ((*name).to_owned(), *each)).collect();
        let before: BTreeMap<String, u64> =
            table(&[("gone", 5), ("grown", 100), ("less", 100), ("near", 100), ("zero", 9)]);
        let measured = table(&[("grown", 104), ("less", 90), ("near", 102), ("new", 7), ("nothing", 0), ("zero", 0)]);
        for (growth, grown, failed) in [(false, 100, 3), (true, 104, 2)] {
            let mut ceilings = before.clone();
            assert_eq!(updated(&mut ceilings, &measured, growth).len(), failed, "{growth}");
            assert_eq!(ceilings, table(&[("grown", grown), ("less", 90), ("near", 100), ("new", 7), ("zero", 9)]));
        }
    }
}
