//! Several providers, and own schemes.

use std::{fmt, time::Duration};

use http::HeaderName;
use mcp_protocol::{Challenge, Principal, ProtectedResourceMetadata};

use crate::{
    authenticator::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection, with_scheme},
    credentials,
    limit::CheckLimit,
};

/// The longest time that all providers of a chain have together.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Several providers. The first provider that accepts the credentials authenticates the client.
///
/// If a provider accepts the credentials without a wait, the chain skips each earlier provider that has one of its schemes and
/// needs a wait. An issuer therefore never receives a key, a fixed token or a token that a known key signed. If no provider accepts
/// a token without a wait, each remote provider of its scheme receives the token, in their order. Remote providers are
/// [`Introspection`](crate::Introspection), [`GitHub`](crate::GitHub) and functions of the application.
///
/// All providers together have 20 seconds. If no provider accepts the credentials, the most precise rejection counts: 403
/// before 503, before 401, before 400. [`HttpConfig::allow_anonymous`] serves requests without credentials.
///
/// [`HttpConfig::allow_anonymous`]: https://docs.rs/mcp-server-http/latest/mcp_server_http/struct.HttpConfig.html
///
/// ```
/// use mcp_auth::{ApiKeys, Chain, Jwt};
/// use mcp_protocol::Principal;
///
/// let auth = Chain::new()
///     .with(Jwt::issuer("https://as.example")?)
///     .with(ApiKeys::new().key("hunter2", Principal::new("build-server"))?);
/// # let _ = auth;
/// # Ok::<_, mcp_auth::ConfigError>(())
/// ```
#[derive(Default)]
pub struct Chain {
    providers: Vec<Box<dyn Authenticator>>,
}

impl Chain {
    /// Returns a chain without providers. It rejects each request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a provider.
    #[must_use]
    pub fn with(mut self, provider: impl Authenticator) -> Self {
        self.providers.push(Box::new(provider));
        self
    }

    /// Returns the results that are known without a wait, until the first accepted one.
    fn known(&self, request: &AuthRequest<'_>) -> Vec<Known> {
        let mut all = Vec::with_capacity(self.providers.len());
        for provider in &self.providers {
            let known = provider.authenticate_now(request);
            let is_accepted = matches!(known, Some(Ok(_)));
            all.push(known);
            if is_accepted {
                self.skip_providers_of_its_schemes(&mut all);
                break;
            }
        }
        all
    }

    /// Skips the providers that need a wait and have a scheme of the last provider. They must not see its credentials.
    fn skip_providers_of_its_schemes(&self, known: &mut [Known]) {
        let Some((_, before)) = known.split_last_mut() else { return };
        if before.iter().all(Option::is_some) {
            return;
        }
        let challenges = self.providers[before.len()].challenges();
        for (provider, known) in self.providers.iter().zip(before) {
            let has_scheme = |challenge: &Challenge| challenges.iter().any(|own| own.is_scheme(&challenge.scheme));
            if known.is_none() && provider.challenges().iter().any(has_scheme) {
                *known = Some(Err(Rejection::Missing));
            }
        }
    }
}

/// The result of a provider if it is known without a wait.
type Known = Option<Result<Authenticated, Rejection>>;

/// The rejections of the providers of a chain.
struct Tried {
    /// The most precise one.
    worst: Rejection,
    /// Whether a provider found credentials wrong or unreadable. Expired tokens and outages are not guesses.
    has_guess: bool,
}

impl Tried {
    fn new() -> Self {
        Self { worst: Rejection::Missing, has_guess: false }
    }

    /// Adds the result of a provider. Returns the result of the chain if no other provider can change it.
    fn add(&mut self, result: Result<Authenticated, Rejection>) -> Option<Result<Authenticated, Rejection>> {
        match result {
            Ok(mut authenticated) => {
                authenticated.has_rejected_credentials |= self.has_guess;
                Some(Ok(authenticated))
            }
            Err(Rejection::Forbidden) => Some(Err(Rejection::Forbidden)),
            Err(rejection) => {
                let is_guess = matches!(rejection, Rejection::Invalid | Rejection::Malformed | Rejection::InvalidProof);
                self.has_guess |= is_guess;
                if rejection.precedence() > self.worst.precedence() {
                    self.worst = rejection;
                }
                None
            }
        }
    }
}

