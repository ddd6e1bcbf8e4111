//! The servers of a command in one host. A server that fails costs its own tools only.

use std::{collections::HashMap, sync::Arc, time::Duration};

use mcp_agent::{
    Catalog, CatalogTool, Glob, Host, Lists, ServerState, ServerStatus, StartError, Toolset,
    config::{Approvals, Endpoint, ServerDefinition},
    filter::ToolFilter,
    pins::{Drift, PinFile, PinRules},
};
use mcp_client::{Client, Reconnect};
use mcp_protocol::{JsonObject, Tool};
use mcp_tool_format::safe_name;
use mcp_transport::Connect;

use super::state_directory;
use crate::{
    args::Options,
    connection::{self, ClientSettings, ConnectorOfCaller, NAME, VERSION},
    failure::Failure,
    files::check_directory,
    logs,
    opened::Opened,
    screen::warn,
    suggestion::nearest,
    text::line,
};

/// The number of names that an error text contains at most.
const MAX_SHOWN: usize = 20;
/// The longest time for reading the tools of a server. The timeouts of the client end single requests earlier.
const LIST_LIMIT: Duration = Duration::from_secs(600);

/// The servers of a command.
pub(super) struct Fleet {
    host: Host,
    /// The command needs the tools of each server. A server that does not return them has failed.
    needs_tools: bool,
    pub(super) servers: Vec<ServerDefinition>,
    /// The servers with a definition that `mcp` cannot use.
    unusable: HashMap<String, Failure>,
}

/// The failure of a server.
pub(super) enum Failed {
    /// The client could not connect, or the server did not return its tools.
    Client(Box<mcp_client::Error>),
    /// The definition is not usable.
    Definition(Failure),
    /// The state of the server in the host.
    State(String),
}

impl Fleet {
    /// Starts the servers at once, and waits until each of them is ready or has failed. The start limit of its definition
    /// bounds the start of each server.
    pub(super) async fn start(
        servers: Vec<ServerDefinition>,
        lists: Lists,
        settings: ClientSettings,
        can_ask: bool,
        opened: &Opened,
    ) -> Result<Self, Failure> {
        let options = settings.options.clone();
        check_options(&servers, &options)?;
        if let Some(file) = &options.pins {
            check_directory("--pins", file)?;
        }
        let servers: Vec<ServerDefinition> = servers.into_iter().map(|server| for_command(server, &options)).collect();
        let approver = settings.approver();
        let definitions: HashMap<String, ServerDefinition> =
            servers.iter().map(|server| (server.name.clone(), server.clone())).collect();
        let mut builder = Host::builder(NAME, VERSION).lists(lists).list_limit(LIST_LIMIT).max_text(usize::MAX);
        builder = builder.reconnect(Reconnect::never()).clients(move |name, client| match definitions.get(name) {
            Some(server) => settings.apply_to(client, server),
            None => client,
        });
        builder = options.policy.iter().fold(builder, |builder, file| builder.policy_file(file));
        if let Some(approver) = approver {
            builder = builder.approver(approver);
        }
        if let Some(file) = &options.pins {
            builder = builder.pins(PinFile::new(file), PinRules::new().drift(Drift::Block));
        }
        if let Ok(directory) = state_directory() {
            builder = builder.approvals(Approvals::open(directory));
        }
        let host = builder.start().await.map_err(|error| match error {
            StartError::Policy(_) | StartError::Pins(_) => Failure::usage(error.to_string()),
            _ => Failure::local(error.to_string()),
        })?;
        opened.keep_host(&host);
        let connectors = Connectors::of(&servers, &options, can_ask).await;
        let unusable = connectors.add_to(&host, |_, connector| connector);
        settle(&host).await;
        logs::keep_server_stderr();
        Ok(Self { host, needs_tools: lists == Lists::Tools, servers, unusable })
    }

