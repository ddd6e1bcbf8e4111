//! The renewal of tokens with a refresh token.

use std::sync::Arc;

use mcp_protocol::auth::TokenResponse;
use tokio::sync::watch;

use super::{REFRESH_LOCK, Session, Work, record::Kept};
use crate::{
    discovery::Server,
    dpop::DpopKey,
    error::{Error, ErrorKind},
    registration::{self, AuthMethod, Registration, Source},
    token_endpoint::{TOKEN_ENDPOINT, TokenEndpoint},
    tokens::{Tokens, now},
};

/// The time in which a renewal runs.
struct Running<'a>(&'a watch::Sender<usize>);

impl<'a> Running<'a> {
    fn new(renewals: &'a watch::Sender<usize>) -> Self {
        renewals.send_modify(|running| *running += 1);
        Self(renewals)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

impl Session {
    /// Renews tokens, unless another process did. A definitive refusal marks the refresh token, and an outage keeps it.
    ///
    /// # Errors
    /// [`ErrorKind::LoginRequired`] if another process logged out. The tokens of this process are then forgotten.
    pub(super) async fn refresh(&self, work: &mut Work, tokens: &Arc<Tokens>) -> Result<Arc<Tokens>, Error> {
        let _lock = self.settings.store.lock(&self.key, REFRESH_LOCK).await?;
        let _running = Running::new(&self.renewals);
        let (stored, record) = self.stored_with_record().await?;
        // A missing record is normal only if the tokens were never stored.
        if stored.is_none() && (self.origin.read().is_some() || !self.is_current(tokens)) {
            return Err(self.logged_out());
        }
        let tokens = match stored {
            Some(stored) if self.is_news(&stored) => {
                let stored = self.adopt(stored);
                work.pause = None;
                if !stored.needs_renewal(now()) {
                    return Ok(stored);
                }
                stored
            }
            // Another process may have met the refusal of the refresh token.
            Some(stored) if stored.access_token == tokens.access_token => Arc::new(stored),
            _ => Arc::clone(tokens),
        };
        let server = self.server_of(work, &tokens).await?;
        let client = self.client_of(&server, &tokens).await?;
        match self.redeem(&server, &client, &tokens).await {
            Ok(answer) => {
                work.pause = None;
                let fresh = tokens.renewed(answer, now());
                // A logout of this process does not wait long for a refresh.
                let is_logged_out = self.current().is_none();
                // The other process may have sent the same refresh token, in vain.
                let is_same = |found: Option<&Tokens>| found.is_some_and(|found| found.has_same_secrets(&tokens));
                let kept =
                    if is_logged_out { Kept::Other(None) } else { self.keep(fresh.clone(), record, is_same).await };
                match kept {
                    Kept::Own(fresh) => Ok(fresh),
                    Kept::Other(Some(newer)) => Ok(self.adopt(*newer)),
                    Kept::Other(None) => {
                        self.revoke(work, &[&fresh]).await;
                        Err(self.logged_out())
                    }
                }
            }
            Err(error) => {
                let refusal = error.oauth_error().filter(|refusal| refusal.is_definitive());
                if refusal.is_some_and(|refusal| refusal.error == "invalid_client") && client.source == Source::Dynamic
                {
                    self.forget_registration(&server, &client.client_id).await?;
                }
                if refusal.is_some() && self.current().is_some() {
                    let revoked = Tokens { is_revoked: true, ..(*tokens).clone() };
                    // The refusal is normal if another process renewed the tokens first.
                    if let Kept::Other(Some(newer)) = self.keep(revoked, record, |_| false).await
                        && !newer.has_same_secrets(&tokens)
                    {
                        work.pause = None;
                        return Ok(self.adopt(*newer));
                    }
                }
                Err(error.with_quirks(&server.quirks))
            }
        }
    }

    /// Forgets the tokens of this process, and returns the error of a refresh after a logout.
    fn logged_out(&self) -> Error {
        self.forget_tokens();
        Error::new(ErrorKind::LoginRequired, "the login was removed from the token store")
    }

    /// Sends the refresh token. If the answer is lost, the same token is sent once more at once: an authorization server that
    /// rotates tokens accepts the old one for a short time.
    async fn redeem(&self, server: &Server, client: &Registration, tokens: &Tokens) -> Result<TokenResponse, Error> {
        let Some(token) = tokens.refresh_token() else {
            return Err(Error::new(ErrorKind::LoginRequired, "the authorization server rejected the refresh token"));
        };
        let resource = tokens.resource.as_deref();
        let endpoint = self.token_endpoint(server, client, resource, tokens.dpop_key.as_ref())?;
        match endpoint.refresh(token).await {
            Err(error) if error.is_lost_answer() => {
                tracing::debug!(%error, "the refresh is repeated once");
                endpoint.refresh(token).await
            }
            result => result,
        }
    }

    /// Returns the token endpoint of a server.
    ///
    /// # Errors
    /// If the settings do not allow requests to the issuer, or it has no token endpoint.
    pub(super) fn token_endpoint<'a>(
        &'a self,
        server: &'a Server,
        client: &'a Registration,
        resource: Option<&'a str>,
        dpop_key: Option<&'a DpopKey>,
    ) -> Result<TokenEndpoint<'a>, Error> {
        self.settings.check()?;
        self.settings.client.check_issuer(&server.identity)?;
        let key = self.settings.key().map(|key| (key, server.metadata.issuer.as_str()));
        let proofs = dpop_key.map(|key| self.proofs(key));
        let url = server.token_url()?;
        Ok(TokenEndpoint { fetch: self.fetch(), url, name: TOKEN_ENDPOINT, client, key, resource, proofs })
    }

    /// Returns the client to which the tokens were issued.
    pub(super) async fn client_of(&self, server: &Server, tokens: &Tokens) -> Result<Registration, Error> {
        if let Some(registered) = &self.settings.client.registered {
            return Ok(registration::application(registered, server));
        }
        if let Some(stored) = self.registration_of(server, &tokens.client_id).await? {
            return Ok(stored);
        }
        // The id of a metadata document needs no record.
        Ok(Registration {
            client_id: tokens.client_id.clone(),
            client_secret: None,
            secret_expires_at: None,
            method: AuthMethod::None,
            redirect_uris: Vec::new(),
            source: Source::Document,
        })
    }
}
