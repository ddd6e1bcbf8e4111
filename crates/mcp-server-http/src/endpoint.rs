//! The shared parts of an endpoint: the server, the configuration, the guard, and the head of a request.

pub(crate) mod auth;

use std::{future::Future, mem::take, pin::Pin, sync::Arc, task::Poll, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header, request::Parts};
use http_body::Body as HttpBody;
use mcp_auth::{ConfigError, SubjectToken};
use mcp_protocol::{Principal, RpcError};
use mcp_server_core::{Caller, Extensions, Server, engine::Engine as _};
use tokio::time::Instant;

use self::auth::{Auth, Authentication, Metadata};
use crate::{
    answer::{
        access::{self, AccessRecord},
        body::Body,
        cors::{self, AllowedHeaders},
        health::StoreHealth,
        respond,
    },
    config::HttpConfig,
    request::{
        guard::{self, Blocked, Guard},
        headers::VersionHeader,
    },
};

/// How long connections may stay open after the grace period of a shutdown, to write the last answers.
pub(crate) const FLUSH: Duration = Duration::from_secs(1);

/// The head of the HTTP request of a call. A handler receives it as `Extension<RequestParts>`.
///
/// ```
/// use mcp_server_core::{Extension, Server, tool};
/// use mcp_server_http::RequestParts;
///
/// async fn whoami(Extension(parts): Extension<RequestParts>) -> String {
///     let agent = parts.headers.get("user-agent").and_then(|value| value.to_str().ok());
///     agent.unwrap_or("an unknown client").to_owned()
/// }
///
/// let server = Server::builder("example", "1.0.0").tool(tool("whoami", whoami)).build();
/// # let _ = server;
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct RequestParts {
    /// The headers of the request.
    pub headers: Arc<HeaderMap>,
    /// The path and query of the request.
    pub uri: http::Uri,
    /// The extensions that outer layers attached to the request, for example the address of the client. A [`Principal`] or
    /// an `Arc<Principal>` among them identifies the caller (see [`HttpServer`](crate::HttpServer)). The principal of
    /// [`HttpConfig::authenticate`] is not among them: a handler takes `Principal`.
    pub extensions: http::Extensions,
}

impl std::fmt::Debug for RequestParts {
    /// Prints the names of the headers only, because their values may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("RequestParts").field("headers", &names).field("path", &self.uri.path()).finish_non_exhaustive()
    }
}

impl RequestParts {
    /// Takes the parts of a request. They are moved once, because each async function stores its own copy of an argument.
    pub(crate) fn take(parts: &mut Parts) -> Self {
        Self {
            headers: Arc::new(take(&mut parts.headers)),
            uri: take(&mut parts.uri),
            extensions: take(&mut parts.extensions),
        }
    }

    /// Returns the extensions for the `Extension` extractor.
    pub(crate) fn into_extensions(self) -> Extensions {
        let mut extensions = Extensions::default();
        // A source over other servers knows no HTTP.
        if let Some(token) = self.extensions.get::<SubjectToken>() {
            extensions.insert(token.clone());
        }
        extensions.insert(self);
        extensions
    }
}

/// The parts of an HTTP request by which the endpoint finds its session.
#[derive(Clone)]
pub(crate) struct Head {
    pub(crate) headers: Arc<HeaderMap>,
    pub(crate) version: VersionHeader,
    pub(crate) principal: Option<Arc<Principal>>,
    /// The time at which the streams of the caller end.
    pub(crate) valid_until: Option<Instant>,
}

impl Head {
    pub(crate) fn of(parts: &RequestParts, authentication: &Authentication) -> Self {
        Self {
            headers: parts.headers.clone(),
            version: VersionHeader::of(&parts.headers),
            principal: authentication.caller.clone(),
            valid_until: authentication.valid_until,
        }
    }
}

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The server of an endpoint, and the rules for its requests.
pub(crate) struct Endpoint {
    pub(crate) server: Server,
    pub(crate) config: HttpConfig,
    pub(crate) auth: Auth,
    guard: Guard,
    /// The request headers that a web page may send.
    pub(crate) cors: AllowedHeaders,
    pub(crate) store_health: StoreHealth,
}

impl Endpoint {
    /// # Errors
    /// If the configuration is invalid, or there is an authenticator without a public URL.
    pub(crate) fn new(server: Server, config: HttpConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let auth = Auth::new(&config, server.required_scopes())?;
        let guard = guard_of(&config);
        let cors = AllowedHeaders::new(auth.credential_headers());
        Ok(Self { server, config, auth, guard, cors, store_health: StoreHealth::default() })
    }

    /// Answers a request for the metadata document.
    pub(crate) fn answer_metadata<B>(&self, metadata: &Metadata, request: &Request<B>) -> Response<Body> {
        answer_metadata(&self.guard, metadata, request)
    }

    /// Rejects a request whose `Host` or `Origin` is not allowed, and then a request with a header value above the limit.
    ///
    /// Only an allowed origin may read the answer, so the guard comes first.
    pub(crate) fn admit<B>(&self, request: &Request<B>) -> Result<(), Response<Body>> {
        self.guard.check(request).map_err(blocked_answer)?;
        let is_long = |(name, value): &(&HeaderName, &HeaderValue)| {
            value.len() > self.config.header_limit && value.len() > self.header_limit(name)
        };
        let Some((name, _)) = request.headers().iter().find(is_long) else { return Ok(()) };
        let limit = self.header_limit(name);
        let error = RpcError::invalid_request(format!("the header {name} is longer than {limit} bytes"));
        let mut refused = respond::refusal(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, &error);
        cors::share(&mut refused, guard::origin_of(request.headers()).cloned());
        Err(refused)
    }

