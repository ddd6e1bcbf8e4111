//! A sample of each format, in the form that its client documents or writes.

use std::time::Duration;

use mcp_agent::config::{Environment, Format, HttpTransport};

use super::{env, header, http, parse_valid, server, stdio};

#[test]
fn reads_claude_desktop() {
    let text = r#"{
  "globalShortcut": "",
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/data/$HOME/${HOME}"],
      "env": { "DEBUG": "1" }
    }
  }
}"#;
    let config = parse_valid("/h/.config/Claude/claude_desktop_config.json", text, &Environment::default());
    assert_eq!(config.format, Format::ClaudeDesktop);
    let files = stdio(&config, "filesystem");
    assert_eq!(files.command, "npx");
    assert_eq!(files.args, ["-y", "@modelcontextprotocol/server-filesystem", "/data/$HOME/${HOME}"]);
    assert_eq!(env(files, "DEBUG"), Some("1"));
    let origin = server(&config, "filesystem").origin.as_ref().unwrap();
    assert_eq!((origin.path.as_str(), origin.fingerprint.len()), ("$.mcpServers.filesystem", 64));
}

#[test]
fn reads_claude_code_with_the_servers_of_the_project() {
    let text = r#"{
  "numStartups": 12,
  "mcpServers": {
    "sentry": { "type": "http", "url": "https://mcp.sentry.dev/mcp", "headers": { "Authorization": "Bearer ${T:-${U:-x}}" } },
    "db": { "type": "stdio", "command": "db-user" },
    "wiki": { "type": "http", "url": "https://w.example/mcp", "oauth": { "clientId": "c", "callbackPort": 8123 },
      "x-mcp": { "oauthIssuer": "https://as.example" } }
  },
  "projects": {
    "/work-tree": { "mcpServers": { "db": { "type": "stdio", "command": "db-local", "timeout": 2500, "alwaysLoad": true } } },
    "/other": { "mcpServers": { "never": { "command": "no" } } }
  }
}"#;
    let environment = Environment::default().home("/h").workspace("/work-tree/src");
    let config = parse_valid("/h/.claude.json", text, &environment);
    assert_eq!(config.names(), ["sentry", "wiki", "db"]);
    assert_eq!(stdio(&config, "db").command, "db-local");
    let db = server(&config, "db");
    assert_eq!(db.call_timeout, Some(Duration::from_millis(2500)));
    assert_eq!(db.pinned_tools, ["*"]);
    assert_eq!(db.origin.as_ref().unwrap().path, "$.projects[\"/work-tree\"].mcpServers.db");
    assert_eq!(header(http(&config, "sentry"), "Authorization"), Some("Bearer x"));
    let wiki = http(&config, "wiki");
    assert_eq!((wiki.oauth_client_id.as_deref(), wiki.oauth_redirect_port), (Some("c"), Some(8123)));
    assert_eq!(wiki.oauth_issuer.as_deref(), Some("https://as.example"));
    assert!(server(&config, "wiki").extra.is_empty());
}

#[test]
fn reads_the_portable_file_with_its_own_members() {
    let text = r#"{
  // The servers of this project.
  "mcpServers": {
    "git": {
      "command": "${BIN:-git-mcp}", "args": ["--repo", "."], "cwd": "sub",
      "x-mcp": {
        "required": true, "startTimeoutSeconds": 3, "callTimeoutSeconds": 1.5, "toolTimeoutSeconds": { "clone": 600 },
        "allowTools": ["git_*"], "denyTools": ["*_force"], "trustTools": ["git_log"], "askTools": ["git_push"],
        "pinTools": ["git_log"], "idleStopSeconds": 600, "sharing": "session", "maxConnections": 8, "colour": "red"
      }
    },
    "off": { "command": "${UNSET}", "disabled": true },
    "old": { "type": "sse", "url": "https://old.example/sse" },
  }
}"#;
    let config = parse_valid("/p/.mcp.json", text, &Environment::default());
    let git = server(&config, "git");
    assert!(git.required && git.enabled);
    assert_eq!(git.start_timeout, Some(Duration::from_secs(3)));
    assert_eq!(git.call_timeout, Some(Duration::from_millis(1500)));
    assert_eq!(git.tool_timeouts["clone"], Duration::from_secs(600));
    assert_eq!(git.allowed_tools.as_deref().unwrap(), ["git_*"]);
    assert_eq!(
        (&git.denied_tools[0], &git.trusted_tools[0], &git.asking_tools[0]),
        (&"*_force".to_owned(), &"git_log".to_owned(), &"git_push".to_owned())
    );
    assert_eq!((git.idle_stop, git.max_connections), (Some(Duration::from_secs(600)), Some(8)));
    assert_eq!(git.sharing, Some(mcp_agent::Sharing::Session));
    assert_eq!(git.extra["colour"], "red");
    assert_eq!(stdio(&config, "git").command, "git-mcp");
    assert_eq!(stdio(&config, "git").cwd.as_deref(), Some(std::path::Path::new("/p/sub")));
    assert!(!server(&config, "off").enabled);
    assert_eq!(http(&config, "old").transport, HttpTransport::Sse);
}

