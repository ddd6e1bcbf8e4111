//! Commands that are not MCP servers, or that start slowly.

use std::io::{BufRead, BufReader};

use super::{mcp, text};

#[test]
fn a_command_that_echoes_its_input_is_not_an_mcp_server() {
    for revision in [&[][..], &["--revision", "2025-11-25"], &["--revision", "2026-07-28"]] {
        let output = mcp().arg("tools").args(revision).args(["--", "cat"]).output().unwrap();
        assert_eq!(
            (output.status.code(), &*text(&output.stderr)),
            (Some(4), "mcp: `cat` is not an MCP server: it sends the client's own requests back\n"),
            "{revision:?}"
        );
    }
}

#[test]
fn reports_a_command_that_is_still_starting_with_its_stderr() {
    let script = "echo 'loading a model' >&2; exec sleep 1000";
    let silent = "exec sleep 1000";
    let report = "mcp: `sh` has not answered for 3 s; it may be still starting (Ctrl-C ends it)";
    for (script, lines) in
        [(script, [report, "server: loading a model"]), (silent, [report, "mcp: `sh` has written nothing to stderr"])]
    {
        let mut child = mcp()
            .args(["tools", "--", "sh", "-c", script])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let read: Vec<String> = stderr.take(2).map_while(Result::ok).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(read, lines);
    }
}

#[test]
fn warns_about_lines_that_are_not_messages() {
    let output = mcp().args(["tools", "--", "sh", "-c", "echo 'Starting\u{1b}[2J up'; exit 3"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    let warning = "mcp: warning: the server wrote a line that is not a message: Starting\u{fffd}[2J up\n";
    assert!(stderr.contains(warning), "{stderr}");
    assert!(stderr.contains("exit status: 3"), "{stderr}");
}
