//! How a server behaves on the network. Every default is the safe one; what loosens it has a name that can be searched.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use crate::request::guard;

/// Configuration of the HTTP endpoint.
///
/// Four settings are the listener's, and hold for `serve_http…` only: [`write_timeout`](Self::write_timeout),
/// [`max_connections`](Self::max_connections), [`shutdown_deadline`](Self::shutdown_deadline) for requests that are
/// waited for, and the 30 seconds that the head of a request may take. Whoever serves a router or a service sets what is like them there.
///
/// Each path has to be another one, but for the two of [`sse`](Self::sse): what is made with a configuration that claims
/// one twice panics.
///
/// ```
/// use mcp_server_http::HttpConfig;
///
/// let config = HttpConfig::new()
///     .path("/mcp")
///     .allowed_hosts(["mcp.example.com"])
///     .allowed_origins(["https://app.example.com"]);
/// # let _ = config;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpConfig {
    pub(crate) path: String,
    pub(crate) sse: Option<SsePaths>,
    pub(crate) health: Option<String>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) any_host: bool,
    pub(crate) any_origin: bool,
    pub(crate) lenient_accept: bool,
    pub(crate) body_limit: usize,
    pub(crate) header_limit: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) session_idle: Duration,
    pub(crate) session_opening: Duration,
    pub(crate) has_sessions: bool,
    pub(crate) sessions: usize,
    pub(crate) event_bytes: usize,
    pub(crate) keep_alive: Duration,
    pub(crate) retry: Duration,
    pub(crate) connections: usize,
    pub(crate) shutdown_deadline: Duration,
    pub(crate) signals: bool,
    pub(crate) on_listening: OnListening,
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

    pub(crate) fn methods(&self, path: &str) -> &'static str {
        match (path == self.stream, path == self.messages) {
            (true, true) => "GET, POST, OPTIONS",
            (true, false) => "GET, OPTIONS",
            _ => "POST, OPTIONS",
        }
    }
}

/// Told where the server listens.
#[derive(Clone, Default)]
pub(crate) struct OnListening(Option<Arc<dyn Fn(SocketAddr) + Send + Sync>>);

impl OnListening {
    pub(crate) fn call(&self, address: SocketAddr) {
        if let Some(told) = &self.0 {
            told(address);
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
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            any_host: false,
            any_origin: false,
            lenient_accept: false,
            body_limit: 4 << 20,
            header_limit: 8 << 10,
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            session_idle: Duration::from_secs(30 * 60),
            session_opening: Duration::from_secs(30),
            has_sessions: true,
            sessions: 10_000,
            event_bytes: 256 << 20,
            keep_alive: Duration::from_secs(15),
            retry: Duration::from_secs(1),
            connections: 20_000,
            shutdown_deadline: Duration::from_secs(10),
            signals: true,
            on_listening: OnListening::default(),
        }
    }
}

