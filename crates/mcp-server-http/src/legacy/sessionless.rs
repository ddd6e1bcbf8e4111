//! Sessionless mode: requests of the session era without sessions. Each POST is independent.

use std::sync::Arc;

use http::{Response, StatusCode};
use mcp_protocol::{ErrorCode, ProtocolVersion, RequestId, jsonrpc::Request};
use mcp_server_core::{
    Caller,
    engine::{Engine as _, SessionRequest},
};

use crate::{
    answer::{body::Body, respond, stream::Queue},
    endpoint::{Endpoint, Head},
    legacy, stateless,
};

/// Answers `initialize` and opens no session.
pub(crate) fn initialize(endpoint: &Endpoint, request: &Request<'_>, caller: &Caller) -> Response<Body> {
    match endpoint.server.initialize_sessionless(request, caller) {
        Ok((version, reply)) => respond::with_version(respond::legacy(reply), version),
        Err(refusal) => legacy::not_opened(request, refusal),
    }
}

/// Serves a request. Closing the connection cancels it, because without a session no notification can.
pub(crate) async fn request(
    endpoint: &Endpoint,
    request: Box<SessionRequest<'_>>,
    queue: Option<Arc<Queue>>,
    head: &Head,
) -> Response<Body> {
    let id = request.id().clone();
    let version = match version(endpoint, head, Some(&id)) {
        Ok(version) => version,
        Err(response) => {
            request.record_rejection(ErrorCode::INVALID_REQUEST);
            return response;
        }
    };
    match request.sessionless(&endpoint.server, version) {
        Ok(prepared) => stateless::run(endpoint, prepared, queue, respond::legacy).await,
        Err(refusal) => legacy::refused(&id, refusal, version),
    }
}

/// Accepts a notification or a response, and ignores it, because no request is running.
pub(crate) fn accepted(endpoint: &Endpoint, head: &Head) -> Response<Body> {
    match legacy::check_version(endpoint, head, None) {
        Ok(_) => respond::empty(StatusCode::ACCEPTED),
        Err(response) => response,
    }
}

/// Returns the revision that the header names. Without the header it is the latest revision that has no such header.
fn version(endpoint: &Endpoint, head: &Head, id: Option<&RequestId>) -> Result<ProtocolVersion, Response<Body>> {
    let mut legacy = endpoint.server.versions().iter().copied().filter(|version| version.has_handshake());
    let named = legacy::check_version(endpoint, head, id)?;
    let silent = legacy.clone().find(|version| !version.has_version_header()).or_else(|| legacy.next());
    Ok(named.or(silent).unwrap_or(ProtocolVersion::LATEST_LEGACY))
}
