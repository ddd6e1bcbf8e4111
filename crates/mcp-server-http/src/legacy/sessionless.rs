//! Sessionless mode: requests of the session era without sessions. Each POST is independent.

use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode, request::Parts};
use mcp_protocol::{ProtocolVersion, RequestId, RequestMeta, jsonrpc::Request};
use mcp_server_core::engine::Scope;

use crate::{
    answer::{
        body::Body,
        respond,
        stream::{self, Answer, Answering, Queue},
    },
    endpoint::{self, Endpoint, RequestParts},
    legacy,
    request::accept::Accepted,
};

/// Answers `initialize` and opens no session.
pub(crate) fn initialize(endpoint: &Endpoint, request: &Request<'_>) -> Response<Body> {
    match endpoint.server.initialize_sessionless(request) {
        Ok((version, reply)) => respond::with_version(respond::legacy(reply), version),
        Err(error) => legacy::not_opened(request, &error),
    }
}

/// Serves a request. Closing the connection cancels it, because without a session no notification can.
pub(crate) async fn request(
    endpoint: &Endpoint,
    request: &Request<'_>,
    meta: Option<&RequestMeta<'_>>,
    accepted: Accepted,
    parts: Parts,
) -> Response<Body> {
    let version = match version(endpoint, &parts.headers, Some(&request.id)) {
        Ok(version) => version,
        Err(response) => return response,
    };
    let queue: Arc<Queue> = Arc::default();
    let mut scope = Scope::sessionless(version)
        .grace_period(endpoint.config.shutdown_deadline)
        .saying(meta)
        .principal(endpoint::principal(&parts.extensions))
        .extensions(RequestParts::of(parts).into_extensions());
    if accepted.sse {
        scope = scope.sink(queue.clone());
    }
    let prepared = match endpoint.server.prepare(request, scope) {
        Ok(prepared) => prepared,
        Err(refusal) => return legacy::refused(request, refusal, version),
    };
    let response = match stream::answer(Box::pin(prepared.run()), queue, endpoint.config.keep_alive).await {
        Answer::Quiet(Some(reply)) => respond::legacy(reply),
        Answer::Quiet(None) => respond::stream(Answering::ended(endpoint.config.keep_alive)),
        Answer::Streaming(answering) => respond::stream(answering),
    };
    respond::with_version(response, version)
}

/// Accepts a notification or a response, and ignores it, because no request is running.
pub(crate) fn accepted(endpoint: &Endpoint, head: &HeaderMap) -> Response<Body> {
    match legacy::check_version(endpoint, head, None) {
        Ok(_) => respond::empty(StatusCode::ACCEPTED),
        Err(response) => response,
    }
}

/// Returns the revision that the header names. Without the header it is the latest revision that has no such header.
fn version(endpoint: &Endpoint, head: &HeaderMap, id: Option<&RequestId>) -> Result<ProtocolVersion, Response<Body>> {
    let mut legacy = endpoint.server.versions().iter().copied().filter(|version| version.has_handshake());
    let named = legacy::check_version(endpoint, head, id)?;
    let silent = legacy.clone().find(|version| !version.has_version_header()).or_else(|| legacy.next());
    Ok(named.or(silent).unwrap_or(ProtocolVersion::LATEST_LEGACY))
}
