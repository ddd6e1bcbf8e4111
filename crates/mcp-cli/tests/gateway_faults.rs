//! The faults of the files and of the command line of `mcp gateway`: their places, before a server starts.

use std::{fs, net::TcpListener};

use mcp_client::{Client, protocol::ElicitResult};
use serde_json::{Value, json};

use super::{
    configuration::Project,
    fixture,
    gateway::{gateway, get},
    process::{BoundedOutput as _, TIMEOUT, script, signal, wait},
    serve::Serving,
    startup, text,
};

/// Returns a server that writes a file when it starts.
fn witness(project: &Project) -> Value {
    let script = format!("echo > '{}'; exec \"$0\"", project.root.join("started").display());
    json!({ "command": "sh", "args": ["-c", script, fixture()] })
}

#[test]
fn a_member_of_the_auth_file_is_checked_before_a_server_starts() {
    let project = Project::new("gateway-auth-members");
    let servers = json!({ "one": witness(&project) });
    fs::write(project.root.join("token"), "token-of-ci").unwrap();
    let auth = project.root.join("auth.toml");
    let path = auth.display().to_string();
    let provider = "[[static]]\nprincipal = \"ci\"\ntoken = { file = \"token\" }\n";
    for (members, host, expected) in [
        (
            "public_url = \"http://mcp.example.com/mcp\"\n",
            "127.0.0.1",
            "public_url: `http://mcp.example.com/mcp` is not",
        ),
        (
            "allowed_hosts = [\"a.example\", \"https://b.example\"]\n",
            "127.0.0.1",
            "allowed_hosts[1]: `https://b.example`",
        ),
        ("allowed_origins = [\"a.example\"]\n", "127.0.0.1", "allowed_origins[0]: `a.example` is not an origin"),
        ("max_failures_per_minute = 0\n", "127.0.0.1", "max_failures_per_minute: the number is zero"),
        ("required_scopes = [\"mcp\", \"a b\"]\n", "127.0.0.1", "required_scopes[1]: a scope is"),
        ("scopes_supported = [\"\"]\n", "127.0.0.1", "scopes_supported[0]: a scope is"),
        ("", "0.0.0.0", "public_url: 0.0.0.0 is not a loopback address: set the URL"),
    ] {
        fs::write(&auth, format!("{members}{provider}")).unwrap();
        let output = gateway(&project, &servers, &["--port", "0", "--host", host, "--auth", &path]).bounded_output();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{members}: {stderr}");
        assert!(stderr.contains(&format!("{path}: {expected}")), "{members}: {stderr}");
        assert!(!project.root.join("started").exists(), "{members}: a server started");
    }
}

#[test]
fn a_fault_of_a_required_entry_and_of_the_keys_is_found_before_a_server_starts() {
    let project = Project::new("gateway-entry-faults");
    let keys = project.root.join("keys");
    fs::write(&keys, "0f\n").unwrap();
    let keys = keys.display().to_string();
    let oauth = json!({ "clientId": "team-app", "clientSecret": "hunter2" });
    let unbound = |required: bool| json!({ "url": "https://team.example/mcp", "oauth": oauth, "x-mcp": { "required": required } });
    for (unbound, arguments, expected) in [
        (unbound(true), &[][..], "servers.json: $.mcpServers.unbound: "),
        (unbound(false), &["--state-keys", &keys], "keys:1: a key is 64 hexadecimal digits"),
        (unbound(false), &["--state-keys", &keys, "--redis", "http://x"], "keys:1: "),
    ] {
        let servers = json!({ "one": witness(&project), "unbound": unbound });
        let output = gateway(&project, &servers, &[&["--port", "0"], arguments].concat()).bounded_output();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected) && !stderr.contains("hunter2"), "{arguments:?}: {stderr}");
        assert!(!project.root.join("started").exists(), "{arguments:?}: a server started");
    }
    let output = gateway(&project, &json!({ "unbound": unbound(false) }), &["--port", "0"]).bounded_output();
    let stderr = text(&output.stderr);
    assert!(output.status.code() == Some(2) && stderr.contains("$.mcpServers.unbound: "), "{stderr}");
}

