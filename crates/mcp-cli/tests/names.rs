//! Names that the server does not list: suggestions for typing errors, and entries that the server hides.

use mcp_server::{auth::ApiKeys, prelude::*};

use super::{Http, check};
#[cfg(unix)]
use super::{
    mcp,
    process::{BoundedOutput as _, script},
    text,
};

/// A server with entries that require the scope `admin`. Its list of tools is open to each caller.
fn protected() -> Http {
    let server = Server::builder("protected", "1")
        .tool(tool("open", async || "open"))
        .tool(tool("erase", async || "erased").requires_scopes(["admin"]))
        .prompt(prompt("report", async || "Report.").requires_scopes(["admin"]))
        .build();
    let keys = ApiKeys::new()
        .key("reader-key", Principal::new("reader"))
        .and_then(|keys| keys.key("admin-key", Principal::new("admin").with_scopes(["admin"])));
    Http::serve(server, HttpConfig::new().authenticate(keys).allow_anonymous())
}

#[test]
fn suggests_the_nearest_prompt_resource_and_template() {
    let http = Http::start();
    for (line, code, err) in [
        ("prompt URL reviw name=x", 2, "Unknown prompt: reviw (-32602); did you mean review?\n"),
        ("prompt URL view", 2, "did you mean review?\n"),
        ("prompt URL zebra", 2, "Unknown prompt: zebra (-32602)\n"),
        // The prompt exists, and its argument is missing.
        ("prompt URL review", 4, "(-32602)\n"),
        ("read URL config://ap", 4, "config://ap (-32602); did you mean config://app?\n"),
        ("read URL nte://one", 4, "nte://one (-32602); did you mean note://{id}?\n"),
        ("read URL other://x", 4, "other://x (-32602)\n"),
        ("complete URL reviw name=a", 2, "; did you mean review?\n"),
        ("complete URL nte://{id} id=o", 2, "; did you mean note://{id}?\n"),
        ("complete URL note://one id=o", 2, "; did you mean note://{id}?\n"),
    ] {
        check(&http.url, line, code, "", err);
    }
}

#[test]
fn a_suggestion_does_not_depend_on_the_revision() {
    let http = Http::start();
    for version in ["2024-11-05", "2025-11-25", "2026-07-28"] {
        check(&http.url, &format!("prompt URL reviw --revision {version}"), 2, "", "; did you mean review?\n");
        check(
            &http.url,
            &format!("read URL config://ap --revision {version}"),
            4,
            "",
            "; did you mean config://app?\n",
        );
        check(&http.url, &format!("call URL geret --revision {version}"), 2, "", "; did you mean greet?\n");
    }
}

#[test]
fn a_call_of_a_hidden_tool_names_the_required_scope() {
    let http = protected();
    let hidden = "\n     the server lists no tool `erase` for this caller\n";
    let needs = "insufficient scope: this request needs `admin`";
    for (header, code, out, err) in [
        (
            "",
            4,
            "",
            format!("401: {needs}; pass the key with --header 'x-api-key: @FILE', where FILE contains the key{hidden}"),
        ),
        (" --header x-api-key:reader-key", 4, "", format!("403: {needs}{hidden}")),
        (" --header x-api-key:admin-key", 0, "erased", String::new()),
        (" --header x-api-key:wrong", 4, "", "401".to_owned()),
    ] {
        check(&http.url, &format!("call URL erase{header}"), code, out, &err);
    }
    let list = "the server lists no tool `eras` for this caller";
    check(&http.url, "call URL eras", 2, "", &format!("mcp: {list}\n     the server answered: Unknown tool: eras"));
    let keyed = "call URL eras --header x-api-key:admin-key";
    check(&http.url, keyed, 2, "", &format!("{list}; did you mean erase?\n"));
    check(&http.url, "tools URL erase", 2, "", "the server lists no tool `erase` for this caller\n");
    check(&http.url, "prompt URL report", 4, "", needs);
}

/// A server whose list does not contain its tools `secret` and `broken`.
#[cfg(unix)]
const UNLISTED: &str = r#"
while read -r line; do case "$line" in
*'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}' ;;
*'"tools/list"'*) answer '{"tools":[{"name":"open","inputSchema":{"type":"object"}}]}' ;;
*'"secret"'*'"arguments":{"n":7,"s":"x"}'*) answer '{"content":[{"type":"text","text":"found"}]}' ;;
*'"opem"'*) answer '{"content":[{"type":"text","text":"unknown"}],"isError":true}' ;;
esac; done
"#;

#[cfg(unix)]
#[test]
fn a_tool_that_the_list_omits_runs_with_a_warning() {
    for (name, code, out, err) in [
        ("secret", 0, "found\n", "mcp: warning: the server lists no tool `secret` for this caller\n"),
        ("opem", 1, "", "mcp: warning: the server lists no tool `opem` for this caller; did you mean open?\nunknown\n"),
    ] {
        let line = ["call", name, "n=7", "s=x", "--revision", "2025-11-25", "--"];
        let output = mcp().args(line).args(script(UNLISTED)).bounded_output();
        let printed = (output.status.code(), text(&output.stdout), text(&output.stderr));
        assert_eq!(printed, (Some(code), out.to_owned(), err.to_owned()), "{name}");
    }
}
