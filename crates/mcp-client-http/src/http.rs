//! What an application configures: an endpoint, how it is reached, and how much it may send.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::header;
use mcp_transport::{BoxFuture, Connect, Transport, TransportError};
use reqwest::{Client, Proxy, Url};
use rustls::pki_types::{CertificateDer, pem::PemObject};

use crate::{
    Authorizer, client,
    config::{self, Config, ConfigError},
    fault::Fault,
    link::Link,
    old,
    transport::HttpTransport,
};

/// An endpoint that is reached over HTTP. Its transports share a pool of connections.
///
/// Redirects are followed within the origin of the endpoint, and only those that keep method and body (307, 308).
/// Requests to a loopback address use no proxy; others use that of the environment (`HTTPS_PROXY`, `HTTP_PROXY`,
/// `NO_PROXY`) unless one is set.
#[derive(Clone)]
pub struct Http {
    url: Url,
    config: Config,
    /// Made when the first transport is opened.
    client: OnceLock<Client>,
}

impl Http {
    /// The endpoint at this URL, which speaks Streamable HTTP or, when it refuses `initialize` and answers a GET with an
    /// `endpoint` event, HTTP+SSE.
    ///
    /// A user in the URL (`https://user:password@…`) is sent as `Authorization: Basic …` with every request to the endpoint, and
    /// nowhere else; [`Http::bearer`] and whatever else sets that header takes its place.
    ///
    /// # Errors
    /// The text is no URL, or neither `http` nor `https`, or has a user that cannot be sent.
    pub fn new(url: impl AsRef<str>) -> Result<Self, ConfigError> {
        let mut url = config::endpoint(url.as_ref())?;
        let mut config = Config::new();
        if let Some(user) = config::take_user(&mut url)? {
            config.headers.insert(header::AUTHORIZATION, user);
        }
        Ok(Self { url, config, client: OnceLock::new() })
    }

    /// The event stream at this URL, of a server that is known to speak HTTP+SSE (2024-11-05).
    ///
    /// # Errors
    /// As for [`Http::new`].
    pub fn sse(url: impl AsRef<str>) -> Result<Self, ConfigError> {
        let mut http = Self::new(url)?;
        http.config.is_sse = true;
        Ok(http)
    }

    /// Sends this header with every request to the endpoint. Its value counts as a secret when it is one that usually is:
    /// `authorization`, `cookie`, and names with `key`, `token` or `secret` in them.
    ///
    /// # Errors
    /// Name or value hold what they cannot hold, or the header is the transport's own (`accept`, `content-type`, `mcp-…`).
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Result<Self, ConfigError> {
        let (name, mut value) = config::header(name.as_ref(), value.as_ref())?;
        let secret = ["authorization", "cookie", "key", "token", "secret"];
        value.set_sensitive(secret.iter().any(|part| name.as_str().contains(part)));
        self.config.headers.insert(name, value);
        Ok(self)
    }

    /// Sends this token with every request, as `Authorization: Bearer …`.
    ///
    /// # Errors
    /// The token holds what a header cannot hold.
    pub fn bearer(self, token: impl AsRef<str>) -> Result<Self, ConfigError> {
        self.header("authorization", format!("Bearer {}", token.as_ref()))
    }

    /// Asks this authorizer for every request. What it gives comes after the headers of the application, in their place.
    #[must_use]
    pub fn authorizer(mut self, authorizer: impl Authorizer) -> Self {
        self.config.authorizer = Some(Arc::new(authorizer));
        self
    }

    /// Goes through this proxy, and not through that of the environment.
    #[must_use]
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        self.config.proxy = Some(proxy);
        self.client = OnceLock::new();
        self
    }

    /// Trusts these certificates, in PEM, beside those of the system.
    ///
    /// # Errors
    /// There is none in the text, or one cannot be read.
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Result<Self, ConfigError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_ref()).collect();
        let read = read.map_err(|error| ConfigError::new("a root certificate cannot be read").because(error))?;
        if read.is_empty() {
            return Err(ConfigError::new("there is no root certificate in the text"));
        }
        self.config.roots.extend(read);
        self.client = OnceLock::new();
        Ok(self)
    }

    /// Sends with a client that the application made. Proxy, roots and connection timeout are its own then, and so are its
    /// redirects, which is the danger: what it follows to another origin takes headers along. Give it
    /// [`reqwest::redirect::Policy::none`]. It also needs TLS of its own ([`reqwest::ClientBuilder::tls_backend_preconfigured`]
    /// or a crypto provider of the process): this crate builds reqwest without one.
    #[must_use]
    pub fn dangerous_client(mut self, client: Client) -> Self {
        self.config.client = Some(client);
        self.client = OnceLock::new();
        self
    }

    /// Sends credentials over `http://` to other machines too, where everybody on the way can read them. Without it such
    /// an endpoint cannot be connected to when a token, a cookie, a secret header or an authorizer is set.
    #[must_use]
    pub fn dangerous_cleartext_credentials(mut self) -> Self {
        self.config.cleartext = true;
        self
    }

    /// How long a connection may take to be made, TLS included. Default 10 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.config.connect_timeout = timeout;
        self.client = OnceLock::new();
        self
    }

    /// How long the head of a response may take, of everything that is not a request of the protocol: notifications,
    /// answers, streams, the end of a session. Default 30 s. A request may take as long as its sender waits.
    ///
    /// A notification or an answer that the server has no time for is brought again when that says so (`Retry-After`), if it is
    /// within this time; otherwise it is given up at once.
    #[must_use]
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.config.response_timeout = timeout;
        self
    }

    /// The longest message that is taken, in bytes: the body of an answer, the data of an event. Default 4 MiB.
    #[must_use]
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.config.max_message = bytes;
        self
    }

    /// How many requests may be under way; more wait. Signs of life wait for none of them. Default 1,024.
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
        let (link, inbound) = Link::new(self.ready_client()?, self.url.clone(), self.config.clone());
        let transport = HttpTransport::new(Arc::clone(&link), inbound);
        if self.config.is_sse {
            old::open(&link).await?;
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
}

impl fmt::Debug for Http {
    /// Shows where it goes, and which headers it sends, without their values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.config.headers.keys().map(http::HeaderName::as_str).collect();
        f.debug_struct("Http").field("url", &self.describe()).field("headers", &headers).finish_non_exhaustive()
    }
}
