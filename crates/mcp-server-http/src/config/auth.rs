//! The settings of authentication.

use std::{fmt, sync::Arc, time::Duration};

use mcp_auth::{Authenticator, IntoAuthenticator};
use mcp_protocol::ProtectedResourceMetadata;

use super::{HttpConfig, PublicUrl};

/// An authenticator of the configuration.
#[derive(Clone)]
pub(crate) struct SharedAuthenticator(pub(crate) Arc<dyn Authenticator>);

impl fmt::Debug for SharedAuthenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedAuthenticator(..)")
    }
}

/// The number of failures that an address may have at once, and the time in which as many are forgiven.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptLimit {
    pub(crate) count: u32,
    pub(crate) per: Duration,
}

impl AttemptLimit {
    /// Returns the number of failures that are forgiven in each second.
    pub(crate) fn rate(self) -> f64 {
        f64::from(self.count) / self.per.as_secs_f64()
    }
}

impl HttpConfig {
    /// Sets the URL at which clients reach the endpoint: the identifier of the resource for which tokens are issued. Its host
    /// is an allowed host.
    ///
    /// The server never derives this URL from the headers of a request, because a client chooses them. An endpoint with an
    /// authenticator needs the URL, except on our listener at a loopback address.
    ///
    /// See [`authenticate`](Self::authenticate).
    ///
    /// It is an error ([`check`](Self::check)) if the text does not begin with `https://`, or with `http://` for a loopback host, or
    /// it has a query or a fragment. Also if its path cannot be that of an endpoint (see [`path`](Self::path)).
    #[must_use]
    pub fn public_url(mut self, url: impl Into<String>) -> Self {
        let url = url.into();
        match PublicUrl::parse(url.clone()) {
            Ok(parsed) => self.public_url = Some(parsed),
            Err(reason) => return self.invalid_value(&url, &format!("is not a public URL: {reason}")),
        }
        self
    }

    /// Authenticates the caller of each request. A request without valid credentials receives 401 with a challenge.
    ///
    /// The server checks scopes against the principal of the caller. Sessions, streams, tasks and request state belong to
    /// it. Streams end with the token of their caller, and at the latest after an hour. Handlers do not see the credentials.
    ///
    /// If tokens come from an authorization server, the endpoint serves the metadata document of RFC 9728 at
    /// `/.well-known/oauth-protected-resource`, with and without the path of the public URL behind it.
    ///
    /// ```
    /// use mcp_auth::Jwt;
    /// use mcp_server_http::HttpConfig;
    ///
    /// let config = HttpConfig::new()
    ///     .public_url("https://mcp.example.com/mcp")
    ///     .authenticate(Jwt::issuer("https://as.example"));
    /// # let _ = config;
    /// ```
    ///
    /// If the construction of the authenticator failed, the endpoint does not serve: see [`check`](Self::check).
    #[must_use]
    pub fn authenticate(mut self, authenticator: impl IntoAuthenticator) -> Self {
        match authenticator.into_authenticator() {
            Ok(authenticator) => self.authenticator = Some(SharedAuthenticator(authenticator)),
            Err(error) => return self.invalid(format!("the authenticator is not configured: {error}")),
        }
        self
    }

    /// Accepts requests without credentials as anonymous. A request with invalid credentials is still rejected.
    ///
    /// Anonymous callers can use all that requires neither scopes nor authentication, for example a tool without
    /// [`requires_authentication`](mcp_server_core::ToolRoute::requires_authentication). Any other use receives 401 with a
    /// challenge. A session of an anonymous caller belongs to the first principal that uses it. All anonymous callers together
    /// have half of the places of [`max_sessions`](Self::max_sessions), so that known callers find room.
    ///
    /// ```
    /// use mcp_auth::Jwt;
    /// use mcp_server_http::HttpConfig;
    ///
    /// let config = HttpConfig::new()
    ///     .public_url("https://mcp.example.com/mcp")
    ///     .authenticate(Jwt::issuer("https://as.example"))
    ///     .allow_anonymous();
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn allow_anonymous(mut self) -> Self {
        self.allows_anonymous = true;
        self
    }

