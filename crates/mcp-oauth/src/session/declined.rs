//! The login that a user declined or did not complete. Other processes that wait for the login read it, so that each of them
//! does not show the page again.

use mcp_protocol::auth::OAuthError;
use serde::{Deserialize, Serialize};

use super::Session;
use crate::error::{Error, ErrorKind};

/// The latest login that the user declined or did not complete.
#[derive(Serialize, Deserialize)]
pub(super) struct Declined {
    /// A random id. The clocks of machines may differ, so a time would not order the logins.
    id: String,
    /// The answer of the authorization server, if it reported the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<OAuthError>,
    /// Whether the user did not complete the login in time.
    #[serde(default)]
    is_timeout: bool,
}

impl Session {
    /// Returns the login that the user declined or did not complete last. A record that cannot be read counts as missing: it
    /// must not prevent a login.
    pub(super) async fn declined(&self) -> Option<Declined> {
        self.read(&self.declined_key()).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "the record of a declined login is ignored");
            None
        })
    }

    /// Checks that the user neither declined nor ignored a login during the wait for the lock. `before` is the record before
    /// the wait.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if the user declined the login of another process, and [`ErrorKind::LoginRequired`] if the user
    /// did not complete it.
    pub(super) async fn check_declined(&self, before: Option<&Declined>) -> Result<(), Error> {
        let Some(declined) = self.declined().await else { return Ok(()) };
        if before.is_some_and(|before| before.id == declined.id) {
            return Ok(());
        }
        if declined.is_timeout {
            let text = "the user did not complete the login in time, which another process started";
            return Err(Error::new(ErrorKind::LoginRequired, text));
        }
        let text = "the user declined the login, which another process started";
        Err(match declined.error {
            Some(error) => Error::with_source(ErrorKind::Denied, text, error),
            None => Error::new(ErrorKind::Denied, text),
        })
    }

    /// Stores that the user declined a login or did not complete it, if this is the cause of the error.
    pub(super) async fn note_declined(&self, error: &Error) {
        let is_timeout = error.is_login_timeout();
        if !is_timeout && !is_decision(error) {
            return;
        }
        let id = oauth2::CsrfToken::new_random().into_secret();
        let declined = Declined { id, error: error.oauth_error().cloned(), is_timeout };
        if let Err(error) = self.write(&self.declined_key(), &declined).await {
            tracing::debug!(%error, "other processes will ask the user again");
        }
    }

    /// Removes the record of a declined login after a login that succeeded.
    pub(super) async fn forget_declined(&self) {
        if let Err(error) = self.settings.store.remove(&self.declined_key()).await {
            let remedy = "correct the permissions of the token store, or log out";
            tracing::warn!(%error, remedy, "the record of a declined login remains, so another process can fail with it");
        }
    }

    fn declined_key(&self) -> String {
        format!("declined/{}", self.endpoint)
    }
}

/// Whether an error is the decision of the user. Other codes of an authorization server are faults, such as `invalid_scope`.
fn is_decision(error: &Error) -> bool {
    let is_denied = error.kind() == ErrorKind::Denied;
    is_denied && error.oauth_error().is_none_or(|refusal| refusal.error == "access_denied")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_decision_of_the_user_declines_a_login() {
        let refused = |kind, code: &str| Error::with_source(kind, "refused", OAuthError::new(code));
        for (error, expected) in [
            (Error::new(ErrorKind::Denied, "the user closed the page"), true),
            (refused(ErrorKind::Denied, "access_denied"), true),
            (refused(ErrorKind::Denied, "invalid_scope"), false),
            (refused(ErrorKind::Denied, "unauthorized_client"), false),
            (refused(ErrorKind::Unavailable, "server_error"), false),
            (Error::new(ErrorKind::LoginRequired, "a logout ended the login"), false),
        ] {
            assert_eq!(is_decision(&error), expected, "{error:?}");
        }
    }
}
