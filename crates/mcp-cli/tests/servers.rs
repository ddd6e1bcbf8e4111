//! The servers of a configuration file in one host: searches, decisions, credentials, limits and the end of processes.

use std::fs;

use mcp_server::{auth::ApiKeys, prelude::*};
use serde_json::{Value, json};

#[cfg(unix)]
use super::process::{TIMEOUT, ready, script, signal, wait};
use super::{Http, check, configuration::Project, fixture};

fn names(found: &str) -> Vec<String> {
    let found: Value = serde_json::from_str(found).unwrap_or_else(|error| panic!("{error}: {found}"));
    found.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_search_ranks_the_tools_of_all_servers() {
    let project = Project::new("search");
    let http = Http::start();
    let servers = json!({
        "local": { "command": fixture() }, "web": { "url": http.url, "x-mcp": { "denyTools": ["fail"] } },
        "gone": { "command": "no-such-program-anywhere" }
    });
    let file = project.write("servers.json", &json!({ "mcpServers": servers }));
    let config = ["--config", &file];
    let search = |words: &[&str]| project.run(&[&["search"], words, &config].concat());
    let (code, out, err) = search(&["numbers", "to", "add", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(names(&out)[..2], ["local:add", "web:add"], "{out}");
    let first = &serde_json::from_str::<Value>(&out).unwrap()[0];
    assert_eq!((&first["server"], &first["providerName"]), (&json!("local"), &json!("local__add")));
    assert!(first["score"].as_f64().is_some_and(|score| score > 0.0), "{first}");
    assert!(err.contains("the server `gone` failed"), "{err}");
    // The name of a server is a word too, and a denied tool is not found.
    let (_, out, _) = search(&["fail", "--json"]);
    assert_eq!(names(&out), ["local:fail"]);
    let (_, out, _) = search(&["add", "--limit", "1"]);
    assert!(out.contains("local:add") && !out.contains("web:add"), "{out}");
    let (code, out, _) = search(&["xyzzy", "--json"]);
    assert_eq!((code, out.as_str()), (Some(0), "[]\n"));
    let (code, out, _) = search(&["xyzzy"]);
    assert_eq!((code, out.as_str()), (Some(0), "no tool matches\n"));
    project.check(&["search", "--config", &file], 2, "", "the words of the search are required");
    let only = json!({ "gone": { "command": "no-such-program-anywhere" } });
    let only = project.write("only.json", &json!({ "mcpServers": only }));
    project.check(&["search", "x", "--config", &only], 3, "", "there is no such program");
    // A server of the command line has no display names.
    check(&http.url, "search URL add numbers", 0, "\nadd ", "");
}

#[test]
fn a_faulty_entry_does_not_block_the_decisions_about_other_servers() {
    let project = Project::new("faulty");
    let entry = json!({ "command": "x", "args": ["${NO_SUCH_VARIABLE}"] });
    let servers = json!({ "mcpServers": { "faulty": entry, "good": { "command": fixture() } } });
    project.write("project/.mcp.json", &servers);
    let fault =
        "$.mcpServers.faulty.args[0]: the variable `NO_SUCH_VARIABLE` is not set and has no default (unset-variable)";
    project.check(&["approve", "faulty"], 2, "", fault);
    project.check(&["approve", "none", "good"], 2, "", "(unknown-server)");
    project.check(&["tools"], 2, "", fault);
    project.check(&["approve", "--all"], 2, "approved good\n", fault);
    project.check(&["tools"], 0, "good:add", fault);
    // A command for another server does not name the fault.
    project.check(&["call", "good:add", "a=1", "b=2"], 0, "{\"sum\":3}", "");
    let (code, out, _) = project.run(&["approve", "--all", "--json"]);
    let decided: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, Some(2));
    assert_eq!((&decided["approved"], &decided["invalid"]), (&json!(["good"]), &json!(["faulty"])));
    assert_eq!(decided["entries"][0]["name"], "good");
    assert!(decided["entries"][0]["members"]["command"].is_string(), "{decided}");

    // The reason of a denial can be the fault itself.
    let (code, report) = project.doctor(&[]);
    assert_eq!((code, &report["servers"][0]["state"]), (Some(2), &json!("invalid")), "{report}");
    project.check(&["deny", "faulty"], 0, "denied faulty\n  command: x\n  args: ${NO_SUCH_VARIABLE}\n", "");
    let (code, report) = project.doctor(&[]);
    assert_eq!((code, &report["servers"][0]["state"]), (Some(1), &json!("denied")), "{report}");
    assert_eq!(report["diagnostics"][0]["code"], "denied", "{report}");
    project.check(&["tools", "--server", "faulty"], 3, "", "(denied)");
    project.check(&["tools"], 0, "good:add", "");
    project.check(&["deny", "--all"], 0, "denied faulty\n", "");
    project.check(&["approve", "--all"], 2, "", "good stays denied");
    project.check(&["tools"], 3, "", "(denied)");
}

#[test]
fn a_decision_shows_the_definition_without_secrets() {
    let project = Project::new("summary");
    let servers = json!({ "mcpServers": {
        "git": { "command": "git-mcp", "args": ["--repo", ".", "--token", "s3cret"], "env": { "KEY": "s3cret", "A": "${SET}" } },
        "web": { "url": "https://mcp.example/v1?key=s3cret", "headers": { "X-Api-Key": "s3cret", "A": "${SET}" } }
    } });
    project.write("project/.mcp.json", &servers);
    let (code, out, err) = project.run(&["approve", "--all"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let expected = "approved git\n  command: git-mcp\n  args: --repo . --token …\n  env: KEY, A=${SET}\n\
                    approved web\n  url: https://mcp.example/v1?key=…\n  headers: X-Api-Key, A=${SET}\n";
    assert_eq!(out, expected);
}

#[test]
fn the_remedy_of_a_refused_key_names_its_header() {
    let project = Project::new("keys");
    let server = || Server::builder("keyed", "1").tool(tool("open", async || "open")).build();
    let keys = || ApiKeys::new().key("right-key", Principal::new("reader"));
    let http = Http::serve(server(), HttpConfig::new().authenticate(keys()));
    let with = |headers: Value| json!({ "url": http.url, "headers": headers });
    let servers = json!({
        "wrong": with(json!({ "X-API-Key": "wrong" })), "missing": { "url": http.url },
        "right": with(json!({ "x-api-key": "right-key" }))
    });
    let file = project.write("servers.json", &json!({ "mcpServers": servers }));
    let (code, report) = project.doctor(&["--config", &file]);
    assert_eq!(code, Some(1), "{report}");
    let states: Vec<&Value> = report["servers"].as_array().unwrap().iter().map(|server| &server["state"]).collect();
    assert_eq!(states, ["needs-login", "needs-login", "ready"]);
    for (index, remedy) in [
        (0, "correct the value of the header `x-api-key` in `headers` of the entry"),
        (1, "add the header `x-api-key` to `headers` of the entry"),
    ] {
        let diagnostic = &report["diagnostics"][index];
        assert_eq!(diagnostic["remedy"], remedy, "{report}");
        assert!(!diagnostic.to_string().contains("mcp login"), "{report}");
    }
    check(
        &http.url,
        "tools URL",
        4,
        "",
        "; pass the key with --header 'x-api-key: @FILE', where FILE contains the key",
    );
}

#[test]
fn the_time_limit_of_a_tool_ends_its_call() {
    let project = Project::new("limits");
    let slow = Server::builder("slow", "1").tool(tool("wait", async || std::future::pending::<String>().await)).build();
    let http = Http::serve(slow, HttpConfig::new());
    let entry = json!({ "url": http.url, "x-mcp": { "toolTimeoutSeconds": { "wait": 1 } } });
    let file = project.write("servers.json", &json!({ "mcpServers": { "slow": entry } }));
    project.check(&["call", "slow:wait", "--config", &file], 3, "", "tools/call took longer than");
    // The option of the command line replaces the limits of the file.
    let limits = json!({ "toolTimeoutSeconds": { "wait": 900 }, "callTimeoutSeconds": 900 });
    let entry = json!({ "url": http.url, "x-mcp": limits });
    let file = project.write("long.json", &json!({ "mcpServers": { "slow": entry } }));
    project.check(&["call", "slow:wait", "--config", &file, "--timeout", "1"], 3, "", "tools/call");
}

#[test]
fn options_with_secrets_reach_one_server_only() {
    let project = Project::new("receivers");
    let http = Http::start();
    let servers = json!({ "one": { "url": http.url }, "two": { "url": http.url }, "local": { "command": fixture() } });
    let file = project.write("servers.json", &json!({ "mcpServers": servers }));
    let options = ["--config", &file, "--header", "X-Key: s3cret"];
    let err = "several servers would receive --header; choose a server with --server: one, two\n";
    for words in [&["tools"][..], &["search", "add"], &["doctor"], &["info"], &["call", "add"]] {
        project.check(&[words, &options].concat(), 2, "", err);
    }
    project.check(&[&["call", "one:add", "a=1", "b=2"][..], &options].concat(), 0, "{\"sum\":3}", "");
    project.check(&[&["tools", "--server", "one"][..], &options].concat(), 0, "one:add", "");
    let servers = json!({ "one": { "command": fixture() }, "two": { "command": fixture() } });
    let file = project.write("local.json", &json!({ "mcpServers": servers }));
    let err = "several servers would receive --env; choose a server with --server: one, two\n";
    project.check(&["tools", "--config", &file, "--env", "MCP_TEST_SECRET=x"], 2, "", err);
    project.check(&["call", "one:secrets", "--config", &file, "--env", "MCP_TEST_SECRET=x"], 0, "x", "");
}

#[test]
fn concurrent_installations_keep_all_servers() {
    let project = Project::new("concurrent");
    let names: Vec<String> = (0..6).map(|number| format!("s{number}")).collect();
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| project.check(&["install", "cursor", name, "--", "x"], 0, "installed", ""));
        }
    });
    let text = fs::read_to_string(project.root.join("home/.cursor/mcp.json")).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["mcpServers"].as_object().unwrap().len(), names.len(), "{text}");
}

