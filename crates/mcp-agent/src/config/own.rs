//! The members of `x-mcp`, which this project adds to the entry of a server in any format.

use mcp_protocol::JsonObject;

use super::{
    code::Code,
    definition::ServerDefinition,
    endpoint::Endpoint,
    entry::is_similar,
    error::Fault,
    exchange,
    expand::Expander,
    node::{Node, Unit},
};
use crate::sharing::{Sharing, UnknownSharing};

/// The largest number of connections that an entry can permit.
const MAX_CONNECTIONS: u64 = 10_000;

/// The name of the member.
pub(super) const NAME: &str = "x-mcp";
/// The names of the members.
const MEMBERS: &[&str] = &[
    "allowTools",
    "askTools",
    "asks",
    "callTimeoutSeconds",
    "connectionsPerPrincipal",
    "denyTools",
    "description",
    "enabled",
    "idleStopSeconds",
    "maxConnections",
    "oauthIssuer",
    "pinTools",
    "required",
    "sharing",
    "startTimeoutSeconds",
    "tokenExchange",
    "toolTimeoutSeconds",
    "trustTools",
];

/// Reads the members of `x-mcp`. Unknown members stay in `extra`, unless they have almost the name of a known member.
pub(super) fn read(entry: &Node<'_>, expander: &Expander<'_>, server: &mut ServerDefinition) -> Result<(), Fault> {
    let Some(own) = entry.get(NAME) else { return Ok(()) };
    let mut extra = JsonObject::new();
    for (name, node) in own.members()? {
        if node.value.is_null() {
            continue;
        }
        match name {
            "required" => server.required = node.flag()?,
            "enabled" => server.enabled = node.flag()?,
            "oauthIssuer" => {
                let issuer = node.text()?.to_owned();
                // A command has no login.
                if let Endpoint::Http(http) = &mut server.endpoint {
                    http.oauth_issuer = Some(issuer);
                }
            }
            "tokenExchange" => {
                let exchange = exchange::read(&node, expander, server.enabled)?;
                let Endpoint::Http(http) = &mut server.endpoint else {
                    let message = "a command receives no token";
                    return Err(node.fault(Code::Unsupported, message, "remove the member"));
                };
                http.token_exchange = Some(Box::new(exchange));
            }
            "description" => server.description = Some(node.text()?.to_owned()),
            "startTimeoutSeconds" => server.start_timeout = Some(node.time(Unit::Seconds)?),
            "callTimeoutSeconds" => server.call_timeout = Some(node.time(Unit::Seconds)?),
            "toolTimeoutSeconds" => {
                for (tool, node) in node.members()? {
                    server.tool_timeouts.insert(tool.to_owned(), node.time(Unit::Seconds)?);
                }
            }
            "idleStopSeconds" => server.idle_stop = Some(node.time(Unit::Seconds)?),
            "sharing" => server.sharing = Some(sharing(&node)?),
            "maxConnections" => server.max_connections = Some(connections(&node, 2)?),
            "connectionsPerPrincipal" => server.connections_per_principal = Some(connections(&node, 1)?),
            "asks" => server.asks = node.flag()?,
            "allowTools" => server.allowed_tools = Some(node.patterns()?),
            "denyTools" => server.denied_tools = node.patterns()?,
            "trustTools" => server.trusted_tools = node.patterns()?,
            "askTools" => server.asking_tools = node.patterns()?,
            "pinTools" => server.pinned_tools = node.patterns()?,
            _ => {
                check_spelling(name, &node)?;
                extra.insert(name.to_owned(), node.value.clone());
            }
        }
    }
    server.extra = extra;
    Ok(())
}

/// A misspelled `denyTools` would permit all tools.
fn check_spelling(name: &str, node: &Node<'_>) -> Result<(), Fault> {
    match MEMBERS.iter().find(|known| is_similar(name, known)) {
        Some(known) => {
            let message = format!("the member is unknown, and `{known}` has a similar name");
            Err(node.fault(Code::MisspelledMember, message, format!("write `{known}`, or remove the member")))
        }
        None => Ok(()),
    }
}

/// Returns the members that this library does not know.
pub(super) fn unknown_members(entry: &Node<'_>) -> Vec<Fault> {
    let members = entry.get(NAME).and_then(|own| own.members().ok()).unwrap_or_default();
    let unknown = members.into_iter().filter(|(name, node)| !MEMBERS.contains(name) && !node.value.is_null());
    let fault = |(_, node): (&str, Node<'_>)| {
        node.fault(Code::UnknownMember, "the member of `x-mcp` is unknown and has no effect", "remove the member")
    };
    unknown.map(fault).collect()
}

fn sharing(node: &Node<'_>) -> Result<Sharing, Fault> {
    let unknown = |error: UnknownSharing| {
        node.fault(Code::WrongType, error.to_string(), "write one of these three texts, or remove the member")
    };
    node.text()?.parse().map_err(unknown)
}

fn connections(node: &Node<'_>, least: u64) -> Result<usize, Fault> {
    let number = node.value.as_u64().filter(|number| (least..=MAX_CONNECTIONS).contains(number));
    number.and_then(|number| usize::try_from(number).ok()).ok_or_else(|| {
        let message = "the value is not a number of connections";
        node.fault(Code::WrongType, message, format!("write a number between {least} and {MAX_CONNECTIONS}"))
    })
}
