//! Members that single formats have, and members that this library cannot honour.

use mcp_protocol::auth::Secret;

use super::{Context, expanded, http::add_header, http_mut};
use crate::config::{
    code::Code, definition::ServerDefinition, error::Fault, expand::Place, node::Node, origin::Format,
};

/// Returns whether the entry is a part of its own client: an extension of Zed or a built-in extension of goose.
pub(super) fn is_part_of_client(entry: &Node<'_>, format: Format) -> bool {
    let text = |name: &str| entry.value.get(name).and_then(|value| value.as_str());
    match format {
        Format::Zed => {
            let has_endpoint = entry.get("command").is_some() || entry.get("url").is_some();
            text("source") == Some("extension") || !has_endpoint && entry.get("settings").is_some()
        }
        Format::Goose => matches!(text("type"), Some("builtin" | "platform" | "frontend" | "inline_python")),
        _ => false,
    }
}

/// Refuses members whose meaning would be lost.
pub(super) fn refuse_unsupported(entry: &Node<'_>, format: Format, is_enabled: bool) -> Result<(), Fault> {
    if !is_enabled {
        return Ok(());
    }
    let refuse = |name: &str, message: &str, remedy: &str| match entry.get(name) {
        Some(node) if node.value != false => Err(node.fault(Code::Unsupported, message, remedy)),
        _ => Ok(()),
    };
    match format {
        Format::Portable | Format::ClaudeCode => refuse(
            "headersHelper",
            "the entry runs a command for its headers, and this program does not run commands of configuration files",
            "write the headers into `headers`, with variables for the secrets",
        ),
        Format::VsCode => refuse(
            "sandboxEnabled",
            "the entry requires a sandbox, and this library has none",
            "disable the server here with `\"x-mcp\": {\"enabled\": false}`, or remove the member",
        ),
        Format::GeminiCli => {
            let remedy = "use a server with stdio or Streamable HTTP";
            refuse("tcp", "this library does not have the transport of the entry", remedy)?;
            match entry.get("authProviderType") {
                Some(node) if node.text()? != "dynamic_discovery" => {
                    let message = "this library does not have the login provider of the entry";
                    Err(node.fault(Code::Unsupported, message, "write `dynamic_discovery`, or remove the member"))
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Reads the members that single formats have.
pub(super) fn read(
    entry: &Node<'_>,
    format: Format,
    context: &Context<'_>,
    server: &mut ServerDefinition,
) -> Result<(), Fault> {
    match format {
        Format::Portable | Format::ClaudeCode => {
            if entry.get("alwaysLoad").map(|node| node.flag()).transpose()? == Some(true) {
                server.pinned_tools = vec!["*".to_owned()];
            }
            oauth(entry, "oauth", ["clientId", "clientSecret", "scopes"], context, server)
        }
        Format::GeminiCli => {
            if entry.get("trust").map(|node| node.flag()).transpose()? == Some(true) {
                server.trusted_tools = vec!["*".to_owned()];
            }
            oauth(entry, "oauth", ["clientId", "clientSecret", "scopes"], context, server)
        }
        Format::Cursor => oauth(entry, "auth", ["CLIENT_ID", "CLIENT_SECRET", "scopes"], context, server),
        Format::VsCode => oauth(entry, "oauth", ["clientId", "clientSecret", "scopes"], context, server),
        Format::OpenCode | Format::Agents => {
            oauth(entry, "oauth", ["clientId", "clientSecret", "scope"], context, server)
        }
        Format::Continue => request_options(entry, context, server),
        _ => Ok(()),
    }
}

/// Reads the client of a login. Its value is an object or a boolean.
fn oauth(
    entry: &Node<'_>,
    name: &str,
    [id, secret, scopes]: [&str; 3],
    context: &Context<'_>,
    server: &mut ServerDefinition,
) -> Result<(), Fault> {
    let Some(http) = http_mut(server) else { return Ok(()) };
    let Some(oauth) = entry.get(name).filter(|node| !node.value.is_boolean()) else { return Ok(()) };
    oauth.object()?;
    if let Some(node) = oauth.get(id) {
        http.oauth_client_id = Some(expanded(&node, Place::Other, context)?);
    }
    if let Some(node) = oauth.get(secret) {
        http.oauth_client_secret = Some(Secret::new(expanded(&node, Place::Other, context)?));
    }
    if let Some(node) = oauth.get(scopes) {
        http.oauth_scopes = match node.value.as_str() {
            Some(text) => text.split_whitespace().map(ToOwned::to_owned).collect(),
            None => node.texts()?,
        };
    }
    // The member is that of Claude Code.
    if let Some(node) = oauth.get("callbackPort") {
        http.oauth_redirect_port = Some(node.port()?);
    }
    Ok(())
}

/// Reads the headers of Continue.
fn request_options(entry: &Node<'_>, context: &Context<'_>, server: &mut ServerDefinition) -> Result<(), Fault> {
    let Some(http) = http_mut(server) else { return Ok(()) };
    let Some(headers) = entry.get("requestOptions").and_then(|options| options.get("headers")) else { return Ok(()) };
    for (name, node) in headers.members()? {
        let value = expanded(&node, Place::Header, context)?;
        add_header(http, name, value, &node)?;
    }
    Ok(())
}
