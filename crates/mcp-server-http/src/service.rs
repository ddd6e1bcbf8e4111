//! The endpoint as a tower service over any `http::Request`: checks in the order of the design, then the era decides.

use std::{
    convert::Infallible,
    error::Error,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Method, Request, Response, StatusCode, header, request::Parts};
use http_body::Body as HttpBody;
use mcp_protocol::{Message, Principal, ProtocolVersion, RpcError};
use mcp_server_core::{Extensions, Server, engine::Era};

use crate::{
    accept::{self, Accepted},
    body::Body,
    config::HttpConfig,
    cors,
    guard::Guard,
    headers, health, legacy, plain, respond,
    sessions::{SessionLimits, Sessions},
    sse::{self, Asked, Streams},
    stateless,
};

/// The head of the HTTP request behind a call: take `Extension<RequestParts>` in a handler.
#[derive(Clone)]
#[non_exhaustive]
pub struct RequestParts {
    /// The headers as they came.
    pub headers: Arc<HeaderMap>,
    /// The path and query of the request.
    pub uri: http::Uri,
    /// What layers in front attached to the request, such as the address of the client, or who it is: a [`Principal`] or
    /// an `Arc<Principal>` among them is the caller to the server (see [`HttpServer`](crate::HttpServer)).
    pub extensions: http::Extensions,
}

impl std::fmt::Debug for RequestParts {
    /// Names the headers only: their values hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.headers.keys().map(http::HeaderName::as_str).collect();
        f.debug_struct("RequestParts").field("headers", &names).field("path", &self.uri.path()).finish_non_exhaustive()
    }
}

impl RequestParts {
    pub(crate) fn of(parts: Parts) -> Self {
        Self { headers: Arc::new(parts.headers), uri: parts.uri, extensions: parts.extensions }
    }

    /// For the `Extension` extractor.
    pub(crate) fn into_extensions(self) -> Extensions {
        let mut extensions = Extensions::default();
        extensions.insert(self);
        extensions
    }
}

/// Shares who calls, since that is asked for more than once and is large.
fn share_principal(extensions: &mut http::Extensions) {
    if let Some(principal) = principal(extensions) {
        extensions.insert(principal);
    }
}

/// Who calls, if a layer in front has found out.
pub(crate) fn principal(extensions: &http::Extensions) -> Option<Arc<Principal>> {
    let shared = extensions.get::<Arc<Principal>>().cloned();
    shared.or_else(|| extensions.get::<Principal>().cloned().map(Arc::new))
}

/// The endpoint of one server: a `tower::Service` for requests with any body. Clones share their sessions.
#[derive(Clone)]
pub struct McpService {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) server: Server,
    pub(crate) config: HttpConfig,
    pub(crate) guard: Guard,
    pub(crate) sessions: Sessions,
    /// The streams of HTTP+SSE.
    pub(crate) streams: Arc<Streams>,
}

type BoxError = Box<dyn Error + Send + Sync>;

impl McpService {
    #[track_caller]
    pub(crate) fn new(server: Server, config: HttpConfig) -> Self {
        config.check_paths();
        let limits = SessionLimits {
            count: config.sessions,
            idle: config.session_idle,
            opening: config.session_opening,
            event_bytes: config.event_bytes,
        };
        let guard = Guard::new(&config);
        Self {
            inner: Arc::new(Inner { server, config, guard, sessions: Sessions::new(limits), streams: Arc::default() }),
        }
    }

    /// How many legacy sessions are open, those of HTTP+SSE among them.
    #[must_use]
    pub fn open_sessions(&self) -> usize {
        self.inner.sessions.len() + self.inner.streams.len()
    }

