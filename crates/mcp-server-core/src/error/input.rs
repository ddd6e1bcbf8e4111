//! The error of an input request.

use std::fmt;

use mcp_protocol::{ClientCapabilities, RpcError};

use super::{Fault, ToolError};
use crate::random::NoRandomNumbers;

/// The error of an input request. The reasons are the same in every revision.
///
/// `?` converts it into a [`ToolError`] whose text the model reads, for example that the user declined.
///
/// # Example
/// ```
/// use mcp_server_core::{InputError, Inputs};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Name {
///     name: String,
/// }
///
/// async fn greet(inputs: Inputs) -> Result<String, InputError> {
///     match inputs.elicit::<Name>("name", "What is your name?").await {
///         Ok(answer) => Ok(format!("Hello, {}!", answer.name)),
///         Err(error) if error.is_declined() || error.is_cancelled() => Ok("Hello!".to_owned()),
///         Err(error) if error.is_unsupported() => Ok(format!("the client lacks {:?}", error.missing())),
///         Err(error) if error.is_timeout() || error.is_invalid() => Ok("Hello, stranger!".to_owned()),
///         Err(error) if error.is_refused() => Ok(format!("the client answered {:?}", error.rpc())),
///         Err(error) if error.is_gone() || error.is_misuse() => Err(error),
///         Err(error) => Err(error),
///     }
/// }
/// # let _ = greet;
/// ```
#[derive(Debug, Clone)]
pub struct InputError(Box<Reason>);

#[derive(Debug, Clone)]
enum Reason {
    Declined,
    Cancelled,
    Unsupported {
        missing: Box<ClientCapabilities>,
        /// Whether input requests are impossible here, because the endpoint has no sessions.
        lacks_session: bool,
    },
    TimedOut,
    Invalid(String),
    Refused(RpcError),
    Misuse(Fault),
    Fault(Fault),
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

    /// Creates an error for a fault of the handler or the server. `tracing` records the details under a reference
    /// number.
    pub(crate) fn misuse(problem: impl Into<String>) -> Self {
        let (event, text) = ("a handler made an invalid input request", "the server sent an invalid input request");
        Self(Box::new(Reason::Misuse(Fault::report(event, text, &problem.into()))))
    }

    /// Creates the error of a server that cannot create the input request.
    pub(crate) fn failed(problem: &dyn fmt::Display) -> Self {
        let text = "the server failed to create the input request";
        Self(Box::new(Reason::Fault(Fault::report("an input request failed", text, problem))))
    }

    pub(crate) fn gone() -> Self {
        Self(Box::new(Reason::Gone))
    }

    /// Whether the user declined.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_declined(&self) -> bool {
        matches!(*self.0, Reason::Declined)
    }

    /// Whether the user closed the input request without an answer.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.0, Reason::Cancelled)
    }

    /// Whether the client did not declare a needed capability. No input request was sent.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(*self.0, Reason::Unsupported { .. })
    }

    /// Whether the answer was late.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(*self.0, Reason::TimedOut)
    }

    /// Returns the needed capabilities that the client did not declare.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn missing(&self) -> Option<&ClientCapabilities> {
        match &*self.0 {
            Reason::Unsupported { missing, .. } => Some(missing),
            _ => None,
        }
    }

    /// Whether the client responded with an error: see [`InputError::rpc`].
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(*self.0, Reason::Refused(_))
    }

    /// Whether the client has disconnected, or the call is over.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(*self.0, Reason::Gone)
    }

    /// Whether the input request was invalid: a key that was used twice, an invalid form, or an input request inside of
    /// [`Inputs::once`](crate::Inputs::once). `tracing` records the details.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_misuse(&self) -> bool {
        matches!(*self.0, Reason::Misuse(_))
    }

    /// Whether the server failed to create the input request. `tracing` records the details.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        matches!(*self.0, Reason::Fault(_))
    }

    /// Whether the answers were invalid several times.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        matches!(*self.0, Reason::Invalid(_))
    }

    /// Returns the reason why an answer is invalid.
    pub(crate) fn problem(&self) -> Option<&str> {
        match &*self.0 {
            Reason::Invalid(problem) => Some(problem),
            _ => None,
        }
    }

    /// Returns the error that the client responded with.
    ///
    /// See the [example](Self#example).
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
            Reason::Unsupported { .. } => f.write_str("the client does not support this input request"),
            Reason::TimedOut => f.write_str("the client did not answer in time"),
            Reason::Invalid(problem) => write!(f, "the answer did not fit the question: {problem}"),
            Reason::Refused(error) => write!(f, "the client refused: {}", error.message),
            Reason::Misuse(fault) | Reason::Fault(fault) => fault.fmt(f),
            Reason::Gone => f.write_str("the client has disconnected"),
        }
    }
}

impl From<NoRandomNumbers> for InputError {
    fn from(error: NoRandomNumbers) -> Self {
        Self::failed(&error)
    }
}

impl From<InputError> for ToolError {
    fn from(error: InputError) -> Self {
        match *error.0 {
            // The client must learn that it lacks a capability. The model cannot act on it.
            Reason::Unsupported { missing, lacks_session } => {
                let mut error = RpcError::missing_client_capability(&missing);
                if lacks_session {
                    error
                        .message
                        .push_str("; this endpoint has no sessions, so it cannot send input requests in this revision");
                }
                Self::protocol(error)
            }
            Reason::Misuse(fault) | Reason::Fault(fault) => fault.into(),
            _ => Self::server_text(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_text_names_a_missing_session() {
        for (error, expected) in [
            (InputError::unsupported(ClientCapabilities::default()), false),
            (InputError::without_session(ClientCapabilities::default()), true),
        ] {
            let error = ToolError::from(error).into_rpc_error(false, || RpcError::internal("not found"));
            assert_eq!(error.message.contains("cannot send input requests"), expected, "{error}");
        }
    }

    #[test]
    fn an_error_about_misuse_has_a_unique_reference() {
        let [first, second] = ["a", "b"].map(|problem| InputError::misuse(problem).to_string());
        assert!(first.contains("(reference ") && first != second, "{first} {second}");
    }

    fn without_random_numbers() -> InputError {
        let _exhausted = crate::random::tests::exhaust();
        crate::random::id().unwrap_err().into()
    }

    #[test]
    fn each_error_has_one_predicate() {
        let errors = [
            InputError::declined(),
            InputError::cancelled(),
            InputError::unsupported(ClientCapabilities::default()),
            InputError::timed_out(),
            InputError::invalid("no"),
            InputError::refused(RpcError::internal("no")),
            InputError::misuse("a key twice"),
            without_random_numbers(),
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
                error.is_fault(),
                error.is_gone(),
            ];
            let expected: Vec<_> = (0..errors.len()).map(|other| other == at).collect();
            assert_eq!(answers[..], expected, "{error}");
            assert_eq!(error.missing().is_some(), error.is_unsupported());
            assert_eq!(error.rpc().is_some(), error.is_refused());
        }
    }
}
