//! The end of a login: the removal of its tokens, and their revocation at the authorization server (RFC 7009).

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{REFRESH_LOCK, Session, Work, on_own_task};
use crate::{
    error::{Error, ErrorKind},
    revocation::Revocation,
    tokens::Tokens,
};

/// The time for the revocation of all tokens, with the search for the endpoint.
const REVOCATION_LIMIT: Duration = Duration::from_secs(3);

impl Session {
    /// Removes the tokens from the store and from this process, and revokes them. The registration remains.
    pub(crate) async fn log_out(self: &Arc<Self>) -> Result<Revocation, Error> {
        let session = Arc::clone(self);
        on_own_task(async move {
            let mut work = session.work.lock().await;
            let _lock = session.settings.store.lock(&session.key, REFRESH_LOCK).await?;
            let stored = session.stored().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the stored tokens cannot be read before their removal");
                None
            });
            let tokens = stored.map(Arc::new).or_else(|| session.current());
            let removed = session.settings.store.remove(&session.key).await;
            *session.current.write() = None;
            *session.origin.write() = None;
            *session.accepted.write() = None;
            let revocation = match tokens {
                Some(tokens) => session.revoke(&mut work, &tokens).await,
                None => Revocation::NoLogin,
            };
            removed.map(|()| revocation)
        })
        .await
    }

    /// Revokes tokens within the time limit.
    async fn revoke(&self, work: &mut Work, tokens: &Tokens) -> Revocation {
        let revoked = timeout(REVOCATION_LIMIT, self.revoke_all(work, tokens)).await;
        let revoked = revoked.unwrap_or_else(|_| {
            let text = format!("the authorization server did not answer in {} seconds", REVOCATION_LIMIT.as_secs());
            Err(Error::new(ErrorKind::Unavailable, text))
        });
        revoked.unwrap_or_else(|error| {
            tracing::warn!(%error, issuer = ?tokens.issuer, "the tokens are removed and not revoked");
            Revocation::Failed(error)
        })
    }

    /// Revokes the refresh token first: it lives longer, and authorization servers then also reject its access tokens.
    async fn revoke_all(&self, work: &mut Work, tokens: &Tokens) -> Result<Revocation, Error> {
        let server = self.server_of(work, tokens).await?;
        let Some(url) = server.metadata.revocation_endpoint.as_deref() else { return Ok(Revocation::Unsupported) };
        let client = self.client_of(&server, tokens).await?;
        let endpoint = self.token_endpoint(&server, &client, None, None)?;
        let endpoint = endpoint.beside(url, "revocation endpoint");
        let refresh = match tokens.refresh_token() {
            Some(token) => endpoint.revoke(token, "refresh_token").await.map(|()| true),
            None => Ok(false),
        };
        let access = endpoint.revoke(&tokens.access_token, "access_token").await;
        if refresh? {
            // An authorization server need not revoke access tokens (RFC 7009 §2).
            let is_unsupported =
                |error: &Error| error.oauth_error().is_some_and(|error| error.error == "unsupported_token_type");
            access.or_else(|error| if is_unsupported(&error) { Ok(()) } else { Err(error) })?;
        } else {
            access?;
        }
        Ok(Revocation::Revoked)
    }
}
