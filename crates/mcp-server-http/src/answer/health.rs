//! The health route: it reports to monitoring whether the server accepts requests.

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};

use super::{
    body::Body,
    cors::{AllowedHeaders, preflight},
    respond,
};

pub(crate) const METHODS: &str = "GET, HEAD, OPTIONS";

/// Answers 200 while the server accepts requests, and 503 after a shutdown began.
pub(crate) fn answer(
    is_shutting_down: bool,
    method: &Method,
    headers: &http::HeaderMap,
    cors: &AllowedHeaders,
) -> Response<Body> {
    let is_head = match *method {
        Method::GET => false,
        Method::HEAD => true,
        Method::OPTIONS => return preflight(headers, METHODS, cors),
        _ => return respond::wrong_method(METHODS),
    };
    let (status, text) = if is_shutting_down {
        (StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"shutting down"}"#)
    } else {
        (StatusCode::OK, r#"{"status":"ok"}"#)
    };
    let mut response = document(is_head, text.into());
    *response.status_mut() = status;
    response
}

/// A JSON document that no cache stores. A response to HEAD has no body.
pub(crate) fn document(is_head: bool, text: Bytes) -> Response<Body> {
    let body = if is_head { Body::empty() } else { Body::whole(text) };
    respond::with_header(respond::json(body), header::CACHE_CONTROL, HeaderValue::from_static("no-store"))
}
