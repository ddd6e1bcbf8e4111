//! The reason for which an endpoint refuses a request (RFC 6749 §5.2).

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use mcp_auth::ConfigError;
use mcp_protocol::auth::OAuthError;
use mcp_store::StoreError;

use super::message;

/// A refusal: a status, an error code, and a description for developers.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) status: StatusCode,
    pub(super) error: &'static str,
    pub(super) description: Cow<'static, str>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

impl Fault {
    /// Returns a fault with the status 400.
    pub(super) fn new(error: &'static str, description: impl Into<Cow<'static, str>>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error, description: description.into(), headers: Vec::new() }
    }

    pub(super) fn invalid_request(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new("invalid_request", description)
    }

    pub(super) fn invalid_grant(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new("invalid_grant", description)
    }

    /// Returns the fault of a client that did not authenticate. The challenge names the scheme `Basic` (RFC 6749 §5.2).
    pub(super) fn invalid_client(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new("invalid_client", description)
            .with_status(StatusCode::UNAUTHORIZED)
            .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"token\""))
    }

    /// Returns the fault of a part that is away for a moment.
    pub(super) fn unavailable(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new("temporarily_unavailable", description)
            .with_status(StatusCode::SERVICE_UNAVAILABLE)
            .with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(super) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(super) fn into_response(self) -> Response<Bytes> {
        let error = OAuthError::new(self.error).with_description(self.description);
        let mut response = message::json(self.status, &error);
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "the store of the authorization server failed");
        Self::unavailable("the store is not available")
    }
}

impl From<ConfigError> for Fault {
    fn from(error: ConfigError) -> Self {
        tracing::error!(%error, "the authorization server failed");
        Self::new("server_error", "the authorization server failed").with_status(StatusCode::INTERNAL_SERVER_ERROR)
    }
}
