//! The one error that travels on the wire, and its codes (schema, `JSONRPCErrorResponse`).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{ClientCapabilities, ElicitParams, Excerpt, ProtocolVersion, UrlElicitParams, method};

/// A JSON-RPC error code: an open set of integers with the names that MCP gives.
///
/// ```
/// use mcp_protocol::ErrorCode;
///
/// assert_eq!(ErrorCode::INVALID_PARAMS, ErrorCode(-32602));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
#[expect(clippy::exhaustive_structs, reason = "a code is an integer and nothing else")]
pub struct ErrorCode(pub i64);

impl ErrorCode {
    /// The message is not JSON.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// The message is not a JSON-RPC message.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// The server does not implement the method, or has not declared its capability.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// The parameters do not fit the method, or name something that does not exist.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// The fault is on the side that answers.
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// No such resource, up to 2025-11-25. Later revisions answer [`ErrorCode::INVALID_PARAMS`].
    pub const RESOURCE_NOT_FOUND: Self = Self(-32002);
    /// An HTTP header is missing or differs from the body (2026-07-28).
    pub const HEADER_MISMATCH: Self = Self(-32020);
    /// The request needs a capability that the client did not declare on it (2026-07-28).
    pub const MISSING_REQUIRED_CLIENT_CAPABILITY: Self = Self(-32021);
    /// The server does not support the revision of the request (2026-07-28).
    pub const UNSUPPORTED_PROTOCOL_VERSION: Self = Self(-32022);
    /// The client must first visit a URL (2025-11-25 only).
    pub const URL_ELICITATION_REQUIRED: Self = Self(-32042);
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The error member of a response. Its text is for the peer and must not contain internal details.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RpcError {
    /// The kind of the error.
    pub code: ErrorCode,
    /// One short sentence.
    pub message: String,
    /// Details that a program can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// Returns an error with a code and a sentence.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Sets details for programs.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// `-32600`: the message is not a valid request.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_REQUEST, message)
    }

    /// `-32601` for a method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(ErrorCode::METHOD_NOT_FOUND, format!("Method not found: {}", Excerpt::new(method)))
    }

    /// `-32601` for a method that a revision does not have, with a hint for the replacement.
    #[must_use]
    pub fn method_not_in(method: &str, version: ProtocolVersion) -> Self {
        let mut error = Self::method_not_found(method);
        if let Some(instead) = method::instead_of(method, version) {
            error.message.push_str(&format!(". It does not exist in {version}: {instead}"));
        }
        error
    }

    /// `-32602`: the parameters do not fit.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS, message)
    }

    /// `-32603`: an internal error. The message must not contain internal details.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INTERNAL_ERROR, message)
    }

    /// `-32020`: a header is missing, malformed or differs from the body.
    pub fn header_mismatch(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::HEADER_MISMATCH, message)
    }

    /// Returns the error for a resource that does not exist: `-32002` up to 2025-11-25, `-32602` later. The message and
    /// `data.uri` contain the URI.
    #[must_use]
    pub fn resource_not_found(version: ProtocolVersion, uri: &str) -> Self {
        let code = if version.has_resource_not_found_code() {
            ErrorCode::RESOURCE_NOT_FOUND
        } else {
            ErrorCode::INVALID_PARAMS
        };
        Self::new(code, format!("Resource not found: {}", Excerpt::new(uri))).with_data(json!({ "uri": uri }))
    }

    /// `-32042`: the user has to visit these pages first (2025-11-25 only, where each of them has a name).
    #[must_use]
    pub fn url_elicitation_required(pages: impl IntoIterator<Item = UrlElicitParams>) -> Self {
        let pages: Vec<ElicitParams> = pages.into_iter().map(ElicitParams::Url).collect();
        Self::new(ErrorCode::URL_ELICITATION_REQUIRED, "the user has to visit a page first")
            .with_data(json!({ "elicitations": pages }))
    }

    /// Returns the pages that the user must visit first (`-32042`). Empty for any other error, and
    /// without malformed entries.
    #[must_use]
    pub fn url_elicitations(&self) -> Vec<UrlElicitParams> {
        if self.code != ErrorCode::URL_ELICITATION_REQUIRED {
            return Vec::new();
        }
        let pages = self.data.as_ref().and_then(|data| data.get("elicitations")).and_then(Value::as_array);
        pages.into_iter().flatten().filter_map(|page| UrlElicitParams::deserialize(page).ok()).collect()
    }

    /// `-32021` with the capabilities that are missing, which the message names as well.
    #[must_use]
    pub fn missing_client_capability(required: &ClientCapabilities) -> Self {
        let text =
            format!("the request needs client capabilities that are not declared: {}", capability_names(required));
        Self::new(ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY, text)
            .with_data(json!({ "requiredCapabilities": required }))
    }

    /// `-32022` with the supported revisions and the requested revision.
    #[must_use]
    pub fn unsupported_version(requested: &str, supported: &[ProtocolVersion]) -> Self {
        let requested = Excerpt::new(requested);
        let names: Vec<&str> = supported.iter().map(|v| v.as_str()).collect();
        Self::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, format!("unsupported protocol version: {requested}"))
            .with_data(json!({ "supported": names, "requested": requested.as_str() }))
    }
}

/// The capabilities in words: `roots, elicitation (url)`.
fn capability_names(capabilities: &ClientCapabilities) -> String {
    let Ok(Value::Object(members)) = serde_json::to_value(capabilities) else { return String::new() };
    let names = members.into_iter().map(|(name, value)| {
        let inner: Vec<_> = value.as_object().into_iter().flat_map(|inner| inner.keys()).map(String::as_str).collect();
        if inner.is_empty() { name } else { format!("{name} ({})", inner.join(", ")) }
    });
    names.collect::<Vec<_>>().join(", ")
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_missing_capabilities() {
        for (capabilities, names) in [
            (json!({ "roots": {}, "sampling": {} }), "roots, sampling"),
            (json!({ "elicitation": { "url": {} } }), "elicitation (url)"),
            (json!({ "extensions": { "com.example/x": {} } }), "extensions (com.example/x)"),
        ] {
            let required = ClientCapabilities::deserialize(&capabilities).unwrap();
            let message = RpcError::missing_client_capability(&required).message;
            assert_eq!(message, format!("the request needs client capabilities that are not declared: {names}"));
        }
    }

    #[test]
    fn a_url_elicitation_error_contains_its_pages() {
        let page = UrlElicitParams::new("Sign in.", "https://a.example").with_elicitation_id("e");
        let error = RpcError::url_elicitation_required([page.clone()]);
        let json = json!({"mode": "url", "message": "Sign in.", "url": "https://a.example", "elicitationId": "e"});
        assert_eq!(error.data.as_ref().unwrap()["elicitations"], json!([json]));
        assert_eq!(error.url_elicitations(), std::slice::from_ref(&page));
        for (data, found) in [
            (json!({"elicitations": [json, 1, {"mode": "url"}]}), vec![page]),
            (json!({"elicitations": "x"}), vec![]),
            (json!(1), vec![]),
        ] {
            let error = RpcError::new(ErrorCode::URL_ELICITATION_REQUIRED, "m").with_data(data);
            assert_eq!(error.url_elicitations(), found, "{error:?}");
        }
        let other = RpcError::internal("m").with_data(json!({"elicitations": [json]}));
        assert!(other.url_elicitations().is_empty());
    }
}
