//! The session era over HTTP: sessions of Streamable HTTP (2025-03-26 to 2025-11-25), sessionless mode, and HTTP+SSE.

mod call;
mod elsewhere;
mod event_log;
mod follow;
mod followers;
mod listen;
mod owner;
mod session_store;
pub(crate) mod sessionless;
pub(crate) mod sessions;
mod shared;
pub(crate) mod sse;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use mcp_protocol::{
    ErrorCode, Principal, ProtocolVersion, RequestId, RpcError,
    jsonrpc::{self, Notification, Request},
};
use mcp_server_core::{
    Caller,
    engine::{Engine as _, MadeChanges, Peer, Refusal, Reply, Scope, Session, SessionRequest},
};
use mcp_transport::FrameSender;
use tokio::{
    runtime::Handle,
    time::{Instant, timeout},
};

use self::{
    call::{Answer, Bounds, CallStream},
    event_log::{EventLog, Place, STANDALONE},
    follow::Following,
    listen::Listening,
    owner::Owner,
    sessions::{HttpSession, Open, SessionLimits, Sessions, Unusable},
    shared::SharedSessions,
    sse::Streams,
};
use crate::{
    answer::{
        body::Body,
        respond,
        stream::{Answering, StreamEnd},
    },
    endpoint::{Endpoint, FLUSH, Head},
    request::{
        accept::Accepted,
        headers::{self, VersionHeader},
    },
};

/// The open sessions of an endpoint, and its streams of HTTP+SSE.
pub(crate) struct Legacy {
    endpoint: Arc<Endpoint>,
    pub(crate) sessions: Arc<Sessions>,
    /// The sessions in the shared store. `None` if the server runs alone.
    shared: Option<Arc<SharedSessions>>,
    streams: Arc<Streams>,
}

impl Legacy {
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> Self {
        let config = &endpoint.config;
        let adopts = endpoint.auth.adopts_sessions();
        let limits = SessionLimits {
            count: config.sessions,
            anonymous: if adopts { config.sessions.div_ceil(2) } else { config.sessions },
            idle: config.session_idle_timeout,
            opening: config.session_opening,
            event_bytes: config.event_bytes,
            per_principal: config.sessions_per_principal,
            adopts,
        };
        let sessions = Arc::new(Sessions::new(limits));
        let node = endpoint.server.node().filter(|_| config.has_sessions);
        let shared = node.and_then(|node| SharedSessions::new(node, &endpoint.server, &sessions, config));
        Self { sessions, shared, streams: Arc::default(), endpoint }
    }

    /// Does the periodic work if it is due. Each request calls this, so it is cheap.
    pub(crate) fn tick(&self) {
        if self.sessions.tick()
            && let Some(shared) = &self.shared
        {
            shared.touch_open();
        }
    }

    /// Stores the changes by a message of the client. Returns false if the store does not have them. The session then takes them back.
    async fn saved(&self, http: &Arc<HttpSession>, made: MadeChanges) -> bool {
        match &self.shared {
            // Boxed, because few messages change the session.
            Some(shared) if http.session.has_changes() => Box::pin(shared.save_changes(http, made)).await,
            _ => !http.session.has_discarded_since(&made),
        }
    }

    pub(crate) fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Ends all sessions and streams. Their calls may outlive their connections, but not the endpoint.
    pub(crate) fn end(&self) {
        self.sessions.clear();
        self.streams.clear();
    }
}

impl Drop for Legacy {
    fn drop(&mut self) {
        let (sessions, streams, shared) = (self.sessions.clone(), self.streams.clone(), self.shared.clone());
        let server = self.endpoint.server.clone();
        let may_have_calls = server.is_shutting_down() && sessions.len() > 0;
        let end = move || {
            sessions.clear();
            streams.clear();
            if let Some(shared) = shared {
                shared.stop();
            }
        };
        match Handle::try_current() {
            // An application drops its router before it waits for `Server::ended`. The calls of sessions keep their grace period.
            Ok(runtime) if may_have_calls => {
                let limit = self.endpoint.config.shutdown_deadline.saturating_add(FLUSH);
                runtime.spawn(async move {
                    let _ = timeout(limit, server.work().ended()).await;
                    end();
                });
            }
            _ => end(),
        }
    }
}

