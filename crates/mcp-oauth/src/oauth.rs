//! The public authorizer.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, Method, header};
use mcp_client_http::Target;
use mcp_fetch::Fetch;
use mcp_protocol::auth::Secret;
use parking_lot::Mutex;
use tokio::sync::watch;
use url::Url;

use crate::{
    assertion::Assertion,
    client_key::ClientKey,
    dpop::{self, DPOP},
    error::{Error, ErrorKind},
    registration::{ClientSettings, Registered},
    session::{Refused, Session},
    settings::{RedirectSetting, Settings},
    store::{MemoryStore, TokenStore},
    user_agent::UserAgent,
};

/// The start of the header `Authorization` with a bearer token, and with a token that is bound to a key.
const BEARER_SCHEME: &str = "Bearer ";
const DPOP_SCHEME: &str = "DPoP ";

/// The largest number of MCP servers of one [`OAuth`].
const MAX_SERVERS: usize = 1_000;

/// Authorizes the requests of clients with tokens for which a user logs in.
///
/// At the first 401 it reads the metadata of the server, registers the client, and asks the [`UserAgent`] to show the page of
/// the login. It renews tokens before their end, and after a 401. At a 403 that names scopes it logs in with the union of the
/// scopes.
///
/// One value serves the requests of all clients of an application, and keeps the tokens of each server apart. Clones share
/// the tokens.
///
/// ```
/// use mcp_oauth::{FileStore, OAuth};
///
/// # fn example() -> Result<(), mcp_oauth::Error> {
/// let auth = OAuth::builder()
///     .client_name("Example")
///     .client_metadata_url("https://app.example/client.json")
///     .store(FileStore::open("example/oauth")?)
///     .build();
/// # let _ = auth;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct OAuth {
    inner: Arc<Inner>,
}

struct Inner {
    settings: Arc<Settings>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
}

impl OAuth {
    /// Returns the default: a dynamic registration, and tokens in memory. With the feature `browser` a user logs in with the
    /// browser. Without it, a required login is an error of the kind [`ErrorKind::LoginRequired`].
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> OAuthBuilder {
        OAuthBuilder::new()
    }

    /// Takes over the default of the HTTP client for requests to other servers.
    pub(crate) fn attach_fetch(&self, endpoint: &Url, fetch: &Fetch) {
        // The first request reports an error.
        if let Ok(session) = self.session(endpoint) {
            session.attach(fetch);
        }
    }

    /// Returns whether a user is asked to log in at a server, now and after each change.
    pub(crate) fn asking(&self, endpoint: &Url) -> Result<watch::Receiver<bool>, Error> {
        Ok(self.session(endpoint)?.asking())
    }

    #[cfg(test)]
    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn session(&self, endpoint: &Url) -> Result<Arc<Session>, Error> {
        let endpoint = without_fragment(endpoint);
        let mut sessions = self.inner.sessions.lock();
        if let Some(session) = sessions.get(endpoint.as_str()) {
            return Ok(Arc::clone(session));
        }
        if sessions.len() >= MAX_SERVERS {
            return Err(Error::new(ErrorKind::Configuration, "one `OAuth` serves at most 1,000 MCP servers"));
        }
        let session = Session::new(Arc::clone(&self.inner.settings), endpoint.clone());
        sessions.insert(endpoint.into(), Arc::clone(&session));
        Ok(session)
    }

    /// Returns the sessions of all endpoints.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        self.inner.sessions.lock().values().cloned().collect()
    }

    /// Returns the session of an endpoint, if there is one.
    fn known_session(&self, endpoint: &Url) -> Option<Arc<Session>> {
        self.inner.sessions.lock().get(without_fragment(endpoint).as_str()).cloned()
    }

    /// Notes that a server accepts the token of a request.
    pub(crate) fn accept(&self, endpoint: &Url, sent: &HeaderMap) {
        if let (Some(session), Some(token)) = (self.known_session(endpoint), token_of(sent)) {
            session.accept(&token);
        }
    }

    /// Stores the nonce of a response, if there is one.
    pub(crate) fn note_nonce(&self, target: &Target, headers: &HeaderMap) {
        if !dpop::has_nonce(headers) {
            return;
        }
        if let Some(session) = self.known_session(&target.endpoint) {
            session.note_nonce(&target.url, headers);
        }
    }

    /// Returns the headers of a request to a server.
    pub(crate) async fn headers(&self, target: &Target) -> Result<HeaderMap, Error> {
        let session = self.session(&target.endpoint)?;
        let Some(tokens) = session.tokens().await? else { return Ok(HeaderMap::new()) };
        let scheme = if tokens.dpop_key.is_some() { DPOP_SCHEME } else { BEARER_SCHEME };
        let value = HeaderValue::try_from(format!("{scheme}{}", tokens.access_token.expose()));
        let mut value =
            value.map_err(|_| Error::new(ErrorKind::Token, "the token has characters that no header may have"))?;
        value.set_sensitive(true);
        let mut headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
        if let Some(key) = &tokens.dpop_key {
            let proofs = session.proofs(key);
            headers.insert(DPOP, proofs.header(&target.method, &target.url, Some(&tokens.access_token))?);
        }
        Ok(headers)
    }

    /// Acts on a refused request. `true` if it should be repeated.
    pub(crate) async fn handle_refusal(
        &self,
        endpoint: &Url,
        method: &Method,
        sent: &HeaderMap,
        mut refused: Refused,
    ) -> Result<bool, Error> {
        // A refused end of a session does not start a login: the session ends without it too.
        if *method == Method::DELETE {
            return Ok(false);
        }
        refused.token = token_of(sent);
        self.session(endpoint)?.refused(refused).await
    }
}

