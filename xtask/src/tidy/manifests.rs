//! The manifest of each package: the keys that it inherits, and what a registry shows of a published crate.

use anyhow::{Context, Error};
use toml::{Table, Value};

use super::Findings;
use crate::workspace::Metadata;

/// The keys that each package inherits.
const INHERITED: &[&str] = &["edition", "rust-version", "license"];

/// Checks that each package inherits the lints and the keys of [`INHERITED`], and the metadata of published packages.
pub(super) fn check(metadata: &Metadata, found: &mut Findings) -> Result<(), Error> {
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
