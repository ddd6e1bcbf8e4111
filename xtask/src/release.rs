//! `cargo xtask release`: tries the release of all published packages, and prints the steps that follow.

mod manifest;

use std::{collections::BTreeSet, path::Path, process::Command, time::Duration};

use anyhow::{Context, Error, bail};
use cargo_metadata::{DependencyKind, Package};
use lexopt::{Arg, Parser, ValueExt as _};

use self::manifest::Prefix;
use crate::{
    package, process,
    workspace::{self, Metadata},
};

const GIT_LIMIT: Duration = Duration::from_secs(60);
/// The files at the root of the workspace that a release reads.
const ROOT_FILES: &[&str] = &["Cargo.lock", "rust-toolchain.toml"];

/// The options of a release.
#[derive(Debug, Default, PartialEq)]
struct Options {
    is_dry: bool,
    prefix: Option<String>,
    /// Whether the packages are built only, and not compiled.
    skips_check: bool,
}

/// Tries the release.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let options = parse(args)?;
    if !options.is_dry {
        bail!("--dry-run is required: this command publishes nothing, and prints the commands that do");
    }
    let root = workspace::root();
    let metadata = Metadata::load(&root)?;
    let version = version(&metadata)?;
    let open = open_points(&root, &metadata, &version)?;
    let packages = metadata.published().map(|package| package.name.to_string()).collect();
    let prefix = Prefix { name: options.prefix.as_deref(), packages };
    let (source, copied) = match &options.prefix {
        None => (root, None),
        Some(name) => {
            let copy = metadata.target().join("prefixed").join(name);
            write_copy(&root, &copy, &prefix)?;
            (copy.clone(), Some(Metadata::load(&copy)?))
        }
    };
    package::check(&source, copied.as_ref().unwrap_or(&metadata), !options.skips_check)?;
    println!("\n{} packages of version {version} are complete.", prefix.packages.len());
    if options.skips_check {
        println!("They were not compiled.");
    }
    println!("\nOpen points:");
    for point in if open.is_empty() { vec!["none".to_owned()] } else { open } {
        println!("- {point}");
    }
    println!("\nThe commands of the release, in {}:", source.display());
    for package in order(&metadata)? {
        println!("cargo publish --package {}", prefix.apply(package));
    }
    println!("git tag -a v{version} -m v{version} && git push origin v{version}");
    Ok(())
}

