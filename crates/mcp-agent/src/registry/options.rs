//! The options of one server.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use mcp_client::transport::Connect;

use crate::{Glob, config::Origin, filter::ToolFilter, pins::Drift, policy::Rule, sharing::Sharing};

/// The largest number of connections of a server, if its options have no other number.
const MAX_CONNECTIONS: usize = 32;

type ConnectorOf = dyn Fn(&str) -> Option<Arc<dyn Connect>> + Send + Sync;

/// The connectors of principals with credentials of their own.
#[derive(Clone)]
pub(crate) struct Connectors(Arc<ConnectorOf>);

impl Connectors {
    /// Returns the connectors with a change of each of them.
    pub(crate) fn map(self, change: impl Fn(Arc<dyn Connect>) -> Arc<dyn Connect> + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |principal| self.of(principal).map(&change)))
    }

    pub(super) fn of(&self, principal: &str) -> Option<Arc<dyn Connect>> {
        (self.0)(principal)
    }
}

impl fmt::Debug for Connectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connectors")
    }
}

/// The options of one server of a host.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_agent::{ServerOptions, filter::ToolFilter};
///
/// let options = ServerOptions::new()
///     .required()
///     .start_limit(Duration::from_secs(30))
///     .call_timeout(Duration::from_secs(120))
///     .tool_timeout("build", Duration::from_secs(900))
///     .filter(ToolFilter::new().deny("delete_*".parse()?));
/// assert!(options.is_required);
/// # Ok::<_, mcp_agent::GlobError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The host does not start without this server.
    pub is_required: bool,
    /// How long the host waits for the server at its start. `None`: the limit of the host.
    pub start_limit: Option<Duration>,
    /// The time limit of each call. `None`: the limit of the host.
    pub call_timeout: Option<Duration>,
    /// The time limits of calls of single tools, by their names at the server.
    pub tool_timeouts: BTreeMap<String, Duration>,
    /// The tools that the catalog contains, and their names and texts.
    pub filter: ToolFilter,
    /// The idle time after which the host stops the server. `None`: the limit of the host.
    pub idle_stop: Option<Duration>,
    /// The server waits for an approval ([`Host::approve`](crate::Host::approve)) before the host connects to it.
    pub needs_approval: bool,
    /// The rules for calls of this server. They decide if no policy and no hook of the host does.
    pub rules: Vec<Rule>,
    /// The effect of a definition that differs from its pin. `None`: that of the host. Servers of project files have
    /// [`Drift::Block`].
    pub drift: Option<Drift>,
    /// The tools that the host never defers ([`Host::toolset`](crate::Host::toolset)), by their names at the server.
    pub always_loaded: Vec<Glob>,
    /// The callers that share a connection.
    pub sharing: Sharing,
    /// The largest number of connections to the server, at least 2. One of them lists the items. Default: 32.
    pub max_connections: usize,
    /// The server can send input requests during calls. The host also learns it from the first input request.
    pub asks: bool,
    /// The largest number of connections of one principal, at least 1. The connection that lists the items does not count. `None`:
    /// half of `max_connections`, rounded up. An application without principals has no such bound.
    pub connections_per_principal: Option<usize>,
    pub(crate) connectors: Option<Connectors>,
    /// The token exchange of the callers. The connectors then belong to the tokens of callers.
    #[cfg(feature = "oauth")]
    pub(crate) exchanges: Option<Arc<super::Exchanges>>,
    /// The place and the fingerprint of the definition, for approvals.
    pub(crate) origin: Option<Arc<Origin>>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            is_required: false,
            start_limit: None,
            call_timeout: None,
            tool_timeouts: BTreeMap::new(),
            filter: ToolFilter::default(),
            idle_stop: None,
            needs_approval: false,
            rules: Vec::new(),
            drift: None,
            always_loaded: Vec::new(),
            sharing: Sharing::default(),
            max_connections: MAX_CONNECTIONS,
            asks: false,
            connections_per_principal: None,
            connectors: None,
            #[cfg(feature = "oauth")]
            exchanges: None,
            origin: None,
        }
    }
}

