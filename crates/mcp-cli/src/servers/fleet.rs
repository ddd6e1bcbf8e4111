//! Commands over all servers of a configuration file. A server that fails costs its own tools only.

use std::time::Duration;

use mcp_agent::{Glob, config::ServerDefinition, filter::ToolFilter};
use mcp_client::Client;
use mcp_protocol::{JsonObject, Tool};
use mcp_tool_format::qualified_name;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    args::{Format, Options},
    arguments::signature,
    commands, connection,
    failure::Failure,
    output::Output,
    screen::warn,
    style::Style,
    suggestion::nearest,
    text::{first_line, line},
};

/// The number of names that an error text contains at most.
const MAX_SHOWN: usize = 20;
/// The longest time for closing the connection to a server.
const CLOSE: Duration = Duration::from_secs(5);

/// The tools of a server, after the filter of its definition.
pub(super) struct Listed {
    pub(super) server: ServerDefinition,
    pub(super) tools: Result<Vec<Tool>, Failed>,
}

/// The failure of a server.
pub(super) enum Failed {
    /// The client could not connect, or the server did not return its list.
    Client(Box<mcp_client::Error>),
    /// The definition is not usable.
    Definition(Failure),
}

/// Lists the tools of all servers at once. The order is that of the servers.
pub(super) async fn list(servers: Vec<ServerDefinition>, options: &Options, can_ask: bool) -> Vec<Listed> {
    let mut tasks = JoinSet::new();
    for (index, server) in servers.into_iter().enumerate() {
        let options = options.clone();
        tasks.spawn(async move {
            let tools = tools_of(&server, &options, can_ask).await;
            (index, Listed { server, tools })
        });
    }
    let mut listed = Vec::new();
    while let Some(done) = tasks.join_next().await {
        listed.extend(done);
    }
    listed.sort_by_key(|(index, _)| *index);
    listed.into_iter().map(|(_, listed)| listed).collect()
}

async fn tools_of(server: &ServerDefinition, options: &Options, can_ask: bool) -> Result<Vec<Tool>, Failed> {
    let authorizer = super::authorizer(server, options, can_ask);
    let client = connection::to_server(server, options, authorizer).await.map_err(Failed::Definition)?;
    let client = client.map_err(|error| Failed::Client(Box::new(error)))?;
    let tools = tools_of_client(&client).await;
    // If the time is not enough, the shutdown of the runtime kills the server process.
    let _ = timeout(CLOSE, client.close()).await;
    let tools = tools.map_err(|error| Failed::Client(Box::new(error)))?;
    let filter = filter(server).map_err(Failed::Definition)?;
    Ok(tools.into_iter().filter(|tool| filter.accepts(tool)).collect())
}

async fn tools_of_client(client: &Client) -> Result<Vec<Tool>, mcp_client::Error> {
    match client.list_tools().await {
        Err(error) if error.is_unsupported() => Ok(Vec::new()),
        tools => Ok(tools?.into_vec()),
    }
}

pub(super) fn filter(server: &ServerDefinition) -> Result<ToolFilter, Failure> {
    let glob = |text: &String| {
        let invalid = |error| Failure::usage(format!("the pattern `{text}` of `{}` is invalid: {error}", server.name));
        text.parse::<Glob>().map_err(invalid)
    };
    let mut filter = ToolFilter::new();
    for text in server.allowed_tools.iter().flatten() {
        filter = filter.allow(glob(text)?);
    }
    for text in &server.denied_tools {
        filter = filter.deny(glob(text)?);
    }
    if server.allowed_tools.as_ref().is_some_and(Vec::is_empty) {
        // An empty list of allowed tools allows none.
        filter = filter.deny(Glob::any());
    }
    Ok(filter)
}

/// Rejects a tool that the definition of its server does not offer.
pub(super) fn check_allowed(server: &ServerDefinition, name: &str) -> Result<(), Failure> {
    if filter(server)?.accepts(&Tool::new(name, JsonObject::default())) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "the configuration of the server `{}` does not allow the tool `{}`",
        line(&server.name),
        line(name)
    )))
}

