//! The renewal of tokens with a refresh token.

use std::sync::Arc;

use mcp_protocol::auth::TokenResponse;

use super::{REFRESH_LOCK, Session, Work};
use crate::{
    discovery::Server,
    dpop::DpopKey,
    error::{Error, ErrorKind},
    registration::{self, AuthMethod, Registration, Source},
    token_endpoint::{TOKEN_ENDPOINT, TokenEndpoint},
    tokens::{Tokens, now},
};

impl Session {
    /// Renews tokens, unless another process did. A definitive refusal marks the refresh token, and an outage keeps it.
    pub(super) async fn refresh(&self, work: &mut Work, tokens: &Arc<Tokens>) -> Result<Arc<Tokens>, Error> {
        let _lock = self.settings.store.lock(&self.key, REFRESH_LOCK).await?;
        let tokens = match self.stored().await? {
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
                Ok(self.keep(tokens.renewed(answer, now())).await)
            }
            Err(error) => {
                let refusal = error.oauth_error().filter(|refusal| refusal.is_definitive());
                if refusal.is_some_and(|refusal| refusal.error == "invalid_client") && client.source == Source::Dynamic
                {
                    self.forget_registration(&server, &client.client_id).await?;
                }
                if refusal.is_some() {
                    self.keep(Tokens { is_revoked: true, ..(*tokens).clone() }).await;
                }
                Err(error.with_quirks(&server.quirks))
            }
        }
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
        Ok(TokenEndpoint { fetch: &self.fetch, url, name: TOKEN_ENDPOINT, client, key, resource, proofs })
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
