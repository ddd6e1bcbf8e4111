//! HTTP+SSE, the transport of 2024-11-05: one stream for all messages of the server, and a POST for each message of the
//! client. The stream and its POSTs together are a `Transport`, which the core serves like stdio.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::extract::OriginalUri;
use bytes::Bytes;
use http::{Method, Response, StatusCode, request::Parts};
use mcp_protocol::RpcError;
use mcp_server_core::{Caller, engine::Engine as _};
use mcp_transport::{Frame, FrameSender, Transport, TransportError, sse};
use parking_lot::{Mutex, MutexGuard};
use tokio::task::AbortHandle;

use super::{
    Legacy,
    owner::Owner,
    sessions::{self, Reservation},
};
use crate::{
    answer::{
        body::{Body, EventStream},
        cors,
        message_queue::{MessageQueue, QueueReader},
        respond,
        stream::{KeepAlive, StreamEnd},
    },
    config::SsePaths,
    endpoint::{Endpoint, RequestParts, auth::Authentication},
    request::accept::{self, Accepted},
};

/// The bytes of an event that one write receives. A client that reads a large event slowly so makes visible progress.
const PIECE: usize = 64 << 10;

/// The open streams by their ids.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    table: Mutex<HashMap<Box<str>, Arc<Inbox>>>,
}

impl Streams {
    fn table(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Inbox>>> {
        self.table.lock()
    }

    /// Ends all streams.
    pub(crate) fn clear(&self) {
        for inbox in self.table().values() {
            inbox.queue.close();
        }
    }
}

/// The messages that the client of a stream sends.
#[derive(Debug)]
pub(crate) struct Inbox {
    queue: Arc<MessageQueue>,
    /// The key of the principal that opened the stream. Only this principal may send.
    owner: Option<Owner>,
    /// Whether the client has sent a message.
    is_used: AtomicBool,
}

impl Inbox {
    /// Delivers a message of the client. The stream carries the response to it.
    pub(crate) async fn deliver(&self, message: Bytes) -> Response<Body> {
        self.is_used.store(true, Ordering::Release);
        match self.queue.send(Frame::new(message)).await {
            Ok(()) => respond::empty(StatusCode::ACCEPTED),
            Err(_) => respond::refusal(StatusCode::NOT_FOUND, &RpcError::invalid_request("the stream was closed")),
        }
    }
}

/// The entry of a stream in the table, and its place among the sessions. Dropping it removes both.
struct Listed {
    streams: Arc<Streams>,
    id: Box<str>,
    _place: Reservation,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.streams.table().remove(&self.id);
    }
}

/// The route of a request by its path and method.
pub(crate) enum SseRoute {
    Open,
    Message,
}

/// Returns the route of a request, or the response to a request that needs no authentication.
pub(crate) fn route(endpoint: &Endpoint, paths: &SsePaths, parts: &Parts) -> Result<SseRoute, Response<Body>> {
    let path = parts.uri.path();
    let methods = paths.methods(path);
    match parts.method {
        Method::GET if path == paths.stream => Ok(SseRoute::Open),
        Method::POST if path == paths.messages => Ok(SseRoute::Message),
        Method::OPTIONS => Err(cors::preflight(&parts.headers, methods, &endpoint.cors)),
        _ => Err(respond::wrong_method(methods)),
    }
}

/// Opens a stream. Its first event has the path for messages.
pub(crate) fn open(
    legacy: &Legacy,
    paths: &SsePaths,
    parts: &mut Parts,
    authentication: &Authentication,
) -> Response<Body> {
    if !Accepted::of(&parts.headers).sse {
        let error = RpcError::invalid_request("Accept must list text/event-stream");
        return respond::refusal(StatusCode::NOT_ACCEPTABLE, &error);
    }
    let Ok(id) = sessions::new_id() else {
        tracing::error!("the system has no random numbers for a session id");
        let error = RpcError::internal("no session can be opened");
        return respond::refusal(StatusCode::INTERNAL_SERVER_ERROR, &error);
    };
    let principal = authentication.caller.clone();
    let owner = principal.as_deref().map(Owner::of);
    let Some(place) = legacy.sessions.reserve(id.clone(), owner.clone()) else {
        return respond::too_many_sessions(None);
    };
    let endpoint = format!("{}{}?sessionId={id}", prefix(paths, parts), paths.messages);
    let config = &legacy.endpoint.config;
    let outbox = Arc::new(MessageQueue::with_stall_timeout(config.write_timeout));
    let queue = Arc::new(MessageQueue::with_stall_timeout(config.body_timeout));
    let (outgoing, incoming) = (QueueReader(outbox.clone()), QueueReader(queue.clone()));
    let valid_until = authentication.valid_until;
    let inbox = Arc::new(Inbox { queue, owner, is_used: AtomicBool::new(false) });
    legacy.streams.table().insert(id.clone(), inbox.clone());
    let listed = Listed { streams: legacy.streams.clone(), id: id.clone(), _place: place };
    let extensions = RequestParts::take(parts).into_extensions();
    let caller = Caller::remote().session_id(id).principal(principal).extensions(extensions);
    let legacy_endpoint = legacy.endpoint.clone();
    let serving = tokio::spawn(async move {
        // The future is created inside the task: moving it in would reserve its size twice.
        serve(&legacy_endpoint, Channel { outbox, incoming }, caller, inbox).await;
        drop(listed);
    });
    respond::events(Body::stream(Reading {
        rest: sse::Event::new(endpoint.as_bytes()).with_event("endpoint").encode(),
        outgoing,
        keep_alive: KeepAlive::new(config.keep_alive),
        end: StreamEnd::at(valid_until),
        serving: serving.abort_handle(),
    }))
}

