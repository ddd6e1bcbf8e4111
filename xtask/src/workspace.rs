//! The packages of the workspace, by `cargo metadata`, and the files of the checkout.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Error};
use cargo_metadata::{CargoOpt, DependencyKind, MetadataCommand, Package, PackageId};

use crate::process;

const GIT_LIMIT: Duration = Duration::from_secs(60);

/// The folder of the root manifest.
pub(crate) fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).filter(|dir| dir.ends_with("xtask"));
    let manifest = manifest.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    manifest.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The packages and their dependencies, for the host's platform and with each feature.
#[derive(Debug)]
pub(crate) struct Metadata(pub(crate) cargo_metadata::Metadata);

impl Metadata {
    pub(crate) fn load(root: &Path) -> Result<Self, Error> {
        let mut command = MetadataCommand::new();
        command.current_dir(root).features(CargoOpt::AllFeatures);
        command.other_options(["--filter-platform".to_owned(), "host-tuple".to_owned()]);
        Ok(Self(command.exec()?))
    }

    /// The workspace's own packages.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.0.packages.iter().filter(|package| self.0.workspace_members.contains(&package.id))
    }

    /// The members that are published: those that do not set `publish = false`.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.members().filter(|package| package.publish.as_ref().is_none_or(|registries| !registries.is_empty()))
    }

    /// The workspace's own package of that name.
    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }

    pub(crate) fn package(&self, id: &PackageId) -> Option<&Package> {
        self.0.packages.iter().find(|package| package.id == *id)
    }

    /// The packages that a package depends on directly, apart from build and development.
    pub(crate) fn normal_dependencies(&self, id: &PackageId) -> impl Iterator<Item = &PackageId> {
        let nodes = self.0.resolve.iter().flat_map(|resolve| &resolve.nodes);
        let dependencies = nodes.filter(move |node| node.id == *id).flat_map(|node| &node.deps);
        let is_normal = |kind: &cargo_metadata::DepKindInfo| kind.kind == DependencyKind::Normal;
        dependencies.filter(move |dep| dep.dep_kinds.iter().any(is_normal)).map(|dep| &dep.pkg)
    }

    /// The folder of build output.
    pub(crate) fn target(&self) -> &Path {
        self.0.target_directory.as_std_path()
    }
}

/// The package's folder.
pub(crate) fn dir(package: &Package) -> &Path {
    let manifest = package.manifest_path.as_std_path();
    manifest.parent().unwrap_or(manifest)
}

/// Each file of the checkout that is tracked or not ignored, relative to the root, sorted.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut command = Command::new("git");
    command.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut files: Vec<PathBuf> = match process::capture(&mut command, GIT_LIMIT) {
        Ok(listed) if listed.status.success() => listed.stdout.split_terminator('\0').map(PathBuf::from).collect(),
        // An unpacked archive has no git repository. Then each file beside the build output counts.
        _ => walk(root, Path::new(""))?,
    };
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// Folders without sources.
const SKIPPED: &[&str] = &[".git", "target", "node_modules", "__pycache__", ".venv"];

fn walk(root: &Path, below: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let dir = root.join(below);
    for entry in std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
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