    /// Returns the tools of all servers, in the order of the file.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        self.host.catalog()
    }

    /// Accepts servers that do not return their tools.
    pub(super) fn without_tools(mut self) -> Self {
        self.needs_tools = false;
        self
    }

    /// Returns the tools of all servers that the policies do not deny, in the order of the file.
    pub(super) fn toolset(&self) -> Arc<Toolset> {
        self.host.toolset()
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the connection to a server.
    pub(super) async fn client(&mut self, server: &str) -> Result<Client, Failure> {
        if let Some(failed) = self.take_failure(server) {
            return Err(failed.into_failure().at(server));
        }
        self.host.client(server).await.map_err(|error| Failure::no_server_ready(error.to_string()))
    }

    /// Returns the failure of a server. `None` if it is ready.
    pub(super) fn take_failure(&mut self, server: &str) -> Option<Failed> {
        if let Some(failure) = self.unusable.remove(server) {
            return Some(Failed::Definition(failure));
        }
        let status = self.host.status(server)?;
        let is_ready = matches!(status.state, ServerState::Ready | ServerState::Degraded);
        match self.host.start_error(server) {
            Some(error) if self.needs_tools || !is_ready => Some(Failed::Client(Box::new(error))),
            _ if is_ready => None,
            _ => Some(Failed::State(status.reason.unwrap_or_else(|| format!("its state is {}", status.state)))),
        }
    }

    /// Returns the reason why the tools of a ready server are incomplete.
    pub(super) fn gap(&self, server: &str) -> Option<String> {
        self.host.status(server).filter(|status| status.state == ServerState::Degraded)?.reason
    }

    /// Returns the parts of the entry of a server without an effect, such as a pattern that matches no tool.
    pub(super) fn notes(&self, server: &str) -> Vec<String> {
        self.host.status(server).map(|status| status.filter_notes).unwrap_or_default()
    }

    /// Prints a warning for each failed server. If a required server or all servers failed, the command fails.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        let (mut failures, mut required, mut is_any_ready) = (Vec::new(), None, false);
        for (name, is_required) in
            self.servers.iter().map(|server| (server.name.clone(), server.required)).collect::<Vec<_>>()
        {
            match self.take_failure(&name) {
                None => {
                    is_any_ready = true;
                    if let Some(reason) = self.gap(&name) {
                        warn(&line(&format!("the server `{name}` is incomplete: {reason}")));
                    }
                }
                Some(failed) => {
                    let failure = format!("the server `{name}` failed: {}", failed.into_failure().at(&name));
                    if is_required && required.is_none() {
                        required = Some(failure);
                    } else {
                        failures.push(failure);
                    }
                }
            }
        }
        let fatal = required.or_else(|| if is_any_ready { None } else { failures.pop() });
        failures.iter().for_each(|failure| warn(&line(failure)));
        fatal.map_or(Ok(()), |failure| Err(Failure::no_server_ready(failure)))
    }
}

/// The connectors of servers that have not started.
pub(crate) struct Connectors<'s> {
    usable: Vec<(&'s ServerDefinition, Arc<dyn Connect>, Option<ConnectorOfCaller>)>,
    /// The failures of the servers with a definition that `mcp` cannot use.
    pub(crate) unusable: HashMap<String, Failure>,
}

impl<'s> Connectors<'s> {
    /// Returns the connectors of servers. It starts no server.
    pub(crate) async fn of(servers: &'s [ServerDefinition], options: &Options, can_ask: bool) -> Self {
        let mut connectors = Self { usable: Vec::new(), unusable: HashMap::new() };
        for server in servers {
            let connector = connector(server, options, can_ask).await;
            match connector.and_then(|connector| Ok((connector, connection::of_callers(server, options)?))) {
                Ok((connector, of_caller)) => connectors.usable.push((server, connector, of_caller)),
                Err(failure) => drop(connectors.unusable.insert(server.name.clone(), failure)),
            }
        }
        connectors
    }

    /// Adds the servers to a host, with wrapped connectors. Returns the failures of the servers with a definition that `mcp` cannot use.
    pub(crate) fn add_to(
        self,
        host: &Host,
        mut wrap: impl FnMut(&ServerDefinition, Arc<dyn Connect>) -> Arc<dyn Connect>,
    ) -> HashMap<String, Failure> {
        let Self { usable, mut unusable } = self;
        for (server, connector, of_caller) in usable {
            let added = match of_caller {
                Some(of_caller) => host.add_definition_with_connectors(server, wrap(server, connector), of_caller),
                None => host.add_definition_with(server, wrap(server, connector)),
            };
            if let Err(error) = added {
                unusable.insert(server.name.clone(), Failure::usage(error.to_string()));
            }
        }
        unusable
    }
}

/// Returns the connector of a server, with its stored login.
pub(crate) async fn connector(
    server: &ServerDefinition,
    options: &Options,
    can_ask: bool,
) -> Result<Arc<dyn Connect>, Failure> {
    let authorizer = super::authorizer(server, options, can_ask).await?;
    connection::to_server(server, options, authorizer)
}

