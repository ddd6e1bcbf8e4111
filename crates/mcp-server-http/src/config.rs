//! The configuration of an endpoint. Every default is the safe choice. Settings that remove a protection begin with
//! `dangerous_`.

mod auth;
mod check;
mod path;
mod public_url;
mod status;

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use mcp_protocol::ProtectedResourceMetadata;

use self::path::absolute;
pub(crate) use self::{
    auth::{AttemptLimit, SharedAuthenticator},
    public_url::PublicUrl,
    status::StatusRoute,
};
use crate::request::guard;

/// Configuration of the HTTP endpoint.
///
/// Four settings belong to our listener: [`write_timeout`](Self::write_timeout),
/// [`max_connections`](Self::max_connections), [`ignore_signals`](Self::ignore_signals) and
/// [`on_listening`](Self::on_listening). They have no effect on a router or a service that another server mounts.
/// [`shutdown_deadline`](Self::shutdown_deadline) holds for both.
///
/// Each setting with a path needs a path of its own, except that the two paths of [`sse`](Self::sse) may be equal. Two
/// settings with one path are an error of the endpoint: see [`check`](Self::check).
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use mcp_server_http::HttpConfig;
///
/// let config = HttpConfig::new()
///     .path("/tools")
///     .health("/health")
///     .allowed_hosts(["mcp.example.com"])
///     .allowed_origins(["https://app.example.com"])
///     .body_limit(1 << 20)
///     .body_timeout(Duration::from_secs(10))
///     .write_timeout(Duration::from_secs(20))
///     .session_idle_timeout(Duration::from_secs(600))
///     .max_sessions(100)
///     .max_sessions_per_principal(10)
///     .max_event_bytes(16 << 20)
///     .max_connections(1_000)
///     .keep_alive(Duration::from_secs(10))
///     .retry_delay(Duration::from_secs(2))
///     .shutdown_deadline(Duration::from_secs(30))
///     .ignore_signals();
/// # let _ = config;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpConfig {
    pub(crate) path: String,
    pub(crate) sse: Option<SsePaths>,
    pub(crate) health: Option<String>,
    pub(crate) readiness: Option<String>,
    pub(crate) status: Option<StatusRoute>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) any_host: bool,
    pub(crate) any_origin: bool,
    pub(crate) lenient_accept: bool,
    pub(crate) body_limit: usize,
    pub(crate) header_limit: usize,
    pub(crate) credential_header_limit: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) session_idle_timeout: Duration,
    pub(crate) session_opening: Duration,
    pub(crate) has_sessions: bool,
    pub(crate) sessions: usize,
    pub(crate) sessions_per_principal: usize,
    pub(crate) event_bytes: usize,
    pub(crate) keep_alive: Duration,
    pub(crate) retry_delay: Duration,
    pub(crate) connections: usize,
    pub(crate) shutdown_deadline: Duration,
    pub(crate) has_signals: bool,
    pub(crate) on_listening: OnListening,
    /// Whether the handshake of our listener asks clients for certificates.
    pub(crate) has_client_certificates: bool,
    pub(crate) authenticator: Option<SharedAuthenticator>,
    pub(crate) public_url: Option<PublicUrl>,
    pub(crate) allows_anonymous: bool,
    pub(crate) protected_resource: Option<ProtectedResourceMetadata>,
    pub(crate) has_root_metadata: bool,
    pub(crate) failed_authentications: Option<AttemptLimit>,
    /// The error of the first invalid setting.
    fault: Option<String>,
}

/// The paths of HTTP+SSE.
#[derive(Debug, Clone)]
pub(crate) struct SsePaths {
    pub(crate) stream: String,
    pub(crate) messages: String,
}

impl SsePaths {
    pub(crate) fn has(&self, path: &str) -> bool {
        path == self.stream || path == self.messages
    }

