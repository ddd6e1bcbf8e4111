//! The commit of a measurement.

use std::{fmt, path::Path, process::Command, time::Duration};

use anyhow::Error;
use serde::{Deserialize, Serialize};

use crate::process;

const GIT_LIMIT: Duration = Duration::from_secs(60);
/// The paths that the measured builds follow.
pub(super) const OF_BUILDS: [&str; 5] =
    ["crates", "Cargo.toml", "Cargo.lock", "xtask/bench/peers", "xtask/src/bench/builds.rs"];

/// A commit, and whether the files differed from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Commit {
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) has_changes: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Commit {
    /// Reads the commit of the files below some paths. Without paths, all files count.
    pub(super) fn read(root: &Path, below: &[&str]) -> Result<Self, Error> {
        let id = git(root, &["rev-parse", "HEAD"], &[])?.trim().to_owned();
        let changes = git(root, &["status", "--porcelain"], below)?;
        Ok(Self { id, has_changes: !changes.trim().is_empty() })
    }

    /// Whether the files that builds follow have changed since a build of this commit.
    pub(super) fn is_outdated(&self, root: &Path) -> Result<bool, Error> {
        // A commit that a rebase replaced does not exist in each clone.
        let object = format!("{}^{{commit}}", self.id);
        if self.has_changes || git(root, &["cat-file", "-e", &object], &[]).is_err() {
            return Ok(true);
        }
        let changed = git(root, &["diff", "--name-only", &self.id], &OF_BUILDS)?;
        Ok(!changed.trim().is_empty())
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.id.get(..12).unwrap_or(&self.id);
        write!(f, "`{short}`{}", if self.has_changes { ", with changes" } else { "" })
    }
}

/// Runs git. Returns its output.
fn git(root: &Path, args: &[&str], below: &[&str]) -> Result<String, Error> {
    let mut command = Command::new("git");
    command.current_dir(root).args(args);
    if !below.is_empty() {
        command.arg("--").args(below);
    }
    let captured = process::capture(&mut command, GIT_LIMIT)?;
    if !captured.status.success() {
        return Err(Error::msg(format!("git {} failed: {}", args.join(" "), captured.stderr.trim())));
    }
    Ok(captured.stdout)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn changed_files_and_later_commits_outdate_a_build() {
        let root = std::env::temp_dir().join(format!("mcp-bench-commit-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        };
        let commit = || {
            git(&root, &["add", "--all"], &[]).unwrap();
            let author = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"];
            git(&root, &[&author as &[&str], &["commit", "--quiet", "--message", "a"]].concat(), &[]).unwrap();
        };
        for path in OF_BUILDS {
            write(if path.contains('.') { path } else { "crates/a.rs" }, "1");
        }
        write("xtask/bench/peers/a.rs", "1");
        git(&root, &["init", "--quiet"], &[]).unwrap();
        commit();
        let built = Commit::read(&root, &OF_BUILDS).unwrap();
        assert!(!built.has_changes && !built.is_outdated(&root).unwrap());
        write("docs/a.md", "1");
        assert!(!Commit::read(&root, &OF_BUILDS).unwrap().has_changes && Commit::read(&root, &[]).unwrap().has_changes);
        commit();
        assert!(!built.is_outdated(&root).unwrap());
        write("crates/a.rs", "2");
        assert!(built.is_outdated(&root).unwrap() && Commit::read(&root, &OF_BUILDS).unwrap().has_changes);
        commit();
        assert!(built.is_outdated(&root).unwrap());
        let unknown = Commit { id: "0123456789012345678901234567890123456789".to_owned(), has_changes: false };
        assert!(unknown.is_outdated(&root).unwrap());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_commit_has_a_short_text() {
        for (has_changes, expected) in [(false, "`0123456789ab`"), (true, "`0123456789ab`, with changes")] {
            let commit = Commit { id: "0123456789abcdef".to_owned(), has_changes };
            assert_eq!(commit.to_string(), expected);
            let text = serde_json::to_string(&commit).unwrap();
            assert_eq!(serde_json::from_str::<Commit>(&text).unwrap(), commit);
        }
    }
}
