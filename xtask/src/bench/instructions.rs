//! `cargo xtask bench instructions`: the instructions of the hot paths, against the ceilings in `xtask/ceilings.toml`.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::{Context, Error};

mod differences;
#[path = "../../instructions/src/names.rs"]
mod names;
mod parts;

pub(super) use self::names::NAMES;
use super::{builds::Folders, choices};
use crate::{parallel, process, tidy::ceilings};

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
const CASE_LIMIT: Duration = Duration::from_secs(5 * 60);
/// The iterations of the two runs of a case.
const FEW: u64 = 100;
const MANY: u64 = 600;
/// The clients with one call at a time. Each count is the mean of some pairs of runs, because the work of the allocator depends on random
/// values of the client.
const VARYING: [&str; 6] = [
    "client-2025-11-25",
    "client-2026-07-28",
    "client-http-2025-11-25",
    "client-http-2026-07-28",
    "client-lines-2025-11-25",
    "client-lines-2026-07-28",
];
const PAIRS: u64 = 4;
/// The cases that run at the same time. A count depends little on the load of the machine.
const WORKERS: usize = 2;
/// The profile of the build.
const PROFILE: &str = "instructions";
const VALGRIND: &str = "valgrind";
/// The width of the longest name in the table.
const WIDTH: usize = 61;

/// The distances from a ceiling that fail, in per mille of it.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// A count that is as far above the ceiling, or further, fails.
    growth: u64,
    /// A count that is further below the ceiling fails.
    saving: u64,
    /// Runs of one program differ by several per cent. `--update` keeps a ceiling with these bounds, so that it does not follow the lowest
    /// run.
    varies: bool,
}

/// A regression of 5 % fails from each accepted count: 981 per mille of the ceiling times 1.05 are 1,030. The standard C library selects
/// its functions by the processor, which needs some room.
const OF_CASES: Bounds = Bounds { growth: 30, saving: 19, varies: false };

impl Bounds {
    fn of(name: &str) -> Self {
        differences::bounds(name).unwrap_or(OF_CASES)
    }

    fn has_grown(self, each: u64, ceiling: u64) -> bool {
        u128::from(each) * 1_000 >= u128::from(ceiling) * u128::from(1_000 + self.growth)
    }

    fn is_below(self, each: u64, ceiling: u64) -> bool {
        u128::from(each) * 1_000 < u128::from(ceiling) * u128::from(1_000 - self.saving)
    }
}

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
    let mut compare = |name: &str, each| {
        let ceiling = ceilings.get(name).copied();
        let fault = fault(name, each, ceiling);
        let ceiling = ceiling.map_or_else(|| "-".to_owned(), |ceiling| ceiling.to_string());
        println!("{name:<WIDTH$} {each:>14} {ceiling:>10}{}", if fault.is_some() { " !" } else { "" });
        failures.extend(fault.map(|fault| format!("{name}: {fault}")));
    };
    let (done, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let counts = parallel::map(&NAMES, WORKERS, |name| {
        // The first failed case ends the command.
        if has_failed.load(Ordering::Relaxed) {
            return None;
        }
        let counted = each(&program, name);
        has_failed.fetch_or(counted.is_err(), Ordering::Relaxed);
        println!("{} of {}: {name}", done.fetch_add(1, Ordering::Relaxed) + 1, NAMES.len());
        Some(counted)
    });
    let counts = counts.into_iter().flatten().collect::<Result<Vec<u64>, Error>>()?;
    println!("\n{:<WIDTH$} {:>14} {:>10}", "instructions", "each iteration", "ceiling");
    for (name, each) in NAMES.into_iter().zip(counts) {
        compare(name, each);
        measured.insert(name.to_owned(), each);
    }
    for (name, each) in differences::of(&measured) {
        compare(&name, each);
        measured.insert(name, each);
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
        let bounds = Bounds::of(name);
        let has_grown = ceiling.is_some_and(|ceiling| bounds.has_grown(*each, ceiling));
        let lowered = |ceiling: u64| match bounds.varies && !bounds.is_below(*each, ceiling) {
            true => ceiling,
            false => ceiling.min(*each),
        };
        if *each == 0 {
            failures.push(format!("{name}: no instructions"));
        } else if has_grown && !growth {
            let text = format!("{name}: {each} instructions, above the ceiling of {}", ceiling.unwrap_or_default());
            failures.push(format!("{text}: --allow-growth raises it"));
        } else {
            let kept = ceiling.filter(|_| !has_grown).map_or(*each, lowered);
            ceilings.insert(name.clone(), kept);
        }
    }
    failures
}

