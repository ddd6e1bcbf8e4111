//! Servers of configuration files: the file of a command line, its servers, and the commands about them.

mod credentials;
mod doctor;
mod edit;
mod fleet;
mod merged;
mod resolve;
mod source;
mod tools;

use std::{path::PathBuf, sync::Arc};

use mcp_agent::{
    Lists,
    config::{ConfigError, Endpoint, Environment, ServerDefinition},
    filter::ToolFilter,
};
use mcp_client::{Client, http::Authorizer};

pub(crate) use self::{
    credentials::remedy,
    fleet::{Connectors, check_options, connector, settle},
};
use self::{fleet::Fleet, resolve::Resolved, source::Source};
use crate::{
    answers::Answers,
    args::{Command, Configuration, Options},
    commands, configuration,
    connection::ClientSettings,
    failure::Failure,
    login,
    opened::Opened,
    requests::Requests,
    state,
    text::line,
};

/// A command of a command line, and the server that it is for.
pub(crate) enum Work {
    /// The command runs over the connection to one server.
    One(Box<Connected>, Command),
    /// The command is done.
    Done,
}

/// The connection to a server of a configuration file.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) requests: Requests,
    /// The tools that the definition offers.
    pub(crate) filter: ToolFilter,
}

/// Runs a command about configuration files.
pub(crate) async fn configure(command: &Configuration, options: &Options, opened: &Opened) -> Result<(), Failure> {
    match command {
        Configuration::Install { client, name, url, command } => {
            edit::install(client, name, url.as_deref(), command, options)
        }
        Configuration::Uninstall { client, name } => edit::uninstall(client, name, options),
        Configuration::Approve { names, all } => edit::decide(names, *all, true, options),
        Configuration::Deny { names, all } => edit::decide(names, *all, false, options),
        Configuration::Doctor => doctor::run(options, opened).await,
    }
}

/// Starts the servers of a command. Runs the commands about the tools of all servers, and connects other commands to one server.
pub(crate) async fn open(
    mut command: Command,
    options: &Options,
    answers: &Arc<Answers>,
    opened: &Opened,
) -> Result<Work, Failure> {
    let source = Source::load(options)?;
    let declared: Vec<String> = source.config.names().into_iter().map(ToOwned::to_owned).collect();
    let (servers, unusable_servers) = source.usable()?;
    if let Command::Search { words, limit } = &command {
        let query = commands::query(&words.words)?;
        unusable_servers.warn();
        tools::search(servers, &query, *limit, options, opened).await?;
        return Ok(Work::Done);
    }
    let is_tool = matches!(command, Command::Tools { .. } | Command::Call { .. });
    let is_reference = matches!(command, Command::Complete(_));
    let has_name = is_tool || is_reference || matches!(command, Command::Prompt(_) | Command::Prompts(_));
    let word = command.words_mut().filter(|_| has_name).and_then(|words| words.words.first_mut());
    // Only the URI of a template contains braces. Its scheme is not the name of a server.
    let word = word.filter(|word| !(is_reference && word.contains('{')));
    let mut chosen = None;
    if let Some(word) = word {
        match resolve::by_name(word, &servers) {
            Resolved::Name(server, name) => {
                if is_tool {
                    fleet::check_allowed(&server, &name)?;
                }
                *word = name;
                chosen = Some(*server);
            }
            Resolved::Unknown => {
                if let Some(server) = resolve::prefix_of(word, &declared) {
                    return Err(unusable(word, server));
                }
                if let ([server], true) = (&servers[..], is_tool && !resolve::has_hash(word)) {
                    fleet::check_allowed(server, word)?;
                }
            }
        }
    }
    // A command for one server does not concern the others.
    if chosen.is_none() {
        unusable_servers.warn();
    }
    if let Command::Tools { words, format, strict } = &command {
        if let [_, more, ..] = &words.words[..] {
            return Err(Failure::usage(format!("unexpected argument `{}`", line(more))));
        }
        let name = words.words.first().map(|name| match &chosen {
            Some(server) => format!("{}:{name}", server.name),
            None => name.clone(),
        });
        let servers = chosen.map_or(servers, |server| vec![server]);
        tools::tools(servers, name.as_deref(), format.map(|format| (format, *strict)), options, opened).await?;
        return Ok(Work::Done);
    }
    let settings = ClientSettings::new(options, answers, &command)?;
    let servers = match chosen {
        Some(server) => vec![server],
        None => servers,
    };
    let name = command.words_mut().filter(|_| is_tool).and_then(|words| words.words.first_mut());
    if let [server] = &servers[..]
        && name.is_none_or(|name| !resolve::has_hash(name))
    {
        let name = server.name.clone();
        // A host calls the tools of its catalog.
        let lists = if is_tool || matches!(command, Command::Shell(_)) { Lists::Tools } else { Lists::None };
        let mut fleet = Fleet::start(servers, lists, settings, true, opened).await?;
        if !is_tool {
            fleet = fleet.without_tools();
        }
        return Ok(Work::One(Box::new(connected(&mut fleet, &name).await?), command));
    }
    merged::run(command, servers, settings, opened).await
}

