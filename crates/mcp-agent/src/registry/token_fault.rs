//! The faults of the token exchange of a caller.

/// The fault of a call whose caller has no token that the server accepts
/// ([`TokenExchange`](crate::config::TokenExchange)). Calls of other callers are not affected.
///
/// ```
/// use mcp_agent::TokenFault;
///
/// assert!(TokenFault::Unavailable.is_temporary() && !TokenFault::Missing.is_temporary());
/// assert_eq!(TokenFault::Refused.as_str(), "token_refused");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFault {
    /// The caller has no access token.
    #[error("the caller has no access token for the token exchange of the server: log in with an access token")]
    Missing,
    /// Another issuer issued the token of the caller.
    #[error("the token exchange of the server does not accept the issuer of the caller's token")]
    OtherIssuer,
    /// The token endpoint refused the token of the caller.
    #[error("the token endpoint of the server refused the token of the caller")]
    Refused,
    /// The server did not accept the exchanged token of the caller, nor a newer one.
    #[error("the server did not accept the token of the caller")]
    NotAccepted,
    /// The token endpoint is away.
    #[error("the token endpoint of the server is not available")]
    Unavailable,
}

impl TokenFault {
    /// Returns the stable name of the fault, which a gateway sends in the data of an error.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "token_missing",
            Self::OtherIssuer => "token_of_other_issuer",
            Self::Refused => "token_refused",
            Self::NotAccepted => "token_not_accepted",
            Self::Unavailable => "token_endpoint_unavailable",
        }
    }

    /// Whether the same call can succeed later.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn is_temporary(self) -> bool {
        self == Self::Unavailable
    }
}