/// Returns the token of the headers of a request.
fn token_of(sent: &HeaderMap) -> Option<Secret> {
    let value = sent.get(header::AUTHORIZATION)?.to_str().ok()?;
    [BEARER_SCHEME, DPOP_SCHEME].iter().find_map(|scheme| value.strip_prefix(scheme)).map(Secret::new)
}

/// Returns the URL of the requests to an endpoint. A fragment is not a part of a request.
fn without_fragment(endpoint: &Url) -> Url {
    let mut endpoint = endpoint.clone();
    endpoint.set_fragment(None);
    endpoint
}

impl Default for OAuth {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").field("servers", &self.inner.sessions.lock().len()).finish_non_exhaustive()
    }
}

/// The settings of an [`OAuth`].
///
/// ```
/// use mcp_oauth::OAuth;
///
/// // A client that the operator of the authorization server registered.
/// let auth = OAuth::builder().client_id("example").issuer("https://as.example").redirect_port(8123).build();
/// # let _ = auth;
/// ```
#[must_use]
pub struct OAuthBuilder {
    settings: Settings,
    client_secret: Option<Secret>,
    key: Option<ClientKey>,
}

impl OAuthBuilder {
    fn new() -> Self {
        let settings = Settings {
            client: ClientSettings::default(),
            #[cfg(feature = "browser")]
            agent: Some(Arc::new(crate::Browser::new())),
            #[cfg(not(feature = "browser"))]
            agent: None,
            store: Arc::new(MemoryStore::new()),
            fetch: None,
            redirect: RedirectSetting::Loopback,
            scopes: Vec::new(),
            params: Vec::new(),
            omits_resource: false,
            login_limit: Duration::from_secs(600),
            uses_device_flow: false,
            accepts_any_issuer: false,
            lacks_client_id: false,
            is_machine: false,
            assertion: None,
        };
        Self { settings, client_secret: None, key: None }
    }