#[test]
fn reads_cursor() {
    let directory = super::directory("cursor");
    std::fs::write(directory.join(".env"), "# secrets\nexport A=1\nB=\"two words\"\nTOKEN=old\n").unwrap();
    let text = r#"{ "mcpServers": {
  "local": { "command": "${workspaceFolder}/bin/server", "args": ["${userHome}", "${HOME}"], "envFile": ".env", "env": { "TOKEN": "${env:TOKEN}" } },
  "remote": { "url": "https://r.example/mcp", "auth": { "CLIENT_ID": "id", "CLIENT_SECRET": "${env:TOKEN}", "scopes": ["read", "write"] } }
} }"#;
    let environment = Environment::default().home("/h").variable("TOKEN", "t0ken").variable("HOME", "/h");
    let file = directory.join(".cursor/mcp.json");
    let config = parse_valid(file.to_str().unwrap(), text, &environment);
    let local = stdio(&config, "local");
    assert_eq!(local.command, format!("{}/bin/server", directory.display()));
    assert_eq!(local.args, ["/h", "${HOME}"]);
    assert_eq!((env(local, "A"), env(local, "B"), env(local, "TOKEN")), (Some("1"), Some("two words"), Some("t0ken")));
    let remote = http(&config, "remote");
    assert_eq!(remote.oauth_client_id.as_deref(), Some("id"));
    assert_eq!(remote.oauth_client_secret.as_ref().map(|secret| secret.expose()), Some("t0ken"));
    assert_eq!(remote.oauth_scopes, ["read", "write"]);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn reads_vs_code_with_inputs() {
    let text = r#"{
  "inputs": [
    { "type": "promptString", "id": "api-key", "description": "Key", "password": true },
    { "type": "promptString", "id": "region", "description": "Region", "default": "eu" }
  ],
  "servers": {
    "search": {
      "type": "stdio", "command": "search", "args": ["${workspaceFolderBasename}", "${input:region}"],
      "env": { "KEY": "${input:api-key}", "PORT": 80, "GONE": null }, "dev": { "watch": "src/**" }
    },
    "remote": { "type": "http", "url": "https://r.example/mcp", "headers": { "X": "${env:X}" }, "oauth": { "clientId": "c" } }
  }
}"#;
    let environment = Environment::default().home("/h").variable("MCP_INPUT_API_KEY", "k").variable("X", "x");
    let config = parse_valid("/p/demo/.vscode/mcp.json", text, &environment);
    let search = stdio(&config, "search");
    assert_eq!(search.args, ["demo", "eu"]);
    assert_eq!((env(search, "KEY"), env(search, "PORT"), env(search, "GONE")), (Some("k"), Some("80"), None));
    assert_eq!(header(http(&config, "remote"), "X"), Some("x"));
    assert_eq!(http(&config, "remote").oauth_client_id.as_deref(), Some("c"));
}

