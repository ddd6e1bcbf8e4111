//! Requests of the server to an issuer about one token: their number, their credentials and their failures.

use std::{sync::Arc, time::Duration};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use mcp_fetch::{FetchError, Response};
use mcp_protocol::auth::Secret;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{authenticator::Rejection, error::ConfigError};

/// The requests to an issuer that run at once.
const RUNNING: usize = 64;
/// The longest time that a further request waits. It is rejected then.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The time after which a client may try again, if the issuer names no other.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// The longest such time that a client receives.
const LONGEST: Duration = Duration::from_secs(300);

/// The credentials of the server at an issuer, and the bound of its requests.
#[derive(Clone)]
pub(crate) struct IssuerRequests {
    pub(crate) authorization: HeaderValue,
    running: Arc<Semaphore>,
}

impl IssuerRequests {
    /// Takes the client id and the secret as they are sent: RFC 6749 §2.3.1 encodes them, GitHub does not.
    pub(crate) fn new(id: &str, secret: &str) -> Result<Self, ConfigError> {
        let encoded = format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")));
        let invalid = |_| ConfigError::new("the client id or its secret cannot be sent in a header");
        let mut authorization = HeaderValue::try_from(encoded).map_err(invalid)?;
        authorization.set_sensitive(true);
        Ok(Self { authorization, running: Arc::new(Semaphore::new(RUNNING)) })
    }

    /// Begins a request. Dropping the permit ends it.
    pub(crate) async fn begin(&self) -> Result<OwnedSemaphorePermit, Rejection> {
        let permit = tokio::time::timeout(MAX_WAIT, Arc::clone(&self.running).acquire_owned()).await;
        permit.ok().and_then(Result::ok).ok_or(Rejection::Unavailable { retry_after: Duration::from_secs(1) })
    }
}

/// Returns the percent-encoding of the client id or its secret (RFC 6749 §2.3.1).
pub(crate) fn form_encoded(text: &Secret) -> String {
    url::form_urlencoded::byte_serialize(text.expose().as_bytes()).collect()
}

/// Returns the rejection for a request that had no response.
pub(crate) fn no_response(issuer: &str, error: &FetchError) -> Rejection {
    tracing::warn!(issuer, %error, "the issuer of a token cannot be reached");
    Rejection::Unavailable { retry_after: RETRY_AFTER }
}

/// Returns the rejection for a response that is not about the token: a wrong configuration of the server, or an outage.
pub(crate) fn unexpected(issuer: &str, response: &Response) -> Rejection {
    let status = response.status();
    if matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
        && !response.headers().contains_key(header::RETRY_AFTER)
    {
        tracing::error!(issuer, %status, "the issuer rejects the credentials of this server: check the configuration");
    } else {
        tracing::warn!(issuer, %status, "the issuer of a token does not answer");
    }
    Rejection::Unavailable { retry_after: retry_after(response.headers()) }
}

/// Returns the rejection for a response that is not in the form of the specification.
pub(crate) fn malformed(issuer: &str) -> Rejection {
    tracing::error!(issuer, "the response of an issuer about a token is malformed");
    Rejection::Unavailable { retry_after: RETRY_AFTER }
}

fn retry_after(headers: &HeaderMap) -> Duration {
    let value = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = value.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    seconds.unwrap_or(RETRY_AFTER).clamp(Duration::from_secs(1), LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_times_are_bounded() {
        for (value, expected) in [("0", 1), ("7", 7), ("99999", 300), ("x", 5), ("", 5)] {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, value.parse().unwrap())]);
            assert_eq!(retry_after(&headers), Duration::from_secs(expected), "{value}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), RETRY_AFTER);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_above_the_limit_wait_for_a_bounded_time() {
        let requests = IssuerRequests::new("id", "secret").unwrap();
        let mut permits = Vec::new();
        for _ in 0..RUNNING {
            permits.push(requests.begin().await.unwrap());
        }
        let start = tokio::time::Instant::now();
        let ended = async {
            tokio::time::sleep(MAX_WAIT - Duration::from_secs(1)).await;
            permits.pop();
        };
        let (first, second, ()) = tokio::join!(requests.begin(), requests.begin(), ended);
        assert!(first.is_ok());
        assert!(matches!(second, Err(Rejection::Unavailable { .. })));
        assert_eq!(start.elapsed(), MAX_WAIT);
    }
}
