//! `cargo xtask ledger`: checks that the tests named in the ledger files and in pages exist, and that no entry is missing.

use std::collections::BTreeMap;

use anyhow::{Context, Error};

use crate::workspace::{self, Metadata};

mod entry;
mod evidence;
mod page;

use self::{
    entry::{Ledger, Number, Status},
    evidence::Evidence,
};

/// The requirements of the specification, and the features that users expect in practice.
const FILES: &[&str] = &["docs/ledger.toml", "docs/ledger/practice.toml"];

/// Checks the ledger files and prints the number of entries with each status.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    if let Some(arg) = args.first() {
        return Err(Error::msg(format!("ledger takes no arguments, not `{arg}`")));
    }
    let root = workspace::root();
    let evidence = Evidence::collect(&root, &Metadata::load(&root)?)?;
    let mut problems = 0;
    for file in FILES {
        let text = std::fs::read_to_string(root.join(file)).with_context(|| file.to_string())?;
        let ledger = Ledger::parse(&text).with_context(|| file.to_string())?;
        for problem in check(&ledger, &evidence) {
            println!("error: {file}: {problem}");
            problems += 1;
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for status in ledger.entries.values() {
            *counts.entry(status.name()).or_default() += 1;
        }
        let counts: Vec<String> = counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
        println!("{file}: {} entries: {}", ledger.entries.len(), counts.join(", "));
    }
    for file in page::PAGES {
        let text = std::fs::read_to_string(root.join(file)).with_context(|| file.to_string())?;
        for problem in page::check(&text, &evidence) {
            println!("error: {file}:{problem}");
            problems += 1;
        }
    }
    if problems == 0 { Ok(()) } else { Err(Error::msg(format!("{problems} problem(s) in the ledger"))) }
}

fn check(ledger: &Ledger, evidence: &Evidence) -> Vec<String> {
    let mut problems = Vec::new();
    let missing: Vec<Number> =
        ledger.covers.iter().filter(|number| !ledger.entries.contains_key(number)).copied().collect();
    if !missing.is_empty() {
        problems.push(format!("no entry for {}", Number::ranges(&missing)));
    }
    for (number, status) in &ledger.entries {
        if !ledger.covers.contains(number) {
            problems.push(format!("{number}: not in `covers`"));
        }
        match status {
            Status::Met(tests) | Status::Better(tests) => {
                let unknown = tests.iter().filter_map(|test| Some((test, evidence.find(test).err()?)));
                problems.extend(unknown.map(|(test, why)| format!("{number}: {test}: {why}")));
            }
            Status::Later(issue) if !ledger.open.contains(issue) => {
                problems.push(format!("{number}: {issue:?} is not the subject of an open issue"));
            }
            Status::Later(_) | Status::Declined => {}
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        check(&Ledger::parse(text).unwrap(), &Evidence::of(&["xtask::ledger::tests::holds"]))
    }

    #[test]
    fn each_kind_of_gap_is_reported() {
        let head = "[ledger]\ncovers = [\"R1\"]\nopen = [\"Tasks\"]\n";
        for (entries, complaint) in [
            ("[R1]\nline = \"It holds.\"\nstatus = \"met\"\ntests = [\"xtask::ledger::tests::holds\"]", None),
            ("[R1]\nline = \"It waits.\"\nstatus = \"later\"\nissue = \"Tasks\"", None),
            ("", Some("no entry for R1")),
            ("[R2]\nline = \"It waits.\"\nstatus = \"later\"\nissue = \"Tasks\"", Some("R2: not in `covers`")),
            ("[R1]\nline = \"It holds.\"\nstatus = \"met\"\ntests = [\"xtask::gone\"]", Some("R1: xtask::gone")),
            ("[R1]\nline = \"It waits.\"\nstatus = \"later\"\nissue = \"Other\"", Some("open issue")),
        ] {
            let found = problems(&format!("{head}{entries}"));
            match complaint {
                None => assert_eq!(found, [""; 0], "{entries}"),
                Some(text) => assert!(found.iter().any(|problem| problem.contains(text)), "{entries}: {found:?}"),
            }
        }
    }

    #[test]
    fn the_files_of_the_ledger_parse() {
        for file in FILES {
            let text = std::fs::read_to_string(workspace::root().join(file)).unwrap();
            Ledger::parse(&text).with_context(|| file.to_string()).unwrap();
        }
    }
}