/// Names the ceilings whose case does not exist.
fn without_case(ceilings: &BTreeMap<String, u64>, measured: &BTreeMap<String, u64>) -> Vec<String> {
    let unknown = ceilings.keys().filter(|name| !measured.contains_key(*name));
    unknown
        .map(|name| format!("{name}: the ceiling has no case: run `cargo xtask bench instructions --update`"))
        .collect()
}

/// Compares the count of a case, or a difference, with its ceiling.
fn fault(name: &str, each: u64, ceiling: Option<u64>) -> Option<String> {
    let bounds = Bounds::of(name);
    let Some(ceiling) = ceiling else {
        return Some("no ceiling: run `cargo xtask bench instructions --update`".to_owned());
    };
    if bounds.has_grown(each, ceiling) {
        let growth = per_cent(bounds.growth);
        return Some(format!("{each} instructions, which is {growth} % or more above the ceiling of {ceiling}"));
    }
    bounds.is_below(each, ceiling).then(|| {
        let saving = per_cent(bounds.saving);
        format!(
            "{each} instructions, which is more than {saving} % below the ceiling of {ceiling}: run \
             `cargo xtask bench instructions --update`"
        )
    })
}

fn per_cent(per_mille: u64) -> f64 {
    per_mille as f64 / 10.0
}

/// The instructions of an iteration.
fn each(program: &Path, case: &str) -> Result<u64, Error> {
    let pairs = if VARYING.contains(&case) { PAIRS } else { 1 };
    let mut all = 0;
    for _ in 0..pairs {
        all += count(program, case, MANY)?.saturating_sub(count(program, case, FEW)?);
    }
    Ok(all / (pairs * (MANY - FEW)))
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
    fn each_varying_case_exists() {
        assert!(VARYING.iter().all(|name| NAMES.contains(name)));
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

    const STEADY: &str = "http-api-key less http-2026-07-28";
    const OF_SINGLE_CALLS: &str = "client-http-2026-07-28 less bare-client-http-2026-07-28";

    #[test]
    fn a_count_far_from_its_ceiling_fails() {
        for (name, each, ceiling, expected) in [
            ("a", 1_029, Some(1_000), None),
            ("a", 1_030, Some(1_000), Some("3 % or more above")),
            ("a", 20, Some(19), Some("3 % or more above")),
            ("a", 981, Some(1_000), None),
            ("a", 980, Some(1_000), Some("more than 1.9 % below")),
            ("a", u64::MAX, Some(u64::MAX), None),
            ("a", 10, None, Some("no ceiling")),
            (STEADY, 1_049, Some(1_000), None),
            (STEADY, 1_050, Some(1_000), Some("5 % or more above")),
            (STEADY, 955, Some(1_000), None),
            (STEADY, 954, Some(1_000), Some("more than 4.5 % below")),
            (STEADY, 10, None, Some("no ceiling")),
            (OF_SINGLE_CALLS, 1_099, Some(1_000), None),
            (OF_SINGLE_CALLS, 1_100, Some(1_000), Some("10 % or more above")),
            (OF_SINGLE_CALLS, 920, Some(1_000), None),
            (OF_SINGLE_CALLS, 919, Some(1_000), Some("more than 8 % below")),
        ] {
            let fault = fault(name, each, ceiling);
            let is_expected =
                expected.map_or(fault.is_none(), |text| fault.as_ref().is_some_and(|it| it.contains(text)));
            assert!(is_expected, "{name} {each} {ceiling:?} {fault:?}");
        }
    }

    #[test]
    fn a_large_regression_fails_from_each_accepted_count() {
        for (name, per_cent) in [("a", 105), (STEADY, 110), (OF_SINGLE_CALLS, 120)] {
            for ceiling in (20_u64..2_000).chain([48_799, 1_816_871]) {
                let near = ceiling - ceiling / 10..=ceiling * 11 / 10;
                for each in near.filter(|each| fault(name, *each, Some(ceiling)).is_none()) {
                    let grown = (each * per_cent).div_ceil(100);
                    assert!(
                        fault(name, grown, Some(ceiling)).is_some(),
                        "{name}: {each} to {grown}, ceiling {ceiling}"
                    );
                }
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
