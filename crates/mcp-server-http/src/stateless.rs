//! The stateless era: each POST is independent, its headers mirror its body, and closing the answer cancels the request.

use std::sync::Arc;

use http::{Response, StatusCode, request::Parts};
use mcp_protocol::{RequestMeta, RpcError, jsonrpc::Request};
use mcp_server_core::engine::{Prepared, Refusal, Scope, StatelessCall};

use crate::{
    answer::{
        body::Body,
        respond,
        stream::{self, Answer, Answering, Queue},
    },
    endpoint::{self, Endpoint, RequestParts},
    request::{accept::Accepted, headers},
};

pub(crate) async fn request(
    endpoint: &Endpoint,
    request: &Request<'_>,
    meta: &RequestMeta<'_>,
    accepted: Accepted,
    parts: Parts,
) -> Response<Body> {
    let queue: Arc<Queue> = Arc::default();
    let prepared = match prepare(endpoint, request, meta, accepted, parts, &queue) {
        Ok(prepared) => prepared,
        Err((status, error)) => return respond::error_with_id(status, Some(&request.id), &error),
    };
    let version = prepared.version();
    // This future owns the work, then the body of the answer does. Dropping either cancels the work.
    let response = match stream::answer(Box::pin(prepared.run()), queue, endpoint.config.keep_alive).await {
        Answer::Quiet(Some(reply)) => respond::stateless(reply),
        Answer::Quiet(None) => respond::stream(Answering::ended(endpoint.config.keep_alive)),
        Answer::Streaming(answering) => respond::stream(answering),
    };
    respond::with_version(response, version)
}

fn prepare(
    endpoint: &Endpoint,
    request: &Request<'_>,
    meta: &RequestMeta<'_>,
    accepted: Accepted,
    parts: Parts,
    queue: &Arc<Queue>,
) -> Result<Prepared, (StatusCode, RpcError)> {
    let bad = |error| (StatusCode::BAD_REQUEST, error);
    let call = StatelessCall::read(meta).map_err(bad)?;
    headers::check_mirrored(&parts.headers, &request.method, meta, call.requested()).map_err(bad)?;
    let call = call.supported(&endpoint.server).map_err(bad)?;
    let principal = endpoint::principal(&parts.extensions);
    let head = RequestParts::of(parts);
    let mut scope = Scope::stateless(call)
        .grace_period(endpoint.config.shutdown_deadline)
        .principal(principal)
        .extensions(head.clone().into_extensions());
    if accepted.sse {
        scope = scope.sink(queue.clone());
    }
    let prepared = endpoint.server.prepare(request, scope).map_err(|refusal| match refusal {
        Refusal::Error(error) => (respond::status_of(error.code), error),
        scopes => (StatusCode::FORBIDDEN, scopes.into_error()),
    })?;
    if let Some((params, arguments)) = prepared.header_params() {
        headers::check_params(&head.headers, params, arguments).map_err(bad)?;
    }
    if let Some(missing) = prepared.missing_client_capabilities() {
        return Err(bad(RpcError::missing_client_capability(&missing)));
    }
    Ok(prepared)
}
