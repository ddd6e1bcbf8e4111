//! The members of `x-mcp`, which this project adds to the entry of a server in any format.

use mcp_protocol::JsonObject;

use super::{
    definition::ServerDefinition,
    error::Fault,
    node::{Node, Unit},
};

/// Reads the members of `x-mcp`. Unknown members stay in `extra`.
pub(super) fn read(entry: &Node<'_>, server: &mut ServerDefinition) -> Result<(), Fault> {
    let Some(own) = entry.get("x-mcp") else { return Ok(()) };
    let mut extra = JsonObject::new();
    for (name, node) in own.members()? {
        if node.value.is_null() {
            continue;
        }
        match name {
            "required" => server.required = node.flag()?,
            "enabled" => server.enabled = node.flag()?,
            "description" => server.description = Some(node.text()?.to_owned()),
            "startTimeoutSeconds" => server.start_timeout = Some(node.time(Unit::Seconds)?),
            "callTimeoutSeconds" => server.call_timeout = Some(node.time(Unit::Seconds)?),
            "toolTimeoutSeconds" => {
                for (tool, node) in node.members()? {
                    server.tool_timeouts.insert(tool.to_owned(), node.time(Unit::Seconds)?);
                }
            }
            "allowTools" => server.allowed_tools = Some(node.patterns()?),
            "denyTools" => server.denied_tools = node.patterns()?,
            "trustTools" => server.trusted_tools = node.patterns()?,
            "askTools" => server.asking_tools = node.patterns()?,
            "pinTools" => server.pinned_tools = node.patterns()?,
            _ => {
                extra.0.insert(name.to_owned(), node.value.clone());
            }
        }
    }
    server.extra = extra;
    Ok(())
}
