//! The gate: policies, hooks, approvals and audit events of all calls.

use std::{fmt, sync::Arc, time::Duration};

use mcp_transport::BoxFuture;
use tokio::time::{Instant, timeout};

use super::{
    AuditSink, DecidedBy, Decision, Effect, Outcome, PendingApproval, Policy, PolicyFile, PolicyHook, PolicyInput,
    Refusal, RefusalKind, Rule, audit::Open, pending::Questions,
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
    approver: Option<Arc<dyn Approver>>,
    sink: Option<Arc<dyn AuditSink>>,
    requires_audit: bool,
    limits: Limits,
    questions: Arc<Questions>,
}

#[derive(Clone)]
enum Step {
    Policy(Arc<Policy>),
    File(PolicyFile),
    Hook(Arc<dyn PolicyHook>),
    /// The default effect from here on.
    Default(Effect),
}

/// The parts of a check that belong to one call of a host.
#[derive(Default)]
pub(crate) struct Check<'a> {
    /// The rules of the server, which decide after the policies and hooks.
    pub(crate) rules: &'a [Rule],
    pub(crate) pin: Option<PinQuestion>,
}

/// A definition that is new or has changed.
pub(crate) struct PinQuestion {
    pub(crate) is_blocked: bool,
    pub(crate) reason: String,
}

/// The permission for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pass {
    /// A person answered a question about the definition of the tool.
    pub(crate) accepts_definition: bool,
    /// A person approved the call.
    pub(crate) is_approved: bool,
}

/// A later round of a call that no policy denies, before its record. A drop without a record is recorded as a cancellation.
#[cfg(feature = "gateway")]
pub(crate) struct LaterRound<'a> {
    open: Open<'a>,
}

#[cfg(feature = "gateway")]
impl LaterRound<'_> {
    /// Records that the round runs.
    ///
    /// # Errors
    /// If the gate requires the record, and it cannot be stored. The round must not run then.
    pub(crate) async fn allow(&mut self) -> Result<(), Refusal> {
        match self.open.settle(Outcome::Allowed).await {
            Outcome::Refused(kind) => Err(Refusal::new(kind, self.open.input, DecidedBy::EarlierRound, None, None)),
            _ => Ok(()),
        }
    }

    /// Records that the round does not continue its call.
    pub(crate) fn refuse(&mut self) {
        self.open.close(Outcome::Refused(RefusalKind::NotContinued));
    }
}

/// A decision with its source.
struct Decided {
    decision: Decision,
    by: DecidedBy,
    policy: Option<Arc<str>>,
    fault: Option<RefusalKind>,
}

/// Decides a call by the rules of a policy.
fn by_policy(policy: &Policy, input: &PolicyInput) -> Option<Decided> {
    let decision = policy.decide(input)?;
    let by = DecidedBy::Rule(decision.rule.unwrap_or_default());
    Some(Decided { decision, by, policy: policy.name.clone(), fault: None })
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

/// Asks a person about a call. An async function of a [`PendingApproval`] is an approver.
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
///
/// let pulls = Gate::new().default_effect(Effect::Ask).approver(|call: PendingApproval| async move { call.input.tool == "pull" });
/// assert!(pulls.check(&PolicyInput::new("git", "push")).await.is_err());
/// # }
/// ```
pub trait Approver: Send + Sync + 'static {
    /// Returns whether the person approves the call. The gate drops the future when the time limit ends.
    fn approve<'a>(&'a self, question: &'a PendingApproval) -> BoxFuture<'a, bool>;
}

