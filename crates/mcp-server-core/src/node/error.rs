//! The error of a message between nodes.

use std::{error::Error, fmt};

use mcp_protocol::RpcError;
use serde_json::json;

use crate::store;

/// The error of a request to another node, or of a node without a lease.
///
/// ```
/// use mcp_server_core::engine::NodeError;
///
/// fn describe(error: &NodeError) -> &'static str {
///     match error {
///         error if error.is_unavailable() => "the shared store does not respond",
///         error if error.is_gone() => "the node has stopped",
///         error if error.is_unacknowledged() => "the node does not respond",
///         error if error.is_interrupted() => "the store failed after the request was sent",
///         _ => "the node rejected the request",
///     }
/// }
/// # let _ = describe;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeError(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unavailable,
    Interrupted,
    Gone,
    Unacknowledged,
    NoReply,
    Unsupported,
    Busy,
    Failed,
    TooLarge,
}

impl NodeError {
    pub(super) fn unavailable() -> Self {
        Self(Kind::Unavailable)
    }

    pub(super) fn interrupted() -> Self {
        Self(Kind::Interrupted)
    }

    pub(super) fn gone() -> Self {
        Self(Kind::Gone)
    }

    pub(super) fn unacknowledged() -> Self {
        Self(Kind::Unacknowledged)
    }

    pub(super) fn no_reply() -> Self {
        Self(Kind::NoReply)
    }

    pub(crate) fn unsupported() -> Self {
        Self(Kind::Unsupported)
    }

    pub(super) fn busy() -> Self {
        Self(Kind::Busy)
    }

    pub(super) fn failed() -> Self {
        Self(Kind::Failed)
    }

    pub(super) fn too_large() -> Self {
        Self(Kind::TooLarge)
    }

    /// Whether the shared store failed, or this node has no lease. The node did not receive the request.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.0 == Kind::Unavailable
    }

    /// Whether the shared store failed, or this node lost its lease, after the request was sent. The node may have run the
    /// request.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.0 == Kind::Interrupted
    }

    /// Whether the node has no lease. Its work has ended, or ends with its lease.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.0 == Kind::Gone
    }

    /// Whether the node did not acknowledge the request in time. It may still receive the request.
    #[must_use]
    pub fn is_unacknowledged(&self) -> bool {
        self.0 == Kind::Unacknowledged
    }

    /// Whether the node has no handler for the kind of the request.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.0 == Kind::Unsupported
    }

    /// Returns the error of the request of a client that needs the other node: `-32603`. The client can repeat the request,
    /// because a second request of the same content has no second effect. The data of the error excludes this for a message that is
    /// too large, and for a kind of requests that the node does not know.
    #[must_use]
    pub fn to_rpc(&self) -> RpcError {
        if self.is_unavailable() {
            return store::unavailable();
        }
        // Another attempt sends the same message to the same program.
        let is_retryable = !matches!(self.0, Kind::TooLarge | Kind::Unsupported);
        let data = json!({ "reason": "node_unavailable", "retryable": is_retryable });
        RpcError::internal(self.to_string()).with_data(data)
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Unavailable => "the shared store is unavailable",
            Kind::Interrupted => "the shared store failed while the node of this work had the request",
            Kind::Gone => "the node of this work has stopped",
            Kind::Unacknowledged => "the node of this work did not acknowledge the request in time",
            Kind::NoReply => "the node of this work did not reply in time",
            Kind::Unsupported => "the node of this work does not support the request",
            Kind::Busy => "the node of this work has too many requests",
            Kind::Failed => "the node of this work failed to process the request",
            Kind::TooLarge => "the message is too large for another node",
        })
    }
}

impl Error for NodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_error_that_can_change_is_retryable() {
        for (error, is_retryable) in [
            (NodeError::unavailable(), true),
            (NodeError::gone(), true),
            (NodeError::busy(), true),
            (NodeError::too_large(), false),
            (NodeError::unsupported(), false),
        ] {
            assert_eq!(error.to_rpc().data.unwrap()["retryable"], is_retryable, "{error}");
        }
    }
}
