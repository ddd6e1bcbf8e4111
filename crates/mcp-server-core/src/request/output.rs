//! The typed outcome of a handler, before it is written as a response.

use mcp_protocol::{
    CallToolResult, CompleteResult, GetPromptResult, InputRequests, InputRequiredResult, ReadResourceResult, RpcError,
    tasks::{CreateTaskResult, ext},
};

use super::RawOutput;
use crate::{shutdown::Cause, trace::Ending};

/// The output of a handler, before it is written as JSON.
#[derive(Debug)]
pub(crate) enum Output {
    Tool(CallToolResult),
    Resource(ReadResourceResult),
    Prompt(GetPromptResult),
    Completion(CompleteResult),
    InputRequired(InputRequiredResult),
    /// The result of a source.
    Raw(Box<RawOutput>),
    /// A task that the client requested (2025-11-25).
    TaskOfClient(CreateTaskResult),
    /// A task that the server created (the tasks extension).
    TaskOfServer(ext::CreateTaskResult),
}

/// The reason for a missing output.
#[derive(Debug)]
pub(crate) enum Stop {
    Cancelled,
    Error(RpcError),
    /// The connection ended, and the call ran longer than the grace period. The response is this error.
    Disconnected(RpcError),
}

impl From<RpcError> for Stop {
    fn from(error: RpcError) -> Self {
        Self::Error(error)
    }
}

/// The end of one run of a handler.
#[derive(Debug)]
pub(crate) enum Performed {
    Output(Output),
    /// The handler sent input requests. The value that it returned does not count.
    InputRequired(InputRequests),
}

impl Stop {
    /// Returns the reason for a call that ran longer than the grace period.
    pub(crate) fn after_grace_period(cause: Cause) -> Self {
        match cause {
            Cause::ServerShutdown => Self::Error(cause.error()),
            Cause::ClientClosed | Cause::ConnectionFailed => Self::Disconnected(cause.error()),
        }
    }

    /// Returns the error of the response. A cancelled request has no response.
    pub(crate) fn into_error(self) -> Option<RpcError> {
        match self {
            Self::Cancelled => None,
            Self::Error(error) | Self::Disconnected(error) => Some(error),
        }
    }

    /// Returns the end that the span of the request records.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::Cancelled | Self::Disconnected(_) => Ending::Cancelled,
            Self::Error(error) => Ending::Error(error.code),
        }
    }
}

/// Returns the end that the span of a request records.
pub(crate) fn ending(outcome: &Result<Output, Stop>) -> Ending {
    match outcome {
        Ok(Output::Tool(CallToolResult { is_error: true, .. })) => Ending::ToolError,
        Ok(Output::Raw(raw)) if raw.is_error() => Ending::ToolError,
        Ok(_) => Ending::Done,
        Err(stop) => stop.ending(),
    }
}