impl<F, Answer> Approver for F
where
    F: Fn(PendingApproval) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = bool> + Send + 'static,
{
    fn approve<'a>(&'a self, question: &'a PendingApproval) -> BoxFuture<'a, bool> {
        Box::pin(self(question.clone()))
    }
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
        self.steps.push(Step::Policy(Arc::new(policy)));
        self
    }

    /// Adds a policy file. After [`PolicyFile::reload`], the gate and its clones decide by the new policy.
    #[must_use]
    pub fn policy_file(mut self, file: PolicyFile) -> Self {
        self.steps.push(Step::File(file));
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
        self.steps.push(Step::Default(effect));
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

    /// Refuses each call whose audit event the sink does not store ([`AuditSink::store`]). Without a sink, the gate refuses all calls.
    /// Default: the calls run.
    #[must_use]
    pub fn require_audit(mut self) -> Self {
        self.requires_audit = true;
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

    /// Sets the largest number of calls that wait for an approval. Default: 64. Further calls are refused. One principal has at most
    /// a quarter of them, so that its calls do not refuse the calls of others.
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
        self.check_call(input, Check::default()).await.map(|_| ())
    }

    /// Decides a call of a host.
    pub(crate) async fn check_call(&self, input: &PolicyInput, check: Check<'_>) -> Result<Pass, Refusal> {
        let started = Instant::now();
        let Decided { decision, by, policy, fault } = self.decide(input, check).await;
        let Decision { effect, reason, .. } = decision;
        let (sink, is_required) = (self.sink.as_deref(), self.requires_audit);
        let mut open =
            Open { input, started, effect, decided_by: by, policy, reason, sink, is_required, is_closed: false };
        let outcome = match (fault, effect) {
            (Some(fault), _) => Outcome::Refused(fault),
            (None, Effect::Allow) => Outcome::Allowed,
            (None, Effect::Deny) => Outcome::Refused(RefusalKind::Denied),
            (None, Effect::Ask) => self.ask(input, open.reason.as_deref()).await,
        };
        match open.settle(outcome).await {
            Outcome::Refused(kind) => Err(Refusal::new(kind, input, by, open.policy.take(), open.reason.take())),
            outcome => {
                let is_approved = outcome == Outcome::Approved;
                Ok(Pass { accepts_definition: by == DecidedBy::Pin && is_approved, is_approved })
            }
        }
    }

    /// Decides a later round of a call that a client continues. The decision about the first round counts, unless a policy denies the
    /// call meanwhile. A denied round is recorded at once. The caller records the outcome of a permitted round.
    #[cfg(feature = "gateway")]
    pub(crate) fn check_round<'a>(&'a self, input: &'a PolicyInput, rules: &[Rule]) -> Result<LaterRound<'a>, Refusal> {
        let Decided { decision, policy, .. } = self.decide_without_hooks(input, rules);
        let refused = self.refusal_of(decision.effect);
        // An approval of the first round counts.
        let (effect, policy, reason) = match refused {
            Some(_) => (decision.effect, policy, decision.reason),
            None => (Effect::Allow, None, None),
        };
        let decided_by = DecidedBy::EarlierRound;
        let (started, sink, is_required) = (Instant::now(), self.sink.as_deref(), self.requires_audit);
        let mut open = Open { input, started, effect, decided_by, policy, reason, sink, is_required, is_closed: false };
        if let Some(kind) = refused {
            open.close(Outcome::Refused(kind));
            return Err(Refusal::new(kind, input, decided_by, open.policy.take(), open.reason.take()));
        }
        Ok(LaterRound { open })
    }

    /// Whether a check of a host has any effect.
    pub(crate) fn is_active(&self) -> bool {
        !self.steps.is_empty() || self.sink.is_some() || self.requires_audit
    }

    /// Returns the policy files, which a host can read again.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PolicyFile> {
        self.steps.iter().filter_map(|step| if let Step::File(file) = step { Some(file) } else { None })
    }

    /// Whether the policies deny a call for each caller and for all arguments. Hooks count as undecided.
    pub(crate) fn always_denies(&self, input: &PolicyInput, rules: &[Rule]) -> bool {
        /// `Some` if the rules decide.
        fn by_rules(rules: &[Rule], input: &PolicyInput) -> Option<bool> {
            for rule in rules.iter().filter(|rule| rule.matches_for_a_caller(input)) {
                match (rule.effect, &rule.principal) {
                    (Effect::Deny, Some(_)) => {}
                    (effect, _) => return Some(effect == Effect::Deny),
                }
            }
            None
        }
        self.is_denied_by(|rules| by_rules(rules, input), rules, |effect| effect == Effect::Deny)
    }

    /// Whether the policies deny a call of its caller for all arguments. Hooks count as undecided. Without an approver, `ask` denies
    /// the call too.
    #[cfg(feature = "gateway")]
    pub(crate) fn denies(&self, input: &PolicyInput, rules: &[Rule]) -> bool {
        // The lists of a client check each of their items, so no reason is copied.
        let first =
            |rules: &[Rule]| rules.iter().find(|rule| rule.matches(input)).map(|rule| self.refuses(rule.effect));
        self.is_denied_by(first, rules, |effect| self.refuses(effect))
    }

    /// Whether calls with an effect never run.
    #[cfg(feature = "gateway")]
    fn refuses(&self, effect: Effect) -> bool {
        self.refusal_of(effect).is_some()
    }

    /// Returns why calls with an effect never run.
    #[cfg(feature = "gateway")]
    fn refusal_of(&self, effect: Effect) -> Option<RefusalKind> {
        match effect {
            Effect::Allow => None,
            Effect::Ask => self.approver.is_none().then_some(RefusalKind::NoApprover),
            Effect::Deny => Some(RefusalKind::Denied),
        }
    }

    /// Whether the policies deny each call of the kind, caller and server of an input, with each name and all annotations. Hooks
    /// count as undecided.
    #[cfg(feature = "gateway")]
    pub(crate) fn denies_kind(&self, input: &PolicyInput, rules: &[Rule]) -> bool {
        let first = |rules: &[Rule]| {
            rules.iter().find_map(|rule| match (rule.matches_kind(input)?, self.refuses(rule.effect)) {
                (true, true) => Some(true),
                (false, true) => None,
                _ => Some(false),
            })
        };
        self.is_denied_by(first, rules, |effect| self.refuses(effect))
    }

    /// Whether the gate has a policy, a hook or a default effect.
    #[cfg(feature = "gateway")]
    pub(crate) fn decides(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Whether the first decision of the policies, or the default, denies. A hook permits.
    fn is_denied_by(
        &self,
        by_rules: impl Fn(&[Rule]) -> Option<bool>,
        rules: &[Rule],
        by_default: impl Fn(Effect) -> bool,
    ) -> bool {
        for step in &self.steps {
            let decided = match step {
                Step::Policy(policy) => by_rules(policy.rules()),
                Step::File(file) => by_rules(file.policy().rules()),
                Step::Hook(_) => Some(false),
                Step::Default(_) => None,
            };
            if let Some(is_denied) = decided {
                return is_denied;
            }
        }
        by_rules(rules).unwrap_or_else(|| by_default(self.default_of_steps()))
    }

    async fn decide(&self, input: &PolicyInput, check: Check<'_>) -> Decided {
        let mut decided = self.decide_by_policy(input, check.rules).await;
        let Some(PinQuestion { is_blocked, reason }) = check.pin else { return decided };
        if decided.decision.effect == Effect::Deny {
            return decided;
        }
        let reason = match decided.decision.reason.take() {
            Some(other) => format!("{reason}; {other}"),
            None => reason,
        };
        let effect = if is_blocked { Effect::Deny } else { Effect::Ask };
        Decided {
            decision: Decision::new(effect).reason(reason),
            by: DecidedBy::Pin,
            policy: None,
            fault: is_blocked.then_some(RefusalKind::Unaccepted),
        }
    }

    async fn decide_by_policy(&self, input: &PolicyInput, rules: &[Rule]) -> Decided {
        for step in &self.steps {
            let decided = match step {
                Step::Policy(policy) => by_policy(policy, input),
                Step::File(file) => by_policy(&file.policy(), input),
                Step::Hook(hook) => self.decide_by_hook(&**hook, input).await,
                Step::Default(_) => None,
            };
            if let Some(decided) = decided {
                return decided;
            }
        }
        self.decide_by_rules(input, rules)
    }

    /// Decides a call of its caller for all arguments. Hooks count as `allow`.
    #[cfg(feature = "gateway")]
    fn decide_without_hooks(&self, input: &PolicyInput, rules: &[Rule]) -> Decided {
        let by_hook =
            || Decided { decision: Decision::new(Effect::Allow), by: DecidedBy::Hook, policy: None, fault: None };
        let decided = self.steps.iter().find_map(|step| match step {
            Step::Policy(policy) => by_policy(policy, input),
            Step::File(file) => by_policy(&file.policy(), input),
            Step::Hook(_) => Some(by_hook()),
            Step::Default(_) => None,
        });
        decided.unwrap_or_else(|| self.decide_by_rules(input, rules))
    }

    /// Decides by the rules of the server, or by the default.
    fn decide_by_rules(&self, input: &PolicyInput, rules: &[Rule]) -> Decided {
        if let Some((position, rule)) = rules.iter().enumerate().find(|(_, rule)| rule.matches(input)) {
            let decision = Decision { effect: rule.effect, rule: Some(position + 1), reason: rule.reason.clone() };
            return Decided { decision, by: DecidedBy::ServerRule(position + 1), policy: None, fault: None };
        }
        Decided { decision: Decision::new(self.default_of_steps()), by: DecidedBy::Default, policy: None, fault: None }
    }

    async fn decide_by_hook(&self, hook: &dyn PolicyHook, input: &PolicyInput) -> Option<Decided> {
        let (decision, fault) = match timeout(self.limits.hook, hook.decide(input)).await {
            Ok(decision) => (decision?, None),
            Err(_) => (Decision::new(Effect::Deny), Some(RefusalKind::HookTimedOut)),
        };
        Some(Decided { decision, by: DecidedBy::Hook, policy: None, fault })
    }

    /// Returns the effect for calls that no rule and no hook matches: the last default that was set.
    fn default_of_steps(&self) -> Effect {
        let default = self.steps.iter().rev().find_map(|step| match step {
            Step::Default(effect) => Some(*effect),
            Step::Policy(policy) => policy.default_effect(),
            Step::File(file) => file.policy().default_effect(),
            Step::Hook(_) => None,
        });
        default.unwrap_or(Effect::Allow)
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
            .field("default", &self.default_of_steps())
            .field("has_approver", &self.approver.is_some())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
