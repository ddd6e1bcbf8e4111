//! What a server bounds, and by how much unless it is told otherwise.

use std::time::Duration;

use mcp_protocol::jsonrpc;

use crate::{inputs::InputLimits, tasks::TaskLimits};

/// The bounds of a server. Every one is meant to be changed where the defaults do not fit. None may be zero but those that
/// say what zero means.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Handlers that run at once for one session or connection. Default 64.
    pub handlers_per_session: usize,
    /// Handlers that run at once for the whole server. Default 4,096.
    pub handlers: usize,
    /// How long a tool call may take. Default 60 seconds.
    pub tool_timeout: Duration,
    /// How long reading a resource, getting a prompt or completing an argument may take. Default 60 seconds.
    pub read_timeout: Duration,
    /// Entries on a page of a list. Default 1,000.
    pub page_entries: usize,
    /// Bytes of definitions on a page of a list; one entry always fits. Default 1 MiB.
    pub page_bytes: usize,
    /// Nesting of a message. Default 128.
    pub json_depth: usize,
    /// After the other side closed its end: how long calls that still run may take to answer; zero cuts them off.
    /// Default 2 seconds.
    pub drain: Duration,
    /// Open `subscriptions/listen` streams of one authenticated principal; zero for none. Default 64.
    pub listen_streams_per_principal: usize,
    /// Open `subscriptions/listen` streams of all who did not authenticate, together; zero for none. Default
    /// 1,000.
    pub listen_streams: usize,
    /// Resources that one session or one stream subscribes to; zero for none. Default 256.
    pub subscribed_uris: usize,
    /// Tasks that one stream is told of. Default 256.
    pub subscribed_tasks: usize,
    /// What bounds questions to the other side.
    pub inputs: InputLimits,
    /// What bounds tasks.
    pub tasks: TaskLimits,
}

impl Limits {
    /// What bounds a message that is read.
    #[must_use]
    pub fn of_messages(&self) -> jsonrpc::Limits {
        let mut limits = jsonrpc::Limits::default();
        limits.depth = self.json_depth;
        limits
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
        }
    }
}

impl Limits {
    /// # Errors
    /// The name of a bound that is zero, where nothing would work with it.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let Self { inputs, tasks, .. } = self;
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
        ];
        bounds.into_iter().find(|(_, is_zero)| *is_zero).map_or(Ok(()), |(name, _)| Err(name))
    }
}
