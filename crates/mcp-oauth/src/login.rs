//! A login: the authorization code grant with PKCE (RFC 6749 §4.1, RFC 7636, RFC 8707, RFC 9207).

mod callback;
mod listener;

use std::{sync::Arc, time::Duration};

use mcp_protocol::auth::{Secret, TokenResponse};
use oauth2::{AuthUrl, ClientId, CsrfToken, PkceCodeChallenge, RedirectUrl, Scope, basic::BasicClient};
use url::Url;

use self::{
    callback::{Callback, Expected},
    listener::Listener,
};
use crate::{
    caught::caught,
    discovery::Server,
    error::{Error, ErrorKind},
    token_endpoint::TokenEndpoint,
    user_agent::{Answer, Login, UserAgent},
};

/// The place at which the response of a login arrives.
pub(crate) enum Redirect {
    Loopback(Listener),
    /// A URL of the application. The user agent returns the response.
    Application(String),
}

impl Redirect {
    /// Opens a port of this machine: the preferred port, or any other if that one is occupied.
    pub(crate) async fn loopback(preferred: Option<u16>) -> Result<Self, Error> {
        if let Some(port) = preferred
            && let Ok(listener) = Listener::bind(port).await
        {
            return Ok(Self::Loopback(listener));
        }
        Listener::bind(0).await.map(Self::Loopback)
    }

    /// Opens this port and no other.
    pub(crate) async fn fixed(port: u16) -> Result<Self, Error> {
        Listener::bind(port).await.map(Self::Loopback)
    }

    pub(crate) fn uri(&self) -> String {
        match self {
            Self::Loopback(listener) => listener.redirect_uri(),
            Self::Application(uri) => uri.clone(),
        }
    }
}

/// The parts of one login.
pub(crate) struct Attempt<'a> {
    pub(crate) agent: &'a dyn UserAgent,
    pub(crate) endpoint: &'a Url,
    pub(crate) server: &'a Server,
    pub(crate) token_endpoint: TokenEndpoint<'a>,
    pub(crate) redirect: &'a Redirect,
    pub(crate) scopes: &'a [String],
    /// Parameters of the application for the page of the login.
    pub(crate) params: &'a [(String, String)],
    pub(crate) limit: Duration,
}

/// A login that failed.
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Whether there was no response within the limit.
    pub(crate) is_timeout: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, is_timeout: false }
    }
}

