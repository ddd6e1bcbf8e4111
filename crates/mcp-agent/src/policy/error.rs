//! Errors of policies, and refusals of calls.

use std::fmt;

use super::Effect;

/// The error of a policy file, with its place.
///
/// ```
/// use mcp_agent::policy::Policy;
///
/// let error = Policy::parse("policy.toml", "[[rule]]\neffect = \"maybe\"\n").unwrap_err();
/// assert_eq!(error.line(), Some(2));
/// assert!(error.to_string().contains("expected one of `allow`, `ask`, `deny`"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    file: String,
    place: Option<(usize, usize)>,
    message: String,
}

impl PolicyError {
    pub(super) fn at(file: String, place: Option<(usize, usize)>, message: &str) -> Self {
        Self { file, place, message: message.to_owned() }
    }

    /// Returns the name of the file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the line, from 1.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.place.map(|(line, _)| line)
    }

    /// Returns the column in characters, from 1.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        self.place.map(|(_, column)| column)
    }

    /// Returns the text without the place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for PolicyError {}

/// The refusal of a call. The text is safe for the model: it names the tool and the reason.
///
/// ```
/// use mcp_agent::policy::{Effect, Gate, Policy, PolicyInput, RefusalKind, Rule};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let rule = Rule::new(Effect::Deny).reason("Guests have read access only.");
/// let gate = Gate::new().policy(Policy::new().rule(rule));
/// let refusal = gate.check(&PolicyInput::new("files", "write")).await.unwrap_err();
/// assert_eq!(refusal.kind(), RefusalKind::Denied);
/// assert_eq!(refusal.to_string(), "a policy denies the call of \"write\" of \"files\": Guests have read access only.");
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    kind: RefusalKind,
    server: String,
    tool: String,
    reason: Option<String>,
}

/// The kind of a [`Refusal`].
///
/// ```
/// use mcp_agent::policy::{Effect, Gate, PolicyInput, RefusalKind};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let gate = Gate::new().default_effect(Effect::Ask);
/// let refusal = gate.check(&PolicyInput::new("files", "write")).await.unwrap_err();
/// assert_eq!(refusal.kind(), RefusalKind::NoApprover);
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// A rule, a hook or the default denies the call.
    Denied,
    /// A person rejected the call.
    Rejected,
    /// No person answered within the time limit.
    ApprovalTimedOut,
    /// The call needs an approval, and the host has no approver.
    NoApprover,
    /// Too many other calls wait for an approval.
    TooManyPending,
    /// A hook did not decide within the time limit.
    HookTimedOut,
}

impl Refusal {
    pub(super) fn new(kind: RefusalKind, server: &str, tool: &str, reason: Option<String>) -> Self {
        Self { kind, server: server.to_owned(), tool: tool.to_owned(), reason }
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        self.kind
    }

    /// Returns the reason of the rule or of the hook.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, server, tool, reason } = self;
        match kind {
            RefusalKind::Denied => write!(f, "a policy denies the call of {tool:?} of {server:?}")?,
            RefusalKind::Rejected => write!(f, "the user rejected the call of {tool:?} of {server:?}")?,
            RefusalKind::ApprovalTimedOut => {
                write!(f, "the call of {tool:?} of {server:?} needs an approval, and the user did not answer in time")?;
            }
            RefusalKind::NoApprover => {
                let effect = Effect::Ask;
                write!(f, "the policy for the call of {tool:?} of {server:?} is `{effect}`, and the host cannot ask")?;
            }
            RefusalKind::TooManyPending => {
                write!(
                    f,
                    "the call of {tool:?} of {server:?} needs an approval, and too many other calls wait for theirs"
                )?;
            }
            RefusalKind::HookTimedOut => {
                write!(f, "the policy for the call of {tool:?} of {server:?} was not decided in time")?;
            }
        }
        reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

impl std::error::Error for Refusal {}
