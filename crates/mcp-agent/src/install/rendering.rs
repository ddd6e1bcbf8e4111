//! The entry of a server in the form of each client.

use serde_json::{Map, Value, json};

use crate::config::{Endpoint, Format, HttpServer, HttpTransport, ServerDefinition, StdioServer};

/// Returns the member with the servers. `None` if the whole file is the map.
pub(super) fn key(format: Format) -> Option<&'static str> {
    format.key()
}

/// Returns the entry of a server. The error is a message and a remedy.
pub(super) fn entry(format: Format, server: &ServerDefinition) -> Result<Value, (&'static str, &'static str)> {
    if let Some(message) = lost(server) {
        return Err((message, "remove the setting, and write it into the entry by hand after the installation"));
    }
    let members = match &server.endpoint {
        Endpoint::Stdio(stdio) => command(format, &server.name, stdio),
        Endpoint::Http(http) => url(format, &server.name, http)?,
    };
    Ok(Value::Object(members))
}

/// Returns a message about the settings of a server that the entry of a client would lose. `None` if the entry keeps all settings.
fn lost(server: &ServerDefinition) -> Option<&'static str> {
    let has_times = server.start_timeout.is_some() || server.call_timeout.is_some() || !server.tool_timeouts.is_empty();
    let has_rules = !server.trusted_tools.is_empty() || !server.asking_tools.is_empty() || server.asks_by_default;
    let checks = [
        (!server.enabled, "the installer cannot write a disabled server"),
        (server.required, "the installer cannot write that the server is required"),
        (has_times, "the installer cannot write time limits"),
        (server.allowed_tools.is_some(), "the installer cannot write the list of allowed tools"),
        (!server.denied_tools.is_empty(), "the installer cannot write the list of denied tools"),
        (has_rules, "the installer cannot write the approvals of tools"),
        (!server.pinned_tools.is_empty(), "the installer cannot write the list of pinned tools"),
        (server.description.is_some(), "the installer cannot write a description"),
        (!server.extra.is_empty(), "the installer cannot write other members of `x-mcp`"),
    ];
    if let Some((_, message)) = checks.into_iter().find(|(is_set, _)| *is_set) {
        return Some(message);
    }
    match &server.endpoint {
        Endpoint::Stdio(stdio) if !stdio.inherited_env.is_empty() => {
            Some("the installer cannot write the list of inherited variables")
        }
        Endpoint::Http(http) if http.has_oauth_settings() => Some("the installer cannot write the client of a login"),
        _ => None,
    }
}

fn command(format: Format, name: &str, server: &StdioServer) -> Map<String, Value> {
    let mut entry = Map::new();
    let kind = match format {
        Format::ClaudeCode | Format::VsCode | Format::Crush | Format::Goose | Format::Continue => Some("stdio"),
        Format::Copilot | Format::OpenCode | Format::Agents => Some("local"),
        _ => None,
    };
    entry.extend(kind.map(|kind| ("type".to_owned(), json!(kind))));
    let env: Map<String, Value> =
        server.env.iter().map(|(name, value)| (name.clone(), json!(value.expose()))).collect();
    let env_name = match format {
        Format::OpenCode | Format::Agents => {
            let command = std::iter::once(&server.command).chain(&server.args);
            entry.insert("command".to_owned(), json!(command.collect::<Vec<_>>()));
            "environment"
        }
        Format::Goose => {
            entry.insert("name".to_owned(), json!(name));
            entry.insert("cmd".to_owned(), json!(server.command));
            entry.insert("args".to_owned(), json!(server.args));
            entry.insert("enabled".to_owned(), json!(true));
            entry.insert("timeout".to_owned(), json!(300));
            "envs"
        }
        format => {
            if format == Format::Zed {
                entry.insert("source".to_owned(), json!("custom"));
            }
            entry.insert("command".to_owned(), json!(server.command));
            entry.insert("args".to_owned(), json!(server.args));
            "env"
        }
    };
    if let Some(directory) = &server.cwd {
        entry.insert("cwd".to_owned(), json!(directory.to_string_lossy()));
    }
    if !env.is_empty() {
        entry.insert(env_name.to_owned(), Value::Object(env));
    }
    if format == Format::Copilot {
        entry.insert("tools".to_owned(), json!(["*"]));
    }
    entry
}

fn url(format: Format, name: &str, server: &HttpServer) -> Result<Map<String, Value>, (&'static str, &'static str)> {
    let mut entry = Map::new();
    let kind = match format {
        Format::ClaudeDesktop => {
            return Err((
                "the file of Claude Desktop defines commands only",
                "add the URL as a connector in the settings of Claude Desktop",
            ));
        }
        Format::Portable
        | Format::ClaudeCode
        | Format::VsCode
        | Format::Copilot
        | Format::GeminiCli
        | Format::Crush => Some("http"),
        Format::OpenCode | Format::Agents => Some("remote"),
        Format::Cline => Some("streamableHttp"),
        Format::Goose => Some("streamable_http"),
        Format::Continue => Some("streamable-http"),
        _ => None,
    };
    let kind = match (server.transport, format) {
        (HttpTransport::Auto, _) => kind,
        (HttpTransport::Streamable, _) if kind.is_some_and(|kind| kind.starts_with("stream")) => kind,
        (
            HttpTransport::Sse,
            Format::Portable
            | Format::ClaudeCode
            | Format::VsCode
            | Format::Copilot
            | Format::GeminiCli
            | Format::Crush
            | Format::Cline
            | Format::Continue,
        ) => Some("sse"),
        _ => {
            let remedy = "use the automatic selection of the transport";
            return Err(("the installer cannot write the transport of the server for this client", remedy));
        }
    };
    entry.extend(kind.map(|kind| ("type".to_owned(), json!(kind))));
    let member = match format {
        Format::Windsurf => "serverUrl",
        Format::Goose => "uri",
        _ => "url",
    };
    if format == Format::Goose {
        entry.insert("name".to_owned(), json!(name));
        entry.insert("enabled".to_owned(), json!(true));
        entry.insert("timeout".to_owned(), json!(300));
    }
    entry.insert(member.to_owned(), json!(server.url));
    let headers: Map<String, Value> =
        server.headers.iter().map(|(name, value)| (name.clone(), json!(value.expose()))).collect();
    if !headers.is_empty() {
        match format {
            Format::Codex => entry.insert("http_headers".to_owned(), Value::Object(headers)),
            Format::Continue => entry.insert("requestOptions".to_owned(), json!({ "headers": headers })),
            _ => entry.insert("headers".to_owned(), Value::Object(headers)),
        };
    }
    if format == Format::Copilot {
        entry.insert("tools".to_owned(), json!(["*"]));
    }
    Ok(entry)
}
