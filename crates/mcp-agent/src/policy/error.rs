//! Errors of policies, and refusals of calls.

use std::{fmt, path::Path, sync::Arc};

use super::{Action, DecidedBy, PolicyInput};

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

/// The refusal of a call. The text is safe for the model: it names the call, the rule and the reason.
///
/// ```
/// use mcp_agent::policy::{DecidedBy, Effect, Gate, Policy, PolicyInput, RefusalKind, Rule};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let rule = Rule::new(Effect::Deny).reason("Guests have read access only.");
/// let gate = Gate::new().policy(Policy::new().rule(rule));
/// let refusal = gate.check(&PolicyInput::new("files", "write")).await.unwrap_err();
/// assert_eq!((refusal.kind(), refusal.decided_by()), (RefusalKind::Denied, DecidedBy::Rule(1)));
/// let text = "rule 1 of the policy denies the call of \"write\" of \"files\": Guests have read access only.";
/// assert_eq!(refusal.to_string(), text);
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    kind: RefusalKind,
    action: Action,
    is_completion: bool,
    server: String,
    tool: String,
    decided_by: DecidedBy,
    policy: Option<Arc<str>>,
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
    /// The definition of the tool is new or has changed, and no person accepted it ([`pins`](crate::pins)).
    Unaccepted,
    /// The audit event of the call cannot be stored ([`Gate::require_audit`](super::Gate::require_audit)).
    NotRecorded,
    /// A later round of a call does not continue it. The causes:
    ///
    /// - Its state was used, or the call has ended.
    /// - A response is not valid.
    /// - Another server has the name of the server that asked.
    /// - The node has no capacity for used states, or the use of the state cannot be stored.
    NotContinued,
}

impl Refusal {
    pub(super) fn new(
        kind: RefusalKind,
        input: &PolicyInput,
        decided_by: DecidedBy,
        policy: Option<Arc<str>>,
        reason: Option<String>,
    ) -> Self {
        let (action, is_completion) = (input.action, input.is_completion);
        let (server, tool) = (input.server.clone(), input.tool.clone());
        Self { kind, action, is_completion, server, tool, decided_by, policy, reason }
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> RefusalKind {
        self.kind
    }

    /// Returns the source of the decision.
    #[must_use]
    pub fn decided_by(&self) -> DecidedBy {
        self.decided_by
    }

    /// Returns the name of the policy file of the rule.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        self.policy.as_deref()
    }

    /// Returns the reason of the rule or of the hook.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns the text for a caller of a gateway: it names the gateway instead of the host.
    #[cfg(feature = "gateway")]
    pub(crate) fn text_of_gateway(&self) -> String {
        Text { refusal: self, actor: "the gateway" }.to_string()
    }
}

/// The text of a refusal. The actor is the program that decides.
struct Text<'a> {
    refusal: &'a Refusal,
    actor: &'static str,
}

/// The source of a decision, as the subject of a sentence.
struct Source<'a>(&'a Refusal);

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { decided_by, policy, server, .. } = self.0;
        match (decided_by, policy) {
            // The directory of the file is not for the model.
            (DecidedBy::Rule(number), Some(policy)) => {
                let file = Path::new(&**policy).file_name().map(|name| name.to_string_lossy());
                write!(f, "rule {number} of {}", file.as_deref().unwrap_or(policy).escape_debug())
            }
            (DecidedBy::Rule(number), None) => write!(f, "rule {number} of the policy"),
            (DecidedBy::ServerRule(number), _) => write!(f, "rule {number} of the server {server:?}"),
            (DecidedBy::Hook | DecidedBy::Default, _) => f.write_str("a policy"),
            (DecidedBy::Pin, _) => f.write_str("the pin of the tool"),
            (DecidedBy::EarlierRound, _) => f.write_str("a policy during the call"),
        }
    }
}

/// The call, as the object of a sentence.
struct Call<'a>(&'a Refusal);

impl fmt::Display for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal { action, is_completion, server, tool, .. } = self.0;
        let noun = match (action, is_completion) {
            (Action::CallTool, _) => "call of",
            (Action::ReadResource, false) => "read of",
            (Action::GetPrompt, false) => "prompt",
            (Action::ReadResource, true) => "completion for the resource",
            (Action::GetPrompt, true) => "completion for the prompt",
        };
        write!(f, "the {noun} {tool:?} of {server:?}")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Text { refusal: self, actor: "the host" })
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { refusal, actor } = self;
        let (source, call) = (Source(refusal), Call(refusal));
        match refusal.kind {
            RefusalKind::Denied => write!(f, "{source} denies {call}")?,
            RefusalKind::Rejected => write!(f, "the user rejected {call}, for which {source} requires an approval")?,
            RefusalKind::ApprovalTimedOut => {
                write!(f, "{source} requires an approval for {call}, and the user did not answer in time")?;
            }
            RefusalKind::NoApprover => {
                write!(f, "{source} requires an approval for {call} (`ask`), and {actor} has no approver")?;
            }
            RefusalKind::TooManyPending => {
                write!(f, "{source} requires an approval for {call}, and too many other calls wait for theirs")?;
            }
            RefusalKind::HookTimedOut => write!(f, "{source} did not decide {call} in time")?,
            RefusalKind::Unaccepted => {
                write!(f, "{source} blocks {call} until a person accepts the definition of the tool")?;
            }
            RefusalKind::NotRecorded => {
                return write!(f, "{actor} refuses {call}, because its audit event cannot be stored");
            }
            RefusalKind::NotContinued => return write!(f, "{actor} does not continue {call}"),
        }
        refusal.reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

impl std::error::Error for Refusal {}
