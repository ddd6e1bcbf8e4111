//! The tools of the servers of a configuration file: lists, definitions for LLM providers, and searches.

use mcp_agent::{CatalogTool, Lists, config::ServerDefinition};
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
    text::first_line,
};

/// Prints the tools of the servers, or one tool.
pub(super) async fn tools(
    servers: Vec<ServerDefinition>,
    name: Option<&str>,
    format: Option<(Format, bool)>,
    options: &Options,
    opened: &Opened,
) -> Result<(), Failure> {
    let catalog = catalog(servers, options, opened).await?;
    let one = name.map(|name| fleet::find(&catalog, name)).transpose()?;
    let out = Output::new(options.json);
    if let Some((format, is_strict)) = format {
        let is_chosen = |name: &str| one.as_ref().is_none_or(|tool| tool.provider_name() == name);
        let definitions = catalog.definitions().filter(|(name, _)| is_chosen(name));
        return commands::print_definitions(out, definitions, format.provider(), is_strict);
    }
    if let Some(tool) = one {
        return commands::show_tool(out, &named(&tool));
    }
    if options.json {
        return out.value(&catalog.tools().iter().map(|tool| to_json(tool)).collect::<Vec<_>>());
    }
    let row = |tool: &CatalogTool| {
        let description = first_line(tool.tool().description.as_deref());
        vec![tool.display_name().to_owned(), signature(&tool.tool().input_schema), description]
    };
    let columns = [("TOOL", Style::Name), ("ARGUMENTS", Style::Type), ("DESCRIPTION", Style::Plain)];
    out.table(&columns, &catalog.tools().iter().map(|tool| row(tool)).collect::<Vec<_>>(), "no tools")
}

/// Prints the tools of the servers that match a query.
pub(super) async fn search(
    servers: Vec<ServerDefinition>,
    query: &str,
    limit: usize,
    options: &Options,
    opened: &Opened,
) -> Result<(), Failure> {
    let catalog = catalog(servers, options, opened).await?;
    let tools = catalog.tools().iter().map(|tool| (tool.display_name().to_owned(), tool.tool(), to_json(tool)));
    commands::print_found(Output::new(options.json), tools.collect(), query, limit)
}

async fn catalog(
    servers: Vec<ServerDefinition>,
    options: &Options,
    opened: &Opened,
) -> Result<std::sync::Arc<mcp_agent::Catalog>, Failure> {
    let settings = ClientSettings::without_answers(options);
    let mut fleet = Fleet::start(servers, Lists::Tools, settings, true, opened).await?;
    fleet.check()?;
    Ok(fleet.catalog())
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
