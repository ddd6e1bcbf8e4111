//! The end of a login: the removal of its tokens, and their revocation at the authorization server (RFC 7009).

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{Session, Work, on_own_task};
use crate::{
    error::{Error, ErrorKind},
    revocation::Revocation,
    tokens::Tokens,
};

/// The time for the revocation of all tokens, with the search for the endpoint.
const REVOCATION_LIMIT: Duration = Duration::from_secs(3);
/// The longest wait for other work on the tokens: once for that of this process, and once for that of other processes.
const WORK_LIMIT: Duration = Duration::from_secs(3);

impl Session {
    /// Removes the tokens from the store and from this process, and revokes them. The registration remains. A login of this
    /// process that waits for the user ends.
    pub(crate) async fn log_out(self: &Arc<Self>) -> Result<Revocation, Error> {
        let session = Arc::clone(self);
        on_own_task(async move { session.log_out_now().await }).await
    }

    async fn log_out_now(&self) -> Result<Revocation, Error> {
        self.logouts.notify_waiters();
        let mut held = timeout(WORK_LIMIT, self.work.lock()).await.ok();
        // The tokens are removed also if a refresh or the login of another process still runs.
        let lock = self.settings.store.lock(&self.key, WORK_LIMIT).await;
        let _lock = lock.inspect_err(|error| tracing::warn!(%error, "the logout does not wait for other work")).ok();
        let stored = self.stored_strictly().await;
        let current = self.current();
        let removed = self.settings.store.remove(&self.key).await;
        self.logouts.notify_waiters();
        self.forget_tokens();
        let (stored, unreadable) = match stored {
            Ok(stored) => (stored, None),
            Err(error) => {
                tracing::warn!(%error, "the stored tokens cannot be read before their removal");
                (None, Some(error))
            }
        };
        let is_other = |tokens: &&Tokens| stored.as_ref().is_none_or(|stored| !stored.has_same_secrets(tokens));
        let all: Vec<&Tokens> = stored.iter().chain(current.as_deref().filter(is_other)).collect();
        let revocation = if all.is_empty() {
            Revocation::NoLogin
        } else {
            let mut unheld = Work::default();
            self.revoke(held.as_deref_mut().unwrap_or(&mut unheld), &all).await
        };
        removed.map(|()| unreadable.map_or(revocation, Revocation::Failed))
    }

    /// Revokes tokens within the time limit. The result is the first failure, if there is one.
    pub(super) async fn revoke(&self, work: &mut Work, all: &[&Tokens]) -> Revocation {
        let revoked = timeout(REVOCATION_LIMIT, async {
            let mut revoked = Ok(Revocation::Revoked);
            for tokens in all {
                let next = self.revoke_all(work, tokens).await;
                revoked = match (revoked, next) {
                    (Ok(Revocation::Revoked), next) => next,
                    (Ok(_), Err(error)) => Err(error),
                    (earlier, _) => earlier,
                };
            }
            revoked
        });
        let revoked = revoked.await.unwrap_or_else(|_| {
            let text = format!("the authorization server did not answer in {} seconds", REVOCATION_LIMIT.as_secs());
            Err(Error::new(ErrorKind::Unavailable, text))
        });
        revoked.unwrap_or_else(|error| {
            let issuer = all.first().map(|tokens| tokens.issuer.as_str());
            tracing::warn!(%error, issuer, "the tokens are removed and not revoked");
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
