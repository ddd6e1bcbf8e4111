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
//! # A rule without the name of a tool, a resource or a prompt covers all three.
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

use std::{fmt, sync::Arc};

use mcp_transport::BoxFuture;
use serde::Deserialize;

#[cfg(feature = "gateway")]
pub(crate) use self::gate::LaterRound;
pub(crate) use self::gate::{Check, PinQuestion};
pub use self::{
    audit::{AuditEvent, AuditSink, DecidedBy, Outcome},
    error::{PolicyError, Refusal, RefusalKind},
    file::PolicyFile,
    gate::{Approver, Gate},
    input::{Action, PolicyInput, identity},
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
/// A rule with `tool`, `resource` or `prompt` matches only calls of these kinds. A rule without them matches all kinds, unless it
/// has annotations, which only tools have.
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
    #[serde(default)]
    pub tool: Option<Glob>,
    /// The URIs of resources that a host reads.
    #[serde(default)]
    pub resource: Option<Glob>,
    /// The names of prompts at their server.
    #[serde(default)]
    pub prompt: Option<Glob>,
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
            tool: None,
            resource: None,
            prompt: None,
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
        self.tool = Some(names);
        self
    }

    /// Sets the URIs of resources. The rule compares the text of the URI in the request, and a server can accept several texts for one
    /// resource: `file:///a/../b`, `file:///%62` and `FILE:///b`. Permit the known URIs and deny the others, because a rule that
    /// denies single URIs has gaps.
    #[must_use]
    pub fn resource(mut self, uris: Glob) -> Self {
        self.resource = Some(uris);
        self
    }

    /// Sets the names of prompts.
    #[must_use]
    pub fn prompt(mut self, names: Glob) -> Self {
        self.prompt = Some(names);
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
        self.principal.as_ref().is_none_or(|names| principal.is_some_and(|name| names.matches(name)))
            && self.matches_for_a_caller(input)
    }

    /// Whether the rule matches a call for a caller with a suitable identity.
    fn matches_for_a_caller(&self, input: &PolicyInput) -> bool {
        let names = match input.action {
            Action::CallTool => &self.tool,
            Action::ReadResource => &self.resource,
            Action::GetPrompt => &self.prompt,
        };
        let is_for_all = self.tool.is_none() && self.resource.is_none() && self.prompt.is_none();
        let has_name = names.as_ref().map_or(is_for_all, |names| names.matches(&input.tool));
        let has_hints = match input.action {
            Action::CallTool => self.annotation.matches(input.annotations.as_ref()),
            Action::ReadResource | Action::GetPrompt => self.annotation == AnnotationMatch::new(),
        };
        has_name && has_hints && self.server.matches(&input.server)
    }

    /// Whether the rule matches calls of this kind, caller and server: `Some(true)` for all names and annotations, `Some(false)` for
    /// some of them, and `None` for no call.
    #[cfg(feature = "gateway")]
    fn matches_kind(&self, input: &PolicyInput) -> Option<bool> {
        let names = match input.action {
            Action::CallTool => &self.tool,
            Action::ReadResource => &self.resource,
            Action::GetPrompt => &self.prompt,
        };
        let is_for_all = self.tool.is_none() && self.resource.is_none() && self.prompt.is_none();
        let has_hints = self.annotation != AnnotationMatch::new();
        let of_caller = |names: &Glob| input.principal.as_deref().is_some_and(|name| names.matches(name));
        let is_possible = (is_for_all || names.is_some())
            && (input.action == Action::CallTool || !has_hints)
            && self.server.matches(&input.server)
            && self.principal.as_ref().is_none_or(of_caller);
        is_possible.then(|| !has_hints && names.as_ref().is_none_or(|names| *names == Glob::any()))
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
///
/// Two policies are equal if they have the same rules and the same default.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    default: Option<Effect>,
    /// The name of the file, for refusals and audit events.
    name: Option<Arc<str>>,
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules && self.default == other.default
    }
}

impl Eq for Policy {}

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

    /// Returns the name of the file of the policy.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
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
/// use std::path::{Component, Path};
///
/// /// Denies paths outside of a directory. It compares components, so that `/srv/../etc` and `/srv2` are outside of `/srv`.
/// /// Symbolic links need a check of the server.
/// struct InDirectory(&'static str);
///
/// impl InDirectory {
///     fn contains(&self, path: &str) -> bool {
///         let path = Path::new(path);
///         path.starts_with(self.0) && !path.components().any(|part| part == Component::ParentDir)
///     }
/// }
///
/// impl PolicyHook for InDirectory {
///     fn decide<'a>(&'a self, input: &'a PolicyInput) -> BoxFuture<'a, Option<Decision>> {
///         let path = input.arguments.get("path");
///         let is_outside = path.is_some_and(|path| !path.as_str().is_some_and(|path| self.contains(path)));
///         Box::pin(async move { is_outside.then(|| Decision::new(Effect::Deny)) })
///     }
/// }
///
/// let directory = InDirectory("/srv");
/// assert!(directory.contains("/srv/notes.md"));
/// assert!(!directory.contains("/srv/../etc/passwd") && !directory.contains("/srv2/notes.md"));
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
