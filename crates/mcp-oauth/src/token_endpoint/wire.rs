//! One request to a token endpoint over guarded requests, with a proof if the tokens are bound to a key.

use std::{
    error::Error as StdError,
    fmt,
    future::Future,
    pin::Pin,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mcp_fetch::{Fetch, FetchError, Response};
use mcp_protocol::auth::OAuthError;
use oauth2::{AsyncHttpClient, HttpRequest, HttpResponse};
use serde::de::IgnoredAny;
use url::Url;

use super::redaction::redact;
use crate::{
    dpop::{self, DPOP, Proofs},
    error::{Error, ErrorKind},
};

/// The HTTP client of the crate `oauth2`.
pub(super) struct Wire<'a> {
    pub(super) fetch: &'a Fetch,
    pub(super) proofs: Option<Proofs<'a>>,
}

impl Wire<'_> {
    /// Sends a request with a fresh proof, which it adds to the headers. Stores the nonce of the response.
    async fn post(
        &self,
        url: &str,
        content_type: HeaderValue,
        body: Bytes,
        headers: &mut HeaderMap,
    ) -> Result<Response, WireError> {
        let Some(proofs) = self.proofs else {
            return self.fetch.post_body(url, content_type, body, headers.clone()).await.map_err(WireError::Fetch);
        };
        let invalid = |_| Error::new(ErrorKind::Discovery, "the token endpoint of the issuer is not a URL");
        let target = Url::parse(url).map_err(invalid).map_err(WireError::Proof)?;
        headers.insert(DPOP, proofs.header(&Method::POST, &target, None).map_err(WireError::Proof)?);
        let response = self.fetch.post_body(url, content_type, body, headers.clone()).await;
        let response = response.map_err(WireError::Fetch)?;
        proofs.nonces.note(&target, response.headers());
        Ok(response)
    }

    /// Whether the same request with the nonce of the response may succeed (RFC 9449 §8).
    fn needs_nonce(&self, response: &Response) -> bool {
        self.proofs.is_some()
            && dpop::has_nonce(response.headers())
            && response.json::<OAuthError>().is_ok_and(|error| error.error == dpop::USE_NONCE)
    }
}

impl<'c> AsyncHttpClient<'c> for Wire<'_> {
    type Error = WireError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, WireError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let content_type = parts.headers.remove(header::CONTENT_TYPE);
            let content_type =
                content_type.ok_or(WireError::Status { status: StatusCode::BAD_REQUEST, retry_after: None })?;
            let url = parts.uri.to_string();
            let (sent, mut headers) = (Bytes::from(body), parts.headers);
            let mut response = self.post(&url, content_type.clone(), sent.clone(), &mut headers).await?;
            if self.needs_nonce(&response) {
                response = self.post(&url, content_type, sent.clone(), &mut headers).await?;
            }
            let status = response.status();
            // Some authorization servers refuse with the status 200.
            let (status, body) = match (status.is_success(), response.json::<OAuthError>()) {
                (true, Err(_)) => (StatusCode::OK, document(response.body())),
                (_, Ok(mut refusal)) if !status.is_server_error() => {
                    redact(&mut refusal, &headers, &sent);
                    (StatusCode::BAD_REQUEST, serde_json::to_vec(&refusal).unwrap_or_default())
                }
                _ => {
                    let retry_after = retry_after(response.headers(), SystemTime::now());
                    return Err(WireError::Status { status, retry_after });
                }
            };
            let mut answer = HttpResponse::new(body);
            *answer.status_mut() = status;
            *answer.headers_mut() = HeaderMap::new();
            Ok(answer)
        })
    }
}

/// Returns a body that is one JSON document; no bytes for any other body. The crate `oauth2` ignores bytes behind a document.
fn document(body: &[u8]) -> Vec<u8> {
    if serde_json::from_slice::<IgnoredAny>(body).is_ok() { body.to_vec() } else { Vec::new() }
}

/// The fault of one request.
#[derive(Debug)]
pub(super) enum WireError {
    Fetch(FetchError),
    /// The answer is not a document of OAuth.
    Status {
        status: StatusCode,
        retry_after: Option<Duration>,
    },
    /// The proof for the request cannot be signed.
    Proof(Error),
}

/// Returns the wait that a server demands, in seconds or until a date (RFC 9110 §10.2.3).
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    match value.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default()),
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetch(error) => error.fmt(f),
            Self::Status { status, .. } => write!(f, "the status is {status}"),
            Self::Proof(error) => error.fmt(f),
        }
    }
}

impl StdError for WireError {}
