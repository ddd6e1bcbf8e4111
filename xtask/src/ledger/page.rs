//! The tests that a page for people names: each exists, and each numbered row of a table has a test or a reason.

use super::evidence::Evidence;

/// The pages whose tests are checked.
pub(super) const PAGES: &[&str] = &["docs/security.md"];

/// The beginning of the last cell of a row without a test.
const REASON: &str = "Reason: ";

/// Checks a page, and returns the problems with the numbers of their lines.
pub(super) fn check(text: &str, evidence: &Evidence) -> Vec<String> {
    let mut problems = Vec::new();
    let mut named = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let tests: Vec<&str> = line.split('`').skip(1).step_by(2).filter(|span| is_test(span)).collect();
        named += tests.len();
        let unknown = tests.iter().filter_map(|test| Some((test, evidence.find(test).err()?)));
        problems.extend(unknown.map(|(test, why)| format!("{number}: {test}: {why}")));
        let has_reason = cells(line).last().is_some_and(|cell| cell.starts_with(REASON));
        if is_numbered(line) && tests.is_empty() != has_reason {
            problems.push(format!("{number}: a numbered row has either tests or a cell that begins with `{REASON}`"));
        }
    }
    if named == 0 {
        problems.push("the page names no test".to_owned());
    }
    problems
}

/// Whether a code span names a test: a crate of the workspace, modules and a function.
fn is_test(span: &str) -> bool {
    let is_name =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    span.starts_with("mcp_") && span.split("::").count() >= 3 && span.split("::").all(is_name)
}

/// The cells of a row of a table.
fn cells(line: &str) -> Vec<&str> {
    let row = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    row.map(|row| row.split('|').map(str::trim).collect()).unwrap_or_default()
}

fn is_numbered(line: &str) -> bool {
    cells(line).first().is_some_and(|cell| !cell.is_empty() && cell.chars().all(|c| c.is_ascii_digit()))
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
            ("No test.", Some("the page names no test")),
        ] {
            let found = check(page, &evidence);
            match complaint {
                None => assert_eq!(found, [""; 0], "{page}"),
                Some(text) => assert!(found.iter().any(|problem| problem.contains(text)), "{page}: {found:?}"),
            }
        }
    }
}
