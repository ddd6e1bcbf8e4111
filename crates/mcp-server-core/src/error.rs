//! The errors of handlers and of their input requests, and the part of each that a client may read.

mod input;

use std::{
    error::Error,
    fmt,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use mcp_protocol::{CallToolResult, ContentBlock, RpcError};

pub use self::input::InputError;

/// The failure of a handler.
///
/// A tool answers it as a result with `isError: true`, which the model reads; a resource, a prompt or a completion as a
/// JSON-RPC error. It speaks on purpose only:
///
/// - [`ToolError::new`] and [`Visible::visible`] say their text to the model;
/// - `?` on any other error gives a short text with a reference number, and the details go to `tracing`;
/// - [`ToolError::protocol`] is for the rare case that is the request's fault and not the model's.
///
/// It is not a `std::error::Error` itself: that is the price of `?` on every error.
#[derive(Debug)]
pub struct ToolError(Box<Failure>);

#[derive(Debug)]
enum Failure {
    Text(String),
    Content(CallToolResult),
    Rpc(RpcError),
    NotFound,
}

impl ToolError {
    /// A failure in words for the model: what went wrong, and what would go right.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Box::new(Failure::Text(text.into())))
    }

    /// A failure with content of its own: blocks, structured content, `_meta`. It is marked as an error.
    #[must_use]
    pub fn content(mut result: CallToolResult) -> Self {
        result.is_error = true;
        Self(Box::new(Failure::Content(result)))
    }

    /// A JSON-RPC error instead of a result: for what is wrong with the request itself.
    #[must_use]
    pub fn protocol(error: RpcError) -> Self {
        Self(Box::new(Failure::Rpc(error)))
    }

    /// The thing asked for does not exist: a resource answers with the code that the revision has for it.
    #[must_use]
    pub fn not_found() -> Self {
        Self(Box::new(Failure::NotFound))
    }

    /// A fault whose details go to `tracing`; the peer learns a reference number that finds them.
    pub fn fault(error: &(dyn Error + 'static)) -> Self {
        let reference = next_reference();
        tracing::error!(reference, error = %Chain(error), "a handler failed");
        Self::new(format!("the call failed on the server (reference {reference})"))
    }

    /// A panic: like [`ToolError::fault`].
    pub(crate) fn panic(payload: &(dyn std::any::Any + Send)) -> Self {
        let text = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("not a text");
        let reference = next_reference();
        tracing::error!(reference, panic = text, "a handler panicked");
        Self::new(format!("the call failed on the server (reference {reference})"))
    }

    /// As the result of a tool, or as the JSON-RPC error that it asked for.
    pub(crate) fn into_tool_result(self) -> Result<CallToolResult, RpcError> {
        match *self.0 {
            Failure::Text(text) => {
                let mut result = CallToolResult::new(vec![ContentBlock::text(text)]);
                result.is_error = true;
                Ok(result)
            }
            Failure::Content(result) => Ok(result),
            Failure::Rpc(error) => Err(error),
            Failure::NotFound => {
                let mut result = CallToolResult::new(vec![ContentBlock::text("not found")]);
                result.is_error = true;
                Ok(result)
            }
        }
    }

    /// As a JSON-RPC error; `not_found` is what this request answers for a thing that does not exist.
    pub(crate) fn into_rpc_error(self, not_found: impl FnOnce() -> RpcError) -> RpcError {
        match *self.0 {
            Failure::Text(text) => RpcError::internal(text),
            Failure::Content(result) => {
                let text = result.content.iter().find_map(ContentBlock::as_text).unwrap_or("the call failed");
                RpcError::internal(text)
            }
            Failure::Rpc(error) => error,
            Failure::NotFound => not_found(),
        }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::fault(&error)
    }
}

/// Lets an error's own text through to the model, on purpose.
pub trait Visible<T> {
    /// The same result, whose error says its own text to the model.
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

/// An error with its sources, on one line.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// A number that is unlikely to repeat across restarts, so that a log search finds one event.
pub(crate) fn next_reference() -> String {
    static NEXT: OnceLock<AtomicU32> = OnceLock::new();
    let next = NEXT.get_or_init(|| {
        let mut seed = [0; 4];
        // Without a random source the count starts at zero: the number is a convenience, not a secret.
        let _ = getrandom::fill(&mut seed);
        AtomicU32::new(u32::from_le_bytes(seed))
    });
    format!("{:08x}", next.fetch_add(1, Ordering::Relaxed))
}