#[test]
fn reads_copilot() {
    let text = r#"{ "mcpServers": { "a": { "type": "local", "command": "a", "tools": ["*"] }, "b": { "type": "http", "url": "https://b.example/" } } }"#;
    let config = parse_valid("/h/.copilot/mcp-config.json", text, &Environment::default());
    assert_eq!(server(&config, "a").allowed_tools.as_deref().unwrap(), ["*"]);
    assert_eq!(http(&config, "b").url, "https://b.example/");
}

#[test]
fn reads_zed_and_skips_its_extensions() {
    let text = r#"// Zed settings
{
  "theme": "One Dark", /* nice */
  "context_servers": {
    "new": { "source": "custom", "enabled": true, "command": "new", "args": ["$HOME"], "env": {} },
    "older": { "source": "custom", "command": { "path": "older", "args": ["-x"], "env": { "A": "1" } } },
    "remote": { "url": "https://r.example/mcp", "headers": { "Authorization": "Bearer x" } },
    "from-extension": { "source": "extension", "settings": {} },
  },
}"#;
    let config = parse_valid("/h/.config/zed/settings.json", text, &Environment::default());
    assert_eq!(config.names(), ["new", "older", "remote"]);
    assert_eq!(stdio(&config, "new").args, ["$HOME"]);
    assert_eq!((stdio(&config, "older").command.as_str(), env(stdio(&config, "older"), "A")), ("older", Some("1")));
    assert_eq!(header(http(&config, "remote"), "Authorization"), Some("Bearer x"));
}

#[test]
fn reads_codex() {
    let text = r#"
model = "gpt-5"

[mcp_servers.docs]
command = "docs"
args = ["--stdio"]
env_vars = ["LOCAL_TOKEN", { name = "OTHER", source = "local" }]
startup_timeout_sec = 20
tool_timeout_sec = 2.5
enabled_tools = ["search"]
disabled_tools = ["delete"]
default_tools_approval_mode = "approve"
required = true

[mcp_servers.docs.env]
KEY = "${literal}"

[mcp_servers.docs.tools.search]
approval_mode = "prompt"

[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_TOKEN"
http_headers = { "X-Region" = "eu" }
env_http_headers = { "X-Key" = "FIGMA_KEY" }
scopes = ["read"]
startup_timeout_ms = 1500
enabled = true
"#;
    let environment = Environment::default().variable("FIGMA_TOKEN", "f").variable("FIGMA_KEY", "k");
    let config = parse_valid("/h/.codex/config.toml", text, &environment);
    let docs = server(&config, "docs");
    assert!(docs.required);
    assert_eq!(docs.start_timeout, Some(Duration::from_secs(20)));
    assert_eq!(docs.call_timeout, Some(Duration::from_millis(2500)));
    assert_eq!((&docs.trusted_tools[..], &docs.asking_tools[..]), (&["*".to_owned()][..], &["search".to_owned()][..]));
    assert_eq!(env(stdio(&config, "docs"), "KEY"), Some("${literal}"));
    let inherited: Vec<&String> = stdio(&config, "docs").inherited_env.iter().collect();
    assert_eq!(inherited, ["LOCAL_TOKEN", "OTHER"]);
    let figma = http(&config, "figma");
    assert_eq!(header(figma, "Authorization"), Some("Bearer f"));
    assert_eq!((header(figma, "X-Region"), header(figma, "X-Key")), (Some("eu"), Some("k")));
    assert_eq!(figma.oauth_scopes, ["read"]);
    assert_eq!(server(&config, "figma").start_timeout, Some(Duration::from_millis(1500)));
}

#[test]
fn reads_windsurf() {
    let text = r#"{ "mcpServers": { "r": { "serverUrl": "https://r.example/${env:PART}", "disabledTools": ["x"] }, "l": { "command": "l", "env": { "K": "${K}" } } } }"#;
    let environment = Environment::default().variable("PART", "mcp");
    let config = parse_valid("/h/.codeium/windsurf/mcp_config.json", text, &environment);
    assert_eq!(http(&config, "r").url, "https://r.example/mcp");
    assert_eq!(server(&config, "r").denied_tools, ["x"]);
    assert_eq!(env(stdio(&config, "l"), "K"), Some("${K}"));
}

#[test]
fn reads_gemini_cli() {
    let text = r#"{
  "theme": "GitHub", // comment
  "mcp": { "allowed": ["py", "web"], "excluded": ["web"] },
  "mcpServers": {
    "py": {
      "command": "python", "args": ["-m", "$NOT_EXPANDED"], "env": { "KEY": "$KEY", "TWO": "${KEY}-$KEY" }, "timeout": 15000,
      "trust": true, "includeTools": ["a", "b"], "excludeTools": ["b"], "description": "Python"
    },
    "web": { "httpUrl": "https://w.example/mcp", "headers": { "Authorization": "Bearer $KEY" } },
    "other": { "url": "https://o.example/sse", "type": "sse" }
  }
}"#;
    let config = parse_valid("/p/.gemini/settings.json", text, &Environment::default().variable("KEY", "k"));
    let py = server(&config, "py");
    assert_eq!(stdio(&config, "py").args, ["-m", "$NOT_EXPANDED"]);
    assert_eq!((env(stdio(&config, "py"), "KEY"), env(stdio(&config, "py"), "TWO")), (Some("k"), Some("k-k")));
    assert_eq!(py.call_timeout, Some(Duration::from_secs(15)));
    assert_eq!((&py.trusted_tools[..], py.denied_tools[0].as_str()), (&["*".to_owned()][..], "b"));
    assert_eq!(py.description.as_deref(), Some("Python"));
    assert_eq!(header(http(&config, "web"), "Authorization"), Some("Bearer $KEY"));
    let enabled: Vec<bool> = config.servers.iter().map(|server| server.enabled).collect();
    assert_eq!(enabled, [true, false, false]);
}

