//! The options of a connection to Redis: from a URL, or from parts.

use std::{fmt, path::PathBuf, time::Duration};

use mcp_store::StoreError;
use percent_encoding::percent_decode_str;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use url::{Host, ParseError, Url};

/// The time limit of a call, if the options name no other limit.
const CALL_TIME: Duration = Duration::from_secs(4);
/// The greatest time limit of a call.
const MAX_CALL_TIME: Duration = Duration::from_secs(5);
/// The rule that explains most faulty URLs.
const ENCODING: &str = "a password needs %23, %2F, %3F and %40 for #, /, ? and @";
/// The port of Redis, with and without TLS.
const PORT: u16 = 6379;

/// The options of a connection to Redis or Valkey.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use mcp_store_redis::{Protocol, RedisOptions};
///
/// let options = RedisOptions::from_url("rediss://fleet:secret@redis.internal/2")?
///     .namespace("mcp/notes")
///     .call_time_limit(Duration::from_secs(2));
/// assert_eq!(options.to_string(), "rediss://redis.internal:6379/2");
/// // The debug text has no password.
/// assert!(!format!("{options:?}").contains("secret"));
///
/// let parts = RedisOptions::tcp("redis.internal", 6379).tls().credentials("fleet", "secret").database(2);
/// assert_eq!(parts.to_string(), options.to_string());
/// assert_eq!(parts.protocol(Protocol::Resp2).to_string(), options.to_string());
/// # Ok::<(), mcp_store::StoreError>(())
/// ```
#[derive(Clone)]
pub struct RedisOptions {
    pub(crate) address: Address,
    pub(crate) tls: bool,
    pub(crate) roots: Vec<CertificateDer<'static>>,
    pub(crate) identity: Option<Identity>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u16,
    pub(crate) protocol: Protocol,
    pub(crate) namespace: String,
    pub(crate) call_time: Duration,
}

/// The version of the protocol between the store and Redis.
///
/// ```
/// use mcp_store_redis::Protocol;
///
/// assert_eq!(Protocol::default(), Protocol::Resp3);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// RESP 2, for proxies that do not support `HELLO 3`.
    Resp2,
    /// RESP 3, the default.
    #[default]
    Resp3,
}

/// The place of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

/// The certificate chain of the client, with its key.
pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { chain: self.chain.clone(), key: self.key.clone_key() }
    }
}

impl RedisOptions {
    /// Reads a URL: `redis://[user][:password@]host[:port][/database]`, `rediss://` with TLS, or
    /// `redis+unix:///path/of/socket[?db=database]`. The parameter `protocol` is `resp2` or `resp3`.
    ///
    /// ```
    /// use mcp_store_redis::RedisOptions;
    ///
    /// let options = RedisOptions::from_url("redis://:secret@127.0.0.1:7000/1?protocol=resp2")?;
    /// assert_eq!(options.to_string(), "redis://127.0.0.1:7000/1");
    /// let error = RedisOptions::from_url("http://127.0.0.1").unwrap_err();
    /// assert_eq!(error.to_string(), "the scheme http is not redis, rediss or redis+unix");
    /// # Ok::<(), mcp_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [Invalid](StoreError::is_invalid) if the text is not such a URL. The error has no part of the password.
    pub fn from_url(url: &str) -> Result<Self, StoreError> {
        let fault = |error: ParseError| {
            let hint = if url.contains('@') { format!("; {ENCODING}") } else { String::new() };
            StoreError::invalid(format!("the address of redis is not a URL{hint}")).with_source(error)
        };
        let url = Url::parse(url).map_err(fault)?;
        let mut options = match url.scheme() {
            "redis" | "rediss" => {
                let host = match url.host() {
                    Some(Host::Domain(host)) => host.to_owned(),
                    Some(Host::Ipv4(address)) => address.to_string(),
                    Some(Host::Ipv6(address)) => address.to_string(),
                    None => return Err(StoreError::invalid("the URL of redis has no host")),
                };
                let mut options = Self::tcp(host, url.port().unwrap_or(PORT));
                options.tls = url.scheme() == "rediss";
                match url.path().trim_start_matches('/') {
                    "" => options,
                    number => options.database(database(number, "the path")?),
                }
            }
            "redis+unix" | "unix" => Self::unix(decode(url.path())?),
            other => {
                let message = format!("the scheme {other} is not redis, rediss or redis+unix");
                return Err(StoreError::invalid(message));
            }
        };
        if !url.username().is_empty() {
            options.username = Some(decode(url.username())?);
        }
        options.password = url.password().map(decode).transpose()?;
        // A password with a reserved character ends in another part of the URL, so no error shows a part.
        let fault = |text: &str| Err(StoreError::invalid(format!("{text}; {ENCODING}")));
        for (name, value) in url.query_pairs() {
            match (&*name, &*value) {
                ("db", number) => options.database = database(number, "the parameter db")?,
                ("protocol", "resp2" | "2") => options.protocol = Protocol::Resp2,
                ("protocol", "resp3" | "3") => options.protocol = Protocol::Resp3,
                ("protocol", _) => return fault("the parameter protocol of the URL of redis is not resp2 or resp3"),
                _ => return fault("a parameter of the URL of redis is not db or protocol"),
            }
        }
        if url.fragment().is_some() {
            return fault("the URL of redis has a fragment");
        }
        Ok(options)
    }

