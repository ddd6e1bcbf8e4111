//! Policies: which tool calls are allowed, which need the approval of a person, and which are denied.
//!
//! A [`Policy`] is data, in a TOML file for hosts and gateways alike. A [`PolicyHook`] decides in code. A [`Gate`] combines
//! both, asks an [`Approver`], and reports each decision as an [`AuditEvent`].
//!
//! ```toml
//! # The first rule that matches decides. Absent members match every call.
//! [[rule]]
//! server = "git*"
//! tool = "push*"
//! annotation.destructive = true
//! effect = "ask"
//!
//! [[rule]]
//! principal = "guest-*"
//! effect = "deny"
//! reason = "Guests have read access only."
//! ```

mod audit;
mod error;
mod file;
mod gate;
mod input;
mod pending;

use std::fmt;

use mcp_transport::BoxFuture;
use serde::Deserialize;

pub use self::{
    audit::{AuditEvent, AuditSink, DecidedBy, Outcome},
    error::{PolicyError, Refusal, RefusalKind},
    gate::{Approver, Gate},
    input::PolicyInput,
    pending::PendingApproval,
};
use crate::{filter::AnnotationMatch, glob::Glob};

/// The effect of a rule.
///
/// ```
/// assert_eq!(mcp_agent::policy::Effect::Ask.to_string(), "ask");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "a call is allowed, denied, or waits for a person")]
pub enum Effect {
    /// The call runs.
    Allow,
    /// The call runs if a person approves it.
    Ask,
    /// The call does not run.
    Deny,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        })
    }
}

/// A rule of a policy. It matches a call if each of its members matches.
///
/// ```
/// use mcp_agent::policy::{Effect, PolicyInput, Rule};
///
/// let rule = Rule::new(Effect::Deny).server("git*".parse()?).reason("The code is frozen.");
/// assert!(rule.matches(&PolicyInput::new("github", "push")));
/// assert!(!rule.matches(&PolicyInput::new("files", "read")));
/// # Ok::<(), mcp_agent::GlobError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rule {
    /// The names of servers.
    #[serde(default = "Glob::any")]
    pub server: Glob,
    /// The names of tools at their server.
    #[serde(default = "Glob::any")]
    pub tool: Glob,
    /// The hints of the tool.
    #[serde(default)]
    pub annotation: AnnotationMatch,
    /// The identities of callers. If it is present, the rule matches no call without an identity.
    #[serde(default)]
    pub principal: Option<Glob>,
    /// The effect for calls that match.
    pub effect: Effect,
    /// The reason, which a refusal contains.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Rule {
    /// Returns the rule that matches every call.
    #[must_use]
    pub fn new(effect: Effect) -> Self {
        Self {
            server: Glob::any(),
            tool: Glob::any(),
            annotation: AnnotationMatch::new(),
            principal: None,
            effect,
            reason: None,
        }
    }

    /// Sets the names of servers.
    #[must_use]
    pub fn server(mut self, names: Glob) -> Self {
        self.server = names;
        self
    }

    /// Sets the names of tools.
    #[must_use]
    pub fn tool(mut self, names: Glob) -> Self {
        self.tool = names;
        self
    }

    /// Sets the hints of the tool.
    #[must_use]
    pub fn annotation(mut self, hints: AnnotationMatch) -> Self {
        self.annotation = hints;
        self
    }

    /// Sets the identities of callers.
    #[must_use]
    pub fn principal(mut self, names: Glob) -> Self {
        self.principal = Some(names);
        self
    }

    /// Sets the reason, which a refusal contains.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Whether the rule matches a call.
    #[must_use]
    pub fn matches(&self, input: &PolicyInput) -> bool {
        let principal = input.principal.as_deref();
        self.server.matches(&input.server)
            && self.tool.matches(&input.tool)
            && self.annotation.matches(input.annotations.as_ref())
            && self.principal.as_ref().is_none_or(|names| principal.is_some_and(|name| names.matches(name)))
    }
}

/// Rules as data: the first rule that matches a call decides.
///
/// ```
/// use mcp_agent::policy::{Effect, Policy, PolicyInput};
///
/// let policy = Policy::parse("policy.toml", r#"
///     [[rule]]
///     tool = "get_*"
///     effect = "allow"
///
///     [[rule]]
///     annotation.destructive = true
///     effect = "ask"
/// "#)?;
/// let effect = |tool: &str| policy.decide(&PolicyInput::new("github", tool)).map(|decision| decision.effect);
/// assert_eq!(effect("get_issue"), Some(Effect::Allow));
/// // A tool without annotations may destroy data.
/// assert_eq!(effect("push"), Some(Effect::Ask));
/// # Ok::<(), mcp_agent::policy::PolicyError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    pub(crate) rules: Vec<Rule>,
    pub(crate) default: Option<Effect>,
}

/// The decision of a policy or of a hook.
///
/// ```
/// use mcp_agent::policy::{Decision, Effect};
///
/// let decision = Decision::new(Effect::Deny).reason("The budget of today is used up.");
/// assert_eq!(decision.rule, None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// The effect.
    pub effect: Effect,
    /// The position of the rule in its policy, from 1. `None` for hooks.
    pub rule: Option<usize>,
    /// The reason, which a refusal contains.
    pub reason: Option<String>,
}

impl Policy {
    /// Returns a policy without rules and without a default effect.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule after the other rules.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Returns the decision of the first rule that matches. `None` if no rule matches.
    #[must_use]
    pub fn decide(&self, input: &PolicyInput) -> Option<Decision> {
        let (position, rule) = self.rules.iter().enumerate().find(|(_, rule)| rule.matches(input))?;
        Some(Decision { effect: rule.effect, rule: Some(position + 1), reason: rule.reason.clone() })
    }

    /// Returns the rules in their order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the member `default` of the file: the effect for calls that no rule matches.
    #[must_use]
    pub fn default_effect(&self) -> Option<Effect> {
        self.default
    }
}

impl Decision {
    /// Returns a decision without a reason.
    #[must_use]
    pub fn new(effect: Effect) -> Self {
        Self { effect, rule: None, reason: None }
    }

    /// Sets the reason, which a refusal contains.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

/// Decides calls in code, for conditions that rules cannot express.
///
/// ```
/// use mcp_agent::policy::{Decision, Effect, PolicyHook, PolicyInput};
/// use mcp_transport::BoxFuture;
///
/// /// Denies paths outside of a directory.
/// struct InDirectory(&'static str);
///
/// impl PolicyHook for InDirectory {
///     fn decide<'a>(&'a self, input: &'a PolicyInput) -> BoxFuture<'a, Option<Decision>> {
///         let path = input.arguments.get("path").and_then(|path| path.as_str());
///         let is_outside = path.is_some_and(|path| !path.starts_with(self.0));
///         Box::pin(async move { is_outside.then(|| Decision::new(Effect::Deny)) })
///     }
/// }
/// # let _ = InDirectory("/srv/");
/// ```
pub trait PolicyHook: Send + Sync + 'static {
    /// Returns the decision for a call, or `None` to leave it to the next policy or hook.
    fn decide<'a>(&'a self, input: &'a PolicyInput) -> BoxFuture<'a, Option<Decision>>;
}

impl PolicyHook for Policy {
    fn decide<'a>(&'a self, input: &'a PolicyInput) -> BoxFuture<'a, Option<Decision>> {
        Box::pin(async move { self.decide(input) })
    }
}

#[cfg(test)]
mod tests;