#[test]
fn reads_opencode_and_agents() {
    let directory = super::directory("opencode");
    std::fs::write(directory.join("token"), "s3cret\n").unwrap();
    let text = r#"{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "local": { "type": "local", "command": ["npx", "-y", "x"], "environment": { "A": "{env:A}", "B": "${A}" }, "timeout": 5000 },
    "remote": { "type": "remote", "url": "https://r.example/mcp", "headers": { "Authorization": "Bearer {file:token}" }, "oauth": false, "enabled": false },
    "login": { "type": "remote", "url": "https://l.example/mcp", "headers": { "T": "{file:token}" }, "oauth": { "clientId": "c", "scope": "a b" } }
  }
}"#;
    let file = directory.join("opencode.jsonc");
    let config = parse_valid(file.to_str().unwrap(), text, &Environment::default().variable("A", "1"));
    let local = stdio(&config, "local");
    assert_eq!((local.command.as_str(), &local.args[..]), ("npx", &["-y".to_owned(), "x".to_owned()][..]));
    assert_eq!((env(local, "A"), env(local, "B")), (Some("1"), Some("${A}")));
    assert_eq!(server(&config, "local").start_timeout, Some(Duration::from_secs(5)));
    assert!(!server(&config, "remote").enabled);
    assert_eq!(header(http(&config, "login"), "T"), Some("s3cret"));
    assert_eq!(http(&config, "login").oauth_scopes, ["a", "b"]);

    let text =
        r#"{ "$schema": "x", "a": { "type": "local", "command": ["a"] }, "b": { "command": "b", "args": ["1"] } }"#;
    let config = parse_valid("/p/.agents/mcp.json", text, &Environment::default());
    assert_eq!(config.names(), ["a", "b"]);
    assert_eq!(stdio(&config, "b").args, ["1"]);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn reads_goose() {
    let text = "\
# goose
GOOSE_PROVIDER: anthropic
extensions:
  developer:
    type: builtin
    enabled: true
    bundled: true
    name: developer
    timeout: 300
  github:
    type: stdio
    cmd: npx
    args: [-y, '@modelcontextprotocol/server-github']
    envs: {MODE: fast}
    env_keys: [GITHUB_TOKEN]
    timeout: 300
    enabled: true
    name: GitHub
    description: Repositories
  remote:
    type: streamable_http
    uri: https://r.example/mcp
    headers:
      X-Key: abc
    enabled: false
";
    let environment = Environment::default().variable("GITHUB_TOKEN", "gh");
    let config = parse_valid("/h/.config/goose/config.yaml", text, &environment);
    assert_eq!(config.names(), ["github", "remote"]);
    let github = stdio(&config, "github");
    assert_eq!((env(github, "MODE"), env(github, "GITHUB_TOKEN")), (Some("fast"), Some("gh")));
    assert_eq!(server(&config, "github").call_timeout, Some(Duration::from_secs(300)));
    assert_eq!(header(http(&config, "remote"), "X-Key"), Some("abc"));
}

