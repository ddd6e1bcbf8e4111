//! Servers of configuration files: the file of a command line, its servers, and the commands about them.

mod doctor;
mod edit;
mod fleet;
mod resolve;
mod source;

use std::{path::PathBuf, sync::Arc};

use mcp_agent::{
    config::{Endpoint, Environment, ServerDefinition},
    filter::ToolFilter,
};
use mcp_client::http::Authorizer;

use self::{resolve::Resolved, source::Source};
use crate::{
    args::{Command, Configuration, Options},
    failure::Failure,
    login, state,
    text::line,
};

/// A command of a command line, and the server that it is for.
pub(crate) enum Work {
    /// The command runs over the connection to one server.
    One(Box<ServerDefinition>, Command),
    /// The command is done.
    Done,
}

/// Runs a command about configuration files.
pub(crate) async fn configure(command: &Configuration, options: &Options) -> Result<(), Failure> {
    match command {
        Configuration::Install { client, name, url, command } => {
            edit::install(client, name, url.as_deref(), command, options)
        }
        Configuration::Uninstall { client, name } => edit::uninstall(client, name, options),
        Configuration::Approve { names, all } => edit::decide(names, *all, true, options),
        Configuration::Deny { names, all } => edit::decide(names, *all, false, options),
        Configuration::Doctor => doctor::run(options).await,
    }
}

/// Selects the server of a command, or runs a command over all servers of the file.
pub(crate) async fn select(mut command: Command, options: &Options) -> Result<Work, Failure> {
    let source = Source::load(options)?;
    let declared: Vec<String> = source.config.names().into_iter().map(ToOwned::to_owned).collect();
    let servers = source.usable()?;
    if let Command::Tools { words, format, strict } = &command
        && words.words.is_empty()
    {
        fleet::tools(servers, *format, *strict, options).await?;
        return Ok(Work::Done);
    }
    let is_tool = matches!(command, Command::Tools { .. } | Command::Call { .. });
    let has_name = is_tool || matches!(command, Command::Prompt(_) | Command::Prompts(_) | Command::Complete(_));
    let word = command.words_mut().filter(|_| has_name).and_then(|words| words.words.first_mut());
    if let Some(word) = word {
        match resolve::by_name(word, &servers) {
            Resolved::Name(server, name) => {
                if is_tool {
                    fleet::check_allowed(&server, &name)?;
                }
                *word = name;
                return Ok(Work::One(server, command));
            }
            Resolved::Unknown if let Some(server) = resolve::prefix_of(word, &declared) => {
                return Err(unusable(word, server));
            }
            Resolved::Unknown if is_tool && (servers.len() > 1 || resolve::has_hash(word)) => {
                let (server, name) = fleet::find(word, servers, options).await?;
                *word = name;
                return Ok(Work::One(server, command));
            }
            Resolved::Unknown => {}
        }
    }
    // In a call of a model, the name can be the safe name of a tool. The session checks the tool itself.
    let is_plain = is_tool && !matches!(command, Command::Call { format: Some(_), .. });
    let name = command.words_mut().filter(|_| is_plain).and_then(|words| words.words.first().cloned());
    match <[ServerDefinition; 1]>::try_from(servers) {
        Ok([server]) => {
            if let Some(name) = name {
                fleet::check_allowed(&server, &name)?;
            }
            Ok(Work::One(Box::new(server), command))
        }
        Err(servers) => {
            let names: Vec<String> = servers.iter().map(|server| line(&server.name)).collect();
            Err(Failure::usage(format!("choose a server with --server: {}", names.join(", "))))
        }
    }
}

fn unusable(name: &str, server: &str) -> Failure {
    let (name, server) = (line(name), line(server));
    Failure::no_server_ready(format!(
        "`{name}` belongs to the server `{server}`, which this command cannot use; `mcp doctor` shows the reason"
    ))
}

/// Returns the tools that a definition offers.
///
/// # Errors
/// If a pattern of the definition is invalid.
pub(crate) fn filter(server: &ServerDefinition) -> Result<ToolFilter, Failure> {
    fleet::filter(server)
}

/// Returns the authorizer of a server. `None` for a command, and for a URL with its own credentials.
pub(crate) fn authorizer(server: &ServerDefinition, options: &Options, can_ask: bool) -> Option<Arc<dyn Authorizer>> {
    let Endpoint::Http(http) = &server.endpoint else { return None };
    let has_credentials = http.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    if has_credentials { None } else { login::authorizer(options, can_ask) }
}

/// Returns the directory of approvals and installations.
fn state_directory() -> Result<PathBuf, Failure> {
    let missing = || Failure::local("there is no directory for approvals: set HOME or XDG_STATE_HOME");
    state::path("config").ok_or_else(missing)
}

/// Returns the environment of configuration files.
fn environment() -> Environment {
    Environment::of_process()
}
