//! The number of crates that the feature `macros` adds to a build of `mcp-server`.

use std::{collections::BTreeSet, path::Path, time::Duration};

use anyhow::Error;

use super::Findings;
use crate::process;

/// The most crates that the feature may add.
const MOST: usize = 3;
const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn check(root: &Path, found: &mut Findings) -> Result<(), Error> {
    let without = crates(root, "http")?;
    compare(&without, &crates(root, "http,macros")?, found);
    Ok(())
}

/// Returns the crates of a build with these features, with their versions.
fn crates(root: &Path, features: &str) -> Result<BTreeSet<String>, Error> {
    let mut command = process::cargo(root);
    command.args(["tree", "--package", "mcp-server", "--no-default-features", "--features", features]);
    command.args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"]);
    let listed = process::capture(&mut command, LIMIT)?;
    if !listed.status.success() {
        return Err(Error::msg(format!("cargo tree: {}", listed.stderr)));
    }
    // A line is `name version`, and notes in brackets.
    let name = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    Ok(listed.stdout.lines().map(name).collect())
}

fn compare(without: &BTreeSet<String>, with: &BTreeSet<String>, found: &mut Findings) {
    let added: Vec<&str> = with.difference(without).map(String::as_str).collect();
    if !added.iter().any(|name| name.starts_with("mcp-macros ")) {
        found.error("mcp-server", "the feature `macros` does not add `mcp-macros`");
    }
    if added.len() > MOST {
        let names = added.join(", ");
        found.error("mcp-server", format_args!("the feature `macros` adds more than {MOST} crates: {names}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_a_feature_that_adds_many_crates() {
        let without = BTreeSet::from(["serde 1".to_owned()]);
        for (added, errors) in
            [("mcp-macros 0", 0), ("mcp-macros 0,a 1,b 1", 0), ("mcp-macros 0,a 1,b 1,b 2", 1), ("a 1", 1)]
        {
            let mut with = without.clone();
            with.extend(added.split(',').map(str::to_owned));
            let mut found = Findings::default();
            compare(&without, &with, &mut found);
            assert_eq!(found.errors.len(), errors, "{added}: {:?}", found.errors);
        }
    }
}
