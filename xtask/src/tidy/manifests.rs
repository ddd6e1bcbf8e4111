//! The manifest of each package: the keys that it inherits, and what a registry shows of a published crate.

use std::path::Path;

use anyhow::{Context, Error};
use toml::{Table, Value};

use super::Findings;
use crate::workspace::Metadata;

/// The keys that each package inherits.
const INHERITED: &[&str] = &["edition", "rust-version", "license"];

/// The files at the root of the workspace that each published package has too.
const PACKAGED: &[&str] = &["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Checks that each package inherits the lints and the keys of [`INHERITED`], and the metadata and files of published packages.
pub(super) fn check(root: &Path, metadata: &Metadata, found: &mut Findings) -> Result<(), Error> {
    for package in metadata.members() {
        let text = std::fs::read_to_string(&package.manifest_path).context(package.manifest_path.clone())?;
        let manifest: Table = toml::from_str(&text).context(package.manifest_path.clone())?;
        check_manifest(&package.name, &manifest, found);
    }
    for package in metadata.published() {
        for (key, is_missing) in [
            ("description", package.description.is_none()),
            ("readme", package.readme.is_none()),
            ("keywords", package.keywords.is_empty()),
            ("categories", package.categories.is_empty()),
            ("metadata.docs.rs", package.metadata.pointer("/docs/rs/all-features") != Some(&true.into())),
        ] {
            if is_missing {
                found.error(&package.name, format_args!("is published without `{key}`"));
            }
        }
        let folder = package.manifest_path.parent().context("a manifest without a folder")?;
        check_files(root, folder.as_std_path(), &package.name, found)?;
    }
    Ok(())
}

/// Checks that the files of a package equal those of the workspace.
fn check_files(root: &Path, folder: &Path, name: &str, found: &mut Findings) -> Result<(), Error> {
    for file in PACKAGED {
        let whole = std::fs::read(root.join(file)).context(*file)?;
        if std::fs::read(folder.join(file)).ok() != Some(whole) {
            found.error(name, format_args!("is published without the {file} of the workspace: ln -s ../../{file}"));
        }
    }
    Ok(())
}

fn check_manifest(name: &str, manifest: &Table, found: &mut Findings) {
    let inherits = |value: Option<&Value>| value.and_then(|value| value.get("workspace")?.as_bool()) == Some(true);
    if !inherits(manifest.get("lints")) {
        found.error(name, "does not inherit the lints: `[lints] workspace = true`");
    }
    for key in INHERITED {
        if !inherits(manifest.get("package").and_then(|package| package.get(key))) {
            found.error(name, format_args!("does not inherit a key: `{key}.workspace = true`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requires_the_files_of_the_workspace() {
        let root = crate::workspace::root();
        for (folder, errors) in [("crates/mcp-server", 0), (".", 0), ("crates", 3)] {
            let mut found = Findings::default();
            check_files(&root, &root.join(folder), "a", &mut found).unwrap();
            assert_eq!(found.errors.len(), errors, "{folder}: {:?}", found.errors);
        }
    }

    #[test]
    fn requires_inherited_lints_and_keys() {
        let whole = "lints.workspace = true\n[package]\nedition.workspace = true\nrust-version.workspace = true\n\
                     license.workspace = true\n";
        for (manifest, errors) in [(whole.to_owned(), 0), (whole.replace("license.workspace = true", ""), 1)] {
            let mut found = Findings::default();
            check_manifest("a", &toml::from_str(&manifest).unwrap(), &mut found);
            assert_eq!(found.errors.len(), errors, "{manifest}");
        }
    }
}
