//! The tests that a page for people names: each exists, and each promise and each case of a table has a test or a reason.

use std::collections::BTreeSet;

use super::evidence::Evidence;

/// The pages whose tests are checked.
pub(super) const PAGES: &[&str] = &["docs/security.md", "docs/reliability.md"];

/// The beginning of the last cell of a row without a test.
const REASON: &str = "Reason: ";
/// The section that explains the numbers of vulnerabilities of a page.
const SOURCES: &str = "## Sources of the numbers";
/// The head of the last column of a table of promises.
const COMMAND: &str = "command";

/// Checks a page, and returns the problems with the numbers of their lines.
pub(super) fn check(text: &str, evidence: &Evidence) -> Vec<String> {
    let mut problems = Vec::new();
    let mut named = 0;
    let mut has_commands = false;
    for (number, line) in (1..).zip(text.lines()) {
        let tests: Vec<&str> = spans(line).filter(|span| is_test(span)).collect();
        named += tests.len();
        let unknown = tests.iter().filter_map(|test| Some((test, evidence.find(test).err()?)));
        problems.extend(unknown.map(|(test, why)| format!("{number}: {test}: {why}")));
        let cells = cells(line);
        let has_reason = cells.last().is_some_and(|cell| cell.starts_with(REASON));
        if is_numbered(&cells) && tests.is_empty() != has_reason {
            problems.push(format!("{number}: a numbered row has either tests or a cell that begins with `{REASON}`"));
        }
        match cells.as_slice() {
            [] => has_commands = false,
            [.., COMMAND] => has_commands = true,
            [.., shown, command] if has_commands && !shown.starts_with("--") => {
                let is_shown = shown.contains("](") || spans(shown).any(is_test);
                if !is_shown || spans(command).next().is_none() {
                    problems.push(format!("{number}: a promise has a test or a link, and a command"));
                }
            }
            _ => {}
        }
    }
    if named == 0 {
        problems.push("the page names no test".to_owned());
    }
    problems.extend(unexplained(text));
    problems
}

/// Compares the numbers of vulnerabilities in the tables with the section that explains them.
fn unexplained(text: &str) -> Vec<String> {
    let (cases, sources) = text.split_once(SOURCES).unwrap_or((text, ""));
    let explained = vulnerabilities(sources.lines());
    // The second column has the numbers of other databases for the case of the first one.
    let of_sources: BTreeSet<&str> =
        sources.lines().filter_map(|line| cells(line).first().copied()).flat_map(vulnerabilities_in).collect();
    let named = vulnerabilities(cases.lines());
    let unknown = named.difference(&explained).map(|number| format!("{SOURCES:?} does not explain {number}"));
    let unused = of_sources.difference(&named).map(|number| format!("{number} has no row with a defence"));
    unknown.chain(unused).collect()
}

fn vulnerabilities<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    lines.flat_map(vulnerabilities_in).collect()
}

/// The numbers of vulnerabilities in a text.
fn vulnerabilities_in(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| ["CVE-", "GHSA-", "RUSTSEC-"].iter().any(|kind| word.starts_with(kind)))
}

/// The code spans of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether a code span names a test: a package of the workspace, modules and a function.
fn is_test(span: &str) -> bool {
    let is_name =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let has_package = span.starts_with("mcp_") || span.starts_with("book::") || span.starts_with("xtask::");
    has_package && span.contains("::") && span.split("::").all(is_name)
}

/// The cells of a row of a table.
fn cells(line: &str) -> Vec<&str> {
    let row = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    row.map(|row| row.split('|').map(str::trim).collect()).unwrap_or_default()
}

fn is_numbered(cells: &[&str]) -> bool {
    cells.first().is_some_and(|cell| !cell.is_empty() && cell.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_gap_in_a_page_is_reported() {
        let evidence = Evidence::of(&["mcp_a::topic::holds"]);
        for (page, complaint) in [
            ("| 1 | a case | `mcp_a::topic::holds` |", None),
            ("`mcp_a::topic::holds`\n| 2 | a case | Reason: it cannot happen. |", None),
            ("See `mcp_a::topic::holds` and `mcp_a::Type::method()`.", None),
            ("| 1 | a case | `mcp_a::topic::gone` |", Some("1: mcp_a::topic::gone: no test")),
            ("`mcp_a::topic::holds`\n\n| 1 | a case | none |", Some("3: a numbered row")),
            ("`mcp_a::topic::holds`\n| 1 | a case | |", Some("2: a numbered row")),
            ("| 1 | `mcp_a::topic::holds` | Reason: both |", Some("1: a numbered row")),
            ("`mcp_a::topic::holds` in `mcp_a::topic`", Some("1: mcp_a::topic: no test")),
            ("No test.", Some("the page names no test")),
        ] {
            assert_complaint(page, complaint, &check(page, &evidence));
        }
    }

    #[test]
    fn a_promise_has_a_test_or_a_link_and_a_command() {
        let evidence = Evidence::of(&["mcp_a::topic::holds"]);
        for (row, complaint) in [
            ("| p | `mcp_a::topic::holds` | `cargo test` |", None),
            ("| p | the [load](#load) | `cargo xtask load` |", None),
            ("| p | some tests | `cargo test` |", Some("4: a promise")),
            ("| p | `mcp_a::topic::holds` | by hand |", Some("4: a promise")),
            ("\n| another | table |\n|---|---|\n| p | some tests |", None),
        ] {
            let page = format!("`mcp_a::topic::holds`\n| promise | shown by | command |\n|---|---|---|\n{row}");
            assert_complaint(row, complaint, &check(&page, &evidence));
        }
    }

    #[test]
    fn each_number_of_a_vulnerability_is_explained_and_has_a_defence() {
        let evidence = Evidence::of(&["mcp_a::topic::holds"]);
        for (case, source, complaint) in [
            ("(CVE-1)", "| CVE-1 | GHSA-a, RUSTSEC-2 | a case |", None),
            ("(CVE-1, GHSA-b)", "| CVE-1 | GHSA-a | a case |\n| GHSA-b | | a case |", None),
            ("(CVE-1, CVE-2)", "| CVE-1 | | a case |", Some("does not explain CVE-2")),
            ("(CVE-1)", "| CVE-1 | | a case |\n| CVE-3 | | a case |", Some("CVE-3 has no row")),
        ] {
            let page = format!("| 1 | a case {case} | `mcp_a::topic::holds` |\n\n{SOURCES}\n\n{source}\n");
            assert_complaint(&page, complaint, &check(&page, &evidence));
        }
    }

    fn assert_complaint(page: &str, complaint: Option<&str>, found: &[String]) {
        match complaint {
            None => assert_eq!(found, [""; 0], "{page}"),
            Some(text) => assert!(found.iter().any(|problem| problem.contains(text)), "{page}: {found:?}"),
        }
    }
}
