//! The trait of providers that check tokens, and the use of a token as a bearer token.

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
    /// Checks a token for the endpoint at this public URL. The result has a confirmation if the token is bound to a key.
    ///
    /// # Errors
    /// The reason for which the token is not accepted.
    fn verify_token<'a>(&'a self, token: &'a str, resource: &'a str)
    -> BoxFuture<'a, Result<Authenticated, Rejection>>;
}

/// Checks the token of `Authorization: Bearer …`. A token that is bound to a key is invalid there.
pub(crate) async fn bearer(
    verifier: &dyn TokenVerifier,
    request: &AuthRequest<'_>,
) -> Result<Authenticated, Rejection> {
    let token = credentials::token(request.headers, "Bearer")?.ok_or(Rejection::Missing)?;
    let authenticated = verifier.verify_token(token, request.resource).await?;
    if authenticated.principal.confirmation.is_some() {
        tracing::debug!("rejected a token that is bound to a key, without a proof of the key");
        return Err(Rejection::Invalid);
    }
    Ok(authenticated)
}
