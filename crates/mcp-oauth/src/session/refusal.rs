//! The reaction to a refusal of the MCP server: a refresh, a login, or a login with further scopes.

use std::sync::{Arc, atomic::Ordering};

use http::StatusCode;
use mcp_protocol::{Challenge, auth::Secret};
use url::Url;

use super::{Session, Work, on_own_task};
use crate::{
    discovery::{self, Server},
    dpop,
    error::{Error, ErrorKind},
    quirks::QuirkKind,
    tokens::{Grant, Tokens, now},
    trail::{DiscoveryRule, Reader, Trail},
};

/// A request that the server refused.
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) challenges: Vec<Challenge>,
    /// The token of the request.
    pub(crate) token: Option<Secret>,
}

impl Refused {
    /// Whether the same reaction answers both refusals.
    fn is_similar(&self, other: &Self) -> bool {
        let is_same = self.status == other.status && self.token == other.token;
        is_same && (self.status == StatusCode::UNAUTHORIZED || self.scopes() == other.scopes())
    }

    fn metadata_url(&self) -> Option<&str> {
        self.challenges.iter().find_map(|challenge| challenge.resource_metadata.as_deref())
    }

    fn scopes(&self) -> Vec<String> {
        let challenge = self.challenges.iter().find(|challenge| challenge.scope.is_some());
        challenge.map(|challenge| challenge.scopes().map(str::to_owned).collect()).unwrap_or_default()
    }

    /// Whether the MCP server accepts proofs of the client.
    fn accepts_dpop(&self) -> bool {
        let accepts = |algs: &str| algs.split(' ').any(|algorithm| algorithm == dpop::ALGORITHM);
        self.challenges
            .iter()
            .any(|challenge| challenge.is_scheme("DPoP") && challenge.algs.as_deref().is_none_or(accepts))
    }

