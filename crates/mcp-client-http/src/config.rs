//! The settings of an [`Http`](crate::Http), and the errors of invalid settings.

use std::{borrow::Cow, error::Error, fmt, net::IpAddr, sync::Arc, time::Duration};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use mcp_fetch::{Fetch, FetchError};
use mcp_transport::AuthorizationClocks;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use reqwest::{Client, Proxy, Url};
use rustls::pki_types::CertificateDer;

use crate::Authorizer;

/// An invalid setting. The text is for people and contains no values.
///
/// ```
/// let error = mcp_client_http::Http::new("localhost:8080/mcp").unwrap_err();
/// assert_eq!(error.to_string(), "the URL of the endpoint has no scheme: begin it with `http://` or `https://`");
/// ```
pub struct ConfigError {
    text: Cow<'static, str>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl ConfigError {
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), source: None }
    }

    pub(crate) fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConfigError").field(&self.text).finish()
    }
}

impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The authorizer of an endpoint, and the clocks that its transports share.
#[derive(Clone)]
pub(crate) struct Authorization {
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) clocks: AuthorizationClocks,
    /// Whether [`Authorizer::attach`] was called.
    pub(crate) is_attached: Arc<Mutex<bool>>,
}

impl Authorization {
    pub(crate) fn new(authorizer: impl Authorizer) -> Self {
        let clocks = AuthorizationClocks::default();
        Self { authorizer: Arc::new(authorizer), clocks, is_attached: Arc::default() }
    }

    /// Gives the endpoint to the authorizer, the first time.
    pub(crate) fn attach(&self, url: &Url, config: &Config) -> Result<(), FetchError> {
        let mut is_attached = self.is_attached.lock();
        if !*is_attached {
            self.authorizer.attach(url, &config.fetch(url)?);
            *is_attached = true;
        }
        Ok(())
    }
}

#[derive(Clone)]
pub(crate) struct Config {
    /// The server is known to speak HTTP+SSE.
    pub(crate) is_sse: bool,
    /// The headers of every request. Values that may be secret are marked.
    pub(crate) headers: HeaderMap,
    pub(crate) authorization: Option<Authorization>,
    pub(crate) client: Option<Client>,
    pub(crate) proxy: Option<Proxy>,
    /// The URL of the proxy, which may contain a password.
    pub(crate) proxy_url: Option<String>,
    pub(crate) roots: Vec<CertificateDer<'static>>,
    /// The same certificates as text.
    pub(crate) roots_pem: Vec<u8>,
    pub(crate) cleartext: bool,
    /// The hosts in a private network to which requests of the authorizer may go.
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) max_message: usize,
    pub(crate) max_requests: u32,
}

impl Config {
    pub(crate) fn new() -> Self {
        Self {
            is_sse: false,
            headers: HeaderMap::new(),
            authorization: None,
            client: None,
            proxy: None,
            proxy_url: None,
            roots: Vec::new(),
            roots_pem: Vec::new(),
            cleartext: false,
            allowed_hosts: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_secs(30),
            max_message: 4 << 20,
            max_requests: 1024,
        }
    }

    /// Returns the client for authorization servers, with the proxy and the certificates of the endpoint.
    fn fetch(&self, url: &Url) -> Result<Fetch, FetchError> {
        let mut builder = Fetch::builder().for_server(url.as_str());
        for host in &self.allowed_hosts {
            builder = builder.allow_host(host)?;
        }
        builder = match &self.proxy_url {
            Some(proxy) => builder.proxy(proxy)?,
            None if is_loopback(url) => builder,
            None => builder.proxy_of_environment()?,
        };
        if !self.roots_pem.is_empty() {
            builder = builder.root_certificates(&self.roots_pem)?;
        }
        Ok(builder.build())
    }

    /// Returns true if requests contain credentials.
    pub(crate) fn has_credentials(&self) -> bool {
        let named = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE];
        self.authorization.is_some()
            || self.headers.iter().any(|(name, value)| value.is_sensitive() || named.contains(name))
    }
}