/// Returns the definition of a server for one command.
fn for_command(mut server: ServerDefinition, options: &Options) -> ServerDefinition {
    // The end of the command ends its servers. A listener and a shell have no running call.
    server.idle_stop = None;
    if options.timeout.is_some() {
        // The option replaces the limits of the file.
        (server.call_timeout, server.start_timeout) = (None, None);
        server.tool_timeouts.clear();
    }
    server
}

/// Rejects options with possible secrets that several servers would receive.
pub(crate) fn check_options(servers: &[ServerDefinition], options: &Options) -> Result<(), Failure> {
    let is_http = |server: &&ServerDefinition| matches!(server.endpoint, Endpoint::Http(_));
    let (remote, local): (Vec<_>, Vec<_>) = servers.iter().partition(is_http);
    for (option, is_given, receivers) in
        [("--header", !options.header.is_empty(), remote), ("--env", !options.env.is_empty(), local)]
    {
        if is_given && receivers.len() > 1 {
            let names: Vec<&str> = receivers.iter().map(|server| server.name.as_str()).collect();
            let names = line(&names.join(", "));
            let message = format!("several servers would receive {option}; choose a server with --server: {names}");
            return Err(Failure::usage(message));
        }
    }
    Ok(())
}

/// Waits until the start of each server has an outcome. The time limits of the clients and of logins bound the wait.
pub(crate) async fn settle(host: &Host) {
    let mut events = host.status_events();
    let is_starting = |status: &ServerStatus| match status.state {
        ServerState::Configured | ServerState::Starting | ServerState::Waiting => true,
        // Without an error, the user is at the login page.
        ServerState::NeedsLogin => host.start_error(&status.name).is_none(),
        _ => false,
    };
    while host.statuses().iter().any(is_starting) {
        if events.next().await.is_none() {
            return;
        }
    }
}

impl Failed {
    /// Returns the text of the failure, without hints about options of other commands.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Client(error) => Failure::text_of(error),
            Self::Definition(failure) => failure.to_string(),
            Self::State(reason) => reason.clone(),
        }
    }

    pub(super) fn into_failure(self) -> Failure {
        match self {
            Self::Client(error) => (*error).into(),
            Self::Definition(failure) => failure,
            Self::State(reason) => Failure::no_server_ready(reason),
        }
    }
}

/// Finds a tool by its display name, its provider name, or its name at the only server that has such a tool.
pub(super) fn find(catalog: &Catalog, name: &str) -> Result<Arc<CatalogTool>, Failure> {
    if let Ok(tool) = catalog.tool(name) {
        return Ok(Arc::clone(tool));
    }
    // In a call of a model, the name can be the safe name of the tool without its server.
    let is_named = |tool: &&Arc<CatalogTool>| tool.name() == name || safe_name(tool.name()) == name;
    let mut named = catalog.tools().iter().filter(is_named);
    match (named.next(), named.next()) {
        (Some(tool), None) => Ok(Arc::clone(tool)),
        (Some(first), Some(second)) => {
            let names = [first, second].map(|tool| line(tool.display_name()));
            let (name, names) = (line(name), names.join(", "));
            Err(Failure::usage(format!("several servers have the tool `{name}`: {names}")))
        }
        (None, _) => {
            let names: Vec<&str> = catalog.tools().iter().map(|tool| tool.display_name()).collect();
            let shown = match nearest(name, names.iter().copied()) {
                Some(near) => vec![near],
                None => names.into_iter().take(MAX_SHOWN).collect(),
            };
            let list = if shown.is_empty() { "no tool".to_owned() } else { line(&shown.join(", ")) };
            Err(Failure::usage(format!("no server lists the tool `{}`; the servers have {list}", line(name))))
        }
    }
}

/// Returns the tools that a definition offers.
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
    let (server, name) = (line(&server.name), line(name));
    Err(Failure::usage(format!("the configuration of the server `{server}` does not allow the tool `{name}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_replaces_the_limits_of_the_file() {
        let limit = Duration::from_secs(30);
        let mut server = ServerDefinition::stdio("slow", "x");
        (server.idle_stop, server.call_timeout, server.start_timeout) = (Some(limit), Some(limit), Some(limit));
        server.tool_timeouts.insert("wait".to_owned(), limit);
        let adapted = for_command(server.clone(), &Options::default());
        assert_eq!((adapted.idle_stop, adapted.call_timeout, adapted.tool_timeouts.len()), (None, Some(limit), 1));
        let options = Options { timeout: Some(Duration::from_secs(1)), ..Options::default() };
        let adapted = for_command(server, &options);
        assert_eq!((adapted.idle_stop, adapted.call_timeout, adapted.tool_timeouts.len()), (None, None, 0));
    }
}