#[test]
fn reads_cline_continue_lm_studio_kiro_and_crush() {
    let environment = Environment::default().variable("KEY", "k");
    let text = r#"{ "mcpServers": { "a": { "command": "a", "args": ["${KEY}"], "disabled": false, "autoApprove": ["get"], "timeout": 60 }, "s": { "type": "streamableHttp", "url": "https://s.example/mcp" } } }"#;
    let config = parse_valid("/x/cline_mcp_settings.json", text, &environment);
    assert_eq!(server(&config, "a").call_timeout, Some(Duration::from_secs(60)));
    assert_eq!(
        (&server(&config, "a").trusted_tools[0], &stdio(&config, "a").args[0]),
        (&"get".to_owned(), &"${KEY}".to_owned())
    );

    let text = "name: x\nmcpServers:\n  - name: sql\n    command: sql\n    args: [\"--key\", \"${{ secrets.KEY }}\"]\n    env:\n      A: \"${KEY}\"\n  - name: web\n    type: streamable-http\n    url: https://w.example/mcp\n    requestOptions:\n      headers:\n        Authorization: Bearer ${{ secrets.KEY }}\n    connectionTimeout: 2000\n";
    let config = parse_valid("/h/.continue/config.yaml", text, &environment);
    assert_eq!(stdio(&config, "sql").args, ["--key", "k"]);
    assert_eq!(env(stdio(&config, "sql"), "A"), Some("${KEY}"));
    assert_eq!(header(http(&config, "web"), "Authorization"), Some("Bearer k"));
    assert_eq!(server(&config, "web").start_timeout, Some(Duration::from_secs(2)));

    let text = r#"{ "mcpServers": { "a": { "command": "a", "env": { "X": "${env:KEY}" } } } }"#;
    let config = parse_valid("/h/.lmstudio/mcp.json", text, &environment);
    assert_eq!(env(stdio(&config, "a"), "X"), Some("${env:KEY}"));

    let text = r#"{ "mcpServers": { "a": { "command": "a", "env": { "X": "${KEY}" }, "autoApprove": ["t"], "disabled": true }, "b": { "command": "b", "args": ["${KEY}"] } } }"#;
    let config = parse_valid("/p/.kiro/settings/mcp.json", text, &environment);
    assert!(!server(&config, "a").enabled);
    assert_eq!(stdio(&config, "b").args, ["k"]);

    let text = r#"{ "$schema": "x", "mcp": { "a": { "type": "stdio", "command": "a", "timeout": 120, "env": { "X": "$KEY/${KEY}" }, "disabled_tools": ["t"] } } }"#;
    let config = parse_valid("/p/.crush.json", text, &environment);
    assert_eq!(env(stdio(&config, "a"), "X"), Some("k/k"));
    assert_eq!(server(&config, "a").start_timeout, Some(Duration::from_secs(120)));
    assert_eq!(server(&config, "a").denied_tools, ["t"]);
}

#[test]
fn a_debug_text_has_no_values() {
    let text = r#"{ "mcpServers": {
  "a": { "command": "a", "args": ["--key=s3cret"], "env": { "K": "s3cret" } },
  "b": { "url": "https://b.example/s3cret?key=s3cret", "headers": { "Authorization": "Bearer s3cret" } }
} }"#;
    let environment = Environment::default().variable("K", "s3cret").input("i", "s3cret");
    let config = parse_valid("/p/.mcp.json", text, &environment);
    let shown = format!("{config:?} {environment:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("https://b.example"), "{shown}");
}