impl Authenticator for Chain {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async move {
            let mut tried = Tried::new();
            let deadline = tokio::time::Instant::now() + TIMEOUT;
            for (provider, known) in self.providers.iter().zip(self.known(request)) {
                let result = match known {
                    Some(known) => known,
                    None => tokio::time::timeout_at(deadline, provider.authenticate(request))
                        .await
                        .unwrap_or(Err(Rejection::Unavailable { retry_after: Duration::from_secs(5) })),
                };
                if let Some(decided) = tried.add(result) {
                    return decided;
                }
            }
            Err(tried.worst)
        })
    }

    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        let mut tried = Tried::new();
        for known in self.known(request) {
            if let Some(decided) = tried.add(known?) {
                return Some(decided);
            }
        }
        Some(Err(tried.worst))
    }

    fn challenges(&self) -> Vec<Challenge> {
        let mut all: Vec<Challenge> = Vec::new();
        for challenge in self.providers.iter().flat_map(|provider| provider.challenges()) {
            // A client reads one challenge of a scheme, so challenges that differ in their algorithms are one.
            let without_algs = |challenge: &Challenge| challenge.clone().with_algs([]);
            match all.iter_mut().find(|known| without_algs(known) == without_algs(&challenge)) {
                Some(known) => known.algs = union_of_algs(known.algs.take(), challenge.algs),
                None => all.push(challenge),
            }
        }
        all
    }

    fn request_headers(&self) -> Vec<HeaderName> {
        union(self.providers.iter().flat_map(|provider| provider.request_headers()))
    }

    fn authorization_servers(&self) -> Vec<String> {
        union(self.providers.iter().flat_map(|provider| provider.authorization_servers()))
    }

    fn describe(&self, metadata: &mut ProtectedResourceMetadata) {
        let configured = metadata.dpop_bound_access_tokens_required.take();
        let mut required = None;
        for provider in &self.providers {
            let known = metadata.dpop_signing_alg_values_supported.take();
            provider.describe(metadata);
            // A client may use each algorithm that one of the providers checks.
            let own = metadata.dpop_signing_alg_values_supported.take();
            let has_algorithms = known.is_some() || own.is_some();
            let algorithms = known.into_iter().chain(own).flatten();
            metadata.dpop_signing_alg_values_supported = has_algorithms.then(|| union(algorithms));
            let is_required = metadata.dpop_bound_access_tokens_required.take();
            let challenges = provider.challenges();
            if challenges.iter().any(|challenge| challenge.is_scheme("Bearer") || challenge.is_scheme("DPoP")) {
                // A client may send a token without a proof if one provider accepts it.
                required = Some(required.unwrap_or(true) && is_required == Some(true));
            }
        }
        let has_proofs = metadata.dpop_signing_alg_values_supported.is_some();
        metadata.dpop_bound_access_tokens_required = required.filter(|_| has_proofs).or(configured);
    }
}

/// Returns the algorithms of two challenges. A client may use each algorithm that one of the providers checks.
fn union_of_algs(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(union(one.split(' ').chain(other.split(' '))).join(" ")),
        (one, other) => one.or(other),
    }
}

fn union<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for item in items {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    all
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("providers", &self.providers.len()).finish()
    }
}

/// An authentication scheme of an application: `Authorization: <scheme> <credentials>`. [`Custom`] makes it an
/// [`Authenticator`].
///
/// ```
/// use mcp_auth::{BoxFuture, Custom, Rejection, Scheme};
/// use mcp_protocol::{Challenge, Principal};
///
/// struct Ticket;
///
/// impl Scheme for Ticket {
///     fn challenge(&self) -> Challenge {
///         Challenge::new("Ticket")
///     }
///
///     fn verify<'a>(&'a self, credentials: &'a str) -> BoxFuture<'a, Result<Principal, Rejection>> {
///         Box::pin(async move {
///             credentials.strip_prefix("valid-").map(Principal::new).ok_or(Rejection::Invalid)
///         })
///     }
/// }
///
/// let auth = Custom::new(Ticket);
/// # let _ = auth;
/// ```
pub trait Scheme: Send + Sync + 'static {
    /// Returns the challenge. Its scheme is the one of the header.
    fn challenge(&self) -> Challenge;

    /// Verifies the credentials behind the scheme. The method must compare secrets in constant time.
    ///
    /// # Errors
    /// The reason for which the credentials are not accepted.
    fn verify<'a>(&'a self, credentials: &'a str) -> BoxFuture<'a, Result<Principal, Rejection>>;
}

/// The [`Authenticator`] of a [`Scheme`]. A check has ten seconds, and at most 64 checks run at once.
///
/// ```
/// # use mcp_auth::{BoxFuture, Custom, Rejection, Scheme};
/// # use mcp_protocol::{Challenge, Principal};
/// # struct Ticket;
/// # impl Scheme for Ticket {
/// #     fn challenge(&self) -> Challenge { Challenge::new("Ticket") }
/// #     fn verify<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Principal, Rejection>> {
/// #         Box::pin(async { Err(Rejection::Invalid) })
/// #     }
/// # }
/// use mcp_auth::Authenticator;
///
/// assert_eq!(Custom::new(Ticket).challenges()[0].scheme, "Ticket");
/// ```
#[derive(Debug, Clone)]
pub struct Custom<S> {
    scheme: S,
    limit: CheckLimit,
}

impl<S: Scheme> Custom<S> {
    /// Returns the authenticator of a scheme.
    pub fn new(scheme: S) -> Self {
        Self { scheme, limit: CheckLimit::new() }
    }
}

impl<S: Scheme> Authenticator for Custom<S> {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async move {
            let name = self.scheme.challenge().scheme;
            let credentials = credentials::authorization(request.headers, &name)?.ok_or(Rejection::Missing)?;
            let principal = self.limit.run(|| self.scheme.verify(credentials)).await?;
            Ok(Authenticated::new(with_scheme(principal, &name)))
        })
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![self.scheme.challenge()]
    }
}
