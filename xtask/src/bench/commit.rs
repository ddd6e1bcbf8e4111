//! The commit of a measurement, and the files that the measured programs follow.

use std::{collections::BTreeSet, fmt, path::Path, process::Command, time::Duration};

use anyhow::{Context, Error};
use serde::{Deserialize, Serialize};

use crate::process::{self, Captured};

const GIT_LIMIT: Duration = Duration::from_secs(60);
/// A page has no effect on a program.
const NO_PAGES: &str = ":(exclude)*.md";
/// The files that the measured builds follow.
const OF_BUILDS: [&str; 9] = [
    ".cargo",
    "crates",
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    "xtask/bench/peers",
    "xtask/src/bench/builds.rs",
    "xtask/src/process.rs",
    NO_PAGES,
];
/// The files that all measured programs follow.
const OF_PROGRAMS: [&str; 8] = [
    ".cargo",
    "crates",
    "xtask",
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    ":(exclude)xtask/ceilings.toml",
    NO_PAGES,
];

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Commit {
    pub(super) id: String,
}

impl Commit {
    /// Whether the files that builds follow have changed since a build of this commit.
    pub(super) fn is_outdated(&self, root: &Path) -> Result<bool, Error> {
        // A commit that a rebase replaced does not exist in each clone.
        let found = run(root, &["cat-file", "-e", &self.id], &[])?;
        if found.status.code() == Some(MISSING) {
            return Ok(true);
        }
        output(found, &["cat-file", "-e", &self.id])?;
        let changed = git(root, &["diff", "--name-only", &self.id], &OF_BUILDS)?;
        Ok(!changed.trim().is_empty())
    }
}

/// The exit status of `git cat-file -e` for the id of an object that the repository does not contain. Other failures have 128.
const MISSING: i32 = 1;

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.id.get(..12).unwrap_or(&self.id))
    }
}

/// The files that the measured programs follow, as a commit contains them.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) commit: Commit,
    /// A line of each file, with the id of its content.
    pub(super) files: String,
}

impl Sources {
    /// Reads the files.
    ///
    /// # Errors
    /// If a file differs from the commit. A result of such a file has no commit that repeats it.
    pub(super) fn read(root: &Path) -> Result<Self, Error> {
        // The configuration of a user can hide new files.
        let changes = git(root, &["status", "--porcelain", "--untracked-files=all"], &OF_PROGRAMS)?;
        if let Some(first) = changes.lines().next() {
            let count = changes.lines().count();
            let message = format!("files of the measured programs differ from the commit ({count}): {}", first.trim());
            return Err(Error::msg(message));
        }
        // A lowercase letter marks a file whose changes git does not show, and `S` a file that is not read.
        let tags = git(root, &["ls-files", "-v"], &OF_PROGRAMS)?;
        if let Some(hidden) = tags.lines().find(|line| !line.starts_with("H ")) {
            return Err(Error::msg(format!("git does not show the changes of a file: {hidden}")));
        }
        let id = git(root, &["rev-parse", "HEAD"], &[])?.trim().to_owned();
        Ok(Self { commit: Commit { id }, files: git(root, &["ls-files", "--stage"], &OF_PROGRAMS)? })
    }

    /// Checks that the files have the same content as at this reading. A later commit may change other files.
    pub(super) fn check(&self, root: &Path) -> Result<(), Error> {
        const CHANGED: &str = "the sources have changed since the start";
        let now = Self::read(root).context(CHANGED)?;
        let [then, now] = [self, &now].map(|sources| sources.files.lines().collect::<BTreeSet<_>>());
        let path = |line: &&str| line.rsplit('\t').next().map(str::to_owned);
        match then.symmetric_difference(&now).next().and_then(path) {
            Some(path) => Err(Error::msg(format!("{CHANGED} at {}: {path}", self.commit))),
            None => Ok(()),
        }
    }
}

/// Runs git. Returns its output.
fn git(root: &Path, args: &[&str], below: &[&str]) -> Result<String, Error> {
    output(run(root, args, below)?, args)
}

fn run(root: &Path, args: &[&str], below: &[&str]) -> Result<Captured, Error> {
    let mut command = Command::new("git");
    command.current_dir(root).args(args);
    if !below.is_empty() {
        command.arg("--").args(below);
    }
    process::capture(&mut command, GIT_LIMIT)
}