#[test]
fn each_faulty_entry_is_named_once() {
    let project = Project::new("gateway-all-faults");
    let entry = |required: bool| json!({ "command": fixture(), "x-mcp": { "required": required } });
    let faulty = |required: bool| {
        let mut entry = entry(required);
        entry["env"] = json!({ "TOKEN": "${MCP_TEST_UNSET_VARIABLE}" });
        entry
    };
    let gone = |required: bool| json!({ "command": "/no/such/program", "x-mcp": { "required": required } });
    for (servers, named, code) in [
        (json!({ "first": faulty(false), "second": faulty(false), "third": faulty(false) }), 3, 2),
        (json!({ "first": faulty(false), "second": faulty(true), "third": entry(false) }), 2, 2),
        (json!({ "first": gone(true), "second": gone(false), "third": entry(false) }), 2, 3),
    ] {
        let output = gateway(&project, &servers, &["--port", "0"]).bounded_output();
        check_named(&servers, named, code, &output);
    }
    // The entries of a discovered file need an approval.
    for (servers, code, fatal) in [
        (json!({ "first": faulty(false), "second": entry(true), "third": entry(false) }), 3, "second"),
        (json!({ "first": entry(true), "second": entry(false), "third": faulty(true) }), 2, "third"),
        (json!({ "first": entry(false), "second": faulty(false), "third": entry(false) }), 2, "second"),
    ] {
        project.write("project/.mcp.json", &json!({ "mcpServers": servers }));
        for arguments in [&["gateway", "--port", "0"][..], &["tools"]] {
            let output = project.command(arguments).bounded_output();
            check_named(&servers, 3, code, &output);
            let stderr = text(&output.stderr);
            let error = stderr.lines().find(|line| !line.starts_with("mcp: warning: ")).unwrap();
            assert!(error.contains(&format!("$.mcpServers.{fatal}")), "{arguments:?} {servers}: {stderr}");
        }
    }
}

/// Checks that the command names each of the first entries once.
#[track_caller]
fn check_named(servers: &Value, named: usize, code: i32, output: &std::process::Output) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{servers}: {stderr}");
    for (number, name) in ["first", "second", "third"].into_iter().enumerate() {
        let texts = [format!("$.mcpServers.{name}"), format!("the server `{name}`")];
        let lines = stderr.lines().filter(|line| texts.iter().any(|text| line.contains(text))).count();
        assert_eq!(lines, usize::from(number < named), "{name} of {servers}: {stderr}");
    }
}

#[test]
fn a_strict_gateway_names_each_dropped_item_in_a_line() {
    let project = Project::new("gateway-strict");
    for count in [2, 8] {
        let servers: serde_json::Map<String, Value> =
            (0..count).map(|number| (format!("s{number}"), json!({ "command": fixture() }))).collect();
        let arguments = ["--port", "0", "--names", "raw", "--strict"];
        let output = gateway(&project, &servers.into(), &arguments).bounded_output();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        let mut lines = stderr.lines().skip_while(|line| !line.contains("--strict: "));
        let number = |line: &str| line.split(' ').find_map(|word| word.parse::<usize>().ok());
        let dropped = number(lines.next().unwrap()).unwrap();
        let mut lines: Vec<&str> = lines.collect();
        if dropped > 100 {
            assert_eq!(lines.pop(), Some(&*format!("     and {} more", dropped - 100)), "{stderr}");
        }
        assert!(lines.len() == dropped.min(100) && (count == 2) == (dropped <= 100), "{stderr}");
        for line in lines {
            assert!(line.starts_with("     the ") && line.matches(" is left out, because ").count() == 1, "{stderr}");
        }
    }
}

