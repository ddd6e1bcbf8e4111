//! The servers of a configuration file that a command may use.

use std::path::PathBuf;

use mcp_agent::config::{Approval, Approvals, Code, ConfigError, ConfigFile, Scope, ServerDefinition};

use super::{environment, state_directory};
use crate::{args::Options, configuration, failure::Failure, screen::warn, suggestion::nearest, text::line};

/// A configuration file with the decisions about its servers.
pub(super) struct Source {
    pub(super) config: ConfigFile,
    /// The name in `--server`.
    only: Option<String>,
}

/// Returns the failure of a file or an entry.
pub(super) fn refused(error: &ConfigError) -> Failure {
    Failure::usage(error.to_string())
}

/// Reads a file. If the user denied an entry with a fault, the decision replaces the fault.
pub(super) fn read(file: PathBuf, scope: Scope) -> Result<ConfigFile, ConfigError> {
    let mut config = ConfigFile::read(file, scope, &environment())?;
    let Ok(directory) = state_directory() else { return Ok(config) };
    let approvals = Approvals::open(directory);
    let mut errors = std::mem::take(&mut config.errors);
    for error in &mut errors {
        let Some(name) = error.server.clone() else { continue };
        if approvals.is_denied(&config, &name)? {
            *error = denied(error.file.clone(), &error.path, &name).required(error.required);
        }
    }
    config.errors = errors;
    Ok(config)
}

fn denied(file: impl Into<PathBuf>, path: &str, name: &str) -> ConfigError {
    let remedy = format!("run `mcp approve {}` if you trust it", shell_words::quote(name));
    ConfigError::new(Code::Denied, file, path, "the definition of the server is denied", remedy).server(name)
}

/// Returns the failure of an entry: a denied entry is valid.
fn failure(error: &ConfigError) -> Failure {
    match error.code {
        Code::Denied | Code::NeedsApproval => Failure::no_server_ready(error.to_string()),
        _ => refused(error),
    }
}

impl Source {
    /// Reads the file.
    pub(super) fn load(options: &Options) -> Result<Self, Failure> {
        let (file, scope) = configuration::path(options).ok_or_else(|| {
            Failure::usage("no configuration file is found; write `.mcp.json`, or name a file with --config")
        })?;
        let config = read(file, scope).map_err(|error| refused(&error))?;
        if let Some(name) = &options.config_server
            && !config.names().contains(&name.as_str())
        {
            return Err(refused(&unknown(&config, name)));
        }
        Ok(Self { config, only: options.config_server.clone() })
    }

    /// Selects one server.
    pub(super) fn with_name(self, name: &str) -> Self {
        Self { only: Some(name.to_owned()), ..self }
    }

    /// Returns whether the command line selects a server.
    pub(super) fn is_selected(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == name)
    }

    /// Returns the decision about a server as an error, if a host must not connect to it.
    pub(super) fn refusal(server: &ServerDefinition) -> Result<Option<ConfigError>, Failure> {
        let Some(origin) = server.origin.as_ref().filter(|origin| origin.needs_approval()) else { return Ok(None) };
        let approval = Approvals::open(state_directory()?).of(server).map_err(|error| refused(&error))?;
        let name = &server.name;
        Ok(match approval {
            Approval::Denied => Some(denied(&origin.file, &origin.path, name)),
            approval if approval.permits() => None,
            _ => {
                let message = "the project file defines a server that is not approved";
                let quoted = shell_words::quote(name);
                let remedy = format!("read the entry, and run `mcp approve {quoted}` if you trust it");
                Some(ConfigError::new(Code::NeedsApproval, &origin.file, &origin.path, message, remedy).server(name))
            }
        })
    }

    /// Returns the servers of the command, and the selected servers that it cannot use.
    ///
    /// # Errors
    /// The fault that ends the command: of a required entry, or of an entry if no server is usable. A fault is named before a missing
    /// approval. Each other fault is a warning then.
    pub(super) fn usable(self) -> Result<(Vec<ServerDefinition>, Unusable), Failure> {
        let errors: Vec<ConfigError> = self.config.errors.iter().filter(|error| self.selects(error)).cloned().collect();
        let (mut usable, mut refused) = (Vec::new(), Vec::new());
        for server in &self.config.servers {
            if !self.is_selected(&server.name) || !server.enabled && self.only.is_none() {
                continue;
            }
            if !server.enabled {
                return Err(Failure::usage(format!("the server `{}` is disabled", line(&server.name))));
            }
            match Self::refusal(server)? {
                Some(refusal) => refused.push(refusal.required(server.required)),
                None => usable.push(server.clone()),
            }
        }
        let of_required = errors.iter().chain(&refused).find(|fault| fault.required);
        let of_all = || errors.iter().find(|error| error.code != Code::Denied).or(refused.first()).or(errors.first());
        let fatal = of_required.or_else(|| if usable.is_empty() { of_all() } else { None });
        if let Some(fatal) = fatal {
            warn_of_others(errors.iter().chain(&refused), fatal);
            return Err(failure(fatal));
        }
        if usable.is_empty() {
            let file = line(&self.config.file.to_string_lossy());
            return Err(Failure::usage(format!("the file {file} enables no server")));
        }
        let selected =
            |warning: &&ConfigError| usable.iter().any(|server| warning.server.as_ref() == Some(&server.name));
        let warnings = self.config.warnings.iter().filter(selected).cloned().collect();
        Ok((usable, Unusable { faults: errors.into_iter().chain(refused).collect(), warnings }))
    }

    fn selects(&self, error: &ConfigError) -> bool {
        error.server.as_deref().is_some_and(|name| self.is_selected(name))
    }
}

/// Prints a warning for each fault, except for denied entries and for the fault that ends the command.
fn warn_of_others<'f>(faults: impl Iterator<Item = &'f ConfigError>, fatal: &ConfigError) {
    let others = faults.filter(|fault| fault.code != Code::Denied && *fault != fatal);
    others.for_each(|fault| warn(&line(&fault.to_string())));
}

/// The parts of a file that a command cannot use.
pub(super) struct Unusable {
    /// The faults of servers.
    faults: Vec<ConfigError>,
    /// The members of usable entries without an effect.
    warnings: Vec<ConfigError>,
}

impl Unusable {
    /// Prints a warning for each server, except for denied ones: `mcp doctor` shows the decisions of the user. Prints a warning for each
    /// member without an effect too.
    pub(super) fn warn(&self) {
        self.faults().chain(&self.warnings).for_each(|fault| warn(&line(&fault.to_string())));
    }

    /// Returns the faults of the servers, except for denied ones.
    pub(super) fn faults(&self) -> impl Iterator<Item = &ConfigError> {
        self.faults.iter().filter(|fault| fault.code != Code::Denied)
    }
}

/// Returns the error of a name that the file does not define.
pub(super) fn unknown(config: &ConfigFile, name: &str) -> ConfigError {
    let names: Vec<String> = config.names().into_iter().map(ToOwned::to_owned).collect();
    let remedy = match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "add the server to the file".to_owned(),
        None => format!("use one of the names: {}", names.join(", ")),
    };
    let message = format!("the file defines no server `{name}`");
    ConfigError::new(Code::UnknownServer, &config.file, "$", message, remedy).server(name)
}
