//! The transport: starts a task or an exchange for each sent frame, and returns received frames.

use std::{
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

use http::HeaderMap;
use mcp_protocol::{RequestId, jsonrpc::Message};
use mcp_transport::{BoxFuture, Exchange, Frame, FrameSender, Route, Transport, TransportError, TrySendError};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::timeout,
};

use crate::{
    exchange::{self, Place},
    fault::Fault,
    headers,
    http_request::HttpRequest,
    listen, post, request,
    shared::{MAX_POSTS, Received, Shared},
};

/// The receiving half. Dropping it ends all tasks of the transport.
pub(crate) struct HttpTransport {
    inbound: mpsc::Receiver<Received>,
    shared: Arc<Shared>,
}

/// The longest wait for running POSTs on shutdown.
const LAST_POSTS: Duration = Duration::from_secs(2);
/// The longest wait for the end of the session.
const DELETE_TIMEOUT: Duration = Duration::from_secs(3);

impl HttpTransport {
    pub(crate) fn new(shared: Arc<Shared>, inbound: mpsc::Receiver<Received>) -> Self {
        Self { inbound, shared }
    }
}

impl Transport for HttpTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Received>> {
        self.inbound.poll_recv(cx)
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        Arc::new(Sender { shared: Arc::clone(&self.shared) })
    }
}

impl Drop for HttpTransport {
    fn drop(&mut self) {
        self.shared.close();
    }
}

struct Sender {
    shared: Arc<Shared>,
}

impl FrameSender for Sender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let headers = self.shared.message_headers(&frame.hints).map_err(Fault::into_error)?;
            let request = request_id(&frame);
            let permit = Arc::clone(self.permits(&frame, request.is_some())).acquire_owned().await;
            match permit {
                Ok(permit) if !self.shared.is_closing() => {
                    start(&self.shared, frame, request, headers, permit);
                    Ok(())
                }
                _ => Err(TransportError::closed()),
            }
        })
    }

    fn exchange(&self, frame: Frame) -> BoxFuture<'_, Result<Option<Exchange>, TransportError>> {
        Box::pin(async move {
            // An authorizer can hold a lock that other requests need, and a caller may pause its future.
            let runs_in_task = self.shared.config.authorization.is_some();
            let Some(id) = request_id(&frame).filter(|_| !runs_in_task) else {
                return self.send(frame).await.map(|()| None);
            };
            let headers = self.shared.message_headers(&frame.hints).map_err(Fault::into_error)?;
            let permit = Arc::clone(self.permits(&frame, true)).acquire_owned().await;
            let Some(permit) = permit.ok().filter(|_| !self.shared.is_closing()) else {
                return Err(TransportError::closed());
            };
            let shared = Arc::clone(&self.shared);
            let work = |place| answered(shared, id.clone(), frame, headers, permit, place);
            Ok(Some(Box::pin(exchange::Exchange::new(&self.shared, id.clone(), work)) as Exchange))
        })
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        if self.shared.is_closing() {
            return Err(TrySendError::Closed(frame));
        }
        let Ok(headers) = self.shared.message_headers(&frame.hints) else { return Err(TrySendError::Refused(frame)) };
        let request = request_id(&frame);
        match Arc::clone(self.permits(&frame, request.is_some())).try_acquire_owned() {
            Ok(permit) => {
                start(&self.shared, frame, request, headers, permit);
                Ok(())
            }
            Err(_) if self.shared.is_closing() => Err(TrySendError::Closed(frame)),
            Err(_) => Err(TrySendError::Full(frame)),
        }
    }

    fn ready(&self, _len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async {
            for permits in [&self.shared.posts, &self.shared.requests] {
                let _given_back = permits.acquire().await.map_err(|_| TransportError::closed())?;
            }
            if self.shared.is_closing() { Err(TransportError::closed()) } else { Ok(()) }
        })
    }

    fn close(&self, id: &RequestId) {
        self.shared.tasks.abort(id);
    }

    fn has_request_streams(&self) -> bool {
        true
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            shared.is_closing.store(true, Ordering::Release);
            shared.tasks.abort_requests();
            // This runs on its own task, so that it continues when the caller stops waiting.
            let ending = tokio::spawn(async move {
                end(&shared).await;
                shared.close();
            });
            // Joining fails only when the runtime shuts down.
            let _ended = ending.await;
            Ok(())
        })
    }
}

