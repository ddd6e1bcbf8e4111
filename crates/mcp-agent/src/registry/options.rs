//! The options of one server.

use std::{collections::BTreeMap, time::Duration};

use crate::{Glob, filter::ToolFilter, policy::Rule};

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
#[derive(Debug, Clone, Default)]
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
    /// The tools that the host never defers ([`Host::toolset`](crate::Host::toolset)), by their names in the catalog.
    pub always_loaded: Vec<Glob>,
}

impl ServerOptions {
    /// Returns the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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

    /// Adds tools that the host never defers.
    #[must_use]
    pub fn always_load(mut self, names: Glob) -> Self {
        self.always_loaded.push(names);
        self
    }
}
