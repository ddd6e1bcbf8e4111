//! The record of a discovery: each request with its document, and each rule that was checked.

mod rule;

use std::fmt;

use http::StatusCode;
use mcp_fetch::Fetch;
use parking_lot::Mutex;
use serde_json::Value;
use url::Url;

pub use self::rule::DiscoveryRule;
use crate::{error::Error, quirks::Quirk};

/// The check of one rule.
///
/// ```
/// use mcp_oauth::DiscoveryCheck;
///
/// fn print(check: &DiscoveryCheck) {
///     match (&check.failure, &check.assumption) {
///         (Some(reason), _) => println!("failed {}: {reason}. {}", check.rule, check.rule.remedy()),
///         (None, Some(reason)) => println!("assumed {}: {reason}", check.rule),
///         (None, None) => println!("passed {}", check.rule),
///     }
/// }
/// # let _ = print;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiscoveryCheck {
    /// The rule.
    pub rule: DiscoveryRule,
    /// The reason why the rule does not hold. `None` if it holds or is assumed.
    pub failure: Option<String>,
    /// The reason why the client assumes that the rule holds. `None` if a document or a setting shows it, or if it fails.
    pub assumption: Option<String>,
}

/// The purpose of a [`DiscoveryStep`].
///
/// ```
/// assert_eq!(mcp_oauth::StepKind::ServerMetadata.name(), "server-metadata");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepKind {
    /// The settings of the application for the login. No request is sent.
    Settings,
    /// A request to the MCP server without authorization. The document has its challenges.
    Challenge,
    /// The protected resource metadata of the MCP server (RFC 9728).
    ResourceMetadata,
    /// The metadata of an authorization server (RFC 8414, OpenID Connect Discovery).
    ServerMetadata,
    /// The metadata of an MCP server of 2025-03-26, which is its own authorization server.
    LegacyMetadata,
    /// The default page of a login of 2025-03-26, requested without parameters. Only an explanation requests it.
    DefaultPage,
    /// The preparation of the login. The document has its parameters, and no request is sent.
    Login,
}

impl StepKind {
    /// Returns the name. It does not change.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Challenge => "challenge",
            Self::ResourceMetadata => "resource-metadata",
            Self::ServerMetadata => "server-metadata",
            Self::LegacyMetadata => "legacy-metadata",
            Self::DefaultPage => "default-page",
            Self::Login => "login",
        }
    }
}

/// One step of a discovery: a request with its document, and the rules that were checked with it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DiscoveryStep {
    /// The purpose.
    pub kind: StepKind,
    /// The URL of the request, without user and query. `None` for [`StepKind::Settings`] and [`StepKind::Login`].
    pub url: Option<String>,
    /// The status of the response, if there was one.
    pub status: Option<StatusCode>,
    /// The URL to which the response redirects, without user and query. The client follows it.
    pub redirect: Option<String>,
    /// The JSON document. Members that may be secrets have the value `…`.
    pub document: Option<Value>,
    /// The reason why there is no document.
    pub absence: Option<String>,
    /// The rules, in the order of their checks. The first failed rule of a document ends its check.
    pub checks: Vec<DiscoveryCheck>,
    /// The quirks of the authorization server to which the client adapts its requests. The step of its metadata has them.
    pub quirks: Vec<Quirk>,
}

impl DiscoveryStep {
    pub(crate) fn new(kind: StepKind, url: Option<&str>) -> Self {
        let (status, redirect, document, absence) = Default::default();
        let url = url.map(shown);
        Self { kind, url, status, redirect, document, absence, checks: Vec::new(), quirks: Vec::new() }
    }

    /// Whether a rule does not hold.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        self.checks.iter().any(|check| check.failure.is_some())
    }
}

/// The discovery of an MCP server, step by step ([`OAuth::explain`](crate::OAuth::explain)).
///
/// ```no_run
/// # async fn example(auth: &mcp_oauth::OAuth) -> Result<(), Box<dyn std::error::Error>> {
/// let explanation = auth.explain(&"https://mcp.example.com/mcp".parse()?).await?;
/// for step in &explanation.steps {
///     println!("{} {}", step.kind.name(), step.url.as_deref().unwrap_or_default());
///     for check in step.checks.iter().filter(|check| check.failure.is_some()) {
///         println!("  {}: {}", check.rule, check.rule.remedy());
///     }
/// }
/// if let Some(error) = &explanation.error {
///     println!("a login fails: {error}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Explanation {
    /// The steps, in their order.
    pub steps: Vec<DiscoveryStep>,
    /// The error with which a login fails before the user is asked. `None` if the discovery finds no obstacle.
    pub error: Option<Error>,
}

/// Receives the steps of a discovery. Without [`Trail::recording`] it keeps none of them.
#[derive(Debug, Default)]
pub(crate) struct Trail(Option<Mutex<Vec<DiscoveryStep>>>);

