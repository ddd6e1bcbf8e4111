//! The typed outcome of a handler, before it is written as a response.

use mcp_protocol::{
    CallToolResult, CompleteResult, GetPromptResult, InputRequests, InputRequiredResult, ReadResourceResult, RpcError,
    tasks::{CreateTaskResult, ext},
};

use crate::trace::Ending;

/// The output of a handler, before it is written as JSON.
#[derive(Debug)]
pub(crate) enum Output {
    Tool(CallToolResult),
    Resource(ReadResourceResult),
    Prompt(GetPromptResult),
    Completion(CompleteResult),
    InputRequired(InputRequiredResult),
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
    /// Returns the end that the span of the request records.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::Cancelled => Ending::Cancelled,
            Self::Error(error) => Ending::Error(error.code),
        }
    }
}

/// Returns the end that the span of a request records.
pub(crate) fn ending(outcome: &Result<Output, Stop>) -> Ending {
    match outcome {
        Ok(Output::Tool(CallToolResult { is_error: true, .. })) => Ending::ToolError,
        Ok(_) => Ending::Done,
        Err(stop) => stop.ending(),
    }
}