impl Attempt<'_> {
    /// Runs the login until the tokens are there.
    pub(crate) async fn run(&self) -> Result<TokenResponse, Failure> {
        let redirect_uri = self.redirect.uri();
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let (url, state) = self.page(&redirect_uri, challenge)?;
        let metadata = &self.server.metadata;
        let expected = Arc::new(Expected {
            state: Secret::new(state.into_secret()),
            issuer: metadata.issuer.clone(),
            requires_issuer: metadata.authorization_response_iss_parameter_supported == Some(true),
        });
        let login = Login {
            url,
            issuer: metadata.issuer.clone(),
            server: self.endpoint.clone(),
            scopes: self.scopes.to_vec(),
            redirect_uri: redirect_uri.clone(),
            limit: self.limit,
        };
        tracing::info!(issuer = %login.issuer, scopes = ?login.scopes, "a user must log in");
        let Ok(code) = tokio::time::timeout(self.limit, self.code(&login, expected)).await else {
            return Err(Failure { error: Error::login_timeout(self.limit), is_timeout: true });
        };
        Ok(self.token_endpoint.redeem(&code?, verifier, &redirect_uri).await?)
    }

    /// Returns the URL of the page, and the state of the login.
    fn page(&self, redirect_uri: &str, challenge: PkceCodeChallenge) -> Result<(Url, CsrfToken), Error> {
        let redirect = RedirectUrl::new(redirect_uri.to_owned())
            .map_err(|_| Error::new(ErrorKind::Configuration, "the redirect URI is not a URL"))?;
        let client = BasicClient::new(ClientId::new(self.token_endpoint.client.client_id.clone()))
            .set_auth_uri(AuthUrl::from_url(self.server.login_url()?))
            .set_redirect_uri(redirect);
        let mut request = client
            .authorize_url(|| CsrfToken::new_random_len(32))
            .set_pkce_challenge(challenge)
            .add_scopes(self.scopes.iter().cloned().map(Scope::new));
        if let Some(resource) = self.token_endpoint.resource {
            request = request.add_extra_param("resource", resource);
        }
        if let Some(audience) = self.server.audience(self.token_endpoint.resource, self.params) {
            request = request.add_extra_param("audience", audience);
        }
        if let Some(proofs) = &self.token_endpoint.proofs {
            // The code is bound to the key too (RFC 9449 §10).
            request = request.add_extra_param("dpop_jkt", proofs.key.thumbprint());
        }
        for (name, value) in self.params {
            request = request.add_extra_param(name.as_str(), value.as_str());
        }
        Ok(request.url())
    }

    /// Shows the page and waits for the code.
    async fn code(&self, login: &Login, expected: Arc<Expected>) -> Result<Secret, Error> {
        let shown = async {
            match caught("the user agent", async { self.agent.open(login).await }).await? {
                Answer::Redirect => Ok(None),
                Answer::Pasted(text) => match expected.judge_pasted(&text) {
                    Callback::Code(code) => Ok(Some(code)),
                    Callback::Failed(error) => Err(error),
                    Callback::Unrelated => {
                        let text = "the pasted URL does not belong to this login";
                        Err(Error::new(ErrorKind::Callback, text))
                    }
                },
            }
        };
        let Redirect::Loopback(listener) = self.redirect else {
            return shown.await?.ok_or_else(|| {
                let text = "the user agent did not return the response for the redirect URI of the application";
                Error::new(ErrorKind::Configuration, text)
            });
        };
        let received = listener.receive(Arc::clone(&expected));
        tokio::pin!(received);
        tokio::select! {
            code = &mut received => code,
            code = shown => match code? {
                Some(code) => Ok(code),
                None => received.await,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{discovery::Server, quirks::Quirk, registration::Registration, token_endpoint::TOKEN_ENDPOINT};

    struct NoUser;

    impl UserAgent for NoUser {
        fn open<'a>(&'a self, _: &'a Login) -> mcp_transport::BoxFuture<'a, Result<Answer, Error>> {
            Box::pin(async { Ok(Answer::Redirect) })
        }
    }

    #[test]
    fn a_page_names_the_resource_as_the_server_reads_it() {
        let endpoint = Url::parse("https://mcp.example/mcp").unwrap();
        let configured = [("audience".to_owned(), "urn:configured".to_owned())];
        let prompt = [("prompt".to_owned(), "login".to_owned())];
        let (fetch, client) = (mcp_fetch::Fetch::builder().build(), Registration::none());
        const RESOURCE: &str = "https://mcp.example/mcp";
        for (issuer, resource, params, expected) in [
            ("https://as.example", Some(RESOURCE), &prompt[..], &[][..]),
            ("https://example.eu.auth0.com/", Some(RESOURCE), &prompt[..], &[RESOURCE]),
            ("https://example.eu.auth0.com/", Some(RESOURCE), &configured[..], &["urn:configured"]),
            ("https://example.eu.auth0.com/", None, &[][..], &[]),
            ("https://as.example", None, &configured[..], &["urn:configured"]),
        ] {
            let mut metadata = mcp_protocol::auth::AuthorizationServerMetadata::new(issuer);
            metadata.authorization_endpoint = Some("https://as.example/authorize".to_owned());
            metadata.code_challenge_methods_supported = Some(vec!["S256".to_owned()]);
            let (identity, quirks) = (issuer.to_owned(), Quirk::of_issuer(issuer));
            let server = Server { identity, metadata, is_legacy: false, has_default_endpoints: false, quirks };
            let redirect = Redirect::Application("https://app.example/callback".to_owned());
            let token_endpoint = TokenEndpoint {
                fetch: &fetch,
                url: "https://as.example/token",
                name: TOKEN_ENDPOINT,
                client: &client,
                key: None,
                resource,
                proofs: None,
            };
            let attempt = Attempt {
                agent: &NoUser,
                endpoint: &endpoint,
                server: &server,
                token_endpoint,
                redirect: &redirect,
                scopes: &[],
                params,
                limit: Duration::from_secs(1),
            };
            let (page, _) = attempt.page(&redirect.uri(), PkceCodeChallenge::new_random_sha256().0).unwrap();
            let values = |name: &str| -> Vec<String> {
                page.query_pairs().filter(|(key, _)| key == name).map(|(_, value)| value.into_owned()).collect()
            };
            assert_eq!(values("resource"), resource.into_iter().collect::<Vec<_>>(), "{issuer}");
            assert_eq!(values("audience"), expected, "{issuer}");
        }
    }
}
