//! Why a question brought no answer.

use std::fmt;

use mcp_protocol::{ClientCapabilities, RpcError};

use super::{ToolError, next_reference};

/// Why a question brought no answer. The reasons are the same in every revision.
///
/// `?` turns it into a [`ToolError`] whose text the model reads: that the user said no is the model's to know.
#[derive(Debug, Clone)]
pub struct InputError(Box<Reason>);

#[derive(Debug, Clone)]
enum Reason {
    Declined,
    Cancelled,
    Unsupported {
        missing: Box<ClientCapabilities>,
        /// Whether nobody can be asked here, whatever the client can do.
        lacks_session: bool,
    },
    TimedOut,
    Invalid(String),
    Refused(RpcError),
    /// With the number that finds the words in the log.
    Misuse(String),
    Gone,
}

impl InputError {
    pub(crate) fn declined() -> Self {
        Self(Box::new(Reason::Declined))
    }

    pub(crate) fn cancelled() -> Self {
        Self(Box::new(Reason::Cancelled))
    }

    pub(crate) fn unsupported(missing: ClientCapabilities) -> Self {
        Self(Box::new(Reason::Unsupported { missing: Box::new(missing), lacks_session: false }))
    }

    pub(crate) fn without_session(missing: ClientCapabilities) -> Self {
        Self(Box::new(Reason::Unsupported { missing: Box::new(missing), lacks_session: true }))
    }

    pub(crate) fn timed_out() -> Self {
        Self(Box::new(Reason::TimedOut))
    }

    pub(crate) fn invalid(problem: impl Into<String>) -> Self {
        Self(Box::new(Reason::Invalid(problem.into())))
    }

    pub(crate) fn refused(error: RpcError) -> Self {
        Self(Box::new(Reason::Refused(error)))
    }

    /// The fault is in the handler or in the server; the words go to `tracing`, with a reference number that the peer
    /// learns.
    pub(crate) fn misuse(problem: impl Into<String>) -> Self {
        let (problem, reference) = (problem.into(), next_reference());
        tracing::error!(reference, problem, "a handler asked for something that cannot be asked");
        Self(Box::new(Reason::Misuse(reference)))
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
        matches!(*self.0, Reason::Unsupported { .. })
    }

    /// The answer did not come in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(*self.0, Reason::TimedOut)
    }

    /// The capabilities that the client did not declare and the question needs, where that is why.
    #[must_use]
    pub fn missing(&self) -> Option<&ClientCapabilities> {
        match &*self.0 {
            Reason::Unsupported { missing, .. } => Some(missing),
            _ => None,
        }
    }

    /// The client answered with an error: see [`InputError::rpc`].
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(*self.0, Reason::Refused(_))
    }

    /// The client is gone, or the call is over.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(*self.0, Reason::Gone)
    }

    /// The question could not be asked at all: a key used twice, a form that is none, a question inside of
    /// [`Inputs::once`](crate::Inputs::once). The fault is in the handler, and `tracing` has the words.
    #[must_use]
    pub fn is_misuse(&self) -> bool {
        matches!(*self.0, Reason::Misuse(_))
    }

    /// The answers did not fit the question, several times.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        matches!(*self.0, Reason::Invalid(_))
    }

    /// What did not fit, of an answer that did not.
    pub(crate) fn problem(&self) -> Option<&str> {
        match &*self.0 {
            Reason::Invalid(problem) => Some(problem),
            _ => None,
        }
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
            Reason::Unsupported { .. } => f.write_str("the client cannot be asked for this"),
            Reason::TimedOut => f.write_str("the client did not answer in time"),
            Reason::Invalid(problem) => write!(f, "the answer did not fit the question: {problem}"),
            Reason::Refused(error) => write!(f, "the client refused: {}", error.message),
            Reason::Misuse(reference) => {
                write!(f, "the server asked for something that cannot be asked (reference {reference})")
            }
            Reason::Gone => f.write_str("the client is gone"),
        }
    }
}

impl From<InputError> for ToolError {
    fn from(error: InputError) -> Self {
        match *error.0 {
            // The request cannot be served for this client at all: that is for the client to know, not for the model.
            Reason::Unsupported { missing, lacks_session } => {
                let mut error = RpcError::missing_client_capability(&missing);
                if lacks_session {
                    error.message.push_str("; this endpoint has no sessions, and cannot ask clients of this revision");
                }
                Self::protocol(error)
            }
            _ => Self::new(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_asked_without_a_session_is_told() {
        for (error, expected) in [
            (InputError::unsupported(ClientCapabilities::default()), false),
            (InputError::without_session(ClientCapabilities::default()), true),
        ] {
            let error = ToolError::from(error).into_rpc_error(|| RpcError::internal("not found"));
            assert_eq!(error.message.contains("cannot ask clients"), expected, "{error}");
        }
    }

    #[test]
    fn misuse_has_a_number_to_look_for() {
        let [first, second] = ["a", "b"].map(|problem| InputError::misuse(problem).to_string());
        assert!(first.contains("(reference ") && first != second, "{first} {second}");
    }

    #[test]
    fn every_reason_has_one_predicate() {
        let errors = [
            InputError::declined(),
            InputError::cancelled(),
            InputError::unsupported(ClientCapabilities::default()),
            InputError::timed_out(),
            InputError::invalid("no"),
            InputError::refused(RpcError::internal("no")),
            InputError::misuse("a key twice"),
            InputError::gone(),
        ];
        for (at, error) in errors.iter().enumerate() {
            let answers = [
                error.is_declined(),
                error.is_cancelled(),
                error.is_unsupported(),
                error.is_timeout(),
                error.is_invalid(),
                error.is_refused(),
                error.is_misuse(),
                error.is_gone(),
            ];
            let expected: Vec<_> = (0..errors.len()).map(|other| other == at).collect();
            assert_eq!(answers[..], expected, "{error}");
            assert_eq!(error.missing().is_some(), error.is_unsupported());
            assert_eq!(error.rpc().is_some(), error.is_refused());
        }
    }
}
