//! The settings of a host that concern all servers.

use std::{path::PathBuf, sync::Arc, time::Duration};

use mcp_client::{ClientBuilder, Handler, Propagate, Reconnect};
use mcp_protocol::{ClientCapabilities, Implementation, SubscriptionFilter};

use crate::{
    characters::Characters,
    pins::{PinRules, PinStore},
};

/// Returns the handler of a server, by the name of the server.
pub(crate) type HandlerOf = Arc<dyn Fn(&str) -> Arc<dyn Handler> + Send + Sync>;

/// Returns the changed builder of the client of a server, by the name of the server.
pub(crate) type ClientOf = Arc<dyn Fn(&str, ClientBuilder) -> ClientBuilder + Send + Sync>;

/// The lists of a server that a host reads and follows ([`HostBuilder::lists`](crate::HostBuilder::lists)).
///
/// ```
/// use mcp_agent::{Host, Lists};
///
/// let builder = Host::builder("my-app", "1.0").lists(Lists::Tools);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lists {
    /// Tools, resources, templates and prompts.
    #[default]
    All,
    /// Tools. The catalog has no other items.
    Tools,
    /// No list. The catalog is empty, and the application uses [`Host::client`](crate::Host::client).
    None,
}

impl Lists {
    /// Returns the subscription to the changes of the lists. `None` if there are no lists.
    pub(super) fn changes(self) -> Option<SubscriptionFilter> {
        match self {
            Self::All => Some(SubscriptionFilter::lists()),
            Self::Tools => Some(SubscriptionFilter::new().with_tools_list_changed(true)),
            Self::None => None,
        }
    }
}

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
    pub(crate) client_of: Option<ClientOf>,
    /// Writes the trace contexts of requests.
    pub(crate) bridge: Option<Arc<dyn Propagate>>,
    pub(crate) lists: Lists,
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
            client_of: None,
            bridge: None,
            lists: Lists::All,
            declared: ClientCapabilities::new(),
            manifest: None,
            max_text: 100_000,
            characters: Characters::default(),
            pins: None,
        }
    }
}