    /// Answers one request. Only the paths of [`HttpConfig::sse`] and [`HttpConfig::health`] are told from others: all
    /// that is not theirs is for the endpoint, whatever its path.
    pub async fn handle<B>(&self, mut request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let inner = &self.inner;
        if let Err(refused) = inner.admit(&request) {
            return refused;
        }
        inner.sessions.tick();
        share_principal(request.extensions_mut());
        let origin = crate::guard::origin_of(request.headers()).cloned();
        let path = request.uri().path();
        let mut response = if inner.config.health.as_deref() == Some(path) {
            health::answer(inner, request.method(), request.headers())
        } else if inner.server.is_shutting_down() {
            shutting_down()
        } else if let Some(paths) = inner.config.sse.as_ref().filter(|paths| paths.has(path)) {
            inner.route_sse(paths, request).await
        } else {
            inner.route(request).await
        };
        cors::share(&mut response, origin);
        response
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end();
    }
}

/// The answer to what comes too late.
fn shutting_down() -> Response<Body> {
    let error = RpcError::internal("the server is shutting down");
    let response = respond::refusal(StatusCode::SERVICE_UNAVAILABLE, &error);
    respond::with_header(response, header::RETRY_AFTER, http::HeaderValue::from_static("10"))
}

impl Inner {
    /// Ends all sessions: their calls outlive their connections, but not the endpoint.
    pub(crate) fn end(&self) {
        self.sessions.clear();
        self.streams.clear();
    }

    /// Refuses who may not call, whatever is asked for.
    pub(crate) fn admit<B>(&self, request: &Request<B>) -> Result<(), Response<Body>> {
        self.guard
            .check(request)
            .map_err(|blocked| respond::refusal(StatusCode::FORBIDDEN, &RpcError::invalid_request(blocked.text())))
    }

