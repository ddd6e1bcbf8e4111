//! Where the workspace lies and what it is made of: `cargo metadata` and the tracked files.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde::Deserialize;

use crate::{
    error::{Context, Error},
    process,
};

const METADATA_LIMIT: Duration = Duration::from_secs(300);
const GIT_LIMIT: Duration = Duration::from_secs(60);

/// The folder of the root manifest.
pub(crate) fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).filter(|dir| dir.ends_with("xtask"));
    let manifest = manifest.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    manifest.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The parts of `cargo metadata` that the checks read, for the host's platform and with every feature.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
    pub(crate) resolve: Resolve,
    pub(crate) target_directory: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) edition: String,
    pub(crate) rust_version: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) manifest_path: PathBuf,
    #[serde(default)]
    pub(crate) features: std::collections::BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) pkg: String,
    pub(crate) dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Kind {
    /// Nothing for a normal dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

impl Metadata {
    /// Asks cargo.
    pub(crate) fn load(root: &Path) -> Result<Self, Error> {
        let host = host_triple(root)?;
        let mut command = process::cargo(root);
        command.args(["metadata", "--format-version", "1", "--all-features", "--filter-platform", &host]);
        let output = process::capture(&mut command, METADATA_LIMIT)?;
        if !output.status.success() {
            return Err(Error::new(format!("cargo metadata failed\n{}", output.stderr)));
        }
        serde_json::from_str(&output.stdout).context("cannot read cargo metadata")
    }

    /// The workspace's own packages.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The member of that name.
    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }

    pub(crate) fn package(&self, id: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.id == id)
    }

    /// The ids that a package depends on directly at run time.
    pub(crate) fn normal_dependencies(&self, id: &str) -> impl Iterator<Item = &str> {
        let node = self.resolve.nodes.iter().find(move |node| node.id == id);
        node.into_iter()
            .flat_map(|node| &node.deps)
            .filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none()))
            .map(|dep| dep.pkg.as_str())
    }
}

impl Package {
    /// The package's folder.
    pub(crate) fn dir(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }
}

/// Every file of the checkout that is tracked or could be (not ignored), relative to the root, sorted.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut command = Command::new("git");
    command.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut files: Vec<PathBuf> = match process::capture(&mut command, GIT_LIMIT) {
        Ok(listed) if listed.status.success() => listed.stdout.split_terminator('\0').map(PathBuf::from).collect(),
        // An unpacked archive has no git; then everything beside the build output counts.
        _ => walk(root, Path::new(""))?,
    };
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// Folders that hold no source of ours.
const SKIPPED: &[&str] = &[".git", "target", "node_modules", "__pycache__", ".venv"];

fn walk(root: &Path, below: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let dir = root.join(below);
    for entry in std::fs::read_dir(&dir).context(format_args!("cannot list {}", dir.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let path = below.join(&name);
        if entry.file_type()?.is_dir() {
            if !SKIPPED.contains(&name.to_string_lossy().as_ref()) {
                found.extend(walk(root, &path)?);
            }
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

fn host_triple(root: &Path) -> Result<String, Error> {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let output = process::capture(command.current_dir(root).arg("-vV"), GIT_LIMIT)?;
    let host = output.stdout.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Error::new("rustc -vV names no host"))
}
