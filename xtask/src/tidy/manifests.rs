//! What every package of the workspace takes from the root manifest.

use super::Findings;
use crate::{
    error::{Context, Error},
    workspace::Metadata,
};

/// Lints, edition, oldest Rust and licence are the workspace's.
pub(super) fn check(metadata: &Metadata, found: &mut Findings) -> Result<(), Error> {
    for package in metadata.members() {
        let text = std::fs::read_to_string(&package.manifest_path).context(package.manifest_path.display())?;
        let manifest: toml::Table = toml::from_str(&text).context(package.manifest_path.display())?;
        let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool);
        if inherits != Some(true) {
            found.error(&package.name, "does not inherit the lints: `[lints] workspace = true`");
        }
        let inherited = [
            ("edition", package.edition == "2024"),
            ("rust-version", package.rust_version.as_deref() == Some("1.88")),
            ("license", package.license.as_deref() == Some("MIT OR Apache-2.0")),
        ];
        for (key, _) in inherited.into_iter().filter(|(_, holds)| !holds) {
            found.error(&package.name, format_args!("`{key}` is not the workspace's: `{key}.workspace = true`"));
        }
    }
    Ok(())
}