    /// Checks that the challenges do not exclude the tokens of a login. A server without a challenge may accept them.
    ///
    /// # Errors
    /// [`ErrorKind::NoLogin`] if each challenge has a scheme for other credentials, such as `ApiKey`.
    pub(super) fn check_schemes(&self) -> Result<(), Error> {
        let accepts_tokens = |challenge: &Challenge| challenge.is_scheme("Bearer") || challenge.is_scheme("DPoP");
        match self.challenges.first() {
            Some(first) if !self.challenges.iter().any(accepts_tokens) => {
                let scheme: String = first.scheme.chars().take(MAX_SCHEME).collect();
                let text = format!(
                    "the server has no OAuth metadata, and its challenge has the scheme {scheme:?}: it expects other \
                     credentials than the tokens of a login"
                );
                Err(Error::no_login(text, self.credentials_header()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the header for the credentials that the challenges demand.
    pub(super) fn credentials_header(&self) -> Option<String> {
        const OF_AUTHORIZATION: [&str; 4] = ["Basic", "Bearer", "Digest", "DPoP"];
        let is_standard = |challenge: &Challenge| OF_AUTHORIZATION.iter().any(|scheme| challenge.is_scheme(scheme));
        let standard = || self.challenges.iter().any(is_standard).then(|| "Authorization".to_owned());
        self.challenges.iter().find_map(header_of).or_else(standard)
    }

    fn is_insufficient_scope(&self) -> bool {
        self.challenges.iter().any(|challenge| challenge.error.as_deref() == Some("insufficient_scope"))
    }
}

/// Returns the header that a challenge names for an API key: the parameter `header`, or `name` beside `in="header"`.
fn header_of(challenge: &Challenge) -> Option<String> {
    let param = |wanted: &str| {
        let found = challenge.params.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_str())
    };
    let named = param("header").or_else(|| param("name").filter(|_| param("in") == Some("header")))?;
    // The name can become a part of a command line.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_name = !named.is_empty() && named.len() <= MAX_HEADER && named.bytes().all(is_plain);
    is_name.then(|| named.to_owned())
}

/// A reaction that failed.
pub(super) struct Failure {
    refused: Refused,
    error: Error,
}

/// The longest part of the scheme of a challenge in a text, in characters.
const MAX_SCHEME: usize = 40;
/// The longest name of a header that a challenge may name, in bytes.
const MAX_HEADER: usize = 64;
/// The largest number of issuers of an MCP server that the client asks for their metadata.
const MAX_ISSUERS: usize = 5;
/// The age up to which tokens are new, in seconds. The refusal of a new token does not start the same grant again.
const JUST_NOW: u64 = 60;

/// The age up to which a login is recent, in seconds. The same scopes are not requested again after a recent login.
const RECENTLY: u64 = 300;

/// The parts of a login that discovery determined.
pub(super) struct Found {
    pub(super) server: Arc<Server>,
    /// The value of the parameter `resource`.
    pub(super) resource: Option<String>,
    /// The scopes of the metadata document.
    scopes: Vec<String>,
    /// Whether the tokens are bound to a key of the client.
    pub(super) uses_dpop: bool,
    /// The header for the credentials of the server, if its challenge shows it.
    pub(super) credentials_header: Option<String>,
}

impl Found {
    /// Returns the scopes that the server requires: those of its challenge, else those of its metadata document.
    pub(super) fn required(&self, refused: &Refused) -> Vec<String> {
        let challenged = refused.scopes();
        if challenged.is_empty() { self.scopes.clone() } else { challenged }
    }

    /// Returns the scopes that the metadata documents list. `None` if they list none.
    pub(super) fn offered(&self) -> Option<&[String]> {
        let of_server = self.server.metadata.scopes_supported.as_deref();
        of_server.or(Some(&*self.scopes).filter(|scopes| !scopes.is_empty()))
    }

    /// Returns the error of a login. If no document shows that the server has logins, and it has no registration at the default
    /// endpoint, the server probably expects other credentials.
    pub(super) fn explained(&self, error: Error) -> Error {
        let is_unregistered = error.kind() == ErrorKind::Registration && error.oauth_error().is_none();
        if !self.server.has_default_endpoints || !is_unregistered {
            return error;
        }
        let text =
            format!("the server has no OAuth metadata, so it may expect other credentials than a login: {error}");
        Error::no_login(text, self.credentials_header.clone())
    }

    /// Returns the scopes of earlier tokens, if a login for the same resource at the same issuer requested them.
    fn earlier<'a>(&self, tokens: &'a Tokens) -> &'a [String] {
        let is_same = tokens.issuer == self.server.identity && tokens.resource.is_none() == self.resource.is_none();
        if is_same { &tokens.requested } else { &[] }
    }
}

impl Session {
    /// Acts on a refusal. `true` if another token is there, so the request should be repeated.
    pub(crate) async fn refused(self: &Arc<Self>, refused: Refused) -> Result<bool, Error> {
        let (session, reactions) = (Arc::clone(self), self.completed_reactions());
        on_own_task(async move { session.react(refused, reactions).await }).await
    }

    async fn react(&self, refused: Refused, reactions: u64) -> Result<bool, Error> {
        let mut work = self.working().await?;
        // A failure during the wait is the result of each refusal for the same reason.
        if self.completed_reactions() != reactions
            && let Some(failure) = work.failure.as_ref().filter(|failure| failure.refused.is_similar(&refused))
        {
            return Err(failure.error.clone());
        }
        let result = self.react_alone(&mut work, &refused).await;
        work.failure = result.as_ref().err().map(|error| Failure { refused, error: error.clone() });
        self.reactions.fetch_add(1, Ordering::Release);
        result
    }

    async fn react_alone(&self, work: &mut Work, refused: &Refused) -> Result<bool, Error> {
        let current = self.current();
        if let Some(tokens) = &current
            && refused.token.as_ref() != Some(&tokens.access_token)
            && !tokens.is_expired(now())
        {
            return Ok(true);
        }
        // If the tokens of the request were replaced, its refusal does not concern the current tokens.
        let sent = current.filter(|tokens| refused.token.as_ref() == Some(&tokens.access_token));
        match refused.status {
            StatusCode::UNAUTHORIZED => self.replace(work, refused, sent).await,
            StatusCode::FORBIDDEN if refused.is_insufficient_scope() => self.step_up(work, refused, sent).await,
            _ => Ok(false),
        }
    }

    /// Replaces a missing or invalid token. The metadata is read again, because the server may have another issuer by now.
    async fn replace(&self, work: &mut Work, refused: &Refused, sent: Option<Arc<Tokens>>) -> Result<bool, Error> {
        let stored = self.stored().await?;
        let stored = match stored.filter(|stored| self.is_news(stored)) {
            Some(stored) if refused.token.as_ref() != Some(&stored.access_token) && !stored.is_expired(now()) => {
                self.adopt(stored);
                work.pause = None;
                return Ok(true);
            }
            stored => stored.map(Arc::new),
        };
        let found = self.discover(refused, &Trail::off()).await?;
        work.server = Some(Arc::clone(&found.server));
        let known = stored.or_else(|| self.current()).filter(|tokens| tokens.issuer == found.server.identity);
        if let Some(tokens) = &known {
            let is_useless = sent.is_some() && self.is_useless(tokens);
            if is_useless && tokens.grant == Grant::Login {
                let text = "the server rejects the token of a login that just succeeded";
                return Err(Error::new(ErrorKind::Token, text).with_quirks(&found.server.quirks));
            }
            if tokens.refresh_token().is_some() && !is_useless {
                match self.refresh(work, tokens).await {
                    Ok(fresh) if refused.token.as_ref() != Some(&fresh.access_token) => return Ok(true),
                    Ok(_) => {}
                    Err(error) if error.is_temporary() || error.kind() == ErrorKind::Store => return Err(error),
                    Err(error) => tracing::debug!(%error, "the refresh failed, so the user must log in again"),
                }
            }
        }
        let required = found.required(refused);
        // A new login keeps the scopes of earlier step-ups.
        let earlier = known.as_deref().map(|tokens| found.earlier(tokens)).unwrap_or_default();
        self.log_in(work, &found, &required, earlier, refused.token.as_ref()).await
    }

    /// Whether refused tokens are new, and the server never accepted them. The same grant would not help.
    fn is_useless(&self, tokens: &Tokens) -> bool {
        let is_new = now().saturating_sub(tokens.obtained_at) < JUST_NOW;
        is_new && !tokens.is_expired(now()) && !self.is_accepted(tokens)
    }

    /// Logs in with further scopes. The same scopes are not requested again soon: the server would require a login for each
    /// request.
    async fn step_up(&self, work: &mut Work, refused: &Refused, sent: Option<Arc<Tokens>>) -> Result<bool, Error> {
        let named = refused.scopes();
        // A server may name the scopes in its metadata alone.
        let found = if named.is_empty() { Some(self.discover(refused, &Trail::off()).await?) } else { None };
        let required = found.as_ref().map_or(named, |found| found.scopes.clone());
        let is_recent = sent.as_ref().is_some_and(|tokens| now().saturating_sub(tokens.logged_in_at) < RECENTLY);
        let requested = sent.as_deref().map(|tokens| &*tokens.requested).unwrap_or_default();
        let is_requested = required.iter().all(|scope| requested.contains(scope));
        if is_requested && (is_recent || required.is_empty()) {
            let text = format!("the server requires the scopes {required:?}, which the last login already requested");
            return Err(Error::insufficient_scope(text, required));
        }
        let found = match found {
            Some(found) => found,
            None => self.discover(refused, &Trail::off()).await?,
        };
        work.server = Some(Arc::clone(&found.server));
        let earlier = sent.as_deref().map(|tokens| found.earlier(tokens)).unwrap_or_default();
        self.log_in(work, &found, &required, earlier, refused.token.as_ref()).await
    }

    /// Determines the parts of a login from the metadata of the servers.
    pub(super) async fn discover(&self, refused: &Refused, trail: &Trail) -> Result<Found, Error> {
        self.settings.check()?;
        let reader = Reader { fetch: self.fetch(), trail };
        let credentials_header = refused.credentials_header();
        let resource = discovery::resource(reader, &self.endpoint, refused.metadata_url()).await?;
        let Some(resource) = resource else {
            let server = Arc::new(discovery::legacy(reader, &self.endpoint).await?);
            if server.has_default_endpoints
                && let Err(error) = refused.check_schemes()
            {
                return trail.check(DiscoveryRule::OffersLogin, Err(error));
            }
            if self.settings.client.issuer.is_some() {
                let checked = self.settings.client.check_issuer(&server.identity);
                let reason = "no document names the issuer, which is the origin of the server in 2025-03-26";
                let assumption = server.has_default_endpoints.then(|| reason.to_owned());
                trail.check_or_assume(DiscoveryRule::IssuerConfigured, checked, assumption)?;
            }
            let resource = (!self.settings.omits_resource).then(|| resource_of(&self.endpoint));
            return Ok(Found { server, resource, scopes: Vec::new(), uses_dpop: false, credentials_header });
        };
        let server = Arc::new(self.choose(&resource.issuers, reader).await?);
        let omits_resource = self.settings.omits_resource || server.has_quirk(QuirkKind::OmitsResource);
        let identifier = (!omits_resource).then_some(resource.identifier);
        let uses_dpop = (resource.accepts_dpop || refused.accepts_dpop()) && server.issues_bound_tokens();
        Ok(Found { server, resource: identifier, scopes: resource.scopes, uses_dpop, credentials_header })
    }

    /// Returns the authorization server: the configured one, else that of the current tokens if the server still names it,
    /// else the first valid one.
    async fn choose(&self, issuers: &[String], reader: Reader<'_>) -> Result<Server, Error> {
        let is_named = |issuer: &str, name: &str| {
            let quirks = |issuer| self.settings.quirks(issuer);
            discovery::is_same_issuer(issuer, name, &quirks(name))
                || discovery::is_same_issuer(name, issuer, &quirks(issuer))
        };
        if let Some(configured) = &self.settings.client.issuer {
            let Some(name) = issuers.iter().find(|name| is_named(configured, name)) else {
                let first = issuers.first().map(String::as_str).unwrap_or_default();
                let other = self.settings.client.check_issuer(first).and_then(|()| Err(none()));
                return reader.trail.check(DiscoveryRule::IssuerConfigured, other);
            };
            let server = discovery::server(reader, name, &self.settings.quirks(name)).await?;
            let checked = self.settings.client.check_issuer(&server.identity);
            return reader.trail.check(DiscoveryRule::IssuerConfigured, checked).map(|()| server);
        }
        let own = self.current().map(|tokens| tokens.issuer.clone());
        let own = own.and_then(|own| issuers.iter().find(|name| is_named(&own, name)));
        let mut failure = None;
        let others = issuers.iter().filter(|issuer| Some(*issuer) != own);
        for issuer in own.into_iter().chain(others).take(MAX_ISSUERS) {
            match discovery::server(reader, issuer, &self.settings.quirks(issuer)).await {
                Ok(server) => return Ok(server),
                // The tokens are not replaced by those of another issuer because of an outage.
                Err(error) if own == Some(issuer) && error.is_temporary() => return Err(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(none))
    }
}

fn none() -> Error {
    Error::new(ErrorKind::Discovery, "the server names no authorization server")
}

/// Returns the resource identifier of a server without metadata. It has no query (RFC 8707 §2): a query may contain a key.
fn resource_of(endpoint: &Url) -> String {
    let mut resource = endpoint.clone();
    resource.set_query(None);
    resource.into()
}
