//! The errors of the host, as errors for the clients of a gateway.

use std::{borrow::Cow, error::Error as _, fmt, time::Duration};

use mcp_protocol::{CallToolResult, ErrorChain, ErrorCode, Excerpt, ProtocolVersion, RpcError};
use mcp_server_core::source::{SourceOutcome, SourceResult};
use mcp_transport::http_status::HttpStatus;
use serde_json::{Value, json};

use super::hops::LOOP;
use crate::{CallError, ServerState};

/// The fault of a request: at its server, or in the gateway.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    Call(CallError),
    /// A request to a server failed.
    Request {
        server: Box<str>,
        name: Box<str>,
        error: mcp_client::Error,
        /// A repetition of the request can repeat its effect.
        has_effect: bool,
    },
    Rpc(RpcError),
    /// The policies hide the item from the client, for which it is unknown.
    Hidden,
}

impl From<CallError> for Fault {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<RpcError> for Fault {
    fn from(error: RpcError) -> Self {
        Self::Rpc(error)
    }
}

impl From<Fault> for RpcError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Call(error) => rpc_error(&error),
            Fault::Request { server, name, error, has_effect } => failed(&server, &name, &error, has_effect),
            Fault::Rpc(error) => error,
            Fault::Hidden => RpcError::invalid_params("the item is unknown"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Request { error, .. } => ErrorChain::new(error).fmt(f),
            Self::Rpc(error) => error.fmt(f),
            Self::Hidden => f.write_str("the policies hide the item"),
        }
    }
}

impl Fault {
    /// Returns the fault of a request whose repetition can repeat its effect.
    pub(super) fn with_effect(self) -> Self {
        match self {
            Self::Request { server, name, error, .. } => Self::Request { server, name, error, has_effect: true },
            fault => fault,
        }
    }

    /// Returns the fault of a later round that cannot be repeated alone: its client can only repeat the whole call, or its state is used.
    /// An error that permits a repetition of the round does not permit a repetition of the call, also if it is that of the server.
    pub(super) fn without_repetition(self) -> Self {
        use CallError::{Refused, Unknown, UnknownServer};
        if matches!(self, Self::Hidden | Self::Call(Refused(_) | Unknown(_) | UnknownServer { .. })) {
            return self;
        }
        let mut error = RpcError::from(self);
        if let Some(Value::Object(data)) = &mut error.data {
            let is_busy = data.get("reason").is_some_and(|reason| reason == "busy");
            if is_busy || data.get("retryable") == Some(&Value::Bool(true)) {
                data.insert("retryable".to_owned(), false.into());
                data.remove("retryAfterMs");
            }
            if is_busy {
                data.remove("reason");
            }
        }
        Self::Rpc(error)
    }

    /// Whether the server answered the request, with an error.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Request { error, .. } if error.rpc().is_some())
    }

    /// Whether the server of the request does not support it.
    pub(super) fn is_unsupported(&self) -> bool {
        match self {
            Self::Request { error, .. } => error.is_unsupported(),
            Self::Call(_) | Self::Hidden => false,
            Self::Rpc(error) => error.code == ErrorCode::METHOD_NOT_FOUND,
        }
    }
}

/// Returns the fault of a request of the host. A server without the capability for the request does not receive it.
pub(super) fn of_request(server: &str, name: impl Into<Box<str>>, error: mcp_client::Error) -> Fault {
    if error.is_unsupported() && error.rpc().is_none() {
        let text = format!("the server {server:?} does not support the request: {error}");
        return RpcError::new(ErrorCode::METHOD_NOT_FOUND, text).with_data(json!({ "server": server })).into();
    }
    Fault::Request { server: server.into(), name: name.into(), error, has_effect: false }
}

/// Returns the fault of a subscription at a server that runs. The client can subscribe again.
pub(super) fn of_subscription(server: &str, reason: &'static str) -> Fault {
    tracing::warn!(server, reason, "a subscription failed");
    RpcError::internal(reason).with_data(json!({ "server": server, "retryable": true })).into()
}

/// Returns the error of a request to a server for a client. Errors of the server pass unchanged. The reasons of the gateway stay in its
/// log.
fn failed(server: &str, name: &str, failed: &mcp_client::Error, has_effect: bool) -> RpcError {
    match failed.rpc() {
        Some(error) if is_of_transport(error.code) => {
            tracing::warn!(server, name, %error, "a server answered with an error of the protocol");
            let mut data = json!({ "server": server, "code": error.code });
            if let Some(of_server) = &error.data {
                data["data"] = of_server.clone();
            }
            // The text of a gateway about a loop is for its user.
            let is_loop = data["data"]["reason"] == LOOP;
            let prefix = if is_loop { "" } else { "the server rejected the request: " };
            RpcError::internal(format!("{prefix}{}", error.message)).with_data(data)
        }
        Some(error) => error.clone(),
        None => {
            tracing::warn!(server, name, error = %ErrorChain::new(failed), "a request of a server failed");
            let is_refused = failed.http_status().map(HttpStatus::of) == Some(HttpStatus::TooMany);
            let has_run = has_effect && failed.was_sent() && !is_refused;
            let is_retryable = failed.is_retryable() && !has_run;
            let data = json!({ "server": server, "retryable": is_retryable });
            let wait = failed.retry_after().filter(|_| is_retryable);
            RpcError::internal(text_of(failed)).with_data(with_wait(data, wait))
        }
    }
}

