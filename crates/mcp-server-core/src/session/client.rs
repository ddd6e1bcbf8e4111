//! The client of a request, in either era.

use std::sync::Arc;

use mcp_protocol::{ClientCapabilities, Implementation};

use super::Session;

/// Who is on the other side, as far as it said.
#[derive(Clone)]
pub(crate) enum Client {
    /// Said once, at `initialize`.
    Session(Arc<Session>),
    /// Said on this request.
    Request(Arc<RequestClient>),
}

impl Client {
    /// The session, where the client has one.
    pub(crate) fn session(&self) -> Option<&Session> {
        match self {
            Self::Session(session) => Some(session),
            Self::Request(_) => None,
        }
    }

    /// The same, for a holder that outlives the request.
    pub(crate) fn shared_session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Session(session) => Some(session),
            Self::Request(_) => None,
        }
    }

    /// What it can do.
    pub(crate) fn capabilities(&self) -> &ClientCapabilities {
        match self {
            Self::Session(session) => session.client_capabilities(),
            Self::Request(client) => &client.capabilities,
        }
    }
}

/// What a modern request says about its client.
#[derive(Debug, Default)]
pub(crate) struct RequestClient {
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) info: Option<Implementation>,
}
