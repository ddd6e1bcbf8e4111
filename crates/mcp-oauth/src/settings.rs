//! The settings of an [`OAuth`](crate::OAuth).

use std::{sync::Arc, time::Duration};

use mcp_fetch::Fetch;
use url::Url;

use crate::{
    assertion::Assertion,
    client_key::ClientKey,
    discovery::is_safe,
    error::{Error, ErrorKind},
    login::Redirect,
    quirks::Quirk,
    registration::{ClientSettings, Registration},
    store::TokenStore,
    user_agent::UserAgent,
};

/// The redirect URI of logins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RedirectSetting {
    /// Any port of this machine.
    Loopback,
    /// This port of this machine.
    Port(u16),
    /// A URL of the application.
    Application(String),
}

/// The settings, which all clones of an `OAuth` share.
pub(crate) struct Settings {
    pub(crate) client: ClientSettings,
    pub(crate) agent: Option<Arc<dyn UserAgent>>,
    pub(crate) store: Arc<dyn TokenStore>,
    pub(crate) fetch: Option<Fetch>,
    pub(crate) redirect: RedirectSetting,
    pub(crate) scopes: Vec<String>,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) omits_resource: bool,
    pub(crate) login_limit: Duration,
    /// Whether users log in with the device flow.
    pub(crate) uses_device_flow: bool,
    /// Whether credentials of the application may be sent to each issuer that an MCP server names.
    pub(crate) accepts_any_issuer: bool,
    /// Whether the application configured a secret or a key without the id of the client.
    pub(crate) lacks_client_id: bool,
    /// Whether the client acts for itself, without a user.
    pub(crate) is_machine: bool,
    /// The source of assertions that replace a login.
    pub(crate) assertion: Option<Arc<dyn Assertion>>,
}

impl Settings {
    /// Returns the quirks of an issuer, unless the application turned them off.
    pub(crate) fn quirks(&self, issuer: &str) -> Vec<Quirk> {
        self.client.quirks(issuer)
    }

    /// Returns the key of a client that authenticates with assertions.
    pub(crate) fn key(&self) -> Option<&ClientKey> {
        self.client.registered.as_ref()?.key.as_ref()
    }

    /// Checks the settings before the first request.
    ///
    /// # Errors
    /// If the credentials, the client id or a scope is not usable.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_credentials()?;
        self.check_client_id()?;
        self.check_scopes()
    }

    /// Returns the id of the configured client.
    pub(crate) fn client_id(&self) -> Option<&str> {
        self.client.registered.as_ref().map(|registered| registered.client_id.as_str())
    }

    /// Whether the application configured a secret, a key or an assertion.
    pub(crate) fn has_credentials(&self) -> bool {
        let registered = self.client.registered.as_ref();
        let has_secret = registered.is_some_and(|client| client.client_secret.is_some() || client.key.is_some());
        has_secret || self.assertion.is_some() || self.lacks_client_id
    }

    /// Checks that credentials of the application have an issuer. Otherwise each MCP server could choose their receiver.
    ///
    /// # Errors
    /// If there is a secret, a key or an assertion without an issuer, or a secret or a key without a client id.
    pub(crate) fn check_credentials(&self) -> Result<(), Error> {
        let failed = |text: &'static str| Err(Error::new(ErrorKind::Configuration, text));
        if self.lacks_client_id {
            return failed("a client secret or a client key needs a client id");
        }
        if self.has_credentials() && self.client.issuer.is_none() && !self.accepts_any_issuer {
            return failed(
                "a client secret, a client key or an assertion needs the issuer that may receive it: set `issuer`",
            );
        }
        Ok(())
    }

    /// Checks the characters of the client id (RFC 6749 §A.1).
    ///
    /// # Errors
    /// If the id is empty or has another character.
    pub(crate) fn check_client_id(&self) -> Result<(), Error> {
        let is_valid = |id: &str| !id.is_empty() && id.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        match self.client_id() {
            Some(id) if !is_valid(id) => {
                let text = format!("the client id {id:?} is empty or has characters other than visible ASCII");
                Err(Error::new(ErrorKind::Configuration, text))
            }
            _ => Ok(()),
        }
    }

    /// Checks the characters of the configured scopes (RFC 6749 §3.3).
    ///
    /// # Errors
    /// If a scope is empty or has another character.
    pub(crate) fn check_scopes(&self) -> Result<(), Error> {
        let is_valid = |byte: u8| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~');
        match self.scopes.iter().find(|scope| scope.is_empty() || !scope.bytes().all(is_valid)) {
            Some(scope) => {
                let text = format!("the scope {scope:?} is empty or has characters that no scope may have");
                Err(Error::new(ErrorKind::Configuration, text))
            }
            None => Ok(()),
        }
    }

    /// Opens the place for the response of a login. A stored registration prefers its port.
    pub(crate) async fn redirect(&self, stored: Option<&Registration>) -> Result<Redirect, Error> {
        match &self.redirect {
            RedirectSetting::Port(port) => Redirect::fixed(*port).await,
            RedirectSetting::Application(uri) => {
                if !Url::parse(uri).is_ok_and(|url| is_safe(&url) && url.fragment().is_none()) {
                    let text = format!("the redirect URI {uri:?} is not an `https` URL, and not a URL of this machine");
                    return Err(Error::new(ErrorKind::Configuration, text));
                }
                Ok(Redirect::Application(uri.clone()))
            }
            RedirectSetting::Loopback => {
                let uri = stored.and_then(|stored| stored.redirect_uris.first());
                let port = uri.and_then(|uri| Url::parse(uri).ok()?.port());
                Redirect::loopback(port).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oauth::OAuth;

    #[test]
    fn client_ids_and_scopes_have_allowed_characters() {
        for (id, scopes, expected) in [
            ("app", &["a", "https://a.example/.default", "a:b!"][..], None),
            ("an app", &[], None),
            ("", &[], Some("the client id \"\" is empty")),
            ("a\nb", &[], Some("the client id \"a\\nb\"")),
            ("äpp", &[], Some("the client id")),
            ("app", &["a", ""], Some("the scope \"\" is empty")),
            ("app", &["a b"], Some("the scope \"a b\"")),
            ("app", &["a\"b"], Some("characters that no scope may have")),
            ("app", &["a\\b"], Some("characters that no scope may have")),
            ("app", &["ä"], Some("characters that no scope may have")),
        ] {
            let auth = OAuth::builder().client_id(id).scopes(scopes.iter().copied()).build();
            let checked = auth.settings().check().map_err(|error| (error.kind(), error.to_string()));
            match expected {
                None => assert_eq!(checked, Ok(()), "{id:?} {scopes:?}"),
                Some(text) => {
                    let (kind, found) = checked.unwrap_err();
                    assert!(kind == ErrorKind::Configuration && found.contains(text), "{id:?} {scopes:?}: {found}");
                }
            }
        }
    }
}
