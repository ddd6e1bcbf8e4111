//! HTTP+SSE, the transport of 2024-11-05: one stream for all that the server says, and a POST for each message of the
//! client. Each stream is a connection that carries everything, as stdio is.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::extract::OriginalUri;
use bytes::Bytes;
use http::{Method, Response, StatusCode, request::Parts};
use mcp_protocol::{Principal, RpcError};
use mcp_server_core::{Caller, Server};
use mcp_transport::{Frame, FrameSender, Transport, TransportError, sse};
use parking_lot::{Mutex, MutexGuard};
use tokio::task::AbortHandle;

use super::{
    Legacy,
    message_queue::{Lane, LaneEnd, lane},
    sessions,
};
use crate::{
    answer::{
        body::{Body, EventStream},
        cors, respond,
        stream::Silence,
    },
    config::SsePaths,
    endpoint::{self, RequestParts},
    request::accept::{self, Accepted},
};

/// So much of an event is given to the connection at once.
const PIECE: usize = 64 << 10;

/// The open streams, by the ids that their clients were given.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    table: Mutex<HashMap<Box<str>, Arc<Inbox>>>,
}

impl Streams {
    fn table(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Inbox>>> {
        self.table.lock()
    }

    /// Ends all of them.
    pub(crate) fn clear(&self) {
        for inbox in self.table().values() {
            inbox.lane.close();
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.table().len()
    }
}

/// What the client of a stream sends.
#[derive(Debug)]
pub(crate) struct Inbox {
    lane: Arc<Lane>,
    /// Who opened the stream; nobody else may send.
    owner: Option<String>,
    /// Whether anything came.
    is_used: AtomicBool,
}

impl Inbox {
    /// Takes a message of the client. What is answered to it comes on the stream.
    pub(crate) async fn deliver(&self, message: Bytes) -> Response<Body> {
        self.is_used.store(true, Ordering::Release);
        match self.lane.send(Frame::new(message)).await {
            Ok(()) => respond::empty(StatusCode::ACCEPTED),
            Err(_) => respond::refusal(StatusCode::NOT_FOUND, &RpcError::invalid_request("the stream was closed")),
        }
    }
}

/// A stream in the table, until it is dropped.
struct Listed {
    streams: Arc<Streams>,
    id: Box<str>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.streams.table().remove(&self.id);
    }
}

/// Whether a request is for this transport, and how it is answered by its method.
pub(crate) enum SseRoute {
    Open,
    Message,
    Answered(Response<Body>),
}

pub(crate) fn route(paths: &SsePaths, parts: &Parts) -> SseRoute {
    let path = parts.uri.path();
    let methods = paths.methods(path);
    match parts.method {
        Method::GET if path == paths.stream => SseRoute::Open,
        Method::POST if path == paths.messages => SseRoute::Message,
        Method::OPTIONS => SseRoute::Answered(cors::preflight(&parts.headers, methods)),
        _ => SseRoute::Answered(respond::wrong_method(methods)),
    }
}

/// Opens a stream. Its first event says where messages are sent to.
pub(crate) fn open(legacy: &Legacy, paths: &SsePaths, parts: Parts) -> Response<Body> {
    if !Accepted::of(&parts.headers).sse {
        let error = RpcError::invalid_request("Accept must list text/event-stream");
        return respond::refusal(StatusCode::NOT_ACCEPTABLE, &error);
    }
    let Ok(id) = sessions::new_id() else {
        tracing::error!("the system has no random numbers for a session id");
        let error = RpcError::internal("no session can be opened");
        return respond::refusal(StatusCode::INTERNAL_SERVER_ERROR, &error);
    };
    let endpoint = format!("{}{}?sessionId={id}", prefix(paths, &parts), paths.messages);
    let config = &legacy.endpoint.config;
    let (outbox, outgoing) = lane(config.write_timeout);
    let (inbox, incoming) = lane(config.body_timeout);
    let principal = endpoint::principal(&parts.extensions);
    let owner = principal.as_deref().map(Principal::key);
    let inbox = Arc::new(Inbox { lane: inbox, owner, is_used: AtomicBool::new(false) });
    let sessions = legacy.sessions.len();
    {
        let mut table = legacy.streams.table();
        if table.len() + sessions >= config.sessions {
            return respond::too_many_sessions(None);
        }
        table.insert(id.clone(), inbox.clone());
    }
    let listed = Listed { streams: legacy.streams.clone(), id: id.clone() };
    let extensions = RequestParts::of(parts).into_extensions();
    let caller = Caller::remote().session_id(id).principal(principal).extensions(extensions);
    let (server, opening) = (legacy.endpoint.server.clone(), config.session_opening);
    let serving = tokio::spawn(async move {
        // Made in here: a future that is moved in has its room twice.
        serve(server, Channel { outbox, incoming }, caller, inbox, opening).await;
        drop(listed);
    });
    respond::events(Body::stream(Reading {
        rest: sse::Event::new(endpoint.as_bytes()).with_event("endpoint").encode(),
        outgoing,
        silence: Silence::new(config.keep_alive),
        serving: serving.abort_handle(),
    }))
}

/// Serves a stream until its client has left, said nothing at first or stopped reading, or until the server shuts down.
async fn serve(server: Server, channel: Channel, caller: Caller, inbox: Arc<Inbox>, opening: Duration) {
    let outbox = channel.outbox.clone();
    let unused = async {
        tokio::time::sleep(opening).await;
        if inbox.is_used.load(Ordering::Acquire) {
            std::future::pending().await
        }
    };
    tokio::select! {
        served = server.serve_as(channel, caller) => {
            if let Err(error) = served {
                tracing::debug!(%error, "a stream ended early");
            }
        }
        () = unused => tracing::debug!("a stream that was not used is closed"),
        () = outbox.closed() => {}
    }
    outbox.close();
}

/// The stream that a message is for, which is found before any of its body is read.
/// To whoever did not open it, it does not exist.
pub(crate) fn addressed(legacy: &Legacy, parts: &Parts) -> Result<Arc<Inbox>, Response<Body>> {
    let refuse = |status, text: &str| Err(respond::refusal(status, &RpcError::invalid_request(text)));
    let Some(id) = parts.uri.query().and_then(session_id) else {
        return refuse(StatusCode::BAD_REQUEST, "the parameter sessionId is missing: the stream says where to send to");
    };
    if !accept::is_json(&parts.headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json");
    }
    let caller = endpoint::principal(&parts.extensions).map(|principal| principal.key());
    let inbox = legacy.streams.table().get(id).filter(|inbox| inbox.owner == caller).cloned();
    inbox.map_or_else(|| refuse(StatusCode::NOT_FOUND, "unknown sessionId: its stream is closed"), Ok)
}

fn session_id(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("sessionId="))
}