    /// Returns the options of a server at a host name or an IP address.
    ///
    /// See the [example](Self#example).
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::new(Address::Tcp(host.into(), port))
    }

    /// Returns the options of a server at a socket of this machine. Other systems than Unix have no such sockets.
    ///
    /// ```
    /// use mcp_store_redis::RedisOptions;
    ///
    /// let options = RedisOptions::unix("/run/redis/redis.sock");
    /// assert_eq!(options.to_string(), "redis+unix:///run/redis/redis.sock?db=0");
    /// ```
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::new(Address::Unix(path.into()))
    }

    /// Connects with TLS. The server has a certificate for the host name, from an authority that the system trusts or
    /// that [`root_certificates`](Self::root_certificates) adds.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Connects with TLS, and also trusts the authorities of these PEM certificates.
    ///
    /// ```
    /// use mcp_store_redis::RedisOptions;
    ///
    /// let error = RedisOptions::tcp("redis.internal", 6379).root_certificates(b"no PEM").unwrap_err();
    /// assert_eq!(error.to_string(), "the text of root certificates has no PEM certificate");
    /// ```
    ///
    /// # Errors
    /// [Invalid](StoreError::is_invalid) if the text contains no certificate, or a faulty certificate.
    pub fn root_certificates(mut self, pem: &[u8]) -> Result<Self, StoreError> {
        self.roots.extend(certificates(pem, "the text of root certificates")?);
        Ok(self.tls())
    }

    /// Connects with TLS, and presents this certificate chain with its key, both in PEM.
    ///
    /// ```
    /// use mcp_store_redis::RedisOptions;
    ///
    /// let error = RedisOptions::tcp("redis.internal", 6379).client_certificate(b"", b"").unwrap_err();
    /// assert_eq!(error.to_string(), "the client certificate has no PEM certificate");
    /// ```
    ///
    /// # Errors
    /// [Invalid](StoreError::is_invalid) if the chain or the key is not PEM.
    pub fn client_certificate(mut self, chain: &[u8], key: &[u8]) -> Result<Self, StoreError> {
        let chain = certificates(chain, "the client certificate")?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| StoreError::invalid("the key of the client is not PEM").with_source(error.to_string()))?;
        self.identity = Some(Identity { chain, key });
        Ok(self.tls())
    }

    /// Authenticates as a user of the access control list.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn credentials(mut self, username: impl Into<String>, password: impl Into<String>) -> Self {
        self.username = Some(username.into());
        self.password(password)
    }

    /// Authenticates as the default user.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Selects a database. Default: 0. Topics are common to all databases of a server, so that two fleets on one server
    /// need two [namespaces](Self::namespace).
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn database(mut self, number: u16) -> Self {
        self.database = number;
        self
    }

    /// Sets the version of the protocol. Default: RESP 3.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// Sets the namespace of all keys and topics. Default: `mcp`. It has 1 to 64 visible ASCII characters without
    /// `{}[]*?`.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets the time limit of a call, at most 5 seconds. Default: 4 seconds. A call that reaches the limit returns
    /// [unavailable](StoreError::is_unavailable), and its write may have taken effect.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn call_time_limit(mut self, limit: Duration) -> Self {
        self.call_time = limit.clamp(Duration::from_millis(10), MAX_CALL_TIME);
        self
    }

    fn new(address: Address) -> Self {
        Self {
            address,
            tls: false,
            roots: Vec::new(),
            identity: None,
            username: None,
            password: None,
            database: 0,
            protocol: Protocol::default(),
            namespace: "mcp".to_owned(),
            call_time: CALL_TIME,
        }
    }
}

