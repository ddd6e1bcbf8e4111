//! The login of a user at one server, as an application shows it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use url::Url;

use crate::{error::Error, oauth::OAuth, revocation::Revocation, session::Refused, tokens::Tokens, trail::Explanation};

/// A login whose tokens are in the store. It contains no token.
///
/// ```no_run
/// # async fn example(auth: &mcp_oauth::OAuth) -> Result<(), Box<dyn std::error::Error>> {
/// if let Some(login) = auth.stored_login(&"https://mcp.example.com/mcp".parse()?).await? {
///     println!("logged in at {} as the client {}", login.issuer, login.client_id);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredLogin {
    /// The authorization server that issued the tokens.
    pub issuer: String,
    /// The client to which the tokens were issued.
    pub client_id: String,
    /// The scopes that the client requested.
    pub scopes: Vec<String>,
    /// The scopes that the authorization server granted. `None` if the client requested none and the authorization server
    /// named none.
    pub granted_scopes: Option<Vec<String>>,
    /// The end of the access token, if the authorization server named it.
    pub expires_at: Option<SystemTime>,
    /// Whether a refresh token renews the access token.
    pub is_renewable: bool,
}

impl StoredLogin {
    fn of(tokens: &Tokens) -> Self {
        Self {
            issuer: tokens.issuer.clone(),
            client_id: tokens.client_id.clone(),
            scopes: tokens.requested.clone(),
            granted_scopes: tokens.granted.clone(),
            expires_at: tokens.expires_at.and_then(|end| UNIX_EPOCH.checked_add(Duration::from_secs(end))),
            is_renewable: tokens.refresh_token().is_some(),
        }
    }

    /// Whether the access token has not ended, or can be renewed. The server may reject the tokens nevertheless.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.is_renewable || self.expires_at.is_none_or(|end| SystemTime::now() < end)
    }
}

impl OAuth {
    /// Returns the stored login at a server. Sends no request.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn stored_login(&self, server: &Url) -> Result<Option<StoredLogin>, Error> {
        Ok(self.session(server)?.stored().await?.as_ref().map(StoredLogin::of))
    }

    /// Logs in at a server, unless there are valid tokens. It is for a server that has not refused a request, for example
    /// because it also serves anonymous callers. The login replaces tokens that the store cannot open.
    ///
    /// # Errors
    /// If the metadata cannot be read, the registration fails or the login fails.
    pub async fn log_in(&self, server: &Url) -> Result<(), Error> {
        let refused = Refused { status: StatusCode::UNAUTHORIZED, challenges: Vec::new(), token: None };
        let session = self.session(server)?;
        session.replace_unreadable();
        session.refused(refused).await.map(drop)
    }

    /// Removes the tokens of a server from the store, and revokes them at the authorization server (RFC 7009). The
    /// registration of the client remains.
    ///
    /// A login of this value that waits for the user ends with [`ErrorKind::LoginRequired`]. The logout waits at most 3
    /// seconds for other work of this process on the tokens, and at most 3 seconds for that of other processes. The
    /// revocation takes at most 3 seconds. If it fails, the tokens are removed all the same, and the result is
    /// [`Revocation::Failed`]. The result is the same if the stored tokens cannot be read, because they cannot be revoked then.
    /// A login of another process that still waits for its user is not ended, and may store tokens later.
    ///
    /// [`ErrorKind::LoginRequired`]: crate::ErrorKind::LoginRequired
    ///
    /// # Errors
    /// If the store cannot be written.
    pub async fn log_out(&self, server: &Url) -> Result<Revocation, Error> {
        self.session(server)?.log_out().await
    }

    /// Waits until no renewal of tokens runs. Returns whether all renewals ended within the limit.
    ///
    /// A renewal runs on a task of its own, also after the request that needs it. If the process ends during a renewal, the
    /// authorization server may have replaced the refresh token already, and the new one is lost. A program therefore calls
    /// this before its runtime ends. The time limits of the requests to the authorization server bound each renewal. A login
    /// that waits for its user is not a renewal.
    ///
    /// ```no_run
    /// # async fn example(auth: &mcp_oauth::OAuth) {
    /// if !auth.finish_renewals(std::time::Duration::from_secs(30)).await {
    ///     eprintln!("the next start may require a login");
    /// }
    /// # }
    /// ```
    pub async fn finish_renewals(&self, limit: Duration) -> bool {
        let finished = async {
            for session in self.sessions() {
                session.finish_renewals().await;
            }
        };
        tokio::time::timeout(limit, finished).await.is_ok()
    }

    /// Runs the discovery of a login, and returns each step: the documents, the rules that were checked, and the applied
    /// quirks.
    ///
    /// It sends no credentials, registers no client and opens no page. The first request is `tools/list` without
    /// authorization, for the challenge of the server. Without a configured client id, it reads the stored registration. A
    /// [`SealedStore`](crate::SealedStore) then asks its keyring.
    ///
    /// # Errors
    /// If this value serves too many servers already. An error of the discovery is [`Explanation::error`].
    pub async fn explain(&self, server: &Url) -> Result<Explanation, Error> {
        Ok(self.session(server)?.explain().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{Grant, now};

    #[test]
    fn a_stored_login_is_usable_until_its_tokens_end() {
        for (life, has_refresh_token, is_revoked, is_usable) in [
            (Some(60), false, false, true),
            (None, false, false, true),
            (Some(0), false, false, false),
            (Some(0), true, false, true),
            (Some(0), true, true, false),
        ] {
            let tokens = Tokens {
                issuer: "https://as.example".into(),
                is_legacy: false,
                client_id: "c".into(),
                resource: None,
                access_token: "hunter1".into(),
                refresh_token: has_refresh_token.then(|| "hunter2".into()),
                is_revoked,
                dpop_key: None,
                logged_in_at: 1,
                obtained_at: now(),
                expires_at: life.map(|life| now() + life),
                requested: vec!["a".into()],
                granted: None,
                grant: Grant::Login,
            };
            let login = StoredLogin::of(&tokens);
            assert_eq!(login.is_usable(), is_usable, "{life:?} {has_refresh_token} {is_revoked}");
            assert!(!format!("{login:?}").contains("hunter"));
        }
    }
}