impl ServerOptions {
    /// Returns the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the callers that share a connection. Default: those of a principal.
    ///
    /// See the example of [`Sharing`].
    #[must_use]
    pub fn sharing(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    /// Sets the largest number of connections to the server, at least 2. If all of them are in use, the calls of further
    /// principals wait ([`HostBuilder::call_wait`](crate::HostBuilder::call_wait)), and those of further sessions fail.
    ///
    /// See the example of [`Sharing`].
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Lets each call of a caller with capabilities of its own use a connection alone, if the input requests of the server do not
    /// name their calls. Otherwise the host does so after the first input request of the server.
    ///
    /// Such a server is a child process of a revision before 2026-07-28. If several calls share its connection, an input request
    /// fails, because the host cannot know its user.
    ///
    /// ```
    /// use mcp_agent::ServerOptions;
    ///
    /// let options = ServerOptions::new().asks().max_connections(8);
    /// assert!(options.asks);
    /// ```
    #[must_use]
    pub fn asks(mut self) -> Self {
        self.asks = true;
        self
    }

    /// Sets the largest number of connections of one principal, so that it cannot take the connections of all others. Default: half
    /// of [`max_connections`](Self::max_connections).
    ///
    /// ```
    /// use mcp_agent::{ServerOptions, Sharing};
    ///
    /// let browser = ServerOptions::new().sharing(Sharing::Session).max_connections(64).connections_per_principal(4);
    /// assert_eq!(browser.connections_per_principal, Some(4));
    /// ```
    #[must_use]
    pub fn connections_per_principal(mut self, connections: usize) -> Self {
        self.connections_per_principal = Some(connections);
        self
    }

    pub(super) fn max_connections_of_principal(&self) -> usize {
        self.connections_per_principal.unwrap_or(self.max_connections.div_ceil(2)).max(1)
    }

    /// Sets the connectors of principals with credentials of their own, such as an endpoint with the token of the user. Without
    /// a connector, the calls of a principal use the connector of the server. The host also records and replays these connections.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mcp_agent::ServerOptions;
    /// use mcp_client::{http::Http, transport::Connect};
    ///
    /// fn token_of(principal: &str) -> Option<String> {
    ///     # let _ = principal;
    ///     None
    /// }
    ///
    /// let options = ServerOptions::new().connector_of(|principal| {
    ///     let value = format!("Bearer {}", token_of(principal)?);
    ///     let endpoint = Http::new("https://search.example/mcp").ok()?.header("authorization", &value).ok()?;
    ///     Some(Arc::new(endpoint) as Arc<dyn Connect>)
    /// });
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn connector_of(
        mut self,
        connector_of: impl Fn(&str) -> Option<Arc<dyn Connect>> + Send + Sync + 'static,
    ) -> Self {
        self.connectors = Some(Connectors(Arc::new(connector_of)));
        self
    }

    /// Makes the server required: the host does not start without it.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Sets how long the host waits for the server at its start.
    #[must_use]
    pub fn start_limit(mut self, limit: Duration) -> Self {
        self.start_limit = Some(limit);
        self
    }

    /// Sets the time limit of each call.
    #[must_use]
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.call_timeout = Some(limit);
        self
    }

    /// Sets the time limit of the calls of one tool.
    #[must_use]
    pub fn tool_timeout(mut self, tool: impl Into<String>, limit: Duration) -> Self {
        self.tool_timeouts.insert(tool.into(), limit);
        self
    }

    /// Sets the tools that the catalog contains, and their names and texts.
    #[must_use]
    pub fn filter(mut self, filter: ToolFilter) -> Self {
        self.filter = filter;
        self
    }

    /// Sets the idle time after which the host stops the server. The next call starts it again.
    #[must_use]
    pub fn idle_stop(mut self, after: Duration) -> Self {
        self.idle_stop = Some(after);
        self
    }

    /// Lets the server wait for an approval before the host connects to it.
    #[must_use]
    pub fn needs_approval(mut self) -> Self {
        self.needs_approval = true;
        self
    }

    /// Adds a rule for calls of this server, after its other rules.
    ///
    /// See the guide on [policies](crate::policy).
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Sets the effect of a definition that differs from its pin ([`HostBuilder::pins`](crate::HostBuilder::pins)).
    #[must_use]
    pub fn drift(mut self, effect: Drift) -> Self {
        self.drift = Some(effect);
        self
    }

    /// Adds tools that the host never defers.
    #[must_use]
    pub fn always_load(mut self, names: Glob) -> Self {
        self.always_loaded.push(names);
        self
    }
}
