//! CORS headers: an origin that passed the guard may read the answer. The server never sends `*`.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::{body::Body, respond};
use crate::request::guard;

/// The request headers that a web page may send, beside `Mcp-Param-*`.
const REQUEST_HEADERS: [&str; 9] = [
    "accept",
    "authorization",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "traceparent",
];
const EXPOSED: &str = "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after";
/// How long a browser may cache a preflight answer, in seconds.
const MAX_AGE: &str = "600";

/// Allows the origin of the request to read the answer.
pub(crate) fn share(response: &mut Response<Body>, origin: Option<HeaderValue>) {
    let Some(origin) = origin else { return };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
}

/// Answers `OPTIONS`.
pub(crate) fn preflight(request: &HeaderMap, allow: &'static str) -> Response<Body> {
    let mut response = respond::empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(header::ALLOW, HeaderValue::from_static(allow));
    if guard::origin_of(request).is_some() {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(allow));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        if let Ok(allowed) = HeaderValue::try_from(allowed_headers(request)) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
        }
    }
    response
}

fn allowed_headers(request: &HeaderMap) -> String {
    let mut allowed = REQUEST_HEADERS.join(", ");
    let requested = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS).and_then(|value| value.to_str().ok());
    for name in requested.into_iter().flat_map(|names| names.split(',')).map(str::trim) {
        if name.len() > 10 && name.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("mcp-param-")) {
            allowed.push_str(", ");
            allowed.push_str(name);
        }
    }
    allowed
}
