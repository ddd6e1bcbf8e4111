//! The endpoint as a tower service: it checks a request, reads its body, and dispatches it by era.

use std::{
    convert::Infallible,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use http::{Method, Request, Response, StatusCode, request::Parts};
use http_body::Body as HttpBody;
use mcp_auth::ConfigError;
use mcp_protocol::RpcError;
use mcp_server_core::{
    Caller, Server,
    engine::{self, Arrival, Engine as _, MirroredHeaders, ServerListener},
};

use crate::{
    answer::{
        access::AccessRecord,
        body::Body,
        cors,
        health::{self, Health},
        respond,
        stream::Queue,
    },
    config::{HttpConfig, SsePaths, StatusRoute},
    endpoint::{self, BoxError, Endpoint, Head, RequestParts, auth::Authentication},
    legacy::{
        self, Legacy, sessionless,
        sse::{self, SseRoute},
    },
    request::{
        accept::{self, Accepted},
        caller, guard,
        headers::{self, VersionHeader},
    },
    stateless,
};

/// The endpoint of one server: a `tower::Service` for requests with any body. Clones share their sessions.
///
/// ```
/// use mcp_server_core::Server;
/// use mcp_server_http::{HttpConfig, HttpServer};
///
/// let server = Server::builder("example", "1.0.0").build();
/// let service = server.into_service(HttpConfig::new());
/// let app = axum::Router::new().route_service("/mcp", service);
/// # let _: axum::Router = app;
/// ```
#[derive(Clone)]
pub struct McpService {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) legacy: Legacy,
    pub(crate) listener: ServerListener,
}

impl McpService {
    pub(crate) fn new(server: Server, config: HttpConfig) -> Result<Self, ConfigError> {
        let endpoint = Arc::new(Endpoint::new(server, config)?);
        let listener = endpoint.server.listener(endpoint.config.shutdown_deadline);
        Ok(Self { inner: Arc::new(Inner { legacy: Legacy::new(endpoint.clone()), endpoint, listener }) })
    }

    /// Returns the number of open sessions of the session era, with those of HTTP+SSE.
    #[must_use]
    pub fn open_sessions(&self) -> usize {
        self.inner.legacy.open_sessions()
    }

    /// Answers one request.
    ///
    /// The paths of [`HttpConfig::sse`], [`HttpConfig::health`], [`HttpConfig::readiness`] and [`HttpConfig::status`] have their own answers. A request for any other path is
    /// a request for the endpoint.
    ///
    /// ```
    /// use http::{Request, StatusCode};
    /// use http_body_util::{BodyExt, Full};
    /// use mcp_server_core::Server;
    /// use mcp_server_http::{HttpConfig, HttpServer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let service = Server::builder("example", "1.0.0").build().into_service(HttpConfig::new());
    /// let message = r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{
    ///     "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    /// let request = Request::post("http://127.0.0.1:8080/mcp")
    ///     .header("host", "127.0.0.1:8080")
    ///     .header("content-type", "application/json")
    ///     .header("accept", "application/json, text/event-stream")
    ///     .header("mcp-protocol-version", "2026-07-28")
    ///     .header("mcp-method", "server/discover")
    ///     .body(Full::new(message.as_bytes()))?;
    /// let response = service.handle(request).await;
    /// assert_eq!(response.status(), StatusCode::OK);
    /// assert!(!response.into_body().collect().await?.to_bytes().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn handle<B>(&self, mut request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let Inner { endpoint, legacy, .. } = &*self.inner;
        caller::share_principal(request.extensions_mut());
        let access = AccessRecord::start(&request);
        if let Some(metadata) = endpoint.auth.metadata(request.uri().path()) {
            let mut response = endpoint.answer_metadata(metadata, &request);
            access.finish(&mut response);
            return response;
        }
        if let Err(mut refused) = endpoint.admit(&request) {
            access.finish(&mut refused);
            return refused;
        }
        legacy.tick();
        let (mut parts, body) = request.into_parts();
        let (parts, body) = (&mut parts, pin!(body));
        let origin = guard::origin_of(&parts.headers).cloned();
        let path = parts.uri.path();
        let is_shutting_down = endpoint.server.is_shutting_down();
        let is_readiness = endpoint.config.readiness.as_deref() == Some(path);
        let mut response = if is_readiness || endpoint.config.health.as_deref() == Some(path) {
            let store = match endpoint.server.node() {
                // Boxed, because few requests are for the health.
                Some(node) if !is_shutting_down => Some(Box::pin(endpoint.store_health.state(node)).await),
                _ => None,
            };
            let state = Health { is_shutting_down, store, is_readiness };
            state.answer(&parts.method, &parts.headers, &endpoint.cors)
        } else if is_shutting_down {
            endpoint::shutting_down()
        } else if let Some(route) = endpoint.config.status.as_ref().filter(|route| route.path == path) {
            // Boxed, because few requests are for the status.
            Box::pin(self.inner.status(route, parts)).await
        } else if let Some(paths) = endpoint.config.sse.as_ref().filter(|paths| paths.has(path)) {
            self.inner.route_sse(paths, parts, body).await
        } else {
            self.inner.route(parts, body).await
        };
        cors::share(&mut response, origin);
        access.finish(&mut response);
        response
    }
}

