//! The file of audit events of `mcp gateway`: lost events, required events, and pipes.

use std::{fs, process::Command, time::Instant};

use serde_json::{Value, json};

use super::{
    check,
    configuration::Project,
    fixture,
    gateway::gateway,
    mcp,
    process::{BoundedOutput as _, TIMEOUT},
    serve::Serving,
    text,
};

#[test]
fn a_call_without_a_stored_line_runs_only_if_the_audit_is_not_required() {
    let project = Project::new("gateway-audit");
    let servers = json!({ "one": { "command": fixture() } });
    // Each write to this device fails, because it is full.
    let full = ["--port", "0", "--audit", "/dev/full"];
    let mut lossy = Serving::start(gateway(&project, &servers, &full));
    check(&lossy.url, "call URL one__add a=1 b=2", 0, "{\"sum\":3}", "");
    let warning = lossy.stderr.find(|line| line.contains("an audit event is lost"));
    assert!(warning.is_some_and(|line| line.contains("/dev/full: ")));

    let strict = Serving::start(gateway(&project, &servers, &[&full[..], &["--audit-required"]].concat()));
    let output = mcp().args(["call", &strict.url, "one__add", "a=1", "b=2"]).bounded_output();
    let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_ne!(output.status.code(), Some(0), "{shown}");
    let reason = r#"the gateway refuses the call of "add" of "one", because its audit event cannot be stored"#;
    assert!(shown.contains(reason) && !shown.contains("sum"), "{shown}");
    let output = mcp().args(["read", &strict.url, "mcp://one/config://app"]).bounded_output();
    assert_ne!(output.status.code(), Some(0), "{output:?}");

    let file = project.root.join("audit.jsonl").display().to_string();
    let arguments = ["--port", "0", "--audit", &file, "--audit-required"];
    let stored = Serving::start(gateway(&project, &servers, &arguments));
    check(&stored.url, "call URL one__add a=1 b=2", 0, "{\"sum\":3}", "");
    // The call waited for its line.
    let lines = fs::read_to_string(&file).unwrap();
    assert!(lines.lines().count() == 1 && lines.contains("\"outcome\":\"Allowed\""), "{lines}");
    check(&stored.url, "complete URL one__review name=x", 0, "", "");
    let lines = fs::read_to_string(&file).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let shown = ["action", "of", "name"].map(|member| last[member].as_str().unwrap_or_default());
    assert_eq!(shown, ["Complete", "prompt", "review"], "{lines}");
}

#[test]
fn a_pipe_without_a_reader_does_not_block_the_start() {
    let project = Project::new("gateway-audit-pipe");
    let pipe = project.root.join("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).bounded_output().status.success());
    let servers = json!({ "one": { "command": fixture() } });
    let start = Instant::now();
    let output = gateway(&project, &servers, &["--port", "0", "--audit", &pipe]).bounded_output();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("pipe: the file cannot be opened: ") && start.elapsed() < TIMEOUT, "{stderr}");
}
