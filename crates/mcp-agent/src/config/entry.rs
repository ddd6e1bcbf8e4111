//! The entry of one server: from the members of its format to a definition.

mod codex;
mod command;
mod extras;
mod http;
mod members;

use std::path::Path;

pub(super) use self::members::{is_similar, without_effect};
use super::{
    code::Code,
    definition::ServerDefinition,
    endpoint::{Endpoint, HttpServer, HttpTransport, StdioServer},
    error::Fault,
    expand::{Expander, Place, Variables},
    node::Node,
    origin::Format,
    own,
    rules::{Limit, Rules},
};

/// The format and the surroundings of an entry.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) format: Format,
    pub(super) rules: Rules,
    pub(super) expander: Expander<'a>,
    /// The directory for relative paths of an entry.
    pub(super) base: &'a Path,
}

/// The connection that the member `type` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http(HttpTransport),
}

/// Reads an entry. `None` if the entry is a part of its own client and not a server.
pub(super) fn read(name: &str, entry: &Node<'_>, context: &Context<'_>) -> Result<Option<ServerDefinition>, Fault> {
    entry.object()?;
    check_name(name, entry)?;
    if extras::is_part_of_client(entry, context.format) {
        return Ok(None);
    }
    members::check_own(entry)?;
    let kind = kind(entry)?;
    // A host does not use a disabled entry. Its variables therefore need no values.
    let is_enabled = is_enabled(entry)?;
    let expander = Expander {
        variables: if is_enabled { context.expander.variables } else { Variables::None },
        environment: context.expander.environment,
        directory: context.expander.directory,
        workspace: context.expander.workspace.clone(),
        inputs: context.expander.inputs.clone(),
        sources: context.expander.sources,
    };
    let context = &Context { expander, base: context.base, ..*context };
    extras::refuse_unsupported(entry, context.format, is_enabled)?;
    let mut server = ServerDefinition::new(name, endpoint(entry, kind, context, is_enabled)?);
    server.enabled = is_enabled;
    shared_members(entry, context, &mut server)?;
    match context.format {
        Format::Codex => codex::read(entry, context, is_enabled, &mut server)?,
        format => extras::read(entry, format, context, &mut server)?,
    }
    own::read(entry, &context.expander, &mut server)?;
    server.enabled = is_enabled;
    Ok(Some(server))
}

/// Returns whether a host must not start without the entry, also if the entry has faults. An invalid value counts as `true`.
pub(super) fn is_required(entry: &Node<'_>, format: Format) -> bool {
    let own = entry.get("x-mcp").and_then(|own| own.get("required"));
    let required = own.or_else(|| entry.get("required").filter(|_| format == Format::Codex));
    required.is_some_and(|node| node.flag().unwrap_or(true)) && is_enabled(entry).unwrap_or(true)
}

fn check_name(name: &str, entry: &Node<'_>) -> Result<(), Fault> {
    let Some(reason) = ServerDefinition::name_fault(name) else { return Ok(()) };
    Err(entry.fault(Code::InvalidName, reason, "rename the server, for example with letters, digits and `-`"))
}

fn is_enabled(entry: &Node<'_>) -> Result<bool, Fault> {
    let flag = |entry: &Node<'_>, name: &str| entry.get(name).map(|node| node.flag()).transpose();
    let own = match entry.get("x-mcp") {
        Some(own) => flag(&own, "enabled")?,
        None => None,
    };
    let foreign = flag(entry, "enabled")?.unwrap_or(true) && !flag(entry, "disabled")?.unwrap_or(false);
    Ok(own.unwrap_or(foreign))
}

fn kind(entry: &Node<'_>) -> Result<Option<Kind>, Fault> {
    let Some(node) = entry.get("type") else { return Ok(None) };
    Ok(Some(match node.text()? {
        "stdio" | "local" => Kind::Stdio,
        "http" | "streamable-http" | "streamable_http" | "streamableHttp" | "remote" => Kind::Http(HttpTransport::Auto),
        "sse" => Kind::Http(HttpTransport::Sse),
        "ws" | "websocket" | "tcp" | "unix" => {
            let remedy = "use a server with stdio or Streamable HTTP";
            return Err(node.fault(Code::Unsupported, "this library does not have the transport of the type", remedy));
        }
        _ => {
            let remedy = "write `stdio`, `http` or `sse`";
            return Err(node.fault(Code::UnknownType, "the type of the server is unknown", remedy));
        }
    }))
}

