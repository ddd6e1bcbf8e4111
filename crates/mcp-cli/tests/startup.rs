//! Commands that are not MCP servers, or that start slowly.

use std::{process::Stdio, thread};

use super::{
    mcp,
    process::{BoundedOutput as _, Lines, finish, script, signal, wait},
    text,
};

/// The limit of commands that `mcp` cannot wait for. A loaded machine starts a shell within it.
const LIMIT: &str = "10";

#[test]
fn a_command_that_is_not_an_mcp_server_has_one_exit_code() {
    let cases = [
        ("exec cat", "it returned the client's own message"),
        ("date", "it sent text that is not a message: "),
        (
            "echo 'Listening on port 80'; exec sleep 1000",
            "it sent text that is not a message: \"Listening on port 80\"",
        ),
    ];
    let revisions = [&[][..], &["--revision", "2025-11-25"], &["--revision", "2026-07-28"]];
    // The last command ends by the limit, so the runs are concurrent.
    thread::scope(|scope| {
        for (script, act) in cases {
            for revision in revisions {
                scope.spawn(move || {
                    let line = ["--timeout", LIMIT, "--", "sh", "-c", script];
                    let output = mcp().arg("tools").args(revision).args(line).bounded_output();
                    let stderr = text(&output.stderr);
                    assert_eq!(output.status.code(), Some(4), "{script} {revision:?}: {stderr}");
                    let expected = format!("mcp: sh is not an MCP server: {act}");
                    assert!(stderr.contains(&expected), "{script} {revision:?}: {stderr}");
                });
            }
        }
    });
}

#[test]
fn reports_a_command_that_is_still_starting_with_its_stderr() {
    let report = "mcp: sh has not answered for 3s: it is still starting";
    let quoted = format!("{report}; its standard error ends with:");
    for (script, first, expected) in [
        ("exec sleep 1000", &[report][..], "mcp: the command has written nothing to stderr"),
        // If the machine starts the shell after the report, `mcp` prints the line when it arrives.
        ("echo 'loading a model' >&2; exec sleep 1000", &[&*quoted, report], "loading a model"),
    ] {
        let line = ["tools", "--", "sh", "-c", script];
        let mut child = mcp().args(line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = Lines::of(child.stderr.take().unwrap());
        let read = stderr.next().unwrap();
        assert!(first.contains(&&*read), "{script}: {read}");
        assert!(stderr.any(|line| line.ends_with(expected)), "{script}");
        assert!(signal(&mut child, "INT"));
        wait(&mut child);
    }
}

#[test]
fn a_trace_keeps_the_stderr_in_errors() {
    thread::scope(|scope| {
        for trace in [&[][..], &["--trace"]] {
            scope.spawn(move || {
                let line = ["--", "sh", "-c", "echo 'no licence' >&2; exec sleep 1000"];
                let output = mcp().args(["tools", "--timeout", LIMIT]).args(trace).args(line).bounded_output();
                let stderr = text(&output.stderr);
                assert_eq!(output.status.code(), Some(3), "{stderr}");
                let expected = format!("took longer than {LIMIT}s; its standard error ends with:\n  no licence\n");
                assert!(stderr.ends_with(&expected), "{stderr}");
            });
        }
    });
}

/// A server that writes to stderr, and returns the same cursor twice. The tool `fail` fails, other calls end the server.
pub(crate) const SERVER: &str = r#"
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
*'"nothing"'*|*'"nothing://x"'*) answer '{"code":-32602,"message":"Unknown tool: nothing"}' | sed 's/"result"/"error"/' ;;
esac; done
"#;

#[test]
fn prints_the_warnings_of_a_list() {
    for (command, lists) in
        [("tools", &["tools"][..]), ("prompts", &["prompts"]), ("resources", &["resource templates", "resources"])]
    {
        let line = [command, "--revision", "2025-11-25", "--"];
        let output = mcp().args(line).args(script(SERVER)).bounded_output();
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
        let output = mcp().args(line).args(options).arg("--").args(script(SERVER)).bounded_output();
        (output.status.code(), text(&output.stderr))
    };
    let hint = "no luck\nmcp: the command wrote 2 lines to stderr; --stderr prints them\n";
    assert_eq!(call("fail", &[]), (Some(1), hint.to_owned()));
    assert_eq!(call("fail", &["--stderr"]), (Some(1), "server: one\nserver: two\nno luck\n".to_owned()));
    let (code, stderr) = call("crash", &[]);
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.ends_with("mcp: the stderr of the command ends with:\nserver: one\nserver: two\n"), "{stderr}");
    // An error that names the wrong value needs no stderr.
    let line = ["read", "nothing://x", "--revision", "2025-11-25", "--"];
    let output = mcp().args(line).args(script(SERVER)).bounded_output();
    let expected = "(-32602)\nmcp: the command wrote 2 lines to stderr; --stderr prints them\n";
    let stderr = text(&output.stderr);
    assert!(output.status.code() == Some(4) && stderr.ends_with(expected), "{stderr}");
    // An error of the command line needs no stderr.
    for (name, more) in [("nothing", &[][..]), ("fail", &["x"])] {
        let (code, stderr) = call(name, more);
        assert_eq!((code, stderr.contains("server: one")), (Some(2), false), "{stderr}");
    }
}

#[test]
fn warns_about_lines_that_are_not_messages() {
    let output = mcp().args(["tools", "--", "sh", "-c", "echo 'Starting\u{1b}[2J up'; exit 3"]).bounded_output();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    let warning = "mcp: warning: the server wrote a line that is not a message: Starting\u{fffd}[2J up\n";
    assert!(stderr.contains(warning), "{stderr}");
    assert!(stderr.contains("exit status: 3"), "{stderr}");
}

#[test]
fn the_shell_prints_the_stderr_of_the_command_on_request() {
    let mut shell = mcp()
        .args(["shell", "--revision", "2025-11-25", "--"])
        .args(script(SERVER))
        .env("XDG_STATE_HOME", super::tempdir())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut shell.stdin.take().unwrap(), b"fail\nstderr\nstderr\n").unwrap();
    let stderr = text(&finish(shell).stderr);
    let expected = "no luck\nmcp: the command has written to stderr; `stderr` prints the last lines\nserver: one\n\
                    server: two\nmcp: the command has written nothing new to stderr\n";
    assert!(stderr.contains(expected), "{stderr}");
}
