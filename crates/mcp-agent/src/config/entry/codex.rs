//! Members of the entries of Codex.

use super::{Context, http::add_header, http_mut, stdio_mut};
use crate::config::{code::Code, definition::ServerDefinition, endpoint::Endpoint, error::Fault, node::Node};

/// The members of a command, and those of a URL. Codex rejects the members of the other kind.
const STDIO_MEMBERS: &[&str] = &["args", "env", "env_vars", "cwd"];
const HTTP_MEMBERS: &[&str] =
    &["bearer_token_env_var", "http_headers", "env_http_headers", "scopes", "oauth", "oauth_resource"];

/// Reads the members that only Codex has.
pub(super) fn read(
    entry: &Node<'_>,
    context: &Context<'_>,
    is_enabled: bool,
    server: &mut ServerDefinition,
) -> Result<(), Fault> {
    let foreign = match server.endpoint {
        Endpoint::Stdio(_) => HTTP_MEMBERS,
        Endpoint::Http(_) => STDIO_MEMBERS,
    };
    if let Some(node) = foreign.iter().find_map(|name| entry.get(name)) {
        let message = "the member belongs to the other kind of server";
        return Err(node.fault(Code::TwoEndpoints, message, "remove the member"));
    }
    if let Some(node) = entry.get("bearer_token") {
        let remedy = "store the token in an environment variable, and name it in `bearer_token_env_var`";
        return Err(node.fault(Code::Unsupported, "Codex accepts no token in the file", remedy));
    }
    if let Some(node) = entry.get("required") {
        server.required = node.flag()?;
    }
    variables(entry, server)?;
    headers(entry, context, is_enabled, server)?;
    if let Some(http) = http_mut(server) {
        if let Some(node) = entry.get("scopes") {
            http.oauth_scopes = node.texts()?;
        }
        if let Some(node) = entry.get("oauth").and_then(|oauth| oauth.get("client_id")) {
            http.oauth_client_id = Some(node.text()?.to_owned());
        }
    }
    approvals(entry, server)
}

fn variables(entry: &Node<'_>, server: &mut ServerDefinition) -> Result<(), Fault> {
    let Some(stdio) = stdio_mut(server) else { return Ok(()) };
    let Some(variables) = entry.get("env_vars") else { return Ok(()) };
    for node in variables.items()? {
        let node = node.get("name").unwrap_or(node);
        stdio.inherited_env.insert(node.text()?.to_owned());
    }
    Ok(())
}

fn headers(
    entry: &Node<'_>,
    context: &Context<'_>,
    is_enabled: bool,
    server: &mut ServerDefinition,
) -> Result<(), Fault> {
    let Some(http) = http_mut(server) else { return Ok(()) };
    let variable = |node: &Node<'_>| -> Result<Option<String>, Fault> {
        let name = node.text()?;
        if !is_enabled {
            return Ok(None);
        }
        let value = context.expander.environment.get(name).map(ToOwned::to_owned);
        value.map(Some).ok_or_else(|| {
            let message = format!("the variable `{name}` is not set and has no default");
            node.fault(Code::UnsetVariable, message, format!("set the environment variable `{name}`"))
        })
    };
    if let Some(node) = entry.get("bearer_token_env_var")
        && let Some(token) = variable(&node)?
    {
        add_header(http, "Authorization", format!("Bearer {token}"), &node)?;
    }
    if let Some(headers) = entry.get("env_http_headers") {
        for (name, node) in headers.members()? {
            if let Some(value) = variable(&node)? {
                add_header(http, name, value, &node)?;
            }
        }
    }
    Ok(())
}

/// Reads `default_tools_approval_mode` and `tools.NAME.approval_mode`.
fn approvals(entry: &Node<'_>, server: &mut ServerDefinition) -> Result<(), Fault> {
    let mode = |node: &Node<'_>| match node.text()? {
        "approve" => Ok(Some(true)),
        "prompt" => Ok(Some(false)),
        "auto" => Ok(None),
        _ => Err(node.fault(Code::WrongType, "the mode is unknown", "write `auto`, `prompt` or `approve`")),
    };
    if let Some(node) = entry.get("default_tools_approval_mode") {
        match mode(&node)? {
            Some(true) => server.trusted_tools.push("*".to_owned()),
            Some(false) => server.asks_by_default = true,
            None => {}
        }
    }
    let Some(tools) = entry.get("tools") else { return Ok(()) };
    for (name, tool) in tools.members()? {
        let Some(node) = tool.get("approval_mode") else { continue };
        match mode(&node)? {
            Some(true) => server.trusted_tools.push(name.to_owned()),
            Some(false) => server.asking_tools.push(name.to_owned()),
            None => {}
        }
    }
    Ok(())
}