impl HttpConfig {
    /// The defaults: path `/mcp`, loopback hosts and origins only.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The path of the endpoint. `/mcp` by default.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = absolute(path.into());
        self
    }

    /// Serves HTTP+SSE as well, the transport of 2024-11-05, for clients that know no other: `stream` is where they open
    /// their stream (`/sse` by custom), `messages` where they POST to (`/messages`). Off by default. Handlers see the head
    /// of the request that opened the stream. A stream is a session: it counts as one, has to be used within the time that
    /// a session has for it, and lives until either side closes it; an open stream is never idle.
    #[must_use]
    pub fn sse(mut self, stream: impl Into<String>, messages: impl Into<String>) -> Self {
        self.sse = Some(SsePaths { stream: absolute(stream.into()), messages: absolute(messages.into()) });
        self
    }

    /// Answers GET and HEAD at this path with 200 while the server serves and 503 once it shuts down, for what watches
    /// over it. Off by default. `Host` and `Origin` are checked as everywhere: name the host that the watcher uses.
    #[must_use]
    pub fn health(mut self, path: impl Into<String>) -> Self {
        self.health = Some(absolute(path.into()));
        self
    }

    /// The paths beside that of the endpoint, each once.
    pub(crate) fn other_paths(&self) -> impl Iterator<Item = &str> {
        let sse = self.sse.iter().flat_map(|paths| {
            let messages = Some(&*paths.messages).filter(|messages| *messages != paths.stream);
            [Some(&*paths.stream), messages]
        });
        sse.flatten().chain(self.health.as_deref())
    }

    /// Checks that no two settings claim one path; the two of HTTP+SSE may share theirs.
    #[track_caller]
    pub(crate) fn check_paths(&self) {
        let mut paths = vec![("path", &*self.path)];
        paths.extend(self.sse.iter().flat_map(|paths| [("sse", &*paths.stream), ("sse", &*paths.messages)]));
        paths.extend(self.health.iter().map(|path| ("health", &**path)));
        for (at, (name, path)) in paths.iter().enumerate() {
            let taken = paths[..at].iter().find(|(other, taken)| other != name && taken == path);
            if let Some((other, _)) = taken {
                panic!("`{other}` and `{name}` are both `{path}`: one of them could not be reached");
            }
        }
    }

    /// Names under which the server may be reached, beside the loopback ones: `example.com` on any port, or
    /// `example.com:8443`. A request whose `Host` is none of them is refused, which stops DNS rebinding.
    ///
    /// # Panics
    /// When a text is not a host: `https://example.com` is an origin.
    #[must_use]
    #[track_caller]
    pub fn allowed_hosts<T: Into<String>>(mut self, hosts: impl IntoIterator<Item = T>) -> Self {
        for host in hosts.into_iter().map(Into::into) {
            assert!(guard::is_host(&host), "`{host}` is not a host: write `example.com` or `example.com:8443`");
            self.allowed_hosts.push(host);
        }
        self
    }

    /// Web origins that may call the server, beside the loopback ones and its own: `https://app.example.com` (on port 443,
    /// as browsers mean it), `https://app.example.com:8443`, `https://app.example.com:*` for any port, or `null`. Others
    /// are refused, which stops web pages from using a visitor's access.
    ///
    /// # Panics
    /// When a text is not an origin.
    #[must_use]
    #[track_caller]
    pub fn allowed_origins<T: Into<String>>(mut self, origins: impl IntoIterator<Item = T>) -> Self {
        for origin in origins.into_iter().map(Into::into) {
            assert!(
                guard::is_origin(&origin),
                "`{origin}` is not an origin: write `https://app.example.com` or `null`"
            );
            self.allowed_origins.push(origin);
        }
        self
    }

    /// Accepts every `Host`. Only behind something that checks it: without this check a web page can reach a local server
    /// by DNS rebinding.
    #[must_use]
    pub fn dangerous_allow_any_host(mut self) -> Self {
        self.any_host = true;
        self
    }

    /// Accepts every `Origin`. Any web page that a user visits can then call the server in the user's name.
    #[must_use]
    pub fn dangerous_allow_any_origin(mut self) -> Self {
        self.any_origin = true;
        self
    }

    /// Serves clients whose `Accept` does not list both `application/json` and `text/event-stream`, with what they accept.
    #[must_use]
    pub fn lenient_accept(mut self) -> Self {
        self.lenient_accept = true;
        self
    }

    /// The largest body in bytes. 4 MiB by default. What is larger is answered 413; our own listener reads what still
    /// comes of it for a while and throws it away, so that clients that send first and read then see that answer.
    ///
    /// # Panics
    /// When it is zero.
    #[must_use]
    #[track_caller]
    pub fn body_limit(mut self, bytes: usize) -> Self {
        assert!(bytes > 0, "`body_limit` is zero: no request could be read");
        self.body_limit = bytes;
        self
    }

    /// How long a body may take to arrive. 30 seconds by default.
    ///
    /// # Panics
    /// When it is zero.
    #[must_use]
    #[track_caller]
    pub fn body_timeout(mut self, limit: Duration) -> Self {
        assert!(!limit.is_zero(), "`body_timeout` is zero: no body could arrive");
        self.body_timeout = limit;
        self
    }

    /// How long a client of `serve_http…` may leave its answer unread before the connection is closed: the call behind it
    /// is held up meanwhile. Any byte taken starts the time anew. 30 seconds by default. Over HTTP/2 the stream of an answer
    /// left unread is reset, and what else is open goes on. (The rest of an answer of less than 16 KiB cannot be reset: left
    /// unread for as long again, it ends the connection, and what else is open on it has as long to end.)
    ///
    /// # Panics
    /// When it is zero.
    #[must_use]
    #[track_caller]
    pub fn write_timeout(mut self, limit: Duration) -> Self {
        assert!(!limit.is_zero(), "`write_timeout` is zero: no answer could be written");
        self.write_timeout = limit;
        self
    }

    /// How long a session may be silent before it ends. 30 minutes by default.
    ///
    /// # Panics
    /// When it is zero.
    #[must_use]
    #[track_caller]
    pub fn session_idle(mut self, limit: Duration) -> Self {
        assert!(!limit.is_zero(), "`session_idle` is zero: no session could last");
        self.session_idle = limit;
        self
    }

    /// Whether clients of the older revisions get sessions; they do by default. Without sessions each of their requests
    /// stands alone: no session id, GET and DELETE are answered 405, and nothing that needs a session is promised or done
    /// (change notices, questions to the client, resumed streams, log levels). Together with
    /// [`HttpConfig::lenient_accept`] this is plain JSON-RPC over POST.
    #[must_use]
    pub fn sessions(mut self, kept: bool) -> Self {
        self.has_sessions = kept;
        self
    }

    /// How many sessions there may be. 10,000 by default; further ones are answered 503.
    ///
    /// # Panics
    /// When it is zero.
    #[must_use]
    #[track_caller]
    pub fn max_sessions(mut self, count: usize) -> Self {
        assert!(count > 0, "`max_sessions` is zero: write `sessions(false)` for a server without sessions");
        self.sessions = count;
        self
    }

    /// How many bytes of events the sessions may hold together, for clients that come back for them. 256 MiB by default;
    /// one session holds 1 MiB or one message. Beyond it what was read goes first, then what nobody reads, of the sessions
    /// first that were silent longest; what a connected client is about to read stays.
    ///
    /// # Panics
    /// When it is zero.
    #[must_use]
    #[track_caller]
    pub fn max_event_bytes(mut self, bytes: usize) -> Self {
        assert!(bytes > 0, "`max_event_bytes` is zero: no stream could be resumed");
        self.event_bytes = bytes;
        self
    }

    /// How often a silent stream is given a comment, so that what stands between does not close it. 15 seconds by default.
    ///
    /// # Panics
    /// When it is zero.
    #[must_use]
    #[track_caller]
    pub fn keep_alive(mut self, interval: Duration) -> Self {
        assert!(!interval.is_zero(), "`keep_alive` is zero: it would write without end");
        self.keep_alive = interval.clamp(Duration::from_millis(100), Duration::from_secs(24 * 3600));
        self
    }

    /// How long clients of 2025-11-25 are told to wait before they open a stream again that ended. 1 second by default.
    #[must_use]
    pub fn retry(mut self, delay: Duration) -> Self {
        self.retry = delay;
        self
    }

    /// How many connections `serve_http…` accepts at once; further ones wait. 20,000 by default.
    ///
    /// # Panics
    /// When it is zero.
    #[must_use]
    #[track_caller]
    pub fn max_connections(mut self, count: usize) -> Self {
        assert!(count > 0, "`max_connections` is zero: nobody could connect");
        self.connections = count;
        self
    }

    /// How long open requests of `serve_http…` may take to end after a shutdown began, and calls of sessions whose
    /// connection is not waited for, wherever they are served. 10 seconds by default, and zero cuts them off at once.
    #[must_use]
    pub fn shutdown_deadline(mut self, limit: Duration) -> Self {
        self.shutdown_deadline = limit;
        self
    }

    /// Whether `serve_http…` ends when the process is asked to (SIGTERM, SIGINT, Ctrl-C); it does by default, and these
    /// signals do not end the process by themselves from then on. `false` leaves them to an application that has more to
    /// end than this server, and calls [`Server::shutdown`](mcp_server_core::Server::shutdown) itself.
    #[must_use]
    pub fn signals(mut self, heeded: bool) -> Self {
        self.signals = heeded;
        self
    }

    /// What to do once `serve_http…` listens, with the address that it listens on: to print it, or to learn the port where
    /// any free one was asked for (`127.0.0.1:0`).
    #[must_use]
    pub fn on_listening(mut self, told: impl Fn(SocketAddr) + Send + Sync + 'static) -> Self {
        self.on_listening = OnListening(Some(Arc::new(told)));
        self
    }
}

fn absolute(path: String) -> String {
    if path.starts_with('/') { path } else { format!("/{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_let_nothing_through_are_refused_by_name() {
        type Set = fn(HttpConfig) -> HttpConfig;
        let cases: &[(&str, Set)] = &[
            ("body_limit", |config| config.body_limit(0)),
            ("body_timeout", |config| config.body_timeout(Duration::ZERO)),
            ("write_timeout", |config| config.write_timeout(Duration::ZERO)),
            ("session_idle", |config| config.session_idle(Duration::ZERO)),
            ("max_sessions", |config| config.max_sessions(0)),
            ("max_event_bytes", |config| config.max_event_bytes(0)),
            ("keep_alive", |config| config.keep_alive(Duration::ZERO)),
            ("max_connections", |config| config.max_connections(0)),
        ];
        for (name, set) in cases {
            let panic = std::panic::catch_unwind(|| set(HttpConfig::new())).unwrap_err();
            let text = panic.downcast_ref::<&str>().unwrap();
            assert!(text.starts_with(&format!("`{name}` is zero: ")), "{text}");
        }
    }
}