/// Answers `initialize` and opens a session.
pub(crate) async fn initialize(legacy: &Legacy, request: &Request<'_>, head: &Head) -> Response<Body> {
    let refuse = |status, error: &RpcError| respond::error_with_id(status, Some(&request.id), error);
    let caller = Caller::remote().principal(head.principal.clone());
    let server = &legacy.endpoint.server;
    // A caller without access must neither find a session nor reserve a place. The server records the rejection.
    if server.admit(&caller).is_err()
        && let Err(refusal) = server.initialize_sessionless(request, &caller)
    {
        return not_opened(request, refusal);
    }
    let record_rejection = |code| server.record_rejection(Some(&request.method), &caller, code);
    if head.headers.contains_key(headers::SESSION_ID) {
        record_rejection(ErrorCode::INVALID_REQUEST);
        // Also for the id of an expired session: the client learns that it has to initialize without an id.
        return match session_id(legacy, head, Some(&request.id)) {
            Ok(id) if is_usable(legacy, id, head.principal.as_deref()).await => {
                let error = RpcError::invalid_request(
                    "this session is open already: `initialize` starts a new one without Mcp-Session-Id",
                );
                refuse(StatusCode::BAD_REQUEST, &error)
            }
            Ok(_) => unknown_session(Some(&request.id)),
            Err(response) => response,
        };
    }
    let cannot_open = || {
        record_rejection(ErrorCode::INTERNAL_ERROR);
        refuse(StatusCode::INTERNAL_SERVER_ERROR, &RpcError::internal("no session can be opened"))
    };
    let Ok(id) = sessions::new_id() else {
        tracing::error!("the system has no random numbers for a session id");
        return cannot_open();
    };
    let Ok(value) = HeaderValue::try_from(&*id) else { return cannot_open() };
    // The place is reserved first: the record of an `initialize` that succeeds must not belong to a 503.
    let owner = head.principal.as_deref().map(Owner::of);
    let Some(reserved) = legacy.sessions.reserve(id.clone(), owner) else {
        record_rejection(ErrorCode::INTERNAL_ERROR);
        return respond::too_many_sessions(Some(&request.id));
    };
    let log = match &legacy.shared {
        Some(shared) => match shared.log(&id) {
            Ok(log) => log,
            Err(_) => return cannot_open(),
        },
        None => Arc::new(EventLog::new(&id, legacy.sessions.budget().clone())),
    };
    let peer = Peer::new(log.clone(), server.limits().handlers_per_session);
    let opener = caller.clone().session_id(id.clone());
    let (session, reply) = match server.initialize(request, &opener, &peer) {
        Ok(opened) => opened,
        Err(refusal) => return not_opened(request, refusal),
    };
    let version = session.version();
    let http = reserved.insert(session, peer, log);
    if let Some(shared) = &legacy.shared
        && Box::pin(shared.create(&http, &id)).await.is_err()
    {
        record_rejection(ErrorCode::INTERNAL_ERROR);
        return respond::store_unavailable(Some(&request.id));
    }
    let response = respond::with_version(respond::legacy(reply), version);
    respond::with_header(response, headers::SESSION_ID, value)
}

