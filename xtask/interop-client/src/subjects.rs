//! The known features of each server and the expected responses.

use mcp_client::protocol::CompletionReference;
use serde_json::{Value, json};

/// A call and a part of the text that it answers.
pub(crate) type Call = (&'static str, Value, String);

/// The features of a server. The server does not have a feature that is empty or `None`.
#[derive(Default)]
pub(crate) struct Subject {
    /// Some of its tools.
    pub(crate) tools: &'static [&'static str],
    pub(crate) calls: Vec<Call>,
    /// A call that ends with a tool's own error.
    pub(crate) error: Option<(&'static str, Value)>,
    /// A resource and a part of its text.
    pub(crate) resource: Option<(&'static str, &'static str)>,
    /// A prompt, an argument, its value, and a part of the text.
    pub(crate) prompt: Option<(&'static str, &'static str, &'static str, &'static str)>,
    /// The completed prompt or template, the argument, its typed beginning and its expected value.
    pub(crate) completion: Option<(CompletionReference, &'static str, &'static str, &'static str)>,
    /// A resource, the tool that changes it, and whether the server sends updates in sessions or on streams of 2026-07-28.
    pub(crate) subscription: Option<(&'static str, &'static str, bool)>,
    pub(crate) sampling: Option<Call>,
    pub(crate) elicitation: Option<Call>,
    /// A call that fails with the error that sends the user to a page (2025-11-25) until it is made again.
    pub(crate) pages: Option<Call>,
    pub(crate) roots: Option<Call>,
    /// A tool, arguments that make it quick and arguments that make it slow; it reports progress.
    pub(crate) slow: Option<(&'static str, Value, Value)>,
}

fn call(tool: &'static str, arguments: Value, part: impl Into<String>) -> Call {
    (tool, arguments, part.into())
}

/// The server of a name; `dir` is the folder that it was started with.
pub(crate) fn named(name: &str, dir: &str) -> Option<Subject> {
    Some(match name {
        "everything" => everything(),
        "filesystem" => filesystem(dir),
        "memory" => memory(),
        "time" => Subject {
            tools: &["get_current_time", "convert_time"],
            calls: vec![call("get_current_time", json!({ "timezone": "UTC" }), "UTC")],
            error: Some(("get_current_time", json!({ "timezone": "No/Where" }))),
            ..Subject::default()
        },
        "git" => Subject {
            tools: &["git_status", "git_log"],
            calls: vec![call("git_status", json!({ "repo_path": dir }), "branch")],
            error: Some(("git_status", json!({ "repo_path": "/" }))),
            ..Subject::default()
        },
        // The tool would use the network.
        "fetch" => Subject { tools: &["fetch"], ..Subject::default() },
        "typescript-v2" | "python-v2" => small(),
        _ => return None,
    })
}

fn everything() -> Subject {
    const TEXT: &str = "demo://resource/dynamic/text/1";
    Subject {
        tools: &["echo", "get-sum", "trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"],
        calls: vec![
            call("echo", json!({ "message": "grüße, 世界 🌍" }), "Echo: grüße, 世界 🌍"),
            call("get-sum", json!({ "a": 2, "b": 3 }), "5"),
            call("get-structured-content", json!({ "location": "New York" }), "temperature"),
        ],
        error: Some(("get-sum", json!({ "a": "two", "b": 3 }))),
        resource: Some((TEXT, "Resource 1")),
        prompt: Some(("args-prompt", "city", "Kyoto", "Kyoto")),
        completion: Some((CompletionReference::prompt("completable-prompt"), "department", "Eng", "Engineering")),
        subscription: Some((TEXT, "toggle-subscriber-updates", true)),
        sampling: Some(call("trigger-sampling-request", json!({ "prompt": "What is it?" }), "forty-two")),
        elicitation: Some(call("trigger-elicitation-request", json!({}), "Ada")),
        pages: Some(call(
            "trigger-url-elicitation",
            json!({ "url": "https://example.com/", "errorPath": true }),
            "completed",
        )),
        roots: Some(call("get-roots-list", json!({}), "file:///")),
        slow: Some((
            "trigger-long-running-operation",
            json!({ "duration": 1, "steps": 5 }),
            json!({ "duration": 50, "steps": 50 }),
        )),
    }
}

/// It takes the client's roots in place of the folder that it was started with.
fn filesystem(dir: &str) -> Subject {
    let file = format!("{dir}/hello.txt");
    Subject {
        tools: &["read_text_file", "write_file", "list_allowed_directories"],
        calls: vec![
            call("write_file", json!({ "path": file, "content": "hello from a file" }), "hello.txt"),
            call("read_text_file", json!({ "path": file }), "hello from a file"),
        ],
        error: Some(("read_text_file", json!({ "path": "/no/such/file" }))),
        roots: Some(call("list_allowed_directories", json!({}), dir)),
        ..Subject::default()
    }
}

fn memory() -> Subject {
    let entity = json!({ "name": "Ada", "entityType": "person", "observations": ["wrote the first program"] });
    Subject {
        tools: &["create_entities", "search_nodes", "read_graph"],
        calls: vec![
            call("create_entities", json!({ "entities": [entity] }), ""),
            call("search_nodes", json!({ "query": "program" }), "Ada"),
        ],
        error: Some(("create_entities", json!({ "entities": "none" }))),
        ..Subject::default()
    }
}

/// `xtask/interop/server_v2.mjs` and `server_v2.py`.
fn small() -> Subject {
    Subject {
        tools: &["echo", "add", "ask", "think", "where", "slow"],
        calls: vec![
            call("echo", json!({ "text": "grüße, 世界 🌍" }), "grüße, 世界 🌍"),
            call("add", json!({ "a": 2, "b": 3 }), "5"),
        ],
        error: Some(("add", json!({ "a": "two", "b": 3 }))),
        resource: Some(("note://one", "A note.")),
        prompt: Some(("greet", "name", "Ada", "Greet Ada.")),
        completion: Some((CompletionReference::prompt("greet"), "name", "A", "Ada")),
        sampling: Some(call("think", json!({}), "The model says forty-two.")),
        elicitation: Some(call("ask", json!({}), "Hello, Ada!")),
        roots: Some(call("where", json!({}), "file:///")),
        subscription: Some(("note://one", "touch", false)),
        slow: Some(("slow", json!({ "ms": 500 }), json!({ "ms": 25_000 }))),
        pages: None,
    }
}
