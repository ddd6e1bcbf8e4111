//! `mcp lint`: findings and exit codes.

use serde_json::Value;

#[cfg(unix)]
use super::process::script;
use super::{Http, check, json_of, mcp, process::BoundedOutput as _, text};

#[test]
fn lint_fails_on_errors_and_with_strict_on_warnings() {
    let http = Http::start();
    check(&http.url, "lint URL", 0, "  tool `fail`  ", "");
    check(&http.url, "lint URL", 0, "\nerrors: 0, warnings: ", "");
    check(&http.url, "lint URL --strict", 1, "description-missing", "");
    check(&http.url, "lint URL more", 2, "", "unexpected argument `more`");
    let report = json_of(&http.url, "lint URL --json");
    assert_eq!(report["errors"], 0);
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(report["warnings"], findings.iter().filter(|finding| finding["severity"] == "warning").count());
    let named = |code: &str, place: &str| {
        findings
            .iter()
            .any(|finding| finding["code"] == code && finding["place"] == place && finding["remedy"].is_string())
    };
    assert!(
        named("description-missing", "tool `fail`") && named("property-description", "tool `paint`, argument `colour`")
    );
    assert!(!named("annotations-missing", "tool `add`") && !named("description-missing", "tool `add`"));
    assert!(report["toolBytes"].as_u64() > Some(1000));
}

/// A server whose definitions attack the terminal and break the specification.
#[cfg(unix)]
const FAULTY: &str = r#"
while read -r line; do case "$line" in
*'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}' ;;
*'"tools/list"'*) answer '{"tools":[{"name":"a\u001b[2Jb","description":"x"},"no tool"],"nextCursor":"c"}' ;;
esac; done
"#;

#[cfg(unix)]
#[test]
fn lint_reports_definitions_that_are_not_valid() {
    let line = ["lint", "--revision", "2025-11-25", "--"];
    let output = mcp().args(line).args(script(FAULTY)).bounded_output();
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}{}", text(&output.stderr));
    for code in
        ["name-characters", "schema-type", "invisible-characters", "list-cursor", "list-invalid", "name-duplicate"]
    {
        assert!(stdout.contains(code), "{code}: {stdout}");
    }
    assert!(!stdout.contains('\u{1b}') && stdout.contains(r"tool `a\u{1b}[2Jb`"), "{stdout}");
    let output = mcp().arg("--json").args(line).args(script(FAULTY)).bounded_output();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), report["findings"][0]["severity"].as_str()), (Some(1), Some("error")));
}