/// Answers an `initialize` that fails.
pub(crate) fn not_opened(request: &Request<'_>, refusal: Refusal) -> Response<Body> {
    let status = match &refusal {
        Refusal::Error(error) if error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    respond::refused(status, Some(&request.id), refusal)
}

/// Serves a request of an open session. The request continues when the connection is lost. Only
/// `notifications/cancelled` or the end of the session cancels it.
pub(crate) async fn request(
    legacy: &Legacy,
    request: Box<SessionRequest<'_>>,
    accepted: Accepted,
    head: &Head,
) -> Response<Body> {
    let id = request.id().clone();
    let http = match open(legacy, head, Some(&id)).await {
        Ok(http) => http,
        Err(response) => {
            let is_full = response.status() == StatusCode::SERVICE_UNAVAILABLE;
            request.record_rejection(if is_full { ErrorCode::INTERNAL_ERROR } else { ErrorCode::INVALID_REQUEST });
            return response;
        }
    };
    let call = Call::new(legacy, http, head.valid_until, Some(id.clone()));
    let (session, peer) = (call.http.session.clone(), call.http.peer.clone());
    let mark = session.mark_changes();
    let prepared = match request.in_session(&legacy.endpoint.server, session, call.sink(accepted), peer) {
        Ok(prepared) => prepared,
        Err(refusal) => return refused(&id, refusal, call.version),
    };
    let made = call.http.session.changes_since(mark);
    if !accepted.json {
        // The client accepts streams only, so the stream is opened at once and can be resumed.
        call.stream.open();
    }
    // A response that exists already needs no work, unless the stream has to carry it.
    let prepared = if call.stream.is_open() { Err(prepared) } else { prepared.into_reply() };
    match prepared {
        Ok(_) if !legacy.saved(&call.http, made).await => respond::store_unavailable(Some(&id)),
        Ok(reply) => respond::with_version(respond::legacy(reply), call.version),
        Err(prepared) => {
            call.answer(|| prepared.run(), |reply: Reply| reply.payload.into_bytes(), respond::legacy).await
        }
    }
}

/// A call of a session: one request, or one batch. Its stream is in the event log of the session.
struct Call<'a> {
    legacy: &'a Legacy,
    http: Arc<HttpSession>,
    version: ProtocolVersion,
    stream: Arc<CallStream>,
    open: Open,
    valid_until: Option<Instant>,
}

impl<'a> Call<'a> {
    fn new(
        legacy: &'a Legacy,
        http: Arc<HttpSession>,
        valid_until: Option<Instant>,
        request: Option<RequestId>,
    ) -> Self {
        let version = http.session.version();
        let stream = Arc::new(CallStream::new(http.log.clone(), version.has_sse_polling(), request));
        Self { legacy, version, stream, open: http.open(), http, valid_until }
    }

    /// Returns the stream for notifications, if the client accepts one.
    fn sink(&self, accepted: Accepted) -> Option<Arc<dyn FrameSender>> {
        accepted.sse.then(|| self.stream.clone() as Arc<dyn FrameSender>)
    }

    /// Runs the call and answers it, as JSON or as the stream that it opened.
    ///
    /// The work is large. An `async fn` would store it beside the box that runs it, in the future of every request.
    fn answer<T: Send + 'static, F: Future<Output = Option<T>> + Send>(
        self,
        work: impl FnOnce() -> F + Send + 'static,
        message: impl FnOnce(T) -> Bytes + Send + 'static,
        respond: impl FnOnce(T) -> Response<Body>,
    ) -> impl Future<Output = Response<Body>> {
        let Self { legacy, http, version, stream, open, valid_until } = self;
        let (answered, request) = (stream.clone(), stream.request().cloned());
        let (shared, session) = (legacy.shared.clone(), http.clone());
        let running = Box::pin(async move {
            let answer = tokio::select! {
                biased;
                answer = work() => answer,
                () = answered.excluded() => {
                    tracing::warn!("a call ends, because the shared store does not take the events of its stream");
                    None
                }
            };
            if let Some(shared) = &shared
                && session.session.has_changes()
                && shared.save(&session).await.is_err()
            {
                tracing::warn!("the changes of a request reach the other nodes late");
            }
            let answer = answered.finish(answer, message).await;
            drop(open);
            answer
        });
        async move {
            let config = &legacy.endpoint.config;
            let response = match call::answer(running, &stream, bounds(legacy, &http)).await {
                Answer::Quiet(Some(answer)) => respond(answer),
                Answer::Quiet(None) => respond::stream(Answering::ended(config.keep_alive)),
                Answer::Streaming(number) => {
                    let listening = Listening::new(http, number, config).answering(request).end_at(valid_until);
                    respond::events(Body::stream(listening))
                }
            };
            respond::with_version(response, version)
        }
    }
}

