//! Why a question brought no answer.

use std::fmt;

use mcp_protocol::{ClientCapabilities, RpcError};

use crate::handler::ToolError;

/// Why a question brought no answer. The reasons are the same in every revision.
///
/// `?` turns it into a [`ToolError`] whose text the model reads: that the user said no is the model's to know.
#[derive(Debug, Clone)]
pub struct InputError(Box<Reason>);

#[derive(Debug, Clone)]
enum Reason {
    Declined,
    Cancelled,
    Unsupported(Box<ClientCapabilities>),
    TimedOut,
    Invalid(String),
    Refused(RpcError),
    Misuse,
    Gone,
}

impl InputError {
    pub(super) fn declined() -> Self {
        Self(Box::new(Reason::Declined))
    }

    pub(super) fn cancelled() -> Self {
        Self(Box::new(Reason::Cancelled))
    }

    pub(super) fn unsupported(missing: ClientCapabilities) -> Self {
        Self(Box::new(Reason::Unsupported(Box::new(missing))))
    }

    pub(super) fn timed_out() -> Self {
        Self(Box::new(Reason::TimedOut))
    }

    pub(super) fn invalid(problem: impl Into<String>) -> Self {
        Self(Box::new(Reason::Invalid(problem.into())))
    }

    pub(crate) fn refused(error: RpcError) -> Self {
        Self(Box::new(Reason::Refused(error)))
    }

    /// The fault is in the handler or in the server; the words go to `tracing`.
    pub(crate) fn misuse(problem: impl Into<String>) -> Self {
        let problem = problem.into();
        tracing::error!(problem, "a handler asked for something that cannot be asked");
        Self(Box::new(Reason::Misuse))
    }

    pub(crate) fn gone() -> Self {
        Self(Box::new(Reason::Gone))
    }

    /// The user said no.
    #[must_use]
    pub fn is_declined(&self) -> bool {
        matches!(*self.0, Reason::Declined)
    }

    /// The user closed the question without an answer.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.0, Reason::Cancelled)
    }

    /// The client did not declare what the question needs; nothing was asked.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(*self.0, Reason::Unsupported(_))
    }

    /// The answer did not come in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(*self.0, Reason::TimedOut)
    }

    /// The answers did not fit the question, several times.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        matches!(*self.0, Reason::Invalid(_))
    }

    /// The error that the client answered with, where it did.
    #[must_use]
    pub fn rpc(&self) -> Option<&RpcError> {
        match &*self.0 {
            Reason::Refused(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Reason::Declined => f.write_str("the user declined"),
            Reason::Cancelled => f.write_str("the user cancelled"),
            Reason::Unsupported(_) => f.write_str("the client cannot be asked for this"),
            Reason::TimedOut => f.write_str("the client did not answer in time"),
            Reason::Invalid(problem) => write!(f, "the answer did not fit the question: {problem}"),
            Reason::Refused(error) => write!(f, "the client refused: {}", error.message),
            Reason::Misuse => f.write_str("the server asked for something that cannot be asked"),
            Reason::Gone => f.write_str("the client is gone"),
        }
    }
}

impl From<InputError> for ToolError {
    fn from(error: InputError) -> Self {
        match *error.0 {
            // The request cannot be served for this client at all: that is for the client to know, not for the model.
            Reason::Unsupported(missing) => Self::protocol(RpcError::missing_client_capability(&missing)),
            _ => Self::new(error.to_string()),
        }
    }
}
