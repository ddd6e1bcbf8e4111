//! The transport itself: it takes frames and starts a task for each, and hands out what came back.

use std::{
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

use http::HeaderMap;
use mcp_protocol::{RequestId, jsonrpc::Message};
use mcp_transport::{BoxFuture, Frame, FrameSender, Route, Transport, TransportError, TrySendError};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::timeout,
};

use crate::{
    exchange::Exchange,
    fault::Fault,
    headers,
    link::{Inbound, Link, MAX_POSTS},
    listen, post, request,
};

/// The receiving half. Dropping it ends everything that the transport has started.
pub(crate) struct HttpTransport {
    inbound: mpsc::Receiver<Inbound>,
    link: Arc<Link>,
}

/// How long messages that are under way may take once the transport is to end.
const LAST_POSTS: Duration = Duration::from_secs(2);
/// How long the server may take to end the session.
const LAST_WORD: Duration = Duration::from_secs(3);

impl HttpTransport {
    pub(crate) fn new(link: Arc<Link>, inbound: mpsc::Receiver<Inbound>) -> Self {
        Self { inbound, link }
    }
}

impl Transport for HttpTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Inbound>> {
        self.inbound.poll_recv(cx)
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        Arc::new(Sender { link: Arc::clone(&self.link) })
    }
}

impl Drop for HttpTransport {
    fn drop(&mut self) {
        self.link.close();
    }
}

struct Sender {
    link: Arc<Link>,
}

impl FrameSender for Sender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async move {
            let headers = self.link.message_headers(&frame.hints).map_err(Fault::into_error)?;
            let request = request_id(&frame);
            let permit = Arc::clone(self.room(&frame, request.is_some())).acquire_owned().await;
            match permit {
                Ok(permit) if !self.link.is_closing() => {
                    start(&self.link, frame, request, headers, permit);
                    Ok(())
                }
                _ => Err(TransportError::closed()),
            }
        })
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        if self.link.is_closing() {
            return Err(TrySendError::Closed(frame));
        }
        let Ok(headers) = self.link.message_headers(&frame.hints) else { return Err(TrySendError::Refused(frame)) };
        let request = request_id(&frame);
        match Arc::clone(self.room(&frame, request.is_some())).try_acquire_owned() {
            Ok(permit) => {
                start(&self.link, frame, request, headers, permit);
                Ok(())
            }
            Err(_) if self.link.is_closing() => Err(TrySendError::Closed(frame)),
            Err(_) => Err(TrySendError::Full(frame)),
        }
    }

    fn ready(&self, _len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(async {
            for room in [&self.link.posts, &self.link.requests] {
                let _given_back = room.acquire().await.map_err(|_| TransportError::closed())?;
            }
            if self.link.is_closing() { Err(TransportError::closed()) } else { Ok(()) }
        })
    }

    fn close(&self, id: &RequestId) {
        self.link.tasks.abort(id);
    }

    fn has_request_streams(&self) -> bool {
        true
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        let link = Arc::clone(&self.link);
        Box::pin(async move {
            link.is_closing.store(true, Ordering::Release);
            link.tasks.abort_requests();
            // On a task of its own, so that it goes on when the caller waits no longer.
            let ending = tokio::spawn(async move {
                end(&link).await;
                link.close();
            });
            // It fails only when the runtime ends, and then everything has.
            let _ended = ending.await;
            Ok(())
        })
    }
}

impl Sender {
    fn room(&self, frame: &Frame, is_request: bool) -> &Arc<Semaphore> {
        match frame.hints.method.as_deref() {
            _ if !is_request => &self.link.posts,
            Some("initialize" | "server/discover" | "ping") => &self.link.signs,
            _ => &self.link.requests,
        }
    }
}

/// Waits for what is posted, then ends the session.
async fn end(link: &Link) {
    // What takes longer is given up.
    let _posted = timeout(LAST_POSTS, link.posts.acquire_many(MAX_POSTS)).await;
    if let Some(headers) = link.end_session() {
        let sent = timeout(LAST_WORD, Exchange::delete(link, headers).send(link, None)).await;
        match sent.unwrap_or(Err(Fault::Silent { after: LAST_WORD })) {
            Ok(response) => tracing::debug!(status = %response.status(), "the session is ended"),
            Err(fault) => tracing::debug!(%fault, "the server was not told that the session ended"),
        }
    }
}

/// The id of a request; `None` for a message that expects no answer.
fn request_id(frame: &Frame) -> Option<RequestId> {
    let Route::Request(id) = &frame.route else { return None };
    let is_request = match &frame.hints.method {
        Some(method) => !method.starts_with("notifications/"),
        // An answer to the server belongs to the stream of a request too, and has no method.
        None => matches!(Message::parse(&frame.message), Ok(Message::Request(_))),
    };
    is_request.then(|| id.clone())
}

/// Starts the task that sends a frame.
fn start(link: &Arc<Link>, frame: Frame, request: Option<RequestId>, headers: HeaderMap, permit: OwnedSemaphorePermit) {
    let is_stateless = headers::is_stateless(&frame.hints);
    let ends_handshake = !is_stateless && frame.hints.method.as_deref() == Some("notifications/initialized");
    let link = Arc::clone(link);
    let tasks = Arc::clone(&link.tasks);
    if ends_handshake {
        link.settle(frame.hints.version);
        link.handshake.send_replace(true);
        let handshake = Handshake(Arc::clone(&link));
        tasks.spawn(None, async move {
            let is_taken = post::run(&link, &frame, headers).await;
            drop((handshake, permit));
            if is_taken && link.endpoint.get().is_none() {
                listen::run(link).await;
            }
        });
        return;
    }
    let waits = (!is_stateless && *link.handshake.borrow()).then(|| link.handshake.subscribe());
    tasks.spawn(request.clone(), async move {
        let _permit = permit;
        if let Some(handshake) = waits {
            wait(handshake).await;
        }
        match request {
            Some(id) => request::run(link, id, frame, headers).await,
            None => _ = Box::pin(post::run(&link, &frame, headers)).await,
        }
    });
}

/// Waits until the server knows that the handshake is over, or will not know it.
async fn wait(mut handshake: watch::Receiver<bool>) {
    // Its sender is in the link, which this task holds.
    let _over = handshake.wait_for(|is_under_way| !is_under_way).await;
}

/// Lets go what waits for the end of the handshake, however that ends.
struct Handshake(Arc<Link>);

impl Drop for Handshake {
    fn drop(&mut self) {
        self.0.handshake.send_replace(false);
    }
}