fn output(captured: Captured, args: &[&str]) -> Result<String, Error> {
    match captured.status.success() {
        true => Ok(captured.stdout),
        false => Err(Error::msg(format!("git {} failed: {}", args.join(" "), captured.stderr.trim()))),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    /// A repository in the temporary folder of the system.
    struct Repository(PathBuf);

    impl Repository {
        /// Makes a repository with a commit.
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("mcp-bench-{name}-{}", std::process::id()));
            let repository = Self(root);
            for path in ["crates/a.rs", "crates/README.md", "Cargo.toml", "Cargo.lock", "docs/a.md"] {
                repository.write(path, "1");
            }
            for path in ["xtask/bench/peers/a.rs", "xtask/bench/src/a.rs", "xtask/src/bench/builds.rs"] {
                repository.write(path, "1");
            }
            git(&repository.0, &["init", "--quiet"], &[]).unwrap();
            repository.commit();
            repository
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn commit(&self) {
            git(&self.0, &["add", "--all"], &[]).unwrap();
            let author = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"];
            git(&self.0, &[&author as &[&str], &["commit", "--quiet", "--message", "a"]].concat(), &[]).unwrap();
        }
    }

    impl Drop for Repository {
        fn drop(&mut self) {
            // The folder is small and temporary.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn changed_files_and_later_commits_outdate_a_build() {
        let repository = Repository::new("builds");
        let root = &repository.0;
        let built = Sources::read(root).unwrap().commit;
        assert!(!built.is_outdated(root).unwrap());
        for page in ["docs/a.md", "crates/README.md", "xtask/bench/src/a.rs"] {
            repository.write(page, "2");
        }
        repository.commit();
        assert!(!built.is_outdated(root).unwrap());
        for path in ["crates/a.rs", ".cargo/config.toml", "rust-toolchain.toml", "xtask/src/process.rs"] {
            let built = Sources::read(root).unwrap().commit;
            repository.write(path, "2");
            repository.commit();
            assert!(built.is_outdated(root).unwrap(), "{path}");
        }
    }

    #[test]
    fn a_hidden_change_is_an_error() {
        for (args, path) in [
            (&["config", "status.showUntrackedFiles", "no"] as &[&str], "crates/new.rs"),
            (&["update-index", "--assume-unchanged", "crates/a.rs"], "crates/a.rs"),
            (&["update-index", "--skip-worktree", "crates/a.rs"], "crates/a.rs"),
        ] {
            let repository = Repository::new("hidden");
            git(&repository.0, args, &[]).unwrap();
            repository.write(path, "2");
            let error = Sources::read(&repository.0).unwrap_err().to_string();
            assert!(error.contains(path), "{args:?}: {error}");
        }
    }

    #[test]
    fn only_a_missing_commit_is_outdated_without_a_comparison() {
        let repository = Repository::new("missing");
        let unknown = Commit { id: "0123456789012345678901234567890123456789".to_owned() };
        assert!(unknown.is_outdated(&repository.0).unwrap());
        let invalid = Commit { id: "none".to_owned() };
        for (commit, root) in [(&unknown, Path::new("/")), (&invalid, &repository.0)] {
            let error = commit.is_outdated(root).unwrap_err().to_string();
            assert!(error.starts_with("git cat-file -e ") && error.contains("failed"), "{error}");
        }
    }

    #[test]
    fn a_change_of_a_measured_program_is_found() {
        for (path, is_found) in [
            ("crates/a.rs", true),
            ("crates/new.rs", true),
            ("xtask/bench/src/a.rs", true),
            ("Cargo.lock", true),
            ("rust-toolchain.toml", true),
            (".cargo/config.toml", true),
            ("crates/README.md", false),
            ("docs/a.md", false),
            ("examples/a.rs", false),
            ("xtask/ceilings.toml", false),
        ] {
            let repository = Repository::new("sources");
            let root = &repository.0;
            let sources = Sources::read(root).unwrap();
            repository.write(path, "2");
            assert_eq!(Sources::read(root).is_err(), is_found, "{path}");
            let before = sources.check(root).map_err(|error| format!("{error:#}"));
            repository.commit();
            let after = sources.check(root).map_err(|error| error.to_string());
            assert!(Sources::read(root).is_ok(), "{path}");
            for outcome in [before, after] {
                let error = outcome.err().unwrap_or_default();
                assert_eq!(error.contains(path.split('/').next().unwrap()), is_found, "{path}: {error}");
                assert_eq!(error.starts_with("the sources have changed since the start"), is_found, "{path}: {error}");
            }
        }
    }

    #[test]
    fn a_commit_has_a_short_text() {
        let commit = Commit { id: "0123456789abcdef".to_owned() };
        assert_eq!(commit.to_string(), "`0123456789ab`");
        let text = serde_json::to_string(&commit).unwrap();
        assert_eq!(serde_json::from_str::<Commit>(&text).unwrap(), commit);
    }
}