impl fmt::Display for RedisOptions {
    /// Writes the URL without credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        match &self.address {
            Address::Tcp(host, port) if host.contains(':') => write!(f, "{scheme}://[{host}]:{port}/{}", self.database),
            Address::Tcp(host, port) => write!(f, "{scheme}://{host}:{port}/{}", self.database),
            Address::Unix(path) => write!(f, "{scheme}+unix://{}?db={}", path.display(), self.database),
        }
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("address", &format_args!("{self}"))
            .field("username", &self.username)
            .field("has_password", &self.password.is_some())
            .field("protocol", &self.protocol)
            .field("namespace", &self.namespace)
            .field("call_time", &self.call_time)
            .finish_non_exhaustive()
    }
}

fn certificates(pem: &[u8], name: &str) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found =
        found.map_err(|error| StoreError::invalid(format!("{name} is not PEM")).with_source(error.to_string()))?;
    if found.is_empty() {
        return Err(StoreError::invalid(format!("{name} has no PEM certificate")));
    }
    Ok(found)
}

fn decode(text: &str) -> Result<String, StoreError> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(Into::into).map_err(|_| StoreError::invalid("a part of the URL of redis is not UTF-8"))
}

fn database(number: &str, part: &str) -> Result<u16, StoreError> {
    let fault = |_| {
        let text = format!("{part} of the URL of redis is not a database, a number from 0 to 65535; {ENCODING}");
        StoreError::invalid(text)
    };
    number.parse().map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_the_parts_of_the_options() {
        let options = RedisOptions::from_url("rediss://us%40er:p%2Fw@[::1]:7/3?protocol=resp2").unwrap();
        assert_eq!(options.address, Address::Tcp("::1".to_owned(), 7));
        assert_eq!((options.username.as_deref(), options.password.as_deref()), (Some("us@er"), Some("p/w")));
        assert_eq!((options.tls, options.database, options.protocol), (true, 3, Protocol::Resp2));
        assert_eq!(options.to_string(), "rediss://[::1]:7/3");

        let options = RedisOptions::from_url("redis+unix:///run/redis.sock?db=4").unwrap();
        assert_eq!((options.address, options.database), (Address::Unix("/run/redis.sock".into()), 4));
        let options = RedisOptions::from_url("redis://:only@localhost").unwrap();
        assert_eq!((options.username, options.password.as_deref()), (None, Some("only")));
    }

    #[test]
    fn a_faulty_url_is_rejected_without_its_password() {
        for (url, text) in [
            ("redis", "not a URL"),
            ("http://localhost", "the scheme http"),
            ("redis://:secret@localhost/x", "the path of the URL of redis is not a database"),
            ("redis://:secret@localhost/?db=x", "the parameter db of the URL of redis is not a database"),
            ("redis://:secret@localhost/?protocol=4", "the parameter protocol of the URL of redis is not resp2"),
            ("redis://:secret@localhost/?tls=1", "a parameter of the URL of redis is not db or protocol"),
            ("redis://:secret@/1", "not a URL"),
            // A part of these passwords is a path, a parameter or a fragment.
            ("redis://user:1234/secret@host/2", "a password needs"),
            ("redis://u:1?tok=secret@host", "a password needs"),
            ("redis://u:1?secret@host", "a password needs"),
            ("redis://u:1?db=secret@host", "a password needs"),
            ("redis://u:1?protocol=secret@host", "a password needs"),
            ("redis://u:1#secret@host", "a password needs"),
            ("redis://u:secret#x@host", "a password needs"),
            ("redis://:secret#x@host", "a password needs"),
            ("redis://u:secret/x@host", "not a URL"),
        ] {
            let error = RedisOptions::from_url(url).unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains(text), "{url}: {error}");
            assert!(!format!("{error:?}").contains("secret"), "{url}: {error:?}");
        }
    }

    #[test]
    fn a_time_limit_is_at_most_five_seconds() {
        let limit = |limit| RedisOptions::tcp("localhost", 1).call_time_limit(limit).call_time;
        assert_eq!(limit(Duration::MAX), Duration::from_secs(5));
        assert_eq!(limit(Duration::from_secs(1)), Duration::from_secs(1));
    }
}