/// Parses the URL of an endpoint.
pub(crate) fn endpoint(text: &str) -> Result<Url, ConfigError> {
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(_) if !text.contains("://") => return Err(no_scheme()),
        Err(error) => return Err(ConfigError::new("the URL of the endpoint is invalid").because(error)),
    };
    if !matches!(url.scheme(), "http" | "https") {
        // `localhost:8080` parses as a URL with the scheme `localhost`.
        if !text.contains("://") {
            return Err(no_scheme());
        }
        return Err(ConfigError::new(format!(
            "the scheme of an endpoint must be `http` or `https`, not `{}`",
            url.scheme()
        )));
    }
    Ok(url)
}

fn no_scheme() -> ConfigError {
    ConfigError::new("the URL of the endpoint has no scheme: begin it with `http://` or `https://`")
}

/// Removes the user from a URL and returns the header that authenticates the user (RFC 7617).
pub(crate) fn take_user(url: &mut Url) -> Result<Option<HeaderValue>, ConfigError> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    // A `%` without two hexadecimal digits is kept, and `+` is not a space (URL standard, "percent-decode").
    let mut user: Vec<u8> = percent_decode_str(url.username()).collect();
    if user.contains(&b':') {
        return Err(ConfigError::new(
            "the user name in the URL contains a colon, which also separates it from the password",
        ));
    }
    user.push(b':');
    user.extend(percent_decode_str(url.password().unwrap_or_default()));
    // This cannot fail for a URL that has a user.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(user)))
        .map_err(|error| ConfigError::new("the user in the URL cannot be sent").because(error))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// Returns the secrets in the value of a header: the token of `Bearer …`, the values of cookies, the password of a
/// user.
pub(crate) fn secrets(name: &HeaderName, value: &HeaderValue) -> Vec<String> {
    let text = String::from_utf8_lossy(value.as_bytes());
    if *name == header::COOKIE {
        let values = text.split(';').map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value).trim());
        return values.filter(|value| !value.is_empty()).map(str::to_owned).collect();
    }
    let (scheme, secret) = text.split_once(' ').unwrap_or(("", &text));
    let mut secrets = vec![secret.trim().to_owned()];
    if scheme.eq_ignore_ascii_case("basic")
        && let Ok(user) = BASE64_STANDARD.decode(secret.trim())
    {
        secrets.extend(String::from_utf8_lossy(&user).split_once(':').map(|(_, password)| password.to_owned()));
    }
    secrets.retain(|secret| !secret.is_empty());
    secrets
}

/// Parses a header of the application.
pub(crate) fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), ConfigError> {
    let name = HeaderName::from_bytes(name.as_bytes())
        .map_err(|error| ConfigError::new("the name of a header contains an invalid character").because(error))?;
    if RESERVED.contains(&name.as_str()) || name.as_str().starts_with("mcp-") {
        return Err(ConfigError::new(format!("the header `{name}` is set by the transport")));
    }
    let value = HeaderValue::from_str(value)
        .map_err(|_| ConfigError::new(format!("the value of the header `{name}` contains an invalid character")))?;
    Ok((name, value))
}

const RESERVED: [&str; 7] =
    ["accept", "connection", "content-length", "content-type", "last-event-id", "te", "transfer-encoding"];

/// Returns true if the URL leads to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || host.ends_with(".localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Returns scheme, host and port, which contain no secrets.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Returns true if both URLs have the same origin.
pub(crate) fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && one.host_str() == other.host_str()
        && one.port_or_known_default() == other.port_or_known_default()
}

/// Returns a URL for display: without user, query, and segments of the path that are long enough to be a key.
pub(crate) fn shown(url: &Url) -> String {
    let mut shown = origin(url);
    for segment in url.path_segments().into_iter().flatten() {
        shown.push('/');
        shown.push_str(if segment.len() > LONGEST_SEGMENT { "…" } else { segment });
    }
    shown
}

