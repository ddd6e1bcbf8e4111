//! Builds clients.

mod handlers;

use std::{fmt, sync::Arc, time::Duration};

use mcp_protocol::{Icon, Implementation, JsonObject, LoggingLevel, ProtocolVersion, tasks::ext::IDENTIFIER};

use crate::{
    Client, ConnectorSettings, Error, IntoConnector, Limits, Negotiated, Propagate, Reconnect, SlowStart,
    config::Config,
    inbound::{Callbacks, HandlerSet},
    slow_start::SlowStartReport,
    trace::Bridge,
};

/// Builds a [`Client`]. The handlers that are set here determine the capabilities that the client declares.
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use mcp_client::{
///     Client, Reconnect,
///     protocol::{ElicitResult, Icon, JsonObject, LoggingLevel, ProtocolVersion, Root, RpcError},
/// };
/// # use mcp_server::{Server, tool};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::Error> {
/// # let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
/// let client = Client::builder("my-app", "1.0")
///     .title("My App")
///     .description("Builds programs.")
///     .website_url("https://example.com")
///     .icon(Icon::new("https://example.com/icon.png"))
///     .versions(ProtocolVersion::ALL.iter().copied())
///     .prefer(ProtocolVersion::LATEST)
///     .known(None)
///     .idle_timeout(Duration::from_secs(10))
///     .total_timeout(Duration::from_secs(600))
///     .connect_timeout(Duration::from_secs(5))
///     .probe_timeout(Duration::from_secs(2))
///     .ping_interval(Duration::from_secs(20))
///     .ping_timeout(Duration::from_secs(5))
///     .ping_threshold(3)
///     .reconnect(Reconnect::default().attempts(3))
///     .log_level(LoggingLevel::Warning)
///     .ignore_capabilities()
///     .no_cache()
///     .check_arguments()
///     .no_result_checks()
///     .tasks()
///     .extension("com.example/maps", JsonObject::new())
///     .experimental("com.example/draft", JsonObject::new())
///     .roots([Root::new("file:///home/ada/project")])
///     .on_elicit(async |_form| Ok(ElicitResult::decline()))
///     .on_elicit_url(async |_page| Ok(ElicitResult::decline()))
///     .on_sample(async |_request| Err(RpcError::internal("no model is configured")))
///     .on_request(async |request| Err(RpcError::method_not_found(request.params().method())))
///     .on_notification(|notification| println!("{}", notification.method()))
///     .connect(&server)
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    config: Config,
    handlers: HandlerSet,
    callbacks: Callbacks,
    known: Option<Negotiated>,
    connector: ConnectorSettings,
    /// The error of the first invalid setting.
    error: Option<Error>,
}

impl ClientBuilder {
    pub(crate) fn new(info: Implementation) -> Self {
        Self {
            config: Config::new(info),
            handlers: HandlerSet::default(),
            callbacks: Callbacks::default(),
            known: None,
            connector: ConnectorSettings::default(),
            error: None,
        }
    }