fn endpoint(entry: &Node<'_>, kind: Option<Kind>, context: &Context<'_>, is_enabled: bool) -> Result<Endpoint, Fault> {
    let command = entry.get(context.rules.command);
    let urls: Vec<Node<'_>> = context.rules.urls.iter().filter_map(|name| entry.get(name)).collect();
    if let [_, second, ..] = &urls[..] {
        return Err(second.fault(Code::TwoEndpoints, "the entry has two URLs", "remove one of the URLs"));
    }
    let (name, url) = (context.rules.command, context.rules.urls[0]);
    match (command, urls.first(), kind) {
        (Some(_), Some(url), _) => {
            let remedy = "remove one of the two members";
            Err(url.fault(Code::TwoEndpoints, "the entry has both a command and a URL", remedy))
        }
        (None, None, _) => {
            let message = "the entry has neither a command nor a URL";
            let names = [&[name][..], context.rules.urls].concat();
            if let Some((found, similar)) = members::misspelled(entry, &names) {
                let message = format!("{message}, and its member `{found}` is unknown");
                return Err(entry.fault(Code::MissingEndpoint, message, format!("rename `{found}` to `{similar}`")));
            }
            let remedy = format!("add `{name}` for a local server, or `{url}` for a remote server");
            Err(entry.fault(Code::MissingEndpoint, message, remedy))
        }
        (Some(command), None, Some(Kind::Http(_))) => {
            let remedy = format!("replace the command with `{url}`, or write the type `stdio`");
            Err(command.fault(
                Code::TwoEndpoints,
                "the type is that of a remote server, and the entry has a command",
                remedy,
            ))
        }
        (None, Some(node), Some(Kind::Stdio)) => {
            let remedy = format!("replace the URL with `{name}`, or write the type `http`");
            Err(node.fault(Code::TwoEndpoints, "the type is that of a local server, and the entry has a URL", remedy))
        }
        (Some(command), None, _) => command::read(entry, &command, context).map(Endpoint::Stdio),
        (None, Some(url), kind) => {
            let transport = match kind {
                Some(Kind::Http(transport)) => transport,
                _ => HttpTransport::Auto,
            };
            http::read(entry, url, transport, context, is_enabled).map(Endpoint::Http)
        }
    }
}

fn shared_members(entry: &Node<'_>, context: &Context<'_>, server: &mut ServerDefinition) -> Result<(), Fault> {
    let rules = &context.rules;
    for (name, unit, limit) in rules.times {
        let Some(node) = entry.get(name) else { continue };
        let time = node.time(*unit)?;
        let field = match limit {
            Limit::Start => &mut server.start_timeout,
            Limit::Call => &mut server.call_timeout,
        };
        if field.replace(time).is_some() {
            let message = "the entry sets the same time limit twice";
            return Err(node.fault(Code::InvalidTimeout, message, "remove one of the two members"));
        }
    }
    let list = |name: &str| match name {
        "" => Ok(None),
        name => entry.get(name).map(|node| node.patterns()).transpose(),
    };
    server.allowed_tools =
        list(rules.allowed)?.filter(|_| context.format != Format::Goose || !is_empty_list(entry, rules));
    server.denied_tools = list(rules.denied)?.unwrap_or_default();
    server.trusted_tools = list(rules.trusted)?.unwrap_or_default();
    if let Some(description) = entry.get("description") {
        server.description = Some(description.text()?.to_owned());
    }
    Ok(())
}

/// An empty list of goose offers all tools.
fn is_empty_list(entry: &Node<'_>, rules: &Rules) -> bool {
    entry.get(rules.allowed).is_some_and(|node| node.value.as_array().is_some_and(Vec::is_empty))
}

/// Returns the server of a command or a URL for the readers of single formats.
fn stdio_mut(server: &mut ServerDefinition) -> Option<&mut StdioServer> {
    match &mut server.endpoint {
        Endpoint::Stdio(stdio) => Some(stdio),
        Endpoint::Http(_) => None,
    }
}

fn http_mut(server: &mut ServerDefinition) -> Option<&mut HttpServer> {
    match &mut server.endpoint {
        Endpoint::Http(http) => Some(http),
        Endpoint::Stdio(_) => None,
    }
}

/// Returns the expanded text of a node of an entry.
fn expanded(node: &Node<'_>, place: Place, context: &Context<'_>) -> Result<String, Fault> {
    context.expander.expand(node, place)
}
