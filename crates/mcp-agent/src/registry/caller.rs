//! The caller of a host: its principal, its session, and the capabilities of its handler.

#[cfg(feature = "gateway")]
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, sync::Arc};

use mcp_client::Handler;
use mcp_protocol::ClientCapabilities;

#[cfg(feature = "oauth")]
use super::CallerToken;

/// The caller of a host with several users, such as a gateway ([`Host::for_caller`](crate::Host::for_caller)).
///
/// Callers share the connection to a server if their principals and their declared capabilities are equal. See
/// [`Sharing`](crate::Sharing).
///
/// ```
/// use mcp_agent::Caller;
/// use mcp_client::protocol::{ClientCapabilities, ElicitationCapability};
///
/// let declared = ClientCapabilities::new().with_elicitation(ElicitationCapability::new());
/// let caller = Caller::new().principal("ada").session("7f3a").capabilities(declared);
/// assert_eq!(caller.principal_name(), Some("ada"));
/// ```
#[derive(Clone, Default)]
pub struct Caller {
    pub(super) principal: Option<Arc<str>>,
    pub(super) session: Option<Arc<str>>,
    pub(super) capabilities: Option<Arc<ClientCapabilities>>,
    pub(crate) handler: Option<Arc<dyn Handler>>,
    #[cfg(feature = "oauth")]
    pub(super) token: Option<CallerToken>,
    /// The request uses a connection also while another call with questions runs there.
    is_beside_calls: bool,
    /// A server whose connections belong to sessions gives the request a connection of its own.
    pub(super) is_for_one_request: bool,
}

impl Caller {
    /// Returns the application itself: a caller without a principal, with the capabilities of the host.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the identity of the user. Callers with different principals never share a connection, unless the server permits it
    /// ([`Sharing::All`](crate::Sharing::All)).
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn principal(mut self, principal: impl Into<Arc<str>>) -> Self {
        self.principal = Some(principal.into());
        self
    }

    /// Sets the session of the user, for servers that need a connection for each session
    /// ([`Sharing::Session`](crate::Sharing::Session)).
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn session(mut self, session: impl Into<Arc<str>>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Sets the access token of the user, for servers with a token exchange
    /// ([`TokenExchange`](crate::config::TokenExchange)).
    ///
    /// See the example of [`CallerToken`].
    #[cfg(feature = "oauth")]
    #[must_use]
    pub fn token(mut self, token: CallerToken) -> Self {
        self.token = Some(token);
        self
    }

    /// Sets the capabilities that the host declares to servers for this caller, instead of those of the host. The handlers of
    /// the host answer no input request of such a connection.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn capabilities(mut self, capabilities: ClientCapabilities) -> Self {
        self.capabilities = Some(Arc::new(capabilities));
        self
    }

    /// Sets the handler that answers the input requests of all calls of this caller. Without [`Caller::capabilities`], the host
    /// declares the capabilities of the handler.
    #[must_use]
    pub fn answers(mut self, handler: Arc<dyn Handler>) -> Self {
        self.capabilities.get_or_insert_with(|| Arc::new(handler.capabilities()));
        self.handler = Some(handler);
        self
    }

    /// Returns true if servers can send input requests to this caller, and not only to the host.
    pub(super) fn can_be_asked(&self) -> bool {
        let can = |declared: &ClientCapabilities| {
            declared.elicitation.is_some() || declared.sampling.is_some() || declared.roots.is_some()
        };
        !self.is_beside_calls && self.capabilities.as_deref().is_some_and(can)
    }

    /// Lets the request use a connection on which another call with questions runs.
    #[cfg(feature = "gateway")]
    pub(crate) fn beside_calls(self) -> Self {
        Self { is_beside_calls: true, ..self }
    }

    /// Separates a request without a session from all others, at servers whose connections belong to sessions. Such a connection
    /// ends with the request.
    #[cfg(feature = "gateway")]
    pub(crate) fn for_one_request(self) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // The id of a session has no space.
        let session = format!("request {}", LAST.fetch_add(1, Ordering::Relaxed));
        Self { session: Some(session.into()), is_for_one_request: true, ..self }
    }

    /// Returns the identity of the user.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn principal_name(&self) -> Option<&str> {
        self.principal.as_deref()
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("principal", &self.principal).finish_non_exhaustive()
    }
}
