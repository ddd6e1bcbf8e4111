//! Servers of configuration files: `--config`, approvals, installations and `mcp doctor`.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use mcp_agent::config::Code;
use serde_json::{Value, json};

use super::{Http, fixture, mcp, process::BoundedOutput as _, text};

/// A project of a test: its directory, its home and its state.
pub(crate) struct Project {
    pub(crate) root: PathBuf,
}

impl Project {
    pub(crate) fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("configuration-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("project/src")).unwrap();
        fs::create_dir_all(root.join("home")).unwrap();
        Self { root }
    }

    pub(crate) fn write(&self, file: &str, text: &Value) -> String {
        let file = self.root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text.to_string()).unwrap();
        file.display().to_string()
    }

    /// Returns `mcp` in the directory `project/src`.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = mcp();
        command.args(arguments).current_dir(self.root.join("project/src"));
        command.env("HOME", self.root.join("home")).env("XDG_STATE_HOME", self.root.join("state"));
        command.env_remove("XDG_CONFIG_HOME").env("SET", "from the environment");
        command
    }

    /// Runs `mcp` in the directory `project/src`.
    pub(crate) fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(arguments).bounded_output();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    pub(crate) fn check(&self, arguments: &[&str], code: i32, out: &str, err: &str) {
        let (found, stdout, stderr) = self.run(arguments);
        assert_eq!(found, Some(code), "{arguments:?}\n{stdout}\n{stderr}");
        assert!(stdout.contains(out), "{arguments:?}\n{stdout}\n{stderr}");
        assert!(stderr.contains(err) && (!err.is_empty() || stderr.is_empty()), "{arguments:?}\n{stderr}");
    }

    pub(crate) fn doctor(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let (code, out, err) = self.run(&[&["doctor", "--json"], arguments].concat());
        (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

#[test]
fn commands_use_the_servers_of_a_configuration_file() {
    let project = Project::new("commands");
    let http = Http::start();
    let file = project.write(
        "servers.json",
        &json!({ "mcpServers": {
            "local": { "command": fixture(), "env": { "MCP_TEST_SECRET": "${SET}" } },
            "web.site": { "url": http.url, "x-mcp": { "denyTools": ["fail", "sec*"] } },
            "broken": { "command": "no-such-program-anywhere" },
            "off": { "command": "no-such-program-anywhere", "disabled": true }
        } }),
    );
    let config = ["--config", &file];
    let run = |arguments: &[&str]| project.run(&[arguments, &config].concat());

    let (code, out, err) = run(&["tools", "--timeout", "20"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("local:add") && out.contains("web.site:add"), "{out}");
    assert!(out.contains("local:fail") && !out.contains("web.site:fail"), "{out}");
    assert!(err.contains("the server `broken` failed") && !err.contains("off"), "{err}");

    let (code, out, _) = run(&["tools", "--json"]);
    let tools: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &tools[0]["name"], &tools[0]["providerName"]),
        (Some(0), &json!("local:add"), &json!("local__add"))
    );
    let hashed = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "web.site:add").unwrap();
    let hashed = hashed["providerName"].as_str().unwrap();

    let (code, out, _) = run(&["tools", "--format", "openai"]);
    let definitions: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &definitions[0]["function"]["name"]), (Some(0), &json!("local__add")));

    let check = |arguments: &[&str], code: i32, out: &str, err: &str| {
        project.check(&[arguments, &config].concat(), code, out, err);
    };
    for name in ["local:add", "local__add", "web.site:add", hashed] {
        let (code, out, err) = run(&["call", name, "a=1", "b=2"]);
        assert_eq!((code, out.as_str()), (Some(0), "{\"sum\":3}\n"), "{name}: {err}");
    }
    let (code, out, err) = run(&["call", "--format", "anthropic", hashed, r#"{"a":20,"b":22}"#]);
    assert_eq!((code, out.as_str()), (Some(0), "{\"sum\":42}\n"), "{err}");
    check(&["call", "local:secrets"], 0, "from the environment", "");
    check(&["call", "web.site:fail"], 2, "", "does not allow the tool `fail`");
    check(&["call", "add", "a=1", "b=2"], 2, "", "several servers have the tool `add`: local:add, web.site:add");
    check(&["call", "nothing"], 2, "", "no server lists the tool `nothing`");
    check(&["prompt", "local:review", "name=x"], 0, "Review x.", "");
    check(&["ping"], 2, "", "choose a server with --server: local, web.site, broken");
    check(&["info", "--server", "local"], 0, "fixture", "");
    check(&["read", "--server", "web.site", "config://app"], 0, "dark = true", "");
    check(&["call", "--server", "local", "add", "a=1", "b=2"], 0, "{\"sum\":3}", "");
    check(
        &["tools", "--server", "locl"],
        2,
        "",
        "the file defines no server `locl` (unknown-server); did you mean `local`?",
    );
    check(&["tools", "--server", "broken"], 3, "", "there is no such program");
    check(&["call", "off:add", "a=1"], 3, "", "`off:add` belongs to the server `off`, which this command cannot use");
    check(&["tools", "--server", "off"], 2, "", "the server `off` is disabled");
    check(&["tools", &http.url], 2, "", "the command line must not name another one");
}

#[test]
fn a_denied_tool_is_rejected_for_a_single_server_and_in_the_shell() {
    let project = Project::new("denied");
    let rules = json!({ "denyTools": ["add", "sec*"] });
    let file =
        project.write("servers.json", &json!({ "mcpServers": { "git": { "command": fixture(), "x-mcp": rules } } }));
    let config = ["--config", &file];
    let message = "does not allow the tool `add`";
    let calls: [&[&str]; 5] = [
        &["call", "add", "a=1", "b=2"],
        &["call", "git:add", "a=1", "b=2"],
        &["call", "--server", "git", "add", "a=1", "b=2"],
        &["call", "--format", "anthropic", "add", r#"{"a":1,"b":2}"#],
        &["tools", "add"],
    ];
    for call in calls {
        project.check(&[call, &config].concat(), 2, "", message);
    }
    let mut shell = mcp();
    shell.args(["shell"]).args(config).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell.env("HOME", project.root.join("home")).env("XDG_STATE_HOME", project.root.join("state"));
    let mut shell = shell.spawn().unwrap();
    shell.stdin.take().unwrap().write_all(b"call add a=1 b=2\ntools\ntools --format openai\ncall fail\n").unwrap();
    let output = super::process::finish(shell);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(err.contains(message), "{err}");
    assert!(!out.contains("\"sum\"") && !out.contains("secrets") && out.contains("fail"), "{out}");
}

#[test]
fn a_required_server_with_a_faulty_entry_fails_the_command() {
    let project = Project::new("required");
    let write = |is_required: bool| {
        let faulty = json!({ "command": "${NO_SUCH_VARIABLE}", "x-mcp": { "required": is_required } });
        let servers = json!({ "mcpServers": { "good": { "command": fixture() }, "faulty": faulty } });
        project.write("servers.json", &servers)
    };
    project.check(&["tools", "--config", &write(true)], 2, "", "$.mcpServers.faulty.command");
    project.check(&["tools", "--config", &write(false)], 0, "good:add", "$.mcpServers.faulty.command");
    project.check(&["call", "faulty:add", "--config", &write(false)], 3, "", "belongs to the server `faulty`");
}

#[test]
fn wrong_files_have_the_exit_code_two() {
    let project = Project::new("wrong");
    let file = project.write("servers.json", &json!({ "mcpServers": { "a": { "command": "${NO_SUCH_VARIABLE}" } } }));
    project.check(
        &["tools", "--config", &file],
        2,
        "",
        "servers.json: $.mcpServers.a.command: the variable `NO_SUCH_VARIABLE` is not set",
    );
    project.check(&["tools", "--config", "none.json"], 2, "", "(file-missing)");
    let (code, report) = project.doctor(&["--config", &file]);
    assert_eq!(code, Some(2));
    assert_eq!(report["file"], json!(file));
    assert_eq!(report["servers"][0]["name"], "a");
    let diagnostic = &report["diagnostics"][0];
    assert_eq!(
        (&diagnostic["code"], &diagnostic["file"], &diagnostic["path"]),
        (&json!("unset-variable"), &json!(file), &json!("$.mcpServers.a.command"))
    );
    assert!(diagnostic["message"].is_string() && diagnostic["remedy"].is_string());
    assert_eq!(diagnostic.as_object().unwrap().len(), 5);
    let (code, report) = project.doctor(&["--config", "none.json"]);
    assert_eq!(
        (code, &report["diagnostics"][0]["code"], &report["servers"]),
        (Some(2), &json!("file-missing"), &json!([]))
    );
    let (code, report) = project.doctor(&[]);
    assert_eq!(
        (code, &report["diagnostics"][0]["code"], &report["file"]),
        (Some(2), &json!("no-servers"), &json!(null))
    );
}

#[test]
fn doctor_reports_states_tokens_and_faults() {
    let project = Project::new("doctor");
    let http = Http::start();
    let good = json!({ "local": { "command": fixture() }, "web": { "url": http.url, "headers": { "Authorization": "Bearer s3cret" } } });
    let file = project.write("good.json", &json!({ "mcpServers": good }));
    let (code, report) = project.doctor(&["--config", &file]);
    assert_eq!((code, &report["diagnostics"]), (Some(0), &json!([])), "{report}");
    let [local, web] = &report["servers"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&local["name"], &local["state"], &local["login"]), (&json!("local"), &json!("ready"), &json!("none")));
    assert_eq!((&web["name"], &web["login"]), (&json!("web"), &json!("header")));
    let tokens: Vec<u64> =
        local["tools"].as_array().unwrap().iter().map(|tool| tool["estimatedTokens"].as_u64().unwrap()).collect();
    assert!(tokens.len() > 3 && tokens.iter().all(|tokens| *tokens > 0), "{local}");
    assert_eq!(local["estimatedTokens"].as_u64(), Some(tokens.iter().sum()));
    assert!(!report.to_string().contains("s3cret"));
    project.check(&["doctor", "--config", &file], 0, "local  ready", "");

    // A pattern without an effect.
    let patterns =
        json!({ "local": { "command": fixture(), "x-mcp": { "allowTools": ["cnt", "add"], "denyTools": ["fail"] } } });
    let file = project.write("patterns.json", &json!({ "mcpServers": patterns }));
    let (code, report) = project.doctor(&["--config", &file]);
    let notes = json!(["the pattern `cnt` matches no tool of the server"]);
    assert_eq!((code, &report["servers"][0]["notes"]), (Some(0), &notes), "{report}");
    project.check(&["doctor", "--config", &file], 0, "  note: the pattern `cnt` matches no tool of the server\n", "");
    let directory = project.root.to_string_lossy().into_owned();
    project.check(
        &["tools", "--config", &directory],
        2,
        "",
        "it is a directory (file-unreadable); name a file of the directory",
    );

    let bad = json!({
        "gone": { "command": "no-such-program-anywhere" }, "ends": { "command": "false" },
        "closed": { "url": "http://127.0.0.1:1/mcp" }, "off": { "command": "x", "disabled": true },
        "good": { "command": fixture() }
    });
    let file = project.write("bad.json", &json!({ "mcpServers": bad }));
    let (code, report) = project.doctor(&["--config", &file]);
    assert_eq!(code, Some(1), "{report}");
    let states: Vec<&str> =
        report["servers"].as_array().unwrap().iter().map(|server| server["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["failed", "failed", "failed", "disabled", "ready"]);
    let codes: Vec<&str> =
        report["diagnostics"].as_array().unwrap().iter().map(|found| found["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["start-failed", "start-failed", "unreachable"]);
    assert_eq!(report["diagnostics"][2]["path"], "$.mcpServers.closed");
    let (code, report) = project.doctor(&["--config", &file, "--server", "good"]);
    assert_eq!((code, report["servers"].as_array().map(Vec::len)), (Some(0), Some(1)));
    let only =
        project.write("only.json", &json!({ "mcpServers": { "gone": { "command": "no-such-program-anywhere" } } }));
    project.check(&["tools", "--config", &only], 3, "", "there is no such program");
    let required = json!({
        "good": { "command": fixture() }, "gone": { "command": "no-such-program-anywhere", "x-mcp": { "required": true } }
    });
    let required = project.write("required.json", &json!({ "mcpServers": required }));
    project.check(&["tools", "--config", &required], 3, "", "the server `gone` failed: ");
}

#[test]
fn servers_of_a_project_file_need_an_approval() {
    let project = Project::new("approvals");
    let marker = project.root.join("started");
    let entry = |word: &str| {
        let script = format!("echo {word} >> '{}'; exec \"$0\"", marker.display());
        json!({ "mcpServers": {
            "git": { "command": "sh", "args": ["-c", script, fixture()] },
            "other": { "command": fixture() }
        } })
    };
    project.write("project/.mcp.json", &entry("one"));
    project.check(&["tools"], 3, "", "git` if you trust it");
    project.check(&["call", "git:add", "a=1", "b=2"], 3, "", "(needs-approval)");
    let (code, report) = project.doctor(&[]);
    assert_eq!((code, &report["servers"][0]["state"]), (Some(1), &json!("needs-approval")), "{report}");
    assert!(!marker.exists(), "a server without approval was started");

    project.check(&["approve"], 2, "", "name the servers, or write `mcp approve --all`");
    project.check(&["approve", "gti"], 2, "", "did you mean `git`?");
    project.check(&["approve", "git"], 0, "approved git\n  command: sh\n  args: -c ", "");
    let (code, out, err) = project.run(&["tools"]);
    assert!(out.contains("git:add") && !out.contains("other:add"), "{out}");
    assert!(code == Some(0) && err.contains("mcp approve other"), "{err}");
    assert!(marker.exists());
    // The approval is outside of the project.
    assert!(project.root.join("state/mcp/config/approvals.json").exists());

    fs::remove_file(&marker).unwrap();
    project.write("project/.mcp.json", &entry("two"));
    project.check(&["tools", "--server", "git"], 3, "", "(needs-approval)");
    assert!(!marker.exists(), "a changed definition was started");
    project.check(&["approve", "--all"], 0, "approved other", "");
    project.check(&["call", "git:add", "a=1", "b=2"], 0, "{\"sum\":3}", "");
    project.check(&["deny", "git"], 0, "denied git\n  command: sh\n", "");
    project.check(&["tools", "--server", "git"], 3, "", "(denied)");
    project.check(&["tools", "--server", "other"], 0, "other:add", "");

    // A file that the command line names needs no approval.
    let file = project.root.join("project/.mcp.json").display().to_string();
    project.check(&["call", "--config", &file, "git:add", "a=1", "b=2"], 0, "{\"sum\":3}", "");
}

#[test]
fn the_file_of_the_user_is_the_last_choice() {
    let project = Project::new("user");
    let servers = json!({ "mcpServers": { "mine": { "command": fixture() } } });
    project.write("home/.config/mcp/mcp.json", &servers);
    project.check(&["tools"], 0, "mine:add", "");
    project.check(&["info"], 0, "fixture", "");
    project.write("project/.mcp.json", &json!({ "mcpServers": {} }));
    project.check(&["tools"], 2, "", "enables no server");
}

#[test]
fn installs_and_uninstalls_servers_of_clients() {
    let project = Project::new("install");
    let file = project.root.join("home/.cursor/mcp.json");
    project.check(
        &["install", "cursor", "git", "--env", "TOKEN=x", "--", "git-mcp", "--stdio"],
        0,
        "installed git in",
        "",
    );
    let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(
        written,
        json!({ "mcpServers": { "git": { "command": "git-mcp", "args": ["--stdio"], "env": { "TOKEN": "x" } } } })
    );
    project.check(&["install", "cursor", "git", "https://x.example/"], 2, "", "(already-installed)");
    project.check(&["uninstall", "cursor", "git"], 0, "uninstalled git from", "");
    assert!(!file.exists());
    project.check(&["uninstall", "cursor", "git"], 2, "", "(unknown-server)");

    let text = "{\r\n  // mine\r\n  \"servers\": {}\r\n}\r\n";
    let file = project.root.join("mcp.json");
    fs::write(&file, text).unwrap();
    let name = file.display().to_string();
    project.check(&["install", "vscode", "s", "https://s.example/mcp", "--config", &name], 0, "installed", "");
    assert!(fs::read_to_string(&file).unwrap().contains("// mine\r\n"));
    project.check(&["uninstall", "vscode", "s", "--config", &name], 0, "uninstalled", "");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);

    project.check(&["install", "goose", "s", "--", "s"], 0, "extensions:\n  \"s\":\n", "by hand");
    project.check(&["install", "curser", "s", "--", "s"], 2, "", "did you mean cursor?");
    project.check(&["install", "cursor", "a:b", "--", "s"], 2, "", "contains `:`");
    project.check(&["install", "cursor", "s"], 2, "", "give the URL of the server, or its command after `--`");
    project.check(&["install", "cursor", "s", "ftp://x"], 2, "", "is not an http or https URL");
    #[cfg(unix)]
    {
        let link = project.root.join("link.json");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let link = link.display().to_string();
        project.check(&["install", "cursor", "s", "--config", &link, "--", "s"], 1, "", "(symlink)");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

#[test]
fn a_member_without_an_effect_is_a_warning_of_commands_and_a_note_of_doctor() {
    let project = Project::new("members");
    let entry = json!({ "command": fixture(), "arg": ["x"], "icon": "a.png", "x-mcp": { "overrides": {} } });
    let file = project.write("servers.json", &json!({ "mcpServers": { "git": entry } }));
    let (code, report) = project.doctor(&["--config", &file]);
    let notes = report["servers"][0]["notes"].as_array().unwrap();
    assert_eq!((code, notes.len()), (Some(0), 2), "{report}");
    let (member, own) = ("$.mcpServers.git.arg: ", "$.mcpServers.git.x-mcp.overrides: ");
    assert!(notes[0].as_str().unwrap().starts_with(member) && notes[1].as_str().unwrap().starts_with(own), "{report}");
    let (code, _, err) = project.run(&["tools", "--config", &file]);
    assert_eq!((code, err.matches("(unknown-member)").count()), (Some(0), 2), "{err}");
    let entry = json!({ "command": fixture(), "x-mpc": { "denyTools": ["add"] } });
    let file = project.write("servers.json", &json!({ "mcpServers": { "git": entry } }));
    project.check(&["tools", "--config", &file], 2, "", "`x-mcp` has a similar name (misspelled-member)");
}

#[test]
fn each_code_has_a_page() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut pages: Vec<String> = fs::read_dir(docs.join("doctor"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "index.md")
        .collect();
    pages.sort();
    let mut expected: Vec<String> = Code::ALL.iter().map(|code| format!("{code}.md")).collect();
    expected.sort();
    assert_eq!(pages, expected);
    let (summary, index) =
        ["SUMMARY.md", "doctor/index.md"].map(|file| fs::read_to_string(docs.join(file)).unwrap()).into();
    for code in Code::ALL {
        let page = fs::read_to_string(docs.join(format!("doctor/{code}.md"))).unwrap();
        assert!(page.starts_with(&format!("# `{code}`\n")) && page.contains("**Remedy.**"), "{code}");
        assert!(summary.contains(&format!("(doctor/{code}.md)")) && index.contains(&format!("({code}.md)")), "{code}");
    }
}