impl Sender {
    fn permits(&self, frame: &Frame, is_request: bool) -> &Arc<Semaphore> {
        match frame.hints.method.as_deref() {
            _ if !is_request => &self.shared.posts,
            Some("initialize" | "server/discover" | "ping") => &self.shared.control_requests,
            _ => &self.shared.requests,
        }
    }
}

/// Waits for running POSTs, then ends the session.
async fn end(shared: &Shared) {
    // Slower POSTs are aborted.
    let _posted = timeout(LAST_POSTS, shared.posts.acquire_many(MAX_POSTS)).await;
    if let Some(headers) = shared.end_session() {
        let sent = timeout(DELETE_TIMEOUT, HttpRequest::delete(shared, headers).send(shared, None)).await;
        match sent.unwrap_or(Err(Fault::Silent { after: DELETE_TIMEOUT })) {
            Ok(response) => tracing::debug!(status = %response.status(), "the session is ended"),
            Err(fault) => tracing::debug!(%fault, "the client could not end the session on the server"),
        }
    }
}

/// Returns the id of a request; `None` for messages without an answer.
fn request_id(frame: &Frame) -> Option<RequestId> {
    let Route::Request(id) = &frame.route else { return None };
    let is_request = match &frame.hints.method {
        Some(method) => !method.starts_with("notifications/"),
        // Answers to the server also have the route of a request, and have no method.
        None => matches!(Message::parse(&frame.message), Ok(Message::Request(_))),
    };
    is_request.then(|| id.clone())
}

/// Starts the task that sends a frame.
fn start(
    shared: &Arc<Shared>,
    frame: Frame,
    request: Option<RequestId>,
    headers: HeaderMap,
    permit: OwnedSemaphorePermit,
) {
    let shared = Arc::clone(shared);
    let tasks = Arc::clone(&shared.tasks);
    if let Some(id) = request {
        let work = answered(shared, id.clone(), frame, headers, permit, Place::task());
        return tasks.spawn(Some(id), Box::pin(work));
    }
    if !headers::is_stateless(&frame.hints) && frame.hints.method.as_deref() == Some("notifications/initialized") {
        shared.settle(frame.hints.version);
        shared.handshake.send_replace(true);
        let handshake = Handshake(Arc::clone(&shared));
        let work = async move {
            let is_taken = post::run(&shared, &frame, headers).await;
            drop((handshake, permit));
            if is_taken && shared.endpoint.get().is_none() {
                listen::run(shared).await;
            }
        };
        return tasks.spawn(None, Box::pin(work));
    }
    let handshake = running_handshake(&shared, &frame);
    let work = async move {
        let _permit = permit;
        end_of(handshake).await;
        post::run(&shared, &frame, headers).await;
    };
    tasks.spawn(None, Box::pin(work));
}

/// Returns the future that posts a request and reads its answer.
fn answered(
    shared: Arc<Shared>,
    id: RequestId,
    frame: Frame,
    headers: HeaderMap,
    permit: OwnedSemaphorePermit,
    place: Arc<Place>,
) -> impl Future<Output = ()> + Send + 'static {
    let handshake = running_handshake(&shared, &frame);
    async move {
        let _permit = permit;
        end_of(handshake).await;
        request::run(&shared, &id, &frame, headers, &place).await;
    }
}

/// Returns the handshake that a message has to wait for.
fn running_handshake(shared: &Shared, frame: &Frame) -> Option<watch::Receiver<bool>> {
    let waits = !headers::is_stateless(&frame.hints) && *shared.handshake.borrow();
    waits.then(|| shared.handshake.subscribe())
}

/// Waits until the handshake is complete or has failed.
async fn end_of(handshake: Option<watch::Receiver<bool>>) {
    if let Some(mut handshake) = handshake {
        // The sender is in the shared state, which the message holds.
        let _over = handshake.wait_for(|is_under_way| !is_under_way).await;
    }
}

/// Ends the handshake when it is dropped.
struct Handshake(Arc<Shared>);

impl Drop for Handshake {
    fn drop(&mut self) {
        self.0.handshake.send_replace(false);
    }
}
