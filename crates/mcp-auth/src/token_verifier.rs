//! The trait of providers that check tokens, and the use of a token as a bearer token.

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use mcp_protocol::auth::Confirmation;
use ring::digest;

use crate::{
    authenticator::{AuthRequest, Authenticated, Authenticator, BoxFuture, Rejection},
    credentials,
};

/// A provider that checks tokens of any scheme. [`Dpop`](crate::Dpop) needs it.
///
/// ```
/// use mcp_auth::{Jwt, Rejection, TokenVerifier};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let jwt = Jwt::hs256("https://as.example", b"0123456789abcdef0123456789abcdef")?;
/// let result = jwt.verify_token("hunter2", "https://mcp.example.com/mcp").await;
/// assert_eq!(result.unwrap_err(), Rejection::Invalid);
/// # Ok::<_, mcp_auth::ConfigError>(())
/// # }).unwrap();
/// ```
pub trait TokenVerifier: Authenticator {
    /// Checks a token for the endpoint at this public URL. The result has a confirmation if the token is bound to a key. The
    /// token has only characters that RFC 6750 §2.1 allows.
    ///
    /// # Errors
    /// The reason for which the token is not accepted.
    fn verify_token<'a>(&'a self, token: &'a str, resource: &'a str)
    -> BoxFuture<'a, Result<Authenticated, Rejection>>;
}

/// Checks the token of `Authorization: Bearer …`. A token that is bound to a DPoP key is invalid there.
pub(crate) async fn bearer(
    verifier: &dyn TokenVerifier,
    request: &AuthRequest<'_>,
) -> Result<Authenticated, Rejection> {
    let token = credentials::token(request.headers, "Bearer")?.ok_or(Rejection::Missing)?;
    check_binding(verifier.verify_token(token, request.resource).await?, request)
}

/// Returns the result of [`bearer`] if it is known without a wait. `known` receives the token before its characters are checked,
/// and accepts equal texts of valid tokens alone.
pub(crate) fn bearer_now(
    request: &AuthRequest<'_>,
    known: impl FnOnce(&str) -> Option<Result<Authenticated, Rejection>>,
) -> Option<Result<Authenticated, Rejection>> {
    credentials::bearer_now(request.headers, |token| {
        Some(known(token)?.and_then(|authenticated| check_binding(authenticated, request)))
    })
}

/// Rejects a token that is bound to a key, unless the key is that of the client certificate of the request. A bearer token has
/// no proof of another key.
fn check_binding(authenticated: Authenticated, request: &AuthRequest<'_>) -> Result<Authenticated, Rejection> {
    let Some(confirmation) = &authenticated.principal.confirmation else { return Ok(authenticated) };
    if confirmation.jkt.is_some() || confirmation.x5t_s256.is_none() {
        tracing::debug!("rejected a token that is bound to a key, without a proof of the key");
        return Err(Rejection::Invalid);
    }
    check_certificate(confirmation, request)?;
    Ok(authenticated)
}

/// Rejects a token that is bound to a certificate, unless it is the client certificate of the request (RFC 8705 §3).
pub(crate) fn check_certificate(confirmation: &Confirmation, request: &AuthRequest<'_>) -> Result<(), Rejection> {
    let Some(expected) = &confirmation.x5t_s256 else { return Ok(()) };
    let reason = match request.client_certificate {
        Some(der) if BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, der)) == *expected => return Ok(()),
        Some(_) => "the client has another certificate",
        None => "the client has no certificate",
    };
    tracing::debug!(reason, "rejected a token that is bound to a certificate");
    Err(Rejection::Invalid)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{HeaderMap, HeaderValue, Method, header::AUTHORIZATION};
    use mcp_protocol::Challenge;
    use parking_lot::Mutex;

    use super::*;
    use crate::Dpop;

    /// A verifier of an application, which rejects each token and records it.
    #[derive(Debug, Default, Clone)]
    struct Recorder(Arc<Mutex<Vec<String>>>);

    impl TokenVerifier for Recorder {
        fn verify_token<'a>(&'a self, token: &'a str, _: &'a str) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
            self.0.lock().push(token.to_owned());
            Box::pin(async { Err(Rejection::Invalid) })
        }
    }

    impl Authenticator for Recorder {
        fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
            Box::pin(bearer(self, request))
        }

        fn challenges(&self) -> Vec<Challenge> {
            vec![Challenge::bearer()]
        }
    }

    #[tokio::test]
    async fn a_verifier_receives_no_invalid_characters() {
        let recorder = Recorder::default();
        let dpop = Dpop::new(recorder.clone());
        for (value, expected) in [
            ("Bearer a,b", Rejection::Malformed),
            ("DPoP a,b", Rejection::Malformed),
            ("Bearer a\tb", Rejection::Malformed),
            ("Bearer valid-1", Rejection::Invalid),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            let request = AuthRequest::new(&Method::POST, "https://mcp.example.com/mcp", &headers);
            let known = dpop.authenticate_now(&request).map(Result::unwrap_err);
            assert!(known.is_none_or(|known| known == expected), "{value}");
            assert_eq!(dpop.authenticate(&request).await.unwrap_err(), expected, "{value}");
        }
        assert_eq!(*recorder.0.lock(), ["valid-1"]);
    }
}