/// Prints the tools of all servers.
pub(super) async fn tools(
    servers: Vec<ServerDefinition>,
    format: Option<Format>,
    strict: bool,
    options: &Options,
) -> Result<(), Failure> {
    let found = ready(list(servers, options, true).await)?;
    let out = Output::new(options.json);
    if let Some(format) = format {
        let named: Vec<(String, &Tool)> =
            found.iter().map(|(server, tool)| (qualified_name(&server.name, &tool.name), tool)).collect();
        let named = named.iter().map(|(name, tool)| (name.as_str(), *tool));
        return commands::print_definitions(out, named, format.provider(), strict);
    }
    if options.json {
        return out.value(&found.iter().map(|(server, tool)| to_json(server, tool)).collect::<Vec<_>>());
    }
    let row = |(server, tool): &(ServerDefinition, Tool)| {
        let name = display_name(server, tool);
        vec![name, signature(&tool.input_schema), first_line(tool.description.as_deref())]
    };
    let columns = [("TOOL", Style::Name), ("ARGUMENTS", Style::Type), ("DESCRIPTION", Style::Plain)];
    out.table(&columns, &found.iter().map(row).collect::<Vec<_>>(), "no tools")
}

fn display_name(server: &ServerDefinition, tool: &Tool) -> String {
    format!("{}:{}", server.name, tool.name)
}

fn to_json(server: &ServerDefinition, tool: &Tool) -> Value {
    let mut value = json!(tool);
    value["name"] = json!(display_name(server, tool));
    value["server"] = json!(server.name);
    value["providerName"] = json!(qualified_name(&server.name, &tool.name));
    value
}

/// Finds a tool by its provider name with a hash, or by its name at the only server that has such a tool.
pub(super) async fn find(
    name: &str,
    servers: Vec<ServerDefinition>,
    options: &Options,
) -> Result<(Box<ServerDefinition>, String), Failure> {
    let found = ready(list(servers, options, true).await)?;
    let by_provider = found.iter().find(|(server, tool)| qualified_name(&server.name, &tool.name) == name);
    let mut by_tool = found.iter().filter(|(_, tool)| tool.name == name);
    let matched = match (by_provider, by_tool.next(), by_tool.next()) {
        (Some(matched), ..) | (None, Some(matched), None) => matched,
        (None, Some(first), Some(second)) => {
            let names = [first, second].map(|(server, tool)| line(&display_name(server, tool)));
            return Err(Failure::usage(format!(
                "several servers have the tool `{}`: {}",
                line(name),
                names.join(", ")
            )));
        }
        (None, None, _) => {
            let names: Vec<String> = found.iter().map(|(server, tool)| display_name(server, tool)).collect();
            let shown = match nearest(name, names.iter().map(String::as_str)) {
                Some(near) => vec![near],
                None => names.iter().take(MAX_SHOWN).map(String::as_str).collect(),
            };
            let list = if shown.is_empty() { "no tool".to_owned() } else { line(&shown.join(", ")) };
            return Err(Failure::usage(format!("no server lists the tool `{}`; the servers have {list}", line(name))));
        }
    };
    Ok((Box::new(matched.0.clone()), matched.1.name.clone()))
}

/// Returns the tools of the servers that answered. Each failed server is a warning. If a required server or all servers failed,
/// the command fails.
fn ready(listed: Vec<Listed>) -> Result<Vec<(ServerDefinition, Tool)>, Failure> {
    let (mut found, mut failures, mut is_any_ready) = (Vec::new(), Vec::new(), false);
    let mut required = None;
    for Listed { server, tools } in listed {
        match tools {
            Ok(tools) => {
                is_any_ready = true;
                found.extend(tools.into_iter().map(|tool| (server.clone(), tool)));
            }
            Err(failed) => {
                let failure = format!("the server `{}` failed: {}", server.name, failed.into_failure());
                if server.required && required.is_none() {
                    required = Some(failure);
                } else {
                    failures.push(failure);
                }
            }
        }
    }
    let fatal = required.or_else(|| if is_any_ready { None } else { failures.pop() });
    failures.iter().for_each(|failure| warn(&line(failure)));
    match fatal {
        Some(failure) => Err(Failure::no_server_ready(failure)),
        None => Ok(found),
    }
}

impl Failed {
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Self::Client(error) => (*error).into(),
            Self::Definition(failure) => failure,
        }
    }
}
