//! The manifests of a release under a prefix: each package has another name, and each library keeps its name.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context, Error};
use toml::{Table, Value};

/// The tables of a manifest with dependencies.
const DEPENDENCIES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// The packages that are published, and the prefix of their names in the registry.
pub(super) struct Prefix<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) packages: BTreeSet<String>,
}

impl Prefix<'_> {
    /// Returns the name of a package in the registry.
    pub(super) fn apply(&self, package: &str) -> String {
        match self.name {
            Some(prefix) => format!("{prefix}-{package}"),
            None => package.to_owned(),
        }
    }

    /// Returns the manifest of the workspace. Its members are the published packages.
    pub(super) fn workspace(&self, text: &str) -> Result<String, Error> {
        let mut manifest: Table = toml::from_str(text)?;
        let workspace = manifest.get_mut("workspace").and_then(Value::as_table_mut).context("no `workspace`")?;
        workspace.insert("members".to_owned(), Value::from(vec!["crates/*"]));
        self.rename(workspace);
        Ok(toml::to_string(&manifest)?)
    }

    /// Returns the manifest of a package. `folder` is that of the package, and shows whether it has a library.
    pub(super) fn package(&self, text: &str, folder: &Path) -> Result<String, Error> {
        let mut manifest: Table = toml::from_str(text)?;
        let package = manifest.get_mut("package").and_then(Value::as_table_mut).context("no `package`")?;
        let name = package.get("name").and_then(Value::as_str).context("no `package.name`")?.to_owned();
        package.insert("name".to_owned(), self.apply(&name).into());
        if folder.join("src/lib.rs").is_file() {
            let library = manifest.entry("lib").or_insert_with(|| Table::new().into());
            let library = library.as_table_mut().context("`lib` is not a table")?;
            library.entry("name").or_insert_with(|| name.replace('-', "_").into());
        }
        self.rename(&mut manifest);
        for target in manifest.get_mut("target").and_then(Value::as_table_mut).into_iter().flatten() {
            if let Some(target) = target.1.as_table_mut() {
                self.rename(target);
            }
        }
        Ok(toml::to_string(&manifest)?)
    }

    /// Adds the name in the registry to each dependency on a published package.
    fn rename(&self, manifest: &mut Table) {
        for kind in DEPENDENCIES {
            let Some(dependencies) = manifest.get_mut(*kind).and_then(Value::as_table_mut) else { continue };
            for (name, dependency) in dependencies.iter_mut().filter(|(name, _)| self.packages.contains(*name)) {
                // A dependency of the workspace has its name in the table of the workspace.
                if let Some(dependency) = dependency.as_table_mut().filter(|table| !table.contains_key("workspace")) {
                    dependency.insert("package".to_owned(), self.apply(name).into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_have_the_prefix_and_libraries_do_not() {
        let packages = ["mcp-a", "mcp-b"].map(str::to_owned).into();
        let prefix = Prefix { name: Some("acme"), packages };
        let workspace = "[workspace]\nmembers = [\"xtask\"]\n[workspace.dependencies]\nmcp-a = { version = \"1\", path = \
                         \"crates/mcp-a\" }\nserde = \"1\"\n";
        let written: Table = toml::from_str(&prefix.workspace(workspace).unwrap()).unwrap();
        let dependencies = &written["workspace"]["dependencies"];
        assert_eq!(dependencies["mcp-a"]["package"].as_str(), Some("acme-mcp-a"));
        assert_eq!(dependencies["mcp-a"]["path"].as_str(), Some("crates/mcp-a"));
        assert_eq!(dependencies["serde"].as_str(), Some("1"));
        assert_eq!(written["workspace"]["members"], Value::from(vec!["crates/*"]));

        let package = "[package]\nname = \"mcp-b\"\n[dependencies]\nmcp-a.workspace = true\n[dev-dependencies]\n\
                       mcp-a = { path = \"../mcp-a\" }\n[target.'cfg(unix)'.dependencies]\nmcp-a = { path = \"../mcp-a\" }\n";
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/mcp-protocol");
        let written: Table = toml::from_str(&prefix.package(package, &folder).unwrap()).unwrap();
        assert_eq!(written["package"]["name"].as_str(), Some("acme-mcp-b"));
        assert_eq!(written["lib"]["name"].as_str(), Some("mcp_b"));
        assert!(written["dependencies"]["mcp-a"].get("package").is_none());
        for table in [&written["dev-dependencies"], &written["target"]["cfg(unix)"]["dependencies"]] {
            assert_eq!(table["mcp-a"]["package"].as_str(), Some("acme-mcp-a"));
        }
        let without_library = prefix.package("[package]\nname = \"mcp-b\"\n", Path::new("no-such-folder")).unwrap();
        assert!(!without_library.contains("[lib]"));
    }
}
