//! Deliberate faults, for tests of clients and of resource servers.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use parking_lot::Mutex;

use super::{journal::Endpoint, message};

/// A deliberate fault of the authorization server.
///
/// ```
/// use mcp_test::authorization_server::{AuthorizationServer, Misbehavior};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let server = AuthorizationServer::builder().misbehave(Misbehavior::NoIss).start().await?;
/// // A fault can also begin later, and last for a number of requests.
/// server.misbehave_times(Misbehavior::RefreshRejected, 1);
/// server.behave();
/// # Ok::<_, mcp_test::authorization_server::AuthorizationServerError>(()) }).unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misbehavior {
    /// An endpoint has a faulty response.
    Response(Endpoint, ResponseFault),
    /// The metadata names another issuer (RFC 8414 §3.3).
    WrongIssuer,
    /// The metadata does not list the methods of PKCE.
    NoPkceMethods,
    /// The redirect has the parameter `iss` of another issuer (RFC 9207).
    WrongIss,
    /// The redirect has no parameter `iss`, although the metadata declares it.
    NoIss,
    /// The redirect has the parameter `iss` with a slash at its end, which the issuer does not have.
    IssWithSlash,
    /// The metadata does not declare the parameter `iss`. The redirect has it, unless [`NoIss`](Self::NoIss) is active too.
    IssNotDeclared,
    /// The redirect has another `state`.
    ChangedState,
    /// Registrations are rejected.
    RegistrationRejected,
    /// The answer to a registration has other redirect URIs, and only these are registered.
    OtherRedirectUris,
    /// A registered client is deleted when it makes its next request. Clients of the builder stay.
    ForgetsClients,
    /// The token response has the type `mac`.
    WrongTokenType,
    /// Access tokens expire in the second in which they are issued.
    ExpiredTokens,
    /// The token response has no `expires_in`.
    NoExpiresIn,
    /// A refresh token that is used twice revokes its family, also if the first use was a moment ago.
    NoRefreshGrace,
    /// Refresh tokens are rejected with `invalid_grant`.
    RefreshRejected,
    /// Tokens have the audience `https://wrong.example/`.
    WrongAudience,
    /// Requests with the parameter `resource` are rejected with `invalid_target`.
    ResourceRejected,
    /// Tokens have only the first of the scopes that the user approved.
    NarrowScope,
    /// The key set is empty.
    NoKeys,
    /// The key set has 10,000 keys and more than 1 MiB.
    HugeKeySet,
    /// Each token has a new key, and the key set contains only the last.
    RotatesKeys,
    /// Tokens name a key that the key set does not contain.
    UnknownKeyId,
    /// The token endpoint demands a new nonce for each DPoP proof, so that no proof is accepted (RFC 9449 §8).
    NonceLoop,
}

/// A faulty response of an endpoint.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_test::authorization_server::{Endpoint, Misbehavior, ResponseFault};
///
/// let outage = ResponseFault::Unavailable { retry_after: Duration::from_secs(2) };
/// assert_ne!(Misbehavior::Response(Endpoint::Token, outage), Misbehavior::NoIss);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseFault {
    /// The status, with a text as the body. An invalid status is 500. The endpoint does not process the request.
    Status(u16),
    /// Status 503 with `Retry-After` in seconds. The endpoint does not process the request.
    Unavailable {
        /// The value of `Retry-After`.
        retry_after: Duration,
    },
    /// Status 200 with an HTML page. The endpoint does not process the request.
    Html,
    /// Status 307 to a URL. The endpoint does not process the request.
    Redirect(String),
    /// Status 200 with 4 MiB of JSON. The endpoint does not process the request.
    Huge,
    /// The valid response, after a delay.
    Slow(Duration),
    /// The first half of the valid response. Then the connection closes.
    Truncated,
}

/// The size of a huge response, in bytes.
const HUGE: usize = 4 << 20;

impl ResponseFault {
    /// Returns the response, if it does not depend on the request.
    pub(super) fn response(&self) -> Option<Response<Bytes>> {
        let response = match self {
            Self::Status(status) => {
                let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                message::plain(status, "a deliberate fault")
            }
            Self::Unavailable { retry_after } => {
                let mut response = message::plain(StatusCode::SERVICE_UNAVAILABLE, "a deliberate outage");
                response.headers_mut().insert(header::RETRY_AFTER, retry_after.as_secs().into());
                response
            }
            Self::Html => message::page(StatusCode::OK, "<!doctype html><title>Portal</title><p>Log in".to_owned()),
            Self::Redirect(url) => {
                let mut response = message::plain(StatusCode::TEMPORARY_REDIRECT, "");
                if let Ok(location) = HeaderValue::try_from(url) {
                    response.headers_mut().insert(header::LOCATION, location);
                }
                response
            }
            Self::Huge => {
                let body = format!("{{\"padding\":\"{}\"}}", "x".repeat(HUGE));
                message::with_type(StatusCode::OK, "application/json", body)
            }
            Self::Slow(_) | Self::Truncated => return None,
        };
        Some(response)
    }
}

/// The faults that are active.
#[derive(Debug, Default)]
pub(super) struct Misbehaviors(Mutex<Vec<Active>>);

#[derive(Debug)]
struct Active {
    misbehavior: Misbehavior,
    /// The number of times that are left. `None` means without end.
    left: Option<usize>,
}

impl Misbehaviors {
    pub(super) fn add(&self, misbehavior: Misbehavior, times: Option<usize>) {
        if times != Some(0) {
            self.0.lock().push(Active { misbehavior, left: times });
        }
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Whether a fault occurs now. The number of times decreases.
    pub(super) fn occurs(&self, misbehavior: &Misbehavior) -> bool {
        self.take(|other| (other == misbehavior).then_some(())).is_some()
    }

    /// Returns the fault of a response that occurs now.
    pub(super) fn response(&self, endpoint: Endpoint) -> Option<ResponseFault> {
        self.take(|misbehavior| match misbehavior {
            Misbehavior::Response(other, fault) if *other == endpoint => Some(fault.clone()),
            _ => None,
        })
    }

    fn take<T>(&self, select: impl Fn(&Misbehavior) -> Option<T>) -> Option<T> {
        let mut all = self.0.lock();
        let (index, selected) =
            all.iter().enumerate().find_map(|(index, active)| Some((index, select(&active.misbehavior)?)))?;
        if let Some(left) = &mut all[index].left {
            *left -= 1;
            if *left == 0 {
                all.remove(index);
            }
        }
        Some(selected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_occur_as_often_as_configured() {
        let all = Misbehaviors::default();
        all.add(Misbehavior::NoIss, Some(2));
        all.add(Misbehavior::WrongIss, None);
        all.add(Misbehavior::NoKeys, Some(0));
        let occurs = |misbehavior| (0..3).map(|_| all.occurs(&misbehavior)).collect::<Vec<_>>();
        assert_eq!(occurs(Misbehavior::NoIss), [true, true, false]);
        assert_eq!(occurs(Misbehavior::WrongIss), [true, true, true]);
        assert_eq!(occurs(Misbehavior::NoKeys), [false, false, false]);
        all.add(Misbehavior::Response(Endpoint::Token, ResponseFault::Truncated), Some(1));
        assert_eq!(all.response(Endpoint::Registration), None);
        assert_eq!(all.response(Endpoint::Token), Some(ResponseFault::Truncated));
        assert_eq!(all.response(Endpoint::Token), None);
        all.clear();
        assert_eq!(occurs(Misbehavior::WrongIss), [false, false, false]);
    }
}