async fn connected(fleet: &mut Fleet, name: &str) -> Result<Connected, Failure> {
    let client = fleet.client(name).await?;
    let server = fleet.servers.iter().find(|server| server.name == name);
    let server = server.ok_or_else(|| Failure::local(format!("there is no server `{}`", line(name))))?;
    let limits = server.tool_timeouts.iter().map(|(tool, limit)| (tool.clone(), *limit)).collect();
    let requests = Requests::of_host(fleet.host().clone(), name.to_owned(), client.clone(), limits);
    Ok(Connected { client, requests, filter: fleet::filter(server)? })
}

fn unusable(name: &str, server: &str) -> Failure {
    let (name, server) = (line(name), line(server));
    Failure::no_server_ready(format!(
        "`{name}` belongs to the server `{server}`, which this command cannot use; `mcp doctor` shows the reason"
    ))
}

/// Returns the authorizer of a server. `None` for a command, and for a URL with its own credentials.
///
/// # Errors
/// If the OAuth settings of the entry are incomplete, or the stored client of the login cannot be read.
pub(crate) async fn authorizer(
    server: &ServerDefinition,
    options: &Options,
    can_ask: bool,
) -> Result<Option<Arc<dyn Authorizer>>, Failure> {
    let Endpoint::Http(http) = &server.endpoint else { return Ok(None) };
    let has_credentials = http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if has_credentials {
        return Ok(None);
    }
    let own = mcp_agent::token_exchange_authorizer(server).map_err(|error| Failure::usage(error.to_string()))?;
    if own.is_some() {
        return Ok(own);
    }
    login::authorizer(options, &http.url, Some(server), can_ask).await
}

/// Returns a server of the configuration file that the user permits. `None` if no file has the name.
pub(crate) fn definition(name: &str, options: &Options) -> Result<Option<ServerDefinition>, Failure> {
    if configuration::path(options).is_none() {
        return Ok(None);
    }
    let source = Source::load(options)?;
    if !source.config.names().contains(&name) {
        return Ok(None);
    }
    Ok(source.with_name(name).usable()?.0.pop())
}

/// Returns the servers of the configuration file, and the faults of its other entries. Prints a warning for each fault.
///
/// # Errors
/// If a required server or each server cannot be used.
pub(crate) fn configured(options: &Options) -> Result<(Vec<ServerDefinition>, Vec<ConfigError>), Failure> {
    let (servers, unusable) = Source::load(options)?.usable()?;
    unusable.warn();
    Ok((servers, unusable.faults().cloned().collect()))
}

/// Returns a server of the configuration file for a logout, which starts nothing. Without an approval, the definition has its URL
/// only: it must not choose the credentials of a revocation.
pub(crate) fn declared(name: &str, options: &Options) -> Result<Option<ServerDefinition>, Failure> {
    if configuration::path(options).is_none() {
        return Ok(None);
    }
    let source = Source::load(options)?;
    if let Some(error) = source.config.errors.iter().find(|error| error.server.as_deref() == Some(name)) {
        return Err(source::refused(error));
    }
    let Some(server) = source.config.servers.iter().find(|server| server.name == name) else { return Ok(None) };
    Ok(Some(match &server.endpoint {
        Endpoint::Http(http) if Source::refusal(server)?.is_some() => ServerDefinition::http(name, &http.url),
        _ => server.clone(),
    }))
}

/// Returns the directory of approvals and installations.
pub(crate) fn state_directory() -> Result<PathBuf, Failure> {
    let missing = || Failure::local("there is no directory for approvals: set HOME or XDG_STATE_HOME");
    state::path("config").ok_or_else(missing)
}

/// Returns the environment of configuration files.
fn environment() -> Environment {
    Environment::of_process()
}
