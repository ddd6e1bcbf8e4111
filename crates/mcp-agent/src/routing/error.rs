//! The errors of calls.

use std::time::Duration;

use mcp_protocol::CallToolResult;

use crate::{
    catalog::{InvalidArguments, UnknownName},
    policy::Refusal,
    registry::{Lease, ServerState, TokenFault, Unavailable},
};

/// The error of a call of a host. [`CallError::result`] returns it in the form of a result, for a model.
///
/// ```
/// # async fn example(host: mcp_agent::Host) -> Result<(), mcp_agent::CallError> {
/// use mcp_agent::CallError;
///
/// let result = match host.call("github:get_issue", serde_json::json!({ "number": 7 })).await {
///     Ok(result) => result.into_inner(),
///     // A server that is not available can matter to the application. The model reads all other errors.
///     Err(error @ CallError::Unavailable { .. }) => return Err(error),
///     Err(error) => error.result(),
/// };
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The catalog has no such tool or prompt.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The tool has changed since the generation of the call.
    #[error(
        "the tool {tool} changed in generation {since} of the catalog, and the call is for generation {generation}"
    )]
    Changed {
        /// The name of the call.
        tool: String,
        /// The generation of the call.
        generation: u64,
        /// The generation of the current definition.
        since: u64,
    },
    /// The arguments do not match the schema of the tool. The call was not sent.
    #[error(transparent)]
    InvalidArguments(#[from] InvalidArguments),
    /// The arguments are not a JSON object. The call was not sent.
    #[error("the arguments of {tool} are not a JSON object: {reason}")]
    NotAnObject {
        /// The name of the call.
        tool: String,
        /// The fault.
        reason: String,
    },
    /// A policy, a person or a changed definition refuses the call. The call was not sent.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server does not run. If its state is `Ready`, it has no free connection for the caller.
    #[error("{}{}", unavailable(server, *state), details(reason.as_deref(), *retry_in))]
    Unavailable {
        /// The name of the server.
        server: String,
        /// The state of the server.
        state: ServerState,
        /// The reason of the state.
        reason: Option<String>,
        /// The time until the next attempt. Calls before that time fail at once, because the server failed before.
        retry_in: Option<Duration>,
    },
    /// The caller has no token that the server accepts. The server did not run the call.
    #[error("the server {server:?} has no valid token of the caller: {fault}")]
    Token {
        /// The name of the server.
        server: String,
        /// The fault.
        #[source]
        fault: TokenFault,
        /// The time after which the call can succeed, if the token endpoint named it.
        retry_in: Option<Duration>,
    },
    /// The application cancelled the call before the server started.
    #[error("the call of {tool} was cancelled")]
    Cancelled {
        /// The name of the call.
        tool: String,
    },
    /// The host has no server with this name.
    #[error("there is no server {server:?}; the servers are: {known}")]
    UnknownServer {
        /// The name of the call.
        server: String,
        /// The names of the servers.
        known: String,
    },
    /// The call failed.
    #[error("the call of {name} failed: {error}")]
    Client {
        /// The name of the call, or the URI of the resource.
        name: String,
        /// The error of the client.
        #[source]
        error: mcp_client::Error,
    },
}

impl CallError {
    /// Returns the error of a request over the connection of a lease. `name` is the name of the call, or the URI of the resource.
    pub(crate) fn of_request(lease: &Lease, server: &str, name: String, error: mcp_client::Error) -> Self {
        match lease.cause(&error) {
            Some(cause) => Self::unavailable(server, cause),
            None => Self::Client { name, error },
        }
    }

    pub(crate) fn unavailable(server: &str, cause: Unavailable) -> Self {
        if let Some(fault) = cause.token_fault {
            let retry_in = cause.retry_in.filter(|_| fault.is_temporary());
            return Self::Token { server: server.to_owned(), fault, retry_in };
        }
        Self::Unavailable {
            server: server.to_owned(),
            state: cause.state,
            reason: cause.reason,
            retry_in: cause.retry_in,
        }
    }

    /// Returns the error as a failed result, which a model can read.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn result(&self) -> CallToolResult {
        CallToolResult::error(self.to_string())
    }

    /// Returns the error of the client, if the call reached the server.
    #[must_use]
    pub fn client(&self) -> Option<&mcp_client::Error> {
        match self {
            Self::Client { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Returns the text about a server that a caller cannot reach.
fn unavailable(server: &str, state: ServerState) -> String {
    match state {
        ServerState::Ready | ServerState::Degraded => format!("no connection to the server {server} is free"),
        state => format!("the server {server} is not available ({state})"),
    }
}

/// Returns the reason of a state, and the time until the next attempt.
fn details(reason: Option<&str>, retry_in: Option<Duration>) -> String {
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    match retry_in {
        Some(wait) => format!("{reason}; the next attempt is possible in {} s", wait.as_secs_f64().ceil()),
        None => reason,
    }
}