/// A server with a tool whose names and keys providers refuse.
#[cfg(unix)]
const DIFFICULT: &str = r#"
while read -r line; do case "$line" in
*'"server/discover"'*) answer 1 | sed 's/"result":1/"error":{"code":-32601,"message":"unknown"}/' ;;
*'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}' ;;
*'"tools/list"'*) answer '{"tools":[{"name":"find.it","inputSchema":{"type":"object","properties":{"page[size]":{"type":"integer"}}}}]}' ;;
*'"find.it"'*'"arguments":{"page[size]":3}'*) answer '{"content":[{"type":"text","text":"as the server expects"}]}' ;;
*'"tools/call"'*) answer '{"content":[{"type":"text","text":"other arguments"}],"isError":true}' ;;
esac; done
"#;

#[cfg(unix)]
#[test]
fn calls_of_models_reach_their_server_in_each_format() {
    let project = Project::new("models");
    let [command, flag, text] = script(DIFFICULT);
    let entry = json!({ "command": command, "args": [flag, text] });
    let servers = json!({ "odd": entry, "local": { "command": fixture() } });
    let both = project.write("servers.json", &json!({ "mcpServers": servers }));
    let one = project.write("one.json", &json!({ "mcpServers": { "odd": entry } }));
    let formats = ["anthropic", "openai", "openai-responses", "gemini", "bedrock", "mistral", "ollama"];
    for (file, formats) in [(&both, &formats[..]), (&one, &formats[..1])] {
        for format in formats {
            let config = ["--config", file.as_str(), "--format", format];
            let (code, all, err) = project.run(&[&["tools"][..], &config].concat());
            assert_eq!(code, Some(0), "{err}");
            let name = all.split('"').find(|word| word.starts_with("odd__find_it_0")).unwrap();
            let key = all.split('"').find(|word| word.starts_with("page")).unwrap();
            // One tool has the same definition as in the list.
            let (_, only, _) = project.run(&[&["tools", "odd:find.it"][..], &config].concat());
            assert!(only.contains(&format!("\"{name}\"")) && !only.contains("local"), "{only}");
            let arguments = format!(r#"{{"{key}":3}}"#);
            for name in [name, "odd:find.it"] {
                let (code, out, err) = project.run(&[&["call", name, &arguments][..], &config].concat());
                assert_eq!((code, out.as_str()), (Some(0), "as the server expects\n"), "{format} {name}: {err}");
            }
        }
    }
    let none = json!({ "odd": { "command": command, "args": [flag, text], "x-mcp": { "denyTools": ["*"] } } });
    let none = project.write("none.json", &json!({ "mcpServers": none }));
    let (code, out, err) = project.run(&["tools", "--format", "gemini", "--strict", "--config", &none]);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "null\n", ""));
}

