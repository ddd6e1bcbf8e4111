//! The configuration of the authorization server.

use std::{collections::HashMap, error::Error, fmt, sync::Arc, time::Duration};

use mcp_auth::jose;
use mcp_fetch::Fetch;
use mcp_store::{KeyValue, MemoryLimits, MemoryStore};
use serde_json::Value;
use tokio::net::TcpListener;
use url::Url;

use super::{
    AuthorizationServer, Inner, Misbehavior, RegisteredClient, RunningAuthorizationServer,
    journal::Journal,
    keys::Keys,
    misbehavior::Misbehaviors,
    serve,
    state::{ClientRecord, State},
};

/// The largest document or key set of a client, in bytes.
const MAX_DOCUMENT: usize = 64 << 10;

/// Builds an [`AuthorizationServer`].
///
/// ```
/// use std::time::Duration;
///
/// use mcp_test::authorization_server::AuthorizationServer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = AuthorizationServer::builder()
///     .auto_approve()
///     .subject("alice")
///     .scopes(["notes:read", "notes:write"])
///     .access_token_lifetime(Duration::from_secs(60))
///     .start()
///     .await?;
/// assert!(server.issuer().starts_with("http://127.0.0.1:"));
/// # Ok::<_, mcp_test::authorization_server::AuthorizationServerError>(()) }).unwrap();
/// ```
#[derive(Debug)]
#[must_use]
pub struct AuthorizationServerBuilder {
    config: Config,
    store: Option<Arc<dyn KeyValue>>,
    misbehaviors: Misbehaviors,
}

/// The settings.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) issuer: String,
    /// The path of the issuer, without a slash at its end.
    pub(super) base_path: String,
    pub(super) subject: String,
    /// The supported scopes. An empty list means each scope.
    pub(super) scopes: Vec<String>,
    /// The known resources. An empty list means each resource.
    pub(super) resources: Vec<String>,
    pub(super) is_auto_approved: bool,
    pub(super) registers: bool,
    /// Whether the id of a client can be the URL of its metadata document.
    pub(super) reads_documents: bool,
    pub(super) has_opaque_tokens: bool,
    pub(super) requires_dpop: bool,
    pub(super) requires_nonces: bool,
    pub(super) device_interval: Duration,
    /// The key sets of trusted issuers of assertions and id tokens.
    pub(super) trusted: HashMap<String, Value>,
    /// Fetches documents and keys of clients.
    pub(super) fetch: Fetch,
    pub(super) access_token_lifetime: Duration,
    pub(super) refresh_token_lifetime: Duration,
    pub(super) refresh_grace: Duration,
    pub(super) code_lifetime: Duration,
    pub(super) clients: HashMap<String, ClientRecord>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("issuer", &self.issuer)
            .field("subject", &self.subject)
            .field("scopes", &self.scopes)
            .field("resources", &self.resources)
            .field("is_auto_approved", &self.is_auto_approved)
            .field("clients", &self.clients.keys())
            .finish_non_exhaustive()
    }
}

impl AuthorizationServerBuilder {
    pub(super) fn new() -> Self {
        let config = Config {
            issuer: String::new(),
            base_path: String::new(),
            subject: "user".to_owned(),
            scopes: Vec::new(),
            resources: Vec::new(),
            is_auto_approved: false,
            registers: true,
            reads_documents: true,
            has_opaque_tokens: false,
            requires_dpop: false,
            requires_nonces: false,
            device_interval: Duration::from_secs(5),
            trusted: HashMap::new(),
            fetch: Fetch::builder().allow_loopback(true).body_limit(MAX_DOCUMENT).build(),
            access_token_lifetime: Duration::from_secs(3_600),
            refresh_token_lifetime: Duration::from_secs(30 * 24 * 3_600),
            refresh_grace: Duration::from_secs(60),
            code_lifetime: Duration::from_secs(60),
            clients: HashMap::new(),
        };
        Self { config, store: None, misbehaviors: Misbehaviors::default() }
    }

    /// Approves each authorization request without a page.
    pub fn auto_approve(mut self) -> Self {
        self.config.is_auto_approved = true;
        self
    }

