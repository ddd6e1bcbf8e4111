//! The settings of a host that concern all servers.

use std::{path::PathBuf, sync::Arc, time::Duration};

use mcp_client::{Handler, Reconnect};
use mcp_protocol::{ClientCapabilities, Implementation};

use crate::{
    characters::Characters,
    pins::{PinRules, PinStore},
};

/// Returns the handler of a server, by the name of the server.
pub(crate) type HandlerOf = Arc<dyn Fn(&str) -> Arc<dyn Handler> + Send + Sync>;

/// The settings of a host that concern all servers.
pub(crate) struct Settings {
    pub(crate) info: Implementation,
    /// How long the host waits for servers at its start.
    pub(crate) start_limit: Duration,
    /// How long opening a connection may take. A server that needs longer has failed.
    pub(crate) connect_limit: Duration,
    /// How long a call waits for a server that starts.
    pub(crate) call_wait: Duration,
    /// How long reading the lists of a server may take.
    pub(crate) list_limit: Duration,
    pub(crate) call_timeout: Option<Duration>,
    pub(crate) idle_stop: Option<Duration>,
    pub(crate) reconnect: Reconnect,
    pub(crate) handler_of: Option<HandlerOf>,
    pub(crate) declared: ClientCapabilities,
    pub(crate) manifest: Option<PathBuf>,
    pub(crate) max_text: usize,
    pub(crate) characters: Characters,
    pub(crate) pins: Option<(PinStore, PinRules)>,
}

impl Settings {
    pub(crate) fn new(info: Implementation) -> Self {
        Self {
            info,
            start_limit: Duration::from_secs(15),
            connect_limit: Duration::from_secs(300),
            call_wait: Duration::from_secs(60),
            list_limit: Duration::from_secs(30),
            call_timeout: None,
            idle_stop: None,
            reconnect: Reconnect::default(),
            handler_of: None,
            declared: ClientCapabilities::new(),
            manifest: None,
            max_text: 100_000,
            characters: Characters::default(),
            pins: None,
        }
    }
}
