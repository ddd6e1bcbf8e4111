//! The entry of a server in the form of each client.

use serde_json::{Map, Value, json};

use crate::config::{Endpoint, Format, HttpServer, ServerDefinition, StdioServer};

/// Returns the member with the servers. `None` if the whole file is the map.
pub(super) fn key(format: Format) -> Option<&'static str> {
    format.key()
}

/// Returns the entry of a server. The error is a message and a remedy.
pub(super) fn entry(format: Format, server: &ServerDefinition) -> Result<Value, (&'static str, &'static str)> {
    let members = match &server.endpoint {
        Endpoint::Stdio(stdio) => command(format, &server.name, stdio),
        Endpoint::Http(http) => url(format, &server.name, http)?,
    };
    Ok(Value::Object(members))
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
