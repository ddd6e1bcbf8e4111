//! The gate: policies, hooks, approvals and audit events of all calls.

use std::{fmt, sync::Arc, time::Duration};

use mcp_transport::BoxFuture;
use tokio::time::{Instant, timeout};

use super::{
    AuditSink, DecidedBy, Decision, Effect, Outcome, PendingApproval, Policy, PolicyHook, PolicyInput, Refusal,
    RefusalKind, audit::Open, pending::Questions,
};

/// The time in which a person answers.
const APPROVAL: Duration = Duration::from_secs(300);
/// The time in which a hook decides.
const HOOK: Duration = Duration::from_secs(10);
/// The largest number of calls that wait for an approval.
const PENDING: usize = 64;

/// Decides each call before it runs.
///
/// Policies and hooks decide in the order in which they were added; the first decision counts. Without a decision, the
/// default effect counts: `allow`, unless the caller or a policy file sets another one. A gateway for strangers sets `deny`.
///
/// Clones share the state.
///
/// ```
/// use mcp_agent::policy::{Effect, Gate, Policy, PolicyInput};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_agent::policy::PolicyError> {
/// let policy = Policy::parse("policy.toml", "[[rule]]\ntool = \"get_*\"\neffect = \"allow\"\n")?;
/// let gate = Gate::new().policy(policy).default_effect(Effect::Deny);
/// assert!(gate.check(&PolicyInput::new("github", "get_issue")).await.is_ok());
/// assert!(gate.check(&PolicyInput::new("github", "delete_issue")).await.is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Gate {
    steps: Vec<Step>,
    default: Option<Effect>,
    approver: Option<Arc<dyn Approver>>,
    sink: Option<Arc<dyn AuditSink>>,
    limits: Limits,
    questions: Arc<Questions>,
}

#[derive(Clone)]
enum Step {
    Policy(Arc<Policy>),
    Hook(Arc<dyn PolicyHook>),
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    approval: Duration,
    hook: Duration,
    pending: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { approval: APPROVAL, hook: HOOK, pending: PENDING }
    }
}

/// Asks a person about a call.
///
/// ```
/// use mcp_agent::policy::{Approver, Effect, Gate, PendingApproval, PolicyInput};
/// use mcp_transport::BoxFuture;
///
/// struct Always;
///
/// impl Approver for Always {
///     fn approve<'a>(&'a self, _: &'a PendingApproval) -> BoxFuture<'a, bool> {
///         Box::pin(async { true })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let gate = Gate::new().default_effect(Effect::Ask).approver(Always);
/// assert!(gate.check(&PolicyInput::new("git", "push")).await.is_ok());
/// # }
/// ```
pub trait Approver: Send + Sync + 'static {
    /// Returns whether the person approves the call. The gate drops the future when the time limit ends.
    fn approve<'a>(&'a self, question: &'a PendingApproval) -> BoxFuture<'a, bool>;
}

impl Gate {
    /// Returns a gate that allows every call.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a policy. If its file has a default effect, it becomes the default of the gate.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.default = policy.default_effect().or(self.default);
        self.steps.push(Step::Policy(Arc::new(policy)));
        self
    }

    /// Adds a hook.
    #[must_use]
    pub fn hook(mut self, hook: impl PolicyHook) -> Self {
        self.steps.push(Step::Hook(Arc::new(hook)));
        self
    }

    /// Sets the effect for calls that no rule and no hook matches.
    #[must_use]
    pub fn default_effect(mut self, effect: Effect) -> Self {
        self.default = Some(effect);
        self
    }

    /// Sets the approver for calls with the effect `ask`. Without one, the gate refuses these calls.
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Sets the receiver of audit events.
    #[must_use]
    pub fn audit(mut self, sink: impl AuditSink) -> Self {
        self.sink = Some(Arc::new(sink));
        self
    }

    /// Sets the time in which a person answers. Default: 5 minutes. A call without an answer is refused.
    #[must_use]
    pub fn approval_timeout(mut self, limit: Duration) -> Self {
        self.limits.approval = limit;
        self
    }

    /// Sets the time in which a hook decides. Default: 10 seconds. A call without a decision is refused.
    #[must_use]
    pub fn hook_timeout(mut self, limit: Duration) -> Self {
        self.limits.hook = limit;
        self
    }

    /// Sets the largest number of calls that wait for an approval. Default: 64. Further calls are refused.
    #[must_use]
    pub fn max_pending(mut self, calls: usize) -> Self {
        self.limits.pending = calls;
        self
    }

    /// Returns the calls that wait for an approval, the oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<PendingApproval> {
        self.questions.list()
    }

    /// Decides a call, and waits for an approval if the effect is `ask`. If the future is dropped, the question ends.
    ///
    /// # Errors
    /// The call must not run.
    pub async fn check(&self, input: &PolicyInput) -> Result<(), Refusal> {
        let started = Instant::now();
        let (decision, decided_by, fault) = self.decide(input).await;
        let Decision { effect, reason, .. } = decision;
        let sink = self.sink.as_deref();
        let mut open = Open { input, started, effect, decided_by, reason, sink, is_closed: false };
        let outcome = match (fault, effect) {
            (Some(fault), _) => Outcome::Refused(fault),
            (None, Effect::Allow) => Outcome::Allowed,
            (None, Effect::Deny) => Outcome::Refused(RefusalKind::Denied),
            (None, Effect::Ask) => self.ask(input, open.reason.as_deref()).await,
        };
        open.close(outcome);
        match outcome {
            Outcome::Refused(kind) => Err(Refusal::new(kind, &input.server, &input.tool, open.reason.clone())),
            _ => Ok(()),
        }
    }

    async fn decide(&self, input: &PolicyInput) -> (Decision, DecidedBy, Option<RefusalKind>) {
        for step in &self.steps {
            match step {
                Step::Policy(policy) => {
                    if let Some(decision) = policy.decide(input) {
                        let rule = decision.rule.unwrap_or_default();
                        return (decision, DecidedBy::Rule(rule), None);
                    }
                }
                Step::Hook(hook) => match timeout(self.limits.hook, hook.decide(input)).await {
                    Ok(None) => {}
                    Ok(Some(decision)) => return (decision, DecidedBy::Hook, None),
                    Err(_) => {
                        return (Decision::new(Effect::Deny), DecidedBy::Hook, Some(RefusalKind::HookTimedOut));
                    }
                },
            }
        }
        (Decision::new(self.default.unwrap_or(Effect::Allow)), DecidedBy::Default, None)
    }

    async fn ask(&self, input: &PolicyInput, reason: Option<&str>) -> Outcome {
        let Some(approver) = &self.approver else { return Outcome::Refused(RefusalKind::NoApprover) };
        let limit = self.limits.approval;
        let Some(entry) = self.questions.add(self.limits.pending, input, reason, limit) else {
            return Outcome::Refused(RefusalKind::TooManyPending);
        };
        match timeout(limit, approver.approve(&entry.question)).await {
            Ok(true) => Outcome::Approved,
            Ok(false) => Outcome::Refused(RefusalKind::Rejected),
            Err(_) => Outcome::Refused(RefusalKind::ApprovalTimedOut),
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("steps", &self.steps.len())
            .field("default", &self.default)
            .field("has_approver", &self.approver.is_some())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