    /// Returns the value of `Allow` for one of the paths.
    pub(crate) fn methods(&self, path: &str) -> &'static str {
        match (path == self.stream, path == self.messages) {
            (true, true) => "GET, POST, OPTIONS",
            (true, false) => "GET, OPTIONS",
            _ => "POST, OPTIONS",
        }
    }
}

/// The callback that receives the address of the listener.
#[derive(Clone, Default)]
pub(crate) struct OnListening(Option<Arc<dyn Fn(SocketAddr) + Send + Sync>>);

impl OnListening {
    pub(crate) fn call(&self, address: SocketAddr) {
        if let Some(callback) = &self.0 {
            callback(address);
        }
    }
}

impl fmt::Debug for OnListening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "OnListening(..)" } else { "OnListening" })
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            path: "/mcp".into(),
            sse: None,
            health: None,
            readiness: None,
            status: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            any_host: false,
            any_origin: false,
            lenient_accept: false,
            body_limit: 4 << 20,
            header_limit: 8 << 10,
            credential_header_limit: 16 << 10,
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            session_idle_timeout: Duration::from_secs(30 * 60),
            session_opening: Duration::from_secs(30),
            has_sessions: true,
            sessions: 10_000,
            sessions_per_principal: 1_000,
            event_bytes: 256 << 20,
            keep_alive: Duration::from_secs(15),
            retry_delay: Duration::from_secs(1),
            connections: 20_000,
            shutdown_deadline: Duration::from_secs(10),
            has_signals: true,
            on_listening: OnListening::default(),
            has_client_certificates: false,
            authenticator: None,
            public_url: None,
            allows_anonymous: false,
            protected_resource: None,
            has_root_metadata: true,
            failed_authentications: None,
            fault: None,
        }
    }
}

