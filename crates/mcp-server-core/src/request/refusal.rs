//! The reasons for which a request is rejected before it runs.

use mcp_protocol::RpcError;
use serde_json::json;

use super::Denied;
use crate::trace::Ending;

/// The reason for which a request is rejected before it runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Refusal {
    /// A JSON-RPC error.
    Error(RpcError),
    /// The caller lacks access.
    Denied(Denied),
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
            Self::Denied(_) => Ending::LacksScopes,
        }
    }

    /// Returns the JSON-RPC error, for transports without a status for missing access.
    #[must_use]
    pub fn into_error(self) -> RpcError {
        match self {
            Self::Error(error) => error,
            Self::Denied(denied) => denied.to_error(),
        }
    }
}

impl Denied {
    pub(crate) fn to_error(&self) -> RpcError {
        let names: Vec<_> = self.scopes.iter().map(|scope| format!("`{scope}`")).collect();
        let text = if names.is_empty() {
            "this request needs authentication".to_owned()
        } else {
            format!("insufficient scope: this request needs {}", names.join(", "))
        };
        let error = RpcError::invalid_request(text);
        if self.scopes.is_empty() { error } else { error.with_data(json!({ "requiredScopes": self.scopes })) }
    }
}
