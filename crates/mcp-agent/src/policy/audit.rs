//! Events for the record of decisions.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, SystemTime},
};

use mcp_transport::BoxFuture;
use tokio::time::timeout;

use super::{Action, Effect, PolicyInput, RefusalKind};

/// The longest wait for a sink that must store the event of a call.
const STORED: Duration = Duration::from_secs(5);

/// A decision about a call, for the record. It contains no arguments.
///
/// Each event is also an event of `tracing` with the target `mcp_agent::audit`, at the level `INFO` for calls that run, and
/// `WARN` for refused calls.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use mcp_agent::policy::{AuditEvent, DecidedBy, Gate, Outcome, PolicyInput};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let events = Arc::new(Mutex::new(Vec::new()));
/// let sink = Arc::clone(&events);
/// let gate = Gate::new().audit(move |event: &AuditEvent| sink.lock().unwrap().push(event.clone()));
/// gate.check(&PolicyInput::new("files", "read")).await.unwrap();
/// let events = events.lock().unwrap();
/// assert_eq!((events[0].outcome, events[0].decided_by), (Outcome::Allowed, DecidedBy::Default));
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEvent {
    /// The time of the decision.
    pub at: SystemTime,
    /// The kind of the call. For a completion, it is the kind of its item.
    pub action: Action,
    /// The request completes an argument of the prompt or a variable of the resource.
    pub is_completion: bool,
    /// The name of the server.
    pub server: String,
    /// The name of the tool or the prompt, or the URI of the resource.
    pub tool: String,
    /// The identity of the caller.
    pub principal: Option<String>,
    /// The effect of the policy.
    pub effect: Effect,
    /// The source of the effect.
    pub decided_by: DecidedBy,
    /// The name of the policy file of the rule.
    pub policy: Option<Arc<str>>,
    /// The outcome for the call.
    pub outcome: Outcome,
    /// The reason of the rule or of the hook.
    pub reason: Option<String>,
    /// The time from the check until its outcome, with the wait for an approval.
    pub waited: Duration,
}

/// The source of an effect.
///
/// ```
/// use mcp_agent::policy::DecidedBy;
///
/// assert_ne!(DecidedBy::Rule(1), DecidedBy::Default);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecidedBy {
    /// The rule at this position of its policy, from 1.
    Rule(usize),
    /// A hook.
    Hook,
    /// The rule of the server at this position, from 1 ([`ServerOptions::rule`](crate::ServerOptions::rule)).
    ServerRule(usize),
    /// The definition of the tool is new or has changed ([`pins`](crate::pins)).
    Pin,
    /// An earlier round of the call, whose request state the client sent. The policies can only deny the call meanwhile.
    EarlierRound,
    /// The default effect, because no rule and no hook matched.
    Default,
}

/// The outcome for a call.
///
/// ```
/// use mcp_agent::policy::{Outcome, RefusalKind};
///
/// assert!(Outcome::Approved.runs() && !Outcome::Refused(RefusalKind::Denied).runs());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The call runs without an approval.
    Allowed,
    /// A person approved the call.
    Approved,
    /// The call does not run.
    Refused(RefusalKind),
    /// The caller cancelled the call, or a later round of it, before its outcome: during the wait for an approval or for the record.
    Cancelled,
}

impl Outcome {
    /// Whether the call runs.
    #[must_use]
    pub fn runs(self) -> bool {
        matches!(self, Self::Allowed | Self::Approved)
    }
}

