//! The client of a request, as the caller of the host.

use std::sync::Arc;

use mcp_protocol::{ClientCapabilities, Principal, RootsCapability};
use mcp_server_core::source::SourceCall;

use crate::{Caller, Sharing, policy, registry::Slot};

/// The client of a request: its principal, its session and its capabilities.
#[derive(Debug, Clone)]
pub(super) struct Downstream {
    pub(super) principal: Option<Arc<str>>,
    pub(super) session: Option<Arc<str>>,
    /// The token of the client, if its authentication keeps it for token exchanges.
    #[cfg(feature = "oauth")]
    token: Option<crate::CallerToken>,
    /// The capabilities that the client declares.
    pub(super) capabilities: Arc<ClientCapabilities>,
    /// The request uses the first connection of the client, also while another call of the client runs there.
    is_beside_calls: bool,
    /// The request has no session, and its client is one of many.
    is_single: bool,
}

impl Downstream {
    pub(super) fn of(call: &SourceCall) -> Self {
        let context = call.context();
        Self {
            principal: identity(context.principal()),
            session: context.session_id().map(Into::into),
            #[cfg(feature = "oauth")]
            token: token(context),
            capabilities: context.client_capabilities().clone().into(),
            is_beside_calls: false,
            is_single: context.session_id().is_none() && !context.is_local(),
        }
    }

    /// Returns the client for a request in which the server asks nothing: a request about a task, or a subscription. It uses the
    /// connection of the calls of the client, also while one of them runs.
    pub(super) fn beside_calls(self) -> Self {
        Self { is_beside_calls: true, ..self }
    }

    /// Replaces the client by that of another request with the same connection, unless its token is older.
    pub(super) fn renew(&mut self, other: &Self) {
        #[cfg(feature = "oauth")]
        if let Some((known, token)) = self.token.as_ref().zip(other.token.as_ref())
            && token.is_older_than(known)
        {
            return;
        }
        self.clone_from(other);
    }

    /// Returns the caller of the host for a server. A request without a session has a connection of its own if the connections of
    /// the server belong to sessions.
    pub(super) fn caller_at(&self, slot: &Slot, is_stateless: bool) -> Caller {
        let caller = self.caller(is_stateless);
        let is_isolated = self.is_single && slot.options.sharing == Sharing::Session;
        if is_isolated { caller.for_one_request() } else { caller }
    }

    /// Returns the caller of the host. A connection of the stateless revision serves each client, because each request declares
    /// its capabilities there.
    pub(super) fn caller(&self, is_stateless: bool) -> Caller {
        let mut caller = Caller::new();
        if let Some(principal) = &self.principal {
            caller = caller.principal(Arc::clone(principal));
        }
        if let Some(session) = &self.session {
            caller = caller.session(Arc::clone(session));
        }
        #[cfg(feature = "oauth")]
        if let Some(token) = &self.token {
            caller = caller.token(token.clone());
        }
        if is_stateless {
            return caller;
        }
        let caller = caller.capabilities(of_input_requests(&self.capabilities));
        if self.is_beside_calls { caller.beside_calls() } else { caller }
    }
}

/// Returns the identity of a principal for policies and connections.
pub(super) fn identity(principal: Option<&Principal>) -> Option<Arc<str>> {
    principal.map(|principal| policy::identity(principal).into())
}

/// Returns the token of an authenticated client.
#[cfg(feature = "oauth")]
fn token(context: &mcp_server_core::Context) -> Option<crate::CallerToken> {
    let (principal, token) = (context.principal()?, context.extension::<mcp_auth::SubjectToken>()?);
    Some(crate::CallerToken::of_client(principal, token))
}

/// Returns the capabilities that servers need for input requests. Clients that differ in other capabilities share a connection.
pub(super) fn of_input_requests(declared: &ClientCapabilities) -> ClientCapabilities {
    let mut capabilities = ClientCapabilities::new();
    capabilities.elicitation.clone_from(&declared.elicitation);
    capabilities.sampling.clone_from(&declared.sampling);
    capabilities.roots = declared.roots.as_ref().map(|roots| {
        let mut declared = RootsCapability::new();
        declared.list_changed = roots.list_changed.filter(|changes| *changes);
        declared
    });
    capabilities
}
