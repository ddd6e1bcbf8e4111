//! Assertions of other issuers, which an authorization server accepts instead of a login (RFC 7523 §2.1): workload identities,
//! and identity assertion authorization grants of an identity provider.

use std::fmt;

use mcp_fetch::Fetch;
use mcp_protocol::auth::{Secret, grant_type, token_type};
use mcp_transport::BoxFuture;

use crate::{
    error::{Error, ErrorKind},
    registration::Registration,
    token_endpoint::{TOKEN_ENDPOINT, TokenEndpoint},
};

/// Returns assertions, such as the projected token of a workload, which it reads again for each request.
///
/// ```
/// use mcp_oauth::{Assertion, AssertionRequest, Error, ErrorKind, OAuth};
/// use mcp_protocol::auth::Secret;
/// use mcp_transport::BoxFuture;
///
/// /// The token that a platform writes to a file.
/// struct Workload;
///
/// impl Assertion for Workload {
///     fn assertion<'a>(&'a self, _: &'a AssertionRequest) -> BoxFuture<'a, Result<Secret, Error>> {
///         Box::pin(async {
///             let text = std::fs::read_to_string("/var/run/secrets/tokens/mcp");
///             let failed = |error| Error::with_source(ErrorKind::Configuration, "the workload has no token", error);
///             Ok(Secret::new(text.map_err(failed)?.trim()))
///         })
///     }
/// }
///
/// let auth = OAuth::builder().assertion(Workload).issuer("https://as.example").build();
/// # let _ = auth;
/// ```
pub trait Assertion: Send + Sync + 'static {
    /// Returns an assertion for one token request. An authorization server accepts each assertion once.
    ///
    /// # Errors
    /// If the application has no assertion. The request of the client fails with this error.
    fn assertion<'a>(&'a self, request: &'a AssertionRequest) -> BoxFuture<'a, Result<Secret, Error>>;
}

/// The token request that needs an assertion.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AssertionRequest {
    /// The issuer of the authorization server: the audience of the assertion.
    pub issuer: String,
    /// The resource of the tokens.
    pub resource: Option<String>,
    /// The requested scopes.
    pub scopes: Vec<String>,
}

impl AssertionRequest {
    pub(crate) fn new(issuer: &str, resource: Option<&str>, scopes: &[String]) -> Self {
        Self { issuer: issuer.to_owned(), resource: resource.map(str::to_owned), scopes: scopes.to_vec() }
    }
}

/// The type of a subject token at an [`IdentityProvider`].
///
/// ```
/// use mcp_oauth::SubjectTokenType;
///
/// assert_ne!(SubjectTokenType::IdToken, SubjectTokenType::Saml2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubjectTokenType {
    /// An id token (OpenID Connect).
    IdToken,
    /// An assertion of SAML 2.0.
    Saml2,
    /// A refresh token of the identity provider.
    RefreshToken,
}

impl SubjectTokenType {
    const fn as_str(self) -> &'static str {
        match self {
            Self::IdToken => token_type::ID_TOKEN,
            Self::Saml2 => token_type::SAML2,
            Self::RefreshToken => token_type::REFRESH_TOKEN,
        }
    }
}

/// The identity provider of an enterprise, which decides about the access of its users to MCP servers. It exchanges the
/// token of a single sign-on for an assertion (ID-JAG, RFC 8693).
///
/// ```
/// use mcp_oauth::{IdentityProvider, OAuth, SubjectTokenType};
///
/// let provider = IdentityProvider::new("https://idp.example/token", "idp-client", SubjectTokenType::IdToken, "id token");
/// let auth = OAuth::builder().client_id("mcp-client").client_secret("secret").issuer("https://as.example");
/// let auth = auth.assertion(provider).build();
/// # let _ = auth;
/// ```
#[derive(Clone)]
pub struct IdentityProvider {
    url: String,
    client: Registration,
    kind: SubjectTokenType,
    token: Secret,
    fetch: Fetch,
}

impl IdentityProvider {
    /// Returns a provider with its token endpoint, the id of a public client there, and the token of the user.
    pub fn new(
        token_endpoint: impl Into<String>,
        client_id: impl Into<String>,
        kind: SubjectTokenType,
        token: impl Into<Secret>,
    ) -> Self {
        let client = Registration::of_application(client_id);
        Self { url: token_endpoint.into(), client, kind, token: token.into(), fetch: Fetch::new() }
    }

    /// Sets the secret of the client at the provider. It is sent with `client_secret_basic`.
    #[must_use]
    pub fn client_secret(mut self, secret: impl Into<Secret>) -> Self {
        self.client = self.client.with_secret(secret);
        self
    }

    /// Sets the requests to the provider. The default allows public hosts only.
    #[must_use]
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        self.fetch = fetch;
        self
    }
}

impl Assertion for IdentityProvider {
    fn assertion<'a>(&'a self, request: &'a AssertionRequest) -> BoxFuture<'a, Result<Secret, Error>> {
        Box::pin(async move {
            let resource = request.resource.as_deref();
            let endpoint = TokenEndpoint {
                fetch: &self.fetch,
                url: &self.url,
                name: TOKEN_ENDPOINT,
                client: &self.client,
                key: None,
                resource,
                proofs: None,
            };
            let scope = request.scopes.join(" ");
            let mut params = vec![
                ("grant_type", grant_type::TOKEN_EXCHANGE),
                ("requested_token_type", token_type::ID_JAG),
                ("audience", &request.issuer),
                ("subject_token", self.token.expose()),
                ("subject_token_type", self.kind.as_str()),
            ];
            if !scope.is_empty() {
                params.push(("scope", &scope));
            }
            let answer = endpoint.grant(&params).await?;
            if answer.issued_token_type.as_deref() != Some(token_type::ID_JAG) {
                let text = "the identity provider issued another token than an identity assertion";
                return Err(Error::new(ErrorKind::Token, text));
            }
            Ok(answer.access_token)
        })
    }
}

impl fmt::Debug for IdentityProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityProvider")
            .field("url", &self.url)
            .field("client_id", &self.client.client_id)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