/// Receives [`AuditEvent`]s. A closure is a sink.
///
/// ```
/// use mcp_agent::policy::{AuditEvent, AuditSink};
///
/// struct Lines;
///
/// impl AuditSink for Lines {
///     fn record(&self, event: &AuditEvent) {
///         println!("{:?} {} {}", event.outcome, event.server, event.tool);
///     }
/// }
/// # let _ = Lines;
/// ```
pub trait AuditSink: Send + Sync + 'static {
    /// Stores an event. The call waits for the return, so a slow sink passes events on to its own task.
    fn record(&self, event: &AuditEvent);

    /// Stores the event of a call that runs, for a gate that refuses calls without a stored event ([`Gate::require_audit`]). The gate
    /// waits for 5 seconds at most. Default: [`AuditSink::record`], which always succeeds.
    ///
    /// ```
    /// use std::{error::Error, future::ready};
    ///
    /// use mcp_agent::policy::{AuditEvent, AuditSink, Gate, PolicyInput, RefusalKind};
    /// use mcp_transport::BoxFuture;
    ///
    /// struct Full;
    ///
    /// impl AuditSink for Full {
    ///     fn record(&self, _: &AuditEvent) {}
    ///
    ///     fn store<'a>(&'a self, _: &'a AuditEvent) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
    ///         Box::pin(ready(Err("the disk is full".into())))
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let gate = Gate::new().audit(Full).require_audit();
    /// let refusal = gate.check(&PolicyInput::new("files", "read")).await.unwrap_err();
    /// assert_eq!(refusal.kind(), RefusalKind::NotRecorded);
    /// # }
    /// ```
    ///
    /// [`Gate::require_audit`]: super::Gate::require_audit
    ///
    /// # Errors
    /// If the event cannot be stored.
    fn store<'a>(&'a self, event: &'a AuditEvent) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        self.record(event);
        Box::pin(std::future::ready(Ok(())))
    }
}

impl<F: Fn(&AuditEvent) + Send + Sync + 'static> AuditSink for F {
    fn record(&self, event: &AuditEvent) {
        self(event);
    }
}

/// Writes an event to `tracing`. Names come from servers and callers, so they are quoted.
pub(super) fn trace(event: &AuditEvent) {
    let AuditEvent { action, is_completion, policy, server, tool, principal, effect, decided_by, outcome, .. } = event;
    let AuditEvent { reason, waited, .. } = event;
    let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
    if outcome.runs() {
        tracing::info!(
            target: "mcp_agent::audit", ?action, is_completion, ?server, ?tool, ?principal, %effect, ?decided_by, ?policy, ?outcome,
            ?reason, waited_ms, "the policy permits a call"
        );
    } else {
        tracing::warn!(
            target: "mcp_agent::audit", ?action, is_completion, ?server, ?tool, ?principal, %effect, ?decided_by, ?policy, ?outcome,
            ?reason, waited_ms, "the policy refuses a call"
        );
    }
}

/// An event that is reported as cancelled if it is dropped before its outcome.
pub(super) struct Open<'a> {
    pub(super) input: &'a PolicyInput,
    pub(super) started: tokio::time::Instant,
    pub(super) effect: Effect,
    pub(super) decided_by: DecidedBy,
    pub(super) policy: Option<Arc<str>>,
    pub(super) reason: Option<String>,
    pub(super) sink: Option<&'a dyn AuditSink>,
    /// A call runs only if the sink has stored its event.
    pub(super) is_required: bool,
    pub(super) is_closed: bool,
}

impl Open<'_> {
    /// Closes the event with an outcome, and returns the outcome for the call.
    pub(super) async fn settle(&mut self, outcome: Outcome) -> Outcome {
        if !self.is_required || !outcome.runs() {
            self.close(outcome);
            return outcome;
        }
        let mut event = self.event(outcome);
        let stored = match self.sink {
            Some(sink) => timeout(STORED, sink.store(&event)).await.unwrap_or_else(|elapsed| Err(elapsed.into())),
            None => Err("the gate has no audit sink".into()),
        };
        self.is_closed = true;
        if let Err(error) = stored {
            tracing::error!(%error, "the audit event of a call cannot be stored, so the call is refused");
            event.outcome = Outcome::Refused(RefusalKind::NotRecorded);
        }
        trace(&event);
        event.outcome
    }

    pub(super) fn close(&mut self, outcome: Outcome) {
        self.is_closed = true;
        let event = self.event(outcome);
        trace(&event);
        if let Some(sink) = self.sink {
            sink.record(&event);
        }
    }

    fn event(&self, outcome: Outcome) -> AuditEvent {
        AuditEvent {
            at: SystemTime::now(),
            action: self.input.action,
            is_completion: self.input.is_completion,
            server: self.input.server.clone(),
            tool: self.input.tool.clone(),
            principal: self.input.principal.clone(),
            effect: self.effect,
            decided_by: self.decided_by,
            policy: self.policy.clone(),
            outcome,
            reason: self.reason.clone(),
            waited: self.started.elapsed(),
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.is_closed {
            self.close(Outcome::Cancelled);
        }
    }
}
