//! Reads any text as a configuration file of each format. The first byte selects the format.
//!
//! Names are unique and valid, and a second read has the same result. No summary and no error shows the value of a variable. A debug text
//! shows it in a command, a directory, a host or a client id only.

#![no_main]

use std::{collections::HashSet, path::Path};

use fuzz::{fuzz_target, secret_for};
use mcp_agent::config::{ConfigFile, Endpoint, Environment, Format, Scope, ServerDefinition};
use url::Url;

/// A file of each format. A table of the target, because the path of a user file depends on the platform.
const FILES: [(&str, Format); 18] = [
    ("/nonexistent/project/.mcp.json", Format::Portable),
    ("/nonexistent/project/claude_desktop_config.json", Format::ClaudeDesktop),
    ("/nonexistent/home/.claude.json", Format::ClaudeCode),
    ("/nonexistent/project/.cursor/mcp.json", Format::Cursor),
    ("/nonexistent/project/.vscode/mcp.json", Format::VsCode),
    ("/nonexistent/project/mcp-config.json", Format::Copilot),
    ("/nonexistent/project/.zed/settings.json", Format::Zed),
    ("/nonexistent/project/.codex/config.toml", Format::Codex),
    ("/nonexistent/project/mcp_config.json", Format::Windsurf),
    ("/nonexistent/project/.gemini/settings.json", Format::GeminiCli),
    ("/nonexistent/project/opencode.json", Format::OpenCode),
    ("/nonexistent/project/.agents/mcp.json", Format::Agents),
    ("/nonexistent/project/goose/config.yaml", Format::Goose),
    ("/nonexistent/project/cline_mcp_settings.json", Format::Cline),
    ("/nonexistent/project/.continue/config.yaml", Format::Continue),
    ("/nonexistent/project/.lmstudio/mcp.json", Format::LmStudio),
    ("/nonexistent/project/.kiro/settings/mcp.json", Format::Kiro),
    ("/nonexistent/project/crush.json", Format::Crush),
];

/// Whether a server has the secret in a part that its debug text shows.
fn shows(server: &ServerDefinition, secret: &str) -> bool {
    let has = |text: &str| text.contains(secret);
    match &server.endpoint {
        Endpoint::Stdio(stdio) => {
            has(&stdio.command) || stdio.cwd.as_deref().is_some_and(|cwd| has(&cwd.to_string_lossy()))
        }
        Endpoint::Http(http) => {
            let url = Url::parse(&http.url);
            url.is_ok_and(|url| url.host_str().is_some_and(has)) || http.oauth_client_id.as_deref().is_some_and(has)
        }
        _ => false,
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((selected, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let (path, format) = FILES[usize::from(selected.wrapping_sub(b'a')) % FILES.len()];
    assert_eq!(Format::of_path(Path::new(path)), Some(format));
    let secret = secret_for(text.as_bytes(), 0);
    let environment = Environment::default()
        .variable("TOKEN", secret.as_str())
        .input("key", secret.as_str())
        .home("/nonexistent/home")
        .workspace("/nonexistent/project");
    let read = || ConfigFile::parse(Path::new(path), text, Scope::Project, &environment);
    let file = match read() {
        Ok(file) => file,
        Err(error) => return assert!(!error.to_string().contains(&secret), "{error}"),
    };
    assert_eq!(read().as_ref().ok(), Some(&file));
    let mut known = HashSet::new();
    assert!(file.names().iter().all(|name| known.insert(*name)), "{:?}", file.names());
    let mut names = HashSet::new();
    for server in &file.servers {
        assert!(names.insert(&server.name) && known.contains(server.name.as_str()), "{}", server.name);
        assert_eq!(ServerDefinition::name_fault(&server.name), None);
        assert!(server.origin.as_ref().is_some_and(|origin| !origin.fingerprint.is_empty() && origin.format == format));
    }
    for name in file.names() {
        let summary = file.summary(name).unwrap_or_default();
        assert!(summary.iter().all(|(_, text)| !text.contains(&secret)), "{summary:?}");
    }
    for error in &file.errors {
        assert!(!error.to_string().contains(&secret), "{error}");
    }
    if !file.servers.iter().any(|server| shows(server, &secret)) {
        assert!(!format!("{file:?}").contains(&secret), "{file:?}");
    }
});
