//! Requests of the older revisions where no sessions are kept: each POST stands alone, and nothing is sent unasked.

use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode, request::Parts};
use mcp_protocol::{ProtocolVersion, RequestId, RequestMeta, jsonrpc::Request};
use mcp_server_core::engine::Scope;

use crate::{
    accept::Accepted,
    body::Body,
    legacy, respond,
    service::{self, Inner, RequestParts},
    stream::{self, Answer, Answering, Queue},
};

/// Answers `initialize` without opening anything.
pub(crate) fn initialize(inner: &Inner, request: &Request<'_>) -> Response<Body> {
    match inner.server.initialize_sessionless(request) {
        Ok((version, reply)) => respond::with_version(respond::legacy(reply), version),
        Err(error) => legacy::not_opened(request, &error),
    }
}

/// Serves a request. With no session to name it in, nothing but the end of its connection can cancel it, so that does.
pub(crate) async fn request(
    inner: &Inner,
    request: &Request<'_>,
    meta: Option<&RequestMeta<'_>>,
    accepted: Accepted,
    parts: Parts,
) -> Response<Body> {
    let version = match version(inner, &parts.headers, Some(&request.id)) {
        Ok(version) => version,
        Err(response) => return response,
    };
    let queue: Arc<Queue> = Arc::default();
    let mut scope = Scope::sessionless(version)
        .saying(meta)
        .principal(service::principal(&parts.extensions))
        .extensions(RequestParts::of(parts).into_extensions());
    if accepted.sse {
        scope = scope.sink(queue.clone());
    }
    let prepared = match inner.server.prepare(request, scope) {
        Ok(prepared) => prepared,
        Err(refusal) => return legacy::refused(request, refusal, version),
    };
    let response = match stream::answer(Box::pin(prepared.run()), queue, inner.config.keep_alive).await {
        Answer::Quiet(Some(reply)) => respond::legacy(reply),
        Answer::Quiet(None) => respond::stream(Answering::ended(inner.config.keep_alive)),
        Answer::Streaming(answering) => respond::stream(answering),
    };
    respond::with_version(response, version)
}

/// Takes a notification or a response: there is nobody that it could reach.
pub(crate) fn taken(inner: &Inner, head: &HeaderMap) -> Response<Body> {
    match legacy::check_version(inner, head, None) {
        Ok(_) => respond::empty(StatusCode::ACCEPTED),
        Err(response) => response,
    }
}

/// The revision that the header names; without one it is the last that had no such header.
fn version(inner: &Inner, head: &HeaderMap, id: Option<&RequestId>) -> Result<ProtocolVersion, Response<Body>> {
    let mut legacy = inner.server.versions().iter().copied().filter(|version| version.has_handshake());
    let named = legacy::check_version(inner, head, id)?;
    let silent = legacy.clone().find(|version| !version.has_version_header()).or_else(|| legacy.next());
    Ok(named.or(silent).unwrap_or(ProtocolVersion::LATEST_LEGACY))
}
