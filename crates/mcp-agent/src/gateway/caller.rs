//! The client of a request, as the caller of the host.

use std::sync::Arc;

use mcp_protocol::{ClientCapabilities, RootsCapability};
use mcp_server_core::Context;

use crate::{Caller, policy};

/// The client of a request: its principal, its session and its capabilities.
#[derive(Debug, Clone)]
pub(super) struct Downstream {
    pub(super) principal: Option<Arc<str>>,
    pub(super) session: Option<Arc<str>>,
    /// The token of the client, if its authentication keeps it for token exchanges.
    #[cfg(feature = "oauth")]
    token: Option<crate::CallerToken>,
    /// The capabilities that the client declares.
    pub(super) capabilities: ClientCapabilities,
    /// The request is about a task, so it uses the connection of the task, also while another call of the client runs there.
    is_about_task: bool,
}

impl Downstream {
    pub(super) fn of(context: &Context) -> Self {
        Self {
            principal: context.principal().map(|principal| policy::identity(principal).into()),
            session: context.session_id().map(Into::into),
            #[cfg(feature = "oauth")]
            token: token(context),
            capabilities: context.client_capabilities().clone(),
            is_about_task: false,
        }
    }

    /// Returns the client for a request about a task.
    pub(super) fn of_task(self) -> Self {
        Self { is_about_task: true, ..self }
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
        #[cfg(feature = "oauth")]
        if let Some(token) = &self.token {
            caller = caller.token(token.clone());
        }
        if is_stateless {
            return caller;
        }
        let caller = caller.capabilities(of_input_requests(&self.capabilities));
        if self.is_about_task { caller.beside_calls() } else { caller }
    }
}

/// Returns the token of an authenticated client.
#[cfg(feature = "oauth")]
fn token(context: &Context) -> Option<crate::CallerToken> {
    let (principal, token) = (context.principal()?, context.extension::<mcp_auth::SubjectToken>()?);
    // The value has no other access to the token, so that it reaches token endpoints alone.
    let form = token.clone().into_exchange("");
    let (_, token) = form.into_iter().find(|(name, _)| *name == "subject_token")?;
    Some(crate::CallerToken::new(principal, token))
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
