//! Accepts a message: one parse, the era, and for a request of the stateless era all checks before it runs.

use std::{fmt, sync::Arc, time::Duration};

use mcp_protocol::{
    ErrorCode, Message, Method as _, ProtocolVersion, RequestId, RequestMeta, RpcError,
    jsonrpc::{EnvelopeError, Notification, Request, Response},
    meta, method,
};
use mcp_transport::FrameSender;
use tokio::time::Instant;

use super::{Engine as _, Era, MirroredHeaders, Prepared};
use crate::{
    Caller, Peer, Server, Session,
    request::{Refusal, Scope, StatelessCall, Surroundings},
    trace::{self, Ending},
};

/// The surroundings of a message, as its transport knows them.
pub struct Arrival<'a> {
    caller: &'a Caller,
    headers: Option<MirroredHeaders<'a>>,
    surroundings: Surroundings,
}

impl<'a> Arrival<'a> {
    /// Creates the surroundings of a message from a caller.
    #[must_use]
    pub fn new(caller: &'a Caller) -> Self {
        Self { caller, headers: None, surroundings: Surroundings::default() }
    }

    /// Sets the headers that must mirror a request of the stateless era. Without them nothing is compared.
    #[must_use]
    pub fn headers(mut self, headers: MirroredHeaders<'a>) -> Self {
        self.headers = Some(headers);
        self
    }

    /// Sets the stream for notifications about the request. Without a stream they are dropped.
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn FrameSender>) -> Self {
        self.surroundings.set_sink(Some(sink));
        self
    }

    /// Sets the connection, if several requests share it. Its limit applies, and a cancellation finds the request.
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

    /// Sets how long the request may run after a shutdown began. Unlimited by default.
    #[must_use]
    pub fn grace_period(mut self, limit: Duration) -> Self {
        self.surroundings.grace_period = Some(limit);
        self
    }

    /// Sets the end of the caller's authentication. A subscription ends then. Never by default.
    #[must_use]
    pub fn valid_until(mut self, end: Option<Instant>) -> Self {
        self.surroundings.valid_until = end;
        self
    }

    /// Rejects an invalid request, and records it in the access log.
    fn reject(&self, request: &Request<'_>, error: RpcError) -> Rejected {
        self.record_rejection(Some(&request.method), error.code);
        Rejected::malformed(&request.id, error)
    }

    fn record_rejection(&self, method: Option<&str>, code: ErrorCode) {
        trace::refused(method, self.caller.is_local(), self.caller.authenticated(), Ending::Refused(code));
    }

    /// Adds the surroundings to a scope.
    fn complete(self, scope: Scope) -> Scope {
        self.caller.scope(scope).within(self.surroundings)
    }
}

impl fmt::Debug for Arrival<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival").field("caller", &self.caller).finish_non_exhaustive()
    }
}

