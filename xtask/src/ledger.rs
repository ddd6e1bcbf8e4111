//! `cargo xtask ledger`: the project's account of what it promises, `docs/ledger.toml`, against the tests that keep it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    error::{Context, Error},
    workspace::{self, Metadata},
};

mod entry;
mod evidence;

use self::{
    entry::{Account, Number, Status},
    evidence::Evidence,
};

const FILE: &str = "docs/ledger.toml";

/// Checks the account and prints how many promises stand how.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    if let Some(arg) = args.first() {
        return Err(Error::new(format!("ledger takes no arguments, not `{arg}`")));
    }
    let root = workspace::root();
    let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
    let account = Account::parse(&text).context(FILE)?;
    let evidence = Evidence::collect(&root, &Metadata::load(&root)?)?;
    let mut problems = Vec::new();
    check_covered(&account, &mut problems);
    check_entries(&account, &evidence, &mut problems);
    for problem in &problems {
        println!("error: {problem}");
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in account.entries.values() {
        *counts.entry(entry.status.name()).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    println!("ledger: {} entries: {}", account.entries.len(), counts.join(", "));
    if problems.is_empty() { Ok(()) } else { Err(Error::new(format!("{} problem(s) in {FILE}", problems.len()))) }
}

/// Every number that has to be accounted for now has an entry.
fn check_covered(account: &Account, problems: &mut Vec<String>) {
    for part in &account.covering {
        let Some(numbers) = account.covers.get(part) else {
            problems.push(format!("[covers] says nothing of {part:?}"));
            continue;
        };
        let missing: Vec<Number> =
            numbers.iter().filter(|number| !account.entries.contains_key(number)).copied().collect();
        if !missing.is_empty() {
            problems.push(format!(
                "{part} covers {} numbers without an entry: {}",
                missing.len(),
                Number::ranges(&missing)
            ));
        }
    }
}

fn check_entries(account: &Account, evidence: &Evidence, problems: &mut Vec<String>) {
    let parts: BTreeSet<&String> = account.covers.keys().chain(&account.resolved).chain(&account.covering).collect();
    for (number, entry) in &account.entries {
        match &entry.status {
            Status::Met(tests) | Status::Better(tests) => {
                for test in tests {
                    if let Err(why) = evidence.find(test) {
                        problems.push(format!("{number}: {test}: {why}"));
                    }
                }
            }
            Status::Later(issue) if account.resolved.contains(issue) => {
                problems.push(format!("{number}: left to {issue}, which is resolved"));
            }
            Status::Later(issue) if !is_part(issue) => {
                problems.push(format!("{number}: no part of the work is called {issue:?}"))
            }
            Status::Later(_) | Status::Declined => {}
        }
    }
    for part in parts.into_iter().filter(|part| !is_part(part)) {
        problems.push(format!("no part of the work is called {part:?}"));
    }
}

/// The parts of the work are `1/5` to `5/5`.
fn is_part(name: &str) -> bool {
    matches!(name.strip_suffix("/5"), Some("1" | "2" | "3" | "4" | "5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let account = Account::parse(text).unwrap();
        let mut problems = Vec::new();
        check_covered(&account, &mut problems);
        check_entries(&account, &Evidence::of(&["xtask::ledger::tests::holds"]), &mut problems);
        problems
    }

    #[test]
    fn each_kind_of_gap_is_a_problem() {
        let head = "[issues]\nresolved = [\"1/5\"]\ncovers = [\"1/5\"]\n[covers]\n\"1/5\" = [\"R1\"]\n";
        for (entries, complaint) in [
            ("[R1]\nline = \"It holds.\"\nstatus = \"met\"\ntest = \"xtask::ledger::tests::holds\"", None),
            ("[R1]\nline = \"It waits.\"\nstatus = \"later\"\nissue = \"2/5\"", None),
            ("", Some("without an entry: R1")),
            ("[R1]\nline = \"It holds.\"\nstatus = \"met\"\ntest = \"xtask::gone\"", Some("R1: xtask::gone")),
            ("[R1]\nline = \"It waits.\"\nstatus = \"later\"\nissue = \"1/5\"", Some("which is resolved")),
            ("[R1]\nline = \"It waits.\"\nstatus = \"later\"\nissue = \"9/5\"", Some("no part")),
        ] {
            let found = problems(&format!("{head}{entries}"));
            match complaint {
                None => assert_eq!(found, [""; 0], "{entries}"),
                Some(text) => assert!(found.iter().any(|problem| problem.contains(text)), "{entries}: {found:?}"),
            }
        }
    }

    #[test]
    fn the_account_reads() {
        let text = std::fs::read_to_string(workspace::root().join(FILE)).unwrap();
        Account::parse(&text).unwrap();
    }
}
