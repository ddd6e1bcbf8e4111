//! The allowed dependencies between crates, as in `docs/architecture.md`: normal dependencies, with all features.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use cargo_metadata::{Package, PackageId};

use super::Findings;
use crate::workspace::{self, Metadata};

/// The arrows between our crates: the allowed direct dependencies of each. A new crate needs an entry.
const ARROWS: &[(&str, &[&str])] = &[
    ("mcp-protocol", &[]),
    ("mcp-schema", &[]),
    ("mcp-uri-template", &[]),
    ("mcp-store", &[]),
    ("mcp-store-redis", &["mcp-store"]),
    ("mcp-http-listener", &[]),
    ("mcp-fetch", &[]),
    ("mcp-auth", &["mcp-fetch", "mcp-protocol", "mcp-store"]),
    ("mcp-transport", &["mcp-protocol"]),
    ("mcp-schedule", &["mcp-protocol", "mcp-store", "mcp-transport"]),
    ("mcp-tool-format", &["mcp-protocol", "mcp-schema"]),
    ("mcp-server-core", &["mcp-protocol", "mcp-schema", "mcp-store", "mcp-transport", "mcp-uri-template"]),
    (
        "mcp-server-http",
        &[
            "mcp-auth",
            "mcp-protocol",
            "mcp-schema",
            "mcp-store",
            "mcp-transport",
            "mcp-http-listener",
            "mcp-server-core",
        ],
    ),
    ("mcp-server-content", &["mcp-protocol", "mcp-schema", "mcp-server-core"]),
    ("mcp-macros", &["mcp-uri-template"]),
    (
        "mcp-server",
        &[
            "mcp-auth",
            "mcp-macros",
            "mcp-protocol",
            "mcp-schema",
            "mcp-store",
            "mcp-transport",
            "mcp-server-core",
            "mcp-server-content",
            "mcp-server-http",
        ],
    ),
    ("mcp-client-http", &["mcp-fetch", "mcp-protocol", "mcp-transport"]),
    ("mcp-oauth", &["mcp-client-http", "mcp-fetch", "mcp-protocol", "mcp-store", "mcp-transport"]),
    ("mcp-client", &["mcp-oauth", "mcp-protocol", "mcp-schema", "mcp-store", "mcp-transport", "mcp-client-http"]),
    (
        "mcp-agent",
        &[
            "mcp-auth",
            "mcp-client",
            "mcp-oauth",
            "mcp-protocol",
            "mcp-schema",
            "mcp-server-core",
            "mcp-store",
            "mcp-tool-format",
            "mcp-transport",
            "mcp-uri-template",
        ],
    ),
    ("mcp-cli", ANY),
    ("mcp-test", ANY),
];

/// For the crates that use both servers and clients.
const ANY: &[&str] = &["*"];

/// Crates that the first group must not reach through any number of dependencies.
const UNREACHABLE: &[(&[&str], &[&str])] = &[
    (PURE, &["tokio", "http", "hyper", "reqwest", "axum"]),
    (SERVER, CLIENT),
    (CLIENT_HALF, SERVER),
    (GATEWAY, SERVER_SHELLS),
];
const PURE: &[&str] = &["mcp-protocol", "mcp-schema", "mcp-tool-format", "mcp-uri-template"];
const SERVER: &[&str] = &["mcp-server", "mcp-server-content", "mcp-server-core", "mcp-server-http"];
const CLIENT: &[&str] = &["mcp-agent", "mcp-client", "mcp-client-http", "mcp-oauth"];
const CLIENT_HALF: &[&str] = &["mcp-client", "mcp-client-http", "mcp-oauth"];
/// The crate of the gateway, which joins the clients with the server core, and with no other part of a server.
const GATEWAY: &[&str] = &["mcp-agent"];
const SERVER_SHELLS: &[&str] = &["mcp-server", "mcp-server-content", "mcp-server-http"];

/// Foreign crates, each with the crates of this workspace that may depend on it directly.
const RESERVED: &[(&str, &[&str])] = &[
    ("reqwest", &["mcp-client-http", "mcp-fetch"]),
    ("cap-std", &["mcp-server-content"]),
    ("axum", &["mcp-server-http", "mcp-test"]),
    ("redis", &["mcp-store-redis"]),
    ("async-trait", &[]),
    ("once_cell", &[]),
    ("lazy_static", &[]),
];

/// Checks the crates under `crates/`. Examples and this tool are free.
pub(super) fn check(root: &Path, metadata: &Metadata, found: &mut Findings) {
    let crates = root.join("crates");
    let ours: Vec<&Package> =
        metadata.members().filter(|package| workspace::dir(package).starts_with(&crates)).collect();
    for package in &ours {
        if !workspace::dir(package).ends_with(package.name.as_str()) {
            found.error(&package.name, "folder and crate have different names");
        }
        check_direct(package, &ours, metadata, found);
        check_reach(package, metadata, found);
    }
}

/// Reports the names of this file that are not crates of the workspace.
pub(super) fn check_names(metadata: &Metadata, found: &mut Findings) {
    let drawn = ARROWS.iter().flat_map(|(name, allowed)| [*name].into_iter().chain(allowed.iter().copied()));
    let grouped = [PURE, SERVER, CLIENT, CLIENT_HALF, GATEWAY, SERVER_SHELLS].into_iter().flatten().copied();
    let owners = RESERVED.iter().flat_map(|(_, owners)| owners.iter().copied());
    let names: BTreeSet<&str> = drawn.chain(grouped).chain(owners).filter(|name| !ANY.contains(name)).collect();
    for name in names.into_iter().filter(|name| metadata.member(name).is_none()) {
        found.error("xtask/src/tidy/arrows.rs", format_args!("`{name}` is not a crate of this workspace"));
    }
}