#[test]
fn the_status_has_the_command_that_approves_a_server() {
    let project = Project::new("gateway-unapproved");
    let servers = json!({ "one": { "command": fixture() }, "two": { "command": fixture() } });
    project.write("project/.mcp.json", &json!({ "mcpServers": servers }));
    let output = project.command(&["gateway", "--port", "0"]).bounded_output();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let stderr = text(&output.stderr);
    assert!(stderr.contains("mcp approve one") && stderr.contains("mcp approve two"), "{stderr}");
    project.check(&["approve", "one"], 0, "approved one", "");
    let serving = Serving::start(project.command(&["gateway", "--port", "0"]));
    let status: Value = serde_json::from_str(&get(&serving.url, "/status", "").1).unwrap();
    let remedies: Vec<&Value> = status["servers"].as_array().unwrap().iter().map(|server| &server["remedy"]).collect();
    let remedy = "read the entry, and run `mcp approve two` if you trust it; then start the gateway again";
    assert_eq!(remedies, [&Value::Null, &json!(remedy)], "{status}");
}

#[test]
fn a_fault_of_the_name_of_a_required_entry_is_found_before_a_server_starts() {
    let project = Project::new("gateway-name-faults");
    for (name, expected) in [
        ("a:b", "the name of the server contains `:`"),
        ("a\u{7}b", "the name of the server contains control characters"),
        (" a", "the name of the server contains control characters or begins or ends with a space"),
        ("", "the name of the server is empty"),
    ] {
        let required = json!({ "command": fixture(), "x-mcp": { "required": true } });
        let servers = json!({ "one": witness(&project), name: required });
        let output = gateway(&project, &servers, &["--port", "0"]).bounded_output();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name:?}: {stderr}");
        assert!(stderr.contains(expected), "{name:?}: {stderr}");
        assert!(!project.root.join("started").exists(), "{name:?}: a server started");
    }
}

#[test]
fn a_used_port_has_the_exit_code_of_a_local_fault() {
    let project = Project::new("gateway-used-port");
    let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = occupied.local_addr().unwrap();
    let servers = json!({ "one": { "command": fixture() } });
    let output = gateway(&project, &servers, &["--port", &address.port().to_string()]).bounded_output();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&format!("the server cannot listen on {address}")), "{stderr}");
}

#[test]
fn a_line_that_is_not_a_message_names_its_server() {
    let project = Project::new("gateway-line");
    let loud = json!({ "command": "sh", "args": ["-c", "echo Starting; exec \"$0\"", fixture()] });
    let serving = Serving::start(gateway(&project, &json!({ "loud": loud }), &["--port", "0"]));
    let expected = "mcp: warning: the server `loud` wrote a line that is not a message: Starting";
    assert!(serving.earlier.iter().any(|line| line == expected), "{:?}", serving.earlier);
}

/// A server of 2025-11-25 that asks during its second call. It answers both calls after the response.
const ASKING: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  result() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
  case "$line" in
    *'"method":"initialize"'*)
      result "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"method":"tools/list"'*) result "$id" '{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*)
      if [ -n "$first" ]; then
        second=$id
        printf '%s\n' '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}'
      else
        first=$id
      fi ;;
    *'"id":"q"'*) result "$first" '{"content":[]}'; result "$second" '{"content":[]}' ;;
    *'"method":"notifications/'*) ;;
    *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
  esac
done
"#;

