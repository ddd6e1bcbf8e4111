//! Rules for Rust files: the first line, the length, revision dates and untagged unions.

use super::{File, Findings};

const SOFT: usize = 600;
const HARD: usize = 1000;

/// Example programs, each with the most lines that are not blank. They show how short a server is.
const PROGRAMS: &[(&str, usize)] =
    &[("examples/hello/src/main.rs", 12), ("examples/macros/src/main.rs", 26), ("examples/counter/src/main.rs", 75)];

/// The revisions of the protocol. Only one module compares them; all others use its predicates.
const REVISIONS: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// Paths whose code may contain the date of a revision.
const DATES_ALLOWED: &[&str] = &["crates/mcp-protocol/src/version", "crates/mcp-test/", "examples/", "xtask/", "fuzz/"];

pub(super) fn check(file: &File, found: &mut Findings) {
    let File { path, text } = file;
    if !text.starts_with("//!") {
        found.error(path, "does not begin with `//!` and the purpose of the file");
    }
    let code = code_lines(path, text);
    if code.len() > HARD {
        found.error(path, format_args!("{} lines without its tests, {HARD} at most", code.len()));
    } else if code.len() > SOFT {
        found.warning(path, format_args!("{} lines without its tests, more than {SOFT}: split it", code.len()));
    }
    if let Some((_, most)) = PROGRAMS.iter().find(|(program, _)| program == path) {
        let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
        if lines > *most {
            found.error(path, format_args!("{lines} lines that are not blank, {most} at most"));
        }
    }
    let dates_allowed = DATES_ALLOWED.iter().any(|allowed| path.starts_with(allowed));
    for (number, line) in (1..).zip(code) {
        let line = line.trim_start();
        if line.starts_with("//") {
            continue;
        }
        if !dates_allowed && REVISIONS.iter().any(|date| line.contains(&format!("\"{date}\""))) {
            found.error(format_args!("{path}:{number}"), "a revision as text: ask `ProtocolVersion` by name instead");
        }
        if path.starts_with("crates/") && line.contains("serde(") && line.contains("untagged") {
            found.error(format_args!("{path}:{number}"), "an untagged serde union: decode by a member of the message");
        }
    }
}

/// The lines that count: none of a test file, and the lines before the tests of another file.
fn code_lines<'t>(path: &str, text: &'t str) -> Vec<&'t str> {
    let is_test = path.split('/').any(|part| matches!(part, "tests" | "benches")) || path.ends_with("/tests.rs");
    if is_test {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|pair| pair[0].starts_with("#[cfg(") && pair[0].contains("test") && opens_module(pair[1]));
    lines[..tests.unwrap_or(lines.len())].to_vec()
}

fn opens_module(line: &str) -> bool {
    line.trim_start_matches("pub(crate) ").starts_with("mod ") && line.ends_with('{')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_the_lines_of_the_short_programs() {
        for (program, most) in PROGRAMS {
            let text = std::fs::read_to_string(crate::workspace::root().join(program)).unwrap();
            assert!(text.lines().count() > most / 2, "{program}");
            for (lines, errors) in [(*most, 0), (most + 1, 1)] {
                let text = format!("//! A program.\n\n{}", "fn main() {}\n".repeat(lines - 1));
                let mut found = Findings::default();
                check(&File { path: (*program).to_owned(), text }, &mut found);
                assert_eq!(found.errors.len(), errors, "{program} with {lines} lines");
            }
        }
    }

    fn errors(path: &str, text: &str) -> usize {
        let mut found = Findings::default();
        check(&File { path: path.to_owned(), text: text.to_owned() }, &mut found);
        found.errors.len()
    }

    #[test]
    fn the_list_has_each_revision() {
        let known = mcp_protocol::ProtocolVersion::ALL.iter().rev().map(|version| version.as_str());
        assert_eq!(known.collect::<Vec<_>>(), REVISIONS);
    }

    #[test]
    fn each_rule_rejects_only_its_case() {
        let long = format!("//! Long.\n{}", "fn f() {}\n".repeat(HARD));
        let tested = format!("//! Tested.\n#[cfg(test)]\nmod tests {{\n{}}}\n", "fn f() {}\n".repeat(HARD));
        let date = "//! Dates.\nlet is_new = version == \"2026-07-28\";\n";
        let remark = "//! Dates.\n/// Since \"2026-07-28\".\n";
        let union = format!("//! Union.\n#[serde({})]\nenum E {{}}\n", "untagged");
        for (path, text, count) in [
            ("crates/a/src/lib.rs", "//! Fine.\n", 0),
            ("crates/a/src/lib.rs", "use std::fmt;\n", 1),
            ("crates/a/src/lib.rs", long.as_str(), 1),
            ("crates/a/src/lib.rs", tested.as_str(), 0),
            ("crates/a/tests/long.rs", long.as_str(), 0),
            ("crates/a/src/lib.rs", date, 1),
            ("crates/a/tests/dates.rs", date, 0),
            ("crates/mcp-protocol/src/version.rs", date, 0),
            ("crates/a/src/lib.rs", remark, 0),
            ("crates/a/src/lib.rs", union.as_str(), 1),
        ] {
            assert_eq!(errors(path, text), count, "{path}: {}", text.lines().next().unwrap_or_default());
        }
    }
}
