//! The client of a request, in either era.

use std::sync::Arc;

use mcp_protocol::{ClientCapabilities, Implementation};

use super::Session;

/// The source of the client's name and capabilities.
#[derive(Clone)]
pub(crate) enum Client {
    /// The client declared them once, at `initialize`.
    Session(Arc<Session>),
    /// The client declared them in this request.
    Request(Arc<RequestClient>),
}

impl Client {
    /// Returns the session, if the client has one.
    pub(crate) fn session(&self) -> Option<&Session> {
        match self {
            Self::Session(session) => Some(session),
            Self::Request(_) => None,
        }
    }

    /// Returns the session for a holder that outlives the request.
    pub(crate) fn shared_session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Session(session) => Some(session),
            Self::Request(_) => None,
        }
    }

    /// Returns the capabilities of the client.
    pub(crate) fn capabilities(&self) -> &ClientCapabilities {
        match self {
            Self::Session(session) => session.client_capabilities(),
            Self::Request(client) => &client.capabilities,
        }
    }
}

/// The client metadata of a request of the stateless era.
#[derive(Debug, Default)]
pub(crate) struct RequestClient {
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) info: Option<Implementation>,
}
