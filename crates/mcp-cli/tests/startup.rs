//! Commands that are not MCP servers, or that start slowly.

use std::io::{BufRead, BufReader};

use super::{mcp, text};

#[test]
fn a_command_that_is_not_an_mcp_server_has_one_exit_code() {
    for (script, act) in [
        ("exec cat", "it returned the client's own message"),
        ("date", "it sent text that is not a message: "),
        (
            "echo 'Listening on port 80'; exec sleep 1000",
            "it sent text that is not a message: \"Listening on port 80\"",
        ),
    ] {
        for revision in [&[][..], &["--revision", "2025-11-25"], &["--revision", "2026-07-28"]] {
            let line = ["--timeout", "3", "--", "sh", "-c", script];
            let output = mcp().arg("tools").args(revision).args(line).output().unwrap();
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(4), "{script} {revision:?}: {stderr}");
            assert!(
                stderr.contains(&format!("mcp: sh is not an MCP server: {act}")),
                "{script} {revision:?}: {stderr}"
            );
        }
    }
}

#[test]
fn reports_a_command_that_is_still_starting_with_its_stderr() {
    let script = "echo 'loading a model' >&2; exec sleep 1000";
    let silent = "exec sleep 1000";
    let report = "mcp: sh has not answered for 3s: it is still starting";
    let quoted = format!("{report}; its standard error ends with:");
    for (script, lines) in [
        (script, [&*quoted, "  loading a model"]),
        (silent, [report, "mcp: the command has written nothing to stderr"]),
    ] {
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
fn a_trace_keeps_the_stderr_in_errors() {
    for trace in [&[][..], &["--trace"]] {
        let output = mcp()
            .args(["tools", "--timeout", "1"])
            .args(trace)
            .args(["--", "sh", "-c", "echo 'no licence' >&2; exec sleep 1000"])
            .output()
            .unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert!(stderr.ends_with("took longer than 1s; its standard error ends with:\n  no licence\n"), "{stderr}");
    }
}

/// A server that writes to stderr, and returns the same cursor twice. The tool `fail` fails, other calls end the server.
const SERVER: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')" "$1"; }
echo 'one' >&2; echo 'two' >&2
while read -r line; do case "$line" in
*'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"x","version":"1"}}' ;;
*'"tools/list"'*) answer '{"tools":[{"name":"fail","inputSchema":{"type":"object"}},{"name":"crash","inputSchema":{"type":"object"}}],"nextCursor":"c"}' ;;
*'"prompts/list"'*) answer '{"prompts":[],"nextCursor":"c"}' ;;
*'"resources/list"'*) answer '{"resources":[],"nextCursor":"c"}' ;;
*'"resources/templates/list"'*) answer '{"resourceTemplates":[],"nextCursor":"c"}' ;;
*'"fail"'*) answer '{"content":[{"type":"text","text":"no luck"}],"isError":true}' ;;
*'"read"'*) answer '{"no":"contents"}' ;;
*'"crash"'*) answer '"an invalid result"' ;;
esac; done
"#;

#[test]
fn prints_the_warnings_of_a_list() {
    for (command, lists) in
        [("tools", &["tools"][..]), ("prompts", &["prompts"]), ("resources", &["resource templates", "resources"])]
    {
        let line = [command, "--revision", "2025-11-25", "--", "sh", "-c", SERVER];
        let output = mcp().args(line).output().unwrap();
        let expected: String = lists
            .iter()
            .map(|list| {
                format!(
                    "mcp: warning: the list of {list} may be incomplete: the server returned the same cursor twice\n"
                )
            })
            .collect();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), expected), "{command}");
    }
}

#[test]
fn offers_the_stderr_of_the_command_after_a_failure() {
    let call = |tool: &str, options: &[&str]| {
        let line = ["call", tool, "--revision", "2025-11-25"];
        let output = mcp().args(line).args(options).args(["--", "sh", "-c", SERVER]).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let hint = "no luck\nmcp: the command wrote 2 lines to stderr; --stderr prints them\n";
    assert_eq!(call("fail", &[]), (Some(1), hint.to_owned()));
    assert_eq!(call("fail", &["--stderr"]), (Some(1), "server: one\nserver: two\nno luck\n".to_owned()));
    let (code, stderr) = call("crash", &[]);
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.ends_with("mcp: the stderr of the command ends with:\nserver: one\nserver: two\n"), "{stderr}");
    // An error of the command line needs no stderr.
    let (code, stderr) = call("nothing", &[]);
    assert_eq!((code, stderr.contains("server: one")), (Some(2), false), "{stderr}");
}

#[test]
fn warns_about_lines_that_are_not_messages() {
    let output = mcp().args(["tools", "--", "sh", "-c", "echo 'Starting\u{1b}[2J up'; exit 3"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    let warning = "mcp: warning: the server wrote a line that is not a message: Starting\u{fffd}[2J up\n";
    assert!(stderr.contains(warning), "{stderr}");
    assert!(stderr.contains("exit status: 3"), "{stderr}");
}

#[test]
fn the_shell_prints_the_stderr_of_the_command_on_request() {
    let mut shell = mcp()
        .args(["shell", "--revision", "2025-11-25", "--", "sh", "-c", SERVER])
        .env("XDG_STATE_HOME", super::tempdir())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut shell.stdin.take().unwrap(), b"fail\nstderr\nstderr\n").unwrap();
    let stderr = text(&shell.wait_with_output().unwrap().stderr);
    let expected = "no luck\nmcp: the command has written to stderr; `stderr` prints the last lines\nserver: one\n\
                    server: two\nmcp: the command has written nothing new to stderr\n";
    assert!(stderr.contains(expected), "{stderr}");
}
