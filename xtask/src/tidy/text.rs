//! Rules for each text file: no trailing whitespace, no absolute path of a machine, no host of a package registry.

use std::path::Path;

use super::{File, Findings};

/// Hosts of registries. The parts are joined here, so that this file does not contain the hosts.
const HOSTS: &[&[&str]] = &[
    &["registry.npm", "js.org"],
    &["pypi", ".org"],
    &["files.python", "hosted.org"],
    &["static.crates", ".io"],
    &["index.crates", ".io"],
    &["proxy.golang", ".org"],
    &["deb.debian", ".org"],
];

/// The beginnings of home folders and of folders on build machines.
const MACHINES: &[&[&str]] = &[&["/ho", "me/"], &["/Use", "rs/"], &["/ro", "ot/"], &["/wo", "rk/"]];

/// The inputs of fuzz targets. Each of their bytes counts.
const SEEDS: &str = "fuzz/corpus/";

/// The absolute paths that a file must not contain: those of this checkout and of usual homes.
pub(super) fn machine_paths(root: &Path) -> Vec<String> {
    let mut paths: Vec<String> = MACHINES.iter().map(|parts| parts.concat()).collect();
    if let Ok(root) = root.canonicalize()
        && root.components().count() > 2
    {
        paths.push(root.to_string_lossy().into_owned());
    }
    paths
}

pub(super) fn check(file: &File, machine_paths: &[String], found: &mut Findings) {
    let File { path, text } = file;
    let is_seed = path.starts_with(SEEDS);
    let hosts: Vec<String> = HOSTS.iter().map(|parts| parts.concat()).collect();
    for (number, line) in (1..).zip(text.lines()) {
        let at = format_args!("{path}:{number}");
        if line.trim_end() != line && !is_seed {
            found.error(at, "trailing whitespace");
        }
        if let Some(host) = hosts.iter().find(|host| line.contains(host.as_str())) {
            found.error(at, format_args!("names a package registry's host, {host}"));
        }
        if let Some(machine) = machine_paths.iter().find(|path| holds_path(line, path)) {
            found.error(at, format_args!("an absolute path of one machine, {machine}…"));
        }
    }
    if !text.is_empty() && !text.ends_with('\n') && !is_seed {
        found.error(path, "no newline at the end");
    }
}

/// Whether the line holds an absolute path with this beginning: not as the middle of a longer path or of a URL.
fn holds_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !(c.is_alphanumeric() || "/.-_~}*:".contains(c)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_rejects_its_case() {
        let home = MACHINES[0].concat();
        let host = HOSTS[0].concat();
        for (text, count) in [
            ("fine\n".to_owned(), 0),
            ("trailing \n".to_owned(), 1),
            ("no end".to_owned(), 1),
            (format!("see https://{host}/x\n"), 1),
            (format!("cd {home}me\n"), 1),
            (format!("uri: file://{home}me is a URL\n"), 0),
            (format!("tests{home}me\n"), 0),
        ] {
            let mut found = Findings::default();
            let paths = machine_paths(Path::new("/"));
            check(&File { path: "a.md".to_owned(), text: text.clone() }, &paths, &mut found);
            assert_eq!(found.errors.len(), count, "{text:?}: {:?}", found.errors);
        }
        let mut found = Findings::default();
        check(&File { path: format!("{SEEDS}sse/x"), text: "data: \n\r no end".to_owned() }, &[], &mut found);
        assert!(found.errors.is_empty(), "{:?}", found.errors);
    }
}