    /// Returns the limit of a header value. A token with many groups is longer than other values.
    fn header_limit(&self, name: &HeaderName) -> usize {
        let has_credentials = *name == header::AUTHORIZATION || self.auth.credential_headers().contains(name);
        if has_credentials { self.config.credential_header_limit } else { self.config.header_limit }
    }

    /// Rejects a caller that lacks the access that the server requires. Requests are checked by the server itself.
    pub(crate) fn check_caller(&self, caller: &Caller) -> Result<(), Response<Body>> {
        let refused = |refusal| access::mark(respond::refused(StatusCode::FORBIDDEN, None, refusal));
        self.server.admit(caller).map_err(refused)
    }

    /// Returns the body of a request, or the answer that rejects the request.
    pub(crate) async fn read_body<B>(&self, body: Pin<&mut B>) -> Result<Bytes, Response<Body>>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let refuse = |status, text: String| Err(respond::refusal(status, &RpcError::invalid_request(text)));
        match self.collect(body).await {
            Ok(bytes) => Ok(bytes),
            Err(ReadError::TooLarge) => {
                let text = format!("the body is larger than {} bytes", self.config.body_limit);
                refuse(StatusCode::PAYLOAD_TOO_LARGE, text)
            }
            Err(ReadError::TooSlow) => refuse(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time".into()),
            Err(ReadError::ShuttingDown) => Err(shutting_down()),
            Err(ReadError::Broken) => refuse(StatusCode::BAD_REQUEST, "the body broke off".into()),
        }
    }

    /// Reads a body into one buffer, within the limits on size and time.
    async fn collect<B>(&self, mut body: Pin<&mut B>) -> Result<Bytes, ReadError>
    where
        B: HttpBody + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let limit = self.config.body_limit;
        if body.size_hint().lower() > limit as u64 {
            return Err(ReadError::TooLarge);
        }
        let read = async {
            let mut first = Bytes::new();
            let mut rest: Option<BytesMut> = None;
            while let Some(frame) = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
                let frame = frame.map_err(|error| {
                    let error: BoxError = error.into();
                    tracing::debug!(%error, "a request body broke off");
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
        // Most bodies have arrived with the head. They need no timer.
        let mut read = std::pin::pin!(read);
        if let Poll::Ready(bytes) = std::future::poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await {
            return bytes;
        }
        tokio::select! {
            biased;
            bytes = read => bytes,
            () = tokio::time::sleep(self.config.body_timeout) => Err(ReadError::TooSlow),
            () = self.server.shutting_down() => Err(ReadError::ShuttingDown),
        }
    }
}

/// Returns the guard of the hosts and origins that the configuration allows.
fn guard_of(config: &HttpConfig) -> Guard {
    let public_host = config.public_url.iter().map(|url| url.host().to_owned());
    let hosts: Vec<String> = config.allowed_hosts.iter().cloned().chain(public_host).collect();
    let guard = Guard::new(&hosts, &config.allowed_origins);
    let guard = if config.any_host { guard.any_host() } else { guard };
    if config.any_origin { guard.any_origin() } else { guard }
}

/// Answers a request for the metadata document. The host is checked. Each web page may read the document.
fn answer_metadata<B>(guard: &Guard, metadata: &Metadata, request: &Request<B>) -> Response<Body> {
    match guard.check_host(request) {
        Ok(()) => metadata.answer(request.method()),
        Err(blocked) => blocked_answer(blocked),
    }
}

/// The answer to a request whose `Host` or `Origin` is not allowed.
fn blocked_answer(blocked: Blocked) -> Response<Body> {
    respond::refusal(StatusCode::FORBIDDEN, &RpcError::invalid_request(blocked.text()))
}

/// The metadata document without its endpoint.
pub(crate) struct MetadataEndpoint {
    guard: Guard,
    auth: Auth,
}

impl MetadataEndpoint {
    /// # Errors
    /// As for [`Endpoint::new`].
    pub(crate) fn new(server: &Server, config: &HttpConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self { guard: guard_of(config), auth: Auth::new(config, server.required_scopes())? })
    }

    pub(crate) fn paths(&self) -> &[String] {
        self.auth.metadata_paths()
    }

    /// Answers a request for one of the paths.
    pub(crate) fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        let access = AccessRecord::start(request);
        let mut response = match self.auth.metadata(request.uri().path()) {
            Some(metadata) => answer_metadata(&self.guard, metadata, request),
            None => respond::refusal(StatusCode::NOT_FOUND, &RpcError::invalid_request("no document has this path")),
        };
        access.finish(&mut response);
        response
    }
}

enum ReadError {
    TooLarge,
    TooSlow,
    /// The server shuts down before the whole body has arrived.
    ShuttingDown,
    Broken,
}

/// The answer to a request that arrives after the shutdown began. The request has not run.
///
/// The wait is short: another node can serve the next attempt, and a restarted process needs little more time.
pub(crate) fn shutting_down() -> Response<Body> {
    let error = RpcError::internal("the server is shutting down");
    let response = respond::refusal(StatusCode::SERVICE_UNAVAILABLE, &error);
    respond::with_header(response, header::RETRY_AFTER, HeaderValue::from_static("1"))
}
