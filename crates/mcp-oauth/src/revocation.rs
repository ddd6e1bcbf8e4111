//! The effect of a logout at the authorization server.

use crate::error::Error;

/// The effect of [`OAuth::log_out`](crate::OAuth::log_out) at the authorization server.
///
/// ```no_run
/// use mcp_oauth::Revocation;
///
/// # async fn example(auth: &mcp_oauth::OAuth) -> Result<(), Box<dyn std::error::Error>> {
/// if let Revocation::Failed(error) = auth.log_out(&"https://mcp.example.com/mcp".parse()?).await? {
///     eprintln!("the tokens are removed, and may still be valid: {error}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Revocation {
    /// There were no tokens.
    NoLogin,
    /// The authorization server revoked the tokens.
    Revoked,
    /// The authorization server has no `revocation_endpoint`. The tokens are valid until their end.
    Unsupported,
    /// The revocation failed. The tokens may be valid until their end.
    Failed(Error),
}
