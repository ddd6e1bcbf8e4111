//! The file of audit events of `mcp gateway`: its content, lost events, required events, and pipes.

use std::{fs, process::Command, time::Instant};

use mcp_client::Client;
use serde_json::{Value, json};

use super::{
    check,
    configuration::Project,
    fixture,
    gateway::gateway,
    mcp,
    process::{BoundedOutput as _, TIMEOUT, signal, wait},
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
fn an_audit_has_names_and_uris_and_no_arguments() {
    const SECRET: &str = "hunter2";
    let project = Project::new("gateway-audit-arguments");
    let policy = project.root.join("policy.toml");
    fs::write(&policy, "default = \"allow\"\n\n[[rule]]\ntool = \"paint\"\neffect = \"deny\"\n").unwrap();
    let file = project.root.join("audit.jsonl");
    let arguments = ["--port", "0", "--audit", &file.display().to_string(), "--policy", &policy.display().to_string()];
    let mut serving = Serving::start(gateway(&project, &json!({ "one": { "command": fixture() } }), &arguments));
    let named = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let requests = [
        ("tools/call", named("one__strict", json!({ "colour": SECRET })), true),
        ("tools/call", named("one__add", json!({ "a": SECRET, "b": 2 })), true),
        ("tools/call", named("one__paint", json!({ "colour": SECRET })), false),
        ("prompts/get", named("one__review", json!({ "name": SECRET })), true),
        (
            "completion/complete",
            json!({
                "ref": { "type": "ref/prompt", "name": "one__review" },
                "argument": { "name": "name", "value": SECRET }, "context": { "arguments": { "tone": SECRET } },
            }),
            true,
        ),
        ("resources/read", json!({ "uri": "mcp://one/config://app" }), true),
    ];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sent = async {
        let client = Client::builder("client", "1").connect(serving.url.as_str()).await.unwrap();
        for (method, params, is_allowed) in requests {
            let text = params.to_string();
            let answer = client.request_raw(method, params).raw_result().into_future().await;
            assert!(answer.is_ok() || !is_allowed, "{text}: {answer:?}");
        }
    };
    runtime.block_on(async { tokio::time::timeout(TIMEOUT, sent).await }).unwrap();
    assert!(signal(&mut serving.child, "TERM") && wait(&mut serving.child).success());
    let lines = fs::read_to_string(&file).unwrap();
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Vec<_> =
        events.iter().map(|event| [&event["action"], &event["name"]].map(|it| it.as_str().unwrap())).collect();
    let expected = [
        ["CallTool", "strict"],
        ["CallTool", "add"],
        ["CallTool", "paint"],
        ["GetPrompt", "review"],
        ["Complete", "review"],
        ["ReadResource", "config://app"],
    ];
    assert_eq!(shown, expected, "{lines}");
    assert!(!lines.contains(SECRET), "{lines}");
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
