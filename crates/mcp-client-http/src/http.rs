//! The endpoint that an application configures.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::header;
use mcp_fetch::Fetch;
use mcp_transport::{AuthorizationClocks, BoxFuture, Connect, Transport, TransportError};
use reqwest::{Client, Proxy, Url};
use rustls::pki_types::{CertificateDer, pem::PemObject};

use crate::{
    Authorizer, client,
    config::{self, Authorization, Config, ConfigError},
    fault::Fault,
    legacy_sse,
    shared::Shared,
    transport::HttpTransport,
};

/// An HTTP endpoint. Its transports share a pool of connections.
///
/// The client follows redirects within the origin of the endpoint, and only those that keep method and body (307, 308).
/// Requests to a loopback address use no proxy. Other requests use the proxy of the environment (`HTTPS_PROXY`,
/// `HTTP_PROXY`, `NO_PROXY`), unless [`Http::proxy`] sets one.
///
/// ```
/// # use mcp_client_http::Http;
/// let http = Http::new("https://mcp.example.com/mcp")?.bearer("secret")?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Http {
    url: Url,
    config: Config,
    /// The HTTP client, built for the first transport.
    client: OnceLock<Client>,
}

impl Http {
    /// Returns the endpoint at this URL. It speaks Streamable HTTP. If it rejects `initialize` and answers a GET with
    /// an `endpoint` event, it speaks HTTP+SSE.
    ///
    /// A user in the URL (`https://user:password@…`) is sent as `Authorization: Basic …` with each request to the
    /// endpoint. [`Http::bearer`] and other settings of that header replace it.
    ///
    /// # Errors
    /// If the text is not a URL, its scheme is not `http` or `https`, or its user cannot be sent.
    ///
    /// ```
    /// # use mcp_client_http::Http;
    /// let http = Http::new("http://127.0.0.1:8000/mcp")?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(url: impl AsRef<str>) -> Result<Self, ConfigError> {
        let mut url = config::endpoint(url.as_ref())?;
        let mut config = Config::new();
        if let Some(user) = config::take_user(&mut url)? {
            config.headers.insert(header::AUTHORIZATION, user);
        }
        Ok(Self { url, config, client: OnceLock::new() })
    }

    /// Returns the event stream at this URL, for a server that speaks HTTP+SSE (2024-11-05).
    ///
    /// # Errors
    /// As for [`Http::new`].
    ///
    /// ```
    /// # use mcp_client_http::Http;
    /// let http = Http::sse("http://127.0.0.1:8000/sse")?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn sse(url: impl AsRef<str>) -> Result<Self, ConfigError> {
        let mut http = Self::new(url)?;
        http.config.is_sse = true;
        Ok(http)
    }

    /// Sends a header with each request to the endpoint.
    ///
    /// The value is treated as a secret if the name is `authorization` or `cookie`, or contains `key`, `token` or
    /// `secret`.
    ///
    /// # Errors
    /// If the name or the value is invalid, or the transport sets the header itself (`accept`, `content-type`,
    /// `mcp-…`).
    ///
    /// ```
    /// # use mcp_client_http::Http;
    /// let http = Http::new("https://mcp.example.com/mcp")?.header("x-team", "blue")?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Result<Self, ConfigError> {
        let (name, mut value) = config::header(name.as_ref(), value.as_ref())?;
        let secret = ["authorization", "cookie", "key", "token", "secret"];
        value.set_sensitive(secret.iter().any(|part| name.as_str().contains(part)));
        self.config.headers.insert(name, value);
        Ok(self)
    }

    /// Sends a token with each request, as `Authorization: Bearer …`.
    ///
    /// # Errors
    /// If a header cannot carry the token.
    ///
    /// ```
    /// # use mcp_client_http::Http;
    /// let http = Http::new("https://mcp.example.com/mcp")?.bearer("secret")?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn bearer(self, token: impl AsRef<str>) -> Result<Self, ConfigError> {
        self.header("authorization", format!("Bearer {}", token.as_ref()))
    }

    /// Authorizes each request with this authorizer. Its headers replace equal headers of the application. See
    /// [`Authorizer`] for an example.
    #[must_use]
    pub fn authorizer(mut self, authorizer: impl Authorizer) -> Self {
        self.client = OnceLock::new();
        self.config.authorization = Some(Authorization::new(authorizer));
        self
    }

    /// Uses the proxy at this URL instead of the proxy of the environment. The URL may contain a user and a password.
    ///
    /// [`Http::dangerous_client`] is for other rules, such as a list of hosts without a proxy.
    ///
    /// # Errors
    /// If the URL is invalid.
    ///
    /// ```
    /// # use mcp_client_http::Http;
    /// let http = Http::new("https://mcp.example.com/mcp")?.proxy("http://proxy.example.com:3128")?;
    /// # Ok::<_, mcp_client_http::ConfigError>(())
    /// ```
    pub fn proxy(mut self, url: impl AsRef<str>) -> Result<Self, ConfigError> {
        let proxy = Proxy::all(url.as_ref())
            .map_err(|error| ConfigError::new("the URL of the proxy is invalid").because(error.without_url()))?;
        self.config.proxy = Some(proxy);
        // As reqwest does, a proxy without a scheme is reached over HTTP.
        let scheme = if url.as_ref().contains("://") { "" } else { "http://" };
        self.config.proxy_url = Some(format!("{scheme}{}", url.as_ref()));
        self.client = OnceLock::new();
        Ok(self)
    }

    /// Trusts these certificates (PEM) in addition to those of the system.
    ///
    /// # Errors
    /// If the text contains no certificate, or an invalid one.
    ///
    /// ```no_run
    /// use mcp_client_http::Http;
    ///
    /// let pem = std::fs::read("ca.pem")?;
    /// let http = Http::new("https://mcp.example.com/mcp")?.root_certificates(pem)?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Result<Self, ConfigError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_ref()).collect();
        let read = read.map_err(|error| ConfigError::new("a root certificate cannot be read").because(error))?;
        if read.is_empty() {
            return Err(ConfigError::new("the text contains no root certificate"));
        }
        self.config.roots.extend(read);
        self.config.roots_pem.extend_from_slice(pem.as_ref());
        self.config.roots_pem.push(b'\n');
        self.client = OnceLock::new();
        Ok(self)
    }

    /// Sends requests with a client of the application. The client has its own proxy, certificates and connection
    /// timeout.
    ///
    /// It also has its own redirects, which is the danger: a redirect to another origin would send the headers there.
    /// Configure it with [`reqwest::redirect::Policy::none`]. It needs its own TLS configuration
    /// ([`reqwest::ClientBuilder::tls_backend_preconfigured`], or a crypto provider of the process), because this crate
    /// builds reqwest without one.
    ///
    /// ```
    /// use mcp_client_http::{
    ///     Http,
    ///     reqwest::{Client, redirect::Policy},
    /// };
    ///
    /// # fn example(tls: impl std::any::Any) -> Result<Http, Box<dyn std::error::Error>> {
    /// let client = Client::builder().redirect(Policy::none()).tls_backend_preconfigured(tls).build()?;
    /// let http = Http::new("https://mcp.example.com/mcp")?.dangerous_client(client);
    /// # Ok(http)
    /// # }
    /// # assert!(example(()).is_err(), "another type than a TLS configuration");
    /// ```
    #[must_use]
    pub fn dangerous_client(mut self, client: Client) -> Self {
        self.config.client = Some(client);
        self.client = OnceLock::new();
        self
    }

    /// Sends credentials over `http://` to other machines too, where others can read them. Without this, connecting to
    /// such an endpoint fails if a token, a cookie, a secret header or an authorizer is set.
    ///
    /// ```
    /// # use mcp_client_http::Http;
    /// let http = Http::new("http://mcp.internal/mcp")?.bearer("secret")?.dangerous_cleartext_credentials();
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn dangerous_cleartext_credentials(mut self) -> Self {
        self.config.cleartext = true;
        self
    }

    /// Allows requests of the authorizer to this host in a private network, for example the authorization server of a
    /// company. By default they go to public hosts and to the host of the endpoint only. The scheme must be `https`.
    ///
    /// # Errors
    /// If the text is not a host, for example because it has a port.
    ///
    /// ```
    /// # use mcp_client_http::Http;
    /// let http = Http::new("https://mcp.example.com/mcp")?.allow_host("login.corp.example.com")?;
    /// # Ok::<_, mcp_client_http::ConfigError>(())
    /// ```
    pub fn allow_host(mut self, host: impl AsRef<str>) -> Result<Self, ConfigError> {
        let host = host.as_ref();
        if let Err(error) = Fetch::builder().allow_host(host) {
            return Err(ConfigError::new("an allowed host is invalid").because(error));
        }
        self.config.allowed_hosts.push(host.to_owned());
        Ok(self)
    }

    /// Sets how long opening a connection may take, including TLS. Default: 10 seconds.
    ///
    /// ```
    /// # use mcp_client_http::Http;
    /// let http = Http::new("https://mcp.example.com/mcp")?.connect_timeout(std::time::Duration::from_secs(3));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.config.connect_timeout = timeout;
        self.client = OnceLock::new();
        self
    }

    /// Sets how long the head of a response may take for messages that are not requests: notifications, answers,
    /// streams, the end of a session. Default: 30 seconds. The caller of a request bounds its time.
    ///
    /// If a busy server requests a wait (`Retry-After`) within this time, a notification or an answer is sent again.
    /// Otherwise it is dropped.
    ///
    /// ```
    /// # use mcp_client_http::Http;
    /// let http = Http::new("https://mcp.example.com/mcp")?.response_timeout(std::time::Duration::from_secs(5));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.config.response_timeout = timeout;
        self
    }

    /// Sets the largest message that is received, in bytes: the body of an answer, or the data of an event. Default: 4
    /// MiB.
    ///
    /// ```
    /// # use mcp_client_http::Http;
    /// let http = Http::new("https://mcp.example.com/mcp")?.max_message(64 << 20);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.config.max_message = bytes;
        self
    }

    /// Sets how many requests may run at the same time; further ones wait. Pings do not count. Default: 1,024.
    ///
    /// ```
    /// # use mcp_client_http::Http;
    /// let http = Http::new("https://mcp.example.com/mcp")?.max_requests(16);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn max_requests(mut self, count: u32) -> Self {
        self.config.max_requests = count.max(1);
        self
    }

    fn ready_client(&self) -> Result<Client, Fault> {
        if let Some(client) = self.config.client.as_ref().or(self.client.get()) {
            return Ok(client.clone());
        }
        let client = client::build(&self.url, &self.config)?;
        Ok(self.client.get_or_init(|| client).clone())
    }

    async fn open(&self) -> Result<Box<dyn Transport>, Fault> {
        let is_clear = self.url.scheme() == "http" && !config::is_loopback(&self.url);
        if is_clear && !self.config.cleartext && self.config.has_credentials() {
            return Err(Fault::Cleartext { origin: config::origin(&self.url) });
        }
        if let Some(authorization) = &self.config.authorization {
            authorization.attach(&self.url, &self.config).map_err(Fault::Fetch)?;
        }
        let (shared, inbound) = Shared::new(self.ready_client()?, self.url.clone(), self.config.clone());
        let transport = HttpTransport::new(Arc::clone(&shared), inbound);
        if self.config.is_sse {
            legacy_sse::open(&shared).await?;
        }
        Ok(Box::new(transport))
    }
}

impl Connect for Http {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async { self.open().await.map_err(Fault::into_error) })
    }

    fn describe(&self) -> String {
        config::shown(&self.url)
    }

    fn identity(&self) -> String {
        let headers: Vec<&str> = self.config.headers.keys().map(http::HeaderName::as_str).collect();
        format!("{} {headers:?}", self.url)
    }

    fn authorization(&self) -> Option<AuthorizationClocks> {
        self.config.authorization.as_ref().map(|authorization| authorization.clocks.clone())
    }
}

impl fmt::Debug for Http {
    /// Shows the endpoint and the names of the headers, without their values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.config.headers.keys().map(http::HeaderName::as_str).collect();
        f.debug_struct("Http").field("url", &self.describe()).field("headers", &headers).finish_non_exhaustive()
    }
}
