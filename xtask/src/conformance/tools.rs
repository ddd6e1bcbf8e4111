//! The pinned suites and the Node that runs them, installed with npm under the target folder.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Error};

use crate::process;

const INSTALL_LIMIT: Duration = Duration::from_secs(600);
const VERSION_LIMIT: Duration = Duration::from_secs(30);
/// The suite imports modules that only this version of Node.js has.
const NODE_MAJOR: u32 = 22;
const FILES: &[&str] = &["package.json", "package-lock.json", ".npmrc"];

/// A pinned release of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// 0.1.16: the handshake revisions only.
    Stable,
    /// 0.2.0-alpha.12: every revision from 2025-03-26, requirement lists, wire schemas.
    Alpha,
}

impl Release {
    pub(crate) const ALL: [Self; 2] = [Self::Stable, Self::Alpha];

    /// The release's number, as npm has it.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Stable => "0.1.16",
            Self::Alpha => "0.2.0-alpha.12",
        }
    }

    /// The name it is installed under: an npm alias of `package.json`.
    fn alias(self) -> &'static str {
        match self {
            Self::Stable => "conformance-0.1",
            Self::Alpha => "conformance-0.2",
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.version())
    }
}

/// The installed suites.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    modules: PathBuf,
    node: PathBuf,
}

impl Tools {
    /// Installs the pinned packages into `<target>/conformance` once.
    pub(crate) fn install(root: &Path, target: &Path) -> Result<Self, Error> {
        let dir = target.join("conformance");
        let modules = dir.join("node_modules");
        let source = root.join("xtask/conformance");
        // Written last, so that an install that was cut short is done again.
        let stamp = dir.join("installed.lock");
        let lock = std::fs::read(source.join("package-lock.json")).context("xtask/conformance/package-lock.json")?;
        if std::fs::read(&stamp).ok().as_deref() != Some(&lock) {
            std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
            for file in FILES {
                std::fs::copy(source.join(file), dir.join(file)).with_context(|| format!("cannot copy {file}"))?;
            }
            npm_ci(&dir, "the conformance suites")?;
            std::fs::write(&stamp, lock).with_context(|| stamp.display().to_string())?;
        }
        Ok(Self { node: node(&modules)?, modules })
    }

    /// The suite's command line.
    pub(crate) fn suite(&self, release: Release) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(self.modules.join(release.alias()).join("dist/index.js"));
        command
    }
}

/// Installs the packages of the lock file in `dir`. `what` names them in messages.
pub(crate) fn npm_ci(dir: &Path, what: &str) -> Result<(), Error> {
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    process::require(npm, "npm").with_context(|| format!("{what} come from npm"))?;
    println!("installing {what} into {}", dir.display());
    let mut command = Command::new(npm);
    command.current_dir(dir).args(["ci", "--no-progress", "--loglevel=error"]);
    let done = process::capture(&mut command, INSTALL_LIMIT)?;
    if done.status.success() {
        return Ok(());
    }
    Err(Error::msg(format!(
        "`npm ci` could not install {what} (a reachable npm registry is needed once):\n{}{}",
        done.stdout, done.stderr
    )))
}

/// The pinned Node of this platform, else one on the path that is new enough.
pub(crate) fn node(modules: &Path) -> Result<PathBuf, Error> {
    let pinned = std::fs::read_dir(modules).with_context(|| modules.display().to_string())?.filter_map(Result::ok);
    let pinned = pinned.filter(|entry| entry.file_name().to_string_lossy().starts_with("node-"));
    for dir in pinned {
        let node = dir.path().join(if cfg!(windows) { "bin/node.exe" } else { "bin/node" });
        if major(&node).is_some() {
            return Ok(node);
        }
    }
    let node = PathBuf::from("node");
    match major(&node) {
        Some(found) if found >= NODE_MAJOR => Ok(node),
        Some(found) => Err(Error::msg(format!(
            "npm has no pinned Node for this platform, and `node` is {found}: {NODE_MAJOR} is needed"
        ))),
        None => {
            Err(Error::msg(format!("npm has no pinned Node for this platform: install Node.js {NODE_MAJOR} or later")))
        }
    }
}

fn major(node: &Path) -> Option<u32> {
    let output = process::capture(Command::new(node).arg("--version"), VERSION_LIMIT).ok()?;
    output.stdout.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}