/// Answers a request that is rejected before it runs.
pub(crate) fn refused(id: &RequestId, refusal: Refusal, version: ProtocolVersion) -> Response<Body> {
    respond::with_version(respond::refused(StatusCode::OK, Some(id), refusal), version)
}

/// Returns the session of a batch, or `None` if its revision has no batches. Fails if the session is unknown.
pub(crate) async fn batch_session(legacy: &Legacy, head: &Head) -> Result<Option<Arc<HttpSession>>, Response<Body>> {
    if !head.headers.contains_key(headers::SESSION_ID) {
        return Ok(None);
    }
    open(legacy, head, None).await.map(|http| Some(http).filter(|http| http.session.version().has_batches()))
}

/// Serves a batch as one call. The notifications of its requests share one stream, and one message has all responses.
pub(crate) async fn batch(
    legacy: &Legacy,
    http: Arc<HttpSession>,
    bytes: &[u8],
    accepted: Accepted,
    caller: &Caller,
    valid_until: Option<Instant>,
) -> Response<Body> {
    let call = Call::new(legacy, http, valid_until, None);
    let sink = call.sink(accepted);
    let scope = || {
        let scope = caller.scope(Scope::session(call.http.session.clone())).peer(call.http.peer.clone());
        let scope = scope.grace_period(legacy.endpoint.config.shutdown_deadline);
        match &sink {
            Some(sink) => scope.sink(sink.clone()),
            None => scope,
        }
    };
    let mark = call.http.session.mark_changes();
    let mut batch = match legacy.endpoint.server.batch(bytes, &call.http.session, &call.http.peer, scope) {
        Ok(batch) => batch,
        Err(refusal) => return respond::refused(StatusCode::BAD_REQUEST, None, refusal),
    };
    let made = call.http.session.changes_since(mark);
    let for_other_nodes = batch.take_for_other_nodes();
    if let Some(shared) = legacy.shared.as_ref().filter(|_| !for_other_nodes.is_empty())
        && let Err(response) = Box::pin(elsewhere::pass_all(shared, &call.http, &for_other_nodes)).await
    {
        // No request of the batch has run, so the client can send the batch again.
        return response;
    }
    if !legacy.saved(&call.http, made).await {
        return respond::store_unavailable(None);
    }
    if batch.is_empty() {
        return respond::empty(StatusCode::ACCEPTED);
    }
    call.answer(|| batch.run(), |answers| answers, |answers| respond::json(Body::whole(answers))).await
}

fn bounds(legacy: &Legacy, http: &Arc<HttpSession>) -> Bounds {
    Bounds {
        server: legacy.endpoint.server.clone(),
        session: http.clone(),
        deadline: legacy.endpoint.config.shutdown_deadline.saturating_add(FLUSH),
    }
}

pub(crate) async fn notification(legacy: &Legacy, notification: &Notification<'_>, head: &Head) -> Response<Body> {
    match open(legacy, head, None).await {
        Ok(http) => {
            let _open = http.open();
            if let Some(shared) = &legacy.shared
                && let Some(request) = elsewhere::cancelled_request(&http, notification)
            {
                let passed = Box::pin(elsewhere::pass_cancellation(shared, &http, request)).await;
                return passed.err().unwrap_or_else(|| respond::empty(StatusCode::ACCEPTED));
            }
            if let Some(shared) = &legacy.shared
                && legacy.endpoint.server.is_progress_elsewhere(&http.session, notification)
            {
                let passed = Box::pin(elsewhere::pass_progress(shared, &http, notification)).await;
                return passed.err().unwrap_or_else(|| respond::empty(StatusCode::ACCEPTED));
            }
            let mark = http.session.mark_changes();
            legacy.endpoint.server.notified(Some(&http.session), &http.peer, notification);
            let made = http.session.changes_since(mark);
            if !legacy.saved(&http, made).await {
                return respond::store_unavailable(None);
            }
            respond::empty(StatusCode::ACCEPTED)
        }
        Err(response) => response,
    }
}

