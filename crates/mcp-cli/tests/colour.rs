//! Colours, and tables of JSON objects.

#[cfg(unix)]
use super::terminal::Terminal;
use super::{Http, mcp, process::BoundedOutput as _, text};

const ESCAPE: char = '\u{1b}';

#[test]
fn a_pipe_has_colours_only_on_request_and_never_in_json() {
    let http = Http::start();
    for (line, variables, has_colours) in [
        ("tools", &[][..], false),
        ("tools --color always", &[], true),
        ("tools --color always", &[("NO_COLOR", "1")], true),
        ("tools", &[("CLICOLOR_FORCE", "1")], true),
        ("tools", &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        ("tools --color never", &[("CLICOLOR_FORCE", "1")], false),
        ("tools --color always --json", &[], false),
        ("tools add --json", &[("CLICOLOR_FORCE", "1")], false),
        ("info --color always", &[], true),
    ] {
        let mut command = mcp();
        command.env("MCP_SERVER", &http.url);
        let output = command.args(line.split(' ')).envs(variables.iter().copied()).bounded_output();
        assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
        assert_eq!(
            text(&output.stdout).contains(ESCAPE),
            has_colours,
            "{line} {variables:?}: {}",
            text(&output.stdout)
        );
    }
    for (line, has_colours) in
        [("tools nothing", false), ("tools nothing --color always", true), ("nonsense --color=always", true)]
    {
        let output = mcp().env("MCP_SERVER", &http.url).args(line.split(' ')).bounded_output();
        let stderr = text(&output.stderr);
        assert_eq!((output.status.code(), stderr.contains(ESCAPE)), (Some(2), has_colours), "{line}: {stderr}");
    }
}

#[cfg(unix)]
#[test]
fn a_terminal_has_colours_unless_a_variable_or_its_type_forbids_them() {
    let http = Http::start();
    for (variables, options, has_colours) in [
        (&[][..], "", true),
        (&[], " --color never", false),
        (&[("NO_COLOR", "1")], "", false),
        (&[("TERM", "dumb")], "", false),
    ] {
        let mut terminal = Terminal::run_with(&http.url, &format!("tools URL{options}"), variables);
        let before = terminal.expect("TOOL");
        assert_eq!(before.contains(ESCAPE), has_colours, "{variables:?} {options}: {before:?}");
        terminal.expect("Add two numbers.");
        assert_eq!(terminal.wait().code(), Some(0));
    }
    let mut terminal = Terminal::run_with(&http.url, "info URL --json", &[]);
    terminal.expect("\u{1b}[1m\"protocolVersion\"\u{1b}[0m: ");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[cfg(unix)]
#[test]
fn a_terminal_shows_an_array_of_objects_as_a_table() {
    let http = Http::start();
    let mut terminal = Terminal::run_with(&http.url, "call URL rows", &[("NO_COLOR", "1")]);
    terminal.expect("id  name    note");
    terminal.expect(" 1  Ada\r\n");
    // The terminal has 80 columns, and the text of the server does not control it.
    let row = terminal.expect("…\r\n");
    assert!(row.starts_with("20  a\u{fffd}[2Jb  a note that") && row.chars().count() < 80, "{row:?}");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn a_pipe_receives_the_text_of_a_tool_unchanged() {
    let http = Http::start();
    let output = mcp().args(["call", &http.url, "rows"]).bounded_output();
    assert!(text(&output.stdout).starts_with(r#"[{"id":1,"name":"Ada"},{"id":20,"#));
}
