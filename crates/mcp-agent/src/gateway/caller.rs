//! The client of a request, as the caller of the host.

use std::sync::Arc;

use mcp_protocol::{ClientCapabilities, Principal, RootsCapability};
use mcp_server_core::Context;

use crate::Caller;

/// The client of a request: its principal, its session and its capabilities.
#[derive(Debug, Clone)]
pub(super) struct Downstream {
    pub(super) principal: Option<Arc<str>>,
    session: Option<Arc<str>>,
    /// The capabilities that input requests need.
    pub(super) capabilities: ClientCapabilities,
}

impl Downstream {
    pub(super) fn of(context: &Context) -> Self {
        Self {
            principal: context.principal().map(identity),
            session: context.session_id().map(Into::into),
            capabilities: of_input_requests(context.client_capabilities()),
        }
    }

    /// Returns the client for a request in which servers cannot ask.
    pub(super) fn without_capabilities(&self) -> Self {
        Self { capabilities: ClientCapabilities::new(), ..self.clone() }
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
        if is_stateless { caller } else { caller.capabilities(self.capabilities.clone()) }
    }
}

/// Returns the identity of a principal for connections and policies: its subject, and its issuer if it has one.
fn identity(principal: &Principal) -> Arc<str> {
    match &principal.issuer {
        Some(issuer) => format!("{}@{issuer}", principal.subject).into(),
        None => principal.subject.as_str().into(),
    }
}

/// Returns the capabilities that servers need for input requests. Clients that differ in other capabilities share a connection.
fn of_input_requests(declared: &ClientCapabilities) -> ClientCapabilities {
    let mut capabilities = ClientCapabilities::new();
    capabilities.elicitation.clone_from(&declared.elicitation);
    capabilities.sampling.clone_from(&declared.sampling);
    // The gateway does not forward changes of roots.
    capabilities.roots = declared.supports_roots().then(RootsCapability::new);
    capabilities
}