/// Delivers a response of the client to the input request that waits for it. Also accepts a response that is too late.
pub(crate) async fn response(legacy: &Legacy, response: &jsonrpc::Response<'_>, head: &Head) -> Response<Body> {
    match open(legacy, head, None).await {
        Ok(http) => {
            let _open = http.open();
            if http.session.answered(response) {
                return respond::empty(StatusCode::ACCEPTED);
            }
            match (&legacy.shared, response.id.as_ref().and_then(Session::node_of_question)) {
                // Boxed, because few answers arrive at another node.
                (Some(shared), Some(node)) => {
                    let passed = Box::pin(elsewhere::pass_answer(shared, &http, node, response)).await;
                    passed.err().unwrap_or_else(|| respond::empty(StatusCode::ACCEPTED))
                }
                _ => respond::empty(StatusCode::ACCEPTED),
            }
        }
        Err(response) => response,
    }
}

/// Opens the standalone stream of a session, or resumes the stream that `Last-Event-ID` names. A newer connection replaces
/// an older connection of the same stream.
pub(crate) async fn get(legacy: &Legacy, head: &Head) -> Response<Body> {
    if !Accepted::of(&head.headers).sse {
        let error = RpcError::invalid_request("Accept must list text/event-stream");
        return respond::refusal(StatusCode::NOT_ACCEPTABLE, &error);
    }
    match open(legacy, head, None).await {
        Ok(http) => {
            let version = http.session.version();
            if let Some(shared) = &legacy.shared {
                return Box::pin(follow(legacy, shared, &http, head)).await;
            }
            let session = http.clone();
            let listening = match last_seen(&http, &head.headers) {
                Ok(None) => Listening::new(http, STANDALONE, &legacy.endpoint.config),
                Ok(Some(place)) => Listening::after(http, place, &legacy.endpoint.config),
                Err(error) => return respond::refusal(StatusCode::BAD_REQUEST, &error),
            };
            // A principal may have taken over the anonymous session before the stream had its reader.
            if !session.has_owner(head.principal.as_deref()) {
                return unknown_session(None);
            }
            let listening = listening.end_at_shutdown(legacy.endpoint.server.shutting_down());
            let listening = listening.end_at(head.valid_until);
            respond::with_version(respond::events(Body::stream(listening)), version)
        }
        Err(response) => response,
    }
}

/// Reads a stream from the shared store.
async fn follow(legacy: &Legacy, shared: &Arc<SharedSessions>, http: &Arc<HttpSession>, head: &Head) -> Response<Body> {
    let config = &legacy.endpoint.config;
    let place = match last_seen(http, &head.headers) {
        Ok(place) => place,
        Err(error) => return respond::refusal(StatusCode::BAD_REQUEST, &error),
    };
    let version = http.session.version();
    if place.is_some_and(|place| place.seq == Place::END) {
        return respond::with_version(respond::stream(Answering::ended(config.keep_alive)), version);
    }
    let (shutdown, end) = (legacy.endpoint.server.shutting_down(), StreamEnd::at(head.valid_until));
    match Following::start(shared, http, place, config, shutdown, end).await {
        // A principal may have taken over the anonymous session before the stream had its reader.
        Ok(_) if !http.has_owner(head.principal.as_deref()) => unknown_session(None),
        Ok(following) => respond::with_version(respond::events(Body::stream(following)), version),
        Err(Unusable::StoreFailed) => respond::store_unavailable(None),
        Err(_) => unknown_session(None),
    }
}

/// Returns the position of the last event that the client has received.
fn last_seen(http: &HttpSession, head: &HeaderMap) -> Result<Option<Place>, RpcError> {
    let Some(id) = headers::single(head, &headers::LAST_EVENT_ID).map_err(as_invalid)? else { return Ok(None) };
    let place = http.log.place(id);
    place.map(Some).ok_or_else(|| RpcError::invalid_request("Last-Event-ID is not the id of an event of this session"))
}

/// Ends a session.
pub(crate) async fn delete(legacy: &Legacy, head: &Head) -> Response<Body> {
    match open(legacy, head, None).await {
        Ok(http) => {
            if let Some(shared) = &legacy.shared
                && Box::pin(shared.delete(&http)).await.is_err()
            {
                return respond::store_unavailable(None);
            }
            if let Some(id) = http.session.id() {
                legacy.sessions.remove(id);
            }
            respond::empty(StatusCode::NO_CONTENT)
        }
        Err(response) => response,
    }
}

