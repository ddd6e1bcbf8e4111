//! The reasons for which a request is rejected before it runs.

use mcp_protocol::RpcError;
use serde_json::json;

/// Why a request is refused before anything runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Refusal {
    /// A JSON-RPC error.
    Error(RpcError),
    /// The caller lacks scopes: all that the operation needs are listed.
    Scopes(Vec<String>),
}

impl From<RpcError> for Refusal {
    fn from(error: RpcError) -> Self {
        Self::Error(error)
    }
}

impl Refusal {
    /// The error for transports that have no other way to say it.
    #[must_use]
    pub fn into_error(self) -> RpcError {
        match self {
            Self::Error(error) => error,
            Self::Scopes(scopes) => {
                RpcError::invalid_request("insufficient scope").with_data(json!({ "requiredScopes": scopes }))
            }
        }
    }
}