    /// Sets members of the metadata document, such as the scopes that a client may request. The resource is always the
    /// public URL.
    ///
    /// ```
    /// use mcp_protocol::ProtectedResourceMetadata;
    /// use mcp_server_http::HttpConfig;
    ///
    /// let document = ProtectedResourceMetadata::default().with_scopes(["files:read"]);
    /// let config = HttpConfig::new().protected_resource(document);
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn protected_resource(mut self, document: ProtectedResourceMetadata) -> Self {
        self.protected_resource = Some(document);
        self
    }

    /// Does not serve the metadata document at `/.well-known/oauth-protected-resource` itself. An application with several
    /// endpoints needs this, because only one of them can have that path.
    ///
    /// ```
    /// let config = mcp_server_http::HttpConfig::new().no_root_metadata();
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn no_root_metadata(mut self) -> Self {
        self.has_root_metadata = false;
        self
    }

    /// Limits failed authentications for each address of a peer: an address may fail this often at once, and as many failures
    /// are forgiven in each period. By default there is no limit.
    ///
    /// An address above the limit receives 429 with `Retry-After`, and the server does not check its credentials. Requests
    /// without credentials are not affected. Credentials that the server accepted since the first failure of the address stay
    /// usable. For each address, the server keeps the 256 that were used last, of them 32 of one principal.
    ///
    /// Wrong and unreadable credentials count. Expired tokens and missing scopes do not. An outage does not count as a failure.
    /// Another provider may have rejected credentials that an outage leaves unchecked, so these have a limit of their own. For
    /// each failure that it may have, the address may send ten different credentials. The same credentials cost nothing again.
    ///
    /// With credentials in several headers, each rejection counts, also that of an expired token. An outage then takes the part of
    /// ten credentials, once for each combination. A request whose credentials no provider reads does not count. A
    /// [`Chain`](mcp_auth::Chain) that accepts some credentials and finds others wrong or unreadable counts too, once for each
    /// combination of credentials.
    ///
    /// A running check of new credentials counts as a failure until it ends. More parallel callers with different new
    /// credentials than the number allows therefore receive 429. A request that the client ends before its check counts.
    ///
    /// The limit makes it expensive to guess passwords and keys. All callers behind one proxy have the same address. Behind a
    /// proxy, the limit therefore needs the address of the client in each request ([`PeerAddr`](crate::listener::PeerAddr)). Our
    /// listener adds the address of the connection. Without an address there is no limit.
    ///
    /// The limit has no effect without [`authenticate`](Self::authenticate). The server then logs a warning.
    ///
    /// The server remembers up to 10,000 addresses with failures. Addresses of one IPv6 network of 64 bits count as one.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_auth::ApiKeys;
    /// use mcp_protocol::Principal;
    /// use mcp_server_http::HttpConfig;
    ///
    /// let config = HttpConfig::new()
    ///     .public_url("https://mcp.example.com/mcp")
    ///     .authenticate(ApiKeys::new().key("hunter2", Principal::new("build-server")))
    ///     .max_failed_authentications(20, Duration::from_secs(60));
    /// # let _ = config;
    /// ```
    ///
    /// A number or a period of zero is an error: see [`check`](Self::check).
    #[must_use]
    pub fn max_failed_authentications(self, count: u32, per: Duration) -> Self {
        let fault = match count {
            0 => "`max_failed_authentications` has the number zero: no caller could authenticate",
            _ => "`max_failed_authentications` has the period zero: it would limit nothing",
        };
        self.set_if(count > 0 && !per.is_zero(), fault, |config| {
            config.failed_authentications = Some(AttemptLimit { count, per });
        })
    }
}
