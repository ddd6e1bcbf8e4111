//! The reasons for which a request is rejected before it runs.

use mcp_protocol::RpcError;
use serde_json::json;

use crate::trace::Ending;

/// The reason for which a request is rejected before it runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Refusal {
    /// A JSON-RPC error.
    Error(RpcError),
    /// The caller lacks scopes. All scopes of the operation are listed.
    Scopes(Vec<String>),
}

impl From<RpcError> for Refusal {
    fn from(error: RpcError) -> Self {
        Self::Error(error)
    }
}

impl Refusal {
    /// Returns the end that the span of the request records.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::Error(error) => Ending::Refused(error.code),
            Self::Scopes(_) => Ending::LacksScopes,
        }
    }

    /// Returns the JSON-RPC error, for transports without a status for missing scopes.
    #[must_use]
    pub fn into_error(self) -> RpcError {
        match self {
            Self::Error(error) => error,
            Self::Scopes(scopes) => {
                let names: Vec<_> = scopes.iter().map(|scope| format!("`{scope}`")).collect();
                let text = format!("insufficient scope: this request needs {}", names.join(", "));
                RpcError::invalid_request(text).with_data(json!({ "requiredScopes": scopes }))
            }
        }
    }
}