    fn methods(&self) -> &'static str {
        if self.has_sessions() { "POST, GET, DELETE, OPTIONS" } else { "POST, OPTIONS" }
    }

    fn has_sessions(&self) -> bool {
        self.config.has_sessions && self.server.has_legacy_versions()
    }

    async fn route<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let names_stateless = version_header(&parts.headers).is_some_and(ProtocolVersion::is_stateless);
        match parts.method {
            Method::OPTIONS => cors::preflight(&parts.headers, self.methods()),
            Method::POST => self.post(parts, body).await,
            Method::GET if self.has_sessions() && !names_stateless => legacy::get(self, &parts),
            Method::DELETE if self.has_sessions() && !names_stateless => legacy::delete(self, &parts),
            Method::GET | Method::DELETE if self.has_sessions() => respond::not_of_a_session(),
            _ => respond::wrong_method(self.methods()),
        }
    }

    async fn route_sse<B>(&self, paths: &sse::Paths, request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        match sse::asked(paths, &parts) {
            Asked::Open => sse::open(self, paths, parts),
            Asked::Message => match sse::addressed(self, &parts) {
                Ok(inbox) => match self.whole(&parts.headers, body).await {
                    Ok(message) => inbox.take(message).await,
                    Err(refused) => refused,
                },
                Err(refused) => refused,
            },
            Asked::Answered(response) => response,
        }
    }

    /// The body of a request whose headers are not too long, or why it is refused.
    async fn whole<B>(&self, headers: &HeaderMap, body: B) -> Result<Bytes, Response<Body>>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let refuse = |status, text: String| Err(respond::refusal(status, &RpcError::invalid_request(text)));
        if let Some(name) = self.oversized_header(headers) {
            let text = format!("the header {name} is longer than {} bytes", self.config.header_limit);
            return refuse(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text);
        }
        match self.read(body).await {
            Ok(bytes) => Ok(bytes),
            Err(ReadError::TooLarge) => {
                let text = format!("the body is larger than {} bytes", self.config.body_limit);
                refuse(StatusCode::PAYLOAD_TOO_LARGE, text)
            }
            Err(ReadError::TooSlow) => refuse(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time".into()),
            Err(ReadError::TooLate) => Err(shutting_down()),
            Err(ReadError::Broken) => refuse(StatusCode::BAD_REQUEST, "the body broke off".into()),
        }
    }

    async fn post<B>(&self, parts: Parts, body: B) -> Response<Body>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let refuse = |status, text: String| respond::refusal(status, &RpcError::invalid_request(text));
        if !accept::is_json(&parts.headers) {
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json".into());
        }
        let accepted = Accepted::of(&parts.headers);
        let is_acceptable = match (accepted.json, accepted.sse) {
            (true, true) => true,
            (false, false) => false,
            _ => self.config.lenient_accept,
        };
        if !is_acceptable {
            let text = "Accept must list application/json and text/event-stream";
            return refuse(StatusCode::NOT_ACCEPTABLE, text.into());
        }
        let bytes = match self.whole(&parts.headers, body).await {
            Ok(bytes) => bytes,
            Err(refused) => return refused,
        };
        let response = self.dispatch(parts, accepted, &bytes).await;
        // Whoever accepts no JSON is answered by a stream of one event; what is refused has its status to say so.
        if accepted.json || response.status() != StatusCode::OK { response } else { respond::as_stream(response) }
    }

    async fn dispatch(&self, parts: Parts, accepted: Accepted, bytes: &[u8]) -> Response<Body> {
        let limits = self.server.limits().of_messages();
        let message = match Message::parse_with(bytes, &limits) {
            Ok(message) => message,
            Err(error) if error.is_batch && self.has_sessions() => {
                return match legacy::batch_session(self, &parts) {
                    Ok(Some(http)) => legacy::batch(self, &http, bytes, accepted, parts).await,
                    Ok(None) => respond::error_with_id(StatusCode::BAD_REQUEST, None, &error.error),
                    Err(refused) => refused,
                };
            }
            Err(error) => return respond::error_with_id(StatusCode::BAD_REQUEST, error.id.as_ref(), &error.error),
        };
        let names_stateless = version_header(&parts.headers).is_some_and(ProtocolVersion::is_stateless);
        match message {
            Message::Request(request) => match Era::of(&request.method, request.params) {
                Err(error) => respond::error_with_id(StatusCode::BAD_REQUEST, Some(&request.id), &error.error),
                Ok(Era::Stateless(meta)) => stateless::request(self, &request, &meta, accepted, parts).await,
                Ok(Era::Initialize) if !self.config.has_sessions => plain::initialize(self, &request),
                Ok(Era::Initialize) => legacy::initialize(self, &request, &parts),
                Ok(_) if names_stateless => {
                    let text = format!("`_meta[\"{}\"]` is missing", mcp_protocol::meta::keys::PROTOCOL_VERSION);
                    let error = RpcError::invalid_params(text);
                    respond::error_with_id(StatusCode::BAD_REQUEST, Some(&request.id), &error)
                }
                Ok(_) if !self.server.has_legacy_versions() => {
                    let text = format!("the header {} is missing", headers::PROTOCOL_VERSION);
                    let error = RpcError::header_mismatch(text);
                    respond::error_with_id(StatusCode::BAD_REQUEST, Some(&request.id), &error)
                }
                Ok(era) => {
                    let meta = if let Era::Session(meta) = &era { meta.as_ref() } else { None };
                    if self.config.has_sessions {
                        legacy::request(self, &request, meta, accepted, parts).await
                    } else {
                        plain::request(self, &request, meta, accepted, parts).await
                    }
                }
            },
            // Nothing hangs on a notification of a stateless client: closing the stream is its cancellation.
            Message::Notification(_) if names_stateless || !self.server.has_legacy_versions() => {
                respond::empty(StatusCode::ACCEPTED)
            }
            Message::Notification(_) if !self.config.has_sessions => plain::taken(self, &parts.headers),
            Message::Notification(notification) => legacy::notification(self, &notification, &parts),
            Message::Response(_) if names_stateless || !self.server.has_legacy_versions() => respond::refusal(
                StatusCode::BAD_REQUEST,
                &RpcError::invalid_request("a client of this revision sends no responses"),
            ),
            Message::Response(_) if !self.config.has_sessions => plain::taken(self, &parts.headers),
            Message::Response(response) => legacy::response(self, &response, &parts),
        }
    }

    /// A header of ours that is longer than the limit.
    fn oversized_header(&self, headers: &HeaderMap) -> Option<String> {
        let ours = |name: &str| name.starts_with("mcp-") || name == "last-event-id" || name == "authorization";
        headers
            .iter()
            .find(|(name, value)| value.len() > self.config.header_limit && ours(name.as_str()))
            .map(|(name, _)| name.to_string())
    }

    /// The whole body, in one piece and under the limits.
    async fn read<B>(&self, body: B) -> Result<Bytes, ReadError>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let limit = self.config.body_limit;
        if body.size_hint().lower() > limit as u64 {
            return Err(ReadError::TooLarge);
        }
        let mut body = std::pin::pin!(body);
        let read = async {
            let mut first = Bytes::new();
            let mut rest: Option<BytesMut> = None;
            while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
                let frame = frame.map_err(|error| {
                    let error: BoxError = error.into();
                    tracing::debug!(%error, "a body broke off");
                    ReadError::Broken
                })?;
                let Ok(mut data) = frame.into_data() else { continue };
                let length = rest.as_ref().map_or(first.len(), BytesMut::len);
                if length + data.remaining() > limit {
                    return Err(ReadError::TooLarge);
                }
                // Most bodies are one frame, which needs no copy.
                if rest.is_none() && first.is_empty() {
                    first = data.copy_to_bytes(data.remaining());
                } else {
                    rest.get_or_insert_with(|| BytesMut::from(&first[..]))
                        .extend_from_slice(&data.copy_to_bytes(data.remaining()));
                }
            }
            Ok(rest.map_or(first, BytesMut::freeze))
        };
        // Most bodies are there already, and cost no timer.
        let mut read = std::pin::pin!(read);
        if let Poll::Ready(bytes) = std::future::poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await {
            return bytes;
        }
        tokio::select! {
            biased;
            bytes = read => bytes,
            () = tokio::time::sleep(self.config.body_timeout) => Err(ReadError::TooSlow),
            () = self.server.shutting_down() => Err(ReadError::TooLate),
        }
    }
}

