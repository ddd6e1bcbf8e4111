//! The surroundings of one request: its client, its era, and the stream for its notifications.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{LoggingLevel, Principal, ProtocolVersion, RequestMeta};
use mcp_transport::FrameSender;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Caller,
    stateless::{ParsedMeta, StatelessCall},
};
use crate::{
    access::Access,
    context::Extensions,
    inputs::Origin,
    session::{Client, Peer, Session},
    shutdown::{Cause, Shutdown},
    trace,
};

/// The surroundings of one request: its client, its era, and the stream for its notifications.
#[derive(Clone)]
pub struct Scope {
    pub(crate) version: ProtocolVersion,
    pub(crate) client: Client,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) principal: Option<Arc<Principal>>,
    pub(crate) is_local: bool,
    /// Whether a transport carries the request. The calls of the application itself have none.
    has_transport: bool,
    pub(crate) surroundings: Surroundings,
    pub(crate) cancel: CancellationToken,
    pub(crate) extensions: Extensions,
    /// The metadata of the request, if it was read already.
    pub(crate) parsed_meta: Option<ParsedMeta>,
}

/// The part of a scope that the transport knows before it reads the message.
#[derive(Clone, Default)]
pub(crate) struct Surroundings {
    /// The connection that carries all messages in one stream.
    connection: Option<Arc<ConnectionData>>,
    peer: Option<Peer>,
    sink: Option<Arc<dyn FrameSender>>,
    /// How long the request may run after a shutdown began. Unlimited by default.
    pub(crate) grace_period: Option<Duration>,
    /// The end of the caller's authentication. A stream ends then.
    pub(crate) valid_until: Option<Instant>,
}

/// The data of a connection, which its requests share.
pub(crate) struct ConnectionData {
    pub(crate) caller: Caller,
    pub(crate) peer: Peer,
    pub(crate) sender: Arc<dyn FrameSender>,
    /// The end of the connection, also by the shutdown of the server.
    pub(crate) ending: Shutdown,
    /// How long calls may run after `ending`.
    pub(crate) grace_period: Duration,
}

impl Surroundings {
    /// Returns the surroundings of a request on a connection.
    pub(crate) fn of_connection(connection: &Arc<ConnectionData>) -> Self {
        let grace_period = Some(connection.grace_period);
        Self { connection: Some(connection.clone()), grace_period, ..Self::default() }
    }

    /// Sets the stream for notifications about a request that is not on a connection.
    pub(crate) fn set_sink(&mut self, sink: Option<Arc<dyn FrameSender>>) {
        self.sink = sink;
    }

    /// Sets the session of a request that is not on a connection.
    pub(crate) fn set_peer(&mut self, peer: Peer) {
        self.peer = Some(peer);
    }

    /// Returns the connection or the session, if several requests share it.
    pub(crate) fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref().or_else(|| Some(&self.connection.as_ref()?.peer))
    }

    /// Returns the stream for notifications about the request. Without a stream they are dropped.
    pub(crate) fn sink(&self) -> Option<&Arc<dyn FrameSender>> {
        self.sink.as_ref().or_else(|| Some(&self.connection.as_ref()?.sender))
    }

    /// Returns the end of the connection. Without it, the shutdown of the server ends the request.
    fn ending(&self) -> Option<&Shutdown> {
        Some(&self.connection.as_ref()?.ending)
    }
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

    /// Whether a rule allows the caller. Each rule allows a local caller.
    pub(crate) fn has_access(&self, rule: &Access) -> bool {
        self.is_local || rule.allows(self.principal.as_deref())
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
            has_transport: true,
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
        self.surroundings.set_sink(Some(sink));
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

    /// Marks the caller as the application itself, which calls the server without a transport.
    #[must_use]
    pub(crate) fn without_transport(mut self) -> Self {
        self.has_transport = false;
        self.local()
    }

    /// Returns the value of `network.transport`, or `None` for a call of the application itself.
    pub(crate) fn transport(&self) -> Option<&'static str> {
        self.has_transport.then(|| trace::transport(self.is_local))
    }

    /// Sets the connection of the request. Its limit applies, and a cancellation finds the request by its id.
    #[must_use]
    pub fn peer(mut self, peer: Peer) -> Self {
        self.surroundings.set_peer(peer);
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
            sink: self.surroundings.sink(),
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
        self.surroundings.ending().unwrap_or(server)
    }

    /// Waits for the end of the caller's authentication.
    pub(crate) async fn authentication_ended(&self) {
        match self.surroundings.valid_until {
            // Boxed, because only streams wait, and all of them would carry the memory of the timer.
            Some(end) => Box::pin(tokio::time::sleep_until(end)).await,
            None => std::future::pending().await,
        }
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
