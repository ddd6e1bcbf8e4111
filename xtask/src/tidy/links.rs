//! Links between Markdown files: each relative one leads to a file, and to a heading where it names one.

use std::path::{Component, Path, PathBuf};

use super::{File, Findings};

pub(super) fn check(root: &Path, file: &File, found: &mut Findings) {
    for (number, target) in links(&file.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let at = format_args!("{}:{number}", file.path);
        let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
        let full = if path.is_empty() { root.join(&file.path) } else { root.join(resolve(&file.path, path)) };
        if !full.exists() {
            found.error(at, format_args!("a link leads nowhere: {target}"));
            continue;
        }
        let markdown = full.extension().is_some_and(|extension| extension == "md");
        if let Some(anchor) = anchor.filter(|_| markdown)
            && !std::fs::read_to_string(&full).is_ok_and(|text| headings(&text).any(|heading| heading == anchor))
        {
            found.error(at, format_args!("a link leads to no heading: {target}"));
        }
    }
}

/// The targets of inline links outside code, with the numbers of their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, remaining)) = after.split_once(')') else { break };
            // A title may follow the target.
            targets.push((number, target.split_whitespace().next().unwrap_or_default()));
            rest = remaining;
        }
    }
    targets
}

/// The lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return false;
        }
        !fenced
    })
}

fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter_map(|(_, line)| {
        let title = line.strip_prefix('#')?.trim_start_matches('#').trim();
        let kept = title.to_lowercase().replace(' ', "-");
        Some(kept.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect())
    })
}

/// The target of a link in `from`, relative to the root.
fn resolve(from: &str, target: &str) -> PathBuf {
    if let Some(absolute) = target.strip_prefix('/') {
        return PathBuf::from(absolute);
    }
    let mut path = PathBuf::from(from);
    path.pop();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_ignored() {
        let text = "a [b](c.md) [d](e.md#f \"t\")\n```\n[no](x.md)\n```\n[g](#h)\n";
        assert_eq!(links(text), [(1, "c.md"), (1, "e.md#f"), (5, "#h")]);
    }

    #[test]
    fn headings_become_anchors() {
        let anchors: Vec<String> = headings("# One, two\n## `code` and_more\n").collect();
        assert_eq!(anchors, ["one-two", "code-and_more"]);
    }

    #[test]
    fn targets_resolve_against_the_file() {
        for (from, target, path) in [
            ("docs/a.md", "../README.md", "README.md"),
            ("docs/a.md", "b/c.md", "docs/b/c.md"),
            ("a.md", "/docs/b.md", "docs/b.md"),
        ] {
            assert_eq!(resolve(from, target), Path::new(path), "{from} {target}");
        }
    }

    #[test]
    fn a_dead_link_is_an_error() {
        let root = crate::workspace::root();
        for (text, count) in [("[x](Cargo.toml)", 0), ("[x](no-such-file.md)", 1), ("[x](https://example.com)", 0)] {
            let mut found = Findings::default();
            check(&root, &File { path: "a.md".to_owned(), text: text.to_owned() }, &mut found);
            assert_eq!(found.errors.len(), count, "{text}");
        }
    }
}
