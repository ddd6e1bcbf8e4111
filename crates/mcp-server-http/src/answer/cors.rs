//! CORS headers: an origin that passed the guard may read the answer. The server sends `*` for the public metadata
//! document only.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use super::{body::Body, respond};
use crate::request::guard;

/// The request headers that a web page may send, beside `Mcp-Param-*`.
const REQUEST_HEADERS: [&str; 10] = [
    "accept",
    "authorization",
    "content-type",
    "dpop",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "traceparent",
];
const EXPOSED: &str = "mcp-session-id, mcp-protocol-version, www-authenticate, retry-after, dpop-nonce";
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

/// The request headers that a web page may send: the fixed ones and those with credentials.
pub(crate) struct AllowedHeaders(String);

impl AllowedHeaders {
    pub(crate) fn new(credentials: &[HeaderName]) -> Self {
        let other = credentials.iter().map(HeaderName::as_str).filter(|name| !REQUEST_HEADERS.contains(name));
        Self(REQUEST_HEADERS.iter().copied().chain(other).collect::<Vec<_>>().join(", "))
    }

    /// Returns the headers with the mirrored parameters that a preflight request names.
    fn of(&self, request: &HeaderMap) -> String {
        let mut allowed = self.0.clone();
        let requested = request.get(header::ACCESS_CONTROL_REQUEST_HEADERS).and_then(|value| value.to_str().ok());
        for name in requested.into_iter().flat_map(|names| names.split(',')).map(str::trim) {
            if name.len() > 10 && name.get(..10).is_some_and(|start| start.eq_ignore_ascii_case("mcp-param-")) {
                allowed.push_str(", ");
                allowed.push_str(name);
            }
        }
        allowed
    }
}

/// Answers `OPTIONS`.
pub(crate) fn preflight(request: &HeaderMap, allow: &'static str, headers: &AllowedHeaders) -> Response<Body> {
    let mut response = respond::empty(StatusCode::NO_CONTENT);
    let answered = response.headers_mut();
    answered.insert(header::ALLOW, HeaderValue::from_static(allow));
    if guard::origin_of(request).is_some() {
        answered.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(allow));
        answered.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        if let Ok(allowed) = HeaderValue::try_from(headers.of(request)) {
            answered.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
        }
    }
    response
}