fn check_direct(package: &Package, ours: &[&Package], metadata: &Metadata, found: &mut Findings) {
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| package.name == *name) else {
        found.error(&package.name, "not on the map: add it to xtask/src/tidy/arrows.rs and docs/architecture.md");
        return;
    };
    for id in metadata.normal_dependencies(&package.id) {
        let Some(name) = metadata.package(id).map(|dependency| dependency.name.as_str()) else { continue };
        let is_ours = ours.iter().any(|package| package.id == *id);
        if is_ours && *allowed != ANY && !allowed.contains(&name) {
            found.error(&package.name, format_args!("may not depend on `{name}`: no such arrow on the map"));
        }
        if let Some((_, owners)) = RESERVED.iter().find(|(reserved, _)| *reserved == name)
            && !owners.contains(&package.name.as_str())
        {
            found.error(&package.name, format_args!("may not depend on `{name}`: it belongs to {owners:?}"));
        }
    }
}

fn check_reach(package: &Package, metadata: &Metadata, found: &mut Findings) {
    for (from, never) in UNREACHABLE {
        if !from.contains(&package.name.as_str()) {
            continue;
        }
        let reached = reachable(&package.id, metadata);
        for name in never.iter().filter(|name| reached.contains_key(**name)) {
            found.error(&package.name, format_args!("reaches `{name}`: {}", trail(&reached, name)));
        }
    }
}

/// Each reachable package by name, with the package that depends on it.
fn reachable<'m>(id: &'m PackageId, metadata: &'m Metadata) -> BTreeMap<&'m str, &'m str> {
    let name_of = |id: &PackageId| metadata.package(id).map_or("", |package| package.name.as_str());
    let mut from = BTreeMap::new();
    let mut seen = BTreeSet::from([id]);
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        for dependency in metadata.normal_dependencies(id) {
            if seen.insert(dependency) {
                from.insert(name_of(dependency), name_of(id));
                open.push(dependency);
            }
        }
    }
    from
}

fn trail(reached: &BTreeMap<&str, &str>, name: &str) -> String {
    let mut steps = vec![name];
    // A step can repeat only where two versions of a crate share its name.
    while let Some(from) = steps.last().and_then(|last| reached.get(last))
        && !steps.contains(from)
    {
        steps.push(from);
    }
    steps.reverse();
    steps.join(" -> ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A workspace of crates under `/w/crates`, from lines of `name: dependencies`.
    fn metadata(lines: &[&str]) -> Metadata {
        let mut packages = Vec::new();
        let mut nodes = Vec::new();
        for line in lines {
            let (name, deps) = line.split_once(':').unwrap();
            let deps: Vec<_> = deps.split_whitespace().collect();
            let kinds: Vec<_> = deps
                .iter()
                .map(|dep| json!({"name": dep, "pkg": dep, "dep_kinds": [{"kind": null, "target": null}]}))
                .collect();
            packages.push(json!({
                "id": name, "name": name, "version": "0.1.0", "edition": "2024", "dependencies": [], "features": {},
                "targets": [], "manifest_path": format!("/w/crates/{name}/Cargo.toml"),
            }));
            nodes.push(json!({"id": name, "deps": kinds, "dependencies": deps, "features": []}));
        }
        let members: Vec<_> = lines.iter().filter(|line| line.starts_with("mcp-")).collect();
        let members: Vec<_> = members.iter().map(|line| line.split(':').next().unwrap()).collect();
        let all = json!({
            "packages": packages, "workspace_members": members, "resolve": {"nodes": nodes},
            "target_directory": "/w/target", "workspace_root": "/w", "version": 1,
        });
        Metadata(serde_json::from_value(all).unwrap())
    }

    fn errors(lines: &[&str]) -> Vec<String> {
        let mut found = Findings::default();
        check(Path::new("/w"), &metadata(lines), &mut found);
        found.errors
    }

    #[test]
    fn the_map_names_crates_of_the_workspace_only() {
        let mut found = Findings::default();
        check_names(&metadata(&["mcp-client:"]), &mut found);
        assert!(found.errors.iter().any(|error| error.contains("`mcp-protocol` is not")), "{found:?}");
        assert!(!found.errors.iter().any(|error| error.contains("`mcp-client`")), "{found:?}");
    }

    #[test]
    fn rejects_forbidden_dependencies_and_owners() {
        for (lines, complaint) in [
            (&["mcp-transport: mcp-protocol tokio", "mcp-protocol: serde", "tokio:", "serde:"][..], None),
            (&["mcp-protocol: mcp-store", "mcp-store:"], Some("no such arrow")),
            (&["mcp-protocol: serde", "serde: tokio", "tokio:"], Some("mcp-protocol -> serde -> tokio")),
            (&["mcp-server: x", "x: mcp-client", "mcp-client:"], Some("reaches `mcp-client`")),
            (&["mcp-store: reqwest", "reqwest:"], Some("it belongs to")),
            (&["mcp-new:"], Some("not on the map")),
        ] {
            let errors = errors(lines);
            match complaint {
                None => assert_eq!(errors, [""; 0], "{lines:?}"),
                Some(text) => assert!(errors.iter().any(|error| error.contains(text)), "{lines:?}: {errors:?}"),
            }
        }
    }
}