enum ReadError {
    TooLarge,
    TooSlow,
    /// The server shuts down, and the rest has not come.
    TooLate,
    Broken,
}

/// The revision that the header names; `None` when there is none or it is unknown.
pub(crate) fn version_header(headers: &HeaderMap) -> Option<ProtocolVersion> {
    let value = headers.get(headers::PROTOCOL_VERSION)?;
    ProtocolVersion::parse(value.to_str().ok()?.trim())
}

impl<B> tower_service::Service<Request<B>> for McpService
where
    B: HttpBody + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.handle(request).await) })
    }
}

impl std::fmt::Debug for McpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpService").field("server", &self.inner.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::Full;

    use super::*;

    fn request(method: Method, body: &'static str) -> Request<Full<Bytes>> {
        let request = Request::builder().method(method).uri("/mcp").header("host", "localhost");
        let request = request.header("content-type", "application/json");
        request.header("accept", "application/json, text/event-stream").body(Full::new(body.into())).unwrap()
    }

    #[test]
    fn who_calls_is_copied_once() {
        let mut extensions = http::Extensions::new();
        extensions.insert(Principal::new("me"));
        share_principal(&mut extensions);
        let [first, second] = [(); 2].map(|()| principal(&extensions).unwrap());
        assert!(Arc::ptr_eq(&first, &second));
    }

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
        "protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

    #[tokio::test(start_paused = true)]
    async fn sessions_expire_whoever_comes_next() {
        let service = McpService::new(Server::builder("test", "1").build(), HttpConfig::new());
        let opened = service.handle(request(Method::POST, INITIALIZE)).await;
        assert_eq!((opened.status(), service.inner.sessions.listed()), (StatusCode::OK, 1));
        tokio::time::advance(Duration::from_secs(60)).await;
        // What asks for no session.
        let passed = service.handle(request(Method::OPTIONS, "")).await;
        assert_eq!((passed.status(), service.inner.sessions.listed()), (StatusCode::NO_CONTENT, 0));
    }
}
