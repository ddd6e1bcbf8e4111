//! Builds clients: who they are, what they can answer, and how patient they are.

use std::{fmt, sync::Arc, time::Duration};

use mcp_protocol::{
    CreateMessageParams, CreateMessageResult, ElicitResult, FormElicitParams, Icon, Implementation, JsonObject,
    LoggingLevel, NotificationMethod, ProtocolVersion, Root, RpcError, UrlElicitParams, tasks::ext::IDENTIFIER,
};
use serde_json::Value;

use crate::{
    Client, Error, Handler, InputContext, IntoConnector, Limits, Negotiated, Notification, RawRequest, Reconnect,
    Roots, SlowStart,
    config::Config,
    inbound::{Callbacks, HandlerSet, answering},
    slow_start::SlowStartReport,
};

/// Builds a [`Client`]. What it can answer is what is set here, and is declared to the server by being set.
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    config: Config,
    handlers: HandlerSet,
    callbacks: Callbacks,
    known: Option<Negotiated>,
    /// The first thing that was wrong.
    problem: Option<Error>,
}

impl ClientBuilder {
    pub(crate) fn new(info: Implementation) -> Self {
        Self {
            config: Config::new(info),
            handlers: HandlerSet::default(),
            callbacks: Callbacks::default(),
            known: None,
            problem: None,
        }
    }