impl HttpConfig {
    /// Returns the defaults: the path `/mcp`, and loopback hosts and origins only.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the path of the endpoint. `/mcp` by default.
    ///
    /// See the [example](Self#example).
    ///
    /// It is an error ([`check`](Self::check)) if the path contains a character that the path of a URL cannot contain, for example
    /// `?` or a space. Also a segment `.` or `..`, and a segment that begins with `:` or `*`.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        match absolute("path", path.into()) {
            Ok(path) => self.path = path,
            Err(fault) => return self.invalid(fault),
        }
        self
    }

    /// Also serves HTTP+SSE, the transport of 2024-11-05, at two paths. Off by default.
    ///
    /// A client opens its stream with GET at the path `stream` (usually `/sse`) and sends messages with POST to the path
    /// `messages` (usually `/messages`). Handlers see the head of the request that opened the stream. A stream counts as a
    /// session. It lives until the client or the server closes it, and an open stream is never idle. A client that sends
    /// no message for 30 seconds after the opening loses the stream.
    ///
    /// ```
    /// # use mcp_server_http::HttpConfig;
    /// let config = HttpConfig::new().sse("/sse", "/messages");
    /// # let _ = config;
    /// ```
    ///
    /// The rules for both paths are those of [`path`](Self::path).
    #[must_use]
    pub fn sse(mut self, stream: impl Into<String>, messages: impl Into<String>) -> Self {
        match (absolute("sse", stream.into()), absolute("sse", messages.into())) {
            (Ok(stream), Ok(messages)) => self.sse = Some(SsePaths { stream, messages }),
            (Err(fault), _) | (_, Err(fault)) => return self.invalid(fault),
        }
        self
    }

    /// Answers GET and HEAD at this path with 200 while the server serves, and with 503 after a shutdown began. Off by
    /// default.
    ///
    /// The server checks `Host` and `Origin` of these requests too. Allow the host that the monitoring uses
    /// ([`allowed_hosts`](Self::allowed_hosts)).
    ///
    /// See the [example](Self#example).
    ///
    /// The rules for the path are those of [`path`](Self::path).
    #[must_use]
    pub fn health(mut self, path: impl Into<String>) -> Self {
        match absolute("health", path.into()) {
            Ok(path) => self.health = Some(path),
            Err(fault) => return self.invalid(fault),
        }
        self
    }

    /// Answers GET and HEAD at this path like [`health`](Self::health), and with 503 also while the shared store fails
    /// (`ServerBuilder::store`). Off by default.
    ///
    /// A balancer that checks this path sends no requests to a node that cannot reach the store. If the store itself fails, it sends no
    /// requests to any node, although stateless calls need no store.
    ///
    /// ```
    /// # use mcp_server_http::HttpConfig;
    /// let config = HttpConfig::new().health("/livez").readiness("/readyz");
    /// # let _ = config;
    /// ```
    ///
    /// The rules for the path are those of [`path`](Self::path).
    #[must_use]
    pub fn readiness(mut self, path: impl Into<String>) -> Self {
        match absolute("readiness", path.into()) {
            Ok(path) => self.readiness = Some(path),
            Err(fault) => return self.invalid(fault),
        }
        self
    }

    /// Returns each path beside the path of the endpoint once.
    pub(crate) fn other_paths(&self) -> impl Iterator<Item = &str> {
        let sse = self.sse.iter().flat_map(|paths| {
            let messages = Some(&*paths.messages).filter(|messages| *messages != paths.stream);
            [Some(&*paths.stream), messages]
        });
        let status = self.status.as_ref().map(|status| &*status.path);
        sse.flatten().chain(self.health.as_deref()).chain(self.readiness.as_deref()).chain(status)
    }

    /// Adds hosts under which clients may reach the server, beside the loopback hosts.
    ///
    /// `example.com` allows the host on any port, `example.com:8443` on one port. The server rejects a request with another
    /// `Host`, which prevents DNS rebinding.
    ///
    /// See the [example](Self#example).
    ///
    /// A text that is not a host is an error: see [`check`](Self::check). For example, `https://example.com` is an origin.
    #[must_use]
    pub fn allowed_hosts<T: Into<String>>(mut self, hosts: impl IntoIterator<Item = T>) -> Self {
        for host in hosts.into_iter().map(Into::into) {
            if !guard::is_host(&host) {
                return self.invalid_value(&host, "is not a host: write `example.com` or `example.com:8443`");
            }
            self.allowed_hosts.push(host);
        }
        self
    }

    /// Adds web origins that may call the server, beside the loopback origins and the origin of the server.
    ///
    /// An entry is `https://app.example.com` (port 443, as browsers mean it), `https://app.example.com:8443`,
    /// `https://app.example.com:*` for any port, or `null`. The server rejects a request with another `Origin`, so that no
    /// other web page can use the access of its visitor.
    ///
    /// See the [example](Self#example).
    ///
    /// A text that is not an origin is an error: see [`check`](Self::check).
    #[must_use]
    pub fn allowed_origins<T: Into<String>>(mut self, origins: impl IntoIterator<Item = T>) -> Self {
        for origin in origins.into_iter().map(Into::into) {
            if !guard::is_origin(&origin) {
                return self.invalid_value(&origin, "is not an origin: write `https://app.example.com` or `null`");
            }
            self.allowed_origins.push(origin);
        }
        self
    }

    /// Accepts every `Host`.
    ///
    /// Use this only behind a proxy that checks the host. Without the check, a web page can reach a local server by DNS
    /// rebinding.
    ///
    /// ```
    /// use mcp_server_http::HttpConfig;
    ///
    /// // A proxy in front of the server checks `Host` and `Origin`.
    /// let config = HttpConfig::new().dangerous_allow_any_host().dangerous_allow_any_origin();
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn dangerous_allow_any_host(mut self) -> Self {
        self.any_host = true;
        self
    }

    /// Accepts every `Origin`. Any web page can then call the server with the access of its visitor.
    ///
    /// ```
    /// let config = mcp_server_http::HttpConfig::new().dangerous_allow_any_origin();
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn dangerous_allow_any_origin(mut self) -> Self {
        self.any_origin = true;
        self
    }

    /// Serves a client whose `Accept` lists only `application/json` or only `text/event-stream`. The client receives the
    /// type that it accepts. By default the server rejects such a request with 406.
    ///
    /// ```
    /// let config = mcp_server_http::HttpConfig::new().lenient_accept();
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn lenient_accept(mut self) -> Self {
        self.lenient_accept = true;
        self
    }

    /// Sets the size limit of a request body in bytes. 4 MiB by default. The server answers a larger body with 413.
    ///
    /// The server answers a header value above 8 KiB with 431. The limit of `Authorization`, and of each other header with
    /// credentials, is 16 KiB.
    ///
    /// Our listener then discards the rest of the body for a bounded time. A client that sends the whole body before it
    /// reads can so receive the answer.
    ///
    /// See the [example](Self#example).
    ///
    /// Zero is an error: see [`check`](Self::check).
    #[must_use]
    pub fn body_limit(self, bytes: usize) -> Self {
        self.set_if(bytes > 0, "`body_limit` is zero: no request could be read", |config| config.body_limit = bytes)
    }

    /// Sets the total timeout for the arrival of a request body. 30 seconds by default.
    ///
    /// See the [example](Self#example).
    ///
    /// Zero is an error: see [`check`](Self::check).
    #[must_use]
    pub fn body_timeout(self, limit: Duration) -> Self {
        self.set_if(!limit.is_zero(), "`body_timeout` is zero: no body could arrive", |config| {
            config.body_timeout = limit
        })
    }

    /// Sets how long a client of our listener may leave an answer unread. 30 seconds by default.
    ///
    /// Any progress of the client restarts this time. See [`listener::Serve::write_timeout`] for the details of HTTP/1.1
    /// and HTTP/2, and for the reading rate that counts as progress.
    ///
    /// [`listener::Serve::write_timeout`]: crate::listener::Serve::write_timeout
    ///
    /// See the [example](Self#example).
    ///
    /// Zero is an error: see [`check`](Self::check).
    #[must_use]
    pub fn write_timeout(self, limit: Duration) -> Self {
        self.set_if(!limit.is_zero(), "`write_timeout` is zero: no answer could be written", |config| {
            config.write_timeout = limit
        })
    }

    /// Sets the idle timeout of a session. 30 minutes by default. A session with an open request or stream is not idle.
    ///
    /// See the [example](Self#example).
    ///
    /// Zero is an error: see [`check`](Self::check).
    #[must_use]
    pub fn session_idle_timeout(self, limit: Duration) -> Self {
        self.set_if(!limit.is_zero(), "`session_idle_timeout` is zero: no session could last", |config| {
            config.session_idle_timeout = limit
        })
    }

    /// Serves clients of the session era without sessions. By default these clients have sessions.
    ///
    /// In sessionless mode each POST is independent. The server sends no session id and answers GET and DELETE with 405.
    /// It does not offer the features that need a session: list changes, input requests, resumed streams and log levels.
    /// Together with [`lenient_accept`](Self::lenient_accept) this is plain JSON-RPC over POST.
    ///
    /// ```
    /// # use mcp_server_http::HttpConfig;
    /// let config = HttpConfig::new().sessionless().lenient_accept();
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn sessionless(mut self) -> Self {
        self.has_sessions = false;
        self
    }

    /// Sets how many sessions may be open. 10,000 by default. The server answers a further `initialize` with 503.
    ///
    /// See the [example](Self#example).
    ///
    /// Zero is an error: see [`check`](Self::check).
    #[must_use]
    pub fn max_sessions(self, count: usize) -> Self {
        self.set_if(
            count > 0,
            "`max_sessions` is zero: write `sessionless()` for a server without sessions",
            |config| config.sessions = count,
        )
    }

    /// Sets how many sessions one principal may have open. 1,000 by default. The server answers a further `initialize` with
    /// 503. Anonymous callers together have the limit of [`max_sessions`](Self::max_sessions), or half of it with
    /// [`allow_anonymous`](Self::allow_anonymous).
    ///
    /// Streams of [`sse`](Self::sse) count, and so do anonymous sessions that the principal took over. At the limit, the
    /// principal receives 503 for a request of another anonymous session.
    ///
    /// See the [example](Self#example).
    ///
    /// Zero is an error: see [`check`](Self::check).
    #[must_use]
    pub fn max_sessions_per_principal(self, count: usize) -> Self {
        self.set_if(count > 0, "`max_sessions_per_principal` is zero: no principal could open a session", |config| {
            config.sessions_per_principal = count
        })
    }

    /// Sets how many bytes the event logs of all sessions may hold together. 256 MiB by default. The log of one session
    /// holds 1 MiB or one message.
    ///
    /// Above the limit the server evicts events of the least active sessions first. The order is: delivered events, then
    /// events without a reader. An event that a connected client is about to read stays.
    ///
    /// See the [example](Self#example).
    ///
    /// Zero is an error: see [`check`](Self::check).
    #[must_use]
    pub fn max_event_bytes(self, bytes: usize) -> Self {
        self.set_if(bytes > 0, "`max_event_bytes` is zero: no stream could be resumed", |config| {
            config.event_bytes = bytes
        })
    }

    /// Sets the interval of keep-alive comments on a quiet stream, so that proxies do not close it. 15 seconds by default.
    /// The server uses at least 100 milliseconds and at most one day.
    ///
    /// See the [example](Self#example).
    ///
    /// Zero is an error: see [`check`](Self::check).
    #[must_use]
    pub fn keep_alive(self, interval: Duration) -> Self {
        self.set_if(!interval.is_zero(), "`keep_alive` is zero: the server would write without a pause", |config| {
            config.keep_alive = interval.clamp(Duration::from_millis(100), Duration::from_secs(24 * 3600))
        })
    }

    /// Sets how long a client of 2025-11-25 waits before it reopens a stream that ended. 1 second by default.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.retry_delay = delay;
        self
    }

    /// Sets how many connections our listener keeps open. 20,000 by default. Further connections wait.
    ///
    /// See the [example](Self#example).
    ///
    /// Zero is an error: see [`check`](Self::check).
    #[must_use]
    pub fn max_connections(self, count: usize) -> Self {
        self.set_if(count > 0, "`max_connections` is zero: no client could connect", |config| {
            config.connections = count
        })
    }

    /// Sets the grace period of a shutdown: how long calls may still run. 10 seconds by default.
    ///
    /// After the grace period the server answers each call that still runs with an error. Zero ends the calls at once. Running tasks
    /// have the longest of these periods of all endpoints and of `Limits::drain`, and fail after it.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn shutdown_deadline(mut self, limit: Duration) -> Self {
        self.shutdown_deadline = limit;
        self
    }

    /// Leaves SIGTERM, SIGINT and Ctrl-C to the application. By default our listener shuts the server down when the
    /// process receives one of these signals.
    ///
    /// Use this in an application that has more to end than this server. The application then calls
    /// [`Server::shutdown`](mcp_server_core::Server::shutdown).
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn ignore_signals(mut self) -> Self {
        self.has_signals = false;
        self
    }

    /// Sets a callback that receives the address when our listener is ready. An application can print the address, or
    /// learn the port of `127.0.0.1:0`.
    ///
    /// ```
    /// # use mcp_server_http::HttpConfig;
    /// let config = HttpConfig::new().on_listening(|address| println!("http://{address}/mcp"));
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn on_listening(mut self, callback: impl Fn(SocketAddr) + Send + Sync + 'static) -> Self {
        self.on_listening = OnListening(Some(Arc::new(callback)));
        self
    }
}
