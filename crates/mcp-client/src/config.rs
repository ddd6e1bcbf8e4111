//! What a client is and how patient it is: fixed when it is built.

use std::time::Duration;

use mcp_protocol::{
    ClientCapabilities, Implementation, JsonObject, LoggingLevel, ProtocolVersion, tasks::ext::IDENTIFIER,
};

use crate::slow_start::SlowStartReport;

/// What bounds a client's work. Times are how long something may take, counts are caps.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Requests that wait for their answers at once; further ones wait for room, within their own time. Default 1,024.
    pub pending: usize,
    /// Requests of the server that are answered at once; further ones are refused. Default 64.
    pub questions: usize,
    /// How long a handler may take to answer the server. Default 10 minutes.
    pub question: Duration,
    /// How often a server may answer one call with questions. Default 16.
    pub rounds: usize,
    /// Pages that are read of one list. Default 1,000.
    pub pages: usize,
    /// Bytes of a list that is awaited whole, as its pages come. Default 64 MiB.
    pub list_bytes: usize,
    /// Notifications that wait for one reader; the oldest are dropped beyond. Default 1,024.
    pub notifications: usize,
    /// Their bytes; the newest one is kept in any case. Default 16 MiB.
    pub notification_bytes: usize,
    /// Deepest nesting of a message. Default 128.
    pub json_depth: usize,
    /// How long closing may take: to tell the server what is cancelled, and again for the transport. A child process has its own
    /// time where that is longer. Default 5 seconds.
    pub close: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pending: 1024,
            questions: 64,
            question: Duration::from_secs(600),
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

/// How a lost connection is opened again.
///
/// The first attempt is made at once when the lost connection had lasted for a while; each later one waits twice as long as the
/// one before, give or take a quarter. A call that begins to wait has one more made, a second after the last at the earliest. When all attempts have failed, subscriptions end, and the next call makes one more.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Reconnect {
    /// Attempts in a row before the client waits for the next call; 0 never reconnects. Default 8.
    pub attempts: u32,
    /// The wait before the second attempt. Default 250 milliseconds.
    pub first: Duration,
    /// The longest wait. A server that asks for more (`Retry-After`) is not tried again by itself: who needs it meanwhile fails at
    /// once, and is told the time. Default 30 seconds.
    pub longest: Duration,
}

impl Reconnect {
    /// A connection that is lost stays lost.
    #[must_use]
    pub fn never() -> Self {
        Self { attempts: 0, ..Self::default() }
    }
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { attempts: 8, first: Duration::from_millis(250), longest: Duration::from_secs(30) }
    }
}

pub(crate) struct Config {
    pub(crate) info: Implementation,
    /// Capabilities beyond those that the handlers declare.
    pub(crate) extensions: JsonObject,
    pub(crate) experimental: Option<JsonObject>,
    /// What may be spoken, newest first.
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
            reconnect: Reconnect::default(),
            limits: Limits::default(),
            trusts_capabilities: true,
            checks_arguments: false,
            checks_results: true,
            caches: true,
            declared: ClientCapabilities::new(),
        }
    }

    /// What this client can do, in the newest form.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = self.declared.clone();
        if !self.extensions.is_empty() {
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.extend(self.extensions.clone());
        }
        if let Some(experimental) = &self.experimental {
            capabilities.experimental.get_or_insert_default().extend(experimental.clone());
        }
        capabilities
    }

    /// Whether every request says that it may become a task.
    pub(crate) fn declares_tasks(&self) -> bool {
        self.extensions.contains_key(IDENTIFIER)
    }

    /// The newest revision without a handshake that may be spoken.
    pub(crate) fn newest_stateless(&self) -> Option<ProtocolVersion> {
        self.versions.iter().copied().find(|version| version.is_stateless())
    }

    /// The newest revision with a handshake that may be spoken.
    pub(crate) fn newest_legacy(&self) -> Option<ProtocolVersion> {
        self.versions.iter().copied().find(|version| version.has_handshake())
    }
}