/// An accepted message. The transport runs a request of the stateless era, and knows the session of all others.
#[derive(Debug)]
#[non_exhaustive]
pub enum Accepted<'a> {
    /// A request of the stateless era, ready to run.
    Request(Box<Prepared>),
    /// `initialize`: the transport opens a session ([`Engine::initialize`](crate::engine::Engine::initialize)).
    Initialize(Request<'a>),
    /// Another request of the session era.
    InSession(Box<SessionRequest<'a>>),
    /// A notification of either era.
    Notification(Notification<'a>),
    /// The response to a request of the server.
    Response(Response<'a>),
}

/// A rejected message.
#[derive(Debug)]
#[non_exhaustive]
pub struct Rejected {
    /// The id of the message, if it could be read.
    pub id: Option<RequestId>,
    /// The reason.
    pub refusal: Refusal,
    /// Whether the message itself is invalid: its JSON, its envelope, its metadata, or its mirrored headers.
    pub is_malformed: bool,
    /// Whether the message is a JSON array, which sessions of 2025-03-26 may send ([`Engine::batch`](crate::engine::Engine::batch)).
    pub is_batch: bool,
}

impl Rejected {
    fn malformed(id: &RequestId, error: RpcError) -> Self {
        Self { id: Some(id.clone()), refusal: error.into(), is_malformed: true, is_batch: false }
    }

    fn refused(id: &RequestId, refusal: Refusal) -> Self {
        Self { id: Some(id.clone()), refusal, is_malformed: false, is_batch: false }
    }
}

impl From<EnvelopeError> for Rejected {
    fn from(error: EnvelopeError) -> Self {
        Self { id: error.id, refusal: error.error.into(), is_malformed: true, is_batch: error.is_batch }
    }
}

/// A request of the session era that waits for its session.
#[derive(Debug)]
pub struct SessionRequest<'a> {
    request: Request<'a>,
    meta: Option<RequestMeta<'a>>,
    arrival: Arrival<'a>,
}

impl SessionRequest<'_> {
    /// Returns the id of the request.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        &self.request.id
    }

    /// Records in the access log that the transport rejects the request instead of preparing it.
    pub fn record_rejection(&self, code: ErrorCode) {
        self.arrival.record_rejection(Some(&self.request.method), code);
    }

    /// Prepares the request in its session. `sink` replaces the stream of the arrival.
    ///
    /// # Errors
    /// See [`Engine::prepare`](crate::engine::Engine::prepare).
    pub fn in_session(
        mut self: Box<Self>,
        server: &Server,
        session: Arc<Session>,
        sink: Option<Arc<dyn FrameSender>>,
        peer: Peer,
    ) -> Result<Box<Prepared>, Refusal> {
        self.arrival.surroundings.set_sink(sink);
        self.arrival.surroundings.set_peer(peer);
        self.on_connection(server, session)
    }

    /// Prepares the request in the session of its connection.
    ///
    /// # Errors
    /// See [`Engine::prepare`](crate::engine::Engine::prepare).
    pub(crate) fn on_connection(
        self: Box<Self>,
        server: &Server,
        session: Arc<Session>,
    ) -> Result<Box<Prepared>, Refusal> {
        self.prepare(server, Scope::session(session))
    }

    /// Prepares the request without a session, in a revision of the session era ([`Engine::initialize_sessionless`](crate::engine::Engine::initialize_sessionless)).
    ///
    /// # Errors
    /// See [`Engine::prepare`](crate::engine::Engine::prepare).
    pub fn sessionless(self: Box<Self>, server: &Server, version: ProtocolVersion) -> Result<Box<Prepared>, Refusal> {
        self.prepare(server, Scope::sessionless(version))
    }

    /// Prepares a request before the handshake. Only `ping` is allowed then.
    ///
    /// # Errors
    /// `-32602` for any other method.
    pub(crate) fn before_handshake(self: Box<Self>, server: &Server) -> Result<Box<Prepared>, Refusal> {
        if self.request.method != method::Ping::NAME {
            let text = format!("{}, and no session was opened by `initialize`", missing_version());
            let error = RpcError::invalid_params(text);
            self.record_rejection(error.code);
            return Err(error.into());
        }
        let scope = Scope::unopened(server.versions());
        server.prepare(&self.request, self.arrival.complete(scope))
    }

    fn prepare(self: Box<Self>, server: &Server, scope: Scope) -> Result<Box<Prepared>, Refusal> {
        let Self { request, meta, arrival } = *self;
        server.prepare(&request, arrival.complete(scope.meta(meta.as_ref())))
    }
}

impl Server {
    pub(crate) fn accept<'a>(&self, bytes: &'a [u8], arrival: Arrival<'a>) -> Result<Accepted<'a>, Rejected> {
        match Message::parse_with(bytes, &self.limits().of_messages()) {
            Ok(Message::Request(request)) => self.accept_request(request, arrival),
            Ok(Message::Notification(notification)) => Ok(Accepted::Notification(notification)),
            Ok(Message::Response(response)) => Ok(Accepted::Response(response)),
            Err(error) => {
                // The transport serves or rejects a batch.
                if !error.is_batch {
                    arrival.record_rejection(None, error.error.code);
                }
                Err(error.into())
            }
        }
    }

    fn accept_request<'a>(&self, request: Request<'a>, arrival: Arrival<'a>) -> Result<Accepted<'a>, Rejected> {
        match Era::of(&request) {
            Err(error) => Err(arrival.reject(&request, error.error)),
            Ok(Era::Stateless(meta)) => self.accept_stateless(&request, &meta, arrival),
            Ok(Era::Initialize) => Ok(Accepted::Initialize(request)),
            Ok(Era::Session(meta)) => {
                let named = arrival.headers.as_ref().and_then(MirroredHeaders::version);
                if named.is_some_and(ProtocolVersion::is_stateless) {
                    return Err(arrival.reject(&request, RpcError::invalid_params(missing_version())));
                }
                if !self.has_legacy_versions() {
                    let error = match &arrival.headers {
                        Some(_) => MirroredHeaders::version_missing(self.versions(), None),
                        None => RpcError::invalid_params(missing_version()),
                    };
                    return Err(arrival.reject(&request, error));
                }
                Ok(Accepted::InSession(Box::new(SessionRequest { request, meta, arrival })))
            }
        }
    }

    fn accept_stateless<'a>(
        &self,
        request: &Request<'_>,
        meta: &RequestMeta<'_>,
        mut arrival: Arrival<'_>,
    ) -> Result<Accepted<'a>, Rejected> {
        let headers = arrival.headers.take();
        let malformed = |error| arrival.reject(request, error);
        let call = StatelessCall::read(meta).map_err(malformed)?;
        if let Some(headers) = &headers {
            headers.check_request(&request.method, meta, call.requested(), self.versions()).map_err(malformed)?;
        }
        let call = call.supported(self).map_err(malformed)?;
        let scope = arrival.complete(Scope::stateless(call));
        let prepared = self.prepare_with(request, scope, headers.as_ref());
        prepared.map(Accepted::Request).map_err(|refusal| Rejected::refused(&request.id, refusal))
    }
}

fn missing_version() -> String {
    format!("`_meta[\"{}\"]` is missing", meta::keys::PROTOCOL_VERSION)
}
