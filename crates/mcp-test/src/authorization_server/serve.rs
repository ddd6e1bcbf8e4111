//! The authorization server over HTTP.

use std::{
    fmt, io,
    ops::Deref,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use axum::{Router, body::Body};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use super::{AuthorizationServer, Delivery, message};

/// The largest body of a request, in bytes.
const MAX_BODY: usize = 64 << 10;
/// The longest time in which a body must arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that open requests have when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest deliberate delay of a response.
const MAX_DELAY: Duration = Duration::from_secs(600);

/// An [`AuthorizationServer`] that serves requests. The server stops when this value is dropped.
///
/// ```
/// use mcp_test::authorization_server::{AuthorizationServer, Endpoint};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = AuthorizationServer::builder().auto_approve().start().await?;
/// let token = server.issue_token("alice", ["read"], "http://127.0.0.1:8080/mcp").await?;
/// assert_eq!((token.split('.').count(), server.count(Endpoint::Token)), (3, 0));
/// server.stop().await;
/// # Ok::<_, mcp_test::authorization_server::AuthorizationServerError>(()) }).unwrap();
/// ```
#[must_use]
pub struct RunningAuthorizationServer {
    server: AuthorizationServer,
    /// The drop of the sender begins the shutdown.
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl RunningAuthorizationServer {
    /// Stops the server. Open requests have one second to end.
    pub async fn stop(mut self) {
        self.stop.take();
        // The listener bounds the wait. An error is a panic of the listener, which its task reported.
        let _ = (&mut self.serving).await;
    }
}

impl Deref for RunningAuthorizationServer {
    type Target = AuthorizationServer;

    fn deref(&self) -> &AuthorizationServer {
        &self.server
    }
}

impl fmt::Debug for RunningAuthorizationServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningAuthorizationServer").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Serves requests until the returned value is dropped.
pub(super) fn start(server: AuthorizationServer, listener: TcpListener) -> RunningAuthorizationServer {
    let (stop, stopped) = oneshot::channel::<()>();
    let signal = async {
        let _ = stopped.await;
    };
    let serving = mcp_http_listener::serve(listener, server.router())
        .with_graceful_shutdown(signal)
        .shutdown_deadline(SHUTDOWN_TIMEOUT);
    RunningAuthorizationServer { server, stop: Some(stop), serving: tokio::spawn(async move { serving.await }) }
}

/// Returns a router that passes each request to the server.
pub(super) fn router(server: AuthorizationServer) -> Router {
    Router::new().fallback(move |request: Request<Body>| {
        let server = server.clone();
        async move { handle(&server, request).await }
    })
}

async fn handle(server: &AuthorizationServer, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = match tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, MAX_BODY)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return message::plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long").map(Body::from),
        Err(_) => return message::plain(StatusCode::REQUEST_TIMEOUT, "the body is late").map(Body::from),
    };
    let response = server.respond(Request::from_parts(parts, body), SystemTime::now()).await;
    deliver(response).await
}

/// Sends a response, late or in part if a deliberate fault demands it.
async fn deliver(mut response: Response<Bytes>) -> Response<Body> {
    match response.extensions_mut().remove::<Delivery>() {
        None => response.map(Body::from),
        Some(Delivery::Late(delay)) => {
            tokio::time::sleep(delay.min(MAX_DELAY)).await;
            response.map(Body::from)
        }
        Some(Delivery::Truncated) => {
            let (mut parts, body) = response.into_parts();
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
            Response::from_parts(parts, Body::new(Broken { half: Some(body.slice(..body.len() / 2)) }))
        }
    }
}

/// A body that fails after its first half.
struct Broken {
    half: Option<Bytes>,
}

impl http_body::Body for Broken {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let next = self.half.take().filter(|half| !half.is_empty());
        Poll::Ready(Some(next.map(Frame::data).ok_or_else(|| io::Error::other("a deliberate fault"))))
    }
}