fn parse(args: &[String]) -> Result<Options, Error> {
    let mut options = Options::default();
    let mut parser = Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("dry-run") => options.is_dry = true,
            Arg::Long("no-check") => options.skips_check = true,
            Arg::Long("prefix") => {
                let name = parser.value()?.string()?;
                let is_valid = name.starts_with(|c: char| c.is_ascii_lowercase())
                    && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
                if !is_valid || name.ends_with('-') {
                    let rule = "begin with a lower case letter, continue with such letters, digits and `-`, and omit a `-` at the end";
                    bail!("`{name}` is not a prefix: {rule}");
                }
                options.prefix = Some(name);
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    Ok(options)
}

/// Returns the version of all packages.
fn version(metadata: &Metadata) -> Result<String, Error> {
    let versions: BTreeSet<String> = metadata.published().map(|package| package.version.to_string()).collect();
    match versions.iter().collect::<Vec<_>>()[..] {
        [version] => Ok(version.clone()),
        _ => bail!("the published packages have several versions: {versions:?}"),
    }
}

/// Returns the points of the checklist that the workspace does not meet.
fn open_points(root: &Path, metadata: &Metadata, version: &str) -> Result<Vec<String>, Error> {
    let changelog = std::fs::read_to_string(root.join("CHANGELOG.md")).context("CHANGELOG.md")?;
    let mut open = changelog_points(&changelog, version);
    let mut status = Command::new("git");
    status.current_dir(root).args(["status", "--porcelain"]);
    if !process::capture(&mut status, GIT_LIMIT)?.stdout.is_empty() {
        open.push("the checkout has changes that are not committed".to_owned());
    }
    let without: Vec<&str> = metadata
        .published()
        .filter(|package| package.repository.is_none())
        .map(|package| package.name.as_str())
        .collect();
    if !without.is_empty() {
        open.push(format!("`repository` is missing in the manifests of {} packages", without.len()));
    }
    Ok(open)
}

fn changelog_points(changelog: &str, version: &str) -> Vec<String> {
    let section = |name: &str| {
        let rest = changelog.split_once(&format!("\n## [{name}]"))?.1;
        Some(rest.split("\n## ").next().unwrap_or(rest))
    };
    let mut open = Vec::new();
    if section(version).is_none() {
        open.push(format!("CHANGELOG.md has no section `## [{version}] - DATE`"));
    }
    if section("Unreleased").is_some_and(|text| text.contains("\n- ")) {
        open.push(format!("the entries of `## [Unreleased]` in CHANGELOG.md belong to the section of {version}"));
    }
    open
}

/// Writes the crates of the workspace into a folder, with manifests that have the prefix.
fn write_copy(root: &Path, copy: &Path, prefix: &Prefix<'_>) -> Result<(), Error> {
    if copy.exists() {
        std::fs::remove_dir_all(copy).with_context(|| copy.display().to_string())?;
    }
    for file in workspace::files(root)? {
        let is_root_file = ROOT_FILES.iter().any(|name| file == Path::new(name));
        let is_workspace = file == Path::new("Cargo.toml");
        if !(file.starts_with("crates") || is_root_file || is_workspace) {
            continue;
        }
        let (from, to) = (root.join(&file), copy.join(&file));
        let folder = to.parent().unwrap_or(copy);
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let is_package = file.components().count() == 3 && file.ends_with("Cargo.toml");
        if is_workspace || is_package {
            let text = std::fs::read_to_string(&from).with_context(|| file.display().to_string())?;
            let source = from.parent().unwrap_or(root);
            let written = if is_workspace { prefix.workspace(&text) } else { prefix.package(&text, source) };
            std::fs::write(&to, written.with_context(|| file.display().to_string())?)?;
        } else {
            std::fs::copy(&from, &to).with_context(|| file.display().to_string())?;
        }
    }
    Ok(())
}

/// Returns the published packages. Each of them comes after its dependencies.
fn order(metadata: &Metadata) -> Result<Vec<&str>, Error> {
    let mut left: Vec<&Package> = metadata.published().collect();
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let names: BTreeSet<&str> = left.iter().map(|package| package.name.as_str()).collect();
        let (waiting, ready): (Vec<&Package>, Vec<&Package>) =
            left.iter().partition(|package| needed(package).any(|name| names.contains(name)));
        if ready.is_empty() {
            bail!("the packages depend on each other: {names:?}");
        }
        ordered.extend(ready.iter().map(|package| package.name.as_str()));
        left = waiting;
    }
    Ok(ordered)
}

/// Returns the dependencies that a registry requires. It does not see a dependency of tests without a version.
fn needed(package: &Package) -> impl Iterator<Item = &str> {
    let is_needed = |dependency: &&cargo_metadata::Dependency| {
        dependency.kind != DependencyKind::Development || !dependency.req.comparators.is_empty()
    };
    package.dependencies.iter().filter(is_needed).map(|dependency| dependency.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_the_beginning_of_a_package_name() {
        let parsed = |words: &str| parse(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let expected = Options { is_dry: true, prefix: Some("acme-2".to_owned()), skips_check: false };
        assert_eq!(parsed("--dry-run --prefix acme-2").unwrap(), expected);
        for wrong in
            ["--prefix A", "--prefix -a", "--prefix a-", "--prefix a_b", "--prefix 2a", "--prefix", "--publish", "x"]
        {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        assert!(run(&[]).unwrap_err().to_string().contains("--dry-run is required"));
    }

    #[test]
    fn the_changelog_has_a_section_for_the_version() {
        for (text, points) in [
            ("# C\n\n## [Unreleased]\n\n- a\n", 2),
            ("# C\n\n## [Unreleased]\n\n## [1.0.0] - 2026-11-23\n\n- a\n", 0),
            ("# C\n\n## [Unreleased]\n\n- b\n\n## [1.0.0] - 2026-11-23\n\n- a\n", 1),
            ("# C\n\n## [0.9.0] - 2026-11-23\n\n- a\n", 1),
        ] {
            assert_eq!(changelog_points(text, "1.0.0").len(), points, "{text}");
        }
    }

    #[test]
    fn each_package_comes_after_its_dependencies() {
        let metadata = Metadata::load(&workspace::root()).unwrap();
        let ordered = order(&metadata).unwrap();
        assert_eq!(ordered.len(), metadata.published().count());
        for (at, name) in ordered.iter().enumerate() {
            let later = &ordered[at..];
            assert!(
                needed(metadata.member(name).unwrap()).all(|needed| !later.contains(&needed)),
                "{name}: {ordered:?}"
            );
        }
    }
}