impl Inner {
    fn methods(&self) -> &'static str {
        if self.has_sessions() { "POST, GET, DELETE, OPTIONS" } else { "POST, OPTIONS" }
    }

    fn has_sessions(&self) -> bool {
        self.endpoint.config.has_sessions && self.endpoint.server.has_legacy_versions()
    }

    async fn route<B>(&self, parts: &mut Parts, body: Pin<&mut B>) -> Response<Body>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        match parts.method {
            Method::OPTIONS => cors::preflight(&parts.headers, self.methods(), &self.endpoint.cors),
            Method::POST => self.post(parts, body).await,
            Method::GET | Method::DELETE if self.has_sessions() => {
                if VersionHeader::of(&parts.headers).is_stateless() {
                    return respond::not_of_a_session();
                }
                let authentication = match self.admit(parts).await {
                    Ok(authentication) => authentication,
                    Err(refused) => return refused,
                };
                let head = Head::of(&RequestParts::take(parts), &authentication);
                let answer = if parts.method == Method::GET {
                    legacy::get(&self.legacy, &head).await
                } else {
                    legacy::delete(&self.legacy, &head).await
                };
                self.endpoint.auth.complete(answer, authentication)
            }
            _ => respond::wrong_method(self.methods()),
        }
    }

    /// Answers a request for the status with the document of the application.
    async fn status(&self, route: &StatusRoute, parts: &mut Parts) -> Response<Body> {
        let is_head = match parts.method {
            Method::GET => false,
            Method::HEAD => true,
            Method::OPTIONS => return cors::preflight(&parts.headers, health::METHODS, &self.endpoint.cors),
            _ => return respond::wrong_method(health::METHODS),
        };
        let authentication = match self.admit(parts).await {
            Ok(authentication) => authentication,
            Err(refused) => return refused,
        };
        let response = match (route.document)(authentication.caller.as_deref()) {
            Some(document) => health::document(is_head, document.to_string().into()),
            None => {
                let error = RpcError::invalid_request("the status is not for this caller");
                respond::refusal(StatusCode::FORBIDDEN, &error)
            }
        };
        self.endpoint.auth.complete(response, authentication)
    }

    async fn route_sse<B>(&self, paths: &SsePaths, parts: &mut Parts, body: Pin<&mut B>) -> Response<Body>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let route = match sse::route(&self.endpoint, paths, parts) {
            Ok(route) => route,
            Err(response) => return response,
        };
        let authentication = match self.admit(parts).await {
            Ok(authentication) => authentication,
            Err(refused) => return refused,
        };
        let response = match route {
            SseRoute::Open => sse::open(&self.legacy, paths, parts, &authentication),
            SseRoute::Message => match sse::addressed(&self.legacy, parts, &authentication) {
                Ok(inbox) => match self.endpoint.read_body(body).await {
                    Ok(message) => inbox.deliver(message).await,
                    Err(refused) => refused,
                },
                Err(refused) => refused,
            },
        };
        self.endpoint.auth.complete(response, authentication)
    }

    /// Authenticates the caller of a request, and checks that it has the access that the server requires.
    async fn admit(&self, parts: &mut Parts) -> Result<Authentication, Response<Body>> {
        let authentication = self.endpoint.auth.authenticate(parts).await?;
        match self.endpoint.check_caller(&Caller::remote().principal(authentication.caller.clone())) {
            Ok(()) => Ok(authentication),
            Err(refused) => Err(self.endpoint.auth.complete(refused, authentication)),
        }
    }

    async fn post<B>(&self, parts: &mut Parts, body: Pin<&mut B>) -> Response<Body>
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
            _ => self.endpoint.config.lenient_accept,
        };
        if !is_acceptable {
            let text = "Accept must list application/json and text/event-stream";
            return refuse(StatusCode::NOT_ACCEPTABLE, text.into());
        }
        let authentication = match self.endpoint.auth.authenticate(parts).await {
            Ok(authentication) => authentication,
            Err(refused) => return refused,
        };
        let response = match self.endpoint.read_body(body).await {
            Ok(bytes) => self.dispatch(parts, accepted, &bytes, &authentication).await,
            Err(refused) => refused,
        };
        let response = self.endpoint.auth.complete(response, authentication);
        // A client that accepts only SSE receives a stream with one event. An error keeps its status and its JSON body.
        if accepted.json || response.status() != StatusCode::OK { response } else { respond::as_stream(response) }
    }

    async fn dispatch(
        &self,
        parts: &mut Parts,
        accepted: Accepted,
        bytes: &[u8],
        authentication: &Authentication,
    ) -> Response<Body> {
        let Self { endpoint, legacy, .. } = self;
        let config = &endpoint.config;
        let parts = RequestParts::take(parts);
        let head = Head::of(&parts, authentication);
        let caller = Caller::remote().principal(head.principal.clone()).extensions(parts.into_extensions());
        let find = |name: &str| headers::find(&head.headers, name);
        let mut arrival = Arrival::new(&caller).headers(MirroredHeaders::new(head.version.known(), &find));
        arrival = arrival.grace_period(config.shutdown_deadline).valid_until(head.valid_until);
        // A request of a session has a stream of the session.
        let is_in_session = config.has_sessions && head.version.known().is_some_and(|version| !version.is_stateless());
        let queue = if accepted.sse && !is_in_session {
            let queue: Arc<Queue> = Arc::default();
            arrival = arrival.sink(queue.clone());
            Some(queue)
        } else {
            None
        };
        // Without sessions, a notification or a response has no effect.
        let is_stateless = !endpoint.server.has_legacy_versions() || head.version.is_stateless();
        let accepted_message = endpoint.server.accept(bytes, arrival);
        // The server checks the access to requests itself.
        if let Ok(engine::Accepted::Notification(_) | engine::Accepted::Response(_)) = &accepted_message
            && let Err(refused) = endpoint.check_caller(&caller)
        {
            return refused;
        }
        match accepted_message {
            Ok(engine::Accepted::Request(prepared)) => {
                stateless::run(endpoint, prepared, queue, respond::stateless).await
            }
            Ok(engine::Accepted::Initialize(request)) if config.has_sessions => {
                legacy::initialize(legacy, &request, &head).await
            }
            Ok(engine::Accepted::Initialize(request)) => sessionless::initialize(endpoint, &request, &caller),
            Ok(engine::Accepted::InSession(request)) if config.has_sessions => {
                legacy::request(legacy, request, accepted, &head).await
            }
            Ok(engine::Accepted::InSession(request)) => sessionless::request(endpoint, request, queue, &head).await,
            Ok(engine::Accepted::Notification(_)) if is_stateless => respond::empty(StatusCode::ACCEPTED),
            Ok(engine::Accepted::Response(_)) if is_stateless => respond::refusal(
                StatusCode::BAD_REQUEST,
                &RpcError::invalid_request("a client of this revision sends no responses"),
            ),
            Ok(engine::Accepted::Notification(notification)) if config.has_sessions => {
                legacy::notification(legacy, &notification, &head).await
            }
            Ok(engine::Accepted::Response(response)) if config.has_sessions => {
                legacy::response(legacy, &response, &head).await
            }
            Ok(_) => sessionless::accepted(endpoint, &head),
            Err(rejected) if rejected.is_batch && self.has_sessions() => {
                match legacy::batch_session(legacy, &head).await {
                    // Boxed, because few requests are batches, and all requests would have the larger future.
                    Ok(Some(http)) => {
                        Box::pin(legacy::batch(legacy, http, bytes, accepted, &caller, head.valid_until)).await
                    }
                    Ok(None) => respond::rejected(rejected),
                    Err(response) => response,
                }
            }
            Err(rejected) => respond::rejected(rejected),
        }
    }
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
        f.debug_struct("McpService").field("server", &self.inner.endpoint.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use http_body_util::Full;

    use super::*;

    fn request(method: Method, body: &'static str) -> Request<Full<Bytes>> {
        let request = Request::builder().method(method).uri("/mcp").header("host", "localhost");
        let request = request.header("content-type", "application/json");
        request.header("accept", "application/json, text/event-stream").body(Full::new(body.into())).unwrap()
    }

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
        "protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

    #[tokio::test(start_paused = true)]
    async fn any_request_removes_expired_sessions() {
        let service = McpService::new(Server::builder("test", "1").build(), HttpConfig::new()).unwrap();
        let opened = service.handle(request(Method::POST, INITIALIZE)).await;
        assert_eq!((opened.status(), service.inner.legacy.sessions.listed()), (StatusCode::OK, 1));
        tokio::time::advance(Duration::from_secs(60)).await;
        // A preflight request does not read the table of sessions.
        let passed = service.handle(request(Method::OPTIONS, "")).await;
        assert_eq!((passed.status(), service.inner.legacy.sessions.listed()), (StatusCode::NO_CONTENT, 0));
    }

    #[test]
    fn two_settings_with_one_path_are_an_error_with_both_names() {
        let new = HttpConfig::new;
        for (config, names) in [
            (new().health("/mcp"), Some(("path", "health", "/mcp"))),
            (new().sse("mcp", "/messages"), Some(("path", "sse", "/mcp"))),
            (new().sse("/sse", "/mcp"), Some(("path", "sse", "/mcp"))),
            (new().sse("/sse", "/messages").health("/sse"), Some(("sse", "health", "/sse"))),
            (new().sse("/sse", "/messages").health("/messages"), Some(("sse", "health", "/messages"))),
            (new().health("/health").readiness("/health"), Some(("health", "readiness", "/health"))),
            (new().health("/mcp").path("/"), None),
            (new().sse("/sse", "/sse").health("/health"), None),
        ] {
            let server = Server::builder("test", "1").build();
            let text = McpService::new(server, config).err().map(|error| error.to_string());
            let expected = names.map(|(one, other, path)| {
                format!("`{one}` and `{other}` are both `{path}`: one of them could not be reached")
            });
            assert_eq!(text, expected);
        }
    }
}