#[test]
fn a_failed_input_request_names_its_remedy_in_the_log() {
    let project = Project::new("gateway-asks");
    let servers = json!({ "one": { "command": "sh", "args": ["-c", ASKING] } });
    let mut serving = Serving::start(gateway(&project, &servers, &["--port", "0"]));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let call = async || {
        let user = Client::builder("client", "1").on_elicit(async |_form| Ok(ElicitResult::decline()));
        user.connect(serving.url.as_str()).await.unwrap().call_tool("one__t", ()).await.unwrap();
    };
    let called = async { tokio::join!(call(), call()) };
    runtime.block_on(async { tokio::time::timeout(TIMEOUT, called).await }).unwrap();
    let warning = serving.stderr.find(|line| line.contains("an input request of a server failed")).unwrap();
    assert!(warning.starts_with("mcp: warning: ") && warning.contains(r#"server="one""#), "{warning}");
    assert!(warning.contains(r#"`\"asks\": true` in the entry of the server"#), "{warning}");
    let status: Value = serde_json::from_str(&get(&serving.url, "/status", "").1).unwrap();
    let diagnostics = status["servers"][0]["diagnostics"].as_array().unwrap();
    assert!(diagnostics.len() == 1 && diagnostics[0].as_str().unwrap().contains("`\"asks\": true`"), "{status}");
}

#[test]
fn a_gateway_does_not_start_itself_over_stdio() {
    let project = Project::new("gateway-itself");
    let file = project.root.join("servers.json").display().to_string();
    let own = json!({
        "command": env!("CARGO_BIN_EXE_mcp"),
        "args": ["gateway", "--stdio", "--config", file],
        "env": { "HOME": project.root, "XDG_STATE_HOME": project.root },
        "x-mcp": { "required": true },
    });
    let output =
        gateway(&project, &json!({ "own": own, "one": { "command": fixture() } }), &["--port", "0"]).bounded_output();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("has started this gateway with the same file"), "{stderr}");
}

#[test]
fn two_options_with_one_file_and_a_missing_directory_are_refused_before_a_file_changes() {
    let project = Project::new("gateway-files");
    let servers = json!({ "one": witness(&project) });
    let at = |name: &str| project.root.join(name).display().to_string();
    let (config, policy) = (at("servers.json"), at("policy.toml"));
    fs::write(&policy, "default = \"allow\"\n").unwrap();
    let (new, pins, audit) = (at("new"), at("nope/pins.json"), at("nope/audit.jsonl"));
    let own = format!("{}/./servers.json", project.root.display());
    for (arguments, expected) in [
        (vec!["--audit", &config], "--audit and --config name the same file"),
        (vec!["--audit", &own], "--audit and --config name the same file"),
        (vec!["--spans", &policy, "--policy", &policy], "--spans and --policy name the same file"),
        (vec!["--pins", &config], "--pins and --config name the same file"),
        (vec!["--audit", &new, "--spans", &new], "--audit and --spans name the same file"),
        (vec!["--pins", &pins], "--pins: there is no directory"),
        (vec!["--audit", &audit], "--audit: there is no directory"),
    ] {
        let output = gateway(&project, &servers, &[&["--port", "0"], &arguments[..]].concat()).bounded_output();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert!(!project.root.join("started").exists(), "{arguments:?}: a server started");
        assert!(!project.root.join("nope").exists() && !project.root.join("new").exists(), "{arguments:?}");
        assert!(fs::read_to_string(&config).unwrap().starts_with('{'), "{arguments:?}");
    }
}

#[test]
fn a_part_of_an_entry_without_an_effect_is_a_warning_at_the_start() {
    let project = Project::new("gateway-notes");
    let servers = json!({ "one": { "command": fixture(), "arg": [], "x-mcp": { "denyTools": ["[a"] } } });
    let mut serving = Serving::start(gateway(&project, &servers, &["--port", "0"]));
    if signal(&mut serving.child, "TERM") {
        wait(&mut serving.child);
    }
    let lines = std::mem::take(&mut serving.earlier).into_iter().chain(serving.stderr.by_ref());
    let warnings: Vec<String> = lines.filter(|line| line.contains("warning")).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("$.mcpServers.one.arg: ") && warnings[0].contains("(unknown-member)"), "{warnings:?}");
    assert!(warnings[1].contains("the entry of the server `one`: ") && warnings[1].contains("[a"), "{warnings:?}");
}

#[test]
fn a_gateway_prints_the_server_of_an_incomplete_list() {
    let project = Project::new("gateway-incomplete-list");
    let [program, arguments @ ..] = script(startup::SERVER);
    let servers = json!({ "faulty": { "command": program, "args": arguments } });
    let mut serving = Serving::start(gateway(&project, &servers, &["--port", "0"]));
    let is_record = |line: &str| line.contains("a list is incomplete") && line.contains("faulty");
    let found = serving.earlier.iter().any(|line| is_record(line)) || serving.stderr.any(|line| is_record(&line));
    assert!(found, "{:?}", serving.earlier);
}
