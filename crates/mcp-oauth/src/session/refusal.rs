//! The reaction to a refusal of the MCP server: a refresh, a login, or a login with further scopes.

use std::sync::{Arc, atomic::Ordering};

use http::StatusCode;
use mcp_protocol::{Challenge, auth::Secret};

use super::{Session, Work, on_own_task};
use crate::{
    discovery::{self, Server},
    dpop,
    error::{Error, ErrorKind},
    tokens::{Grant, Tokens, now},
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

    fn is_insufficient_scope(&self) -> bool {
        self.challenges.iter().any(|challenge| challenge.error.as_deref() == Some("insufficient_scope"))
    }
}

/// A reaction that failed.
pub(super) struct Failure {
    refused: Refused,
    error: Error,
}

/// The age up to which tokens are new, in seconds. The refusal of a new token does not start the same grant again.
const JUST_NOW: u64 = 60;

/// The parts of a login that discovery determined.
pub(super) struct Found {
    pub(super) server: Arc<Server>,
    /// The value of the parameter `resource`.
    pub(super) resource: Option<String>,
    /// The scopes of the metadata document.
    scopes: Vec<String>,
    /// Whether the tokens are bound to a key of the client.
    pub(super) uses_dpop: bool,
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
        // Tokens of an earlier request are gone: the refusal says nothing about the current ones.
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
        let found = self.discover(refused).await?;
        work.server = Some(Arc::clone(&found.server));
        let known = stored.or_else(|| self.current()).filter(|tokens| tokens.issuer == found.server.identity);
        if let Some(tokens) = &known {
            let is_useless = sent.is_some() && self.is_useless(tokens);
            if is_useless && tokens.grant == Grant::Login {
                let text = "the server rejects the token of a login that just succeeded";
                return Err(Error::new(ErrorKind::Token, text));
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
        let mut scopes = refused.scopes();
        if scopes.is_empty() {
            scopes.clone_from(&found.scopes);
        }
        // A new login keeps the scopes of earlier step-ups.
        let earlier = known.map(|tokens| tokens.requested.clone()).unwrap_or_default();
        self.log_in(work, &found, union(&scopes, &earlier), refused.token.as_ref()).await
    }

    /// Whether refused tokens are new, and the server never accepted them. The same grant would not help.
    fn is_useless(&self, tokens: &Tokens) -> bool {
        let is_new = now().saturating_sub(tokens.obtained_at) < JUST_NOW;
        is_new && !tokens.is_expired(now()) && !self.is_accepted(tokens)
    }

    /// Logs in with further scopes. The same scopes are never requested twice.
    async fn step_up(&self, work: &mut Work, refused: &Refused, sent: Option<Arc<Tokens>>) -> Result<bool, Error> {
        let required = refused.scopes();
        let earlier = sent.map(|tokens| tokens.requested.clone()).unwrap_or_default();
        let scopes = union(&earlier, &required);
        if scopes.len() == earlier.len() {
            let text = format!("the server requires the scopes {required:?}, which the last login already requested");
            return Err(Error::insufficient_scope(text, required));
        }
        let found = self.discover(refused).await?;
        work.server = Some(Arc::clone(&found.server));
        self.log_in(work, &found, scopes, refused.token.as_ref()).await
    }

    async fn discover(&self, refused: &Refused) -> Result<Found, Error> {
        let resource = discovery::resource(&self.fetch, &self.endpoint, refused.metadata_url()).await?;
        let Some(resource) = resource else {
            let server = Arc::new(discovery::legacy(&self.fetch, &self.endpoint).await?);
            let resource = (!self.settings.omits_resource).then(|| self.endpoint.to_string());
            return Ok(Found { server, resource, scopes: Vec::new(), uses_dpop: false });
        };
        let server = Arc::new(self.choose(&resource.issuers).await?);
        let omits_resource = self.settings.omits_resource || server.quirks.omits_resource;
        let identifier = (!omits_resource).then_some(resource.identifier);
        let uses_dpop = (resource.accepts_dpop || refused.accepts_dpop()) && server.issues_bound_tokens();
        Ok(Found { server, resource: identifier, scopes: resource.scopes, uses_dpop })
    }

    /// Returns the authorization server: that of the current tokens if the server still names it, else the first valid one.
    async fn choose(&self, issuers: &[String]) -> Result<Server, Error> {
        let own = self.current().map(|tokens| tokens.issuer.clone());
        let configured = self.settings.client.registered.as_ref().and_then(|client| client.issuer.clone());
        let preferred: Vec<&String> = own.iter().chain(&configured).filter(|issuer| issuers.contains(issuer)).collect();
        let mut failure = None;
        for issuer in preferred.into_iter().chain(issuers) {
            match discovery::server(&self.fetch, issuer).await {
                Ok(server) => return Ok(server),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| Error::new(ErrorKind::Discovery, "the server names no authorization server")))
    }
}

/// Returns the scopes of both lists, in their order.
pub(super) fn union(one: &[String], other: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::with_capacity(one.len() + other.len());
    for scope in one.iter().chain(other) {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all
}
