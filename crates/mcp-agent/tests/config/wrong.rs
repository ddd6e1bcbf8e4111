//! Wrong files: each fault has a code, the file, a JSON path and a remedy.

use std::path::Path;

use mcp_agent::config::{Code, ConfigFile, Environment, MAX_FILE, Scope};

use super::{directory, parse};

/// The file, its text, the code and the JSON path of its fault. `p` is the file `/p/.mcp.json`.
const WRONG: &[(&str, &str, &str, &str)] = &[
    ("p", "", "syntax", "$"),
    ("p", "[]", "wrong-type", "$"),
    ("p", r#"{"mcpServers": {}"#, "syntax", "$"),
    ("p", "{'mcpServers': {}}", "syntax", "$"),
    ("p", "{mcpServers: {}}", "syntax", "$"),
    ("p", r#"{"mcpServers": {} "x": 1}"#, "syntax", "$"),
    ("p", r#"{"mcpServers": {}} {}"#, "syntax", "$"),
    ("p", r#"{"mcpServers": [1e999]}"#, "wrong-type", "$.mcpServers[0]"),
    ("p", r#"{"servers": {"a": {"command": "a"}}}"#, "missing-key", "$.servers"),
    ("p", r#"{"command": "a"}"#, "missing-key", "$"),
    ("p", r#"{"mcpServers": []}"#, "wrong-type", "$.mcpServers"),
    ("p", r#"{"mcpServers": "a"}"#, "wrong-type", "$.mcpServers"),
    ("p", r#"{"mcpServers": {"a": {"command": "a"}, "a": {"command": "b"}}}"#, "duplicate-key", "$.mcpServers.a"),
    ("p", r#"{"mcpServers": {"a": {"command": "a", "command": "b"}}}"#, "duplicate-key", "$.mcpServers.a.command"),
    ("p", r#"{"mcpServers": {"s": "npx"}}"#, "wrong-type", "$.mcpServers.s"),
    ("p", r#"{"mcpServers": {"s": null}}"#, "wrong-type", "$.mcpServers.s"),
    ("p", r#"{"mcpServers": {"s": {}}}"#, "missing-endpoint", "$.mcpServers.s"),
    ("p", r#"{"mcpServers": {"s": {"comand": "a"}}}"#, "missing-endpoint", "$.mcpServers.s"),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "url": "https://x.example/"}}}"#,
        "two-endpoints",
        "$.mcpServers.s.url",
    ),
    ("p", r#"{"mcpServers": {"s": {"type": "http", "command": "a"}}}"#, "two-endpoints", "$.mcpServers.s.command"),
    (
        "p",
        r#"{"mcpServers": {"s": {"type": "stdio", "url": "https://x.example/"}}}"#,
        "two-endpoints",
        "$.mcpServers.s.url",
    ),
    ("p", r#"{"mcpServers": {"s": {"type": "pigeon", "command": "a"}}}"#, "unknown-type", "$.mcpServers.s.type"),
    ("p", r#"{"mcpServers": {"s": {"type": "ws", "url": "wss://x.example/"}}}"#, "unsupported", "$.mcpServers.s.type"),
    (
        "p",
        r#"{"mcpServers": {"s": {"url": "https://x.example/", "oauth": {"callbackPort": 0}}}}"#,
        "wrong-type",
        "$.mcpServers.s.oauth.callbackPort",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"url": "https://x.example/", "oauth": {"callbackPort": 65536}}}}"#,
        "wrong-type",
        "$.mcpServers.s.oauth.callbackPort",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"url": "https://x.example/", "x-mcp": {"oauthIssuer": 1}}}}"#,
        "wrong-type",
        "$.mcpServers.s.x-mcp.oauthIssuer",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "x-mcp": {"denyTool": ["*"]}}}}"#,
        "misspelled-member",
        "$.mcpServers.s.x-mcp.denyTool",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "x-mcp": {"requird": true}}}}"#,
        "misspelled-member",
        "$.mcpServers.s.x-mcp.requird",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "x-mpc": {"denyTools": ["*"]}}}}"#,
        "misspelled-member",
        "$.mcpServers.s.x-mpc",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "x_mcp": {"denyTools": ["*"]}}}}"#,
        "misspelled-member",
        "$.mcpServers.s.x_mcp",
    ),
    ("p", r#"{"mcpServers": {"s": {"type": 1, "command": "a"}}}"#, "wrong-type", "$.mcpServers.s.type"),
    ("p", r#"{"mcpServers": {"s": {"command": ""}}}"#, "invalid-command", "$.mcpServers.s.command"),
    ("p", r#"{"mcpServers": {"s": {"command": ["npx", "-y"]}}}"#, "wrong-type", "$.mcpServers.s.command"),
    ("p", r#"{"mcpServers": {"s": {"command": "a", "args": "-y x"}}}"#, "wrong-type", "$.mcpServers.s.args"),
    ("p", r#"{"mcpServers": {"s": {"command": "a", "args": ["-p", 80]}}}"#, "wrong-type", "$.mcpServers.s.args[1]"),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "args": ["a\u0000b"]}}}"#,
        "invalid-command",
        "$.mcpServers.s.args[0]",
    ),
    ("p", r#"{"mcpServers": {"s": {"command": "a", "env": ["A=1"]}}}"#, "wrong-type", "$.mcpServers.s.env"),
    ("p", r#"{"mcpServers": {"s": {"command": "a", "env": {"A": 1}}}}"#, "wrong-type", "$.mcpServers.s.env.A"),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "env": {"A=B": "1"}}}}"#,
        "invalid-environment",
        r#"$.mcpServers.s.env["A=B"]"#,
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "env": {"": "1"}}}}"#,
        "invalid-environment",
        r#"$.mcpServers.s.env[""]"#,
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "env": {"A": "${NO_SUCH_VARIABLE}"}}}}"#,
        "unset-variable",
        "$.mcpServers.s.env.A",
    ),
    ("p", r#"{"mcpServers": {"s": {"command": "${NO_SUCH_VARIABLE}"}}}"#, "unset-variable", "$.mcpServers.s.command"),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "args": ["${OPEN"]}}}"#,
        "invalid-variable",
        "$.mcpServers.s.args[0]",
    ),
    ("p", r#"{"mcpServers": {"s": {"command": "a", "args": ["${}"]}}}"#, "invalid-variable", "$.mcpServers.s.args[0]"),
    ("p", r#"{"mcpServers": {"s": {"command": "${env:V1}"}}}"#, "unset-variable", "$.mcpServers.s.command"),
    ("p", r#"{"mcpServers": {"s": {"command": "a", "cwd": 1}}}"#, "wrong-type", "$.mcpServers.s.cwd"),
    ("p", r#"{"mcpServers": {"s": {"command": "a", "timeout": 0}}}"#, "invalid-timeout", "$.mcpServers.s.timeout"),
    ("p", r#"{"mcpServers": {"s": {"command": "a", "timeout": -5}}}"#, "invalid-timeout", "$.mcpServers.s.timeout"),
    ("p", r#"{"mcpServers": {"s": {"command": "a", "timeout": "5s"}}}"#, "wrong-type", "$.mcpServers.s.timeout"),
    ("p", r#"{"mcpServers": {"s": {"command": "a", "timeout": 1e18}}}"#, "invalid-timeout", "$.mcpServers.s.timeout"),
    ("p", r#"{"mcpServers": {"s": {"command": "a", "disabled": "no"}}}"#, "wrong-type", "$.mcpServers.s.disabled"),
    ("p", r#"{"mcpServers": {"s": {"url": "x.example/mcp"}}}"#, "invalid-url", "$.mcpServers.s.url"),
    ("p", r#"{"mcpServers": {"s": {"url": "ftp://x.example/"}}}"#, "invalid-url", "$.mcpServers.s.url"),
    ("p", r#"{"mcpServers": {"s": {"url": "http://[x/"}}}"#, "invalid-url", "$.mcpServers.s.url"),
    ("p", r#"{"mcpServers": {"s": {"url": "https://user:pw@x.example/"}}}"#, "invalid-url", "$.mcpServers.s.url"),
    ("p", r#"{"mcpServers": {"s": {"url": "wss://x.example/"}}}"#, "unsupported", "$.mcpServers.s.url"),
    (
        "p",
        r#"{"mcpServers": {"s": {"url": "https://x.example/", "headers": {"A B": "1"}}}}"#,
        "invalid-header",
        r#"$.mcpServers.s.headers["A B"]"#,
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"url": "https://x.example/", "headers": {"A": "1\n2"}}}}"#,
        "invalid-header",
        "$.mcpServers.s.headers.A",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"url": "https://x.example/", "headers": {"A": "1", "a": "2"}}}}"#,
        "invalid-header",
        "$.mcpServers.s.headers.a",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"url": "https://x.example/", "headers": {"A": "${NO_SUCH_VARIABLE}"}}}}"#,
        "unset-variable",
        "$.mcpServers.s.headers.A",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"url": "https://x.example/", "headers": [["A", "1"]]}}}"#,
        "wrong-type",
        "$.mcpServers.s.headers",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"url": "https://x.example/", "headersHelper": "/bin/token"}}}"#,
        "unsupported",
        "$.mcpServers.s.headersHelper",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "x-mcp": {"sharing": "none"}}}}"#,
        "wrong-type",
        "$.mcpServers.s.x-mcp.sharing",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "x-mcp": {"maxConnections": 1}}}}"#,
        "wrong-type",
        "$.mcpServers.s.x-mcp.maxConnections",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "x-mcp": {"connectionsPerPrincipal": 0}}}}"#,
        "wrong-type",
        "$.mcpServers.s.x-mcp.connectionsPerPrincipal",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"url": "https://x.example/", "x-mcp": {"tokenExchange": {"issuer": "https://i.example"}}}}}"#,
        "missing-key",
        "$.mcpServers.s.x-mcp.tokenExchange",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"url": "https://x.example/", "x-mcp": {"tokenExchange": {"issuer": "i", "clientId": "c",
           "clientSecret": "s", "tokenEndpoint": "http://i.example/token"}}}}}"#,
        "invalid-url",
        "$.mcpServers.s.x-mcp.tokenExchange.tokenEndpoint",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"url": "https://x.example/", "x-mcp": {"tokenExchange": {"issuer": "http://i.example",
           "clientId": "c", "clientSecret": "s"}}}}}"#,
        "invalid-url",
        "$.mcpServers.s.x-mcp.tokenExchange.issuer",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"url": "https://x.example/", "x-mcp": {"tokenExchange": {"issuer": "i", "clientId": "c",
           "clientSecret": "s", "tokenEndpoint": "https://i.example/token", "scopes": ["a"]}}}}}"#,
        "misspelled-member",
        "$.mcpServers.s.x-mcp.tokenExchange.scopes",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "x-mcp": {"tokenExchange": {"issuer": "i", "clientId": "c",
           "clientSecret": "s", "tokenEndpoint": "https://i.example/token"}}}}}"#,
        "unsupported",
        "$.mcpServers.s.x-mcp.tokenExchange",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "x-mcp": {"asks": "yes"}}}}"#,
        "wrong-type",
        "$.mcpServers.s.x-mcp.asks",
    ),
    ("p", r#"{"mcpServers": {"s": {"command": "a", "x-mcp": true}}}"#, "wrong-type", "$.mcpServers.s.x-mcp"),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "x-mcp": {"required": "yes"}}}}"#,
        "wrong-type",
        "$.mcpServers.s.x-mcp.required",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "x-mcp": {"denyTools": "x"}}}}"#,
        "wrong-type",
        "$.mcpServers.s.x-mcp.denyTools",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "x-mcp": {"startTimeoutSeconds": 0}}}}"#,
        "invalid-timeout",
        "$.mcpServers.s.x-mcp.startTimeoutSeconds",
    ),
    (
        "p",
        r#"{"mcpServers": {"s": {"command": "a", "x-mcp": {"toolTimeoutSeconds": {"t": "1"}}}}}"#,
        "wrong-type",
        "$.mcpServers.s.x-mcp.toolTimeoutSeconds.t",
    ),
    ("p", r#"{"mcpServers": {"": {"command": "a"}}}"#, "invalid-name", r#"$.mcpServers[""]"#),
    ("p", r#"{"mcpServers": {"a:b": {"command": "a"}}}"#, "invalid-name", r#"$.mcpServers["a:b"]"#),
    ("p", r#"{"mcpServers": {" a": {"command": "a"}}}"#, "invalid-name", r#"$.mcpServers[" a"]"#),
    ("p", r#"{"mcpServers": {"a\nb": {"command": "a"}}}"#, "invalid-name", r#"$.mcpServers["a\nb"]"#),
    ("/p/settings.json", r#"{"mcpServers": {}}"#, "unknown-format", "$"),
    ("/p/config.yaml", "mcpServers: []", "unknown-format", "$"),
    ("/p/servers.ini", "a=b", "unknown-format", "$"),
    ("/p/.vscode/mcp.json", r#"{"mcpServers": {"a": {"command": "a"}}}"#, "missing-key", "$.mcpServers"),
    (
        "/p/.vscode/mcp.json",
        r#"{"servers": {"s": {"command": "a", "env": {"K": "${input:none}"}}}}"#,
        "invalid-variable",
        "$.servers.s.env.K",
    ),
    (
        "/p/.vscode/mcp.json",
        r#"{"inputs": [{"id": "k", "type": "promptString", "password": true, "default": "x"}], "servers": {"s": {"command": "a", "env": {"K": "${input:k}"}}}}"#,
        "unset-variable",
        "$.servers.s.env.K",
    ),
    (
        "/p/.vscode/mcp.json",
        r#"{"servers": {"s": {"command": "${command:pick}"}}}"#,
        "unsupported",
        "$.servers.s.command",
    ),
    (
        "/p/.vscode/mcp.json",
        r#"{"servers": {"s": {"command": "a", "sandboxEnabled": true}}}"#,
        "unsupported",
        "$.servers.s.sandboxEnabled",
    ),
    (
        "/p/.vscode/mcp.json",
        r#"{"servers": {"s": {"type": "http", "url": "unix:///tmp/s.sock#/mcp"}}}"#,
        "unsupported",
        "$.servers.s.url",
    ),
    (
        "/p/.vscode/mcp.json",
        r#"{"servers": {"s": {"command": "a", "envFile": "none.env"}}}"#,
        "referenced-file",
        "$.servers.s.envFile",
    ),
    (
        "/p/.cursor/mcp.json",
        r#"{"mcpServers": {"s": {"command": "${env:NO_SUCH_VARIABLE}"}}}"#,
        "unset-variable",
        "$.mcpServers.s.command",
    ),
    (
        "/p/.cursor/mcp.json",
        r#"{"mcpServers": {"s": {"command": "${env:OPEN"}}}"#,
        "invalid-variable",
        "$.mcpServers.s.command",
    ),
    (
        "/p/.cursor/mcp.json",
        r#"{"mcpServers": {"s": {"command": "${userHome}/x"}}}"#,
        "unset-variable",
        "$.mcpServers.s.command",
    ),
    (
        "/h/zed/settings.json",
        r#"{"context_servers": {"s": {"command": {"args": []}}}}"#,
        "invalid-command",
        "$.context_servers.s.command",
    ),
    ("/h/zed/settings.json", r#"{"context_servers": []}"#, "wrong-type", "$.context_servers"),
    ("/h/config.toml", "[mcp_servers.s\ncommand = \"a\"", "syntax", "$"),
    ("/h/config.toml", "[mcp_servers.s]\ncommand = \"a\"\ncommand = \"b\"", "duplicate-key", "$"),
    ("/h/config.toml", "[mcp_servers.s]\nargs = []", "missing-endpoint", "$.mcp_servers.s"),
    (
        "/h/config.toml",
        "[mcp_servers.s]\nurl = \"https://x.example/\"\nargs = [\"a\"]",
        "two-endpoints",
        "$.mcp_servers.s.args",
    ),
    (
        "/h/config.toml",
        "[mcp_servers.s]\ncommand = \"a\"\nbearer_token_env_var = \"T\"",
        "two-endpoints",
        "$.mcp_servers.s.bearer_token_env_var",
    ),
    (
        "/h/config.toml",
        "[mcp_servers.s]\nurl = \"https://x.example/\"\nbearer_token_env_var = \"NO_SUCH_VARIABLE\"",
        "unset-variable",
        "$.mcp_servers.s.bearer_token_env_var",
    ),
    (
        "/h/config.toml",
        "[mcp_servers.s]\nurl = \"https://x.example/\"\nbearer_token = \"x\"",
        "unsupported",
        "$.mcp_servers.s.bearer_token",
    ),
    (
        "/h/config.toml",
        "[mcp_servers.s]\ncommand = \"a\"\nstartup_timeout_sec = 1\nstartup_timeout_ms = 1000",
        "invalid-timeout",
        "$.mcp_servers.s.startup_timeout_ms",
    ),
    (
        "/h/config.toml",
        "[mcp_servers.s]\ncommand = \"a\"\ndefault_tools_approval_mode = \"always\"",
        "wrong-type",
        "$.mcp_servers.s.default_tools_approval_mode",
    ),
    (
        "/h/mcp_config.json",
        r#"{"mcpServers": {"s": {"serverUrl": "https://a.example/", "url": "https://b.example/"}}}"#,
        "two-endpoints",
        "$.mcpServers.s.url",
    ),
    (
        "/p/.gemini/settings.json",
        r#"{"mcpServers": {"s": {"tcp": "x:1", "command": "a"}}}"#,
        "unsupported",
        "$.mcpServers.s.tcp",
    ),
    (
        "/p/.gemini/settings.json",
        r#"{"mcpServers": {"s": {"url": "https://a.example/", "authProviderType": "google_credentials"}}}"#,
        "unsupported",
        "$.mcpServers.s.authProviderType",
    ),
    (
        "/p/.gemini/settings.json",
        r#"{"mcpServers": {"s": {"command": "a", "env": {"K": "$NO_SUCH_VARIABLE"}}}}"#,
        "unset-variable",
        "$.mcpServers.s.env.K",
    ),
    (
        "/p/opencode.json",
        r#"{"mcp": {"s": {"type": "local", "command": "npx -y a"}}}"#,
        "wrong-type",
        "$.mcp.s.command",
    ),
    ("/p/opencode.json", r#"{"mcp": {"s": {"type": "local", "command": []}}}"#, "invalid-command", "$.mcp.s.command"),
    (
        "/p/opencode.json",
        r#"{"mcp": {"s": {"type": "local", "command": ["a", "{file:none}"]}}}"#,
        "referenced-file",
        "$.mcp.s.command[1]",
    ),
    (
        "/p/opencode.json",
        r#"{"mcp": {"s": {"type": "local", "command": ["{env:NO_SUCH_VARIABLE}"]}}}"#,
        "unset-variable",
        "$.mcp.s.command[0]",
    ),
    (
        "/h/goose/config.yaml",
        "extensions:\n  s: {type: stdio, cmd: a, env_keys: [NO_SUCH_VARIABLE]}",
        "unset-variable",
        "$.extensions.s.env_keys[0]",
    ),
    ("/h/goose/config.yaml", "extensions:\n  s: [\n", "syntax", "$"),
    (
        "/h/goose/config.yaml",
        "extensions:\n  s: {type: stdio, cmd: a}\n  s: {type: stdio, cmd: b}\n",
        "duplicate-key",
        "$",
    ),
    ("/h/.continue/config.yaml", "mcpServers:\n  s: {command: a}", "wrong-type", "$.mcpServers"),
    ("/h/.continue/config.yaml", "mcpServers:\n- command: a", "invalid-name", "$.mcpServers[0]"),
    (
        "/h/.continue/config.yaml",
        "mcpServers:\n- {name: s, command: a}\n- {name: s, command: b}",
        "duplicate-name",
        "$.mcpServers[1]",
    ),
    (
        "/h/.continue/config.yaml",
        "mcpServers:\n- {name: s, command: \"${{ secrets.NO_SUCH_VARIABLE }}\"}",
        "unset-variable",
        "$.mcpServers[0].command",
    ),
    (
        "/p/.crush.json",
        r#"{"mcp": {"s": {"command": "a", "env": {"K": "$(cat /etc/passwd)"}}}}"#,
        "command-substitution",
        "$.mcp.s.env.K",
    ),
    (
        "/p/.crush.json",
        r#"{"mcp": {"s": {"command": "a", "env": {"K": "`id`"}}}}"#,
        "command-substitution",
        "$.mcp.s.env.K",
    ),
    ("/p/.crush.json", r#"{"mcp": {"s": {"command": "$NO_SUCH_VARIABLE"}}}"#, "unset-variable", "$.mcp.s.command"),
];

#[test]
fn each_wrong_file_has_code_file_path_and_remedy() {
    assert!(WRONG.len() >= 60);
    let environment = Environment::default();
    for (file, text, code, path) in WRONG {
        let file = if *file == "p" { "/p/.mcp.json" } else { file };
        let error = match parse(file, text, &environment) {
            Err(error) => error,
            Ok(config) => config.errors.into_iter().next().unwrap_or_else(|| panic!("{file}: {text}")),
        };
        assert_eq!((error.code.as_str(), error.path.as_str()), (*code, *path), "{file}: {text}: {error}");
        assert_eq!(error.file, Path::new(file));
        assert!(!error.message.is_empty() && !error.remedy.is_empty(), "{error:?}");
        assert!(!error.to_string().ends_with('.'), "{error}");
    }
}

#[test]
fn a_wrong_entry_leaves_the_other_servers_usable() {
    let text = r#"{"mcpServers":{"bad":{"command":"${NO_SUCH_VARIABLE}"},"good":{"command":"a"}}}"#;
    let config = parse("/p/.mcp.json", text, &Environment::default()).unwrap();
    assert_eq!(config.servers[0].name, "good");
    assert_eq!((config.errors.len(), config.errors[0].server.as_deref()), (1, Some("bad")));
    assert_eq!(config.names(), ["bad", "good"]);

    let text = "mcpServers:\n- {command: a}\n- {name: 7, command: a}\n- {name: good, command: a}\n";
    let config = parse("/h/.continue/config.yaml", text, &Environment::default()).unwrap();
    let paths: Vec<&str> = config.errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!((config.servers[0].name.as_str(), paths), ("good", vec!["$.mcpServers[0]", "$.mcpServers[1]"]));
    assert!(config.errors.iter().all(|error| error.code == Code::InvalidName));
}

#[test]
fn files_that_cannot_be_read_have_their_own_codes() {
    let directory = directory("unreadable");
    let file = |name: &str| directory.join(name);
    std::fs::write(file("latin.json"), b"{\"a\": \"\xe9\"}").unwrap();
    std::fs::File::create(file("large.json")).unwrap().set_len(MAX_FILE + 1).unwrap();
    std::fs::create_dir(file("folder.json")).unwrap();
    for (name, code) in [
        ("none.json", Code::FileMissing),
        ("latin.json", Code::NotUtf8),
        ("large.json", Code::FileTooLarge),
        ("folder.json", Code::FileUnreadable),
    ] {
        let error = ConfigFile::read(file(name), Scope::Named, &Environment::default()).unwrap_err();
        assert_eq!((error.code, error.file.as_path()), (code, file(name).as_path()), "{error}");
        assert_eq!(error.to_string().contains("it is a directory"), name == "folder.json", "{error}");
        assert_eq!(error.remedy.contains(".mcp.json"), name == "folder.json", "{error}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn files_without_servers_are_valid() {
    for (file, text) in [
        ("/p/.mcp.json", "{}"),
        ("/p/.mcp.json", r#"{"mcpServers": {}}"#),
        ("/p/.mcp.json", "\u{feff}{ }"),
        ("/h/.claude.json", r#"{"numStartups": 1}"#),
        ("/h/.gemini/settings.json", r#"{"theme": "x"}"#),
        ("/h/config.toml", ""),
        ("/h/goose/config.yaml", ""),
    ] {
        let config = parse(file, text, &Environment::default()).unwrap_or_else(|error| panic!("{error}"));
        assert!(config.servers.is_empty() && config.errors.is_empty(), "{file}");
    }
}

#[test]
fn nested_defaults_have_a_limit() {
    let read = |levels: usize| {
        let value = format!("{}x{}", "${UNSET:-".repeat(levels), "}".repeat(levels));
        let text = format!(r#"{{"mcpServers":{{"a":{{"url":"https://x.example/","headers":{{"X":"{value}"}}}}}}}}"#);
        parse("/p/.mcp.json", &text, &Environment::default()).unwrap()
    };
    assert_eq!(super::header(super::http(&read(8), "a"), "X"), Some("x"));
    for levels in [9, 50_000] {
        let config = read(levels);
        let error = &config.errors[0];
        assert_eq!((error.code.as_str(), error.path.as_str()), ("invalid-variable", "$.mcpServers.a.headers.X"));
        assert!(error.to_string().len() < 300, "{error}");
    }
}

#[test]
fn a_file_has_at_most_1000_entries() {
    let read = |count: usize| {
        let entries: Vec<String> = (0..count).map(|index| format!(r#""s{index}":{{"command":"a"}}"#)).collect();
        parse("/p/.mcp.json", &format!(r#"{{"mcpServers":{{{}}}}}"#, entries.join(",")), &Environment::default())
    };
    assert_eq!(read(1000).unwrap().servers.len(), 1000);
    assert_eq!(read(1001).unwrap_err().code.as_str(), "too-many-servers");
}

#[test]
fn the_error_of_an_entry_knows_whether_the_server_is_required() {
    for (file, entry, expected) in [
        ("/p/.mcp.json", r#"{"command":"${UNSET}","x-mcp":{"required":true}}"#, true),
        ("/p/.mcp.json", r#"{"command":"${UNSET}","x-mcp":{"required":false}}"#, false),
        ("/p/.mcp.json", r#"{"command":"${UNSET}"}"#, false),
        // A value of the wrong type could be intended as true.
        ("/p/.mcp.json", r#"{"command":"a","x-mcp":{"required":"true"}}"#, true),
        ("/p/.mcp.json", r#"{"command":"","disabled":true,"x-mcp":{"required":true}}"#, false),
    ] {
        let config = parse(file, &format!(r#"{{"mcpServers":{{"a":{entry}}}}}"#), &Environment::default()).unwrap();
        assert_eq!(config.errors.len(), 1, "{entry}");
        assert_eq!(config.errors[0].required, expected, "{entry}");
    }
    let text = "[mcp_servers.a]\nurl = \"ftp://x\"\nrequired = true\n";
    let config = parse("/h/.codex/config.toml", text, &Environment::default()).unwrap();
    assert!(config.errors[0].required);
}

#[test]
fn patterns_of_tools_are_checked() {
    let long = "x".repeat(257);
    for (file, member, path) in [
        ("/p/.mcp.json", r#""x-mcp":{"denyTools":["a",PATTERN]}"#, "$.mcpServers.a[\"x-mcp\"].denyTools[1]"),
        ("/p/.mcp.json", r#""x-mcp":{"allowTools":[PATTERN]}"#, "$.mcpServers.a[\"x-mcp\"].allowTools[0]"),
        ("/h/.codeium/windsurf/mcp_config.json", r#""disabledTools":[PATTERN]"#, "$.mcpServers.a.disabledTools[0]"),
    ] {
        for pattern in ["", &long] {
            let member = member.replace("PATTERN", &format!("\"{pattern}\""));
            let text = format!(r#"{{"mcpServers":{{"a":{{"command":"a",{member}}}}}}}"#);
            let config = parse(file, &text, &Environment::default()).unwrap();
            assert_eq!(config.errors.len(), 1, "{text}");
            let error = &config.errors[0];
            assert_eq!(error.code.as_str(), "invalid-pattern");
            assert_eq!(error.path.replace("[\"x-mcp\"]", ".x-mcp"), path.replace("[\"x-mcp\"]", ".x-mcp"));
            assert!(!error.remedy.is_empty());
        }
    }
}

#[test]
fn a_faulty_entry_of_a_project_replaces_the_entry_of_the_user() {
    for user in [r#"{ "command": "c" }"#, r#"{ "command": 8 }"#, r#"{ "command": 8, "x-mcp": { "required": true } }"#] {
        let text = format!(
            r#"{{ "mcpServers": {{ "s": {user} }}, "projects": {{ "/p": {{ "mcpServers": {{ "s": {{ "command": 7 }} }} }} }} }}"#
        );
        let environment = Environment::default().home("/h").workspace("/p");
        let config = ConfigFile::parse(Path::new("/h/.claude.json"), &text, Scope::User, &environment).unwrap();
        assert!(config.servers.is_empty(), "{user}");
        let paths: Vec<&str> = config.errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(paths, ["$.projects[\"/p\"].mcpServers.s.command"], "{user}");
    }
}
