//! Rules for authenticated callers: scopes that imply others, and the callers that may use the server.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use http::HeaderName;
use mcp_protocol::{Challenge, Principal, ProtectedResourceMetadata};
use serde_json::Value;

use crate::authenticator::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection};

/// A provider with rules for the callers that it authenticates.
///
/// Without a rule each caller is allowed. With rules, a caller is allowed if any one of them allows the caller: a further rule
/// never excludes callers. Rules should use values that the issuer never gives to another user, such as the subject. A user can
/// often change a name or an e-mail address.
///
/// ```
/// use mcp_auth::{Jwt, Policy};
///
/// let auth = Policy::new(Jwt::issuer("https://as.example")?)
///     .scope_implies("files:write", ["files:read"])
///     .allow_principals("https://as.example", ["user-7", "user-8"]);
/// # let _ = auth;
/// # Ok::<_, mcp_auth::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Policy<A> {
    inner: A,
    implied: BTreeMap<String, Vec<String>>,
    allowed: Vec<Allowed>,
}

/// A rule that allows callers. One rule must allow the caller.
#[derive(Debug, Clone)]
enum Allowed {
    Subjects(BTreeSet<String>),
    Principals(String, BTreeSet<String>),
    Claim(String, BTreeSet<String>),
    /// The values without a difference between letters of ASCII in upper and lower case.
    ClaimIgnoringCase(String, Vec<String>),
}

impl<A: Authenticator> Policy<A> {
    /// Returns a provider without rules.
    pub fn new(inner: A) -> Self {
        Self { inner, implied: BTreeMap::new(), allowed: Vec::new() }
    }

    /// Gives a caller with one scope further scopes. The implied scopes may imply others.
    #[must_use]
    pub fn scope_implies(
        mut self,
        scope: impl Into<String>,
        implied: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.implied.entry(scope.into()).or_default().extend(implied.into_iter().map(Into::into));
        self
    }

    /// Allows these subjects of one issuer. A caller that no rule allows receives 403.
    #[must_use]
    pub fn allow_principals(
        mut self,
        issuer: impl Into<String>,
        subjects: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.allowed.push(Allowed::Principals(issuer.into(), subjects.into_iter().map(Into::into).collect()));
        self
    }

    /// Allows these subjects of any issuer. Two issuers may give one subject to two users, so a server with several issuers
    /// needs [`allow_principals`](Self::allow_principals).
    #[must_use]
    pub fn allow_subjects(mut self, subjects: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed.push(Allowed::Subjects(subjects.into_iter().map(Into::into).collect()));
        self
    }

    /// Allows callers by the text of a claim. The texts must be identical.
    #[must_use]
    pub fn allow_claim<'a>(mut self, claim: impl Into<String>, values: impl IntoIterator<Item = &'a str>) -> Self {
        self.allowed.push(Allowed::Claim(claim.into(), values.into_iter().map(str::to_owned).collect()));
        self
    }

    /// Allows callers by the text of a claim, such as `login` of GitHub. Upper and lower case of ASCII letters do not count.
    #[must_use]
    pub fn allow_claim_ignoring_case<'a>(
        mut self,
        claim: impl Into<String>,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.allowed.push(Allowed::ClaimIgnoringCase(claim.into(), values.into_iter().map(str::to_owned).collect()));
        self
    }

    fn apply(&self, mut authenticated: Authenticated) -> Result<Authenticated, Rejection> {
        let principal = &authenticated.principal;
        if !self.allowed.is_empty() && !self.allowed.iter().any(|rule| rule.allows(principal)) {
            tracing::debug!(caller = principal.fingerprint(), "no rule allows the caller");
            return Err(Rejection::Forbidden);
        }
        // Most callers have no scope that implies others, and need no copy of their scopes.
        if principal.scopes.iter().any(|scope| self.implied.contains_key(scope)) {
            let scopes = self.expand(&principal.scopes);
            if scopes.len() > principal.scopes.len() {
                Arc::make_mut(&mut authenticated.principal).scopes = scopes;
            }
        }
        Ok(authenticated)
    }

    /// Returns the scopes with all that they imply.
    fn expand(&self, scopes: &BTreeSet<String>) -> BTreeSet<String> {
        let mut all = scopes.clone();
        let mut open: Vec<&String> = scopes.iter().collect();
        while let Some(scope) = open.pop() {
            for implied in self.implied.get(scope).into_iter().flatten() {
                if all.insert(implied.clone()) {
                    open.push(implied);
                }
            }
        }
        all
    }
}

impl Allowed {
    fn allows(&self, principal: &Principal) -> bool {
        let claim = |name: &str| principal.claims.get(name).and_then(Value::as_str);
        match self {
            Self::Subjects(subjects) => subjects.contains(&principal.subject),
            Self::Principals(issuer, subjects) => {
                principal.issuer.as_ref() == Some(issuer) && subjects.contains(&principal.subject)
            }
            Self::Claim(name, values) => claim(name).is_some_and(|value| values.contains(value)),
            Self::ClaimIgnoringCase(name, values) => {
                claim(name).is_some_and(|value| values.iter().any(|allowed| allowed.eq_ignore_ascii_case(value)))
            }
        }
    }
}

impl<A: Authenticator> Authenticator for Policy<A> {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async move { self.apply(self.inner.authenticate(request).await?) })
    }

    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        Some(self.inner.authenticate_now(request)?.and_then(|authenticated| self.apply(authenticated)))
    }

    fn challenges(&self) -> Vec<Challenge> {
        self.inner.challenges()
    }

    fn request_headers(&self) -> Vec<HeaderName> {
        self.inner.request_headers()
    }

    fn authorization_servers(&self) -> Vec<String> {
        self.inner.authorization_servers()
    }

    fn describe(&self, metadata: &mut ProtectedResourceMetadata) {
        self.inner.describe(metadata);
    }
}