/// Serves a stream until its client disconnects, sends no first message, or stops reading, or until the server shuts down.
async fn serve(endpoint: &Endpoint, channel: Channel, caller: Caller, inbox: Arc<Inbox>) {
    let (outbox, config) = (channel.outbox.clone(), &endpoint.config);
    let unused = async {
        tokio::time::sleep(config.session_opening).await;
        if inbox.is_used.load(Ordering::Acquire) {
            std::future::pending().await
        }
    };
    tokio::select! {
        served = endpoint.server.serve_with_grace_period(channel, caller, config.shutdown_deadline) => {
            if let Err(error) = served {
                tracing::debug!(%error, "a stream ended early");
            }
        }
        () = unused => tracing::debug!("an unused stream is closed"),
        () = outbox.closed() => {}
    }
    outbox.close();
}

/// Returns the stream of a message, before the body is read. A stream of another principal is unknown.
pub(crate) fn addressed(
    legacy: &Legacy,
    parts: &Parts,
    authentication: &Authentication,
) -> Result<Arc<Inbox>, Response<Body>> {
    let refuse = |status, text: &str| Err(respond::refusal(status, &RpcError::invalid_request(text)));
    let Some(id) = parts.uri.query().and_then(session_id) else {
        return refuse(
            StatusCode::BAD_REQUEST,
            "the parameter sessionId is missing: the first event of the stream has the path for messages",
        );
    };
    if !accept::is_json(&parts.headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json");
    }
    let caller = authentication.caller.as_deref();
    let inbox = legacy.streams.table().get(id).filter(|inbox| Owner::is_same(inbox.owner.as_ref(), caller)).cloned();
    inbox.map_or_else(
        || {
            let text = match legacy.endpoint.server.node() {
                None => "unknown sessionId: its stream is closed",
                Some(_) => {
                    "unknown sessionId: its stream is closed or at another node, and the balancer has to send all requests with a \
                     sessionId to the node of its stream"
                }
            };
            refuse(StatusCode::NOT_FOUND, text)
        },
        Ok,
    )
}

fn session_id(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("sessionId="))
}

/// Returns the path prefix of an endpoint that is nested in an application.
fn prefix(paths: &SsePaths, parts: &Parts) -> String {
    let original = parts.extensions.get::<OriginalUri>().map(|OriginalUri(uri)| uri.path());
    original.and_then(|path| path.strip_suffix(&*paths.stream)).unwrap_or_default().to_owned()
}

/// The two queues of a stream as a transport.
struct Channel {
    outbox: Arc<MessageQueue>,
    incoming: QueueReader,
}

impl Transport for Channel {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        self.incoming.0.poll_pop(cx).map(|message| message.map(|message| Ok(Frame::new(message))))
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.outbox.clone()
    }
}

/// The body of a stream. Dropping it ends the session.
pub(crate) struct Reading {
    /// The unsent rest of the current event.
    rest: Bytes,
    outgoing: QueueReader,
    keep_alive: KeepAlive,
    /// Ends the stream with the authentication of its client.
    end: StreamEnd,
    serving: AbortHandle,
}

impl EventStream for Reading {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if this.end.poll_over(cx) {
            return Poll::Ready(None);
        }
        if this.rest.is_empty() {
            match this.outgoing.0.poll_pop(cx) {
                Poll::Ready(Some(message)) => {
                    this.rest = sse::Event::new(&message).with_event("message").encode();
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return this.keep_alive.poll(cx).map(Some),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE));
        this.outgoing.0.record_progress();
        this.keep_alive.restart();
        Poll::Ready(Some(piece))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
