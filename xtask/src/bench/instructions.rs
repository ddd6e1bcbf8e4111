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
/// A count that is further below its ceiling, in per cent, causes a notice. It is not an error, because the counts of other systems differ: the
/// standard C library selects its functions by the processor.
const SAVING: u64 = 1;
/// The profile of the build.
const PROFILE: &str = "instructions";
const VALGRIND: &str = "valgrind";

/// Counts the instructions of each case. `--update` lowers the ceilings, and adds those of new cases. `--parts` prints the instructions
/// of each crate instead.
pub(super) fn run(folders: &Folders, args: &[String]) -> Result<(), Error> {
    let (update, parts) = match args {
        [] => (false, None),
        [flag] if flag == "--update" => (true, None),
        [flag, cases @ ..] if flag == "--parts" => (false, Some(cases)),
        _ => {
            let text = format!("instructions takes --update, or --parts [CASE]..., not `{}`", args.join(" "));
            return Err(Error::msg(text));
        }
    };
    let mut build = process::cargo(&folders.root);
    // A build with other optimizations counts other instructions.
    build.args(["build", "--profile", PROFILE, "--package", "instructions"]);
    process::use_own_profiles(&mut build);
    process::run(&mut build, BUILD_LIMIT)?;
    let program = folders.target.join(PROFILE).join(format!("instructions{}", std::env::consts::EXE_SUFFIX));
    let listed = process::capture(Command::new(&program).arg("--list"), CASE_LIMIT)?;
    if !listed.status.success() {
        return Err(Error::msg(format!("the cases cannot be listed: {}", listed.stderr)));
    }
    if let Some(cases) = parts {
        let known: Vec<&str> = listed.stdout.lines().collect();
        if let Some(unknown) = cases.iter().find(|case| !known.contains(&&***case)) {
            return Err(Error::msg(format!("`{unknown}` is not a case: {}", known.join(", "))));
        }
        let mut wanted = known.iter().filter(|name| cases.is_empty() || cases.iter().any(|case| case == *name));
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
    failures.extend(without_case(&ceilings, &measured));
    if update {
        ceilings.retain(|name, _| measured.contains_key(name));
        for (name, each) in measured {
            let ceiling = ceilings.entry(name).or_insert(each);
            *ceiling = each.min(*ceiling);
        }
        return ceilings::set_instructions(&folders.root, ceilings);
    }
    for notice in &notices {
        println!("notice: {notice}");
    }
    if failures.is_empty() { Ok(()) } else { Err(Error::msg(failures.join("\n       "))) }
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
    match ceiling {
        None => Some("no ceiling: run `cargo xtask bench instructions --update`".to_owned()),
        Some(ceiling) if u128::from(each) * 100 >= u128::from(ceiling) * u128::from(100 + GROWTH) => {
            Some(format!("{each} instructions, which is {GROWTH} % or more above the ceiling of {ceiling}"))
        }
        Some(_) => None,
    }
}

/// Reports a ceiling that a regression would not reach.
fn notice(each: u64, ceiling: Option<u64>) -> Option<String> {
    let ceiling = ceiling.filter(|ceiling| u128::from(each) * 100 < u128::from(*ceiling) * u128::from(100 - SAVING))?;
    Some(format!(
        "{each} instructions, which is more than {SAVING} % below the ceiling of {ceiling}: run \
         `cargo xtask bench instructions --update`"
    ))
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
    fn a_growth_of_four_per_cent_fails_and_a_saving_of_more_than_one_causes_a_notice() {
        for (each, ceiling, is_fault, is_notice) in [
            (1_039, Some(1_000), false, false),
            (1_040, Some(1_000), true, false),
            (20, Some(19), true, false),
            (990, Some(1_000), false, false),
            (989, Some(1_000), false, true),
            (u64::MAX, Some(u64::MAX), false, false),
            (10, None, true, false),
        ] {
            let found = (fault(each, ceiling).is_some(), notice(each, ceiling).is_some());
            assert_eq!(found, (is_fault, is_notice), "{each} {ceiling:?}");
        }
    }
}