/// Checks the version header, and returns the session of a request. An error carries the id of the request.
async fn open(legacy: &Legacy, head: &Head, id: Option<&RequestId>) -> Result<Arc<HttpSession>, Response<Body>> {
    check_version(&legacy.endpoint, head, id)?;
    let session = session_id(legacy, head, id)?;
    find(legacy, session, head.principal.as_deref()).await.map_err(|reason| match reason {
        Unusable::Unknown => unknown_session(id),
        Unusable::TooMany => respond::too_many_sessions(id),
        Unusable::StoreFailed => respond::store_unavailable(id),
    })
}

/// Returns the revision that the header names. Fails if the server does not support it.
pub(crate) fn check_version(
    endpoint: &Endpoint,
    head: &Head,
    id: Option<&RequestId>,
) -> Result<Option<ProtocolVersion>, Response<Body>> {
    let supported = endpoint.server.versions();
    match head.version {
        VersionHeader::Missing => return Ok(None),
        VersionHeader::Known(version) if supported.contains(&version) => return Ok(Some(version)),
        VersionHeader::Known(_) | VersionHeader::Invalid => {}
    }
    let error = match headers::single(&head.headers, &headers::PROTOCOL_VERSION) {
        Ok(text) => {
            let names: Vec<_> = supported.iter().map(|version| version.as_str()).collect();
            let shown: String = text.unwrap_or_default().chars().take(64).collect();
            let text = format!("Bad MCP-Protocol-Version: {shown}. Supported: {}", names.join(", "));
            RpcError::invalid_request(text)
        }
        Err(error) => as_invalid(error),
    };
    Err(respond::head_error(StatusCode::BAD_REQUEST, id, &error))
}

/// Returns the session with an id. If nodes share a store, this node adopts a session of another node.
async fn find(legacy: &Legacy, id: &str, caller: Option<&Principal>) -> Result<Arc<HttpSession>, Unusable> {
    let found = legacy.sessions.find(id, caller);
    match (&legacy.shared, found) {
        (None, found) => found,
        (Some(shared), Ok(http)) if !shared.needs_store(&http) => Ok(http),
        // Boxed, because few requests need the store.
        (Some(shared), found) => Box::pin(shared.open(id, caller, found)).await,
    }
}

/// Whether the caller can use the session with an id.
async fn is_usable(legacy: &Legacy, id: &str, caller: Option<&Principal>) -> bool {
    match &legacy.shared {
        Some(shared) if !legacy.sessions.contains(id) => Box::pin(shared.exists(id, caller)).await,
        _ => legacy.sessions.is_usable(id, caller),
    }
}

/// Returns the id of the session that the header names.
fn session_id<'a>(legacy: &Legacy, head: &'a Head, request: Option<&RequestId>) -> Result<&'a str, Response<Body>> {
    let id = headers::single(&head.headers, &headers::SESSION_ID)
        .map_err(|error| respond::head_error(StatusCode::BAD_REQUEST, request, &as_invalid(error)))?;
    let Some(id) = id else {
        let mut text = "the header Mcp-Session-Id is missing: open a session by `initialize`".to_owned();
        let newest = legacy.endpoint.server.versions().iter().max().filter(|version| version.is_stateless());
        if let (Some(newest), false) = (newest, head.version != VersionHeader::Missing) {
            text.push_str(&format!(", or send MCP-Protocol-Version: {newest} and the revision in `_meta`"));
        }
        return Err(respond::head_error(StatusCode::BAD_REQUEST, request, &RpcError::invalid_request(text)));
    };
    Ok(id)
}

fn unknown_session(request: Option<&RequestId>) -> Response<Body> {
    let error = RpcError::invalid_request("Unknown Mcp-Session-Id: open a new session by `initialize`");
    respond::head_error(StatusCode::NOT_FOUND, request, &error)
}

/// Returns the same text with the error code of the session era.
fn as_invalid(error: RpcError) -> RpcError {
    RpcError::invalid_request(error.message)
}
