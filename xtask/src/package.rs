//! The step `package` of `cargo xtask ci`: each published crate packages, and the packaged sources compile with their tests.
//!
//! `cargo package` compiles only the library of each package. This step unpacks the packages into a workspace of their own,
//! so a test that uses a file of another crate fails.

use std::{fmt::Write as _, path::Path, process::Command, time::Duration};

use anyhow::{Context, Error};

use crate::{
    process,
    workspace::{self, Metadata},
};

const LIMIT: Duration = Duration::from_secs(30 * 60);

pub(crate) fn run(root: &Path) -> Result<(), Error> {
    check(root, &Metadata::load(root)?, true)
}

/// Packages the published crates of a workspace. If `compiles` is set, it compiles the packaged sources.
///
/// Cargo uses no network after the dependencies are there, so no package of the registry replaces a package of the workspace.
pub(crate) fn check(root: &Path, metadata: &Metadata, compiles: bool) -> Result<(), Error> {
    process::run(process::cargo(&workspace::root()).args(["fetch", "--locked"]), LIMIT)?;
    let folder = metadata.target().join("package-check");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut command = process::cargo(root);
    // Without `--no-verify` cargo compiles the dependencies of each package again.
    command.args(["package", "--offline", "--quiet", "--no-verify", "--allow-dirty"]);
    for package in metadata.published() {
        command.args(["--package", package.name.as_str()]);
    }
    process::run(&mut command, LIMIT)?;
    if !compiles {
        return Ok(());
    }
    let mut members = Vec::new();
    let mut patches = String::new();
    for package in metadata.published() {
        let member = format!("{}-{}", package.name, package.version);
        let archive = metadata.target().join("package").join(format!("{member}.crate"));
        // The files of a package have a fixed time, so cargo would not see their changes. `m` gives them the current time.
        process::run(Command::new("tar").current_dir(&folder).arg("-xzmf").arg(archive), LIMIT)?;
        writeln!(patches, "{} = {{ path = {member:?} }}", package.name)?;
        members.push(member);
    }
    // The profile of the workspace, so that both builds share their dependencies.
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = {members:?}\n\n[profile.dev]\ndebug = \"line-tables-only\"\n\n\
         [patch.crates-io]\n{patches}"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    std::fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let mut check = process::cargo(&folder);
    check.args(["check", "--offline", "--workspace", "--all-features", "--all-targets"]);
    check.env("CARGO_TARGET_DIR", metadata.target());
    process::run(&mut check, LIMIT).context("the packaged crates do not compile")
}