    /// Sets the name of the client, which the pages of logins show.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.settings.client.name = Some(name.into());
        self
    }

    /// Sets the URL of a page about the client.
    pub fn client_uri(mut self, url: impl Into<String>) -> Self {
        self.settings.client.uri = Some(url.into());
        self
    }

    /// Sets the id of a client that the operator of the authorization server registered. No other registration is tried.
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.settings.client.registered = Some(Registered { client_id: id.into(), client_secret: None, key: None });
        self
    }

    /// Sets the secret of the registered client. It needs an [issuer](Self::issuer), which alone receives the secret.
    pub fn client_secret(mut self, secret: impl Into<Secret>) -> Self {
        self.client_secret = Some(secret.into());
        self
    }

    /// Sets the key with which the registered client authenticates (`private_key_jwt`). It has precedence over a secret, and
    /// needs an [issuer](Self::issuer).
    pub fn client_key(mut self, key: ClientKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Requests tokens for the client itself, without a user (RFC 6749 §4.4). The client needs an
    /// [id](Self::client_id), a [secret](Self::client_secret) or a [key](Self::client_key), and an [issuer](Self::issuer).
    pub fn client_credentials(mut self) -> Self {
        self.settings.is_machine = true;
        self
    }

    /// Requests tokens with assertions of another issuer, without a login: a workload identity, or an [`IdentityProvider`].
    /// A configured client authenticates with its secret or key. A workload needs no client. Assertions need an
    /// [issuer](Self::issuer), which alone receives them.
    ///
    /// [`IdentityProvider`]: crate::IdentityProvider
    pub fn assertion(mut self, assertion: impl Assertion) -> Self {
        self.settings.is_machine = true;
        self.settings.assertion = Some(Arc::new(assertion));
        self
    }

    /// Sets the issuer of all tokens, as its own metadata document names it. The client rejects a server that does not name
    /// this issuer.
    ///
    /// A secret, a key or an assertion without an issuer is an error of the kind [`ErrorKind::Configuration`]. An MCP server
    /// names its authorization server, so a hostile server could name its own and receive the credentials.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.settings.client.issuer = Some(issuer.into());
        self
    }

    /// Sends the secret, the signatures of the key or the assertions of the application to each issuer that an MCP server
    /// names. A hostile MCP server receives them. Use it only if the application trusts each MCP server that it connects to,
    /// such as in a test.
    pub fn dangerous_any_issuer(mut self) -> Self {
        self.settings.accepts_any_issuer = true;
        self
    }

    /// Sets the URL of the client id metadata document. It is the client id at authorization servers that support it.
    pub fn client_metadata_url(mut self, url: impl Into<String>) -> Self {
        self.settings.client.document = Some(url.into());
        self
    }

    /// Adds scopes to those that a server requires.
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.settings.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Sets how a user reaches the page of a login. The default is that of [`OAuth::new`].
    pub fn user_agent(mut self, agent: impl UserAgent) -> Self {
        self.settings.agent = Some(Arc::new(agent));
        self
    }

    /// Logs users in with the device flow (RFC 8628): the user agent [shows a code](UserAgent::show_code), which the user
    /// enters in a browser of any machine. It needs no listener and no browser on this machine, such as over SSH.
    ///
    /// A login at an authorization server without `device_authorization_endpoint` is an error of the kind
    /// [`ErrorKind::Unsupported`]. The user agent `Browser` cannot show a code. The time limit is the smaller of
    /// [`login_limit`](Self::login_limit) and the lifetime of the code.
    pub fn device_flow(mut self) -> Self {
        self.settings.uses_device_flow = true;
        self
    }

    /// Sets the store of tokens and registrations. The default is a [`MemoryStore`].
    pub fn store(mut self, store: impl TokenStore) -> Self {
        self.settings.store = Arc::new(store);
        self
    }

    /// Sets the port on 127.0.0.1 that receives the response of a login. The default is any port.
    pub fn redirect_port(mut self, port: u16) -> Self {
        self.settings.redirect = RedirectSetting::Port(port);
        self
    }

    /// Sets a redirect URI of the application, such as a page of a web application. It has `https`, or `http` and a host of
    /// this machine. The user agent must return the whole URL
    /// as [`Answer::Pasted`](crate::Answer::Pasted).
    pub fn redirect_uri(mut self, uri: impl Into<String>) -> Self {
        self.settings.redirect = RedirectSetting::Application(uri.into());
        self
    }

    /// Adds a parameter to the URL of the page of a login, such as `audience` or `prompt`. The device flow sends it in its
    /// first request. It replaces the parameter `audience` of a [`Quirk`](crate::Quirk).
    pub fn authorize_param(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.params.push((name.into(), value.into()));
        self
    }

    /// Omits the parameter `resource`, for an authorization server that rejects it. The tokens then are for a resource that
    /// the scopes select.
    pub fn omit_resource(mut self) -> Self {
        self.settings.omits_resource = true;
        self
    }

    /// Applies no [`Quirk`](crate::Quirk): each authorization server gets the rules of the specification. It is for a listed
    /// server that no longer differs, and for a tenant whose configuration contradicts a quirk.
    pub fn without_quirks(mut self) -> Self {
        self.settings.client.ignores_quirks = true;
        self
    }

    /// Sets the requests to metadata documents and authorization servers. The default is that of the HTTP client, with its
    /// proxy and its certificates. It allows public hosts, and this machine if the MCP server is on this machine.
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        self.settings.fetch = Some(fetch);
        self
    }

    /// Sets the time for one login. The default is 10 minutes.
    pub fn login_limit(mut self, limit: Duration) -> Self {
        self.settings.login_limit = limit;
        self
    }

    /// Returns the configured [`OAuth`].
    #[must_use]
    pub fn build(mut self) -> OAuth {
        if let Some(registered) = &mut self.settings.client.registered {
            registered.client_secret = self.client_secret;
            registered.key = self.key;
        } else {
            self.settings.lacks_client_id = self.client_secret.is_some() || self.key.is_some();
        }
        OAuth { inner: Arc::new(Inner { settings: Arc::new(self.settings), sessions: Mutex::default() }) }
    }
}

impl fmt::Debug for OAuthBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthBuilder").field("redirect", &self.settings.redirect).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_can_turn_the_quirks_off() {
        for issuer in ["https://accounts.google.com/", "https://login.microsoftonline.com/t/v2.0"] {
            assert!(!OAuth::new().inner.settings.quirks(issuer).is_empty());
            let without = OAuth::builder().without_quirks().issuer(issuer).build();
            let settings = &without.inner.settings;
            assert!(settings.quirks(issuer).is_empty());
            // The names of an issuer may then not differ by a slash either.
            let other = issuer.strip_suffix('/').unwrap_or(issuer);
            assert_eq!(settings.client.check_issuer(other).is_ok(), other == issuer);
            let with = OAuth::builder().issuer(issuer).build();
            with.inner.settings.client.check_issuer(other).unwrap();
        }
    }
}
