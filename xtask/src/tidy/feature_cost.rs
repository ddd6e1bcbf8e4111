//! The number of crates that features add to a build of `mcp-server`.

use std::{collections::BTreeSet, path::Path, time::Duration};

use anyhow::Error;

use super::Findings;
use crate::process;

/// A feature, a crate that it adds, and the most crates that it may add to a server over HTTP.
struct Feature {
    name: &'static str,
    marker: &'static str,
    /// The crates in the program.
    most: usize,
    /// The crates in the program, with those that only its build runs.
    most_built: usize,
}

const FEATURES: [Feature; 3] = [
    Feature { name: "macros", marker: "mcp-macros", most: 3, most_built: 3 },
    // The build of ring needs three crates.
    Feature { name: "auth", marker: "jsonwebtoken", most: 12, most_built: 15 },
    // Most of them belong to reqwest, which fetches the keys of issuers.
    Feature { name: "oauth", marker: "mcp-fetch", most: 54, most_built: 57 },
];
/// The crates of authentication. A server over stdio builds none of them.
const NOT_OVER_STDIO: [&str; 5] = ["jsonwebtoken", "mcp-auth", "mcp-fetch", "reqwest", "ring"];
const LIMIT: Duration = Duration::from_secs(60);

/// The dependencies that are in the program.
const PROGRAM: &str = "normal";
/// The dependencies that are built.
const BUILT: &str = "normal,build";

pub(super) fn check(root: &Path, found: &mut Findings) -> Result<(), Error> {
    for edges in [PROGRAM, BUILT] {
        let http = crates(root, "http", edges)?;
        for feature in &FEATURES {
            let most = if edges == PROGRAM { feature.most } else { feature.most_built };
            let with = crates(root, &format!("http,{}", feature.name), edges)?;
            compare(feature, most, &http, &with, found);
        }
    }
    check_stdio(&crates(root, "", BUILT)?, found);
    Ok(())
}

/// Returns the crates of a server with these features, with their versions.
fn crates(root: &Path, features: &str, edges: &str) -> Result<BTreeSet<String>, Error> {
    let mut command = process::cargo(root);
    command.args(["tree", "--package", "mcp-server", "--no-default-features", "--features", features]);
    command.args(["--edges", edges, "--prefix", "none", "--format", "{p}"]);
    let listed = process::capture(&mut command, LIMIT)?;
    if !listed.status.success() {
        return Err(Error::msg(format!("cargo tree: {}", listed.stderr)));
    }
    // A line is `name version`, and notes in brackets.
    let name = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    Ok(listed.stdout.lines().map(name).collect())
}

fn compare(feature: &Feature, most: usize, without: &BTreeSet<String>, with: &BTreeSet<String>, found: &mut Findings) {
    let Feature { name, marker, .. } = feature;
    let added: Vec<&str> = with.difference(without).map(String::as_str).collect();
    if !added.iter().any(|added| is_crate(added, marker)) {
        found.error("mcp-server", format_args!("the feature `{name}` does not add `{marker}`"));
    }
    if added.len() > most {
        let names = added.join(", ");
        found.error("mcp-server", format_args!("the feature `{name}` adds more than {most} crates: {names}"));
    }
}

fn check_stdio(crates: &BTreeSet<String>, found: &mut Findings) {
    for name in NOT_OVER_STDIO {
        if crates.iter().any(|built| is_crate(built, name)) {
            found.error("mcp-server", format_args!("a server over stdio builds `{name}`"));
        }
    }
}

/// Whether an entry with a version is that of a crate.
fn is_crate(entry: &str, name: &str) -> bool {
    entry.split(' ').next() == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &str) -> BTreeSet<String> {
        names.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn rejects_a_feature_that_adds_many_crates() {
        let feature = Feature { name: "macros", marker: "mcp-macros", most: 3, most_built: 3 };
        for (added, errors) in
            [("mcp-macros 0", 0), ("mcp-macros 0,a 1,b 1", 0), ("mcp-macros 0,a 1,b 1,b 2", 1), ("a 1", 1)]
        {
            let mut found = Findings::default();
            compare(&feature, feature.most, &set("serde 1"), &set(&format!("serde 1,{added}")), &mut found);
            assert_eq!(found.errors.len(), errors, "{added}: {:?}", found.errors);
        }
    }

    #[test]
    fn rejects_crates_of_authentication_in_a_server_over_stdio() {
        for (crates, errors) in [("serde 1,ringbuf 2", 0), ("serde 1,ring 0", 1), ("mcp-auth 0,reqwest 0", 2)] {
            let mut found = Findings::default();
            check_stdio(&set(crates), &mut found);
            assert_eq!(found.errors.len(), errors, "{crates}: {:?}", found.errors);
        }
    }
}
