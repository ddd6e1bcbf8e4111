//! Responses: status codes and headers.

use http::{
    HeaderValue, Response, StatusCode,
    header::{self, HeaderName},
};
use mcp_protocol::{ErrorCode, ProtocolVersion, RequestId, RpcError};
use mcp_server_core::engine::{self, Denied, Refusal, Rejected, Reply, Verdict};

use super::{access, body::Body, stream::Answering};
use crate::request::headers;

/// The seconds until a client repeats a request, if the error does not name them.
const RETRY_AFTER: u64 = 2;

pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    with_status(Response::new(Body::empty()), status)
}

/// An error of the HTTP request, as a JSON-RPC error without an id.
pub(crate) fn refusal(status: StatusCode, error: &RpcError) -> Response<Body> {
    access::mark(error_with_id(status, None, error))
}

/// An error of the head of an HTTP request. `id` is that of the JSON-RPC request, if the message is one.
pub(crate) fn head_error(status: StatusCode, id: Option<&RequestId>, error: &RpcError) -> Response<Body> {
    if id.is_some() { error_with_id(status, id, error) } else { refusal(status, error) }
}

pub(crate) fn error_with_id(status: StatusCode, id: Option<&RequestId>, error: &RpcError) -> Response<Body> {
    message(status, Reply::error(id, error))
}

/// The answer to a request above the limit of sessions. Such a request is an `initialize`, the stream of HTTP+SSE, or the
/// first request of a principal in an anonymous session.
pub(crate) fn too_many_sessions(id: Option<&RequestId>) -> Response<Body> {
    let error = RpcError::internal("too many sessions are open, try again later");
    let response = head_error(StatusCode::SERVICE_UNAVAILABLE, id, &error);
    with_header(response, header::RETRY_AFTER, HeaderValue::from_static("10"))
}

/// The answer to a request that needs the shared store while the store fails.
pub(crate) fn store_unavailable(id: Option<&RequestId>) -> Response<Body> {
    unavailable(id, &engine::store_unavailable())
}

/// The answer to a request that can succeed later. The data of the error has the reason.
pub(crate) fn unavailable(id: Option<&RequestId>, error: &RpcError) -> Response<Body> {
    let response = head_error(StatusCode::SERVICE_UNAVAILABLE, id, error);
    let millis = error.data.as_ref().and_then(|data| data["retryAfterMs"].as_u64());
    let seconds = millis.map_or(RETRY_AFTER, |millis| millis.div_ceil(1000).max(1));
    with_header(response, header::RETRY_AFTER, seconds.into())
}

/// The answer to a method that the path does not support.
pub(crate) fn wrong_method(methods: &'static str) -> Response<Body> {
    let error = RpcError::invalid_request(format!("this endpoint answers {methods}"));
    let response = refusal(StatusCode::METHOD_NOT_ALLOWED, &error);
    with_header(response, header::ALLOW, HeaderValue::from_static(methods))
}

/// The answer to GET or DELETE from a client whose revision has no sessions.
pub(crate) fn not_of_a_session() -> Response<Body> {
    const METHODS: &str = "POST, OPTIONS";
    let text = "GET and DELETE are for sessions of older revisions: this endpoint answers POST and OPTIONS in the revision \
                of MCP-Protocol-Version";
    let response = refusal(StatusCode::METHOD_NOT_ALLOWED, &RpcError::invalid_request(text));
    with_header(response, header::ALLOW, HeaderValue::from_static(METHODS))
}

/// A response with a JSON body.
pub(crate) fn json(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A response with one JSON-RPC message.
pub(crate) fn message(status: StatusCode, reply: Reply) -> Response<Body> {
    let mut response = with_status(Response::new(Body::payload(reply.payload)), status);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The answer to a request of the stateless era. The error code decides the status.
pub(crate) fn stateless(reply: Reply) -> Response<Body> {
    let status = match reply.verdict {
        Verdict::Error(code) => status_of(code),
        Verdict::Busy => return busy(reply),
        Verdict::Denied => return denied(reply),
        _ => StatusCode::OK,
    };
    message(status, reply)
}

/// The answer to a request of the session era. JSON-RPC errors have the status 200.
pub(crate) fn legacy(reply: Reply) -> Response<Body> {
    match reply.verdict {
        Verdict::Busy => busy(reply),
        Verdict::Denied => denied(reply),
        _ => message(StatusCode::OK, reply),
    }
}

/// The response to a rejected message.
pub(crate) fn rejected(rejected: Rejected) -> Response<Body> {
    let status = match &rejected.refusal {
        Refusal::Error(error) if !rejected.is_malformed => status_of(error.code),
        _ => StatusCode::BAD_REQUEST,
    };
    let response = refused(status, rejected.id.as_ref(), rejected.refusal);
    if rejected.is_batch { access::mark(response) } else { response }
}

/// The answer to a request that is refused before it runs. `status` is that of an error.
pub(crate) fn refused(status: StatusCode, id: Option<&RequestId>, refusal: Refusal) -> Response<Body> {
    let denied = if let Refusal::Denied(denied) = &refusal { Some(denied.clone()) } else { None };
    let response = error_with_id(status, id, &refusal.into_error());
    match denied {
        Some(denied) => lacking_access(response, denied),
        None => response,
    }
}

/// The answer to a request whose caller lacks access.
fn denied(mut reply: Reply) -> Response<Body> {
    let denied = reply.denied.take();
    let response = message(StatusCode::FORBIDDEN, reply);
    match denied {
        Some(denied) => lacking_access(response, *denied),
        None => response,
    }
}

/// Sets the status of an answer to a caller that lacks access. The authentication of the endpoint completes the answer.
fn lacking_access(mut response: Response<Body>, denied: Denied) -> Response<Body> {
    response.extensions_mut().insert(denied);
    with_status(response, StatusCode::FORBIDDEN)
}

/// Returns the status for an error code of the stateless era. Errors of a method have the status 200.
fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        ErrorCode::PARSE_ERROR
        | ErrorCode::INVALID_REQUEST
        | ErrorCode::HEADER_MISMATCH
        | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
        | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

fn busy(reply: Reply) -> Response<Body> {
    let mut response = message(StatusCode::SERVICE_UNAVAILABLE, reply);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// A response with the event stream of one request.
pub(crate) fn stream(answering: Answering) -> Response<Body> {
    events(Body::stream(answering))
}

pub(crate) fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(headers::ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// Turns an answer into a stream, for a client that accepts only SSE.
pub(crate) fn as_stream(response: Response<Body>) -> Response<Body> {
    let (parts, body) = response.into_parts();
    let mut response = events(body.into_event());
    for (name, value) in &parts.headers {
        response.headers_mut().entry(name).or_insert_with(|| value.clone());
    }
    response
}

/// Adds the header with the revision of the answer.
pub(crate) fn with_version(mut response: Response<Body>, version: ProtocolVersion) -> Response<Body> {
    response.headers_mut().insert(headers::PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
    response
}

pub(crate) fn with_header(mut response: Response<Body>, name: HeaderName, value: HeaderValue) -> Response<Body> {
    response.headers_mut().insert(name, value);
    response
}

fn with_status(mut response: Response<Body>, status: StatusCode) -> Response<Body> {
    *response.status_mut() = status;
    response
}
