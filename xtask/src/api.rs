//! `cargo xtask api`: the public API of each library crate, against the snapshots in `xtask/api`, and the types of other
//! crates in it, against `xtask/api/external.toml`.
//!
//! rustdoc's JSON output is unstable: `RUSTC_BOOTSTRAP` makes the stable toolchain write it. The format belongs to the
//! version of the toolchain, so a new toolchain can need a new version of the crate `public-api`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Error, bail};

use crate::{
    process,
    workspace::{self, Metadata},
};

const LIMIT: Duration = Duration::from_secs(15 * 60);
const FOLDER: &str = "xtask/api";
const ALLOWED: &str = "xtask/api/external.toml";
/// The crates of the standard library and the primitive types with implementations, which any API may name.
const STANDARD: &[&str] = &["alloc", "core", "std", "str"];
/// The primitive types, which may have implementations of our traits.
const PRIMITIVES: &[&str] = &[
    "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128",
    "usize",
];

/// Compares the API with its snapshots; `--update` writes the snapshots.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let update = match args {
        [] => false,
        [arg] if arg == "--update" => true,
        _ => bail!("api takes --update, not `{}`", args.join(" ")),
    };
    let root = workspace::root();
    let metadata = Metadata::load(&root)?;
    let text = std::fs::read_to_string(root.join(ALLOWED)).context(ALLOWED)?;
    let allowed: BTreeMap<String, Vec<String>> = toml::from_str(&text).context(ALLOWED)?;
    let libraries = metadata.published().filter(|package| package.targets.iter().any(cargo_metadata::Target::is_lib));
    let libraries: Vec<&str> = libraries.map(|package| package.name.as_str()).collect();
    let ours: BTreeSet<String> = libraries.iter().map(|name| name.replace('-', "_")).collect();
    let mut problems = Vec::new();
    for name in &libraries {
        let api = public_api(&root, metadata.target(), name)?;
        let file = PathBuf::from(FOLDER).join(format!("{name}.txt"));
        let listed = allowed.get(*name).map(Vec::as_slice).unwrap_or_default();
        problems.extend(check_external(name, &external(&api, &ours), listed));
        if update {
            std::fs::write(root.join(&file), api).with_context(|| file.display().to_string())?;
        } else {
            let snapshot = std::fs::read_to_string(root.join(&file)).unwrap_or_default();
            problems.extend(differences(&snapshot, &api).map(|line| format!("{}: {line}", file.display())));
        }
    }
    for problem in &problems {
        println!("{problem}");
    }
    println!("api: {} crates, {} differences", libraries.len(), problems.len());
    if problems.is_empty() {
        return Ok(());
    }
    bail!("the API changed: run `cargo xtask api --update` and review the snapshots, or extend {ALLOWED}")
}

/// One line per public item, without blanket, auto and derived implementations.
fn public_api(root: &Path, target: &Path, name: &str) -> Result<String, Error> {
    let mut command = process::cargo(root);
    // Its own target folder: the variable changes the fingerprint of each crate.
    let folder = target.join("api");
    command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", &folder);
    command.args(["rustdoc", "--quiet", "--lib", "--all-features", "--package", name]);
    command.args(["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"]);
    process::run(&mut command, LIMIT)?;
    let json = folder.join("doc").join(format!("{}.json", name.replace('-', "_")));
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .with_context(|| format!("cannot read the rustdoc JSON of {name}"))?;
    Ok(api.to_string())
}

/// The paths of an API that begin with a crate outside of the workspace and of the standard library.
fn external(api: &str, ours: &BTreeSet<String>) -> BTreeSet<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = api.split(|c: char| !is_part(c)).map(|word| word.trim_matches(':'));
    let paths = words.filter_map(|word| Some((word.split_once("::")?.0, word)));
    let external = paths.filter(|(krate, _)| {
        // Associated types begin with a type: `Self::Error`, `T::Error`.
        !krate.starts_with(char::is_uppercase)
            && !STANDARD.contains(krate)
            && !PRIMITIVES.contains(krate)
            && !ours.contains(*krate)
    });
    external.map(|(_, path)| path.to_owned()).collect()
}

/// Paths that no pattern allows, and patterns that no path needs. The pattern `http::*` allows a whole crate or module.
fn check_external(name: &str, paths: &BTreeSet<String>, allowed: &[String]) -> Vec<String> {
    let matches = |pattern: &str, path: &str| match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => path == pattern,
    };
    let unlisted = paths.iter().filter(|path| !allowed.iter().any(|pattern| matches(pattern, path)));
    let unused = allowed.iter().filter(|pattern| !paths.iter().any(|path| matches(pattern, path)));
    let unlisted = unlisted.map(|path| format!("{ALLOWED}: {name} exposes `{path}`"));
    unlisted.chain(unused.map(|pattern| format!("{ALLOWED}: {name} does not expose `{pattern}`"))).collect()
}

/// The lines that only one of two snapshots has.
fn differences<'a>(old: &'a str, new: &'a str) -> impl Iterator<Item = String> + use<'a> {
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) = (old.lines().collect(), new.lines().collect());
    let removed: Vec<String> = before.difference(&after).map(|line| format!("-{line}")).collect();
    let added: Vec<String> = after.difference(&before).map(|line| format!("+{line}")).collect();
    removed.into_iter().chain(added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_paths_are_collected() {
        let api = "pub fn mcp_a::f(&self, axum::routing::Router, T::Error) -> core::result::Result<mcp_b::X, http::uri::Uri>\n\
                   impl serde_core::ser::Serialize for mcp_a::Y\n\
                   pub fn u8::to_f64(self) -> f64\n";
        let ours = BTreeSet::from(["mcp_a".to_owned(), "mcp_b".to_owned()]);
        let paths: Vec<String> = external(api, &ours).into_iter().collect();
        assert_eq!(paths, ["axum::routing::Router", "http::uri::Uri", "serde_core::ser::Serialize"]);
    }

    #[test]
    fn the_allow_list_is_exact() {
        let paths = BTreeSet::from(["axum::routing::Router".to_owned(), "http::uri::Uri".to_owned()]);
        let allowed = ["http::*".to_owned(), "bytes::Bytes".to_owned()];
        let problems = check_external("a", &paths, &allowed);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("exposes `axum") && problems[1].contains("not expose `bytes"), "{problems:?}");
    }

    #[test]
    fn differences_mark_removed_and_added_lines() {
        let found: Vec<String> = differences("a\nb\n", "b\nc\n").collect();
        assert_eq!(found, ["-a", "+c"]);
    }
}
