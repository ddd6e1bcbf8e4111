//! The challenges of responses to callers that lack credentials or scopes (RFC 9110 §11.6.1, RFC 6750 §3).

use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use mcp_protocol::Challenge;

use crate::answer::body::Body;

/// Returns the challenges of an authenticator that names none, because each 401 must have a challenge (RFC 9110 §15.5.2). Tokens
/// of an authorization server are bearer tokens. A header of its own has the scheme of API keys.
pub(super) fn defaults(headers: &[HeaderName], has_metadata: bool) -> Vec<Challenge> {
    let is_own = |name: &&HeaderName| **name != header::AUTHORIZATION && !has_metadata;
    let own = headers.iter().filter(is_own).map(|name| Challenge::new("ApiKey").with_param("header", name.as_str()));
    let mut all: Vec<_> = own.collect();
    if all.is_empty() || headers.contains(&header::AUTHORIZATION) {
        all.push(Challenge::bearer());
    }
    all
}

/// Adds the scopes that a client needs to a challenge.
pub(super) fn with_scopes(challenge: Challenge, scopes: &[String]) -> Challenge {
    // Only tokens have scopes that a client can request.
    let has_scopes = challenge.is_scheme("Bearer") || challenge.is_scheme("DPoP") || challenge.error.is_some();
    // A server should not ask for refresh tokens.
    let scopes = scopes.iter().map(String::as_str).filter(|scope| *scope != "offline_access");
    if has_scopes { challenge.with_scopes(scopes) } else { challenge }
}

/// Adds a header for each challenge. A response with the status 401 has at least one challenge.
pub(super) fn add(response: &mut Response<Body>, challenges: impl IntoIterator<Item = Challenge>) {
    for challenge in challenges {
        match HeaderValue::try_from(challenge.to_string()) {
            Ok(value) => {
                response.headers_mut().append(header::WWW_AUTHENTICATE, value);
            }
            Err(_) => {
                let scheme = challenge.scheme;
                tracing::error!(scheme, "a challenge contains a control character, so the response does not have it");
            }
        }
    }
    if response.status() == StatusCode::UNAUTHORIZED && !response.headers().contains_key(header::WWW_AUTHENTICATE) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authenticator_without_challenges_has_defaults() {
        const AUTHORIZATION: &str = "authorization";
        for (headers, has_metadata, expected) in [
            (&[AUTHORIZATION][..], true, &["Bearer"][..]),
            (&[AUTHORIZATION], false, &["Bearer"]),
            (&[], false, &["Bearer"]),
            (&["x-ticket"], false, &[r#"ApiKey header="x-ticket""#]),
            (&["x-ticket"], true, &["Bearer"]),
            (&["x-ticket", AUTHORIZATION], false, &[r#"ApiKey header="x-ticket""#, "Bearer"]),
        ] {
            let names: Vec<HeaderName> = headers.iter().map(|name| HeaderName::from_static(name)).collect();
            let got: Vec<String> = defaults(&names, has_metadata).iter().map(ToString::to_string).collect();
            assert_eq!(got, expected, "{headers:?} {has_metadata}");
        }
    }

    #[test]
    fn a_challenge_that_cannot_be_sent_leaves_a_challenge() {
        for (status, challenge, expected) in [
            (401, Challenge::new("Ticket"), Some("Ticket")),
            (401, Challenge::new("Tic\nket"), Some("Bearer")),
            (400, Challenge::new("Tic\nket"), None),
        ] {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            add(&mut response, [challenge]);
            let got = response.headers().get(header::WWW_AUTHENTICATE).map(|value| value.to_str().unwrap());
            assert_eq!(got, expected, "{status}");
        }
    }
}