/// What stands before our paths where the endpoint is nested in an application.
fn prefix(paths: &SsePaths, parts: &Parts) -> String {
    let original = parts.extensions.get::<OriginalUri>().map(|OriginalUri(uri)| uri.path());
    original.and_then(|path| path.strip_suffix(&*paths.stream)).unwrap_or_default().to_owned()
}

/// The two lanes as a transport.
struct Channel {
    outbox: Arc<Lane>,
    incoming: LaneEnd,
}

impl Transport for Channel {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        self.incoming.poll_take(cx).map(|message| message.map(|message| Ok(Frame::new(message))))
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.outbox.clone()
    }
}

/// The body of a stream. Dropping it ends the session.
pub(crate) struct Reading {
    /// What is left of the event that is being sent.
    rest: Bytes,
    outgoing: LaneEnd,
    silence: Silence,
    serving: AbortHandle,
}

impl EventStream for Reading {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            match this.outgoing.poll_take(cx) {
                Poll::Ready(Some(message)) => {
                    this.rest = sse::Event::new(&message).with_event("message").encode();
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return this.silence.poll(cx).map(Some),
            }
        }
        // In pieces, so that a client that takes its time for a large event is seen to take it.
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        this.outgoing.moved();
        this.silence.broken();
        Poll::Ready(Some(piece))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
