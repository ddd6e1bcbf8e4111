//! The surroundings of one request: its client, its era, and the stream for its notifications.

use std::sync::Arc;

use mcp_protocol::{LoggingLevel, Principal, ProtocolVersion, RequestMeta};
use mcp_transport::FrameSender;
use tokio_util::sync::CancellationToken;

use super::stateless::{Said, StatelessCall};
use crate::{
    context::Extensions,
    inputs::Origin,
    session::{Client, Peer, Session},
};

/// What surrounds one request: who asks, in which era, and where its notifications go.
#[derive(Clone)]
pub struct Scope {
    pub(crate) version: ProtocolVersion,
    pub(crate) client: Client,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) principal: Option<Arc<Principal>>,
    pub(crate) is_local: bool,
    pub(crate) peer: Option<Peer>,
    pub(crate) sink: Option<Arc<dyn FrameSender>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) extensions: Extensions,
    /// Fires when the connection ends, where that is not the end of the server.
    pub(crate) ending: Option<CancellationToken>,
    /// What the metadata of the request said, where it was read already.
    pub(crate) said: Option<Said>,
}

impl Scope {
    /// A request of a legacy session.
    #[must_use]
    pub fn session(session: Arc<Session>) -> Self {
        Self::new(session.version(), Client::Session(session), None)
    }

    /// A request that stands alone (2026-07-28).
    #[must_use]
    pub fn stateless(call: StatelessCall) -> Self {
        let scope = Self::new(call.version, Client::Request(call.client), call.log_level);
        Self { said: Some(call.said), ..scope }
    }

    /// A request of a revision with a handshake, to a server that keeps no sessions: nothing is known of the client, and
    /// what a session would have is not there, such as tasks and log records ([`Server::initialize_sessionless`](crate::Server::initialize_sessionless)).
    #[must_use]
    pub fn sessionless(version: ProtocolVersion) -> Self {
        Self::new(version, Client::Request(Arc::default()), None)
    }

    /// Whether the revision has sessions, and the request is in none.
    pub(crate) fn lacks_session(&self) -> bool {
        self.version.has_handshake() && self.client.session().is_none()
    }

    /// A request before the handshake, in the newest revision that has one.
    pub(crate) fn unopened(versions: &[ProtocolVersion]) -> Self {
        let version = versions.iter().copied().find(|version| version.has_handshake());
        Self::new(version.unwrap_or(ProtocolVersion::LATEST_LEGACY), Client::Request(Arc::default()), None)
    }

    pub(crate) fn new(version: ProtocolVersion, client: Client, log_level: Option<LoggingLevel>) -> Self {
        Self {
            version,
            client,
            log_level,
            principal: None,
            is_local: false,
            peer: None,
            sink: None,
            cancel: CancellationToken::new(),
            extensions: Extensions::default(),
            ending: None,
            said: None,
        }
    }

    /// What the metadata of the request says, as [`Era::of`](crate::engine::Era::of) has read it, so that it is not read again.
    #[must_use]
    pub fn saying(mut self, meta: Option<&RequestMeta<'_>>) -> Self {
        self.said = Some(meta.map(Said::of).unwrap_or_default());
        self
    }

    /// Where notifications about this request go; without one they are dropped.
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn FrameSender>) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Who was authenticated.
    #[must_use]
    pub fn principal(mut self, principal: Option<Arc<Principal>>) -> Self {
        self.principal = principal;
        self
    }

    /// The caller owns the process (stdio, in memory), so that scopes do not apply to it.
    #[must_use]
    pub fn local(mut self) -> Self {
        self.is_local = true;
        self
    }

    /// The connection that the request came on, where several share one: its limit holds, and cancellations find the
    /// request by its id.
    #[must_use]
    pub fn peer(mut self, peer: Peer) -> Self {
        self.peer = Some(peer);
        self
    }

    /// What fires when the connection ends.
    #[must_use]
    pub(crate) fn ending(mut self, ending: CancellationToken) -> Self {
        self.ending = Some(ending);
        self
    }

    /// Values for the `Extension` extractor.
    #[must_use]
    pub fn extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    /// The client and the stream, for input requests.
    pub(crate) fn origin(&self) -> Origin<'_> {
        Origin {
            client: &self.client,
            principal: self.principal.as_deref(),
            sink: self.sink.as_ref(),
            cancel: &self.cancel,
        }
    }

    /// The revision that the answer speaks.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope")
            .field("version", &self.version)
            .field("is_local", &self.is_local)
            .finish_non_exhaustive()
    }
}