/// Each server writes to a file when it starts, and holds a pipe open until its process ends.
#[cfg(unix)]
#[test]
fn no_server_is_left_after_a_signal() {
    use std::io::Read as _;

    let project = Project::new("signals");
    let commands: &[(&[&str], usize)] = &[
        (&["tools"], 3),
        (&["tools", "--format", "openai"], 3),
        (&["search", "numbers"], 3),
        (&["doctor"], 3),
        (&["call", "add"], 3),
        (&["call", "never:x"], 1),
        (&["info", "--server", "never"], 1),
        (&["resources", "--server", "never"], 1),
        (&["read", "note://1", "--server", "never"], 1),
        (&["prompts", "--server", "never"], 1),
        (&["prompt", "never:x"], 1),
        (&["complete", "never:x", "a=1", "--server", "never"], 1),
        (&["ping", "--server", "never"], 1),
        (&["lint", "--server", "never"], 1),
        (&["shell", "--server", "never"], 1),
        (&["listen", "--server", "ready"], 1),
    ];
    let run = |index: usize, (arguments, count): (&[&str], usize), (name, code): (&str, i32)| {
        let directory = project.root.join(format!("{index}-{name}"));
        fs::create_dir(&directory).unwrap();
        let (pipe, started) = (directory.join("pipe"), directory.join("started"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // The servers ignore the end of their input and SIGTERM.
        let entry = |then: &str| {
            let text = format!(
                "trap '' TERM; exec 9>'{}'; echo x >> '{}'; {then}; while :; do sleep 1; done",
                pipe.display(),
                started.display()
            );
            json!({ "command": "sh", "args": ["-c", text] })
        };
        let fixture = fixture().display().to_string();
        let servers = json!({ "ready": entry(&fixture), "never": entry("true"), "also": entry(&fixture) });
        let file = project.write(&format!("{index}-{name}/servers.json"), &json!({ "mcpServers": servers }));
        let options = ["--config", &file, "--timeout", "60"];
        let mut running = project.command(&[arguments, &options].concat());
        running.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let mut running = running.stderr(std::process::Stdio::null()).spawn().unwrap();
        let (sender, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            fs::File::open(pipe).unwrap().read_to_end(&mut Vec::new()).unwrap();
            sender.send(()).unwrap();
        });
        let written = || fs::read_to_string(&started).map_or(0, |text| text.lines().count());
        ready(&format!("{arguments:?}: the servers start"), || (written() >= count).then_some(()));
        assert!(ended.try_recv().is_err());
        assert!(signal(&mut running, name));
        assert_eq!(wait(&mut running).code(), Some(code), "{arguments:?} {name}");
        assert!(ended.recv_timeout(TIMEOUT).is_ok(), "{arguments:?} {name}: a server is left");
    };
    for (first, commands) in commands.chunks(4).enumerate() {
        std::thread::scope(|scope| {
            for (index, command) in commands.iter().enumerate() {
                for signal in [("INT", 130), ("TERM", 143)] {
                    let run = &run;
                    scope.spawn(move || run(first * 4 + index, *command, signal));
                }
            }
        });
    }
}
