//! Policies and pins of `mcp` for the servers of a configuration file.

use std::{fs, io::Write as _, process::Stdio};

use mcp_server::{auth::ApiKeys, prelude::*};
use serde_json::{Value, json};

#[cfg(unix)]
use super::terminal::Terminal;
use super::{Http, configuration::Project, fixture, process, text};

const POLICY: &str = r#"
[[rule]]
tool = "fail"
effect = "deny"
reason = "It never works."

[[rule]]
tool = "add"
effect = "ask"

[[rule]]
resource = "config://*"
effect = "deny"

[[rule]]
prompt = "review"
effect = "deny"
"#;

fn write(project: &Project, name: &str, text: &str) -> String {
    let file = project.root.join(name);
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn a_policy_decides_each_request_before_it_leaves() {
    let project = Project::new("policy");
    let policy = write(&project, "policy.toml", POLICY);
    let entry = json!({ "command": fixture() });
    let one = project.write("one.json", &json!({ "mcpServers": { "local": entry } }));
    let two = project.write("two.json", &json!({ "mcpServers": { "local": entry, "other": entry } }));
    for file in [&one, &two] {
        let options = ["--config", file.as_str(), "--policy", policy.as_str()];
        let check = |words: &[&str], code: i32, out: &str, err: &str| {
            project.check(&[words, &options].concat(), code, out, err);
        };
        let denied = "rule 1 of policy.toml denies the call of \"fail\" of \"local\": It never works.";
        check(&["call", "local:fail"], 1, "", denied);
        check(&["call", "--format", "openai", "local__fail", "{}"], 1, "", denied);
        let ask = "rule 2 of policy.toml requires an approval for the call of \"add\" of \"local\" (`ask`), and the host has \
                   no approver; run `mcp` with stdin and stderr at a terminal, or approve with --yes\n";
        check(&["call", "local:add", "a=1", "b=2"], 1, "", ask);
        let approved = "approved with --yes: call the tool `add` of `local` with {\"a\":1,\"b\":2}\n";
        check(&["call", "local:add", "a=1", "b=2", "--yes"], 0, "{\"sum\":3}", approved);
        check(&["call", "local:add", "a=1", "b=2", "--decline"], 1, "", "the user rejected the call of \"add\"");
        check(&["call", "local:paint"], 0, "None", "");
        let read = "rule 3 of policy.toml denies the read of \"config://app\" of \"local\"";
        check(&["read", "config://app", "--server", "local"], 1, "", read);
        check(&["read", "note://one", "--server", "local"], 0, "one", "");
        check(&["prompt", "local:review", "name=x"], 1, "", "rule 4 of policy.toml denies the prompt \"review\"");
        check(
            &["complete", "local:review", "name=m"],
            1,
            "",
            "rule 4 of policy.toml denies the completion for the prompt \"review\"",
        );
        // A model does not receive a tool that the policy always denies.
        let (code, out, _) = project.run(&[&["tools"][..], &options].concat());
        assert!(code == Some(0) && out.contains("local:add") && !out.contains("local:fail"), "{out}");
        let (code, out, _) = project.run(&[&["tools", "--format", "gemini"][..], &options].concat());
        assert!(code == Some(0) && out.contains("local__add") && !out.contains("local__fail"), "{out}");
    }
    let options = ["--config", one.as_str(), "--policy", policy.as_str()];
    let (_, _, err) = project.run(&[&["call", "paint", "--trace"][..], &options].concat());
    assert!(err.contains("CallTool") && err.contains("tool=\"paint\"") && err.contains("effect=allow"), "{err}");

    for terminal in ["dumb", "xterm"] {
        let mut shell = project.command(&[&["shell"][..], &options].concat());
        shell.env("TERM", terminal).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        shell.stdin.take().unwrap().write_all(b"call fail\nread config://app\npaint\n").unwrap();
        let output = process::finish(shell);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(err.contains("rule 1 of policy.toml denies") && err.contains("rule 3 of policy.toml denies"), "{err}");
        assert_eq!(out, "None\n", "{terminal}");
    }
}

#[test]
fn a_policy_decides_the_call_of_a_tool_that_the_server_does_not_list() {
    let project = Project::new("policy-unlisted");
    let server = Server::builder("protected", "1")
        .tool(tool("open", async || "open"))
        .tool(tool("erase", async || "erased").requires_scopes(["admin"]))
        .build();
    let keys = ApiKeys::new().key("key", Principal::new("reader"));
    let http = Http::serve(server, HttpConfig::new().authenticate(keys).allow_anonymous());
    let file = project.write("servers.json", &json!({ "mcpServers": { "web": { "url": http.url } } }));
    let policy = write(&project, "policy.toml", "[[rule]]\ntool = \"erase\"\neffect = \"deny\"\n");
    project.check(&["call", "web:erase", "--config", &file], 4, "", "lists no tool `erase` for this caller");
    let refused = "rule 1 of policy.toml denies the call of \"erase\" of \"web\"\n";
    project.check(&["call", "web:erase", "--config", &file, "--policy", &policy], 1, "", refused);
}

#[test]
fn the_lists_of_an_entry_are_rules() {
    let project = Project::new("policy-lists");
    let entry = json!({ "command": fixture(), "x-mcp": { "askTools": ["a*"] } });
    let file = project.write("servers.json", &json!({ "mcpServers": { "local": entry } }));
    let config = ["--config", &file];
    let call = ["call", "add", "a=1", "b=2"];
    project.check(&[&call[..], &config].concat(), 1, "", "requires an approval for the call of \"add\"");
    project.check(&[&call[..], &config, &["--yes"]].concat(), 0, "{\"sum\":3}", "approved with --yes");
    // A policy decides before the lists.
    let policy = write(&project, "policy.toml", "[[rule]]\ntool = \"add\"\neffect = \"allow\"\n");
    project.check(&[&call[..], &config, &["--policy", &policy]].concat(), 0, "{\"sum\":3}", "");
}

#[test]
fn a_host_validates_the_arguments_before_the_call() {
    let project = Project::new("policy-arguments");
    let file = project.write("servers.json", &json!({ "mcpServers": { "local": { "command": fixture() } } }));
    let err = "the arguments of local:add do not match its schema: ";
    let (code, _, found) = project.run(&["call", "add", "a=1", "--config", &file]);
    assert_eq!(code, Some(2), "{found}");
    assert!(found.contains(err) && found.ends_with("\n     add takes: a:integer b:integer\n"), "{found}");
}

#[test]
fn wrong_policy_files_have_the_exit_code_two() {
    let project = Project::new("policy-wrong");
    let http = Http::start();
    let file = project.write("servers.json", &json!({ "mcpServers": { "local": { "command": fixture() } } }));
    let wrong = write(&project, "wrong.toml", "[[rule]]\neffect = \"maybe\"\n");
    let pins = write(&project, "pins.json", "{");
    let call = ["call", "add", "a=1", "b=2", "--config", &file];
    for (options, err) in [
        (["--policy", wrong.as_str()], "wrong.toml:2:10: "),
        (["--policy", "none.toml"], "none.toml"),
        (["--pins", pins.as_str()], "pins.json"),
    ] {
        project.check(&[&call[..], &options].concat(), 2, "", err);
    }
    for option in ["--policy", "--pins"] {
        let words = ["call", &http.url, "add", "a=1", "b=2", option, "file"];
        project.check(&words, 2, "", "--policy and --pins apply to the servers of a configuration file");
    }
}

/// Returns a server whose tool `open` has this description.
pub(crate) fn described(text: &str) -> Http {
    let described = tool("open", async || "opened").description(text.to_owned());
    Http::serve(Server::builder("described", "1").tool(described).build(), HttpConfig::new())
}

#[test]
fn a_changed_definition_needs_an_approval() {
    let project = Project::new("pins");
    let (first, changed) = (described("Opens the door."), described("Opens the window."));
    let pins = project.root.join("pins.json").display().to_string();
    let write = |http: &Http| project.write("servers.json", &json!({ "mcpServers": { "s": { "url": http.url } } }));
    let file = write(&first);
    let call = ["call", "s:open", "--config", &file, "--pins", &pins];
    project.check(&call, 0, "opened", "");
    project.check(&call, 0, "opened", "");
    write(&changed);
    let refused =
        "the pin of the tool blocks the call of \"open\" of \"s\" until a person accepts the definition of the tool: ";
    project.check(&call, 1, "", refused);
    let (_, _, err) = project.run(&call);
    assert!(err.contains("`/description` was \"Opens the door.\" and is \"Opens the window.\""), "{err}");
    assert!(err.contains("; run `mcp` with stdin and stderr at a terminal to accept it\n"), "{err}");
    // Option `--yes` does not accept a definition.
    project.check(&[&call[..], &["--yes"]].concat(), 1, "", refused);
    let (code, out, _) = project.run(&["tools", "--format", "openai", "--config", &file, "--pins", &pins]);
    assert_eq!((code, out.as_str()), (Some(0), "null\n"));
    #[cfg(unix)]
    {
        for (answer, code) in [("n", 1), ("y", 0)] {
            let mut terminal = Terminal::run_with("", &call.join(" "), &[("NO_COLOR", "1")]);
            let shown = terminal.expect("Do you accept the new definition? [y/n] ");
            assert!(shown.contains("The definition of the tool `s:open` has changed"), "{shown}");
            terminal.type_text(&format!("{answer}\n"));
            assert_eq!(terminal.wait().code(), Some(code), "{answer}");
        }
        project.check(&call, 0, "opened", "");
    }
}

#[cfg(unix)]
#[test]
fn a_user_at_the_terminal_approves_a_call() {
    let project = Project::new("policy-terminal");
    let policy = write(&project, "policy.toml", POLICY);
    let file = project.write("servers.json", &json!({ "mcpServers": { "local": { "command": fixture() } } }));
    let line = format!("call add a=1 b=2 --config {file} --policy {policy}");
    for (answer, code, shown) in [("y\n", 0, "{\"sum\":3}"), ("n\n", 1, "the user rejected"), ("\u{4}", 1, "rejected")]
    {
        let mut terminal = Terminal::run_with("", &line, &[("NO_COLOR", "1")]);
        let question = terminal.expect("Do you approve? [y/n] ");
        assert!(
            question.contains("A policy requires your approval: call the tool `add` of `local` with"),
            "{question}"
        );
        terminal.type_text(answer);
        terminal.expect(shown);
        assert_eq!(terminal.wait().code(), Some(code), "{answer:?}");
    }
}

#[test]
fn a_policy_that_denies_all_calls_hides_all_tools() {
    let project = Project::new("policy-doctor");
    let policy = write(&project, "policy.toml", "default = \"deny\"\n");
    let file = project.write("servers.json", &json!({ "mcpServers": { "local": { "command": fixture() } } }));
    let (code, report) = project.doctor(&["--config", &file, "--policy", &policy]);
    assert_eq!((code, &report["servers"][0]["state"]), (Some(0), &json!("ready")));
    let (code, out, _) = project.run(&["tools", "--json", "--config", &file, "--policy", &policy]);
    assert_eq!((code, serde_json::from_str::<Value>(&out).unwrap()), (Some(0), json!([])));
}
