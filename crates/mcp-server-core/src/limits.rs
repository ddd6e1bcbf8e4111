//! The limits of a server and their defaults.

use std::time::Duration;

use mcp_protocol::jsonrpc;

use crate::{inputs::InputLimits, node::NodeLimits, tasks::TaskLimits};

/// The limits of a server.
///
/// A limit must not be zero, unless its documentation describes zero. [`ServerBuilder::limits`](crate::ServerBuilder::limits)
/// changes them.
///
/// ```
/// use std::time::Duration;
///
/// let server = mcp_server_core::Server::builder("busy", "1.0")
///     .limits(|limits| {
///         limits.handlers_per_session = 512;
///         limits.tool_timeout = Duration::from_secs(300);
///     })
///     .build();
/// assert_eq!(server.limits().handlers_per_session, 512);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// The number of handlers that may run at the same time for one session or connection. Default: 64.
    pub handlers_per_session: usize,
    /// The number of handlers that may run at the same time for the whole server. Default: 4,096.
    pub handlers: usize,
    /// The total timeout of a tool call. A source can replace it ([`Source::time_limit`](crate::source::Source::time_limit)).
    /// Default: 60 seconds.
    pub tool_timeout: Duration,
    /// The total timeout of reading a resource, getting a prompt or completing an argument. A source can replace it. Default: 60
    /// seconds.
    pub read_timeout: Duration,
    /// The number of entries on one page of a list. Default: 1,000.
    pub page_entries: usize,
    /// The size of the definitions on one page of a list, in bytes. A page holds at least one entry. Default: 1 MiB.
    pub page_bytes: usize,
    /// The deepest nesting of a message. Default: 128.
    pub json_depth: usize,
    /// The grace period: the time that running calls have to finish after the peer closed the connection or
    /// [`Server::shutdown`](crate::Server::shutdown) began. It also holds for tasks after the shutdown began. With zero, the
    /// server stops them at once. Calls over HTTP have the shutdown deadline of the HTTP server instead, and so have all tasks of
    /// a server with an HTTP endpoint. Default: 2 seconds.
    pub drain: Duration,
    /// The number of open `subscriptions/listen` streams of one authenticated principal. With zero, the server refuses such streams.
    /// Default: 64.
    pub listen_streams_per_principal: usize,
    /// The number of open `subscriptions/listen` streams of all anonymous callers together. With zero, the server refuses such streams.
    /// Default: 1,000.
    pub listen_streams: usize,
    /// The number of resources to which one session or one stream can subscribe. With zero, the server refuses subscriptions.
    /// Default: 256.
    pub subscribed_uris: usize,
    /// The number of tasks to which one stream can subscribe. Default: 256.
    pub subscribed_tasks: usize,
    /// The limits of input requests to the client.
    pub inputs: InputLimits,
    /// The limits of tasks.
    pub tasks: TaskLimits,
    /// The times of a node of a fleet.
    pub node: NodeLimits,
}

impl Limits {
    /// Returns the limits for the messages that the server parses.
    ///
    /// ```
    /// let mut limits = mcp_server_core::Limits::default();
    /// limits.json_depth = 16;
    /// assert_eq!(limits.of_messages().depth, 16);
    /// ```
    #[must_use]
    pub fn of_messages(&self) -> jsonrpc::Limits {
        jsonrpc::Limits::default().depth(self.json_depth)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handlers_per_session: 64,
            handlers: 4096,
            tool_timeout: Duration::from_secs(60),
            read_timeout: Duration::from_secs(60),
            page_entries: 1000,
            page_bytes: 1 << 20,
            json_depth: 128,
            drain: Duration::from_secs(2),
            listen_streams_per_principal: 64,
            listen_streams: 1000,
            subscribed_uris: 256,
            subscribed_tasks: 256,
            inputs: InputLimits::default(),
            tasks: TaskLimits::default(),
            node: NodeLimits::default(),
        }
    }
}

impl Limits {
    /// Checks that no limit is zero that has to be positive, and that a node renews its lease before the lease ends.
    ///
    /// # Errors
    /// Returns the fault of the first such limit.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { inputs, tasks, node, .. } = self;
        let bounds = [
            ("handlers_per_session", self.handlers_per_session == 0),
            ("handlers", self.handlers == 0),
            ("tool_timeout", self.tool_timeout.is_zero()),
            ("read_timeout", self.read_timeout.is_zero()),
            ("page_entries", self.page_entries == 0),
            ("page_bytes", self.page_bytes == 0),
            ("json_depth", self.json_depth == 0),
            ("inputs.elicitation", inputs.elicitation.is_zero()),
            ("inputs.sampling", inputs.sampling.is_zero()),
            ("inputs.roots", inputs.roots.is_zero()),
            ("inputs.state", inputs.state.is_zero()),
            ("tasks.ttl", tasks.ttl.is_zero()),
            ("tasks.max_ttl", tasks.max_ttl.is_zero()),
            ("tasks.poll_interval", tasks.poll_interval.is_zero()),
            ("node.lease", node.lease.is_zero()),
            ("node.renewal", node.renewal.is_zero()),
            ("node.acknowledgement", node.acknowledgement.is_zero()),
            ("node.reply", node.reply.is_zero()),
        ];
        if let Some((name, _)) = bounds.into_iter().find(|(_, is_zero)| *is_zero) {
            return Err(format!("the limit `{name}` is zero: nothing could be served"));
        }
        if node.renewal >= node.lease {
            let NodeLimits { lease, renewal, .. } = node;
            return Err(format!(
                "the limit `node.renewal` is {renewal:?}, but must be shorter than `node.lease`, {lease:?}"
            ));
        }
        Ok(())
    }
}