impl Trail {
    /// Returns a trail that keeps no steps.
    pub(crate) const fn off() -> Self {
        Self(None)
    }

    pub(crate) fn recording() -> Self {
        Self(Some(Mutex::default()))
    }

    /// Adds a step.
    pub(crate) fn add(&self, step: impl FnOnce() -> DiscoveryStep) {
        if let Some(steps) = &self.0 {
            let mut step = step();
            if let Some(document) = &mut step.document {
                hide_secrets(document);
            }
            steps.lock().push(step);
        }
    }

    /// Changes the latest step.
    pub(crate) fn edit(&self, edit: impl FnOnce(&mut DiscoveryStep)) {
        if let Some(steps) = &self.0
            && let Some(step) = steps.lock().last_mut()
        {
            edit(step);
        }
    }

    /// Notes the result of a rule at the latest step, and returns it.
    pub(crate) fn check<T, E: fmt::Display>(&self, rule: DiscoveryRule, result: Result<T, E>) -> Result<T, E> {
        self.check_or_assume(rule, result, None)
    }

    /// Notes the result of a rule at the latest step, and returns it. `assumption` is the reason why no document or setting
    /// shows that the rule holds.
    pub(crate) fn check_or_assume<T, E: fmt::Display>(
        &self,
        rule: DiscoveryRule,
        result: Result<T, E>,
        assumption: Option<String>,
    ) -> Result<T, E> {
        self.edit(|step| {
            let failure = result.as_ref().err().map(ToString::to_string);
            let assumption = assumption.filter(|_| failure.is_none());
            step.checks.push(DiscoveryCheck { rule, failure, assumption });
        });
        result
    }

    pub(crate) fn into_steps(self) -> Vec<DiscoveryStep> {
        self.0.map(Mutex::into_inner).unwrap_or_default()
    }
}

/// The reader of the documents of a discovery.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) fetch: &'a Fetch,
    pub(crate) trail: &'a Trail,
}

impl<'a> Reader<'a> {
    /// Returns a reader that records nothing.
    pub(crate) fn unrecorded(fetch: &'a Fetch) -> Self {
        static OFF: Trail = Trail::off();
        Self { fetch, trail: &OFF }
    }
}

/// Returns a URL without the parts that may contain secrets.
pub(crate) fn shown(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else { return format!("{url:?}") };
    url.set_query(None);
    url.set_fragment(None);
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.into()
}

/// Replaces the values of members that may be secrets. Documents of metadata have none, and a faulty server may send some.
fn hide_secrets(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(hide_secrets),
        Value::Object(members) => {
            for (name, value) in members {
                if is_secret(name) && !value.is_null() {
                    *value = "…".into();
                } else {
                    hide_secrets(value);
                }
            }
        }
        _ => {}
    }
}

fn is_secret(name: &str) -> bool {
    const ENDS: [&str; 7] = ["secret", "token", "password", "passphrase", "api_key", "private_key", "credential"];
    let name = name.to_ascii_lowercase().replace('-', "_");
    ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_show_no_secrets() {
        let trail = Trail::recording();
        trail.add(|| {
            let mut step =
                DiscoveryStep::new(StepKind::Challenge, Some("https://u:hunter1@a.example/mcp?key=hunter2#f"));
            step.document = Some(json!({
                "token_endpoint": "https://as.example/token", "client_secret": "hunter3",
                "nested": [{"access_token": {"a": "hunter4"}, "Api-Key": "hunter5", "password": null}]
            }));
            step
        });
        let step = &trail.into_steps()[0];
        assert!(!format!("{step:?}").contains("hunter"), "{step:?}");
        assert_eq!(step.url.as_deref(), Some("https://a.example/mcp"));
        let document = step.document.as_ref().unwrap();
        assert_eq!(document["token_endpoint"], "https://as.example/token");
        assert_eq!(document["nested"][0], json!({"access_token": "…", "Api-Key": "…", "password": null}));
    }

    #[test]
    fn checks_belong_to_the_latest_step() {
        let trail = Trail::recording();
        let failed = || Err::<(), _>("the reason");
        assert!(trail.check(DiscoveryRule::Pkce, failed()).is_err());
        for kind in [StepKind::ResourceMetadata, StepKind::ServerMetadata] {
            trail.add(|| DiscoveryStep::new(kind, None));
            trail.check(DiscoveryRule::NamesIssuer, Ok::<_, String>(7)).unwrap();
            assert_eq!(trail.check(DiscoveryRule::IssuerEqual, failed()), failed());
        }
        let steps = trail.into_steps();
        let failures: Vec<_> = steps[1].checks.iter().map(|check| check.failure.as_deref()).collect();
        assert_eq!((steps.len(), failures), (2, vec![None, Some("the reason")]));
        assert!(steps[0].is_failed());
        let off = Trail::off();
        off.add(|| unreachable!("a trail that is off builds no step"));
        assert!(off.check(DiscoveryRule::Pkce, failed()).is_err() && off.into_steps().is_empty());
    }
}