/// Returns the text of a request without an answer for a client.
fn text_of(failed: &mcp_client::Error) -> Cow<'static, str> {
    let text = match failed.http_status() {
        _ if failed.is_timeout() => "the server did not answer in time",
        _ if failed.is_invalid_response() => "the answer of the server is not valid",
        _ if failed.is_too_large() => {
            let limit = failed.source().map_or_else(|| failed.to_string(), ToString::to_string);
            return format!("the answer of the server is too large: {limit}").into();
        }
        Some(_) if failed.is_unauthorized() => "the server did not accept the credentials of the request",
        Some(status) => return format!("the server answered with HTTP status {status}").into(),
        None if failed.is_unauthorized() && failed.is_retryable() => {
            "the authorization server of the server is not available"
        }
        None if failed.is_unauthorized() => "the gateway has no valid credentials for the server",
        None => failed.summary().unwrap_or("the connection to the server failed"),
    };
    text.into()
}

/// Adds the wait before the next attempt to the data of an error.
fn with_wait(mut data: Value, wait: Option<Duration>) -> Value {
    if let Some(wait) = wait {
        data["retryAfterMs"] = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).into();
    }
    data
}

/// Returns the error of the host for a client.
fn rpc_error(error: &CallError) -> RpcError {
    match error {
        CallError::Unavailable { server, state, retry_in, .. } => {
            tracing::warn!(%error, "a server is not available");
            // Only the operator of the gateway can change these states.
            let is_retryable = !matches!(state, ServerState::NeedsLogin | ServerState::NeedsApproval);
            let data = json!({ "server": server, "state": state, "retryable": is_retryable });
            let data = with_wait(data, retry_in.filter(|_| is_retryable));
            // A server that is ready lacks only a connection for this client. The reason can contain details of the host.
            let text = match state {
                ServerState::Ready | ServerState::Degraded => {
                    format!("no connection to the server {server:?} is free for this client")
                }
                ServerState::NeedsLogin => {
                    format!("the server {server:?} needs a login of the operator of the gateway")
                }
                ServerState::NeedsApproval => {
                    format!("the server {server:?} needs an approval of the operator of the gateway")
                }
                _ => format!("the server {server:?} is not available ({state})"),
            };
            RpcError::internal(text).with_data(data)
        }
        CallError::Token { server, fault, retry_in } => {
            let data = json!({ "server": server, "reason": fault.as_str(), "retryable": fault.is_temporary() });
            let data = with_wait(data, *retry_in);
            let text = fault.to_string();
            let error = if fault.is_temporary() { RpcError::internal(text) } else { RpcError::invalid_request(text) };
            error.with_data(data)
        }
        CallError::Refused(refusal) => RpcError::invalid_request(refusal.text_of_gateway()),
        CallError::Changed { tool, .. } => RpcError::invalid_params(format!(
            "the definition of {tool:?} changed during the call: list the tools again"
        )),
        CallError::UnknownServer { .. } => RpcError::invalid_params("the server does not exist any more"),
        other => RpcError::invalid_params(other.to_string()),
    }
}

/// Whether an error is about the messages between the gateway and the server. For the client, it would be about the gateway: a client
/// negotiates again, or lists the tools again.
fn is_of_transport(code: ErrorCode) -> bool {
    [
        ErrorCode::HEADER_MISMATCH,
        ErrorCode::INVALID_REQUEST,
        ErrorCode::METHOD_NOT_FOUND,
        ErrorCode::PARSE_ERROR,
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
    ]
    .contains(&code)
}

/// Returns the outcome of a call of a tool that failed. A model reads a refusal as the result of its call.
pub(super) fn of_tool(fault: Fault, name: &str) -> Result<SourceOutcome, RpcError> {
    let refusal = match fault {
        Fault::Call(CallError::Refused(refusal)) => refusal,
        Fault::Hidden | Fault::Call(CallError::Unknown(_) | CallError::UnknownServer { .. }) => {
            return Err(RpcError::invalid_params(format!("Unknown tool: {}", Excerpt::new(name))));
        }
        fault => return Err(fault.into()),
    };
    let result = CallToolResult::error(refusal.text_of_gateway());
    let json = serde_json::to_vec(&result).map_err(|error| RpcError::internal(error.to_string()))?;
    Ok(SourceOutcome::Complete(SourceResult::new(json, ProtocolVersion::LATEST_LEGACY).failed()))
}