    /// Sets the user: the claim `sub` of tokens. The default is `user`.
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.config.subject = subject.into();
        self
    }

    /// Sets the supported scopes. Without them the server grants each scope.
    ///
    /// If `offline_access` is one of them, only a client that requests it receives a refresh token.
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.config.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the resources for which the server issues tokens (RFC 8707). Without them the server accepts each resource.
    ///
    /// A client that sends no `resource` receives tokens for the first resource. Without resources the audience of its tokens
    /// is the issuer.
    pub fn resources(mut self, resources: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.config.resources = resources.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the lifetime of access tokens, in whole seconds. The default is one hour.
    pub fn access_token_lifetime(mut self, lifetime: Duration) -> Self {
        self.config.access_token_lifetime = lifetime;
        self
    }

    /// Sets the lifetime of refresh tokens, in whole seconds. The default is 30 days.
    pub fn refresh_token_lifetime(mut self, lifetime: Duration) -> Self {
        self.config.refresh_token_lifetime = lifetime;
        self
    }

    /// Sets the time in which a client can repeat a refresh, in whole seconds. The default is 60 seconds.
    pub fn refresh_grace(mut self, time: Duration) -> Self {
        self.config.refresh_grace = time;
        self
    }

    /// Sets the lifetime of authorization codes, in whole seconds. The default is 60 seconds.
    pub fn code_lifetime(mut self, lifetime: Duration) -> Self {
        self.config.code_lifetime = lifetime;
        self
    }

    /// Adds a client.
    pub fn client(mut self, client: RegisteredClient) -> Self {
        self.config.clients.insert(client.id().to_owned(), client.into_record());
        self
    }

    /// Offers no dynamic registration.
    pub fn no_registration(mut self) -> Self {
        self.config.registers = false;
        self
    }

    /// Accepts no client whose id is the URL of its metadata document.
    pub fn no_client_documents(mut self) -> Self {
        self.config.reads_documents = false;
        self
    }

    /// Issues access tokens without content. A resource server checks them by introspection (RFC 7662).
    pub fn opaque_tokens(mut self) -> Self {
        self.config.has_opaque_tokens = true;
        self
    }

    /// Demands a DPoP proof in each token request (RFC 9449).
    pub fn require_dpop(mut self) -> Self {
        self.config.requires_dpop = true;
        self
    }

    /// Demands a nonce of this server in each DPoP proof (RFC 9449 §8). A nonce is valid for two to four minutes.
    pub fn dpop_nonces(mut self) -> Self {
        self.config.requires_nonces = true;
        self
    }

    /// Sets the time between two polls of a device, in whole seconds. The default is 5 seconds.
    pub fn device_interval(mut self, interval: Duration) -> Self {
        self.config.device_interval = interval;
        self
    }

    /// Accepts the assertions and the id tokens of an issuer (RFC 7523, RFC 8693). The keys are a JWK set. The server trusts
    /// itself without this setting.
    pub fn trust_issuer(mut self, issuer: impl Into<String>, keys: Value) -> Self {
        self.config.trusted.insert(issuer.into(), keys);
        self
    }

    /// Sets the rules for fetches of client metadata documents and key sets. The default allows hosts of this machine, and
    /// documents of at most 64 KiB.
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        self.config.fetch = fetch;
        self
    }

    /// Adds a deliberate fault, which lasts until [`AuthorizationServer::behave`].
    pub fn misbehave(self, misbehavior: Misbehavior) -> Self {
        self.misbehaviors.add(misbehavior, None);
        self
    }

    /// Sets the store of clients, codes and tokens. The default is a store in memory with at most 64 MiB.
    pub fn store(mut self, store: Arc<dyn KeyValue>) -> Self {
        self.store = Some(store);
        self
    }

    /// Returns a server with an issuer, for example to serve its [router](AuthorizationServer::router).
    ///
    /// # Errors
    /// If the issuer is not an `http` or `https` URL without query and fragment, or the system has no random numbers.
    pub fn build(mut self, issuer: impl Into<String>) -> Result<AuthorizationServer, AuthorizationServerError> {
        self.config.issuer = issuer.into();
        let url = Url::parse(&self.config.issuer).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.fragment().is_none()
        });
        let url =
            url.ok_or_else(|| AuthorizationServerError::new("the issuer is not an http or https URL without query"))?;
        self.config.base_path = url.path().trim_end_matches('/').to_owned();
        let store = self.store.unwrap_or_else(|| {
            Arc::new(MemoryStore::with_limits(MemoryLimits::default().bytes(64 << 20).entries(200_000)))
        });
        let keys = Keys::generate().map_err(|error| AuthorizationServerError::new("no signing key").because(error))?;
        let nonce_key = jose::random_text();
        let nonce_key = nonce_key.map_err(|error| AuthorizationServerError::new("no key for nonces").because(error))?;
        let state = State::new(store, &self.config.issuer);
        let inner = Inner {
            config: self.config,
            keys,
            nonce_key,
            state,
            journal: Journal::default(),
            misbehaviors: self.misbehaviors,
        };
        Ok(AuthorizationServer { inner: Arc::new(inner) })
    }

    /// Starts the server on a free port of `127.0.0.1`.
    ///
    /// # Errors
    /// If no port is free, or the system has no random numbers.
    pub async fn start(self) -> Result<RunningAuthorizationServer, AuthorizationServerError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        self.start_on(listener.map_err(|error| AuthorizationServerError::new("no port is free").because(error))?)
    }

    /// Starts the server on a listener of this machine. The issuer is `http://` with the address of the listener.
    ///
    /// # Errors
    /// If the address of the listener is not a loopback address, or the system has no random numbers.
    pub fn start_on(self, listener: TcpListener) -> Result<RunningAuthorizationServer, AuthorizationServerError> {
        let address = listener
            .local_addr()
            .map_err(|error| AuthorizationServerError::new("the listener has no address").because(error))?;
        if !address.ip().is_loopback() {
            return Err(AuthorizationServerError::new("a test authorization server listens on this machine only"));
        }
        let server = self.build(format!("http://{address}"))?;
        Ok(serve::start(server, listener))
    }
}

/// An error of the configuration or of the start.
///
/// ```
/// use mcp_test::authorization_server::AuthorizationServer;
///
/// let error = AuthorizationServer::builder().build("not a URL").unwrap_err();
/// assert!(error.to_string().contains("issuer"));
/// ```
#[derive(Debug)]
pub struct AuthorizationServerError {
    message: &'static str,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl AuthorizationServerError {
    pub(super) fn new(message: &'static str) -> Self {
        Self { message, source: None }
    }

    fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for AuthorizationServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message)
    }
}

impl Error for AuthorizationServerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
