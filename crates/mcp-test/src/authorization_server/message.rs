//! The forms of requests and responses: parameters, JSON, pages, redirects.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use serde::Serialize;
use url::{Url, form_urlencoded};

use super::fault::Fault;

/// The largest number of parameters of a request.
const MAX_PARAMETERS: usize = 100;
/// The parameters that a request may repeat (RFC 8707 §2, RFC 8693 §2.1).
const REPEATABLE: [&str; 2] = ["resource", "audience"];

/// The parameters of a query or a form.
#[derive(Debug, Clone, Default)]
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Parses a query or a form. A parameter without a value counts as absent (RFC 6749 §3.1).
    pub(super) fn parse(text: &[u8]) -> Result<Self, Fault> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text).filter(|(_, value)| !value.is_empty()) {
            if pairs.len() >= MAX_PARAMETERS {
                return Err(Fault::invalid_request("the request has too many parameters"));
            }
            if !REPEATABLE.contains(&&*name) && pairs.iter().any(|(earlier, _)| *earlier == name) {
                return Err(Fault::invalid_request("the request has a parameter twice"));
            }
            pairs.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(pairs))
    }

    /// Parses the form of a request.
    pub(super) fn of_form(request: &Request<Bytes>) -> Result<Self, Fault> {
        if !has_type(request.headers(), "application/x-www-form-urlencoded") {
            return Err(Fault::invalid_request("the body is not of the type application/x-www-form-urlencoded"));
        }
        Self::parse(request.body())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn require(&self, name: &str) -> Result<&str, Fault> {
        self.get(name).ok_or_else(|| Fault::invalid_request(format!("the parameter `{name}` is missing")))
    }
}

/// Whether a request has a media type. Parameters of the type do not count.
pub(super) fn has_type(headers: &HeaderMap, expected: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(expected)
}

/// Returns a response with JSON that no cache stores.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response<Bytes> {
    let (status, body) = match serde_json::to_vec(value) {
        Ok(body) => (status, body),
        Err(error) => {
            tracing::error!(%error, "a response is not representable as JSON");
            (StatusCode::INTERNAL_SERVER_ERROR, b"{\"error\":\"server_error\"}".to_vec())
        }
    };
    with_type(status, "application/json", body)
}

/// Returns a response with a page. No other site can put the page into a frame.
pub(super) fn page(status: StatusCode, html: String) -> Response<Bytes> {
    let mut response = with_type(status, "text/html; charset=utf-8", html);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
        ),
    );
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// Returns a redirect that a browser follows with GET.
pub(super) fn redirect(url: &Url) -> Response<Bytes> {
    match HeaderValue::try_from(url.as_str()) {
        Ok(location) => {
            let mut response = with_type(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", Bytes::new());
            response.headers_mut().insert(header::LOCATION, location);
            response
        }
        Err(_) => plain(StatusCode::BAD_REQUEST, "the redirect URI is not valid"),
    }
}

pub(super) fn plain(status: StatusCode, text: &'static str) -> Response<Bytes> {
    with_type(status, "text/plain; charset=utf-8", text)
}

pub(super) fn with_type(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Splits scopes at spaces, without duplicates (RFC 6749 §3.3).
pub(super) fn scopes(text: &str) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::new();
    for scope in text.split_ascii_whitespace().filter(|scope| !scope.is_empty()) {
        if !scopes.iter().any(|other| other == scope) {
            scopes.push(scope.to_owned());
        }
    }
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_parsed_strictly() {
        let parameters = Parameters::parse(b"a=1&b=x+y%21&resource=r1&resource=r2&empty=&empty=").unwrap();
        assert_eq!(
            (parameters.get("a"), parameters.get("b"), parameters.get("empty")),
            (Some("1"), Some("x y!"), None)
        );
        assert_eq!(parameters.all("resource").collect::<Vec<_>>(), ["r1", "r2"]);
        assert_eq!(parameters.require("c").unwrap_err().description, "the parameter `c` is missing");
        assert!(Parameters::parse(b"a=1&a=1").is_err());
        let many: String = (0..=MAX_PARAMETERS).map(|index| format!("p{index}=1&")).collect();
        assert!(Parameters::parse(many.as_bytes()).is_err());
    }

    #[test]
    fn scopes_are_split_without_duplicates() {
        assert_eq!(scopes(" a  b a "), ["a", "b"]);
        assert!(scopes("").is_empty());
    }
}