    /// Sets the name that is shown to users.
    ///
    /// See the [example](Self#example).
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.config.info.title = Some(title.into());
        self
    }

    /// Sets the description of the client: one sentence.
    ///
    /// See the [example](Self#example).
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.config.info.description = Some(text.into());
        self
    }

    /// Sets the URL of the client's website.
    ///
    /// See the [example](Self#example).
    pub fn website_url(mut self, url: impl Into<String>) -> Self {
        self.config.info.website_url = Some(url.into());
        self
    }

    /// Adds an icon.
    ///
    /// See the [example](Self#example).
    pub fn icon(mut self, icon: Icon) -> Self {
        self.config.info.icons.push(icon);
        self
    }

    /// Sets the revisions that the client can speak. Default: all. The client negotiates the newest common revision.
    ///
    /// See the [example](Self#example).
    pub fn versions(mut self, versions: impl IntoIterator<Item = ProtocolVersion>) -> Self {
        let mut versions: Vec<_> = versions.into_iter().collect();
        versions.sort_unstable_by(|a, b| b.cmp(a));
        versions.dedup();
        if versions.is_empty() {
            self.error.get_or_insert_with(|| Error::request("a client needs at least one revision"));
        }
        self.config.versions = versions;
        self
    }

    /// Opens connections with `initialize` and this revision, without `server/discover` before it. If the server
    /// rejects the revision, the client sends `server/discover`.
    ///
    /// `None` and stateless revisions have no effect.
    ///
    /// See the [example](Self#example).
    pub fn prefer(mut self, version: impl Into<Option<ProtocolVersion>>) -> Self {
        self.config.preferred = version.into();
        self
    }

    /// Reuses the result of an earlier negotiation with the same server ([`Client::negotiated`]).
    ///
    /// In the stateless era, connecting then sends nothing. If the first answer does not fit that era, the client
    /// negotiates again and repeats the rejected request.
    ///
    /// See the [example](Self#example).
    pub fn known(mut self, negotiated: impl Into<Option<Negotiated>>) -> Self {
        self.known = negotiated.into();
        self
    }

    /// Authorizes each request to a server over HTTP. The target must be a URL or an [`Http`](crate::http::Http), whose own
    /// authorizer this one replaces. [`ClientBuilder::connect`] fails for any other target.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    ///
    /// use mcp_client::{Client, Error, http::Authorizer};
    ///
    /// async fn connect(login: Arc<dyn Authorizer>) -> Result<Client, Error> {
    ///     Client::builder("my-app", "1.0").auth(login).connect("https://mcp.example.com/mcp").await
    /// }
    /// ```
    #[cfg(feature = "http")]
    pub fn auth(mut self, authorizer: impl mcp_client_http::Authorizer) -> Self {
        self.connector.authorizer = Some(Arc::new(authorizer));
        self
    }

    /// Sets how long the server may send neither an answer nor progress during a call. `None`: no limit. Default: 60
    /// seconds.
    ///
    /// See the [example](Self#example).
    pub fn idle_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.config.idle_timeout = limit.into();
        self
    }

    /// Sets how long a call may take in total. The time in which handlers answer the server does not count. `None`: no
    /// limit. Default: 10 minutes.
    ///
    /// See the [example](Self#example).
    pub fn total_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.config.total_timeout = limit.into();
        self
    }

    /// Sets how long opening a connection may take, including the negotiation. Default: 60 seconds.
    ///
    /// See the [example](Self#example).
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.config.connect_timeout = limit;
        self
    }

    /// Calls `report` if a server has not answered `after` the client began to open the connection. The client continues to wait
    /// until [`ClientBuilder::connect_timeout`].
    ///
    /// A child process can need a long time to start. The report contains the last lines of its standard error.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), mcp_client::Error> {
    /// use std::time::Duration;
    ///
    /// use mcp_client::{ChildProcess, Client};
    ///
    /// let client = Client::builder("my-app", "1.0")
    ///     .on_slow_start(Duration::from_secs(3), |start| eprintln!("{start}"))
    ///     .connect(ChildProcess::new("my-server"))
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_slow_start(mut self, after: Duration, report: impl Fn(&SlowStart) + Send + Sync + 'static) -> Self {
        self.config.slow_start = Some(SlowStartReport { after, report: Arc::new(report) });
        self
    }

    /// Sets how long the client waits for the answer to `server/discover` before it sends `initialize`. Default: 5
    /// seconds.
    ///
    /// See the [example](Self#example).
    pub fn probe_timeout(mut self, limit: Duration) -> Self {
        self.config.probe_timeout = limit;
        self
    }

    /// Sets the interval at which the client sends pings. It must be greater than zero. Default: no pings.
    ///
    /// Every answer counts, also an error or an HTTP status. The statuses 502 and 504 do not count: a gateway sends
    /// them.
    ///
    /// See the [example](Self#example).
    pub fn ping_interval(mut self, interval: Duration) -> Self {
        if interval.is_zero() {
            self.error.get_or_insert_with(|| Error::request("`ping_interval` must be greater than zero"));
        }
        self.config.ping_interval = Some(interval);
        self
    }

    /// Sets how long the client waits for the answer to a ping. Default: 5 seconds.
    ///
    /// See the [example](Self#example).
    pub fn ping_timeout(mut self, limit: Duration) -> Self {
        self.config.ping_timeout = limit;
        self
    }

    /// Sets the number of consecutive pings without an answer after which the client closes the connection. Default: 3.
    ///
    /// See the [example](Self#example).
    pub fn ping_threshold(mut self, missed: u32) -> Self {
        self.config.ping_threshold = missed;
        self
    }

    /// Sets how a lost connection is reopened.
    ///
    /// See the [example](Self#example).
    pub fn reconnect(mut self, policy: Reconnect) -> Self {
        self.config.reconnect = policy;
        self
    }

    /// Requests log messages from this level on. The client sends the level when it opens a session, and with each call
    /// in 2026-07-28.
    ///
    /// [`Client::set_log_level`] changes the level later.
    ///
    /// See the [example](Self#example).
    pub fn log_level(mut self, level: LoggingLevel) -> Self {
        self.config.log_level = Some(level);
        self
    }

    /// Writes the spans of the client into its requests, so that servers continue the trace. Without a bridge, a request has the
    /// trace context of [`Call::meta`](crate::Call::meta), if there is one.
    ///
    /// See the example of [`Propagate`].
    pub fn propagate(mut self, bridge: impl Propagate) -> Self {
        self.config.bridge = Some(Bridge(Arc::new(bridge)));
        self
    }

    /// Sets the name of the server in the spans of requests (`peer.service`). A program with several servers distinguishes their spans.
    ///
    /// ```
    /// use mcp_client::{Client, ClientBuilder};
    ///
    /// let builder = Client::builder("my-app", "1.0").peer("files");
    /// # let _: ClientBuilder = builder;
    /// ```
    pub fn peer(mut self, name: impl Into<Arc<str>>) -> Self {
        self.config.peer = Some(name.into());
        self
    }

    /// Changes the limits.
    ///
    /// ```
    /// let builder = mcp_client::Client::builder("my-app", "1.0").limits(|limits| limits.pending = 16);
    /// ```
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.config.limits);
        self
    }

    /// Sends each call, also if the server does not declare the capability that the call needs. Some servers support more
    /// than they declare. By default such a call fails without being sent ([`Error::is_unsupported`]).
    ///
    /// See the [example](Self#example).
    pub fn ignore_capabilities(mut self) -> Self {
        self.config.trusts_capabilities = false;
        self
    }

    /// Turns the cache off. By default the client caches results for the time that the server declares (2026-07-28).
    /// [`Call::fresh`](crate::Call::fresh) bypasses the cache for one call.
    ///
    /// See the [example](Self#example).
    pub fn no_cache(mut self) -> Self {
        self.config.caches = false;
        self
    }

    /// Validates arguments against the schema of a listed tool before the client sends them
    /// ([`Error::is_invalid_arguments`]). By default the server alone validates them.
    ///
    /// See the [example](Self#example).
    pub fn check_arguments(mut self) -> Self {
        self.config.checks_arguments = true;
        self
    }

    /// Accepts structured content that does not match the schema of a listed tool. By default the client validates it
    /// ([`Error::is_invalid_response`]).
    ///
    /// See the [example](Self#example).
    pub fn no_result_checks(mut self) -> Self {
        self.config.checks_results = false;
        self
    }

    /// Allows servers to run any tool call as a task (2026-07-28). A call waits for the result of its task.
    ///
    /// Without this, servers may create tasks for calls with [`Call::as_task`](crate::Call::as_task), and for tools
    /// that require tasks.
    ///
    /// See the [example](Self#example).
    pub fn tasks(self) -> Self {
        self.extension(IDENTIFIER, JsonObject::new())
    }

    /// Declares an extension of the protocol.
    ///
    /// See the [example](Self#example).
    pub fn extension(mut self, identifier: impl Into<String>, settings: impl Into<JsonObject>) -> Self {
        self.config.extensions.insert(identifier.into(), settings.into().into());
        self
    }

    /// Declares an experimental capability.
    ///
    /// See the [example](Self#example).
    pub fn experimental(mut self, name: impl Into<String>, settings: impl Into<JsonObject>) -> Self {
        self.config.experimental.get_or_insert_default().insert(name.into(), settings.into().into());
        self
    }

    /// Connects to a server and negotiates a revision. Needs a Tokio runtime, on which the connection runs.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// - [`Error::is_unreachable`], [`Error::is_timeout`], [`Error::is_unauthorized`]: no connection could be opened.
    /// - [`Error::is_version_mismatch`]: no common revision.
    /// - [`Error::is_not_a_server`]: the peer does not speak the protocol.
    /// - [`Error::is_invalid_request`]: a setting or the target is invalid.
    /// - The error that the server answered with.
    pub async fn connect<M>(mut self, target: impl IntoConnector<M>) -> Result<Client, Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let connector = target.into_connector(&self.connector)?;
        self.config.declared = self.handlers.capabilities();
        Client::open(self.config, self.handlers, self.callbacks, self.known, connector).await
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("info", &self.config.info).finish_non_exhaustive()
    }
}