/// Returns the error of a read. A server names its own URI in the error for a resource that it does not have. `original` is the URI at
/// the server, and `uri` is that of the client.
pub(super) fn of_read(fault: Fault, version: ProtocolVersion, uri: &str, original: &str) -> RpcError {
    if matches!(fault, Fault::Hidden) {
        return RpcError::resource_not_found(version, uri);
    }
    let mut error = RpcError::from(fault);
    let named = error.data.as_ref().and_then(|data| data.get("uri")?.as_str());
    let is_of_uri = named == Some(original);
    if error.code != ErrorCode::RESOURCE_NOT_FOUND && !(error.code == ErrorCode::INVALID_PARAMS && is_of_uri) {
        return error;
    }
    let names_no_uri = named.is_none();
    let not_found = RpcError::resource_not_found(version, uri);
    (error.code, error.message) = (not_found.code, not_found.message);
    match &mut error.data {
        Some(Value::Object(data)) if is_of_uri || names_no_uri => drop(data.insert("uri".to_owned(), uri.into())),
        Some(Value::Object(_)) => {}
        data => *data = not_found.data,
    }
    error
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_a_server_that_can_become_available_without_the_operator_is_worth_a_repetition() {
        use ServerState::{Degraded, Failed, NeedsApproval, NeedsLogin, Ready, Starting, Stopped};
        for (state, is_retryable, text) in [
            (NeedsLogin, false, "the server \"s\" needs a login of the operator of the gateway"),
            (NeedsApproval, false, "the server \"s\" needs an approval of the operator of the gateway"),
            (Failed, true, "the server \"s\" is not available (failed)"),
            (Starting, true, "the server \"s\" is not available (starting)"),
            (Stopped, true, "the server \"s\" is not available (stopped)"),
            (Ready, true, "no connection to the server \"s\" is free for this client"),
            (Degraded, true, "no connection to the server \"s\" is free for this client"),
        ] {
            let (server, reason) = ("s".to_owned(), Some("the issuer is https://idp.internal".to_owned()));
            let retry_in = Some(Duration::from_secs(1));
            let error = RpcError::from(Fault::from(CallError::Unavailable { server, state, reason, retry_in }));
            let mut data = json!({ "server": "s", "state": state, "retryable": is_retryable });
            if is_retryable {
                data["retryAfterMs"] = json!(1000);
            }
            assert_eq!((error.code.0, &*error.message, error.data), (-32603, text, Some(data)));
        }
    }

    #[test]
    fn a_round_that_cannot_be_repeated_permits_no_repetition_of_its_call() {
        let unavailable = CallError::Unavailable {
            server: "s".to_owned(),
            state: ServerState::Failed,
            reason: None,
            retry_in: Some(Duration::from_secs(1)),
        };
        let token = CallError::Token {
            server: "s".to_owned(),
            fault: crate::TokenFault::Unavailable,
            retry_in: Some(Duration::from_secs(1)),
        };
        let rpc = |data: Value| Fault::from(RpcError::internal("x").with_data(data));
        for (fault, expected) in [
            (unavailable.into(), json!({ "server": "s", "state": "failed", "retryable": false })),
            (token.into(), json!({ "server": "s", "reason": "token_endpoint_unavailable", "retryable": false })),
            (
                rpc(json!({ "reason": "busy", "retryAfterMs": 1, "later": 1 })),
                json!({ "later": 1, "retryable": false }),
            ),
            (rpc(json!({ "retryable": true, "retryAfterMs": 1 })), json!({ "retryable": false })),
            (rpc(json!({ "retryable": "often" })), json!({ "retryable": "often" })),
            (rpc(json!(7)), json!(7)),
        ] {
            assert_eq!(RpcError::from(fault.without_repetition()).data, Some(expected));
        }
        // The gateway reports these faults as an unknown item.
        assert!(matches!(Fault::Hidden.without_repetition(), Fault::Hidden));
    }

    #[test]
    fn only_the_error_about_the_requested_resource_names_the_uri_of_the_client() {
        let (uri, original) = ("mcp://s/x:a", "x:a");
        let read = |code: ErrorCode, data: Value| {
            let error = RpcError::new(code, "no").with_data(data);
            of_read(error.into(), ProtocolVersion::V2026_07_28, uri, original)
        };
        let (not_found, invalid) = (ErrorCode::RESOURCE_NOT_FOUND, ErrorCode::INVALID_PARAMS);
        for (code, data, expected) in [
            (not_found, json!({ "uri": "x:a", "later": 1 }), json!({ "uri": uri, "later": 1 })),
            (not_found, json!({ "later": 1 }), json!({ "later": 1, "uri": uri })),
            (not_found, json!(7), json!({ "uri": uri })),
            (invalid, json!({ "uri": "x:a", "later": 1 }), json!({ "uri": uri, "later": 1 })),
        ] {
            let error = read(code, data.clone());
            let expected = (RpcError::resource_not_found(ProtocolVersion::V2026_07_28, uri).code, Some(expected));
            assert_eq!((error.code, error.data), expected, "{code:?} {data}");
        }
        // An error about another member of the parameters.
        for data in [json!({ "uri": "x:b" }), json!({ "uri": 1 }), json!({ "field": "range" })] {
            let error = read(invalid, data.clone());
            assert_eq!((error.code, &*error.message, error.data), (invalid, "no", Some(data)));
        }
        let hidden = of_read(Fault::Hidden, ProtocolVersion::V2025_11_25, uri, original);
        assert_eq!(hidden, RpcError::resource_not_found(ProtocolVersion::V2025_11_25, uri));
    }
}
