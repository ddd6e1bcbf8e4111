//! The end of a request, as its span and its access event record it.

use std::borrow::Cow;

use mcp_protocol::ErrorCode;

/// The end of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    Done,
    /// A tool result with `isError`.
    ToolError,
    /// The client cancelled the request, or its connection was lost.
    Cancelled,
    /// The handler did not finish in time. The response is a tool result, or an error with this code.
    TimedOut(Option<ErrorCode>),
    /// A limit of running requests was reached.
    Busy,
    /// The request was rejected before it ran.
    Refused(ErrorCode),
    /// The request was rejected, because its caller lacks scopes.
    LacksScopes,
    Error(ErrorCode),
}

impl Ending {
    /// Returns the same end of a handler whose time limit is over.
    pub(crate) fn after_time_limit(self) -> Self {
        match self {
            Self::ToolError => Self::TimedOut(None),
            Self::Error(code) => Self::TimedOut(Some(code)),
            other => other,
        }
    }

    /// Returns the value of `outcome`.
    pub(super) fn outcome(self) -> &'static str {
        match self {
            Self::Done => "ok",
            Self::ToolError => "tool_error",
            Self::Cancelled => "cancelled",
            Self::TimedOut(_) => "timeout",
            Self::Busy => "busy",
            Self::Refused(_) | Self::LacksScopes => "refused",
            Self::Error(_) => "error",
        }
    }

    /// Returns the value of `error.type`.
    pub(super) fn error_type(self) -> Option<Cow<'static, str>> {
        match self {
            Self::Done => None,
            Self::LacksScopes => Some("insufficient_scope".into()),
            Self::Refused(code) | Self::Error(code) => Some(code.to_string().into()),
            Self::ToolError | Self::Cancelled | Self::TimedOut(_) | Self::Busy => Some(self.outcome().into()),
        }
    }

    /// Returns the code of the JSON-RPC error that the client receives.
    pub(super) fn code(self) -> Option<ErrorCode> {
        match self {
            Self::Done | Self::ToolError | Self::Cancelled | Self::LacksScopes => None,
            Self::TimedOut(code) => code,
            Self::Busy => Some(ErrorCode::INTERNAL_ERROR),
            Self::Refused(code) | Self::Error(code) => Some(code),
        }
    }
}