    /// The name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.config.info.title = Some(title.into());
        self
    }

    /// What the client is, in a sentence.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.config.info.description = Some(text.into());
        self
    }

    /// Where to read more.
    pub fn website_url(mut self, url: impl Into<String>) -> Self {
        self.config.info.website_url = Some(url.into());
        self
    }

    /// One more icon.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.config.info.icons.push(icon);
        self
    }

    /// The revisions that may be spoken. Default: all; the newest common one is.
    pub fn versions(mut self, versions: impl IntoIterator<Item = ProtocolVersion>) -> Self {
        let mut versions: Vec<_> = versions.into_iter().collect();
        versions.sort_unstable_by(|a, b| b.cmp(a));
        versions.dedup();
        if versions.is_empty() {
            self.problem.get_or_insert_with(|| Error::request("a client speaks at least one revision"));
        }
        self.config.versions = versions;
        self
    }

    /// The revision to open with, when it is one with a handshake: the server is not asked first what it speaks. When it refuses,
    /// it is asked after all. `None`, and a revision without a handshake, change nothing: it is asked first.
    pub fn prefer(mut self, version: impl Into<Option<ProtocolVersion>>) -> Self {
        self.config.preferred = version.into();
        self
    }

    /// What was agreed with this server before ([`Client::negotiated`]). Nothing is found out again; where there is no handshake,
    /// connecting sends nothing. When the first answer is none of that era the server is asked after all, and what it refused is
    /// made again as it wants it.
    pub fn known(mut self, negotiated: impl Into<Option<Negotiated>>) -> Self {
        self.known = negotiated.into();
        self
    }

    /// How long the server may be silent in a call: no answer and no progress. `None` for ever. Default 60 seconds.
    pub fn idle_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.config.idle_timeout = limit.into();
        self
    }

    /// How long a call may take in all, not counting the time that this side takes to answer questions. `None` for ever.
    /// Default 10 minutes.
    pub fn total_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.config.total_timeout = limit.into();
        self
    }

    /// How long opening a connection may take, with everything that it asks. Default 60 seconds.
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

    /// How long a server may be silent when it is asked what it speaks, before it is taken for one that does not know the
    /// question. Default 5 seconds.
    pub fn probe_timeout(mut self, limit: Duration) -> Self {
        self.config.probe_timeout = limit;
        self
    }

    /// Asks for a sign of life at this interval, which is longer than zero. Default: never. Whatever the server answers is one,
    /// an error and an HTTP status too, but not what a gateway says for it (502, 504).
    pub fn ping_interval(mut self, interval: Duration) -> Self {
        if interval.is_zero() {
            self.problem.get_or_insert_with(|| Error::request("there is time between two signs of life"));
        }
        self.config.ping_interval = Some(interval);
        self
    }

    /// How long a sign of life may take. Default 5 seconds.
    pub fn ping_timeout(mut self, limit: Duration) -> Self {
        self.config.ping_timeout = limit;
        self
    }

    /// How many signs of life in a row must be missed for the connection to be given up. Default 3.
    pub fn ping_threshold(mut self, missed: u32) -> Self {
        self.config.ping_threshold = missed;
        self
    }

    /// How a lost connection is opened again.
    pub fn reconnect(mut self, policy: Reconnect) -> Self {
        self.config.reconnect = policy;
        self
    }

    /// From which level on the server is asked for log messages: each session when it is opened, which takes an answer more, and
    /// with every call in 2026-07-28. It can be changed later ([`Client::set_log_level`]).
    pub fn log_level(mut self, level: LoggingLevel) -> Self {
        self.config.log_level = Some(level);
        self
    }

    /// Changes the bounds.
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.config.limits);
        self
    }

    /// Whether a server is believed that does not declare a capability: what needs it fails without being sent. Default true;
    /// some servers do more than they declare.
    pub fn trust_capabilities(mut self, on: bool) -> Self {
        self.config.trusts_capabilities = on;
        self
    }

    /// Whether results that say for how long they are fresh are kept that long (2026-07-28). Default true: a server says so only
    /// where it means it. See [`Call::fresh`](crate::Call::fresh).
    pub fn cache(mut self, on: bool) -> Self {
        self.config.caches = on;
        self
    }

    /// Whether the arguments of a tool that was listed are checked against its schema before they are sent
    /// ([`Error::is_invalid_arguments`]). Default false: the server checks them.
    pub fn check_arguments(mut self, on: bool) -> Self {
        self.config.checks_arguments = on;
        self
    }

    /// Whether the structured content of a tool that was listed is checked against its schema
    /// ([`Error::is_invalid_response`]). Default true.
    pub fn check_results(mut self, on: bool) -> Self {
        self.config.checks_results = on;
        self
    }

    /// Lets servers make a task of any call of a tool, which is then awaited as if it were none (2026-07-28). Without it they may
    /// do so where [`Call::as_task`](crate::Call::as_task) wants it, and with tools that are nothing else.
    pub fn tasks(self) -> Self {
        self.extension(IDENTIFIER, JsonObject::new())
    }

    /// Declares an extension of the protocol.
    pub fn extension(mut self, identifier: impl Into<String>, settings: impl Into<JsonObject>) -> Self {
        self.config.extensions.insert(identifier.into(), settings.into().into());
        self
    }

    /// Declares a capability outside the protocol.
    pub fn experimental(mut self, name: impl Into<String>, settings: impl Into<JsonObject>) -> Self {
        self.config.experimental.get_or_insert_default().insert(name.into(), settings.into().into());
        self
    }

    /// Asks the user to fill in forms. Absent fields of an accepted form are given their defaults; an answer that does not fit
    /// the form is not sent.
    ///
    /// The user sees which server asks ([`InputContext::server`]), and can always decline.
    pub fn on_elicit<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(InputContext<FormElicitParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, RpcError>> + Send + 'static,
    {
        self.handlers.elicit = Some(answering(answer));
        self
    }

    /// Asks the user to visit a URL. The user sees it in full, and agrees before anything opens it.
    pub fn on_elicit_url<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(InputContext<UrlElicitParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, RpcError>> + Send + 'static,
    {
        self.handlers.elicit_url = Some(answering(answer));
        self
    }

    /// Asks the model, without tools.
    pub fn on_sample<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(InputContext<CreateMessageParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, RpcError>> + Send + 'static,
    {
        self.handlers.sample = Some(answering(answer));
        self
    }

    /// Asks the model, which may be given tools (2025-11-25).
    pub fn on_sample_with_tools<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(InputContext<CreateMessageParams>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, RpcError>> + Send + 'static,
    {
        self.handlers.samples_with_tools = true;
        self.on_sample(answer)
    }

    /// Where servers may work: `file://` URIs. They can be changed later ([`Client::roots`]).
    pub fn roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        match Roots::new(roots) {
            Ok(roots) => self.handlers.roots = Some(roots),
            Err(error) => drop(self.problem.get_or_insert(error)),
        }
        self
    }

    /// Answers requests that the protocol does not know.
    pub fn on_request<F, Fut>(mut self, answer: F) -> Self
    where
        F: Fn(InputContext<RawRequest>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, RpcError>> + Send + 'static,
    {
        self.handlers.other = Some(answering(answer));
        self
    }

    /// Answers whatever the closures here do not.
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.handlers.handler = Some(Arc::new(handler));
        self
    }

    /// Hears every notification, one after another. See also [`Client::notifications`].
    pub fn on_notification(mut self, heard: impl FnMut(&Notification) + Send + 'static) -> Self {
        self.callbacks.all.push(Box::new(heard));
        self
    }

    /// Hears the notifications of one kind, as `on::<LoggingMessage>(|message| …)`. Those that make no sense are left out.
    ///
    /// Changes of the lists are subscribed to where they are not told by themselves (2026-07-28); for those of resources see
    /// [`Client::subscribe`].
    pub fn on<N: NotificationMethod>(mut self, mut heard: impl FnMut(N::Params) + Send + 'static) -> Self {
        self.callbacks.want(N::NAME);
        self.on_notification(move |notification| match notification.params::<N>() {
            Some(Ok(params)) => heard(params),
            Some(Err(error)) => tracing::debug!(%error, "a notification makes no sense"),
            None => {}
        })
    }

    /// Connects: finds out what the server speaks, and agrees on a revision.
    ///
    /// Needs a Tokio runtime, on which the connection lives from then on.
    ///
    /// # Errors
    /// [`Error::is_unreachable`], [`Error::is_version_mismatch`], [`Error::is_timeout`], [`Error::is_unauthorized`], and whatever
    /// else the server answers; also when something was set here that makes no sense.
    pub async fn connect<M>(mut self, target: impl IntoConnector<M>) -> Result<Client, Error> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let connector = target.into_connector()?;
        self.config.declared = self.handlers.capabilities();
        Client::open(self.config, self.handlers, self.callbacks, self.known, connector).await
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("info", &self.config.info).finish_non_exhaustive()
    }
}
