//! Several providers, own schemes, and requests without credentials.

use std::{fmt, sync::Arc, time::Duration};

use http::{HeaderName, header::AUTHORIZATION};
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
/// All providers together have 20 seconds. If no provider accepts the credentials, the most precise rejection counts: 403 before 503, before 401, before 400.
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
    anonymous: Option<Arc<Principal>>,
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

    /// Accepts requests without credentials as this principal. A request whose credentials no provider accepts stays
    /// rejected.
    ///
    /// ```
    /// use mcp_auth::{ApiKeys, Chain};
    /// use mcp_protocol::Principal;
    ///
    /// let auth = Chain::new()
    ///     .with(ApiKeys::new().key("hunter2", Principal::new("build-server").with_scopes(["deploy"]))?)
    ///     .or_anonymous(Principal::new("anonymous").with_scopes(["read"]));
    /// # let _ = auth;
    /// # Ok::<_, mcp_auth::ConfigError>(())
    /// ```
    #[must_use]
    pub fn or_anonymous(mut self, principal: Principal) -> Self {
        self.anonymous = Some(Arc::new(principal));
        self
    }
}

impl Chain {
    /// Returns the result for a request that no provider accepts.
    fn without_provider(&self, tried: Tried, request: &AuthRequest<'_>) -> Result<Authenticated, Rejection> {
        match &self.anonymous {
            // Another scheme in `Authorization` is a credential too, although no provider reads it.
            Some(principal) if tried.worst == Rejection::Missing && !request.headers.contains_key(AUTHORIZATION) => {
                Ok(Authenticated::new(Arc::clone(principal)))
            }
            _ => Err(tried.worst),
        }
    }
}

/// The rejections of the providers of a chain.
struct Tried {
    /// The most precise one.
    worst: Rejection,
}

impl Tried {
    fn new() -> Self {
        Self { worst: Rejection::Missing }
    }

    /// Adds the result of a provider. Returns the result of the chain if no other provider can change it.
    fn add(&mut self, result: Result<Authenticated, Rejection>) -> Option<Result<Authenticated, Rejection>> {
        match result {
            Ok(mut authenticated) => {
                authenticated.has_rejected_credentials |= self.worst != Rejection::Missing;
                Some(Ok(authenticated))
            }
            Err(Rejection::Forbidden) => Some(Err(Rejection::Forbidden)),
            Err(rejection) => {
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
            for provider in &self.providers {
                let result = tokio::time::timeout_at(deadline, provider.authenticate(request)).await;
                let late = || Err(Rejection::Unavailable { retry_after: Duration::from_secs(5) });
                if let Some(decided) = tried.add(result.unwrap_or_else(|_| late())) {
                    return decided;
                }
            }
            self.without_provider(tried, request)
        })
    }

    fn authenticate_now(&self, request: &AuthRequest<'_>) -> Option<Result<Authenticated, Rejection>> {
        let mut tried = Tried::new();
        for provider in &self.providers {
            if let Some(decided) = tried.add(provider.authenticate_now(request)?) {
                return Some(decided);
            }
        }
        Some(self.without_provider(tried, request))
    }

    fn challenges(&self) -> Vec<Challenge> {
        union(self.providers.iter().flat_map(|provider| provider.challenges()))
    }

    fn request_headers(&self) -> Vec<HeaderName> {
        union(self.providers.iter().flat_map(|provider| provider.request_headers()))
    }

    fn authorization_servers(&self) -> Vec<String> {
        union(self.providers.iter().flat_map(|provider| provider.authorization_servers()))
    }

    fn describe(&self, metadata: &mut ProtectedResourceMetadata) {
        for provider in &self.providers {
            provider.describe(metadata);
        }
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
