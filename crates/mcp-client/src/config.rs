//! The settings of a client, which do not change after it is built.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{
    ClientCapabilities, Implementation, JsonObject, LoggingLevel, ProtocolVersion, tasks::ext::IDENTIFIER,
};

use crate::{slow_start::SlowStartReport, trace::Bridge};

/// The limits of a client: durations and counts. [`ClientBuilder::limits`](crate::ClientBuilder::limits) changes them.
///
/// ```
/// use std::time::Duration;
///
/// let builder = mcp_client::Client::builder("my-app", "1.0").limits(|limits| {
///     limits.pages = 100;
///     limits.close = Duration::from_secs(1);
/// });
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Requests that wait for answers at the same time. Further requests wait for capacity, within their own timeouts.
    /// Default: 1,024.
    pub pending: usize,
    /// Requests of the server that are answered at the same time. Further ones are rejected. Default: 64.
    pub server_requests: usize,
    /// How long a handler may take to answer a request of the server. Default: 10 minutes.
    pub server_request_timeout: Duration,
    /// How long timeouts pause while the authorizer waits for the user, such as for a login. Default: 10 minutes.
    pub login_pause: Duration,
    /// How often a server may request input during one call. Default: 16.
    pub rounds: usize,
    /// Pages of one list. Default: 1,000.
    pub pages: usize,
    /// Bytes of all pages of an awaited list. Default: 64 MiB.
    pub list_bytes: usize,
    /// Notifications that wait for one reader. The oldest are dropped beyond this number. Default: 1,024.
    pub notifications: usize,
    /// Bytes of the notifications that wait for one reader. The newest one is always kept. Default: 16 MiB.
    pub notification_bytes: usize,
    /// The deepest nesting of a message. Default: 128.
    pub json_depth: usize,
    /// How long each step of closing may take: cancelling tasks, cancelling calls, closing the transport. A child
    /// process has its own time if that is longer. Default: 5 seconds.
    pub close: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pending: 1024,
            server_requests: 64,
            server_request_timeout: Duration::from_secs(600),
            login_pause: Duration::from_secs(600),
            rounds: 16,
            pages: 1000,
            list_bytes: 64 << 20,
            notifications: 1024,
            notification_bytes: 16 << 20,
            json_depth: 128,
            close: Duration::from_secs(5),
        }
    }
}

/// How the client reopens a lost connection.
///
/// If the lost connection lasted for a while, the client makes the first attempt at once. Each later attempt waits
/// twice as long as the one before, with a random variation of a quarter. A waiting call causes one more attempt, at
/// least a second after the last one. When all attempts have failed, subscriptions end, and the next call causes one
/// more attempt.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use mcp_client::Reconnect;
///
/// let policy = Reconnect::default()
///     .attempts(3)
///     .first(Duration::from_millis(100))
///     .longest(Duration::from_secs(5));
/// assert_eq!(policy.attempts, 3);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Reconnect {
    /// The number of consecutive attempts before the client waits for the next call. 0: the client does not reconnect.
    /// Default: 8.
    pub attempts: u32,
    /// The wait before the second attempt. Default: 250 milliseconds.
    pub first: Duration,
    /// The longest wait. If a server requests a longer one (`Retry-After`), calls fail at once until that time is over.
    /// Their error contains the time. Default: 30 seconds.
    pub longest: Duration,
}

impl Reconnect {
    /// Returns a policy without attempts.
    ///
    /// ```
    /// assert_eq!(mcp_client::Reconnect::never().attempts, 0);
    /// ```
    #[must_use]
    pub fn never() -> Self {
        Self { attempts: 0, ..Self::default() }
    }

    /// Sets the number of consecutive attempts.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the wait before the second attempt.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn first(mut self, wait: Duration) -> Self {
        self.first = wait;
        self
    }

    /// Sets the longest wait.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn longest(mut self, wait: Duration) -> Self {
        self.longest = wait;
        self
    }
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { attempts: 8, first: Duration::from_millis(250), longest: Duration::from_secs(30) }
    }
}

pub(crate) struct Config {
    pub(crate) info: Implementation,
    /// The extensions that the builder declares.
    pub(crate) extensions: JsonObject,
    pub(crate) experimental: Option<JsonObject>,
    /// The revisions that the client can speak, newest first.
    pub(crate) versions: Vec<ProtocolVersion>,
    pub(crate) preferred: Option<ProtocolVersion>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) total_timeout: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    pub(crate) probe_timeout: Duration,
    pub(crate) ping_interval: Option<Duration>,
    pub(crate) ping_timeout: Duration,
    pub(crate) ping_threshold: u32,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) slow_start: Option<SlowStartReport>,
    /// Writes the trace contexts of requests.
    pub(crate) bridge: Option<Bridge>,
    /// The name of the server in spans.
    pub(crate) peer: Option<Arc<str>>,
    pub(crate) reconnect: Reconnect,
    pub(crate) limits: Limits,
    pub(crate) trusts_capabilities: bool,
    pub(crate) checks_arguments: bool,
    pub(crate) checks_results: bool,
    pub(crate) caches: bool,
    /// The capabilities that the handlers declare.
    pub(crate) declared: ClientCapabilities,
}

impl Config {
    pub(crate) fn new(info: Implementation) -> Self {
        Self {
            info,
            extensions: JsonObject::new(),
            experimental: None,
            versions: ProtocolVersion::ALL.to_vec(),
            preferred: None,
            idle_timeout: Some(Duration::from_secs(60)),
            total_timeout: Some(Duration::from_secs(600)),
            connect_timeout: Duration::from_secs(60),
            probe_timeout: Duration::from_secs(5),
            ping_interval: None,
            ping_timeout: Duration::from_secs(5),
            ping_threshold: 3,
            log_level: None,
            slow_start: None,
            bridge: None,
            peer: None,
            reconnect: Reconnect::default(),
            limits: Limits::default(),
            trusts_capabilities: true,
            checks_arguments: false,
            checks_results: true,
            caches: true,
            declared: ClientCapabilities::new(),
        }
    }

    /// Returns the capabilities of the client, in the newest form.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        self.capabilities_with(self.declared.clone())
    }

    /// Returns the capabilities of the client if its handlers declare these.
    pub(crate) fn capabilities_with(&self, declared: ClientCapabilities) -> ClientCapabilities {
        let mut capabilities = declared;
        if !self.extensions.is_empty() {
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.extend(self.extensions.clone());
        }
        if let Some(experimental) = &self.experimental {
            capabilities.experimental.get_or_insert_default().extend(experimental.clone());
        }
        capabilities
    }

    /// Returns true if every request declares that it can become a task.
    pub(crate) fn declares_tasks(&self) -> bool {
        self.extensions.contains_key(IDENTIFIER)
    }

    /// Returns the newest stateless revision that the client can speak.
    pub(crate) fn newest_stateless(&self) -> Option<ProtocolVersion> {
        self.versions.iter().copied().find(|version| version.is_stateless())
    }

    /// Returns the newest revision with a handshake that the client can speak.
    pub(crate) fn newest_legacy(&self) -> Option<ProtocolVersion> {
        self.versions.iter().copied().find(|version| version.has_handshake())
    }
}