/// The longest segment of a path that is shown. Longer ones are probably keys.
const LONGEST_SEGMENT: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_urls_contain_no_secrets() {
        for (url, expected) in [
            ("https://u:hunter2@a.example/mcp?key=hunter2#hunter2", "https://a.example/mcp"),
            ("https://a.example/s/0123456789abcdef0123456789abcdef/mcp", "https://a.example/s/…/mcp"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
            ("http://[::1]:8080/a/", "http://[::1]:8080/a/"),
        ] {
            assert_eq!(shown(&endpoint(url).unwrap()), expected);
        }
    }

    #[test]
    fn a_user_in_a_url_becomes_an_authorization_header() {
        for (url, expected) in [
            ("https://a.example/", None),
            ("https://@a.example/", None),
            ("https://user:hunter2@a.example/", Some("user:hunter2")),
            ("https://user@a.example/", Some("user:")),
            ("https://:hunter2@a.example/", Some(":hunter2")),
            ("https://us%20er:h%3Aü%zz%+5%@a.example/", Some("us er:h:ü%zz%+5%")),
        ] {
            let mut parsed = endpoint(url).unwrap();
            let header = take_user(&mut parsed).unwrap();
            let encoded = expected.map(|user| format!("Basic {}", BASE64_STANDARD.encode(user)));
            assert_eq!(header.as_ref().map(|value| value.to_str().unwrap()), encoded.as_deref(), "{url}");
            assert_eq!(parsed.as_str(), "https://a.example/");
            assert!(header.is_none_or(|value| value.is_sensitive()));
        }
        let error = take_user(&mut endpoint("https://a%3Ab:hunter2@a.example/").unwrap()).unwrap_err();
        assert!(error.to_string().contains("colon") && !format!("{error:?}{error}").contains("hunter2"));
    }

    #[test]
    fn header_secrets_are_recognized() {
        for (name, value, expected) in [
            ("authorization", "Bearer hunter2", &["hunter2"][..]),
            ("authorization", "basic dXNlcjpodW50ZXIy", &["dXNlcjpodW50ZXIy", "hunter2"]),
            ("authorization", "Basic ?", &["?"]),
            ("x-api-key", "hunter2", &["hunter2"]),
            ("x-api-key", "", &[]),
            ("cookie", "a=hunter2; b=x=y;c;", &["hunter2", "x=y", "c"]),
        ] {
            let (name, value) = header(name, value).unwrap();
            assert_eq!(secrets(&name, &value), expected, "{name}: {value:?}");
        }
    }

    #[test]
    fn endpoints_must_be_http_urls() {
        for (url, expected) in [
            ("ftp://a.example/", "the scheme of an endpoint must be `http` or `https`, not `ftp`"),
            ("localhost:8080", "the URL of the endpoint has no scheme: begin it with `http://` or `https://`"),
            ("/mcp", "the URL of the endpoint has no scheme: begin it with `http://` or `https://`"),
            ("http://", "the URL of the endpoint is invalid"),
        ] {
            assert_eq!(endpoint(url).unwrap_err().to_string(), expected, "{url}");
        }
    }

    #[test]
    fn loopback_addresses_are_recognized() {
        for (url, expected) in [
            ("http://localhost/", true),
            ("http://a.localhost:80/", true),
            ("http://127.8.9.1/", true),
            ("http://[::1]:9/", true),
            ("http://localhost.example/", false),
            ("http://10.0.0.1/", false),
            ("http://0.0.0.0/", false),
            ("http://[::2]/", false),
        ] {
            assert_eq!(is_loopback(&endpoint(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn rejects_headers_that_the_transport_sets() {
        for name in ["Accept", "content-type", "Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-ID"] {
            assert!(header(name, "x").unwrap_err().to_string().ends_with("is set by the transport"), "{name}");
        }
        let error = header("x-a", "hunter2\n").unwrap_err();
        assert!(error.to_string().contains("`x-a`") && !format!("{error:?} {error}").contains("hunter2"));
        header("a b", "x").unwrap_err();
        header("x-a", "x").unwrap();
    }
}
