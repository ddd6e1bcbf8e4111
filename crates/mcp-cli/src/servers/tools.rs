//! The tools of the servers of a configuration file: lists, definitions for LLM providers, and searches.

use std::sync::Arc;

use mcp_agent::{CatalogTool, Lists, Toolset, config::ServerDefinition};
use mcp_protocol::Tool;
use serde_json::{Value, json};

use super::fleet::{self, Fleet};
use crate::{
    args::{Format, Options},
    arguments::signature,
    commands,
    connection::ClientSettings,
    failure::Failure,
    opened::Opened,
    output::Output,
    style::Style,
    text::{first_line, line},
};

/// Prints the tools of the servers, or one tool.
pub(super) async fn tools(
    servers: Vec<ServerDefinition>,
    name: Option<&str>,
    format: Option<(Format, bool)>,
    options: &Options,
    opened: &Opened,
) -> Result<(), Failure> {
    let (toolset, gaps) = toolset(servers, options, opened).await?;
    let one = name.map(|name| fleet::find(toolset.catalog(), name)).transpose()?;
    let out = Output::new(options.json);
    if let Some((format, is_strict)) = format {
        let is_chosen = |name: &str| one.as_ref().is_none_or(|tool| tool.provider_name() == name);
        let definitions = toolset.definitions().filter(|(name, _)| is_chosen(name));
        let left_out = commands::print_definitions(out, definitions, format.provider())?;
        commands::check_strict(is_strict, left_out)?;
        return match gaps.first().filter(|_| is_strict && one.is_none()) {
            Some(server) => Err(Failure::local(format!("tools of the server `{}` were left out", line(server)))),
            None => Ok(()),
        };
    }
    if let Some(tool) = one {
        return commands::show_tool(out, &named(&tool));
    }
    if options.json {
        return out.value(&toolset.loaded().map(|tool| to_json(tool)).collect::<Vec<_>>());
    }
    let row = |tool: &CatalogTool| {
        let description = first_line(tool.tool().description.as_deref());
        vec![tool.display_name().to_owned(), signature(&tool.tool().input_schema), description]
    };
    let columns = [("TOOL", Style::Name), ("ARGUMENTS", Style::Type), ("DESCRIPTION", Style::Plain)];
    out.table(&columns, &toolset.loaded().map(|tool| row(tool)).collect::<Vec<_>>(), "no tools")
}

/// Prints the tools of the servers that match a query.
pub(super) async fn search(
    servers: Vec<ServerDefinition>,
    query: &str,
    limit: usize,
    options: &Options,
    opened: &Opened,
) -> Result<(), Failure> {
    let (toolset, _) = toolset(servers, options, opened).await?;
    let tools = toolset.loaded().map(|tool| (tool.display_name().to_owned(), tool.tool(), to_json(tool)));
    commands::print_found(Output::new(options.json), tools.collect(), query, limit)
}

/// Returns the tools of the servers that the policies do not deny, and the servers with incomplete tools. The host of a command
/// defers no tool.
async fn toolset(
    servers: Vec<ServerDefinition>,
    options: &Options,
    opened: &Opened,
) -> Result<(Arc<Toolset>, Vec<String>), Failure> {
    let settings = ClientSettings::without_answers(options);
    let mut fleet = Fleet::start(servers, Lists::Tools, settings, true, opened).await?;
    fleet.check()?;
    let names = fleet.servers.iter().map(|server| server.name.clone());
    let gaps = names.filter(|name| fleet.gap(name).is_some()).collect();
    Ok((fleet.toolset(), gaps))
}

/// Returns the definition of a tool with its display name.
fn named(tool: &CatalogTool) -> Tool {
    let mut named = tool.tool().clone();
    named.name = tool.display_name().to_owned();
    named
}

fn to_json(tool: &CatalogTool) -> Value {
    let mut value = json!(named(tool));
    value["server"] = json!(tool.server());
    value["providerName"] = json!(tool.provider_name());
    value
}
