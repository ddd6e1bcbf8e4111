//! The surroundings of one request: its client, its era, and the stream for its notifications.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{LoggingLevel, Principal, ProtocolVersion, RequestMeta};
use mcp_transport::FrameSender;
use tokio_util::sync::CancellationToken;

use super::stateless::{ParsedMeta, StatelessCall};
use crate::{
    context::Extensions,
    inputs::Origin,
    session::{Client, Peer, Session},
    shutdown::{Cause, Shutdown},
};

/// The surroundings of one request: its client, its era, and the stream for its notifications.
#[derive(Clone)]
pub struct Scope {
    pub(crate) version: ProtocolVersion,
    pub(crate) client: Client,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) principal: Option<Arc<Principal>>,
    pub(crate) is_local: bool,
    pub(crate) surroundings: Surroundings,
    pub(crate) cancel: CancellationToken,
    pub(crate) extensions: Extensions,
    /// The metadata of the request, if it was read already.
    pub(crate) parsed_meta: Option<ParsedMeta>,
}

/// The part of a scope that the transport knows before it reads the message.
#[derive(Clone, Default)]
pub(crate) struct Surroundings {
    /// The connection, if several requests share it.
    pub(crate) peer: Option<Peer>,
    /// The stream for notifications about the request. Without a stream they are dropped.
    pub(crate) sink: Option<Arc<dyn FrameSender>>,
    /// The end of the connection. Without it, the shutdown of the server ends the request.
    pub(crate) ending: Option<Shutdown>,
    /// How long the request may run after a shutdown began. Unlimited by default.
    pub(crate) grace_period: Option<Duration>,
}

impl Scope {
    /// Creates the scope of a request in a session.
    #[must_use]
    pub fn session(session: Arc<Session>) -> Self {
        Self::new(session.version(), Client::Session(session), None)
    }

    /// Creates the scope of a request of the stateless era.
    #[must_use]
    pub fn stateless(call: StatelessCall) -> Self {
        let scope = Self::new(call.version, Client::Request(call.client), call.log_level);
        Self { parsed_meta: Some(call.parsed_meta), ..scope }
    }

    /// Creates the scope of a request of the session era in sessionless mode. Nothing is known of the client, and tasks
    /// and log records are not available ([`Engine::initialize_sessionless`](crate::engine::Engine::initialize_sessionless)).
    #[must_use]
    pub fn sessionless(version: ProtocolVersion) -> Self {
        Self::new(version, Client::Request(Arc::default()), None)
    }

    /// Whether the caller was granted all of these scopes, or is local.
    pub(crate) fn has_scopes(&self, required: &[String]) -> bool {
        let granted = |principal: &Principal| required.iter().all(|needed| principal.scopes.contains(needed));
        required.is_empty() || self.is_local || self.principal.as_deref().is_some_and(granted)
    }

    /// Whether the request belongs to the session era but has no session.
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
            surroundings: Surroundings::default(),
            cancel: CancellationToken::new(),
            extensions: Extensions::default(),
            parsed_meta: None,
        }
    }

    /// Sets the metadata of the request, as [`Era::of`](crate::engine::Era::of) read it.
    #[must_use]
    pub fn meta(mut self, meta: Option<&RequestMeta<'_>>) -> Self {
        self.parsed_meta = Some(meta.map(ParsedMeta::of).unwrap_or_default());
        self
    }

    /// Sets the stream for notifications about this request. Without a stream they are dropped.
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn FrameSender>) -> Self {
        self.surroundings.sink = Some(sink);
        self
    }

    /// Sets the authenticated principal.
    #[must_use]
    pub fn principal(mut self, principal: Option<Arc<Principal>>) -> Self {
        self.principal = principal;
        self
    }

    /// Marks the caller as the process's own client, to which scopes do not apply.
    #[must_use]
    pub fn local(mut self) -> Self {
        self.is_local = true;
        self
    }

    /// Sets the connection of the request. Its limit applies, and a cancellation finds the request by its id.
    #[must_use]
    pub fn peer(mut self, peer: Peer) -> Self {
        self.surroundings.peer = Some(peer);
        self
    }

    /// Sets all that the transport knows of the request.
    #[must_use]
    pub(crate) fn within(mut self, surroundings: Surroundings) -> Self {
        self.surroundings = surroundings;
        self
    }

    /// Sets values for the `Extension` extractor.
    #[must_use]
    pub fn extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    /// Returns the client and the stream, for input requests.
    pub(crate) fn origin(&self) -> Origin<'_> {
        Origin {
            client: &self.client,
            principal: self.principal.as_deref(),
            sink: self.surroundings.sink.as_ref(),
            cancel: &self.cancel,
        }
    }

    /// Returns the revision of the response.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }
}

impl Scope {
    /// Sets how long the request may run after a shutdown began. Then it is answered with an error. Unlimited by default.
    #[must_use]
    pub fn grace_period(mut self, limit: Duration) -> Self {
        self.surroundings.grace_period = Some(limit);
        self
    }

    /// Returns the end of the connection, or the shutdown of the server.
    pub(crate) fn ending<'a>(&'a self, server: &'a Shutdown) -> &'a Shutdown {
        self.surroundings.ending.as_ref().unwrap_or(server)
    }

    /// Waits until the grace period is over. Returns the cause of the end.
    pub(crate) async fn grace_period_over(&self, server: &Shutdown) -> Cause {
        let Some(limit) = self.surroundings.grace_period else { return std::future::pending().await };
        // Boxed, because few requests wait at all, and all of them would carry the memory of the timer.
        Box::pin(self.ending(server).is_over(limit)).await
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
