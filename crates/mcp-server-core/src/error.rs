//! The errors of handlers and of their input requests, and the part of each that a client may read.

mod bounded;
mod fault;
mod input;
mod panic;
mod stderr;
mod subject;

use std::{error::Error, fmt};

use mcp_protocol::{CallToolResult, ContentBlock, ErrorChain, RpcError};

pub(crate) use self::fault::{Fault, report_background, warn};
pub use self::input::InputError;
pub(crate) use self::panic::contain;
pub use self::panic::{Panic, contain_async};
pub use self::stderr::flush_faults;
pub(crate) use self::subject::{FaultItem, Named, for_subject, with_subject};
use crate::random::NoRandomNumbers;

/// The text of a failed call for the client.
pub(crate) const CALL_FAILED: &str = "the call failed on the server";

/// The error of a handler.
///
/// A tool returns it as a result with `isError: true`, which the model reads. A resource, a prompt or a completion
/// returns it as a JSON-RPC error: `-32603`, or `-32602` for a text of [`ToolError::new`] in a prompt, whose arguments are
/// its only input. Only deliberate text reaches the client:
///
/// - [`ToolError::new`] and [`Visible::visible`] send their text to the model;
/// - `?` on any other error sends a short text with a reference number, and `tracing` records the details. In a process
///   without a `tracing` subscriber, stderr receives them;
/// - [`ToolError::protocol`] reports a fault of the request itself.
///
/// The type does not implement `std::error::Error`, because `?` must convert every error into it.
///
/// # Example
/// ```
/// use mcp_protocol::{CallToolResult, RpcError};
/// use mcp_server_core::{Server, ToolError, Visible, tool};
///
/// async fn read() -> Result<String, ToolError> {
///     let port: u16 = "80x".parse().visible()?;
///     match port {
///         0 => Err(ToolError::not_found()),
///         1..1024 => Err(ToolError::new("the port must be at least 1024")),
///         1024 => Err(ToolError::protocol(RpcError::invalid_params("the port is reserved"))),
///         1025 => Err(ToolError::fault(&std::io::Error::other("details for the log"))),
///         1026 => Err(ToolError::content(CallToolResult::text("the port is closed"))),
///         _ => Ok(port.to_string()),
///     }
/// }
///
/// let server = Server::builder("ports", "1.0").tool(tool("read", read)).build();
/// # let _ = server;
/// ```
#[derive(Debug)]
pub struct ToolError(Box<Failure>);

#[derive(Debug)]
enum Failure {
    /// A deliberate text of the handler.
    Text(String),
    /// A text of the server about a failure that the arguments did not cause.
    ServerText(String),
    Fault(Fault),
    Content(CallToolResult),
    Rpc(RpcError),
    NotFound,
}

impl ToolError {
    /// Creates an error with a text for the model: the cause, and a way to succeed.
    ///
    /// See the [example](Self#example).
    pub fn new(text: impl Into<String>) -> Self {
        Self(Box::new(Failure::Text(text.into())))
    }

    /// Creates an error with its own content: blocks, structured content, `_meta`.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn content(mut result: CallToolResult) -> Self {
        result.is_error = true;
        Self(Box::new(Failure::Content(result)))
    }

    /// Creates a JSON-RPC error instead of a result, for a fault of the request itself.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn protocol(error: RpcError) -> Self {
        Self(Box::new(Failure::Rpc(error)))
    }

    /// Creates an error for an unknown item. A resource returns the error code of the revision for it.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn not_found() -> Self {
        Self(Box::new(Failure::NotFound))
    }

    /// Creates an error whose details go to `tracing`. The client receives a reference number to find them, and the details
    /// only if the server [shows faults](crate::ServerBuilder::show_faults).
    ///
    /// See the [example](Self#example).
    pub fn fault(error: &(dyn Error + 'static)) -> Self {
        Fault::report("a handler failed", CALL_FAILED, &ErrorChain::new(error)).into()
    }

    /// Creates an error with a text of the server itself. In a prompt, it is not an error of the arguments.
    pub(crate) fn server_text(text: impl Into<String>) -> Self {
        Self(Box::new(Failure::ServerText(text.into())))
    }

    /// Returns the error as the result of a tool, or as a JSON-RPC error.
    pub(crate) fn into_tool_result(self, shows_faults: bool) -> Result<CallToolResult, RpcError> {
        let text = match *self.0 {
            Failure::Text(text) | Failure::ServerText(text) => text,
            Failure::Fault(fault) => fault.text(shows_faults),
            Failure::NotFound => "not found".to_owned(),
            Failure::Content(result) => return Ok(result),
            Failure::Rpc(error) => return Err(error),
        };
        let mut result = CallToolResult::new(vec![ContentBlock::text(text)]);
        result.is_error = true;
        Ok(result)
    }

    /// Returns the error as a JSON-RPC error. `not_found` creates the error of this request for an unknown item.
    pub(crate) fn into_rpc_error(self, shows_faults: bool, not_found: impl FnOnce() -> RpcError) -> RpcError {
        match *self.0 {
            Failure::Text(text) | Failure::ServerText(text) => RpcError::internal(text),
            Failure::Fault(fault) => RpcError::internal(fault.text(shows_faults)),
            Failure::Content(result) => {
                let text = result.content.iter().find_map(ContentBlock::as_text).unwrap_or("the call failed");
                RpcError::internal(text)
            }
            Failure::Rpc(error) => error,
            Failure::NotFound => not_found(),
        }
    }

    /// Returns the error of a prompt as a JSON-RPC error. A prompt has no input except its arguments, so a deliberate text
    /// is an error of the arguments: `-32602`.
    pub(crate) fn into_prompt_error(self, shows_faults: bool) -> RpcError {
        match *self.0 {
            Failure::Text(text) => RpcError::invalid_params(text),
            other => Self(Box::new(other)).into_rpc_error(shows_faults, || RpcError::invalid_params("not found")),
        }
    }
}

impl From<Fault> for ToolError {
    fn from(fault: Fault) -> Self {
        Self(Box::new(Failure::Fault(fault)))
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::fault(&error)
    }
}

/// The caller receives a reference number, and `tracing` records the details.
impl From<NoRandomNumbers> for RpcError {
    fn from(error: NoRandomNumbers) -> Self {
        Self::internal(Fault::report("a request failed", "the request failed on the server", &error).to_string())
    }
}

/// Makes the text of any error visible to the model.
///
/// ```
/// use mcp_server_core::{ToolError, Visible};
///
/// fn parse(text: &str) -> Result<u16, ToolError> {
///     text.parse::<u16>().visible() // the model reads "invalid digit found in string"
/// }
/// # let _ = parse;
/// ```
pub trait Visible<T> {
    /// Converts the error into a [`ToolError`] with the same text.
    ///
    /// # Errors
    /// The error, as a [`ToolError`] with its text.
    fn visible(self) -> Result<T, ToolError>;
}

impl<T, E: fmt::Display> Visible<T> for Result<T, E> {
    fn visible(self) -> Result<T, ToolError> {
        self.map_err(|error| ToolError::new(error.to_string()))
    }
}
