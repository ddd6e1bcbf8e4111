//! The errors of starting hosts and servers.

use std::sync::Arc;

use super::DefinitionError;
use crate::{
    ServerState, ServerStatus,
    catalog::UnknownName,
    config::{ConfigError, MAX_NAME},
    pins::PinError,
    policy::PolicyError,
};

/// The error of a host that did not start. All its servers have ended.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use mcp_agent::{Host, StartError};
/// use mcp_client::ChildProcess;
///
/// let error = Host::builder("my-app", "1.0").server("files", ChildProcess::new("no-such-program")).start().await.unwrap_err();
/// assert!(matches!(&error, StartError::AllFailed { servers } if servers.len() == 1));
/// assert!(error.to_string().contains("no-such-program"));
/// # }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A server has an invalid name or definition.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A configuration file cannot be read, or one of its required entries has a fault.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A policy file is missing or invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The file of pins cannot be read.
    #[error(transparent)]
    Pins(#[from] Arc<PinError>),
    /// A required server did not start within the start limit.
    #[error("a required server did not start: {}", describe(servers))]
    Required {
        /// The required servers that did not start.
        servers: Vec<ServerStatus>,
    },
    /// No server started.
    #[error("no server started: {}", describe(servers))]
    AllFailed {
        /// All servers.
        servers: Vec<ServerStatus>,
    },
}

/// The error of accepting a definition ([`Host::accept_definition`](crate::Host::accept_definition)).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The catalog has no such tool.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The pin cannot be stored.
    #[error("the accepted definition cannot be stored: {fault}")]
    NotStored {
        /// The fault of the file.
        fault: String,
    },
    /// The pin is stored, and the catalog still has the former comparison of the definition.
    #[error("the accepted definition is stored, and the pins cannot be read again: {fault}")]
    NotCompared {
        /// The fault of the file.
        fault: String,
    },
    /// The server of the tool was removed meanwhile. Nothing is stored.
    #[error("the host has no server {server:?} any more")]
    Removed {
        /// The name of the server.
        server: String,
    },
}

/// The error of adding or replacing a server.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The name is empty, too long, or contains `:` or a control character.
    #[error("the name {name:?} of a server is not 1 to 256 bytes without `:` and control characters")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// Another server of the host has this name.
    #[error("the host has a server {name:?} already")]
    Taken {
        /// The name.
        name: String,
    },
    /// The host has no server with this name.
    #[error("the host has no server {name:?}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The server has another definition than the approved one.
    #[error("the definition of the server {name:?} is not the approved one")]
    OtherDefinition {
        /// The name.
        name: String,
    },
    /// The definition of the server disables it.
    #[error("the definition of the server {name:?} disables it")]
    Disabled {
        /// The name.
        name: String,
    },
    /// The definition of a server is invalid.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The new server did not start. The former server stays.
    #[error("the server {name:?} did not start ({state}){}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    NotReady {
        /// The name.
        name: String,
        /// The state of the new server.
        state: ServerState,
        /// The reason of the state.
        reason: Option<String>,
    },
}

fn describe(servers: &[ServerStatus]) -> String {
    let texts: Vec<String> = servers
        .iter()
        .map(|status| {
            format!("{} is {} ({})", status.name, status.state, status.reason.as_deref().unwrap_or("no reason"))
        })
        .collect();
    texts.join("; ")
}

/// Checks the name of a server.
pub(super) fn check_name(name: &str) -> Result<(), ServerError> {
    let is_valid = (1..=MAX_NAME).contains(&name.len()) && !name.contains(|c: char| c == ':' || c.is_control());
    if is_valid { Ok(()) } else { Err(ServerError::InvalidName { name: name.to_owned() }) }
}
